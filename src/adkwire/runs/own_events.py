"""Events that adkwire itself writes into a session: what ADK left out, and the answers it has to get."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from google.adk.events.event import Event
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types
from msgspec import UNSET

from adkwire.gate.records import Answer, PendingCall, State
from adkwire.runs.history import marked
from adkwire.wire.calls import ASK, UNFINISHED
from adkwire.wire.encoder import ABORTED, Encoder, Unsaved
from adkwire.wire.javascript import whole_text

SUPERSEDED = "The user went on without answering; this call was not executed."
WENT_ON = "The user went on before this call ran; it was not executed."
STOPPED = "The user stopped; this call was not executed."
INTERRUPTED = "The server stopped before this call ran; it was not executed."
LOST = "The server no longer knows this call; it was not executed."
FAILED = "The answer failed before this call ran; it was not executed."
EXPIRED = "Nobody answered in time; this call was not executed."
DENIED = "The user refused this call; it was not executed."
PLACEHOLDER = "This tool call requires confirmation, please approve or reject."

_WHY = {
    "superseded": SUPERSEDED,
    "stopped": STOPPED,
    "interrupted": INTERRUPTED,
    "failed": FAILED,
    "expired": EXPIRED,
}

Response = dict[str, Any]


class LooseEnds(NamedTuple):
    """A turn whose calls may need answers that nobody will give any more."""

    encoder: Encoder
    author: str
    invocation_id: str
    mark: dict[str, Any]

    def sealed(self, known: Mapping[str, Response], otherwise: str | None, *, running: bool = True) -> list[Event]:
        """One event with the answers: what is known of a call; else, for one that ran, that its fate is not known
        (unless not `running`), and for one that waits for somebody, `otherwise` (None lets it wait)."""
        ran = {call for call, _ in self.encoder.open_calls()}
        answers: list[tuple[str, str, Response]] = []
        for call, name in self.encoder.unsettled_calls():
            error = (UNFINISHED if running else None) if call in ran else otherwise
            response = known.get(call) or ({"error": error} if error is not None else None)
            answers += [(call, name, response)] if response is not None else []
        return [response_event(answers, self.author, self.invocation_id, self.mark)] if answers else []


def partial_event(unsaved: Unsaved, invocation_id: str, mark: dict[str, Any], *, cut: bool = True) -> Event:
    """What was shown and not stored, as the model event ADK would have stored; it was cut off, or simply ended."""
    parts = [
        part if isinstance(part, types.Part) else types.Part(text=whole_text(part), thought=kind == "reasoning" or None)
        for kind, part in unsaved.parts
    ]
    return Event(
        author=unsaved.author,
        branch=unsaved.branch,
        invocation_id=invocation_id,
        content=types.Content(role="model", parts=parts),
        custom_metadata=marked(None, {**mark, **unsaved.stamp}),
        interrupted=True if cut or any(part.function_call is not None for part in parts) else None,
    )


def response_event(
    answers: Iterable[tuple[str, str, Response]], author: str, invocation_id: str, mark: dict[str, Any]
) -> Event:
    """Answers to calls (id, name, response), so that the model's context stays legal."""
    parts = [_response(call, name, response) for call, name, response in answers]
    return Event(
        author=author,
        invocation_id=invocation_id,
        content=types.Content(role="user", parts=parts),
        custom_metadata=marked(None, mark),
    )


def without_answers(events: Iterable[Event], calls: Collection[str]) -> list[Event]:
    """The events without the answers to some calls: a person may yet let those run again."""
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


def question_event(content: types.Content, invocation_id: str, mark: dict[str, Any]) -> Event:
    """What the user said, as ADK would have stored it."""
    return Event(author="user", invocation_id=invocation_id, content=content, custom_metadata=marked(None, mark))


def ending_event(cut: BaseException, author: str, invocation_id: str, mark: dict[str, Any]) -> Event:
    """A failure or a cancellation that ADK did not write down itself."""
    cancelled = isinstance(cut, asyncio.CancelledError)
    return Event(
        author=author,
        invocation_id=invocation_id,
        error_code=ABORTED if cancelled else type(cut).__name__,
        error_message=None if cancelled else str(cut),
        custom_metadata=marked(None, mark),
    )


def placeholder_event(calls: Sequence[tuple[str, str]], invocation_id: str, mark: dict[str, Any]) -> Event:
    """What ADK answers for calls (id, name) that a person is asked about, when it pauses.

    It is not said by the agent: behind a verdict ADK would take it for what came of the call.
    """
    answers = [(call, name, {"error": PLACEHOLDER}) for call, name in calls]
    event = response_event(answers, "user", invocation_id, {**mark, "held": True})
    event.actions.requested_tool_confirmations = {call: ToolConfirmation() for call, _ in calls}
    event.actions.skip_summarization = True
    return event


