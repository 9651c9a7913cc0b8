"""A client of a live socket that sends any frame, and keeps audio apart from text frames."""

import asyncio
import base64
import json
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from websockets.asyncio.client import ClientConnection

from adkwire.wire.socket.live_frames_in import LIVE_SUBPROTOCOL
from tests.server.app_server import PATIENCE, Site
from tests.server.sockets.socket_client import Frame, SocketClient, open_socket

HEAD = struct.Struct("<BBHI")
TALKS = (LIVE_SUBPROTOCOL,)


class Heard(NamedTuple):
    """A binary frame of the server."""

    kind: int
    flags: int
    generation: int
    position: int
    pcm: bytes


class LiveClient(SocketClient):
    """The client of one live socket."""

    def __init__(self, connection: ClientConnection) -> None:
        super().__init__(connection)
        self.heard: list[Heard] = []

    async def next(self) -> Frame:
        """Return the next text frame; audio that comes before it is kept in `heard`."""
        while True:
            async with asyncio.timeout(PATIENCE):
                data = await self.connection.recv()
            if isinstance(data, str):
                frame: Frame = json.loads(data)
                return frame
            kind, flags, generation, position = HEAD.unpack(data[: HEAD.size])
            self.heard.append(Heard(kind, flags, generation, position, data[HEAD.size :]))

    async def speak(self, *pieces: Frame | bytes) -> None:
        """Send audio between `start` and `stop`."""
        await self.send(control("start"), *pieces, control("stop"))


@asynccontextmanager
async def open_live(site: Site, chat: str = "chat", **given: Any) -> AsyncGenerator[LiveClient]:
    """Open a live socket as our client does, and read its first frames."""
    async with open_socket(site, path="/api/live", query=f"?chat={chat}", subprotocols=TALKS, **given) as one:
        live = LiveClient(one.connection)
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


def answer(call: str, **fields: Any) -> Frame:
    return {"type": "tool_result", "version": "1.0", "data": {"toolCallId": call, **fields}}


async def turn_of(one: LiveClient) -> tuple[Frame, list[Frame]]:
    """The next turn that is pushed: the frame that announces it, and what comes under its name."""
    pushed = (await one.until("turn"))[-1]
    return pushed, await one.answer(pushed["requestId"])
