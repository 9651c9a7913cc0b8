"""Every fault of the proxy does what it says, seen from plain sockets on both sides."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import httpx
import pytest

from tests.faults.connection import reset
from tests.faults.proxy import HOST, PATIENCE, Direction, End, FaultProxy, Faults, Line, Way, proxy_process

BOTH = (Direction.UP, Direction.DOWN)
SIZES = (0, 1, 1000, 100_000)
FOREVER = 3600.0


@dataclass
class Wire:
    """One end of a connection, and the bytes that it has received."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def hear(self, size: int) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self.reader.readexactly(size)

    async def all(self) -> tuple[bytes, str]:
        """Return all bytes up to the end, and how the connection ended."""
        heard = b""
        async with asyncio.timeout(PATIENCE):
            try:
                while data := await self.reader.read(1 << 16):
                    heard += data
            except ConnectionResetError:
                return heard, "reset"
        return heard, "end"


@dataclass
class Upstream:
    """A server that hands out its connections."""

    port: int
    came: "asyncio.Queue[Wire]"

    async def next(self) -> Wire:
        async with asyncio.timeout(PATIENCE):
            return await self.came.get()


@dataclass
class Phone:
    """A client that opens connections, and closes them at the end."""

    calls: list[Wire]

    async def dial(self, port: int) -> Wire:
        self.calls.append(Wire(*await asyncio.open_connection(HOST, port)))
        return self.calls[-1]


@dataclass
class Net:
    """Clients, the proxy, a server."""

    proxy: FaultProxy
    upstream: Upstream
    phone: "Phone"

    async def dial(self) -> Wire:
        return await self.phone.dial(self.proxy.port)

    async def pair(self) -> tuple[Wire, Wire]:
        """A client and the server's end of its connection."""
        client = await self.dial()
        return client, await self.upstream.next()

    async def until(self, number: int) -> None:
        """Wait for so many open connections."""
        async with asyncio.timeout(PATIENCE):
            await self.proxy.until(lambda counts: counts.open == number)


async def hang_up(wire: Wire) -> None:
    wire.writer.transport.abort()
    with suppress(ConnectionError):
        await wire.writer.wait_closed()


@asynccontextmanager
async def listening() -> AsyncGenerator[Upstream]:
    wires = list[Wire]()
    came = asyncio.Queue[Wire]()

    def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wires.append(Wire(reader, writer))
        came.put_nowait(wires[-1])

    server = await asyncio.start_server(come, HOST, 0)
    try:
        yield Upstream(server.sockets[0].getsockname()[1], came)
    finally:
        server.close()
        for wire in wires:
            await hang_up(wire)


@asynccontextmanager
async def network(faults: Faults | None = None) -> AsyncGenerator[Net]:
    async with listening() as upstream, FaultProxy(upstream.port, faults) as proxy, dialling() as phone:
        yield Net(proxy, upstream, phone)


@asynccontextmanager
async def dialling() -> AsyncGenerator[Phone]:
    phone = Phone([])
    try:
        yield phone
    finally:
        for wire in phone.calls:
            await hang_up(wire)


@pytest.fixture
async def net() -> AsyncIterator[Net]:
    """A network without faults of its own."""
    async with network() as net:
        yield net


def line(direction: Direction, way: Way) -> Line:
    return Line(up=way) if direction is Direction.UP else Line(down=way)


def ending(end: End, direction: Direction, after: int) -> Faults:
    """The first connection ends so."""
    return Faults((line(direction, Way(end=end, after=after)),))


def ordered(direction: Direction, client: Wire, server: Wire) -> tuple[Wire, Wire]:
    """Return the sender and the receiver of a direction."""
    return (client, server) if direction is Direction.UP else (server, client)


async def test_everything_passes_both_ways(net: Net) -> None:
    client, server = await net.pair()
    there, back = random.Random(1).randbytes(1 << 20), random.Random(2).randbytes(1 << 20)
    heard = await asyncio.gather(server.hear(len(there)), client.hear(len(back)), client.send(there), server.send(back))
    assert heard[:2] == [there, back]
    assert net.proxy.counts.bytes == {Direction.UP: 1 << 20, Direction.DOWN: 1 << 20}
    assert (net.proxy.counts.connections, net.proxy.counts.open, net.proxy.counts.faults) == (1, 1, {})