def inner_event(event: Event) -> Event:
    """An event about a call of an agent inside a tool, as the session keeps it: for the page, not for the model."""
    content = event.content.model_dump(mode="json", exclude_none=True) if event.content is not None else None
    inner = {"content": content, "browser": bool(event.long_running_tool_ids)}
    return event.model_copy(
        update={"content": None, "custom_metadata": marked(event.custom_metadata, {"inner": inner})}
    )


def told_of(call: PendingCall) -> Response | None:
    """What model and person are told about a call that is over and was not executed; None when it was, or may be."""
    answer = call.answer
    if call.state is State.VOID:
        return {"error": why_not(call.outcome, answer)}
    if answer is None or call.state is not State.DONE:
        return None
    if call.browser and output_of(call) is not None:
        return output_of(call)
    return refusal_of(call) if answer.expired or answer.approved is False else None


def refusal_of(call: PendingCall | None) -> Response:
    """What the agent reads of a call that was asked about and not allowed."""
    answer = call.answer if call is not None else None
    if answer is not None and answer.expired:
        return {"error": EXPIRED}
    return {"error": DENIED, "reason": answer.reason} if answer is not None and answer.reason else {"error": DENIED}


def why_not(outcome: str, answer: Answer | None = None) -> str:
    """What model and person read about a call that was taken back, maybe after somebody has answered."""
    words = _WHY.get(outcome, SUPERSEDED)
    return WENT_ON if words == SUPERSEDED and answer is not None else words


def output_of(call: PendingCall) -> Response | None:
    """What a browser call gives to the agent; None while there is nothing to give."""
    answer = call.answer
    if answer is None or call.state in (State.VOID, State.UNKNOWN):
        return None
    if answer.error is not UNSET:
        return {"error": answer.error}
    if answer.output is not UNSET:
        output: Any = answer.output
        return cast("Response", output) if isinstance(output, dict) else {"result": output}
    return {"error": EXPIRED} if answer.expired and is_released(call) else None


def is_released(call: PendingCall) -> bool:
    """Whether the browser could execute it: it was not gated, or it was approved."""
    return call.browser and (call.ask is None or (call.answer is not None and call.answer.approved is True))


def verdict_part(call: PendingCall) -> types.Part:
    """The person's answer in the form ADK takes it."""
    answer = call.answer
    approved = answer is not None and answer.approved is True and not answer.expired
    response: Response = {"confirmed": approved}
    if answer is not None and answer.payload is not None:
        response["payload"] = answer.payload
    return _response(call.ask or "", ASK, response)


def verdicts_of(calls: Sequence[PendingCall]) -> dict[str, Any]:
    """What the stamp of a verdict says beyond ADK's yes or no."""
    return {"verdicts": {call.ask: more for call in calls if (more := _more(call))}}


def _more(call: PendingCall) -> dict[str, Any]:
    answer = call.answer
    if answer is None:
        return {}
    answered = call.browser and answer.has_output
    said = {"reason": answer.reason, "edited": answer.args, "expired": answer.expired, "answered": answered}
    return {name: value for name, value in said.items() if value not in ("", None, False)}


def shapes_of(calls: Sequence[PendingCall]) -> dict[str, Any]:
    """What the stamp says of outputs that ADK had to put into an object: the page keeps what it gave."""
    bare = [call for call in calls if call.answer is not None and _is_bare(call.answer.output)]
    return {"outputs": {call.call: {"bare": True} for call in bare}} if bare else {}


def _is_bare(output: Any) -> bool:
    return output is not UNSET and not isinstance(output, dict)


def answer_event(call: PendingCall, part: types.Part, mark: dict[str, Any]) -> Event:
    """An answer of the user, for the invocation that asked."""
    return Event(
        author="user",
        branch=call.branch,
        invocation_id=call.invocation,
        content=types.Content(role="user", parts=[part]),
        custom_metadata=marked(None, mark),
    )


def verdict_event(call: PendingCall, mark: dict[str, Any]) -> Event:
    """A verdict that ADK need not act on: history shows it."""
    return answer_event(call, verdict_part(call), {**mark, **verdicts_of([call])})


def output_part(call: PendingCall) -> types.Part:
    """A browser's output in the form ADK takes it."""
    return _response(call.call, call.tool, output_of(call) or {})


def _response(call: str, name: str, response: Response) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=call, name=name, response=response))
