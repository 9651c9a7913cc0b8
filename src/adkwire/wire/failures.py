"""Why an answer failed, and how much of it a person is told."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

SERVER_STOPPED = "SERVER_STOPPED"
"""The error code of our own for an answer whose server was gone before its end."""
_OWN_WORDS = {SERVER_STOPPED: "The server stopped before this answer was finished. Ask again to go on."}


class Failure(NamedTuple):
    """Why a run failed, as ADK's error event tells it."""

    code: str
    message: str


Explain: TypeAlias = Callable[[Failure], str]
"""How a failure is told to the person; the server decides how much is said."""


def explain_briefly(failure: Failure) -> str:
    """Name the failure and keep its words on the server: they may hold what a visitor should not read."""
    briefly = f"The agent could not answer ({failure.code}). Try again; the server's log says what happened."
    return _OWN_WORDS.get(failure.code, briefly)


def explain_fully(failure: Failure) -> str:
    """Name the failure with its words: for the developer's own machine."""
    return (
        f"The agent could not answer: {failure.code}: {failure.message}"
        if failure.message and failure.code not in _OWN_WORDS
        else explain_briefly(failure)
    )
