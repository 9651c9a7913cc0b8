"""What a single ADK part or event says, without any state: kinds, media, sources, message metadata.

The two field tables at the end are the promise that nothing ADK can say is dropped by accident: every field of an
event and of what it carries is either mapped or listed with the reason why it is not. A test compares them with ADK.
"""

import base64
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import UNSET

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, FinishReason, Json, encode_chunk

if TYPE_CHECKING:
    from enum import Enum

    from google.adk.events.event import Event
    from google.genai import types
    from pydantic import BaseModel

_PCM = "audio/pcm"
_RATE = re.compile(r"rate=(\d{4,6})")
_DEFAULT_RATE = 24_000
_SCALARS = frozenset({str, int, float, bool})

STAMP = "adkwire"
"""Our place in an event's `custom_metadata`."""

FINISH_REASONS: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content-filter",
    "RECITATION": "content-filter",
    "LANGUAGE": "content-filter",
    "BLOCKLIST": "content-filter",
    "PROHIBITED_CONTENT": "content-filter",
    "SPII": "content-filter",
    "IMAGE_SAFETY": "content-filter",
    "IMAGE_PROHIBITED_CONTENT": "content-filter",
    "IMAGE_RECITATION": "content-filter",
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
}
"""Gemini's reasons that have a word on the wire; all others are `other`."""


def enum_name(value: "Enum | str | None") -> str:
    """The name of an enum member; genai gives unknown ones as plain strings."""
    return "" if value is None else value if isinstance(value, str) and type(value) is str else str(value.name)  # type: ignore[union-attr]


def stamped(event: "Event", what: str, about: str | None) -> dict[str, Json]:
    """What our stamp on an event says under `what` about one question; nothing when there is no such stamp."""
    said: Json = event.custom_metadata
    for name in (STAMP, what, about):
        said = cast("dict[str | None, Json]", said).get(name) if isinstance(said, dict) else None
    return cast("dict[str, Json]", said) if isinstance(said, dict) else {}


def stamp_of(event: "Event") -> dict[str, Json]:
    """All that our stamp on an event says."""
    said = (event.custom_metadata or {}).get(STAMP)
    return cast("dict[str, Json]", said) if isinstance(said, dict) else {}


def shown_at(event: "Event") -> float:
    """When an event was shown, or the first of what it repeats; which is not always when it was stored."""
    at = stamp_of(event).get("at")
    return at if isinstance(at, int | float) else event.timestamp


def as_text(value: object) -> str:
    """Any value as JSON text."""
    return encode_chunk(value).decode()


def kind_of(part: "types.Part") -> str | None:
    """What a part shows: text, reasoning, media, sound; None when it is a call, a response or nothing to show."""
    if part.text:
        return "reasoning" if part.thought else "text"
    if part.inline_data is not None:
        return "sound" if (part.inline_data.mime_type or "").startswith(_PCM) else "media"
    if part.file_data is not None or part.executable_code is not None or part.code_execution_result is not None:
        return "media"
    return None


def media(part: "types.Part") -> list[Chunk]:
    """The chunks of a part whose kind is `media`."""
    if part.inline_data is not None:
        return file(part.inline_data.mime_type, part.inline_data.data)
    if part.file_data is not None:
        return link(part.file_data.mime_type, part.file_data.file_uri)
    if part.executable_code is not None:
        code = part.executable_code
        data = {"language": enum_name(code.language), "code": code.code or ""}
        return [c.Data(type="data-executable-code", data=data)]
    result = cast("types.CodeExecutionResult", part.code_execution_result)
    data = {"outcome": enum_name(result.outcome), "output": result.output or ""}
    return [c.Data(type="data-code-execution-result", data=data)]


def sound(part: "types.Part") -> Chunk:
    """Raw PCM, to be played and not kept: no message could carry it."""
    blob = part.inline_data
    rate = _RATE.search(blob.mime_type or "") if blob is not None else None
    data = {
        "chunk": base64.b64encode((blob.data if blob is not None else None) or b"").decode(),
        "sampleRate": int(rate[1]) if rate else _DEFAULT_RATE,
        "channels": 1,
        "bitDepth": 16,
    }
    return c.Data(type="data-pcm", data=data, transient=True)


