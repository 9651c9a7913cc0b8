"""The lines of a recording before they are written, and how secrets are kept out of them."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from adkwire.errors import RequestError
from adkwire.wire.chunks import encode_chunk
from adkwire.wire.decode.request_json import decode_json
from adkwire.wire.recording_lines import LineDirection, LineLocation, Mode
from adkwire.wire.redaction import HIDDEN, Secrets, is_suspicious, redact, without_media

_MAX_BUFFERED = 1_000
"""Lines that a `SplitSecretBuffer` keeps at most."""
_TYPE = re.compile(rb'^ ?\{"type":"([a-z-]+)"')
_DELTAS = {b"text-delta": "delta", b"reasoning-delta": "delta", b"tool-input-delta": "inputTextDelta"}
_END_TYPES = frozenset({b"text-end", b"reasoning-end", b"tool-input-available", b"tool-input-error"})
_json = msgspec.json.Decoder()

TextKey: TypeAlias = tuple[object, ...]
"""Identifies a streamed text: the location of its lines, its kind and its id."""


class RecordedLine(NamedTuple):
    """A line to write. Its value is bytes for a chunk, a dict for an ADK event, a `ClientBody` for client input."""

    timestamp: int
    mode: Mode
    location: LineLocation
    direction: LineDirection
    sequence: int
    value: "bytes | dict[str, Any] | ClientBody"

    def encoded(self) -> bytes:
        """Return the value as JSON; values under names of secrets are redacted."""
        if isinstance(self.value, bytes):
            return _redacted_chunk(self.value)
        if isinstance(self.value, ClientBody):
            return encode_chunk(_hidden_if_too_deep(self.value.redacted))
        return encode_chunk(_hidden_if_too_deep(partial(redact, self.value)))


class ClientBody(NamedTuple):
    """The body of a request, or a frame of a socket, as the client sent it."""

    raw: bytes

    def redacted(self) -> object:
        """Return the decoded body without headers, secrets and media."""
        try:
            value = cast(object, decode_json(_json, self.raw))
        except RequestError:
            return HIDDEN
        if isinstance(value, dict) and "headers" in value:
            return redact(without_media({**cast(dict[str, object], value), "headers": HIDDEN}))
        return redact(without_media(cast(object, value)))


def _redacted_chunk(raw: bytes) -> bytes:
    if not is_suspicious(raw):
        return raw
    value: object = _json.decode(raw)
    new = _hidden_if_too_deep(partial(redact, value))
    return raw if new is value else encode_chunk(new)


def _hidden_if_too_deep(redacted: Callable[[], object]) -> object:
    try:
        return redacted()
    except RecursionError:
        return HIDDEN


class SplitSecretBuffer:
    """Keeps lines while the end of a streamed text may be the beginning of a known secret."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._lines: list[RecordedLine] = []
        self._open: dict[TextKey, list[int]] = {}
        """For each text that may end in a part of a secret: the indexes of the lines that contain that end."""

    def add(self, line: RecordedLine) -> list[RecordedLine]:
        """Add a line, and return the lines that may be written now."""
        self._lines.append(line)
        piece = _piece(line)
        if piece is not None:
            self._redact_text(*piece)
        else:
            self._open = {key: indexes for key, indexes in self._open.items() if not _ends_text(line, key)}
        return [] if self._open and len(self._lines) < _MAX_BUFFERED else self.flush()

    def flush(self) -> list[RecordedLine]:
        """Return all lines; the texts in them end here."""
        lines, self._lines, self._open = self._lines, [], {}
        return lines

    def _redact_text(self, key: TextKey, text: str) -> None:
        """Redact secrets in a text that this piece continues, and note whether the text may end in a part of one."""
        last = len(self._lines) - 1
        indexes = [*self._open.pop(key, ()), last]
        before = "".join(_text_of(self._lines[index]) for index in indexes[:-1])
        covered = self._secrets.cover_text(before + text)
        if covered != before + text:
            self._replace_text(indexes, covered)
            text, before = covered, ""
        if end := self._secrets.begun_at_end(before + text):
            self._open[key] = indexes if len(end) > len(text) or before == "" else [last]

    def _replace_text(self, indexes: list[int], text: str) -> None:
        """Put the whole text into the first of these lines, and no text into the others."""
        for index in indexes:
            self._lines[index] = _with_text(self._lines[index], text if index == indexes[0] else "")


def _piece(line: RecordedLine) -> tuple[TextKey, str] | None:
    """Return which text a line continues, and the piece that it adds; None for a line without streamed text."""
    value = line.value
    if isinstance(value, bytes):
        name = _DELTAS.get(_type_of(value))
        if name is None:
            return None
        chunk = cast(dict[str, str], _json.decode(value))
        return (line.location, chunk["type"], chunk.get("id") or chunk.get("toolCallId")), chunk[name]
    part = _partial_part(value)
    return ((line.location, bool(part.get("thought"))), part["text"]) if part is not None else None


def _text_of(line: RecordedLine) -> str:
    piece = _piece(line)
    return piece[1] if piece is not None else ""


def _with_text(line: RecordedLine, text: str) -> RecordedLine:
    if isinstance(line.value, bytes):
        chunk = cast(dict[str, str], _json.decode(line.value))
        return line._replace(value=encode_chunk({**chunk, _DELTAS[_type_of(line.value)]: text}))
    if (part := _partial_part(line.value)) is not None:
        part["text"] = text
    return line


def _type_of(raw: bytes) -> bytes:
    found = _TYPE.match(raw)
    return found[1] if found is not None else b""


def _partial_part(value: "dict[str, Any] | ClientBody") -> dict[str, Any] | None:
    """Return the last text part of a partial ADK event."""
    if isinstance(value, ClientBody) or not value.get("partial"):
        return None
    content: dict[str, Any] = value.get("content") or {}
    parts: list[dict[str, Any]] = content.get("parts") or []
    return next((part for part in reversed(parts) if part.get("text")), None)


def _ends_text(line: RecordedLine, key: TextKey) -> bool:
    if line.location != key[0]:
        return False
    return _type_of(line.value) in _END_TYPES if isinstance(line.value, bytes) else True
