"""Wrong frames on live sockets, byte by byte: the server refuses them and goes on.

`fuzz` is one round of any size; the same seed is the same round.
"""

import asyncio
import base64
import json
import random
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from adkwire.wire.socket.frames_in import SUBPROTOCOL
from adkwire.wire.socket.live_frames_in import LIVE_SUBPROTOCOL
from tests.server.sockets.socket_client import RawSocket, raw_handshake

CONTRACT = frozenset({1000, 1001, 1008, 1009, 4404, 4408, 4429, 4503})
BELOW = frozenset({1002, 1007})
"""Close codes of the WebSocket layer for bytes that break its protocol."""
OFFICIAL = frozenset({"start", "chunk", "end", "error", "no-active"})
CHAT = OFFICIAL | {"notice", "pong"}
LIVE = CHAT | {"ready", "turn", "user-transcript", "state", "interrupted", "call-settled"}
TAKEN = {"": OFFICIAL, SUBPROTOCOL: CHAT, LIVE_SUBPROTOCOL: LIVE}
_PER_SOCKET = 14
_AT_ONCE = 4
_MESSAGES = 50
"""The number of different messages in a chat: some are sent again, by other clients or at the same time."""
_LARGE = 70_000
_HUGE = 1_000_000
_TEXT, _BINARY, _CLOSE, _PING = 1, 2, 8, 9
_ALIVE = "still there?"


@dataclass
class Fuzzed:
    """The counts of what was sent and received, and what was wrong."""

    frames: int = 0
    sockets: int = 0
    closes: Counter[int | None] = field(default_factory=Counter[int | None])
    frame_types: Counter[str] = field(default_factory=Counter[str])
    complaints: list[str] = field(default_factory=list[str])


def _valid(chat: str, message: str) -> list[dict[str, Any]]:
    sound = {"chunk": base64.b64encode(bytes(64)).decode(), "sampleRate": 16_000, "channels": 1, "bitDepth": 16}
    content = {"id": message, "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    return [
        {"type": "send", "requestId": "r", "id": chat, "trigger": "submit-message", "messages": [content], "body": {}},
        {"type": "message", "version": "1.0", "data": {"messages": [content]}},
        {"type": "resume", "requestId": "r", "id": chat, "lastSequence": 3, "after": "run:3"},
        {"type": "abort", "requestId": "r"},
        {"type": "interrupt", "version": "1.0", "reason": "user_abort"},
        {"type": "audio_control", "version": "1.0", "action": "start", "source": "vad"},
        {"type": "audio_control", "action": "stop", "source": "ptt"},
        {"type": "audio_chunk", "version": "1.0", "data": sound},
        {"type": "audio_chunk", "data": {**sound, "sampleRate": 44_100}},
        {"type": "video_frame", "data": {"data": "iVBORw0KGgo=", "mediaType": "image/png"}},
        {"type": "tool_result", "data": {"toolCallId": "c", "status": "approved", "args": {"a": 1}, "scope": "chat"}},
        {"type": "played", "generation": 1, "ms": 20},
        {"type": "ping", "timestamp": 1},
        {"type": "close"},
    ]


