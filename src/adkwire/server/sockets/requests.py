"""Requests: the open requests of one socket, each a task that sends a run to the client."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from adkwire.errors import Conflict, RequestError, TooMany, Unavailable
from adkwire.runs.readers import Reading
from adkwire.server.backend import Backend
from adkwire.server.sockets.connection import SocketConnection
from adkwire.server.sockets.endings import RESTARTING, STORE_UNAVAILABLE
from adkwire.stores.base import Batch
from adkwire.wire.socket.frames_out import error_frame, is_last_chunk

logger = logging.getLogger("adkwire")

FAILED = "The server failed. Its log says why."

Work: TypeAlias = Callable[[], Awaitable[None]]


class Request:
    """One run that a client asked for, or that is pushed to it."""

    def __init__(self, request_id: str, chat: str, message: str | None = None) -> None:
        self.id = request_id
        self.chat = chat
        self.message = message
        """The id of the user's message that the request brings; None for a resume or a pushed turn."""
        self.run: str | None = None
        """The run that is read, once it is known."""
        self.starting = False
        """True while the message is being given to its run; the task is not cancelled then."""
        self.aborted = False
        """True once the client has asked to stop the run."""
        self.over = False
        """True once the last chunk of the run is read: there is nothing to stop."""
        self.left = False
        """True once the client is gone."""
        self.task: asyncio.Task[None] | None = None

    def leave(self) -> None:
        """Stop reading the run."""
        self.left = True
        if self.task is not None and not self.starting:
            self.task.cancel()

    def note_end(self, batch: Batch) -> None:
        """Note whether a batch holds the last chunk of the run."""
        self.over = self.over or batch.closed or any(map(is_last_chunk, batch.entries[-1:]))


class Requests:
    """The open requests of one socket. One that fails does not disturb the others."""

    def __init__(self, connection: SocketConnection, backend: Backend, *, ours: bool) -> None:
        """`ours` if the client has asked for our subprotocol: it gets error codes, and repeats what it can."""
        self._connection = connection
        self._backend = backend
        self._ours = ours
        self._open: dict[str, Request] = {}

    @property
    def open(self) -> list[Request]:
        """The requests that have not ended."""
        return list(self._open.values())

    def has(self, request_id: str) -> bool:
        """Return whether a request with this id is open."""
        return request_id in self._open

    def admit(self, request_id: str) -> None:
        """Raise when no request with this id can be opened now."""
        if request_id in self._open:
            raise Conflict("A request with this id is being answered on this socket.")
        if len(self._open) >= self._backend.settings.socket_requests:
            raise TooMany("This socket has too many open requests.", retry_after=1)

    def begin(self, request: Request, work: Work) -> None:
        """Open a request and do its work in a task."""
        self._open[request.id] = request
        name = f"adkwire-socket-{request.id[:40]}"
        request.task = self._connection.tasks.create_task(self._carry_out(request, work), name=name)

    def bind(self, request: Request, reading: Reading) -> bool:
        """Note the run of a request; return False when the client is gone and nothing has to be sent."""
        request.run = reading.run
        if request.aborted:
            self._stop(request)
        return not request.left

    def abort(self, request_id: str) -> None:
        """Stop the run of a request, now or when it is known. The end of the run is still sent."""
        request = self._open.get(request_id)
        if request is not None and not request.aborted:
            request.aborted = True
            if request.run is not None:
                self._stop(request)

    def close(self, request: Request) -> None:
        """Close a request before its last frame is sent, so that the client may use the id again at once."""
        if self._open.get(request.id) is request:
            del self._open[request.id]
            self._connection.touch()

    def refuse(self, request_id: str, error: RequestError) -> None:
        """Send an error for a request."""
        self._send_error(request_id, text_of(error), error.code)

    def leave(self) -> None:
        """Stop reading all runs: the client is gone."""
        for request in self._open.values():
            request.leave()

    def end_when_drained(self) -> None:
        """While the server shuts down: end the connection if no request is open."""
        if self._connection.draining and not self._open:
            self._connection.end_when_sent(RESTARTING)

    async def _carry_out(self, request: Request, work: Work) -> None:
        try:
            await work()
        except Unavailable as error:
            if request.starting and not self._ours:
                self.refuse(request.id, error)
            else:
                # Our clients resume or repeat the request on a new connection. An error would be final.
                self._connection.end(RESTARTING if self._connection.draining else STORE_UNAVAILABLE)
        except RequestError as error:
            self.refuse(request.id, error)
        except Exception:
            logger.exception("a request on a socket failed")
            self._send_error(request.id, FAILED, "internal")
        finally:
            self.close(request)
            self.end_when_drained()

    def _stop(self, request: Request) -> None:
        if not request.over:
            # In a task of its own, which is not cancelled: the client may go away right after it asked to stop.
            self._connection.tasks.create_task(self._stop_run(request), name="adkwire-socket-stop")

    async def _stop_run(self, request: Request) -> None:
        try:
            await self._backend.stop(self._connection.user, request.chat, request.run)
        except RequestError as error:
            logger.warning("a run could not be stopped: %s", error.message)
        except Exception:
            logger.exception("a run could not be stopped")

    def _send_error(self, request_id: str, text: str, code: str) -> None:
        self._connection.out.put(error_frame(request_id, text, code if self._ours else None))


def text_of(error: RequestError) -> str:
    """Return the message of an error with its hint."""
    return f"{error.message} {error.hint}" if error.hint else error.message
