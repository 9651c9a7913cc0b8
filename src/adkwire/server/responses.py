"""The responses of the routes: JSON, and streams of server-sent events."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Send

from adkwire.server.sockets.outbox import write_timeout
from adkwire.wire.chunks import encode_chunk

logger = logging.getLogger("adkwire")

STREAM_HEADERS = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
"""Headers that keep proxies from holding back or changing a stream."""
HEARTBEAT = b": keep-alive\n\n"
"""A comment that keeps an idle stream open."""


def json_response(value: object) -> Response:
    """Return a value as a JSON response that no cache keeps."""
    return Response(encode_chunk(value), headers={"cache-control": "no-store"}, media_type="application/json")


class EventStream(StreamingResponse):
    """A response of server-sent events that ends when the client does not read what is written to it."""

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        headers: Mapping[str, str],
        seconds: float,
        media_type: str = "text/event-stream",
    ) -> None:
        """Wait up to `seconds` for the client to read a write; longer for a large one."""
        super().__init__(events, headers=headers, media_type=media_type)
        self._events = events
        self._seconds = seconds
        self._unread = 0
        """Bytes of the last write: the server buffers one write, and makes the next one wait for the client."""

    async def stream_response(self, send: Send) -> None:
        """Write the headers and every event."""
        async with aclosing(self._events):
            try:
                await self._write(send, _response_start(self.status_code, self.raw_headers))
                while (data := await self._next()) is not None:
                    await self._write(send, _response_body(data, more=True))
                await self._write(send, _response_body(b"", more=False))
            except _SlowReader:
                logger.info("a slow reader was cut: it took nothing for %g s", self._seconds)

    async def _next(self) -> bytes | None:
        try:
            return await anext(self._events, None)
        except OSError as error:
            # A timeout among them. Starlette takes an OSError for a client that has gone, and would hide this one.
            raise RuntimeError("The source of an event stream failed.") from error

    async def _write(self, send: Send, message: Message) -> None:
        size = len(message.get("body", b""))
        limit = asyncio.timeout(write_timeout(self._seconds, self._unread + size))
        try:
            async with limit:
                await send(message)
        except TimeoutError:
            if limit.expired():
                raise _SlowReader from None
            raise
        self._unread = size


class _SlowReader(Exception):
    """A client that has not read a write in time."""


def _response_start(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


def _response_body(data: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}