def heard(event: "Event") -> list[Chunk]:
    """What was understood of the user's speech. The question of a turn is not the encoder's: this only shows it."""
    said = event.input_transcription
    if said is None or not said.text:
        return []
    data = {"role": "user", "text": said.text, "final": said.finished is True}
    return [c.Data(type="data-transcript", data=data, transient=True)]


def response_of(fr: "types.FunctionResponse") -> Json:
    """A tool's answer as the session will hold it, whatever Python objects it is made of now."""
    try:
        return fr.response if _is_json(fr.response) else fr.model_dump(mode="json", exclude_none=True)["response"]
    except (ValueError, RecursionError):
        return fr.response  # Nothing JSON knows: `encode_chunk` sends what it can.


def _is_json(value: object) -> bool:
    kind = type(value)
    if kind is dict:
        return all(map(_is_json, cast("dict[str, object]", value).values()))
    if kind is list:
        return all(map(_is_json, cast("list[object]", value)))
    return value is None or kind in _SCALARS


def file(media_type: str | None, data: bytes | None) -> list[Chunk]:
    """Inline bytes as a data URL."""
    kind = media_type or "application/octet-stream"
    return [c.File(url=data_url(kind, data or b""), media_type=kind)]


def link(media_type: str | None, uri: str | None) -> list[Chunk]:
    """Media that lives elsewhere. The server never fetches it."""
    return [c.File(url=uri, media_type=media_type or "application/octet-stream")] if uri else []


