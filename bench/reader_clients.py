"""Several clients that read the same answer over HTTP or on sockets: one sends the message, the others resume."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeAlias

import orjson

from bench.agents.flood.agent import PIECE
from bench.http_client import new_chat
from bench.servers import Server

ReadTogether: TypeAlias = Callable[[Server, int, int], Coroutine[None, None, bool]]
"""Runs one turn of so many chunks with so many readers; returns False when a reader connected after its end."""
_Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_UPGRADE = (
    "GET /api/chat/ws HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    "sec-websocket-version: 13\r\nsec-websocket-key: YmVuY2hiZW5jaGJlbmNoYg==\r\n"
    "sec-websocket-protocol: adkwire.chat.v1\r\n\r\n"
)
_ENDS = (b'{"type":"end"', b'{"type":"no-active"', b'{"type":"error"')
_GOODBYE = b"\x88\x80\0\0\0\0"


async def by_sse(server: Server, chunks: int, readers: int) -> bool:
    """Post with one client and read the stream with the others, each on a connection of its own."""
    chat, (asker, *others) = new_chat(), await _connected(server, readers)
    resume = f"GET /api/chat/{chat}/stream HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\nconnection: close\r\n\r\n"
    asker[1].write(server.contender.request(server.port, chat, chunks))
    begun = await asker[0].read(65536)
    for _, writer in others:
        writer.write(resume.encode())
    first, *rest = await asyncio.gather(*(reader.read() for reader, _ in (asker, *others)))
    _close([asker, *others])
    return _all_whole([begun + first, *rest], chunks, late=b"HTTP/1.1 204")


async def by_socket(server: Server, chunks: int, readers: int) -> bool:
    """Send with one client and resume with the others, each on a socket of its own."""
    chat, (asker, *others) = new_chat(), await _connected(server, readers)
    await asyncio.gather(*(_upgrade(connection, server.port) for connection in (asker, *others)))
    body = server.contender.body(chat, chunks)
    asker[1].write(_text_frame({"type": "send", "requestId": "1", **body}))
    begun = await asker[0].readuntil(b'{"type":"chunk"')
    for _, writer in others:
        writer.write(_text_frame({"type": "resume", "requestId": "1", "id": chat}))
    bodies = await asyncio.gather(_to_its_end(asker, begun), *(_to_its_end(other) for other in others))
    _close([asker, *others])
    return _all_whole(bodies, chunks, late=_ENDS[1])


async def _connected(server: Server, count: int) -> list[_Connection]:
    return [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(count)]


def _close(connections: Sequence[_Connection]) -> None:
    for _, writer in connections:
        writer.close()


def _all_whole(bodies: Sequence[bytes], chunks: int, *, late: bytes) -> bool:
    if any(late in body for body in bodies):
        return False
    for body in bodies:
        if body.count(PIECE.encode()) < chunks:
            raise RuntimeError(f"a reader did not get the whole answer: {body[-300:]!r}")
    return True


async def _upgrade(connection: _Connection, port: int) -> None:
    reader, writer = connection
    writer.write(_UPGRADE.format(port=port).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 101"):
        raise RuntimeError(f"no socket: {head!r}")


def _text_frame(content: object) -> bytes:
    """Return a masked frame of 126 to 65,535 bytes; the mask is zero, which does not change the bytes."""
    text = orjson.dumps(content).ljust(126)
    return b"\x81\xfe" + len(text).to_bytes(2) + bytes(4) + text


async def _to_its_end(connection: _Connection, begun: bytes = b"") -> bytes:
    """Return all frames up to the last one of the request, and close the socket within this measurement."""
    reader, writer = connection
    body, looked = bytearray(begun), 0
    while not any(body.find(end, looked) >= 0 for end in _ENDS):
        looked = max(0, len(body) - 20)
        data = await reader.read(65536)
        if not data:
            raise RuntimeError(f"a socket was closed: {bytes(body[-300:])!r}")
        body += data
    writer.write(_GOODBYE)
    await reader.read()
    return bytes(body)
