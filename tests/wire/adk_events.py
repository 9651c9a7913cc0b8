"""ADK events as `run_async` yields them, in few words, and the chunks that the encoder makes of them."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

from adkwire.wire.chunks import Chunk, encode_chunk
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.event_parts import STAMP
from adkwire.wire.encode.tool_calls import REQUEST_CONFIRMATION
from adkwire.wire.failures import Explain, explain_briefly

MESSAGE = "m1"
PLACEHOLDER = {"error": "This tool call requires confirmation, please approve or reject."}
REJECTED = {"error": "This tool call is rejected."}


def model(*parts: types.Part, **more: Any) -> Event:
    """A complete event of the model."""
    content = types.Content(role="model", parts=list(parts)) if parts else None
    return Event(author=more.pop("author", "agent"), content=content, **more)


def partial(*parts: types.Part, **more: Any) -> Event:
    """A piece of a streamed answer; ADK does not store it."""
    return model(*parts, partial=True, **more)


def text(words: str) -> types.Part:
    return types.Part(text=words)


def thought(words: str) -> types.Part:
    return types.Part(text=words, thought=True)


def call(call_id: str, name: str = "tool", **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=args))


def image(data: bytes = b"png", media_type: str = "image/png") -> types.Part:
    return types.Part(inline_data=types.Blob(mime_type=media_type, data=data))


def response(call_id: str, value: dict[str, Any] | None, name: str = "tool", **more: Any) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=call_id, name=name, response=value, **more))


def answered(*responses: types.Part, **more: Any) -> Event:
    """The responses of tools: an event of the agent in the role of the user."""
    return Event(author="agent", content=types.Content(role="user", parts=list(responses)), **more)


def asked(*calls: types.FunctionCall, hint: str = "", payload: Any = None, **stamps: dict[str, Any]) -> Event:
    """ADK's approval requests, one synthetic call for each gated call; `stamps` by call id."""
    parts = [_question(one, hint, payload) for one in calls]
    return model(*parts, long_running_tool_ids={f"ask-{one.id}" for one in calls}, **_stamp("asks", stamps))


def _stamp(what: str, stamps: dict[str, dict[str, Any]]) -> dict[str, Any]:
    stamps_by_id = {f"ask-{one}": stamp for one, stamp in stamps.items()}
    return {"custom_metadata": {STAMP: {"message": MESSAGE, what: stamps_by_id}}} if stamps else {}


def _question(one: types.FunctionCall, hint: str, payload: Any) -> types.Part:
    confirmation = {"hint": hint, "confirmed": False} | ({} if payload is None else {"payload": payload})
    original = {"id": one.id, "name": one.name, "args": one.args}
    args = {"originalFunctionCall": original, "toolConfirmation": confirmation}
    return types.Part(function_call=types.FunctionCall(id=f"ask-{one.id}", name=REQUEST_CONFIRMATION, args=args))


def placeholder(*call_ids: str, others: Sequence[types.Part] = ()) -> Event:
    """The placeholder responses that ADK gives to gated calls, with the responses of other calls."""
    actions = EventActions(requested_tool_confirmations={one: ToolConfirmation() for one in call_ids})
    return answered(*(response(one, PLACEHOLDER) for one in call_ids), *others, actions=actions)


def verdict(*, stamps: dict[str, dict[str, Any]] | None = None, as_text: bool = False, **confirmed: bool) -> Event:
    """The person's answers to approval requests, by call id. ADK takes them in two forms."""
    answers = {one: {"confirmed": yes} for one, yes in confirmed.items()}
    parts = [
        response(f"ask-{one}", {"response": json.dumps(value)} if as_text else value, REQUEST_CONFIRMATION)
        for one, value in answers.items()
    ]
    content = types.Content(role="user", parts=parts)
    return Event(author="user", content=content, **_stamp("verdicts", stamps or {}))


def from_browser(call_id: str, value: dict[str, Any], name: str = "tool") -> Event:
    """The result a browser sent."""
    return Event(author="user", content=types.Content(role="user", parts=[response(call_id, value, name)]))


def gated(call_id: str, name: str = "tool", **args: Any) -> types.FunctionCall:
    return types.FunctionCall(id=call_id, name=name, args=args)


def spoken(words: str, *, finished: bool = False, **more: Any) -> Event:
    """A partial transcript of a live model's speech, which ADK does not store, or the finished one."""
    transcription = types.Transcription(text=words, finished=finished)
    author = more.pop("author", "agent")
    return Event(author=author, output_transcription=transcription, partial=not finished, **more)


def heard(words: str, *, finished: bool = False, **more: Any) -> Event:
    """A transcript of the user's speech."""
    transcription = types.Transcription(text=words, finished=finished)
    return Event(author="user", input_transcription=transcription, partial=not finished, **more)


def stamp(event: Event, **fields: Any) -> Event:
    """Add fields to our stamp on an event."""
    old = event.custom_metadata or {}
    event.custom_metadata = {**old, STAMP: {**old.get(STAMP, {}), **fields}}
    return event


def aborted() -> Event:
    return Event(author="agent", error_code="INVOCATION_ABORTED", error_message="Invocation was aborted by client.")


def fed(encoder: Encoder, events: Iterable[Event]) -> list[Chunk]:
    """All chunks of the events."""
    return [chunk for event in events for chunk in encoder.feed(event)]


def response_of(*events: Event, explain: Explain = explain_briefly) -> list[Chunk]:
    """A whole response: start, the events, the end."""
    encoder = Encoder(MESSAGE, explain=explain)
    return [encoder.start(), *fed(encoder, events), *encoder.end()]


def wire(chunks: Iterable[Chunk]) -> list[dict[str, Any]]:
    """The chunks as a client reads them."""
    return [json.loads(encode_chunk(chunk)) for chunk in chunks]