def data_url(media_type: str, data: bytes) -> str:
    """The bytes inside a URL."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


class Source(NamedTuple):
    """Something the answer rests on."""

    uri: str | None
    title: str | None

    @property
    def key(self) -> str:
        """What makes two mentions the same source."""
        return self.uri or self.title or ""

    def chunk(self, source_id: str) -> Chunk:
        """A link when a browser could open it, else a document."""
        if self.uri is not None and self.uri.startswith(("http://", "https://")):
            return c.SourceUrl(source_id=source_id, url=self.uri, title=self.title or UNSET)
        return c.SourceDocument(source_id=source_id, media_type="text/plain", title=self.title or self.uri or "")


def sources(event: "Event") -> Iterator[Source]:
    """The sources an event names, in its order, repeats included."""
    if event.grounding_metadata is not None:
        for chunk in event.grounding_metadata.grounding_chunks or ():
            for place in (chunk.web, chunk.retrieved_context, chunk.maps):
                if place is not None and (place.uri or place.title):
                    yield Source(place.uri, place.title)
    if event.citation_metadata is not None:
        for citation in event.citation_metadata.citations or ():
            if citation.uri or citation.title:
                yield Source(citation.uri, citation.title)


class MessageFacts:
    """The metadata of a message: who spoke, what it cost, where it came from."""

    def __init__(self) -> None:
        self._said: dict[str, Any] = {}
        self._said_at: dict[str, float] = {}
        self._usage: dict[str, int] = {}
        self._audio: dict[str, int] = {}

    def learn(self, event: "Event") -> None:
        """Take what a complete event says about the message. Of agents side by side the last to end has the say."""
        for name, value in _told_by(event):
            if event.timestamp >= self._said_at.get(name, 0.0):
                self._said[name], self._said_at[name] = value, event.timestamp
        if event.usage_metadata is not None:
            self._add_usage(event.usage_metadata)
        self._add_audio(stamp_of(event).get("audio"))

    def as_metadata(self) -> dict[str, Any]:
        """What goes out with `finish`: never absent, since clients publish the last step only with it."""
        counted = {"usage": self._usage, "audio": self._audio}
        return self._said | {name: dict(counts) for name, counts in counted.items() if counts}

    def _add_usage(self, usage: "types.GenerateContentResponseUsageMetadata") -> None:
        for name, count in (
            ("inputTokens", usage.prompt_token_count),
            ("outputTokens", usage.candidates_token_count),
            ("totalTokens", usage.total_token_count),
            ("reasoningTokens", usage.thoughts_token_count),
            ("cachedInputTokens", usage.cached_content_token_count),
        ):
            if count:
                self._usage[name] = self._usage.get(name, 0) + count

    def _add_audio(self, audio: Json) -> None:
        for name, count in cast("dict[str, Json]", audio).items() if isinstance(audio, dict) else ():
            if name in ("chunks", "ms") and isinstance(count, int):
                self._audio[name] = self._audio.get(name, 0) + count


def _told_by(event: "Event") -> Iterator[tuple[str, Json]]:
    if event.author != "user" and _is_said(event):
        yield "author", event.author
    if event.model_version:
        yield "modelVersion", event.model_version
    if event.finish_reason is not None:
        yield "finishReason", enum_name(event.finish_reason)
    if event.grounding_metadata is not None and (grounding := _dump(event.grounding_metadata)):
        yield "grounding", grounding
    if event.citation_metadata is not None:
        yield "citations", _dump(event.citation_metadata)
    if event.cache_metadata is not None:
        yield "cache", _dump(event.cache_metadata)


def _is_said(event: "Event") -> bool:
    by_model = event.content is not None and event.content.role != "user"
    return by_model or event.output_transcription is not None


def _dump(model: "BaseModel") -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


_LIVE = "live only: whoever drives the live run reads it, it ends or opens turns"
_SPEECH = "live only: about sound, which does not pass here"
_CONTROL = "ADK's own control flow; nothing to show"

MAPPED_FIELDS: dict[str, frozenset[str]] = {
    "Event": frozenset(
        [
            "actions",
            "author",
            "branch",
            "cache_metadata",
            "citation_metadata",
            "content",
            "custom_metadata",
            "error_code",
            "error_message",
            "finish_reason",
            "grounding_metadata",
            "input_transcription",
            "interrupted",
            "long_running_tool_ids",
            "model_version",
            "node_info",
            "output",
            "output_transcription",
            "partial",
            "timestamp",
            "usage_metadata",
        ]
    ),
    "EventActions": frozenset(["artifact_delta", "requested_tool_confirmations", "state_delta", "transfer_to_agent"]),
    "Part": frozenset(
        [
            "code_execution_result",
            "executable_code",
            "file_data",
            "function_call",
            "function_response",
            "inline_data",
            "text",
            "thought",
            "tool_call",
            "tool_response",
        ]
    ),
    "FunctionCall": frozenset(["args", "id", "name", "partial_args", "will_continue"]),
    "FunctionResponse": frozenset(["id", "name", "parts", "response", "will_continue"]),
}
"""What the encoder reads, by ADK or genai class."""

IGNORED_FIELDS: dict[str, dict[str, str]] = {
    "Event": {
        "avg_logprobs": "a number for evaluation, not for a page",
        "environment_id": "the Interactions API's own bookkeeping",
        "go_away": _LIVE,
        "id": "differs between partial and complete events in live, so it identifies nothing",
        "interaction_id": "the Interactions API's own bookkeeping",
        "interaction_status": _LIVE,
        "invocation_id": "groups the events of a turn in the session, not on the wire",
        "isolation_scope": _CONTROL,
        "live_session_id": _LIVE,
        "live_session_resumption_update": _LIVE,
        "logprobs_result": "large, for evaluation, not for a page",
        "turn_complete": _LIVE,
        "turn_complete_reason": _LIVE,
        "voice_activity": _SPEECH,
    },
    "EventActions": {
        "agent_state": _CONTROL,
        "compaction": "a summary for the model; the page keeps the whole history",
        "end_of_agent": _CONTROL,
        "escalate": _CONTROL,
        "render_ui_widgets": "no standard chunk carries a widget",
        "requested_auth_configs": "the credential request is an ordinary long-running call and is shown as one",
        "rewind_before_invocation_id": "read where history is cut, before events reach the encoder",
        "route": _CONTROL,
        "set_model_response": _CONTROL,
        "skip_summarization": _CONTROL,
        "transfer_reason": "for the next agent; the model's own words are in the call",
    },
    "Part": {
        "audio_transcription": _SPEECH,
        "media_processing": "an instruction to the model",
        "media_resolution": "an instruction to the model",
        "part_metadata": "free-form and provider-side",
        "speech_metadata": _SPEECH,
        "thought_signature": "for the model only; it stays in the session",
        "video_metadata": "an instruction to the model",
    },
    "FunctionCall": {},
    "FunctionResponse": {"scheduling": "tells a live model when to speak"},
}
"""What the encoder leaves out on purpose, and why."""