class _Frames:
    """A generator of wrong frames."""

    def __init__(self, dice: random.Random, chat: str) -> None:
        self._dice = dice
        self._chat = chat

    def write(self, wire: RawSocket) -> None:
        """Write a frame of the WebSocket protocol with any content."""
        self._one_of(
            wire,
            [
                (30, self._mutated),
                (25, self._confused),
                (12, self._binary),
                (10, self._fragments),
                (18, self._valid),
                (5, self._large),
            ],
        )

    def violate(self, wire: RawSocket) -> None:
        """Write bytes that break the WebSocket protocol, so that nothing after them can be read."""
        self._one_of(
            wire,
            [
                (4, self._opcode),
                (3, self._lonely),
                (3, self._reserved),
                (3, self._control),
                (3, self._not_text),
                (1, self._unmasked),
                (1, self._boast),
                (1, self._huge),
            ],
        )

    def _one_of(self, wire: RawSocket, ways: list[tuple[int, Callable[[RawSocket], None]]]) -> None:
        weights, acts = [weight for weight, _ in ways], [act for _, act in ways]
        self._dice.choices(acts, weights)[0](wire)

    def _fields(self) -> dict[str, Any]:
        return self._dice.choice(_valid(self._chat, f"u{self._dice.randrange(_MESSAGES)}"))

    def _frame(self) -> bytes:
        return json.dumps(self._fields()).encode()

    def _bytes(self, most: int) -> bytes:
        return self._dice.randbytes(self._dice.randrange(most))

    def _valid(self, wire: RawSocket) -> None:
        wire.write(_TEXT, self._frame())

    def _mutated(self, wire: RawSocket) -> None:
        raw = bytearray(self._frame())
        for _ in range(self._dice.randint(1, 4)):
            at = self._dice.randrange(len(raw))
            match self._dice.randrange(4):
                case 0:
                    raw[at] = self._dice.randrange(128)
                case 1:
                    del raw[at : at + self._dice.randrange(8)]
                case 2:
                    raw[at:at] = raw[self._dice.randrange(len(raw)) :][:9]
                case _:
                    raw[at:at] = self._dice.choice([b'"', b"{", b"]", b"\\ud83d", b"null", b"1e999", b"\0", b"[" * 600])
            raw = raw or bytearray(b" ")
        wire.write(_TEXT, bytes(raw))

    def _confused(self, wire: RawSocket) -> None:
        """One value is of another type, or one field stands elsewhere."""
        frame: dict[str, Any] = json.loads(self._frame())
        inside = frame["data"] if isinstance(frame.get("data"), dict) and self._dice.random() < 0.6 else frame
        odd: list[Any] = [
            None,
            True,
            -1,
            2**64,
            1.5,
            "",
            "x" * 300,
            [],
            {},
            [[]],
            {"a": {}},
            "\u0000",
            "approved",
            16000,
        ]
        inside[self._dice.choice([*inside, "data", "id", "requestId", "status"])] = self._dice.choice(odd)
        wire.write(_TEXT, json.dumps(frame).encode())

    def _binary(self, wire: RawSocket) -> None:
        head = struct.pack("<BBHI", self._dice.choice([0, 1, 1, 1, 2, 3, 4, 255]), *([self._dice.randrange(256)] * 3))
        wire.write(_BINARY, (head + self._bytes(900))[: self._dice.choice([3, 8, 9, 2_000])])

    def _fragments(self, wire: RawSocket) -> None:
        raw, kind = self._frame(), self._dice.choice([_TEXT, _BINARY])
        cuts = sorted(self._dice.randrange(len(raw)) for _ in range(self._dice.randint(1, 4)))
        pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
        for number, piece in enumerate(pieces):
            last = number == len(pieces) - 1
            wire.write(kind if number == 0 else 0, piece, first=0x80 if last else 0)
            if not last and self._dice.random() < 0.3:
                wire.write(_PING, b"between")

    def _large(self, wire: RawSocket) -> None:
        wire.write(_TEXT, json.dumps({**self._fields(), "more": "x" * _LARGE}).encode())

    def _huge(self, wire: RawSocket) -> None:
        wire.write(_BINARY, bytes(_HUGE))

    def _opcode(self, wire: RawSocket) -> None:
        wire.write(self._dice.choice([3, 4, 5, 6, 7, 11, 12, 13, 14, 15]), self._bytes(20))

    def _lonely(self, wire: RawSocket) -> None:
        """A fragment without a beginning, or a beginning in the middle of another."""
        if self._dice.random() < 0.5:
            wire.write(0, self._bytes(50))
        else:
            wire.write(_TEXT, b"{", first=0)
            wire.write(_TEXT, b"{}")

    def _reserved(self, wire: RawSocket) -> None:
        wire.write(_TEXT, self._frame(), first=0x80 | self._dice.choice([0x10, 0x20, 0x40]))

    def _control(self, wire: RawSocket) -> None:
        """A control frame that is too long or cut, or a close with a code that does not exist."""
        opcode = self._dice.choice([_CLOSE, _CLOSE, _PING, 10])
        payloads = [
            b"",
            b"\3",
            struct.pack("!H", self._dice.choice([0, 999, 1004, 1005, 1013, 2000, 3000, 4999, 65_535])),
            b"\3\xe8\xff\xfe",
            bytes(126),
        ]
        wire.write(opcode, self._dice.choice(payloads), first=self._dice.choice([0x80, 0x80, 0]))

    def _not_text(self, wire: RawSocket) -> None:
        wire.write(
            _TEXT, b'{"type":"interrupt","reason":"' + self._dice.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80"])
        )

    def _unmasked(self, wire: RawSocket) -> None:
        wire.write(_TEXT, self._frame(), masked=False)

    def _boast(self, wire: RawSocket) -> None:
        """A frame head with a length above every limit."""
        wire.writer.write(
            struct.pack("!BBQ", 0x80 | _TEXT, 0x80 | 127, self._dice.choice([2**31, 2**63 - 1, 2**64 - 1]))
        )


