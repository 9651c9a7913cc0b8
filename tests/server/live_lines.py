"""A client on a live socket: frames as they are given, sound apart from words."""

import asyncio
import base64
import json
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from websockets.asyncio.client import ClientConnection

from adkwire.wire.live_frames import LIVE_SUBPROTOCOL
from tests.server.lines import Frame, Line, line
from tests.server.sites import PATIENCE, Site

HEAD = struct.Struct("<BBHI")
TALKS = (LIVE_SUBPROTOCOL,)


class Heard(NamedTuple):
    """A binary frame of the server."""

    kind: int
    flags: int
    generation: int
    position: int
    pcm: bytes


class LiveLine(Line):
    """One live socket, from the client's end."""

    def __init__(self, connection: ClientConnection) -> None:
        super().__init__(connection)
        self.heard: list[Heard] = []

    async def next(self) -> Frame:
        """The next words; sound that comes before is kept apart."""
        while True:
            async with asyncio.timeout(PATIENCE):
                data = await self.connection.recv()
            if isinstance(data, str):
                frame: Frame = json.loads(data)
                return frame
            kind, flags, generation, position = HEAD.unpack(data[: HEAD.size])
            self.heard.append(Heard(kind, flags, generation, position, data[HEAD.size :]))

    async def speak(self, *pieces: Frame | bytes) -> None:
        """Hold the key, say this, let it go."""
        await self.send(control("start"), *pieces, control("stop"))


@asynccontextmanager
async def talk(site: Site, chat: str = "chat", **given: Any) -> AsyncGenerator[LiveLine]:
    """Open a live socket as a client of ours does, up to its first frame."""
    async with line(site, path="/api/live", query=f"?chat={chat}", subprotocols=TALKS, **given) as one:
        live = LiveLine(one.connection)
        assert (await live.next())["type"] == "ready"
        assert (await live.next())["type"] == "state"
        yield live


def control(action: str) -> Frame:
    return {"type": "audio_control", "version": "1.0", "action": action, "source": "ptt"}


def binary(payload: bytes, kind: int = 1) -> bytes:
    return HEAD.pack(kind, 0, 0, 0) + payload


def audio(pcm: bytes, **more: Any) -> Frame:
    data = {"chunk": base64.b64encode(pcm).decode(), "sampleRate": 16_000, "channels": 1, "bitDepth": 16, **more}
    return {"type": "audio_chunk", "version": "1.0", "data": data}


def answer(call: str, **said: Any) -> Frame:
    return {"type": "tool_result", "version": "1.0", "data": {"toolCallId": call, **said}}


async def turn_of(one: LiveLine) -> tuple[Frame, list[Frame]]:
    """The next turn that is pushed: the frame that announces it, and what comes under its name."""
    pushed = (await one.until("turn"))[-1]
    return pushed, await one.answer(pushed["requestId"])
