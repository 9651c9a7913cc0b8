"""One socket of a client: many requests on one socket, by the frames of the AI SDK's `WebSocketChatTransport`.

Each request is a task that reads a run. All of them write through one outbox, which is where a reader that does not
read is noticed. Whoever goes away leaves the runs as they are; only `abort` stops one.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import cached_property, partial
from typing import ClassVar, TypeAlias, assert_never

from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from adkwire.errors import Conflict, RequestError, TooMany, Unavailable, Unprocessable
from adkwire.runs.reading import Place, Reading
from adkwire.runs.serving import Serving
from adkwire.server.chat import place
from adkwire.server.limits import Bucket, Rates, Seat
from adkwire.server.outbox import GONE, Ending, Outbox
from adkwire.stores.base import Batch
from adkwire.wire.decoder import InputLimits
from adkwire.wire.frames import (
    AbortFrame,
    ChunkFrames,
    ClientFrame,
    FrameLimits,
    PingFrame,
    ResumeFrame,
    SendFrame,
    decode_frame,
    decode_head,
    end_frame,
    error_frame,
    is_last,
    no_active_frame,
    notice_frame,
    pong_frame,
    start_frame,
)
from adkwire.wire.profiles import Profile
from adkwire.wire.recordings import Mode

logger = logging.getLogger("adkwire")

_BURST = 5.0
"""Seconds for which a client may have saved up its frames: one that comes back resumes all it had at once."""
_MALFORMED = 10
_FORGIVEN = 600.0
"""How many frames that belong to no request are taken in so many seconds, before somebody is up to something."""
CLOSE_PATIENCE = 2.0
"""Seconds for a last word to get out."""
FAILED = "The server failed. Its log says why."
_RESTART = "The server is being restarted. It lets running answers end; connect again."

Work: TypeAlias = Callable[[], Awaitable[None]]

RESTARTS = Ending(1001, "the server restarts")
ABUSED = Ending(1008, "too many malformed frames")
IDLE = Ending(4408, "idle")
TOO_FAST = Ending(4429, "too many frames")
STORE_AWAY = Ending(4503, "a store does not answer")


class Request:
    """One answer that a socket follows."""

    def __init__(self, request_id: str, chat: str, message: str | None = None) -> None:
        self.id = request_id
        self.chat = chat
        self.message = message
        """The user's message that it brings."""
        self.run: str | None = None
        self.starting = False
        """Its message is being handed over, which is not broken off."""
        self.aborted = False
        self.over = False
        """Its run has written the last of it, so there is nothing to stop."""
        self.left = False
        self.task: asyncio.Task[None] | None = None

    def leave(self) -> None:
        """Stop reading."""
        self.left = True
        if self.task is not None and not self.starting:
            self.task.cancel()


