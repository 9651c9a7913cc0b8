"""The form of a scenario: what a person does, and what has to come of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.records import Record


def _nothing(record: Record) -> None:
    """Only what holds for every scenario is asked."""


@dataclass(frozen=True)
class Case:
    """A scenario for the drivers in `drivers.mjs` and its expectations.

    `requests` counts what each page's transport sends. `error` is in the words the client gets; with `recovers` a later
    turn ends well; with `refused` the last request is answered by that status. A page in `cut` dropped its own
    connection in mid-answer: a stock client then keeps that message as it stood. A page in `behind` cannot know every
    message of the chat.
    """

    name: str
    drive: str
    args: Mapping[str, Any]
    check: Callable[[Record], None] = _nothing
    requests: Mapping[str, int] = field(default_factory=lambda: {"page": 1})
    error: str | None = None
    recovers: bool = False
    refused: int | None = None
    cut: frozenset[str] = frozenset()
    behind: frozenset[str] = frozenset()

    def job(self, chat: str) -> dict[str, Any]:
        """The line that `client.mjs` reads."""
        return {"name": self.name, "chat": chat, "drive": self.drive, **self.args}


def say(name: str, *texts: str, check: Callable[[Record], None] = _nothing, error: str | None = None) -> Case:
    """One message after the other in one chat, one request each."""
    return Case(name, "say", {"texts": list(texts)}, check, {"page": len(texts)}, error)
