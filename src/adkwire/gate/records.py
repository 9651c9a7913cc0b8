"""What the gate keeps: calls that wait, what was answered, and the one table of their states.

| in                       | on                                          | goes to   |
|--------------------------|---------------------------------------------|-----------|
| (none)                   | a question to a person                      | ASKED     |
| (none)                   | a call for the browser that nobody gates    | OFFERED   |
| ASKED                    | yes, to a browser call, without its output  | OFFERED   |
| ASKED                    | yes, no, expiry                             | ANSWERED  |
| OFFERED                  | output, error, expiry                       | ANSWERED  |
| ANSWERED                 | the claim: an approved server call begins   | EXECUTING |
| ANSWERED                 | no, expiry or output reached the agent      | DONE      |
| EXECUTING                | result, failure                             | DONE      |
| EXECUTING                | crash, cancellation                         | UNKNOWN   |
| ASKED, OFFERED, ANSWERED | superseded, stopped, interrupted            | VOID      |
| ANSWERED                 | the same, once its fate was unknown         | UNKNOWN   |
| ANSWERED                 | restart before anything reached the agent   | ASKED     |
| UNKNOWN                  | yes, where the rule says `retry`            | ANSWERED  |

A model may number its calls anew in every answer: a call with the id of one that is over (DONE, VOID, UNKNOWN) takes
its place, as a new record with a question of its own.

Each move is one compare-and-set in the store, so of any number of hands that reach for a call one succeeds. An
approved call is executed only by the one that moved it from ANSWERED to EXECUTING.
"""

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from adkwire.wire.chunks import Json
from adkwire.wire.decoder import Scope


class State(StrEnum):
    """Where a call stands; the table is at the top of this file."""

    ASKED = "asked"
    OFFERED = "offered"
    ANSWERED = "answered"
    EXECUTING = "executing"
    DONE = "done"
    VOID = "void"
    UNKNOWN = "unknown"


OPEN = frozenset({State.ASKED, State.OFFERED})
"""Somebody has to act."""
UNDECIDED = frozenset({*OPEN, State.ANSWERED})
"""Nothing was executed yet, so it can still be taken back."""

OVER = frozenset({State.DONE, State.VOID, State.UNKNOWN})
"""Nothing more comes of it by itself."""

_MOVES: dict[State, frozenset[State]] = {
    State.ASKED: frozenset({State.OFFERED, State.ANSWERED, State.VOID}),
    State.OFFERED: frozenset({State.ANSWERED, State.VOID}),
    State.ANSWERED: frozenset({State.EXECUTING, State.DONE, State.VOID, State.ASKED, State.UNKNOWN}),
    State.EXECUTING: frozenset({State.DONE, State.UNKNOWN}),
    State.UNKNOWN: frozenset({State.ANSWERED}),
    State.DONE: frozenset(),
    State.VOID: frozenset(),
}


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was decided about a call, and by whom."""

    actor: str
    at: float
    approved: bool | None = None
    expired: bool = False
    reason: str = ""
    args: dict[str, Json] | None = None
    """The arguments as the person changed them."""
    payload: Json = None
    scope: Scope = "once"
    output: Json | UnsetType = UNSET
    error: str | UnsetType = UNSET

    @property
    def has_output(self) -> bool:
        """Whether the browser has done its part, well or not."""
        return self.output is not UNSET or self.error is not UNSET

    @property
    def verdict(self) -> str:
        """The answer in one word, for the audit and for `POST .../calls/{call}`."""
        if self.expired:
            return "expired"
        if self.approved is False:
            return "denied"
        return "answered" if self.has_output else "approved"


class PendingCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call at the gate, bound to a user, a chat, a message and its arguments."""

    user: str
    chat: str
    call: str
    message: str
    tool: str
    state: State
    input: Json
    bound: str
    """A hash of the arguments as the agent will execute them."""
    browser: bool = False
    ask: str | None = None
    """The id of the question; None for a browser call that nobody gates."""
    hint: str = ""
    payload: Json = None
    grant: Literal["tool", "same-arguments", "never"] = "never"
    retry: bool = False
    parameters: dict[str, Json] | None = None
    """The schema of the arguments, for edits."""
    output: dict[str, Json] | None = None
    """The schema of a browser tool's output."""
    invocation: str = ""
    branch: str | None = None
    live: bool = False
    """Whether its time is that of a live conversation, which is shorter than that of a parked one."""
    asked_at: float = 0.0
    expires_at: float | None = None
    answer: Answer | None = None
    outcome: str = ""
    retried: bool = False
    """Whether it is run once more after its fate was unknown: what it then is, it is at least that."""
    worker: str = ""
    """The process that moved it last."""
    version: int = 0

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """How far an approval may reach."""
        return ("once",) if self.grant == "never" else ("once", "chat", "always")

    @property
    def used(self) -> dict[str, Json]:
        """The arguments it is executed with: those of the model, or those that the person made of them."""
        edited = self.answer.args if self.answer is not None else None
        return edited if edited is not None else self.input

    @property
    def executes(self) -> bool:
        """Whether the server has to run it now that it is answered."""
        answer = self.answer
        return self.state is State.ANSWERED and answer is not None and answer.approved is True and not self.browser

    @property
    def can_be_retried(self) -> bool:
        """Whether a person may let it run again, though it may have been executed."""
        return self.state is State.UNKNOWN and self.retry

    def moved(self, state: State, **changes: Any) -> "PendingCall":
        """The record after a move that the table has."""
        if state not in _MOVES[self.state]:
            raise ValueError(f"a call that is {self.state} cannot become {state}")
        return msgspec.structs.replace(self, state=state, **changes)


class Given(NamedTuple):
    """What came as an answer, from a stock client's message or from the calls route; nothing of it is believed yet."""

    approved: bool | None = None
    reason: str = ""
    args: dict[str, Json] | None = None
    payload: Json = None
    scope: Scope = "once"
    output: Json | UnsetType = UNSET
    error: str | UnsetType = UNSET
    echo: "Echo | None" = None
    ask: str | None = None
    """The question it answers, if it says so."""

    @property
    def has_output(self) -> bool:
        """Whether it brings what the browser did."""
        return self.output is not UNSET or self.error is not UNSET


class Echo(NamedTuple):
    """What a stock client repeats of the call it answers: all of it must be what the server said."""

    message: str
    tool: str
    ask: str | None
    input: Json


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the audit."""

    at: str
    actor: str
    call: str
    tool: str
    input: Json
    verdict: str
    scope: str
    outcome: str
    edited: Json | UnsetType = UNSET
    reason: str | UnsetType = UNSET


def bind(args: Mapping[str, Json]) -> str:
    """A hash that says whether two sets of arguments are the same."""
    return hashlib.sha256(json.dumps(args, sort_keys=True, default=str).encode()).hexdigest()
