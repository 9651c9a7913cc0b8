"""An HTTP client that uses little CPU and checks that the whole answer came."""

import asyncio
import itertools
import time
from typing import NamedTuple

from bench.agents.flood.agent import PIECE
from bench.servers import Server

_numbers = itertools.count()


def new_chat() -> str:
    """Return a new chat id."""
    return f"chat-{next(_numbers)}"


class Latency(NamedTuple):
    """Seconds from the request to the first event of any kind, and to the first text of the model."""

    chunk: float
    text: float


async def turn(server: Server, chunks: int) -> Latency:
    """Run one turn in a new chat and read it to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    body, seen = bytearray(), dict[bytes, float]()
    marks = [b"data:", PIECE.encode()]
    writer.write(server.contender.request(server.port, new_chat(), chunks))
    started = time.perf_counter()
    while data := await reader.read(65536):
        body += data
        now = time.perf_counter() - started
        while marks and marks[0] in body:
            seen[marks.pop(0)] = now
    writer.close()
    if not body.startswith(b"HTTP/1.1 200") or body.count(PIECE.encode()) < chunks:
        raise RuntimeError(f"{server.contender.path} did not answer in full: {bytes(body[-300:])!r}")
    return Latency(*seen.values())


async def turns(server: Server, chunks: int, count: int, concurrency: int) -> None:
    """Run several turns, so many at a time."""
    waiting = iter(range(count))

    async def one_after_another() -> None:
        for _ in waiting:
            await turn(server, chunks)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(one_after_another())
