"""The form of a scenario: what a user does, and what is expected."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.records import Record


def _nothing(record: Record) -> None:
    """Check nothing beyond the rules for every scenario."""


@dataclass(frozen=True)
class Case:
    """A scenario for the drivers in `drivers.mjs` and its expectations.

    `requests` counts what each page's transport sends. `error` is in the words the client gets, on every page or on
    those in `error_in`; with `recovers` a later turn ends well; with `refused` the last request is answered by that
    status. A page in `cut` has not got all of the message at `cut_at`, because it dropped its connection or others went
    on without it: a stock client then keeps that message as it stood. A page in `lost` saw its connection break. A page
    in `behind` cannot know every message.

    `ledger` is what tools really did, `executions` what the browser really did, over all pages. `left` names what is
    meant to stay open at the end, as `tool state`.
    """

    name: str
    drive: str
    args: Mapping[str, Any]
    check: Callable[[Record], None] = _nothing
    requests: Mapping[str, int] = field(default_factory=lambda: {"page": 1})
    error: str | None = None
    error_in: frozenset[str] | None = None
    recovers: bool = False
    refused: int | None = None
    cut: frozenset[str] = frozenset()
    cut_at: int = 1
    lost: frozenset[str] = frozenset()
    behind: frozenset[str] = frozenset()
    ledger: tuple[str, ...] = ()
    executions: tuple[str, ...] = ()
    left: frozenset[str] = frozenset()

    def error_of(self, page: str) -> str | None:
        """Return the error that is expected in a page."""
        return self.error if self.error_in is None or page in self.error_in else None

    def chat(self, version: str) -> str:
        """The id of the chat that a client of this version uses for it."""
        return re.sub(r"\W+", "-", f"{version}-{self.name}")

    def job(self, chat: str) -> dict[str, Any]:
        """The line that `client.mjs` reads."""
        return {"name": self.name, "chat": chat, "drive": self.drive, **self.args}


def say(name: str, *texts: str, check: Callable[[Record], None] = _nothing, error: str | None = None) -> Case:
    """Return a case that sends one message after the other in one chat, with one request each."""
    return Case(name, "say", {"texts": list(texts)}, check, {"page": len(texts)}, error)
