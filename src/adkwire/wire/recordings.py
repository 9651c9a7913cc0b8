"""The lines of a recording: what was sent and received in one chat, as it happened.

One JSON object per line, with the keys of `Line`. What the server sent stands run after run: the chunks of a run are
never mixed with those of another, and number 0 begins the next one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Raw

from adkwire.wire.chunks import Start, decode_chunk
from adkwire.wire.profiles import encode_chunks

Mode = Literal["sse", "websocket", "gemini", "live"]
Location = Literal["server-adk-event", "server-chunk", "client-frame", "client-chunk", "client-usechat"]
Direction = Literal["in", "out"]
MODES: tuple[Mode, ...] = get_args(Mode)
LOCATIONS: tuple[Location, ...] = get_args(Location)


class Line(msgspec.Struct, frozen=True):
    """One line. `direction` is seen from the server."""

    timestamp: Annotated[int, Meta(ge=0)]
    """Milliseconds since 1970."""
    chat: str
    mode: Mode
    location: Location
    direction: Direction
    sequence: Annotated[int, Meta(ge=0)]
    """Of a chunk its number in its run; of anything else its number among those of its location."""
    chunk: Raw


_FORM = b'{"timestamp":%d,"chat":%b,"mode":"%b","location":"%b","direction":"%b","sequence":%d,"chunk":%b}\n'
_line = msgspec.json.Decoder(Line)


class NotARecording(ValueError):
    """A file that cannot be replayed; says in which line, and why."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {reason}")
        self.number = number
        self.reason = reason


def encode_line(
    timestamp: int, chat: str, mode: Mode, location: Location, direction: Direction, sequence: int, chunk: bytes
) -> bytes:
    """A line, with its end. The chunk is taken as it is encoded."""
    words = (mode.encode(), location.encode(), direction.encode())
    return _FORM % (timestamp, msgspec.json.encode(chat), *words, sequence, chunk)


def belongs_to(head: bytes, chat: str) -> bool:
    """Whether a file that begins so is a recording of this chat."""
    stamp, comma, rest = head.partition(b",")
    return (
        stamp.startswith(b'{"timestamp":')
        and bool(comma)
        and rest.startswith(b'"chat":%b,' % msgspec.json.encode(chat))
    )


def read_lines(data: bytes) -> list[tuple[int, Line]]:
    """The lines of a file and their numbers. A last one without an end was cut off with its server: it is left out."""
    *whole, cut = data.split(b"\n")
    lines = [(number, _read_line(number, raw)) for number, raw in enumerate(whole, 1) if raw]
    if cut and not lines:
        lines.append((1, _read_line(1, cut)))
    return lines


def _read_line(number: int, raw: bytes) -> Line:
    try:
        return _line.decode(raw)
    except msgspec.ValidationError as error:
        raise NotARecording(number, f"is no line of a recording: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotARecording(number, f"is not JSON: {error}") from None


@dataclass
class RecordedRun:
    """One answer, or one continuation of it: what was sent, and when."""

    message: str
    entries: list[bytes] = field(default_factory=list[bytes])
    times: list[int] = field(default_factory=list[int])
    """Milliseconds, one for each entry."""
    last: int = -1
    """The number of its last entry: what a killed server did not get written is missing."""


@dataclass
class Recording:
    """A whole file."""

    chat: str
    runs: Sequence[RecordedRun]


def read_recording(data: bytes) -> Recording:
    """What there is to replay; a file without any run is none."""
    lines = read_lines(data)
    runs = _runs(lines)
    if not runs:
        raise NotARecording(len(lines) + 1, "the file ends, and has no answer in it")
    return Recording(lines[0][1].chat, runs)


def _runs(lines: Iterable[tuple[int, Line]]) -> list[RecordedRun]:
    runs: list[RecordedRun] = []
    for number, line in lines:
        if line.location == "server-chunk":
            _take(runs, number, line)
    return runs


def _take(runs: list[RecordedRun], number: int, line: Line) -> None:
    try:
        chunk = decode_chunk(bytes(line.chunk))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotARecording(number, f"is no chunk: {error}") from None
    if line.sequence == 0:
        if not isinstance(chunk, Start) or not isinstance(chunk.message_id, str):
            raise NotARecording(number, "a run begins with a `start` that names its message")
        runs.append(RecordedRun(chunk.message_id))
    elif not runs:
        return  # The end of an answer that began before it was recorded.
    elif line.sequence <= runs[-1].last:
        raise NotARecording(number, f"chunk {line.sequence} comes behind chunk {runs[-1].last}")
    run = runs[-1]
    run.entries += encode_chunks([chunk])
    run.times.append(line.timestamp)
    run.last = line.sequence
