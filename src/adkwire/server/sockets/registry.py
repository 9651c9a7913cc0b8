"""OpenSockets: all open sockets of a server, and their end when the server shuts down."""

import asyncio
from collections.abc import Callable

from starlette.websockets import WebSocket

from adkwire.errors import Unavailable
from adkwire.server.limits import SocketQuota
from adkwire.server.sockets.connection import CLOSE_TIMEOUT, Handler, SocketConnection
from adkwire.server.sockets.endings import RESTARTING, TOO_MANY_SOCKETS
from adkwire.settings import Settings


class OpenSockets:
    """All open sockets of a server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._quota = SocketQuota(settings.sockets_per_user)
        self._open: dict[SocketConnection, Handler] = {}
        self._closing = False
        """True once the server has begun to shut down."""
        self._empty = asyncio.Event()

    async def accept(
        self, socket: WebSocket, user: str, subprotocol: str | None, make: Callable[[SocketConnection], Handler]
    ) -> None:
        """Accept a socket and serve it to its end, unless its user has too many."""
        if self._closing:
            raise Unavailable("The server is shutting down.", hint="Try again in a moment.")
        await socket.accept(subprotocol)
        slot = self._quota.take(user)
        if slot is None:
            await socket.close(*TOO_MANY_SOCKETS)
            return
        try:
            connection = SocketConnection(socket, user, self._settings, slot)
            await self._serve(connection, make(connection))
        finally:
            slot.release()

    async def _serve(self, connection: SocketConnection, handler: Handler) -> None:
        self._open[connection] = handler
        self._empty.clear()
        try:
            if self._closing:
                _drain(connection, handler)
            await connection.serve(handler)
        finally:
            del self._open[connection]
            if not self._open:
                self._empty.set()

    def drain(self) -> None:
        """Accept no more sockets, and end each one when the runs that it follows have ended."""
        self._closing = True
        for connection, handler in self._open.items():
            _drain(connection, handler)

    async def close(self) -> None:
        """Close the sockets that are still open."""
        self.drain()
        if self._open and not await self._wait_empty():
            for connection in self._open:
                connection.end(RESTARTING)
            await self._wait_empty()

    async def _wait_empty(self) -> bool:
        """Wait for the last socket to close; return False when that takes too long."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                return await self._empty.wait()
        except TimeoutError:
            return False


def _drain(connection: SocketConnection, handler: Handler) -> None:
    if not connection.draining:
        connection.draining = True
        handler.drain()
