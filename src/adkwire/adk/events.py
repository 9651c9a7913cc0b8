"""Events that adkwire itself writes into a session: what ADK did not store, and answers to calls."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from google.adk.events.event import Event
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types
from msgspec import UNSET

from adkwire.adk.stamps import add_stamp
from adkwire.gate.records import Answer, CallRecord, State
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.outcome import ABORTED
from adkwire.wire.encode.tool_calls import REQUEST_CONFIRMATION, UNFINISHED
from adkwire.wire.encode.unsaved import Unsaved
from adkwire.wire.javascript import whole_text

SUPERSEDED = "The user went on without answering; this call was not executed."
WENT_ON = "The user went on before this call ran; it was not executed."
STOPPED = "The user stopped; this call was not executed."
TAKEN_OVER = "The user opened a live conversation before this call ran; it was not executed."
DELETED = "The user deleted the chat; this call was not executed."
INTERRUPTED = "The server stopped before this call ran; it was not executed."
LOST = "The server no longer knows this call; it was not executed."
FAILED = "The answer failed before this call ran; it was not executed."
EXPIRED = "Nobody answered in time; this call was not executed."
DENIED = "The user refused this call; it was not executed."
PLACEHOLDER = "This tool call requires confirmation, please approve or reject."

_NOT_EXECUTED = "This call was not executed."
_WHY = {
    "superseded": SUPERSEDED,
    "stopped": STOPPED,
    "taken-over": TAKEN_OVER,
    "deleted": DELETED,
    "interrupted": INTERRUPTED,
    "failed": FAILED,
    "expired": EXPIRED,
}

Response = dict[str, Any]


class CallsWithoutResponse(NamedTuple):
    """The calls of a turn that have no response in the session yet."""

    encoder: Encoder
    author: str
    invocation_id: str
    stamp: dict[str, Any]

    def sealed(self, known: Mapping[str, Response], otherwise: str | None, *, running: bool = True) -> list[Event]:
        """Return one event that seals the calls: with the known responses; for another call that was running, that its
        result is not known (unless not `running`); for a pending call `otherwise`, or nothing when that is None."""
        ran = {call for call, _ in self.encoder.running_calls()}
        answers: list[tuple[str, str, Response]] = []
        for call, name in self.encoder.unsettled_calls():
            error = (UNFINISHED if running else None) if call in ran else otherwise
            response = known.get(call) or ({"error": error} if error is not None else None)
            answers += [(call, name, response)] if response is not None else []
        return [response_event(answers, self.author, self.invocation_id, self.stamp)] if answers else []


def partial_event(unsaved: Unsaved, invocation_id: str, stamp: dict[str, Any], *, cut: bool = True) -> Event:
    """Return content that was shown and not stored as the model event that ADK would have stored.

    With `cut` the event is marked as interrupted.
    """
    parts = [
        part if isinstance(part, types.Part) else types.Part(text=whole_text(part), thought=kind == "reasoning" or None)
        for kind, part in unsaved.parts
    ]
    return Event(
        author=unsaved.author,
        branch=unsaved.branch,
        invocation_id=invocation_id,
        content=types.Content(role="model", parts=parts),
        custom_metadata=add_stamp(None, {**stamp, **unsaved.stamp}),
        interrupted=True if cut or any(part.function_call is not None for part in parts) else None,
    )


def response_event(
    answers: Iterable[tuple[str, str, Response]], author: str, invocation_id: str, stamp: dict[str, Any]
) -> Event:
    """Return an event with responses to calls (id, name, response): models accept no call without a response."""
    parts = [_response(call, name, response) for call, name, response in answers]
    return Event(
        author=author,
        invocation_id=invocation_id,
        content=types.Content(role="user", parts=parts),
        custom_metadata=add_stamp(None, stamp),
    )


def without_responses(events: Iterable[Event], calls: Collection[str]) -> list[Event]:
    """Return the events without their responses to `calls`, which a person may still let run again."""
    kept: list[Event] = []
    for event in events:
        parts = [
            part for part in _parts(event) if part.function_response is None or part.function_response.id not in calls
        ]
        if len(parts) < len(_parts(event)):
            content = types.Content(role="user", parts=parts)
            kept += [event.model_copy(update={"content": content})] if parts else []
        else:
            kept.append(event)
    return kept


def _parts(event: Event) -> list[types.Part]:
    return (event.content.parts if event.content is not None else None) or []


def user_message_event(content: types.Content, invocation_id: str, stamp: dict[str, Any]) -> Event:
    """Return a user's message as ADK would have stored it."""
    return Event(author="user", invocation_id=invocation_id, content=content, custom_metadata=add_stamp(None, stamp))


def ending_event(cut: BaseException, author: str, invocation_id: str, stamp: dict[str, Any]) -> Event:
    """Return an event for a failure or a cancellation that ADK has not stored."""
    cancelled = isinstance(cut, asyncio.CancelledError)
    return Event(
        author=author,
        invocation_id=invocation_id,
        error_code=ABORTED if cancelled else type(cut).__name__,
        error_message=None if cancelled else str(cut),
        custom_metadata=add_stamp(None, stamp),
    )


