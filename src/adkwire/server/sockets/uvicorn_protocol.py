"""UvicornProtocol: uvicorn's WebSocket protocol, made safe against clients that do not read or send slowly.

It depends on private names of uvicorn, and is the only file that does.
"""

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class UvicornProtocol(WebSocketsSansIOProtocol):
    """A WebSocket of uvicorn that does not wait for ever for its client to read."""

    _abort_timer: asyncio.TimerHandle | None = None
    """Set once the app is done: aborts the connection of a client that does not read the rest."""

    def handle_connect(self, event: Any) -> None:
        """Begin the handshake. uvicorn fails to refuse a wrong header that is not ASCII, so it is refused here."""
        try:
            super().handle_connect(event)
        except UnicodeEncodeError:
            self.handshake_complete = self.close_sent = True
            self.transport.write(_BAD_REQUEST)
            self.transport.close()

    async def send(self, message: Any) -> None:
        """Send a message. A close does not wait for the client to read what was sent before it."""
        if message["type"] == "websocket.close":
            self.writable.set()
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # else uvicorn logs every refusal as an error of the app

    async def run_asgi(self) -> None:
        """Run the app, then give the client some seconds to read the rest."""
        await super().run_asgi()
        if not self.disconnected:
            self._abort_timer = self.loop.call_later(self.close_timeout, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        super().connection_lost(exc)
        if self._abort_timer is not None:
            self._abort_timer.cancel()

    def send_receive_event_to_app(self) -> None:
        """Give a message to the app. One that is not UTF-8 closes the socket: it is the client's fault."""
        if self.curr_msg_data_type == "text" and not _is_text(b"".join(self.frames)):
            self.frames = []
            self.conn.fail(1007, "invalid UTF-8")
            self.handle_parser_exception()
        else:
            super().send_receive_event_to_app()

    def data_received(self, data: bytes) -> None:
        """Receive bytes, and restart the pong timer: a pong waits behind a long message that the client is sending."""
        super().data_received(data)
        if self.pong_timer is not None and self.ping_timeout is not None:
            self.pong_timer.cancel()
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
