"""One connection through a `FaultProxy`: two pipes, until both ends close or something comes between them."""

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeAlias

from tests.faults.plan import Direction, End, Way

PIECE = 1 << 14
QUEUED = 64
TICKS_PER_SECOND = 50
NO_LINGERING = struct.pack("ii", 1, 0)

Stream: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Work: TypeAlias = Coroutine[Any, Any, None]


class Pipe:
    """One direction of a connection: what is read at one end is written at the other."""

    def __init__(
        self, way: Way, delay: Callable[[], float], source: Stream, sink: Stream, passed: Callable[[int], None]
    ) -> None:
        self._way, self._delay, self._passed = way, delay, passed
        self._reader, self._writer = source[0], sink[1]
        # No more is taken than has to be on its way: a slow line is felt by who sends.
        self._queue = asyncio.Queue[tuple[float, bytes]](QUEUED if way.latency or way.jitter else 1)
        # Without a buffer of our own, what was written is out, and a reset does not take it back.
        self._writer.transport.set_write_buffer_limits(0)

    async def run(self) -> End | None:
        """Pass everything on to the end of the source, or to the fault, which is returned."""
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._read(), name="fault-proxy-read")
            end = await self._write()
            reading.cancel()
        return end

    async def _read(self) -> None:
        # Apart from writing, or a delay would hold up all that comes behind it.
        due, left, data = 0.0, self._way.after, b" "
        while data and (left or self._way.end is None):
            data = await self._reader.read(min(PIECE, left) if self._way.end else PIECE)
            left -= len(data)
            due = max(due, _now() + self._delay())
            await self._queue.put((due, data))

    async def _write(self) -> End | None:
        left = self._way.after
        while left or self._way.end is None:
            due, data = await self._queue.get()
            await asyncio.sleep(due - _now())
            if not data:
                self._writer.write_eof()
                return None
            await self._pass_on(data)
            left -= len(data)
        return self._way.end

    async def _pass_on(self, data: bytes) -> None:
        rate = self._way.rate
        step = len(data) if rate is None else max(1, int(rate / TICKS_PER_SECOND))
        for start in range(0, len(data), step):
            piece = data[start : start + step]
            if rate is not None:
                await asyncio.sleep(len(piece) / rate)
            self._writer.write(piece)
            await self._writer.drain()
            self._passed(len(piece))


class Connection:
    """A client, a server, and the two pipes between them."""

    def __init__(
        self, client: Stream, server: Stream, pipes: dict[Direction, Pipe], struck: Callable[[End], None]
    ) -> None:
        self._ends = {Direction.UP: client, Direction.DOWN: server}
        self._pipes, self._struck = pipes, struck
        self._writers = (client[1], server[1])
        self._runs = dict[Direction, "asyncio.Task[None]"]()

    async def run(self) -> None:
        """Pass on until both ends have closed."""
        try:
            self._runs = {way: task_of(self._flow(way), f"fault-proxy-{way}") for way in Direction}
            while waiting := [task for task in self._runs.values() if not task.done()]:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.gather(*self._runs.values())
        finally:
            # At once, for whoever cancels this may not wait for it to end well.
            for writer in self._writers:
                writer.transport.abort()
            await cancel(*self._runs.values())
            await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)

    def strike(self, end: End, *directions: Direction) -> None:
        """Cause this fault now; the directions apply to the faults that have one."""
        self._struck(end)
        match end:
            case End.CUT:
                self._replace(Direction, self._fin)
            case End.RESET:
                self._reset()
            case End.HOLE:
                self._replace(directions, _nothing)
            case End.HALF_OPEN:
                self._replace(Direction, _nothing)
                for direction in directions:
                    self._ends[direction][1].transport.abort()

    async def _flow(self, direction: Direction) -> None:
        try:
            end = await self._pipes[direction].run()
        except* OSError:
            # One end has reset its connection: the other one hears it the same way.
            self._reset()
        else:
            if end is not None:
                self.strike(end, direction)

    def _replace(self, directions: Iterable[Direction], then: Callable[[Direction], Work]) -> None:
        for direction in directions:
            before = self._runs[direction]
            before.cancel()
            self._runs[direction] = task_of(_after(before, then, direction), f"fault-proxy-{direction}-over")

    def _reset(self) -> None:
        self._replace(Direction, _over)
        for writer in self._writers:
            reset(writer)

    async def _fin(self, direction: Direction) -> None:
        """Send a FIN to the sender and read the rest: closing with unread data would send an RST."""
        reader, writer = self._ends[direction]
        with suppress(OSError):
            writer.write_eof()
            while await reader.read(PIECE):
                pass


def task_of(work: Work, name: str) -> "asyncio.Task[None]":
    return asyncio.get_running_loop().create_task(work, name=name)


async def cancel(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def reset(writer: asyncio.StreamWriter) -> None:
    # It may be closed already.
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGERING)
    writer.transport.abort()


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _after(before: "asyncio.Task[None]", then: Callable[[Direction], Work], direction: Direction) -> None:
    # A stream has one reader at a time.
    await asyncio.wait([before])
    await then(direction)


async def _nothing(_: Direction) -> None:
    await asyncio.get_running_loop().create_future()


async def _over(_: Direction) -> None:
    pass
