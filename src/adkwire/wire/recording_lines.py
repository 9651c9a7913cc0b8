"""The lines of a recording: the events, chunks and frames of one chat in the order in which they came.

Each line is a JSON object with the keys of `RecordingLine`. The chunks of a run are never mixed with those of another
run; a chunk with the sequence 0 begins the next run.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Raw

from adkwire.wire.chunks import Start, decode_chunk
from adkwire.wire.profiles import encode_chunks

Mode = Literal["sse", "websocket", "gemini", "live"]
LineLocation = Literal["server-adk-event", "server-chunk", "client-frame", "client-chunk", "client-usechat"]
LineDirection = Literal["in", "out"]
MODES: tuple[Mode, ...] = get_args(Mode)
LOCATIONS: tuple[LineLocation, ...] = get_args(LineLocation)


class RecordingLine(msgspec.Struct, frozen=True):
    """One line of a recording; `direction` is seen from the server."""

    timestamp: Annotated[int, Meta(ge=0)]
    """Milliseconds since 1970."""
    chat: str
    mode: Mode
    location: LineLocation
    direction: LineDirection
    sequence: Annotated[int, Meta(ge=0)]
    """The number of a chunk in its run; of any other line, its number among those of its location."""
    chunk: Raw


_FORM = b'{"timestamp":%d,"chat":%b,"mode":"%b","location":"%b","direction":"%b","sequence":%d,"chunk":%b}\n'
_EVENT_LINE = re.compile(rb'\{"timestamp":\d+,"chat":"[^"]*","mode":"[a-z]+","location":"server-adk-event"')
_line = msgspec.json.Decoder(RecordingLine)


class NotARecording(ValueError):
    """An error for a file that cannot be replayed, with the line and the reason."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {reason}")
        self.number = number
        self.reason = reason


def encode_line(
    timestamp: int, chat: str, mode: Mode, location: LineLocation, direction: LineDirection, sequence: int, chunk: bytes
) -> bytes:
    """Return a line with its line break; `chunk` is already encoded."""
    names = (mode.encode(), location.encode(), direction.encode())
    return _FORM % (timestamp, msgspec.json.encode(chat), *names, sequence, chunk)


def belongs_to(head: bytes, chat: str) -> bool:
    """Return True if `head` is the beginning of a recording of this chat."""
    timestamp, comma, rest = head.partition(b",")
    return (
        timestamp.startswith(b'{"timestamp":')
        and bool(comma)
        and rest.startswith(b'"chat":%b,' % msgspec.json.encode(chat))
    )


def is_event_line(line: bytes) -> bool:
    """Return True if a line that `encode_line` wrote has an event of ADK."""
    return _EVENT_LINE.match(line) is not None


def read_lines(data: bytes) -> list[tuple[int, RecordingLine]]:
    """Return the lines of a file with their numbers, without a last line that was cut off when the server stopped."""
    *whole, cut = data.split(b"\n")
    lines = [(number, _read_line(number, raw)) for number, raw in enumerate(whole, 1) if raw]
    if cut and not lines:
        lines.append((1, _read_line(1, cut)))
    return lines


def _read_line(number: int, raw: bytes) -> RecordingLine:
    try:
        return _line.decode(raw)
    except msgspec.ValidationError as error:
        raise NotARecording(number, f"is not a line of a recording: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotARecording(number, f"is not JSON: {error}") from None


@dataclass
class RecordedRun:
    """One run of a recording: the encoded chunks that were sent, and when."""

    message: str
    entries: list[bytes] = field(default_factory=list[bytes])
    times: list[int] = field(default_factory=list[int])
    """Milliseconds since 1970, one for each entry."""
    last: int = -1
    """The sequence of its last entry. Numbers may be missing, which a killed server did not write."""


@dataclass
class Recording:
    """A recording of one chat."""

    chat: str
    runs: Sequence[RecordedRun]


def read_recording(data: bytes) -> Recording:
    """Read a recording; raises `NotARecording` when it has no run."""
    lines = read_lines(data)
    runs = _runs(lines)
    if not runs:
        raise NotARecording(len(lines) + 1, "the file ends without an answer of the server")
    return Recording(lines[0][1].chat, runs)


def _runs(lines: Iterable[tuple[int, RecordingLine]]) -> list[RecordedRun]:
    runs: list[RecordedRun] = []
    for number, line in lines:
        if line.location == "server-chunk":
            _take(runs, number, line)
    return runs


def _take(runs: list[RecordedRun], number: int, line: RecordingLine) -> None:
    try:
        chunk = decode_chunk(bytes(line.chunk))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotARecording(number, f"is not a chunk: {error}") from None
    if line.sequence == 0:
        if not isinstance(chunk, Start) or not isinstance(chunk.message_id, str):
            raise NotARecording(number, "a run begins with a `start` that names its message")
        runs.append(RecordedRun(chunk.message_id))
    elif not runs:
        return  # The rest of a run that began before the recording.
    elif line.sequence <= runs[-1].last:
        raise NotARecording(number, f"chunk {line.sequence} comes after chunk {runs[-1].last}")
    run = runs[-1]
    run.entries += encode_chunks([chunk])
    run.times.append(line.timestamp)
    run.last = line.sequence
