"""SocketConnection: one WebSocket of a client, from its first frame to its close."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from adkwire.server.limits import SocketSlot
from adkwire.server.sockets.endings import GONE, IDLE, Ending
from adkwire.server.sockets.outbox import Outbox
from adkwire.settings import Settings

logger = logging.getLogger("adkwire")

CLOSE_TIMEOUT = 2.0
"""Seconds that a client may take to read the close of its socket."""


class Handler(Protocol):
    """What is done with the frames of a connection: a chat socket or a live socket."""

    @property
    def is_busy(self) -> bool:
        """True while a request is open: the connection is not idle then."""
        ...

    async def enter(self) -> Ending | None:
        """Do what comes before the first frame; return an ending if the client cannot stay."""
        ...

    def receive(self, message: Message) -> Ending | None:
        """Handle a message without waiting; return an ending if the connection has to end."""
        ...

    def leave(self) -> None:
        """Stop reading runs for the client: it is gone, or has to go."""
        ...

    def drain(self) -> None:
        """Tell the client that the server shuts down, and end the connection when no request is open."""
        ...


class SocketConnection:
    """One WebSocket of a client: receives frames, sends its outbox, and ends for one reason."""

    def __init__(self, socket: WebSocket, user: str, settings: Settings, slot: SocketSlot) -> None:
        self.user = user
        self.client = socket.query_params.get("client") or socket.headers.get("x-adkwire-client")
        """The release of the AI SDK that the client has declared; None if it has not."""
        self.chat = socket.query_params.get("chat")
        """The chat that the address names; None if it names none."""
        self.out = Outbox(socket, settings.slow_reader)
        self.tasks = asyncio.TaskGroup()
        """The tasks of this connection. It is closed when they have ended."""
        self.draining = False
        """True once the server has begun to shut down."""
        self.gone = False
        """True once the client is gone, or has to go."""
        self._socket = socket
        self._idle_seconds = settings.socket_idle
        self._slot = slot
        self._active_at = time.monotonic()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    async def serve(self, handler: Handler) -> None:
        """Receive and send until there is a reason to end. A message that has come in is still given to its run."""
        async with self.tasks:
            self._check_idle(handler)
            loops = [
                self.tasks.create_task(self._end_with(lambda: self._receive(handler)), name="adkwire-socket-receive"),
                self.tasks.create_task(self._end_with(self.out.run), name="adkwire-socket-send"),
            ]
            try:
                ending = await self._ending
            finally:
                # Starting or stopping a run may take a while, and the client can come back meanwhile.
                self._leave(handler)
                for loop in loops:
                    loop.cancel()
            await asyncio.wait(loops)
            await self._close(ending)

    def end(self, ending: Ending) -> None:
        """End the connection; the first reason counts."""
        if not self._ending.done():
            self._ending.set_result(ending)

    def end_when_sent(self, ending: Ending) -> None:
        """End the connection when all text frames that wait are sent."""
        self.out.put().add_done_callback(lambda _: self.end(ending))

    def touch(self) -> None:
        """Note that something has happened: the time until the connection is idle starts again."""
        self._active_at = time.monotonic()

    def _leave(self, handler: Handler) -> None:
        self.gone = True
        self._slot.release()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        handler.leave()

    async def _end_with(self, work: Callable[[], Awaitable[Ending]]) -> None:
        self.end(await work())

    async def _close(self, ending: Ending) -> None:
        if ending is GONE:
            return
        logger.info("a socket was closed: %s", ending.reason)
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._socket.close(*ending)
        except (TimeoutError, WebSocketDisconnect, RuntimeError):
            logger.debug("the client of a closed socket did not read the reason")

    async def _receive(self, handler: Handler) -> Ending:
        """Receive frames. Nothing else is awaited here, so that a client that goes away is noticed at once."""
        if (refusal := await handler.enter()) is not None:
            return refusal
        while (message := await self._socket.receive())["type"] != "websocket.disconnect":
            self.touch()
            if (ending := handler.receive(message)) is not None:
                return ending
        return GONE

    def _check_idle(self, handler: Handler) -> None:
        left = self._idle_seconds if handler.is_busy else self._active_at + self._idle_seconds - time.monotonic()
        if left <= 0:
            self.end(IDLE)
        else:
            self._idle_timer = asyncio.get_running_loop().call_later(left, self._check_idle, handler)
