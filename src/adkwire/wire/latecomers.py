"""What was told before, for a page that joins later."""

from collections.abc import Iterable

from adkwire.wire import chunks as c
from adkwire.wire.calls import input_as_text
from adkwire.wire.chunks import Chunk


def for_latecomers(chunks: Iterable[Chunk]) -> list[Chunk]:
    """What was made of stored events, for a page that joins: it must not execute again what is over.

    `tool-input-available` would make it so, the same arguments as text do not.
    """
    said = list(chunks)
    outputs = (c.ToolOutputAvailable, c.ToolOutputError, c.ToolOutputDenied)
    over = {chunk.tool_call_id for chunk in said if isinstance(chunk, outputs)}
    return [quiet for chunk in said for quiet in _quietly(chunk, over)]


def _quietly(chunk: Chunk, over: set[str]) -> list[Chunk]:
    if not isinstance(chunk, c.ToolInputAvailable) or chunk.tool_call_id not in over or chunk.provider_executed is True:
        return [chunk]
    return input_as_text(chunk.tool_call_id, chunk.tool_name, chunk.input)
