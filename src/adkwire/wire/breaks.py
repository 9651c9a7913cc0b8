"""Breaks in the stream log of a live message: where the response of a stock client may end, and nobody else's does.

A break is an entry of the log and no chunk: no client ever sees it. It holds the chunks with which a response ends
there.
"""

from collections.abc import Iterable, Sequence

import msgspec

from adkwire.wire.chunks import Chunk, decode_chunk, encode_chunk

_BREAK = b' {"type":"adkwire-break","ends":'
"""It begins with a space, as all entries do that not every reader gets as they are."""


class _Break(msgspec.Struct):
    ends: list[msgspec.Raw]


_decoder = msgspec.json.Decoder(_Break)


def break_entry(ends: Sequence[Chunk]) -> bytes:
    """The entry for a place where a response may end with these chunks."""
    return _BREAK + b"[" + b",".join(map(encode_chunk, ends)) + b"]}"


def is_break(entry: bytes) -> bool:
    """Whether an entry of a log is a break."""
    return entry.startswith(_BREAK)


def ends_of(entry: bytes) -> list[Chunk]:
    """The chunks with which a response ends at a break."""
    return [decode_chunk(bytes(raw)) for raw in _decoder.decode(entry).ends]


def chunks_in(entries: Iterable[bytes]) -> list[Chunk]:
    """The chunks of a log, without its breaks."""
    return [decode_chunk(entry) for entry in entries if not is_break(entry)]
