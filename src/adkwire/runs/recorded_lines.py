"""What goes into the lines of a recording, and what is kept out of them."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from adkwire.errors import RequestError
from adkwire.wire.chunks import encode_chunk
from adkwire.wire.decoder import decode_json
from adkwire.wire.recordings import Direction, Location, Mode
from adkwire.wire.redaction import HIDDEN, Secrets, is_suspicious, redact, without_media

_MAX_HELD = 1_000
_TYPE = re.compile(rb'^ ?\{"type":"([a-z-]+)"')
_DELTAS = {b"text-delta": "delta", b"reasoning-delta": "delta", b"tool-input-delta": "inputTextDelta"}
_ENDS = frozenset({b"text-end", b"reasoning-end", b"tool-input-available", b"tool-input-error"})
_json = msgspec.json.Decoder()

Slot: TypeAlias = tuple[object, ...]


class RecordedLine(NamedTuple):
    """A line that is to be written. A chunk is bytes, an ADK event a dict, a request or frame a `Body`."""

    timestamp: int
    mode: Mode
    location: Location
    direction: Direction
    sequence: int
    value: "bytes | dict[str, Any] | Body"

    def encoded(self) -> bytes:
        """What it holds as JSON, without what stands under names of secrets."""
        if isinstance(self.value, bytes):
            return _chunk(self.value)
        if isinstance(self.value, Body):
            return encode_chunk(_hidden_when_deep(self.value.redacted))
        return encode_chunk(_hidden_when_deep(partial(redact, self.value)))


class Body(NamedTuple):
    """A request or a frame as the client sent it."""

    raw: bytes

    def redacted(self) -> object:
        """What it says, without headers, secrets and pictures."""
        try:
            value = cast(object, decode_json(_json, self.raw))
        except RequestError:
            return HIDDEN
        if isinstance(value, dict) and "headers" in value:
            return redact(without_media({**cast(dict[str, object], value), "headers": HIDDEN}))
        return redact(without_media(cast(object, value)))


def _chunk(raw: bytes) -> bytes:
    if not is_suspicious(raw):
        return raw
    value: object = _json.decode(raw)
    new = _hidden_when_deep(partial(redact, value))
    return raw if new is value else encode_chunk(new)


def _hidden_when_deep(look: Callable[[], object]) -> object:
    try:
        return look()
    except RecursionError:
        return HIDDEN


class Held:
    """Holds lines back while the end of a text that comes in pieces may be the beginning of a known secret."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._lines: list[RecordedLine] = []
        self._open: dict[Slot, list[int]] = {}
        """Of each such text the lines, by their place among those held, that its end stands in."""

    def take(self, line: RecordedLine) -> list[RecordedLine]:
        """The lines that may be written now that this one has come."""
        self._lines.append(line)
        piece = _piece(line)
        if piece is not None:
            self._join(*piece)
        else:
            self._open = {slot: places for slot, places in self._open.items() if not _ends(line, slot)}
        return [] if self._open and len(self._lines) < _MAX_HELD else self.flush()

    def flush(self) -> list[RecordedLine]:
        """All that is held: nothing more comes."""
        lines, self._lines, self._open = self._lines, [], {}
        return lines

    def _join(self, slot: Slot, text: str) -> None:
        here = len(self._lines) - 1
        places = [*self._open.pop(slot, ()), here]
        before = "".join(_text_of(self._lines[place]) for place in places[:-1])
        covered = self._secrets.cover_text(before + text)
        if covered != before + text:
            self._rewrite(places, covered)
            text, before = covered, ""
        if end := self._secrets.may_go_on(before + text):
            self._open[slot] = places if len(end) > len(text) or before == "" else [here]

    def _rewrite(self, places: list[int], text: str) -> None:
        """The first line of them gets the whole text."""
        for place in places:
            self._lines[place] = _with_text(self._lines[place], text if place == places[0] else "")


def _piece(line: RecordedLine) -> tuple[Slot, str] | None:
    """Which text the line brings a piece of, and the piece."""
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


def _partial_part(value: "dict[str, Any] | Body") -> dict[str, Any] | None:
    """The last text of a partial ADK event."""
    if isinstance(value, Body) or not value.get("partial"):
        return None
    content: dict[str, Any] = value.get("content") or {}
    parts: list[dict[str, Any]] = content.get("parts") or []
    return next((part for part in reversed(parts) if part.get("text")), None)


def _ends(line: RecordedLine, slot: Slot) -> bool:
    if line.location != slot[0]:
        return False
    return _type_of(line.value) in _ENDS if isinstance(line.value, bytes) else True
