"""Judge: what an answer makes of a call that waits, or why it is none. Pure: the gate stores what comes of it."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from adkwire.errors import Conflict, NotFound, TooLarge, Unprocessable
from adkwire.gate.policy import Policy
from adkwire.gate.records import OPEN, Answer, Given, PendingCall, State
from adkwire.gate.schemas import problem
from adkwire.wire.chunks import Json, encode_chunk
from adkwire.wire.javascript import same_value

REFUSED = "No call is waiting for this answer."
_LATE = {
    "superseded": "Too late: the conversation went on without this call, and it was not executed.",
    "stopped": "Too late: the call was stopped before it was executed.",
    "interrupted": "Too late: the server stopped before the call was executed.",
    "expired": "Too late: nobody answered in time, and the call was not executed.",
    "failed": "Too late: the answer failed before the call was executed.",
    "unknown": "This call was cut off while it ran; whether it was executed is not known.",
}
_ALREADY = "This call was already answered."
_LONGEST_ERROR = 1000


class Judge:
    """Weighs answers against the call, the policy and the limits."""

    def __init__(self, policy: Policy, max_output: int, browser_timeout: float = 0) -> None:
        self._policy = policy
        self._max_output = max_output
        self._browser_timeout = browser_timeout

    def allows(self, tool: str, args: Mapping[str, Json]) -> bool:
        """Whether no rule forbids the call: asked again when an approved call begins or its arguments were edited."""
        return self._policy.decide(tool, args, asks=True).action != "deny"

    def answered(self, call: PendingCall, given: Given, now: float, *, retry: bool) -> PendingCall | None:
        """The record with this answer in it; None when it already says so."""
        _check_echo(call, given)
        if call.expires_at is not None and call.state in OPEN and call.expires_at <= now:
            raise Conflict(_LATE["expired"])
        match call.state:
            case State.ASKED:
                return self._decided(call, given, now)
            case State.OFFERED if given.has_output:
                self._check_output(call, given)
                return call.moved(State.ANSWERED, answer=_with_output(call, given, now))
            case State.UNKNOWN if retry and call.retry and given.approved and given.args is None:
                return call.moved(State.ANSWERED, outcome="", retried=True)
            case _ if _says_the_same(call, given):
                return None
            case State.OFFERED if call.ask is None:
                raise NotFound(REFUSED)
            case _:
                raise Conflict(late(call.outcome, call.answer))

    def _decided(self, call: PendingCall, given: Given, now: float) -> PendingCall:
        if given.has_output and not call.browser:
            raise NotFound(REFUSED)
        approved = given.approved if given.approved is not None else given.has_output
        if given.approved is None and not given.has_output:
            raise NotFound(REFUSED)
        if given.scope not in call.scopes:
            raise Unprocessable("This tool can be approved only once at a time, not for longer.")
        if given.args is not None:
            self._check_edit(call, given.args)
        answer = Answer(
            actor=call.user,
            at=now,
            approved=approved,
            reason=given.reason,
            args=given.args,
            payload=given.payload,
            scope=given.scope if approved else "once",
        )
        after = call.moved(
            State.OFFERED if call.browser and approved else State.ANSWERED,
            answer=answer,
            expires_at=self._renewed(call, now),
        )
        if not given.has_output or not approved:
            return after
        self._check_output(call, given)
        return after.moved(State.ANSWERED, answer=_with_output(after, given, now))

    def _renewed(self, call: PendingCall, now: float) -> float | None:
        """The browser has as long to execute a call as the person had to approve it, but in a live conversation what it
        has for every call."""
        if call.live:
            return now + self._browser_timeout if self._browser_timeout else None
        return None if call.expires_at is None else now + call.expires_at - call.asked_at

    def _check_edit(self, call: PendingCall, args: dict[str, Json]) -> None:
        unknown = sorted(set(args) - set((call.parameters or {}).get("properties", args)))
        wrong = f"{unknown[0]} is not one of them" if unknown else problem(args, call.parameters)
        if wrong is not None:
            raise Unprocessable(f"These arguments do not fit the tool: {wrong}")
        if not self.allows(call.tool, args):
            raise Unprocessable("The policy of this server does not allow these arguments.")

    def _check_output(self, call: PendingCall, given: Given) -> None:
        if given.output is UNSET:
            return
        if len(encode_chunk(given.output)) > self._max_output:
            raise TooLarge(f"The output of a browser tool may have at most {self._max_output} bytes.")
        if (wrong := problem(given.output, call.output)) is not None:
            raise Unprocessable(f"This is not what {call.tool} gives: {wrong}")


def _check_echo(call: PendingCall, given: Given) -> None:
    """A stock client repeats what it answers; what differs from what was asked is no answer to it."""
    echo = given.echo
    if given.ask is not None and given.ask != call.ask:
        raise NotFound(REFUSED)
    if echo is None:
        return
    shown = [call.input, call.used] if call.browser else [call.input]
    if (echo.message, echo.tool) != (call.message, call.tool) or not any(same_value(one, echo.input) for one in shown):
        raise NotFound(REFUSED)
    # Newer clients drop the question from a part that gets an output, which is as good as an approval.
    unasked = echo.ask is None and (call.state is not State.ASKED or given.has_output)
    if echo.ask != call.ask and not unasked:
        raise NotFound(REFUSED)


def _with_output(call: PendingCall, given: Given, now: float) -> Answer:
    error = given.error[:_LONGEST_ERROR] if given.error is not UNSET else UNSET
    if call.answer is None:
        return Answer(actor=call.user, at=now, output=given.output, error=error)
    return msgspec.structs.replace(call.answer, output=given.output, error=error)


def _says_the_same(call: PendingCall, given: Given) -> bool:
    answer = call.answer
    if answer is None or answer.expired or call.state in (State.VOID, State.UNKNOWN):
        return False
    if given.has_output:
        return same_value(answer.output, given.output) and answer.error == given.error
    return given.approved is answer.approved and given.args == answer.args and given.payload == answer.payload


def late(outcome: str, answer: Answer | None = None) -> str:
    """What the rightful user is told who comes too late."""
    return _LATE.get("expired" if answer is not None and answer.expired else outcome, _ALREADY)
