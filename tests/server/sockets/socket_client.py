"""A client of a chat socket that sends any frame, and a raw one that sends any bytes."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin, Subprotocol

from adkwire.wire.socket.frames_in import SUBPROTOCOL
from tests.server.app_server import PATIENCE, Reply, Site, as_reply, message

Frame = dict[str, Any]
OURS = (SUBPROTOCOL,)


def send_frame(
    text: str = "hello", request_id: str = "r1", *, chat: str = "chat", message_id: str = "u1", **more: Any
) -> Frame:
    """Return the frame that the stock transport sends for a message."""
    return {
        "type": "send",
        "requestId": request_id,
        "id": chat,
        "trigger": "submit-message",
        "messages": [message(text, message_id)],
        "headers": {},
        "body": {},
        **more,
    }


def resume_frame(request_id: str = "r2", *, chat: str = "chat", **more: Any) -> Frame:
    return {"type": "resume", "requestId": request_id, "id": chat, "headers": {}, "body": {}, **more}


def abort_frame(request_id: str = "r1") -> Frame:
    return {"type": "abort", "requestId": request_id}


class SocketClient:
    """The client of one socket."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def send(self, *frames: Frame | str | bytes) -> None:
        for frame in frames:
            await self.connection.send(json.dumps(frame) if isinstance(frame, dict) else frame)

    async def next(self) -> Frame:
        async with asyncio.timeout(PATIENCE):
            text = await self.connection.recv()
        assert isinstance(text, str), "a binary frame"
        frame: Frame = json.loads(text)
        return frame

    async def until(self, kind: str, request_id: str | None = None) -> list[Frame]:
        """The frames up to the first that is, or brings a chunk, of this type."""
        found: list[Frame] = []
        while not found or not (
            kind in (found[-1]["type"], found[-1].get("chunk", {}).get("type"))
            and request_id in (None, found[-1].get("requestId"))
        ):
            found.append(await self.next())
        return found

    async def ask(self, frame: Frame) -> list[Frame]:
        """Send a request and read its answer to the end."""
        await self.send(frame)
        return await self.answer(frame["requestId"])

    async def answer(self, request_id: str) -> list[Frame]:
        """The frames of one request up to its last."""
        found: list[Frame] = []
        while not found or found[-1]["type"] not in ("end", "error", "no-active"):
            frame = await self.next()
            if frame.get("requestId") == request_id:
                found.append(frame)
        return found

    async def closed(self) -> tuple[int, str]:
        """Read to the end of the socket, and return its close code and reason."""
        try:
            while True:
                await self.next()
        except ConnectionClosed as end:
            return (end.rcvd.code, end.rcvd.reason) if end.rcvd is not None else (1006, "cut without a word")


@asynccontextmanager
async def open_socket(
    site: Site | int,
    *,
    query: str = "",
    subprotocols: Sequence[str] = (),
    origin: str | None = None,
    headers: dict[str, str] | None = None,
    path: str = "/api/chat/ws",
) -> AsyncGenerator[SocketClient]:
    """Open a socket, and close it at the end of the block."""
    port = site if isinstance(site, int) else site.port
    async with connect(
        f"ws://127.0.0.1:{port}{path}{query}",
        subprotocols=[Subprotocol(name) for name in subprotocols] or None,
        origin=Origin(origin) if origin is not None else None,
        additional_headers=headers,
        proxy=None,
        max_size=None,
        max_queue=None,
        compression=None,
        open_timeout=PATIENCE,
        close_timeout=PATIENCE,
    ) as connection:
        yield SocketClient(connection)


def chunks_of(frames: Sequence[Frame]) -> list[dict[str, Any]]:
    """The chunks of an answer, whose numbers have no gap."""
    found = [frame for frame in frames if frame["type"] == "chunk"]
    first = found[0]["sequence"] if found else 0
    assert [frame["sequence"] for frame in found] == list(range(first, first + len(found)))
    return [frame["chunk"] for frame in found]


def kinds_of(frames: Sequence[Frame]) -> list[str]:
    return [chunk["type"] for chunk in chunks_of(frames)]


def text_in(frames: Sequence[Frame]) -> str:
    return "".join(chunk["delta"] for chunk in chunks_of(frames) if chunk["type"] == "text-delta")


def refusal(frames: Sequence[Frame]) -> str:
    """The text of the one frame that refuses a request, in its official form."""
    [frame] = frames
    assert set(frame) == {"type", "requestId", "errorText"}
    assert frame["type"] == "error"
    assert "Traceback" not in frame["errorText"]
    text: str = frame["errorText"]
    return text


HANDSHAKE = (
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
)


class RawSocket:
    """A WebSocket over a plain connection: the test decides about every byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def write(self, opcode: int, payload: bytes, *, first: int = 0x80, masked: bool = True) -> None:
        """Put one frame on the way, legal or not; `first` is the FIN bit and what is reserved."""
        size, mask = len(payload), 0x80 if masked else 0
        if size < 126:
            head = struct.pack("!BB", first | opcode, mask | size)
        elif size < 65_536:
            head = struct.pack("!BBH", first | opcode, mask | 126, size)
        else:
            head = struct.pack("!BBQ", first | opcode, mask | 127, size)
        self.writer.write(head + (bytes(4) if masked else b"") + payload)

    async def read(self) -> tuple[int, bytes] | None:
        """The next frame of the server: opcode and payload; None at the end."""
        try:
            async with asyncio.timeout(PATIENCE):
                first, size = await self.reader.readexactly(2)
                if size >= 126:
                    size = int.from_bytes(await self.reader.readexactly(2 if size == 126 else 8))
                return first & 0x0F, await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def close_code(self) -> int | None:
        """Return the close code of the server; None when the connection ends without one."""
        while (frame := await self.read()) is not None:
            if frame[0] == 8:
                return int.from_bytes(frame[1][:2])
        return None

    def widen(self) -> None:
        """Take more at a time."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_000_000)

    def drop(self) -> None:
        self.writer.transport.abort()


async def raw_handshake(
    port: int, headers: Sequence[tuple[str, str]], *, path: str = "/api/chat/ws", narrow: bool = False
) -> tuple[Reply, RawSocket]:
    """Ask for a socket with exactly these headers; `narrow` takes little of what comes."""
    plug = socket.socket()
    plug.setblocking(False)
    if narrow:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    await asyncio.get_running_loop().sock_connect(plug, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=plug)
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in (*headers, *HANDSHAKE))]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(PATIENCE):
        head = await reader.readuntil(b"\r\n\r\n")
        rest = b"" if head.startswith(b"HTTP/1.1 101") else await reader.read()
    return as_reply(head + rest), RawSocket(reader, writer)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds that the server announces to nobody."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
