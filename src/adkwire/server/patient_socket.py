"""uvicorn's end of a socket, made safe against clients that do not read, or that need long to say something."""

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class PatientSocket(WebSocketsSansIOProtocol):
    """A closed socket does not wait for ever for its client to read the rest."""

    _cut: asyncio.TimerHandle | None = None

    def handle_connect(self, event: Any) -> None:
        """Begin; a header that is wrong and not ASCII cannot be quoted in the refusal, which must not fail."""
        try:
            super().handle_connect(event)
        except UnicodeEncodeError:
            self.handshake_complete = self.close_sent = True
            self.transport.write(_BAD_REQUEST)
            self.transport.close()

    async def send(self, message: Any) -> None:
        """Send; a last word is not held back by what is unread before it."""
        if message["type"] == "websocket.close":
            self.writable.set()
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # or every refusal would be logged as an error of the app

    async def run_asgi(self) -> None:
        """Serve, and give the client a while to take what is left."""
        await super().run_asgi()
        if not self.disconnected:
            self._cut = self.loop.call_later(self.close_timeout, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        super().connection_lost(exc)
        if self._cut is not None:
            self._cut.cancel()

    def send_receive_event_to_app(self) -> None:
        """Hand a message on; one that is no text is the client's fault, and no failure of ours."""
        if self.curr_msg_data_type == "text" and not _is_text(b"".join(self.frames)):
            self.frames = []
            self.conn.fail(1007, "invalid UTF-8")
            self.handle_parser_exception()
        else:
            super().send_receive_event_to_app()

    def data_received(self, data: bytes) -> None:
        """Any bytes are a sign of life: the answer to a ping waits behind a message that takes long to send."""
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
