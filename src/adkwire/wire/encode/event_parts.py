"""Readers of a single ADK event or part: its stamp, its kind, and the chunks that need no state of the message."""

import base64
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

from msgspec import UNSET

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, Json

if TYPE_CHECKING:
    from enum import Enum

    from google.adk.events.event import Event
    from google.genai import types

STAMP = "adkwire"
"""The key of our stamp in an event's `custom_metadata`."""
OWN_STATE_PREFIX = "adkwire:"
"""The prefix of our own keys in the session's state, which readers do not get."""

_PCM = "audio/pcm"
_PCM_RATE = re.compile(r"rate=(\d{4,6})")
_DEFAULT_PCM_RATE = 24_000


def enum_name(value: "Enum | str | None") -> str:
    """Return the name of an enum member; genai has unknown members as plain strings."""
    return "" if value is None else value if isinstance(value, str) and type(value) is str else str(value.name)  # type: ignore[union-attr]


def stamp_of(event: "Event") -> dict[str, Json]:
    """Return our stamp on an event; empty when it has none."""
    stamp = (event.custom_metadata or {}).get(STAMP)
    return cast("dict[str, Json]", stamp) if isinstance(stamp, dict) else {}


def stamp_about(event: "Event", field: str, call_id: str | None) -> dict[str, Json]:
    """Return what a field of our stamp on an event has about one call; empty when it has nothing."""
    value: Json = stamp_of(event)
    for name in (field, call_id):
        value = cast("dict[str | None, Json]", value).get(name) if isinstance(value, dict) else None
    return cast("dict[str, Json]", value) if isinstance(value, dict) else {}


def shown_at(event: "Event") -> float:
    """Return when the content of an event was first sent to readers, which may be before the event was stored."""
    at = stamp_of(event).get("at")
    return at if isinstance(at, int | float) else event.timestamp


def kind_of(part: "types.Part") -> str | None:
    """Return the kind of a part: text, reasoning, media or audio; None for a call, a response or an empty part."""
    if part.text:
        return "reasoning" if part.thought else "text"
    if part.inline_data is not None:
        return "audio" if (part.inline_data.mime_type or "").startswith(_PCM) else "media"
    if part.file_data is not None or part.executable_code is not None or part.code_execution_result is not None:
        return "media"
    return None


def media_chunks(part: "types.Part") -> list[Chunk]:
    """Return the chunks of a part of the kind `media`."""
    if part.inline_data is not None:
        return file_chunks(part.inline_data.mime_type, part.inline_data.data)
    if part.file_data is not None:
        return link_chunks(part.file_data.mime_type, part.file_data.file_uri)
    if part.executable_code is not None:
        code = part.executable_code
        data = {"language": enum_name(code.language), "code": code.code or ""}
        return [c.Data(type="data-executable-code", data=data)]
    result = cast("types.CodeExecutionResult", part.code_execution_result)
    data = {"outcome": enum_name(result.outcome), "output": result.output or ""}
    return [c.Data(type="data-code-execution-result", data=data)]


def audio_chunk(part: "types.Part") -> Chunk:
    """Return the chunk of a part of the kind `audio`. It is transient, because PCM is too large for a message."""
    blob = part.inline_data
    rate = _PCM_RATE.search(blob.mime_type or "") if blob is not None else None
    data = {
        "chunk": base64.b64encode((blob.data if blob is not None else None) or b"").decode(),
        "sampleRate": int(rate[1]) if rate else _DEFAULT_PCM_RATE,
        "channels": 1,
        "bitDepth": 16,
    }
    return c.Data(type="data-pcm", data=data, transient=True)


def user_transcript_chunks(event: "Event") -> list[Chunk]:
    """Return the transcript of the user's speech as a transient chunk: its text belongs to the user's own message."""
    transcript = event.input_transcription
    if transcript is None or not transcript.text:
        return []
    data = {"role": "user", "text": transcript.text, "final": transcript.finished is True}
    return [c.Data(type="data-transcript", data=data, transient=True)]


def file_chunks(media_type: str | None, data: bytes | None) -> list[Chunk]:
    """Return inline bytes as a file with a data URL."""
    kind = media_type or "application/octet-stream"
    return [c.File(url=data_url(kind, data or b""), media_type=kind)]


def link_chunks(media_type: str | None, uri: str | None) -> list[Chunk]:
    """Return a file by its URI; the server never fetches it."""
    return [c.File(url=uri, media_type=media_type or "application/octet-stream")] if uri else []


def data_url(media_type: str, data: bytes) -> str:
    """Return a URL that contains the bytes."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def response_media_chunks(response: "types.FunctionResponse") -> list[Chunk]:
    """Return the files that a tool's response carries beside its value."""
    out: list[Chunk] = []
    for part in response.parts or ():
        if part.inline_data is not None:
            out += file_chunks(part.inline_data.mime_type, part.inline_data.data)
        elif part.file_data is not None:
            out += link_chunks(part.file_data.mime_type, part.file_data.file_uri)
    return out


def action_chunks(event: "Event") -> list[Chunk]:
    """Return the chunks of an event's actions: a transfer to another agent, changed state, new artifacts."""
    out: list[Chunk] = []
    actions = event.actions
    if actions.transfer_to_agent:
        out.append(c.Data(type="data-transfer", data={"from": event.author, "to": actions.transfer_to_agent}))
    if actions.state_delta:
        delta = {k: v for k, v in actions.state_delta.items() if not k.startswith(("temp:", OWN_STATE_PREFIX))}
        if delta:
            out.append(c.Data(type="data-state", data={"delta": delta}))
    if actions.artifact_delta:
        out.append(c.Data(type="data-artifact", data={"versions": dict(actions.artifact_delta)}))
    return out


class CitedSource(NamedTuple):
    """A web page or a document that the answer is based on."""

    uri: str | None
    title: str | None

    @property
    def key(self) -> str:
        """What two mentions of the same source have in common."""
        return self.uri or self.title or ""

    def chunk(self, source_id: str) -> Chunk:
        """Return a link when a browser can open it, else a document."""
        if self.uri is not None and self.uri.startswith(("http://", "https://")):
            return c.SourceUrl(source_id=source_id, url=self.uri, title=self.title or UNSET)
        return c.SourceDocument(source_id=source_id, media_type="text/plain", title=self.title or self.uri or "")


def cited_sources(event: "Event") -> Iterator[CitedSource]:
    """Return the sources that an event names, in its order; the same one may come twice."""
    if event.grounding_metadata is not None:
        for chunk in event.grounding_metadata.grounding_chunks or ():
            for source in (chunk.web, chunk.retrieved_context, chunk.maps):
                if source is not None and (source.uri or source.title):
                    yield CitedSource(source.uri, source.title)
    if event.citation_metadata is not None:
        for citation in event.citation_metadata.citations or ():
            if citation.uri or citation.title:
                yield CitedSource(citation.uri, citation.title)