@pytest.mark.parametrize("direction", BOTH)
async def test_an_end_passes_one_way_only(net: Net, direction: Direction) -> None:
    sender, hearer = ordered(direction, *await net.pair())
    await sender.send(b"last words")
    sender.writer.write_eof()
    assert await hearer.all() == (b"last words", "end")
    await hearer.send(b"still here")
    hearer.writer.write_eof()
    assert await sender.all() == (b"still here", "end")
    await net.until(0)


@pytest.mark.parametrize("direction", BOTH)
async def test_a_reset_by_one_end_reaches_the_other(net: Net, direction: Direction) -> None:
    sender, hearer = ordered(direction, *await net.pair())
    reset(sender.writer)
    assert await hearer.all() == (b"", "reset")
    await net.until(0)
    assert net.proxy.counts.faults == {}


@pytest.mark.parametrize("after", SIZES)
@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize(("end", "heard_as"), [(End.CUT, "end"), (End.RESET, "reset")])
async def test_a_line_ends_after_so_many_bytes(direction: Direction, end: End, heard_as: str, after: int) -> None:
    async with network(ending(end, direction, after)) as net:
        client, server = await net.pair()
        sender, hearer = ordered(direction, client, server)
        sender.writer.write(bytes(after))
        assert await hearer.all() == (bytes(after), heard_as)
        assert await sender.all() == (b"", heard_as)
        assert net.proxy.counts.bytes[direction] == after
        assert net.proxy.counts.faults == {end: 1}
        await hang_up(client)
        await hang_up(server)
        await net.until(0)


async def test_a_cut_does_not_turn_into_a_reset_while_the_other_end_talks() -> None:
    async with network(ending(End.CUT, Direction.DOWN, 4)) as net:
        client, server = await net.pair()
        client.writer.write(bytes(1 << 20))
        await server.send(b"0123456789")
        assert await client.all() == (b"0123", "end")


@pytest.mark.parametrize("direction", BOTH)
async def test_nothing_passes_a_hole_not_even_the_end(direction: Direction) -> None:
    async with network(ending(End.HOLE, direction, 3)) as net:
        client, server = await net.pair()
        sender, hearer = ordered(direction, client, server)
        await sender.send(b"0123456789")
        assert await hearer.hear(3) == b"012"
        sender.writer.write_eof()
        await hearer.send(b"the other way")
        assert await sender.hear(13) == b"the other way"
        net.proxy.reset()
        # Had an end come before, it would be heard first.
        assert await hearer.all() == (b"", "reset")
        assert net.proxy.counts.faults == {End.HOLE: 1, End.RESET: 1}


async def test_a_sender_into_a_hole_is_slowed_down() -> None:
    async with network(ending(End.HOLE, Direction.DOWN, 0)) as net:
        client, server = await net.pair()
        sending = asyncio.create_task(server.send(bytes(1 << 26)))
        await client.send(b"on")
        assert await server.hear(2) == b"on"
        assert not sending.done()
        net.proxy.reset()
        with pytest.raises(ConnectionError):
            await sending


@pytest.mark.parametrize("direction", BOTH)
async def test_half_open(direction: Direction) -> None:
    async with network(ending(End.HALF_OPEN, direction, 3)) as net:
        sender, hearer = ordered(direction, *await net.pair())
        await sender.send(b"0123")
        assert await hearer.hear(3) == b"012"
        assert (await sender.all())[0] == b""
        await hearer.send(b"anybody?")
        net.proxy.reset()
        assert await hearer.all() == (b"", "reset")
        assert net.proxy.counts.faults == {End.HALF_OPEN: 1, End.RESET: 1}