def placeholder_event(calls: Sequence[tuple[str, str]], invocation_id: str, stamp: dict[str, Any]) -> Event:
    """Return the placeholder responses that ADK writes for calls (id, name) with a question when it pauses.

    Its author is the user: behind a verdict ADK would take a response of the agent for the result of the call.
    """
    answers = [(call, name, {"error": PLACEHOLDER}) for call, name in calls]
    event = response_event(answers, "user", invocation_id, {**stamp, "held": True})
    event.actions.requested_tool_confirmations = {call: ToolConfirmation() for call, _ in calls}
    event.actions.skip_summarization = True
    return event


def inner_event(event: Event) -> Event:
    """Return an event about a call of an agent inside a tool with its content in the stamp, where no model reads it."""
    content = event.content.model_dump(mode="json", exclude_none=True) if event.content is not None else None
    inner = {"content": content, "browser": bool(event.long_running_tool_ids)}
    return event.model_copy(
        update={"content": None, "custom_metadata": add_stamp(event.custom_metadata, {"inner": inner})}
    )


def response_if_over(call: CallRecord) -> Response | None:
    """Return the response of a call that is over and was not executed; None when it was, or may be."""
    answer = call.answer
    if call.state is State.VOID:
        return {"error": not_executed_text(call.outcome, answer)}
    if answer is None or call.state is not State.DONE:
        return None
    if call.browser and output_of(call) is not None:
        return output_of(call)
    return refusal_of(call) if answer.expired or answer.approved is False else None


def refusal_of(call: CallRecord | None) -> Response:
    """Return the response of a call that was asked about and not approved."""
    answer = call.answer if call is not None else None
    if answer is not None and answer.expired:
        return {"error": EXPIRED}
    return {"error": DENIED, "reason": answer.reason} if answer is not None and answer.reason else {"error": DENIED}


def not_executed_text(outcome: str, answer: Answer | None = None) -> str:
    """Return the error text of a call that was taken back, maybe after it was answered."""
    words = _WHY.get(outcome, _NOT_EXECUTED)
    return WENT_ON if words == SUPERSEDED and answer is not None else words


def output_of(call: CallRecord) -> Response | None:
    """Return the output of a browser call as the agent gets it; None while there is none."""
    answer = call.answer
    if answer is None or call.state in (State.VOID, State.UNKNOWN):
        return None
    if answer.error is not UNSET:
        return {"error": answer.error}
    if answer.output is not UNSET:
        output: Any = answer.output
        return cast("Response", output) if isinstance(output, dict) else {"result": output}
    return {"error": EXPIRED} if answer.expired and is_released(call) else None


def is_released(call: CallRecord) -> bool:
    """Return whether the browser may execute a call: it needs no approval, or was approved."""
    return call.browser and (call.ask is None or (call.answer is not None and call.answer.approved is True))


def verdict_part(call: CallRecord) -> types.Part:
    """Return a person's verdict in the form that ADK takes."""
    answer = call.answer
    approved = answer is not None and answer.approved is True and not answer.expired
    response: Response = {"confirmed": approved}
    if answer is not None and answer.payload is not None:
        response["payload"] = answer.payload
    return _response(call.ask or "", REQUEST_CONFIRMATION, response)


def verdict_stamp(calls: Sequence[CallRecord]) -> dict[str, Any]:
    """Return what is stamped on verdicts beyond ADK's yes or no: reason, edited arguments, expiry, an output."""
    return {"verdicts": {call.ask: more for call in calls if (more := _verdict_details(call))}}


def _verdict_details(call: CallRecord) -> dict[str, Any]:
    answer = call.answer
    if answer is None:
        return {}
    answered = call.browser and answer.has_output
    details = {"reason": answer.reason, "edited": answer.args, "expired": answer.expired, "answered": answered}
    return {name: value for name, value in details.items() if value not in ("", None, False)}


def output_stamp(calls: Sequence[CallRecord]) -> dict[str, Any]:
    """Return what is stamped on outputs that ADK had to put into an object, so that the page shows the bare value."""
    bare = [call for call in calls if call.answer is not None and _is_bare(call.answer.output)]
    return {"outputs": {call.call: {"bare": True} for call in bare}} if bare else {}


def _is_bare(output: Any) -> bool:
    """Return whether an output is not an object, which ADK requires."""
    return output is not UNSET and not isinstance(output, dict)


def answer_event(call: CallRecord, part: types.Part, stamp: dict[str, Any]) -> Event:
    """Return an event of the user with an answer, in the invocation that asked."""
    return Event(
        author="user",
        branch=call.branch,
        invocation_id=call.invocation,
        content=types.Content(role="user", parts=[part]),
        custom_metadata=add_stamp(None, stamp),
    )


def verdict_event(call: CallRecord, stamp: dict[str, Any]) -> Event:
    """Return an event with a verdict that is shown in history and that ADK does not act on."""
    return answer_event(call, verdict_part(call), {**stamp, **verdict_stamp([call])})


def output_part(call: CallRecord) -> types.Part:
    """Return a browser's output in the form that ADK takes."""
    return _response(call.call, call.tool, output_of(call) or {})


def _response(call: str, name: str, response: Response) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=call, name=name, response=response))
