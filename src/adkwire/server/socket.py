"""WS /api/chat/ws: who may have a socket, and what becomes of all of them when the server goes down."""

import asyncio
from collections.abc import Callable

from starlette.websockets import WebSocket

from adkwire.errors import Unavailable
from adkwire.runs.serving import Serving
from adkwire.server.chat_socket import CLOSE_PATIENCE, RESTARTS, ChatSocket
from adkwire.server.limits import Rates, Seat, Seats
from adkwire.server.outbox import Ending
from adkwire.server.security import chosen_subprotocol, user_of
from adkwire.wire.frames import SUBPROTOCOL

TOO_MANY = Ending(4429, "too many sockets")


class SocketRoutes:
    """The sockets of a server."""

    def __init__(self, bridge: Serving, sockets: "Sockets", rates: Rates) -> None:
        self._bridge = bridge
        self._sockets = sockets
        self._rates = rates

    async def chat(self, socket: WebSocket) -> None:
        """Talk until one of both has enough."""
        user, subprotocol = user_of(socket).id, chosen_subprotocol(socket, SUBPROTOCOL)

        def made(seat: Seat) -> ChatSocket:
            return ChatSocket(socket, user, self._bridge, self._rates, seat, ours=subprotocol == SUBPROTOCOL)

        await self._sockets.admit(socket, user, subprotocol, made)


class Sockets:
    """All open sockets of a server, for the time when it goes down."""

    def __init__(self, per_user: int) -> None:
        self.seats = Seats(per_user)
        self._open: set[ChatSocket] = set()
        self._closing = False
        self._empty = asyncio.Event()

    def refuse_when_closing(self) -> None:
        """No new sockets while the server goes down."""
        if self._closing:
            raise Unavailable("The server is going down.", hint="Try again in a moment.")

    async def admit(
        self, socket: WebSocket, user: str, subprotocol: str | None, made: Callable[[Seat], ChatSocket]
    ) -> None:
        """Accept a socket and serve what is made of it, if its user has not too many."""
        self.refuse_when_closing()
        await socket.accept(subprotocol)
        seat = self.seats.take(user)
        if seat is None:
            await socket.close(*TOO_MANY)
            return
        try:
            await self.serve(made(seat))
        finally:
            seat.leave()

    async def serve(self, socket: ChatSocket) -> None:
        """Serve a socket, and know of it meanwhile."""
        self._open.add(socket)
        self._empty.clear()
        try:
            if self._closing:
                socket.drain()
            await socket.serve()
        finally:
            self._open.discard(socket)
            if not self._open:
                self._empty.set()

    def drain(self) -> None:
        """Tell all that the server goes down. Each socket is closed when what it follows has ended."""
        self._closing = True
        for socket in self._open:
            socket.drain()

    async def close(self) -> None:
        """Close what is still open."""
        self.drain()
        if self._open and not await self._emptied():
            for socket in self._open:
                socket.end(RESTARTS)
            await self._emptied()

    async def _emptied(self) -> bool:
        try:
            async with asyncio.timeout(CLOSE_PATIENCE):
                return await self._empty.wait()
        except TimeoutError:
            return False