@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize("way", [Way(latency=0.2), Way(rate=50_000)])
async def test_a_slow_way(direction: Direction, way: Way) -> None:
    async with network(Faults(then=line(direction, way))) as net:
        sender, hearer = ordered(direction, *await net.pair())
        begun = asyncio.get_running_loop().time()
        await sender.send(bytes(10_000))
        assert await hearer.hear(10_000) == bytes(10_000)
        assert asyncio.get_running_loop().time() - begun >= 0.19


async def test_a_slow_direction_slows_the_sender_down() -> None:
    async with network(Faults(then=Line(down=Way(rate=1_000_000)))) as net:
        client, server = await net.pair()
        sending = asyncio.create_task(server.send(bytes(1 << 26)))
        await client.hear(100_000)
        assert not sending.done()
        net.proxy.reset()
        with pytest.raises(ConnectionError):
            await sending


async def test_a_delay_does_not_hold_up_what_comes_behind() -> None:
    async with network(Faults(then=Line(up=Way(latency=0.05)))) as net:
        client, server = await net.pair()
        begun = asyncio.get_running_loop().time()
        for number in range(40):
            await client.send(bytes([number]))
            await asyncio.sleep(0.001)
        assert await server.hear(40) == bytes(range(40))
        # One after the other it would be 40 delays.
        assert 0.05 <= asyncio.get_running_loop().time() - begun < 40 * 0.05


async def test_jitter_keeps_the_order() -> None:
    data = random.Random(3).randbytes(5000)
    async with network(Faults(then=Line(up=Way(jitter=0.02)), seed=4)) as net:
        client, server = await net.pair()
        for start in range(0, len(data), 50):
            await client.send(data[start : start + 50])
        assert await server.hear(len(data)) == data


def test_a_seed_fixes_the_delays() -> None:
    def delays(seed: int, number: int, direction: Direction) -> list[float]:
        late = Faults(then=Line(Way(0.1, 0.2), Way(0.1, 0.2)), seed=seed).delays(number, direction)
        return [late() for _ in range(20)]

    first = delays(1, 0, Direction.UP)
    assert first == delays(1, 0, Direction.UP)
    assert all(0.1 <= late < 0.3 for late in first)
    others = [delays(2, 0, Direction.UP), delays(1, 1, Direction.UP), delays(1, 0, Direction.DOWN)]
    assert all(first != other for other in others)


def test_a_seed_fixes_the_plan() -> None:
    plan = Faults.seeded(7, 50, 1000)
    assert plan == Faults.seeded(7, 50, 1000) != Faults.seeded(8, 50, 1000)
    assert {line.down.end for line in plan.lines} == {End.CUT, End.RESET}
    assert all(line.down.after < 1000 for line in plan.lines)
    assert (len(plan.lines), plan.line(50)) == (50, Line())


async def test_each_connection_gets_its_line() -> None:
    ends = (Way(end=End.CUT, after=5), Way(end=End.RESET, after=2), Way())
    async with network(Faults(tuple(Line(down=way) for way in ends))) as net:
        heard = list[tuple[bytes, str]]()
        for _ in range(4):
            client, server = await net.pair()
            await server.send(b"0123456789")
            server.writer.write_eof()
            heard.append(await client.all())
        whole = (b"0123456789", "end")
        assert heard == [(b"01234", "end"), (b"01", "reset"), whole, whole]
        net.proxy.faults = Faults((Line(down=ends[0]),))
        client, server = await net.pair()
        await server.send(b"0123456789")
        assert await client.all() == (b"01234", "end")
        assert net.proxy.counts.connections == 5
        assert net.proxy.counts.faults == {End.CUT: 2, End.RESET: 1}


@pytest.mark.parametrize(("order", "heard_as"), [(FaultProxy.cut, "end"), (FaultProxy.reset, "reset")])
async def test_all_lines_end_on_demand(net: Net, order: Callable[[FaultProxy], None], heard_as: str) -> None:
    pairs = [await net.pair() for _ in range(3)]
    for client, server in pairs:
        await client.send(b"up")
        await server.hear(2)
    order(net.proxy)
    assert [await wire.all() for pair in pairs for wire in pair] == [(b"", heard_as)] * 6
    client, server = await net.pair()
    await client.send(b"again")
    assert await server.hear(5) == b"again"