class ChatSocket:
    """One client's socket."""

    _mode: ClassVar[Mode] = "websocket"

    def __init__(self, socket: WebSocket, user: str, bridge: Serving, rates: Rates, seat: Seat, *, ours: bool) -> None:
        settings = bridge.settings
        parts = InputLimits(settings.max_parts, settings.max_part_bytes, settings.max_image_pixels)
        self._socket = socket
        self._user = user
        self._bridge = bridge
        self._rates = rates
        self._seat = seat
        self._ours = ours
        self._client = socket.query_params.get("client") or socket.headers.get("x-adkwire-client")
        self._limits = FrameLimits(settings.max_control_bytes, settings.max_body_bytes, parts)
        self._pace = Bucket(round(settings.controls_per_second * _BURST), _BURST)
        self._out = Outbox(socket, settings.slow_reader)
        self._requests: dict[str, Request] = {}
        self._tasks = asyncio.TaskGroup()
        self._active = time.monotonic()
        self._watching: asyncio.TimerHandle | None = None
        self._draining = False
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    @cached_property
    def _forbearance(self) -> Bucket:
        return Bucket(_MALFORMED, _FORGIVEN)

    async def serve(self) -> None:
        """Receive and send until one of both has enough. A message that has come in is handed over all the same."""
        async with self._tasks:
            self._watch()
            parts = [
                self._tasks.create_task(self._until(self._receive), name="adkwire-socket-receive"),
                self._tasks.create_task(self._until(self._out.run), name="adkwire-socket-send"),
            ]
            try:
                ending = await self._ending
            finally:
                # What is still to be handed over or stopped may take a while: its client can come back meanwhile.
                self._leave()
                for part in parts:
                    part.cancel()
                for request in self._requests.values():
                    request.leave()
            await asyncio.wait(parts)
            await self._close(ending)

    def end(self, ending: Ending) -> None:
        """Close the socket; the first reason counts."""
        if not self._ending.done():
            self._ending.set_result(ending)

    def drain(self) -> None:
        """The server goes down: say so, and close the socket when nothing is followed any more."""
        if not self._draining:
            self._draining = True
            self._notice("server-restart", _RESTART)
            self._let_go()

    def _leave(self) -> None:
        """The client is gone, or has to go."""
        self._seat.leave()
        if self._watching is not None:
            self._watching.cancel()

    async def _until(self, work: Callable[[], Awaitable[Ending]]) -> None:
        """Work until that ends, which is the end of all."""
        self.end(await work())

    async def _close(self, ending: Ending) -> None:
        if ending is GONE:
            return
        logger.info("a socket was closed: %s", ending.reason)
        try:
            async with asyncio.timeout(CLOSE_PATIENCE):
                await self._socket.close(*ending)
        except (TimeoutError, WebSocketDisconnect, RuntimeError):
            logger.debug("the client of a closed socket does not get to know why")

    async def _receive(self) -> Ending:
        """Take frames. Nothing is waited for here but the next one, or a client that leaves would not be noticed."""
        if (refusal := await self._enter()) is not None:
            return refusal
        while (message := await self._socket.receive())["type"] != "websocket.disconnect":
            self._active = time.monotonic()
            if (ending := self._take(message)) is not None:
                return ending
        return GONE

    async def _enter(self) -> Ending | None:
        """What is to be done before the first frame; an ending when the client cannot stay."""
        return None

    def _watch(self) -> None:
        """End a socket on which nothing has happened for too long."""
        idle = self._bridge.settings.socket_idle
        left = idle if self._requests else self._active + idle - time.monotonic()
        if left <= 0:
            self.end(IDLE)
        else:
            self._watching = asyncio.get_running_loop().call_later(left, self._watch)

    def _take(self, message: Message) -> Ending | None:
        """Do what a frame wants, or say what is wrong with it; an ending when that has been said too often."""
        if self._pace.take():
            return TOO_FAST
        request_id, text = None, message.get("text")
        try:
            if text is None:
                raise Unprocessable("Binary frames are not taken here.")
            raw = text.encode(errors="surrogatepass")
            head = decode_head(raw)
            request_id = head.request_id
            self._obey(decode_frame(head, raw, self._limits, ours=self._ours), raw)
        except RequestError as error:
            if request_id is None:
                self._notice(error.code, words_of(error))
                return self._suffer()
            self._refuse(request_id, error)
        return None

    def _suffer(self) -> Ending | None:
        """One more frame that makes no sense."""
        return ABUSED if self._forbearance.take() else None

    def _obey(self, frame: ClientFrame, raw: bytes) -> None:
        match frame:
            case SendFrame():
                self._admit(frame.request_id)
                self._rates.take(self._user)
                self._record(frame.turn.chat, raw)
                said = frame.turn.message
                request = Request(frame.request_id, frame.turn.chat, said.id if said is not None else None)
                request.starting = True
                self._begin(request, partial(self._answer, request, frame))
            case ResumeFrame():
                self._admit(frame.request_id)
                request = Request(frame.request_id, frame.chat)
                self._begin(request, partial(self._resume, request, frame))
            case AbortFrame():
                if (request := self._requests.get(frame.request_id)) is not None:
                    self._abort(request)
            case PingFrame():
                self._out.put(pong_frame(frame.timestamp, round(time.time() * 1000)))
            case _:
                assert_never(frame)

    def _record(self, chat: str, raw: bytes) -> None:
        if self._bridge.recorder is not None:
            self._bridge.recorder.frame(self._user, chat, self._mode, raw)

    def _admit(self, request_id: str) -> None:
        if request_id in self._requests:
            raise Conflict("A request with this id is being answered on this socket.")
        if len(self._requests) >= self._bridge.settings.socket_requests:
            raise TooMany("Too many answers are followed on this socket.", retry_after=1)

    def _begin(self, request: Request, work: Work) -> None:
        self._requests[request.id] = request
        request.task = self._tasks.create_task(self._carry(request, work), name=f"adkwire-socket-{request.id[:40]}")

    async def _carry(self, request: Request, work: Work) -> None:
        """Do the work of a request; what goes wrong with it does not touch the others."""
        try:
            await work()
        except Unavailable as error:
            if request.starting and not self._ours:
                self._refuse(request.id, error)
            else:
                # It can be gone on with, or sent again, once all is well: an error would be the end of it.
                self.end(RESTARTS if self._draining else STORE_AWAY)
        except RequestError as error:
            self._refuse(request.id, error)
        except Exception:
            logger.exception("a request on a socket failed")
            self._out.put(self._error(request.id, FAILED, "internal"))
        finally:
            self._forget(request)
            self._let_go()

    async def _answer(self, request: Request, frame: SendFrame) -> None:
        turn = frame.turn
        run = await self._bridge.start(self._user, turn)
        request.starting = False
        # Who answers calls has their message already.
        whole = turn.message is not None or turn.answers is None
        await self._tell(request, self._bridge.reading(run, whole=whole), self._profile(frame))

    async def _resume(self, request: Request, frame: ResumeFrame) -> None:
        after = place(frame.after) if frame.after is not None else None
        reading = await self._follow(frame, after)
        if reading is None:
            self._forget(request)
            self._out.put(no_active_frame(request.id))
            return
        has = -1 if frame.last_sequence is None else frame.last_sequence
        first, behind = (0, has) if after is None else (has + 1, -1)
        profile = Profile.declared(frame.client or self._client)
        await self._tell(request, reading, profile, first=first, behind=behind)

    async def _follow(self, frame: ResumeFrame, after: Place | None) -> Reading | None:
        return await self._bridge.follow(self._user, frame.chat, after)

    def _profile(self, frame: SendFrame) -> Profile:
        return Profile.declared(frame.client or frame.turn.client or self._client)

    async def _tell(
        self, request: Request, reading: Reading, profile: Profile, *, first: int = 0, behind: int = -1
    ) -> None:
        """Send a run to its end."""
        if not self._bind(request, reading):
            return
        run = reading.run if self._ours else None
        frames = ChunkFrames(request.id, profile, run=run, first=first, behind=behind)
        self._out.put(start_frame(request.id))
        async with aclosing(reading.batches) as batches:
            async for batch in batches:
                note_end(request, batch)
                if told := frames.of(batch.first, batch.entries):
                    await self._out.put(*told)
        self._forget(request)
        self._out.put(end_frame(request.id))

    def _bind(self, request: Request, reading: Reading) -> bool:
        """A request has its run; False when nobody waits for it any more."""
        request.run = reading.run
        if request.aborted:
            self._stop(request)
        return not request.left

    def _abort(self, request: Request) -> None:
        """Stop the run of a request, once it has one. How it ends is still told."""
        if not request.aborted:
            request.aborted = True
            if request.run is not None:
                self._stop(request)

    def _stop(self, request: Request) -> None:
        if not request.over:
            # A task that nobody cancels: the client may go away right after it said stop.
            self._tasks.create_task(self._stopped(request), name="adkwire-socket-stop")

    async def _stopped(self, request: Request) -> None:
        try:
            await self._bridge.stop(self._user, request.chat, request.run)
        except RequestError as error:
            logger.warning("an answer could not be stopped: %s", error.message)
        except Exception:
            logger.exception("an answer could not be stopped")

    def _forget(self, request: Request) -> None:
        """A request is over before its client is told so: it may use the id again."""
        if self._requests.get(request.id) is request:
            del self._requests[request.id]
            self._active = time.monotonic()

    def _let_go(self) -> None:
        if self._draining and not self._requests:
            self._out.put().add_done_callback(lambda _: self.end(RESTARTS))

    def _refuse(self, request_id: str, error: RequestError) -> None:
        self._out.put(self._error(request_id, words_of(error), error.code))

    def _error(self, request_id: str, text: str, code: str) -> str:
        return error_frame(request_id, text, code if self._ours else None)

    def _notice(self, code: str, text: str) -> None:
        if self._ours:
            self._out.put(notice_frame("warning", code, text))


def note_end(request: Request, batch: Batch) -> None:
    """See whether a run has written the last of it."""
    request.over = request.over or batch.closed or any(map(is_last, batch.entries[-1:]))


def words_of(error: RequestError) -> str:
    """What somebody is told who is refused."""
    return f"{error.message} {error.hint}" if error.hint else error.message