async def fuzz(port: int, frames: int, seed: int) -> Fuzzed:
    """Send so many wrong frames to a server, on as many live sockets as it takes."""
    found, numbers = Fuzzed(), iter(range(seed * 1_000_000, (seed + 1) * 1_000_000))

    async def one_after_the_other() -> None:
        while found.frames < frames:
            await _socket(port, next(numbers), found)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(_AT_ONCE):
            tasks.create_task(one_after_the_other())
    return found


async def _socket(port: int, number: int, found: Fuzzed) -> None:
    dice = random.Random(number)
    subprotocol = dice.choice([LIVE_SUBPROTOCOL, LIVE_SUBPROTOCOL, LIVE_SUBPROTOCOL, "", SUBPROTOCOL])
    chat = f"fuzz-{dice.randrange(8)}"
    headers = [("host", "localhost"), *([("sec-websocket-protocol", subprotocol)] if subprotocol else [])]
    reply, wire = await raw_handshake(port, headers, path=f"/api/live?chat={chat}")
    if reply.status != 101:
        found.complaints.append(f"{number}: refused with {reply.status}")
        return
    found.sockets += 1
    alive = asyncio.Event()
    reading = asyncio.create_task(_read(wire, number, subprotocol, alive, found))
    try:
        await _write(wire, _Frames(dice, chat), dice, alive, found)
        await reading
    finally:
        reading.cancel()
        wire.drop()


async def _write(wire: RawSocket, wrong: _Frames, dice: random.Random, alive: asyncio.Event, found: Fuzzed) -> None:
    try:
        for _ in range(dice.randint(1, _PER_SOCKET)):
            wrong.write(wire)
            found.frames += 1
            await wire.writer.drain()
        # Whatever it makes of all that, it answers this, or it has closed the socket.
        wire.write(_TEXT, json.dumps({"type": "abort", "requestId": _ALIVE, "more": "x" * _LARGE}).encode())
        await alive.wait()
        if dice.random() < 0.5:
            wrong.violate(wire)
            found.frames += 1
        elif dice.random() < 0.3:
            wire.drop()
        else:
            wire.write(_CLOSE, struct.pack("!H", 1000))
        wire.writer.write_eof()
    except (ConnectionError, RuntimeError):
        return


async def _read(wire: RawSocket, number: int, subprotocol: str, alive: asyncio.Event, found: Fuzzed) -> None:
    try:
        while (frame := await wire.read()) is not None:
            opcode, payload = frame
            if opcode == _CLOSE:
                _note_close(payload, number, found)
                return
            if opcode == _BINARY and subprotocol != LIVE_SUBPROTOCOL:
                found.complaints.append(f"{number}: a binary frame for {subprotocol or 'a stock client'}")
            if opcode == _TEXT:
                content = json.loads(payload)
                _note(content, number, subprotocol, found)
                if content.get("requestId") == _ALIVE:
                    alive.set()
        found.closes[None] += 1
    finally:
        alive.set()


def _note_close(payload: bytes, number: int, found: Fuzzed) -> None:
    code = int.from_bytes(payload[:2])
    found.closes[code] += 1
    if payload and code not in CONTRACT | BELOW and not _is_echo(code):
        found.complaints.append(f"{number}: closed with {code} {payload[2:]!r}")


def _is_echo(code: int) -> bool:
    """A server answers a close with the code that it was sent."""
    return 3000 <= code < 5000 or code in (1003, 1010, 1012, 1013, 1014)


def _note(frame: dict[str, Any], number: int, subprotocol: str, found: Fuzzed) -> None:
    kind = frame["type"]
    found.frame_types[kind] += 1
    if kind not in TAKEN[subprotocol]:
        found.complaints.append(f"{number}: {kind} for {subprotocol or 'a stock client'}")
    if kind == "error" and frame.get("code") == "internal":
        found.complaints.append(f"{number}: {frame}")
