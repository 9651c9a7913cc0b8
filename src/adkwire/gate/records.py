"""The records of the gate: gated calls, answers and lines of the audit, and the table of a call's states.

| in                       | on                                          | goes to   |
|--------------------------|---------------------------------------------|-----------|
| (none)                   | a question to a person                      | ASKED     |
| (none)                   | a browser call that needs no approval       | OFFERED   |
| ASKED                    | yes, to a browser call, without its output  | OFFERED   |
| ASKED                    | yes, no, expiry                             | ANSWERED  |
| OFFERED                  | output, error, expiry                       | ANSWERED  |
| ANSWERED                 | the claim: an approved server call begins   | EXECUTING |
| ANSWERED                 | no, expiry or output reached the agent      | DONE      |
| EXECUTING                | result, failure                             | DONE      |
| EXECUTING                | crash, cancellation                         | UNKNOWN   |
| ASKED, OFFERED, ANSWERED | any `VoidReason`                            | VOID      |
| ANSWERED                 | the same, if it was UNKNOWN before          | UNKNOWN   |
| ANSWERED                 | restart before anything reached the agent   | ASKED     |
| UNKNOWN                  | yes, where the rule says `retry`            | ANSWERED  |

A model may number its calls anew in every answer: a call with the id of one that is over (DONE, VOID, UNKNOWN) takes
its place, as a new record with a question of its own.

Each move is one compare-and-set in the store: of any number of workers and requests that move a call at once, one
succeeds. An approved call is executed only by the one that moved it from ANSWERED to EXECUTING.
"""

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from adkwire.gate.policy import GrantCoverage
from adkwire.wire.chunks import Json
from adkwire.wire.decode.call_answers import AnswerScope

StopReason: TypeAlias = Literal["stopped", "superseded", "taken-over", "deleted"]
"""Why a run is asked to end: the user stopped it or sent another message, opened a live conversation on another worker,
or deleted the chat there."""
VoidReason: TypeAlias = Literal[StopReason, "interrupted", "failed"]
"""Why a call is ended before it was executed: its run was asked to end, or its server or the answer failed."""


class State(StrEnum):
    """The state of a call; the table of moves is at the top of this file."""

    ASKED = "asked"
    OFFERED = "offered"
    ANSWERED = "answered"
    EXECUTING = "executing"
    DONE = "done"
    VOID = "void"
    UNKNOWN = "unknown"


OPEN = frozenset({State.ASKED, State.OFFERED})
"""The states in which a person or a browser has to act."""
NOT_STARTED = frozenset({*OPEN, State.ANSWERED})
"""The states in which nothing was executed yet, so that the call can still be taken back."""
OVER = frozenset({State.DONE, State.VOID, State.UNKNOWN})
"""The states in which the call has ended: nothing more happens by itself."""

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
    """The recorded answer to a call: checked, and with who gave it and when."""

    actor: str
    at: float
    approved: bool | None = None
    expired: bool = False
    reason: str = ""
    args: dict[str, Json] | None = None
    """The arguments as the person changed them."""
    payload: Json = None
    scope: AnswerScope = "once"
    output: Json | UnsetType = UNSET
    error: str | UnsetType = UNSET

    @property
    def has_output(self) -> bool:
        """True if the browser has executed the call, successfully or not."""
        return self.output is not UNSET or self.error is not UNSET

    @property
    def verdict(self) -> str:
        """The answer in one word, for the audit."""
        if self.expired:
            return "expired"
        if self.approved is False:
            return "denied"
        return "answered" if self.has_output else "approved"


class CallRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of one gated call of a user, in a chat and a message, with its arguments."""

    user: str
    chat: str
    call: str
    message: str
    tool: str
    state: State
    input: Json
    args_hash: str
    """The hash of the arguments that the agent will execute the call with."""
    browser: bool = False
    """True if the browser executes the call."""
    ask: str | None = None
    """The id of the approval request; None for a browser call that needs no approval."""
    hint: str = ""
    """The text that the person is shown."""
    payload: Json = None
    """What the tool sent with its request for a confirmation."""
    grant: GrantCoverage = "never"
    """What a standing approval of this call covers."""
    retry: bool = False
    """True if the policy lets a person run the call again when it is UNKNOWN."""
    parameters: dict[str, Json] | None = None
    """The JSON schema of the arguments, which edited arguments must fit."""
    output: dict[str, Json] | None = None
    """The JSON schema that the output of a browser tool must fit."""
    invocation: str = ""
    branch: str | None = None
    live: bool = False
    """True while the call is held in a live conversation, where it expires sooner than a parked call."""
    asked_at: float = 0.0
    expires_at: float | None = None
    answer: Answer | None = None
    outcome: str = ""
    """How the call ended, in one word; empty until it has."""
    retried: bool = False
    """True if the call runs again after UNKNOWN: it may have been executed, whatever happens to the second run."""
    worker: str = ""
    """The worker that moved the call last."""
    version: int = 0

    @property
    def scopes(self) -> tuple[AnswerScope, ...]:
        """The scopes that an approval of this call may have."""
        return ("once",) if self.grant == "never" else ("once", "chat", "always")

    @property
    def final_args(self) -> dict[str, Json]:
        """The arguments that the call is executed with: those of the model, or those that the person edited."""
        edited = self.answer.args if self.answer is not None else None
        return edited if edited is not None else self.input

    @property
    def is_claimable(self) -> bool:
        """True if the call is approved and the server has to execute it now."""
        answer = self.answer
        return self.state is State.ANSWERED and answer is not None and answer.approved is True and not self.browser

    @property
    def can_be_retried(self) -> bool:
        """True if a person may let the call run again, though it may have been executed."""
        return self.state is State.UNKNOWN and self.retry

    def moved(self, state: State, **changes: Any) -> "CallRecord":
        """Return the record after a move; raise ValueError if the table does not have the move."""
        if state not in _MOVES[self.state]:
            raise ValueError(f"a call that is {self.state} cannot become {state}")
        return msgspec.structs.replace(self, state=state, **changes)


class UncheckedAnswer(NamedTuple):
    """An answer as a client sent it, in a message or by the calls route; the judge has not checked it yet."""

    approved: bool | None = None
    reason: str = ""
    args: dict[str, Json] | None = None
    payload: Json = None
    scope: AnswerScope = "once"
    output: Json | UnsetType = UNSET
    error: str | UnsetType = UNSET
    echo: "Echo | None" = None
    ask: str | None = None
    """The id of the approval request that it answers, if the client named one."""

    @property
    def has_output(self) -> bool:
        """True if it has the output or the error of a browser call."""
        return self.output is not UNSET or self.error is not UNSET


class Echo(NamedTuple):
    """What a stock client repeats of the call that it answers; it must equal what the server sent."""

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


def hash_args(args: Mapping[str, Json]) -> str:
    """Return a hash of arguments: two sets of arguments are equal if their hashes are."""
    return hashlib.sha256(json.dumps(args, sort_keys=True, default=str).encode()).hexdigest()
