"""Breaks in the stream log of a live message: where the response of a stock client may end, and nobody else's does.

A break is an entry of the log and no chunk: no client ever sees it.
"""

from collections.abc import Iterable

from adkwire.wire.chunks import Chunk, decode_chunk

BREAK = b' {"type":"adkwire-break"}'
"""The entry. It begins with a space, as all do that not every reader gets as they are."""


def is_break(entry: bytes) -> bool:
    """Whether an entry of a log is a break."""
    return entry == BREAK


def chunks_in(entries: Iterable[bytes]) -> list[Chunk]:
    """The chunks of a log, without its breaks."""
    return [decode_chunk(entry) for entry in entries if not is_break(entry)]
