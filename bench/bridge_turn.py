"""Turns through a bridge in this process, read as SSE bytes to the end of the run."""

import asyncio

from adkwire.bridge import Bridge
from adkwire.runs.run import Run
from adkwire.server.chat import sse
from adkwire.wire.decode.decoder import TurnInput, UserMessage
from adkwire.wire.profiles import Profile
from bench.http_client import new_chat


async def bridged_turn(bridge: Bridge, chunks: int, readers: int = 1) -> None:
    """Run one turn of so many chunks in a new chat, with so many readers."""
    message = UserMessage("user-1", (str(chunks),))
    run = await bridge.start("bench", TurnInput(new_chat(), "submit-message", message, None))
    await asyncio.gather(*(_read(bridge, run) for _ in range(readers)))
    await run.done.wait()


async def bridged_turns(bridge: Bridge, chunks: int, count: int, readers: int = 1) -> None:
    """Run several turns, one after the other."""
    for _ in range(count):
        await bridged_turn(bridge, chunks, readers)


async def _read(bridge: Bridge, run: Run) -> None:
    async for _ in sse(bridge.reading(run), Profile.declared(None)):
        pass
