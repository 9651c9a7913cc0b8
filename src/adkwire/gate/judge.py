"""Judge: decides what an answer makes of a pending call, or why it is refused. Pure: the gate stores the result."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from adkwire.errors import Conflict, FieldProblem, NotFound, TooLarge, Unprocessable
from adkwire.gate.policy import Policy
from adkwire.gate.records import OPEN, Answer, CallRecord, State, UncheckedAnswer
from adkwire.gate.schemas import field_problems, json_pointer, problem
from adkwire.wire.chunks import Json, encode_chunk
from adkwire.wire.javascript import same_value

REFUSED = "No call is waiting for this answer."
"""The text for everybody who may not answer: it does not say whether there is such a call."""
_TOO_LATE = {
    "superseded": "Too late: the conversation went on without this call, and it was not executed.",
    "stopped": "Too late: the call was stopped before it was executed.",
    "taken-over": "Too late: a live conversation was opened before the call was executed.",
    "deleted": "Too late: the chat was deleted before the call was executed.",
    "interrupted": "Too late: the server stopped before the call was executed.",
    "expired": "Too late: nobody answered in time, and the call was not executed.",
    "failed": "Too late: the answer failed before the call was executed.",
    "unknown": "This call was cut off while it ran; whether it was executed is not known.",
}
_ALREADY_ANSWERED = "This call was already answered."
_MAX_ERROR = 1000
"""Characters that are kept of the error of a browser tool."""


class Judge:
    """The rules for answers: what the call, the policy and the limits allow."""

    def __init__(self, policy: Policy, max_output: int, browser_timeout: float = 0) -> None:
        self._policy = policy
        self._max_output = max_output
        self._browser_timeout = browser_timeout

    def allows(self, tool: str, args: Mapping[str, Json]) -> bool:
        """Return whether no rule denies the call. Edited arguments and approved calls that begin are checked again."""
        return self._policy.decide(tool, args, asks=True).action != "deny"

    def answered(self, call: CallRecord, answer: UncheckedAnswer, now: float, *, retry: bool) -> CallRecord | None:
        """Return the record with this answer in it; None when the record has the same answer already."""
        _check_echo(call, answer)
        if call.expires_at is not None and call.state in OPEN and call.expires_at <= now:
            raise Conflict(_TOO_LATE["expired"])
        match call.state:
            case State.ASKED:
                return self._decided(call, answer, now)
            case State.OFFERED if answer.has_output:
                self._check_output(call, answer)
                return call.moved(State.ANSWERED, answer=_with_output(call, answer, now))
            case State.UNKNOWN if retry and call.retry and answer.approved and answer.args is None:
                return call.moved(State.ANSWERED, outcome="", retried=True)
            case _ if _says_the_same(call, answer):
                return None
            case State.OFFERED if call.ask is None:
                raise NotFound(REFUSED)
            case _:
                raise Conflict(too_late_text(call.outcome, call.answer))

    def _decided(self, call: CallRecord, answer: UncheckedAnswer, now: float) -> CallRecord:
        if answer.has_output and not call.browser:
            raise NotFound(REFUSED)
        approved = answer.approved if answer.approved is not None else answer.has_output
        if answer.approved is None and not answer.has_output:
            raise NotFound(REFUSED)
        if answer.scope not in call.scopes:
            raise Unprocessable("This tool can be approved only once at a time, not for longer.")
        if answer.args is not None:
            self._check_edit(call, answer.args)
        recorded = Answer(
            actor=call.user,
            at=now,
            approved=approved,
            reason=answer.reason,
            args=answer.args,
            payload=answer.payload,
            scope=answer.scope if approved else "once",
        )
        after = call.moved(
            State.OFFERED if call.browser and approved else State.ANSWERED,
            answer=recorded,
            expires_at=self._renewed(call, now),
        )
        if not answer.has_output or not approved:
            return after
        self._check_output(call, answer)
        return after.moved(State.ANSWERED, answer=_with_output(after, answer, now))

    def _renewed(self, call: CallRecord, now: float) -> float | None:
        """Return the new deadline of a call with a verdict. Only a browser call that waits for its output needs it.

        The browser has as much time as the person had for the approval; in a live conversation, what it has for every
        call.
        """
        if call.live:
            return now + self._browser_timeout if self._browser_timeout else None
        return None if call.expires_at is None else now + call.expires_at - call.asked_at

    def _check_edit(self, call: CallRecord, args: dict[str, Json]) -> None:
        unknown = sorted(set(args) - set((call.parameters or {}).get("properties", args)))
        wrong = f"{unknown[0]} is not one of them" if unknown else problem(args, call.parameters)
        if wrong is not None:
            fields = [FieldProblem("/args" + json_pointer(name), "is not one of the arguments") for name in unknown]
            fields += field_problems(args, call.parameters, "/args")
            raise Unprocessable(f"These arguments do not fit the tool: {wrong}", fields=fields)
        if not self.allows(call.tool, args):
            raise Unprocessable("The policy of this server does not allow these arguments.")

    def _check_output(self, call: CallRecord, answer: UncheckedAnswer) -> None:
        if answer.output is UNSET:
            return
        if len(encode_chunk(answer.output)) > self._max_output:
            raise TooLarge(f"The output of a browser tool may have at most {self._max_output} bytes.")
        if (wrong := problem(answer.output, call.output)) is not None:
            fields = field_problems(answer.output, call.output, "/output")
            raise Unprocessable(f"This is not what {call.tool} gives: {wrong}", fields=fields)


def _check_echo(call: CallRecord, answer: UncheckedAnswer) -> None:
    """Refuse an answer to another question, or one whose client repeats another call than the server sent."""
    echo = answer.echo
    if answer.ask is not None and answer.ask != call.ask:
        raise NotFound(REFUSED)
    if echo is None:
        return
    inputs = [call.input, call.final_args] if call.browser else [call.input]
    if (echo.message, echo.tool) != (call.message, call.tool) or not any(same_value(one, echo.input) for one in inputs):
        raise NotFound(REFUSED)
    # Newer clients drop the question from a part that gets an output, which is as good as an approval.
    without_question = echo.ask is None and (call.state is not State.ASKED or answer.has_output)
    if echo.ask != call.ask and not without_question:
        raise NotFound(REFUSED)


def _with_output(call: CallRecord, answer: UncheckedAnswer, now: float) -> Answer:
    error = answer.error[:_MAX_ERROR] if answer.error is not UNSET else UNSET
    if call.answer is None:
        return Answer(actor=call.user, at=now, output=answer.output, error=error)
    return msgspec.structs.replace(call.answer, output=answer.output, error=error)


def _says_the_same(call: CallRecord, answer: UncheckedAnswer) -> bool:
    recorded = call.answer
    if recorded is None or recorded.expired or call.state in (State.VOID, State.UNKNOWN):
        return False
    if answer.has_output:
        return same_value(recorded.output, answer.output) and recorded.error == answer.error
    return answer.approved is recorded.approved and answer.args == recorded.args and answer.payload == recorded.payload


def too_late_text(outcome: str, answer: Answer | None = None) -> str:
    """Return the text for an answer of the call's own user that comes too late."""
    return _TOO_LATE.get("expired" if answer is not None and answer.expired else outcome, _ALREADY_ANSWERED)
