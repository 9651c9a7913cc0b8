"""Breaks in the stream log of a live message: the places where the response to a stock client may end.

A break is an entry of the stream log, but not a chunk, and no client gets it. It holds the chunks that end a response
at this place. Readers that understand live frames go on reading.
"""

from collections.abc import Iterable, Sequence

import msgspec

from adkwire.wire.chunks import Chunk, decode_chunk, encode_chunk

_BREAK = b' {"type":"adkwire-break","ends":'
"""The beginning of a break. The space marks all entries that not every reader gets unchanged."""


class _Break(msgspec.Struct):
    ends: list[msgspec.Raw]


_decoder = msgspec.json.Decoder(_Break)


def break_entry(ends: Sequence[Chunk]) -> bytes:
    """Return the entry of a break at which a response ends with these chunks."""
    return _BREAK + b"[" + b",".join(map(encode_chunk, ends)) + b"]}"


def is_break(entry: bytes) -> bool:
    """Return True if an entry of a stream log is a break."""
    return entry.startswith(_BREAK)


def break_chunks(entry: bytes) -> list[Chunk]:
    """Return the chunks that end a response at a break."""
    return [decode_chunk(bytes(raw)) for raw in _decoder.decode(entry).ends]


def decode_log(entries: Iterable[bytes]) -> list[Chunk]:
    """Return the chunks of a stream log, without its breaks."""
    return [decode_chunk(entry) for entry in entries if not is_break(entry)]