async def test_a_hole_on_demand_and_a_server_that_is_gone_on_demand(net: Net) -> None:
    client, server = await net.pair()
    await net.until(1)
    net.proxy.hole(Direction.UP)
    await client.send(b"lost")
    await server.send(b"down")
    assert await client.hear(4) == b"down"
    net.proxy.half_open()
    assert (await server.all())[0] == b""
    net.proxy.cut()
    assert await client.all() == (b"", "end")


async def test_refusing_leaves_open_lines_alone(net: Net) -> None:
    client, server = await net.pair()
    net.proxy.refuse()
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            await net.dial()
    await client.send(b"still here")
    assert await server.hear(10) == b"still here"
    await net.proxy.accept()
    client, server = await net.pair()
    await client.send(b"new")
    assert await server.hear(3) == b"new"
    assert net.proxy.counts.connections == 2


async def test_connections_may_be_refused_for_a_while_after_a_fault() -> None:
    cut = Way(end=End.CUT, after=1)
    async with network(Faults((Line(down=cut, away=FOREVER), Line(down=cut, away=0.05)))) as net:
        client, server = await net.pair()
        await server.send(b"01")
        assert await client.all() == (b"0", "end")
        with pytest.raises(ConnectionRefusedError):
            await net.dial()
        await net.proxy.accept()
        client, server = await net.pair()
        await server.send(b"01")
        assert await client.all() == (b"0", "end")
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "fault-proxy-away"))
        client, server = await net.pair()
        await server.send(b"01")
        assert await client.hear(2) == b"01"


async def test_a_server_that_moves(net: Net) -> None:
    old_client, old_server = await net.pair()
    async with listening() as moved:
        net.proxy.target = moved.port
        client, server = await net.dial(), await moved.next()
        await client.send(b"new")
        assert await server.hear(3) == b"new"
        await old_client.send(b"old")
        assert await old_server.hear(3) == b"old"
    net.proxy.target = moved.port
    assert await (await net.dial()).all() == (b"", "reset")
    assert net.proxy.counts.unreachable == 1


async def test_a_process_of_its_own() -> None:
    plan = {"lines": [{"down": {"end": "reset", "after": 3}}], "then": {"up": {"latency": 0.01}}, "seed": 5}
    async with listening() as upstream, listening() as moved, dialling() as phone:
        with proxy_process(upstream.port) as proxy:
            await asyncio.to_thread(proxy.order, "faults", **plan)
            client = await phone.dial(proxy.port)
            await (await upstream.next()).send(b"0123")
            assert await client.all() == (b"012", "reset")
            await asyncio.to_thread(proxy.order, "target", port=moved.port)
            client = await phone.dial(proxy.port)
            await client.send(b"up")
            server = await moved.next()
            assert await server.hear(2) == b"up"
            counts = await asyncio.to_thread(proxy.order, "until", connections=2)
            assert (counts["connections"], counts["bytes"]) == (2, {"down": 3, "up": 2})
            counts = await asyncio.to_thread(proxy.order, "cut")
            assert counts["faults"] == {"reset": 1, "cut": 1}
            assert await client.all() == (b"", "end")
            await hang_up(client)
            await asyncio.to_thread(proxy.order, "refuse")
            with pytest.raises(ConnectionRefusedError):
                await phone.dial(proxy.port)
            await asyncio.to_thread(proxy.order, "accept")
            client = await phone.dial(proxy.port)
            server = await moved.next()
            await asyncio.to_thread(proxy.order, "hole", directions=["up"])
            await asyncio.to_thread(proxy.order, "half-open", direction="up")
            assert (await client.all())[0] == b""
            await asyncio.to_thread(proxy.order, "reset")
            assert await server.all() == (b"", "reset")
            with pytest.raises(AssertionError, match="Not an order"):
                proxy.order("dance")


async def test_it_carries_http(net: Net) -> None:
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=PATIENCE) as client:
        asking = asyncio.create_task(client.get(net.proxy.url))
        server = await net.upstream.next()
        await server.reader.readuntil(b"\r\n\r\n")
        await server.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        assert (await asking).text == "ok"
