"""Clients of live servers: they send audio at the pace of speech on raw sockets and measure the time to each answer."""

import asyncio
import time
from collections.abc import Callable, Sequence

import orjson

from bench.agents.voice.agent import HEARD, HEARING, MARK
from bench.http_client import new_chat
from bench.servers import Server

PIECE = 0.02
"""Seconds of sound in a piece."""
_PATIENCE = 60.0
_OURS = "/api/live"
_HEAD = b"\x01" + bytes(7)
_UPGRADE = (
    "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    "sec-websocket-version: 13\r\nsec-websocket-key: YmVuY2hiZW5jaGJlbmNoYg==\r\n{more}\r\n"
)
_SUBPROTOCOL = "sec-websocket-protocol: adkwire.live.v1\r\n"
_TEXT, _BINARY, _PONG, _CLOSE, _PING = 1, 2, 10, 8, 9


class LiveClient(asyncio.Protocol):
    """One client. Its pieces of audio are numbered, and every answer contains how many pieces the model received."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._ours = server.contender.path.startswith(_OURS)
        self._head = _HEAD if self._ours else b""
        self._buffer = bytearray()
        self._open = False
        self._more = asyncio.Event()
        self._broken: Exception | None = None
        self.sent = 0
        self.received = 0
        """Pieces that the model had received when it gave the last answer."""
        self.answers = 0
        self.delays: list[float] = []
        """Seconds from each piece to each of its answers."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request to upgrade to a WebSocket."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        path = self._server.contender.path.format(chat=new_chat())
        more = _SUBPROTOCOL if self._ours else ""
        transport.write(_UPGRADE.format(path=path, port=self._server.port, more=more).encode())

    def connection_lost(self, exc: Exception | None) -> None:
        """Make waiting calls fail."""
        self._broken = self._broken or exc or ConnectionError("a socket was closed")
        self._more.set()

    def data_received(self, data: bytes) -> None:
        """Read the upgrade's response, then frames."""
        self._buffer += data
        if not self._open:
            head, found, rest = bytes(self._buffer).partition(b"\r\n\r\n")
            if not found:
                return
            if not head.startswith(b"HTTP/1.1 101"):
                self._broken = ConnectionError(f"no socket: {head!r}")
            self._open, self._buffer = True, bytearray(rest)
        while (frame := self._frame()) is not None:
            self._take(*frame)
        self._more.set()

    def _frame(self) -> tuple[int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        size, at = buffer[1], 2
        if size >= 126:
            at = 4 if size == 126 else 10
            size = int.from_bytes(buffer[2:at])
        if len(buffer) < at + size:
            return None
        opcode, payload = buffer[0] & 15, bytes(buffer[at : at + size])
        del buffer[: at + size]
        return opcode, payload

    def _take(self, opcode: int, payload: bytes) -> None:
        if opcode == _BINARY and len(payload) > len(self._head):
            at = len(self._head)
            _, _, sent = MARK.unpack_from(payload, at)
            (self.received,) = HEARD.unpack_from(payload, at + MARK.size)
            self.delays.append(time.perf_counter() - sent)
            self.answers += 1
        elif opcode == _PING:
            self._send(_PONG, payload)
        elif opcode == _CLOSE:
            self._broken = ConnectionError(f"a socket was closed: {payload!r}")

    def _send(self, opcode: int, payload: bytes) -> None:
        """Send a masked frame; the mask is zero, which does not change the bytes."""
        size = len(payload)
        head = bytes((0x80 | opcode, 0x80 | size)) if size < 126 else bytes((0x80 | opcode, 0xFE)) + size.to_bytes(2)
        self._transport.write(head + bytes(4) + payload)

    async def begin(self) -> None:
        """Wait for the socket, send one piece and wait for its answer."""
        if self._ours:
            await self._until(lambda: self._open)
            self._control("start")
        else:
            await self._until(lambda: self._open)
        self.say(1)
        await self.answered(1)

    def say(self, answers: int) -> None:
        """Send a piece of audio that asks for so many answers."""
        self.sent += 1
        piece = MARK.pack(answers, self.sent, time.perf_counter()).ljust(HEARING, b"\0")
        self._send(_BINARY, self._head + piece)

    def stop(self) -> None:
        """Stop speaking, and stay connected."""
        if self._ours:
            self._control("stop")
        else:
            self._send(_BINARY, b"")

    def _control(self, action: str) -> None:
        self._send(_TEXT, orjson.dumps({"type": "audio_control", "action": action}))

    async def answered(self, count: int) -> None:
        """Wait until so many answers have come in total."""
        await self._until(lambda: self.answers >= count)

    async def _until(self, there: Callable[[], bool]) -> None:
        async with asyncio.timeout(_PATIENCE):
            while not there():
                if self._broken is not None:
                    raise self._broken
                self._more.clear()
                await self._more.wait()

    def check(self) -> None:
        """Raise if the model did not receive every piece."""
        if self.received != self.sent:
            raise RuntimeError(f"the model received {self.received} of {self.sent} pieces of audio")

    def close(self) -> None:
        """Drop the connection."""
        self._transport.abort()


async def connect_clients(server: Server, count: int) -> list[LiveClient]:
    """Connect so many clients, each in a conversation of its own."""
    loop = asyncio.get_running_loop()
    made: list[LiveClient] = []
    for _ in range(count):
        _, client = await loop.create_connection(lambda: LiveClient(server), "127.0.0.1", server.port)
        await client.begin()
        made.append(client)
    return made


async def send_pieces(clients: Sequence[LiveClient], pieces: int, answers: int) -> None:
    """Send pieces from all clients at the pace of speech, each client a little later than the one before."""
    started, gap = time.perf_counter(), PIECE / len(clients)
    for number in range(pieces):
        for place, client in enumerate(clients):
            due = started + number * PIECE + place * gap - time.perf_counter()
            if due > 0:
                await asyncio.sleep(due)
            client.say(answers)


async def both_ways(clients: Sequence[LiveClient], pieces: int) -> None:
    """Send pieces that are answered by one piece each."""
    wanted = [client.answers + pieces for client in clients]
    await send_pieces(clients, pieces, 1)
    await _all_answered(clients, wanted)


async def up(clients: Sequence[LiveClient], pieces: int) -> None:
    """Send pieces of which only the last one is answered."""
    wanted = [client.answers + 1 for client in clients]
    await send_pieces(clients, pieces - 1, 0)
    await send_pieces(clients, 1, 1)
    await _all_answered(clients, wanted)


async def down(clients: Sequence[LiveClient], pieces: int) -> None:
    """Send one piece that is answered by many."""
    wanted = [client.answers + pieces for client in clients]
    await send_pieces(clients, 1, pieces)
    await _all_answered(clients, wanted)


async def _all_answered(clients: Sequence[LiveClient], wanted: Sequence[int]) -> None:
    for client, count in zip(clients, wanted, strict=True):
        await client.answered(count)
        client.check()


async def p95(clients: Sequence[LiveClient], pieces: int) -> float:
    """Return the seconds within which 19 of 20 pieces are answered; infinity when answers are lost or very late."""
    for client in clients:
        client.delays.clear()
    wanted = [client.answers + pieces for client in clients]
    try:
        async with asyncio.timeout(3 * pieces * PIECE):
            await send_pieces(clients, pieces, 1)
            for client, count in zip(clients, wanted, strict=True):
                await client.answered(count)
    except TimeoutError:
        return float("inf")
    delays = sorted(delay for client in clients for delay in client.delays)
    return delays[len(delays) * 95 // 100]
