"""A bad network between a client and a server of this machine, with faults by plan or by order.

In a test: `async with FaultProxy(port, Faults(...)) as proxy`. For clients in other processes there is
`python -m tests.faults.proxy PORT` (`proxy_process` starts it). It prints the `port` where it listens and the `control`
port where it takes orders, and ends with its input. An order is a JSON object that is POSTed to `/`, such as
`{"do": "cut"}`; the answer is the counts.
"""

import argparse
import asyncio
import itertools
import json
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tests.faults.connection import Connection, Pipe, Stream, Work, cancel, reset, task_of
from tests.faults.plan import Direction, End, Faults, Line, Way
from tests.patience import PATIENCE
from tests.server.app_server import serving

__all__ = ["Counts", "Direction", "End", "FaultProxy", "Faults", "Line", "ProxyProcess", "Way", "proxy_process"]

HOST = "127.0.0.1"


@dataclass
class Counts:
    """Counts: accepted connections, those that are open, those that reached no server, bytes, faults."""

    connections: int = 0
    open: int = 0
    unreachable: int = 0
    bytes: Counter[Direction] = field(default_factory=lambda: Counter[Direction]())
    faults: Counter[End] = field(default_factory=lambda: Counter[End]())


class FaultProxy:
    """Listens on a free port and connects whoever comes to the port `target`.

    A new `target` holds for connections to come, and so do new `faults`, which count them from the first line on.
    """

    def __init__(self, target: int, faults: Faults | None = None) -> None:
        self.target = target
        self.counts = Counts()
        self.port = 0
        self.faults = faults or Faults()
        self._connections = set[Connection]()
        self._tasks = set["asyncio.Task[None]"]()
        self._listener: asyncio.Server | None = None
        self._away: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def faults(self) -> Faults:
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._faults, self._numbers = faults, itertools.count()

    async def __aenter__(self) -> Self:
        # Bound and never listening: it keeps the port ours while connections are refused.
        self._place = _bound(0)
        self.port = self._place.getsockname()[1]
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.refuse()
        failed = [task for task in self._tasks if task.done()]
        await cancel(*self._tasks)
        self._place.close()
        for task in failed:
            task.result()

    async def accept(self) -> None:
        """Take connections again."""
        if self._listener is None:
            # Nothing is awaited before it is known, so a second call cannot bind again.
            self._listener = await asyncio.start_server(self._come, sock=_bound(self.port), start_serving=False)
            await self._listener.start_serving()

    def refuse(self) -> None:
        """Take no connections from now on; those that are open stay."""
        if self._away is not None:
            self._away.cancel()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def cut(self) -> None:
        """A FIN to both ends of every connection."""
        self._strike(End.CUT)

    def reset(self) -> None:
        """An RST to both ends of every connection."""
        self._strike(End.RESET)

    def hole(self, *directions: Direction) -> None:
        """Let nothing pass any more on the open connections, in these directions or both."""
        self._strike(End.HOLE, *(directions or Direction))

    def half_open(self, direction: Direction = Direction.DOWN) -> None:
        """Drop the end that sends in this direction, by default the server, without a FIN or RST to the other one."""
        self._strike(End.HALF_OPEN, direction)

    async def until(self, holds: Callable[[Counts], bool]) -> None:
        """Wait for counts like these."""
        while not holds(self.counts):
            self._changed.clear()
            await self._changed.wait()

    def _strike(self, end: End, *directions: Direction) -> None:
        for connection in list(self._connections):
            connection.strike(end, *directions)

    def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(self._numbers)
        self.counts.connections += 1
        self._changed.set()
        serving = self._keep(self._serve((reader, writer), self._faults, number), f"fault-proxy-{number}")
        serving.add_done_callback(lambda _: writer.transport.abort())

    def _keep(self, work: Work, name: str) -> "asyncio.Task[None]":
        task = task_of(work, name)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: "asyncio.Task[None]") -> None:
        # One that failed is kept, to be told at the end.
        if task.cancelled() or task.exception() is None:
            self._tasks.discard(task)

    async def _serve(self, client: Stream, faults: Faults, number: int) -> None:
        try:
            server = await asyncio.open_connection(HOST, self.target)
        except OSError:
            self.counts.unreachable += 1
            self._changed.set()
            reset(client[1])
        else:
            await self._connect(client, server, faults, number)

    async def _connect(self, client: Stream, server: Stream, faults: Faults, number: int) -> None:
        def pipe(direction: Direction, source: Stream, sink: Stream) -> Pipe:
            delays = faults.delays(number, direction)
            return Pipe(line.way(direction), delays, source, sink, lambda size: self._passed(direction, size))

        line = faults.line(number)
        pipes = {Direction.UP: pipe(Direction.UP, client, server), Direction.DOWN: pipe(Direction.DOWN, server, client)}
        connection = Connection(client, server, pipes, lambda end: self._struck(end, line.away))
        self._connections.add(connection)
        self._count_open()
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            self._count_open()

    def _count_open(self) -> None:
        self.counts.open = len(self._connections)
        self._changed.set()

    def _passed(self, direction: Direction, size: int) -> None:
        self.counts.bytes[direction] += size
        self._changed.set()

    def _struck(self, end: End, away: float) -> None:
        self.counts.faults[end] += 1
        self._changed.set()
        if away:
            self.refuse()
            self._away = self._keep(self._come_back(away), "fault-proxy-away")

    async def _come_back(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.accept()


def _bound(port: int) -> socket.socket:
    # Named as TCP, or asyncio does not set TCP_NODELAY on its connections.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((HOST, port))
    return bound


async def obey(proxy: FaultProxy, order: dict[str, Any]) -> None:
    """Carry out an order: call a method, set a new target or new faults, or wait for so many connections."""
    match order:
        case {"do": "counts"}:
            pass
        case {"do": "cut"}:
            proxy.cut()
        case {"do": "reset"}:
            proxy.reset()
        case {"do": "hole"}:
            proxy.hole(*map(Direction, order.get("directions", [])))
        case {"do": "half-open"}:
            proxy.half_open(Direction(order.get("direction", Direction.DOWN)))
        case {"do": "refuse"}:
            proxy.refuse()
        case {"do": "accept"}:
            await proxy.accept()
        case {"do": "target", "port": int(port)}:
            proxy.target = port
        case {"do": "faults"}:
            proxy.faults = msgspec.convert({k: v for k, v in order.items() if k != "do"}, Faults)
        case {"do": "until", "connections": int(number)}:
            await proxy.until(lambda counts: counts.connections >= number)
        case _:
            raise ValueError(f"Not an order: {order}")


def control(proxy: FaultProxy) -> Starlette:
    """Takes orders for a proxy."""

    async def post(request: Request) -> Response:
        try:
            await obey(proxy, await request.json())
        except ValueError as error:
            return PlainTextResponse(str(error), 400)
        return JSONResponse(msgspec.to_builtins(proxy.counts))

    return Starlette(routes=[Route("/", post, methods=["POST"])])


@dataclass
class ProxyProcess:
    """A proxy in a process of its own: its address for clients, and its address for orders."""

    port: int
    control: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def order(self, do: str, **given: Any) -> dict[str, Any]:
        """Send an order and return the counts afterwards."""
        url = f"http://{HOST}:{self.control}/"
        with httpx.Client(trust_env=False, verify=False, timeout=PATIENCE) as client:
            reply = client.post(url, json={"do": do, **given})
        assert reply.status_code == 200, reply.text
        return reply.json()


@contextmanager
def proxy_process(target: int) -> Generator[ProxyProcess]:
    """A proxy in front of a port, until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.proxy", str(target)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        yield ProxyProcess(**json.loads(process.stdout.readline()))
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


async def main(target: int) -> None:
    """Run a proxy until the input ends."""
    async with FaultProxy(target) as proxy, serving(control(proxy)) as site:
        print(json.dumps({"port": proxy.port, "control": site.port}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A bad network in front of a port of this machine.")
    parser.add_argument("target", type=int)
    asyncio.run(main(parser.parse_args().target))
