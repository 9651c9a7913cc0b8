"""The errors of runs, and the texts that users see of them."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

SERVER_STOPPED = "SERVER_STOPPED"
"""Our error code of a run whose server stopped before the run ended."""
_OWN_TEXTS = {SERVER_STOPPED: "The server stopped before this answer was finished. Ask again to go on."}


class Failure(NamedTuple):
    """The error of a run, from ADK's error event."""

    code: str
    message: str


Explain: TypeAlias = Callable[[Failure], str]
"""A function that returns the text which a user sees of a failure."""


def explain_briefly(failure: Failure) -> str:
    """Return a text with the error's code only: its message may contain what a user must not see."""
    text = f"The agent could not answer ({failure.code}). Try again; the server's log says what happened."
    return _OWN_TEXTS.get(failure.code, text)


def explain_fully(failure: Failure) -> str:
    """Return a text with the error's code and message, for a developer's own machine."""
    return (
        f"The agent could not answer: {failure.code}: {failure.message}"
        if failure.message and failure.code not in _OWN_TEXTS
        else explain_briefly(failure)
    )
