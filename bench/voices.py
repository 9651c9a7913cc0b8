"""Clients that talk: sound at the pace of speech on raw sockets, and how long it takes until it is answered."""

import asyncio
import time
from collections.abc import Callable, Sequence

import orjson

from bench.agents.voice.agent import HEARD, HEARING, MARK
from bench.client import new_chat
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


class Voice(asyncio.Protocol):
    """One client. What it says is numbered, and every answer says how much was heard."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._ours = server.contender.path.startswith(_OURS)
        self._head = _HEAD if self._ours else b""
        self._buffer = bytearray()
        self._open = False
        self._more = asyncio.Event()
        self._broken: Exception | None = None
        self.said = 0
        self.heard = 0
        """How much of it the model had heard when it gave the last answer."""
        self.answers = 0
        self.delays: list[float] = []
        """Seconds from each piece to each of its answers."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the socket."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        path = self._server.contender.path.format(chat=new_chat())
        more = _SUBPROTOCOL if self._ours else ""
        transport.write(_UPGRADE.format(path=path, port=self._server.port, more=more).encode())

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody listens any more."""
        self._broken = self._broken or exc or ConnectionError("a socket was closed")
        self._more.set()

    def data_received(self, data: bytes) -> None:
        """Take what comes apart."""
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
            (self.heard,) = HEARD.unpack_from(payload, at + MARK.size)
            self.delays.append(time.perf_counter() - sent)
            self.answers += 1
        elif opcode == _PING:
            self._send(_PONG, payload)
        elif opcode == _CLOSE:
            self._broken = ConnectionError(f"a socket was closed: {payload!r}")

    def _send(self, opcode: int, payload: bytes) -> None:
        """A masked frame; the mask is zeros, which leaves the bytes as they are."""
        size = len(payload)
        head = bytes((0x80 | opcode, 0x80 | size)) if size < 126 else bytes((0x80 | opcode, 0xFE)) + size.to_bytes(2)
        self._transport.write(head + bytes(4) + payload)

    async def begin(self) -> None:
        """Be there, say one thing and hear the answer: then everything is open."""
        if self._ours:
            await self._until(lambda: self._open)
            self._control("start")
        else:
            await self._until(lambda: self._open)
        self.say(1)
        await self.answered(1)

    def say(self, answers: int) -> None:
        """A piece of sound, for which so many answers are wanted."""
        self.said += 1
        piece = MARK.pack(answers, self.said, time.perf_counter()).ljust(HEARING, b"\0")
        self._send(_BINARY, self._head + piece)

    def stop(self) -> None:
        """Say that all was said, and hang on."""
        if self._ours:
            self._control("stop")
        else:
            self._send(_BINARY, b"")

    def _control(self, action: str) -> None:
        self._send(_TEXT, orjson.dumps({"type": "audio_control", "action": action}))

    async def answered(self, count: int) -> None:
        """Wait until so many answers have come in all."""
        await self._until(lambda: self.answers >= count)

    async def _until(self, there: Callable[[], bool]) -> None:
        async with asyncio.timeout(_PATIENCE):
            while not there():
                if self._broken is not None:
                    raise self._broken
                self._more.clear()
                await self._more.wait()

    def check(self) -> None:
        """Whatever was said was heard."""
        if self.heard != self.said:
            raise RuntimeError(f"of {self.said} pieces of sound {self.heard} were heard")

    def close(self) -> None:
        """Go away."""
        self._transport.abort()


async def voices(server: Server, count: int) -> list[Voice]:
    """So many clients, each in a conversation of its own."""
    loop = asyncio.get_running_loop()
    made: list[Voice] = []
    for _ in range(count):
        _, voice = await loop.create_connection(lambda: Voice(server), "127.0.0.1", server.port)
        await voice.begin()
        made.append(voice)
    return made


async def talk(speakers: Sequence[Voice], pieces: int, answers: int) -> None:
    """All speak at once, at the pace of speech, each a little later than the one before."""
    started, gap = time.perf_counter(), PIECE / len(speakers)
    for number in range(pieces):
        for place, voice in enumerate(speakers):
            due = started + number * PIECE + place * gap - time.perf_counter()
            if due > 0:
                await asyncio.sleep(due)
            voice.say(answers)


async def both_ways(speakers: Sequence[Voice], pieces: int) -> None:
    """Every piece is answered by one."""
    wanted = [voice.answers + pieces for voice in speakers]
    await talk(speakers, pieces, 1)
    await _all_answered(speakers, wanted)


async def up(speakers: Sequence[Voice], pieces: int) -> None:
    """Only the last piece is answered."""
    wanted = [voice.answers + 1 for voice in speakers]
    await talk(speakers, pieces - 1, 0)
    await talk(speakers, 1, 1)
    await _all_answered(speakers, wanted)


async def down(speakers: Sequence[Voice], pieces: int) -> None:
    """One piece is answered by many."""
    wanted = [voice.answers + pieces for voice in speakers]
    await talk(speakers, 1, pieces)
    await _all_answered(speakers, wanted)


async def _all_answered(speakers: Sequence[Voice], wanted: Sequence[int]) -> None:
    for voice, count in zip(speakers, wanted, strict=True):
        await voice.answered(count)
        voice.check()


async def p95(speakers: Sequence[Voice], pieces: int) -> float:
    """Seconds until a piece is answered, for the slowest but 1 of 20. What is lost or late by far counts as such."""
    for voice in speakers:
        voice.delays.clear()
    wanted = [voice.answers + pieces for voice in speakers]
    try:
        async with asyncio.timeout(3 * pieces * PIECE):
            await talk(speakers, pieces, 1)
            for voice, count in zip(speakers, wanted, strict=True):
                await voice.answered(count)
    except TimeoutError:
        return float("inf")
    delays = sorted(delay for voice in speakers for delay in voice.delays)
    return delays[len(delays) * 95 // 100]
