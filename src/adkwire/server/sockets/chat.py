"""WS /api/chat/ws: the frames of the AI SDK's `WebSocketChatTransport`, many requests on one socket.

Each request is a task that reads a run. All of them write through one outbox, which notices a client that does not
read. A client that goes away stops no run; only `abort` does.
"""

import time
from contextlib import aclosing
from functools import cached_property, partial
from typing import Protocol, assert_never

from starlette.types import Message
from starlette.websockets import WebSocket

from adkwire.errors import RequestError, Unprocessable
from adkwire.runs.readers import Position, Reading
from adkwire.server.backend import Backend
from adkwire.server.chat import check_run_id, parse_position
from adkwire.server.limits import MessageRates, TokenBucket, input_limits
from adkwire.server.security import chosen_subprotocol, user_of
from adkwire.server.sockets.connection import SocketConnection
from adkwire.server.sockets.endings import MALFORMED, TOO_FAST, Ending
from adkwire.server.sockets.registry import OpenSockets
from adkwire.server.sockets.requests import Request, Requests, text_of
from adkwire.settings import Settings
from adkwire.wire.profiles import Profile
from adkwire.wire.recording_lines import Mode
from adkwire.wire.socket.frames_in import (
    SUBPROTOCOL,
    AbortFrame,
    ClientFrame,
    FrameLimits,
    PingFrame,
    ResumeFrame,
    SendFrame,
    decode_frame,
    decode_head,
)
from adkwire.wire.socket.frames_out import (
    ChunkFrames,
    end_frame,
    no_active_frame,
    notice_frame,
    pong_frame,
    start_frame,
)

_BURST_SECONDS = 5.0
"""Seconds whose frames may come at once: a client that reconnects resumes all its requests together."""
_MAX_MALFORMED = 10
"""Frames without a usable request id that are tolerated in `_MALFORMED_SECONDS`."""
_MALFORMED_SECONDS = 600.0
RESTART_NOTICE = ("server-restart", "The server is being restarted. It lets running answers end; connect again.")


class ChatSocketRoute:
    """The route of the chat socket."""

    def __init__(self, backend: Backend, sockets: OpenSockets, rates: MessageRates) -> None:
        self._backend = backend
        self._sockets = sockets
        self._rates = rates

    async def serve(self, socket: WebSocket) -> None:
        """Serve a chat socket until it ends."""
        user, subprotocol = user_of(socket).id, chosen_subprotocol(socket, SUBPROTOCOL)

        def make(connection: SocketConnection) -> ChatSocket:
            return ChatSocket(connection, self._backend, self._rates, ours=subprotocol == SUBPROTOCOL)

        await self._sockets.accept(socket, user, subprotocol, make)


class FrameRates:
    """How many frames one socket may send, and how many of them may be malformed."""

    def __init__(self, settings: Settings) -> None:
        self._frames = TokenBucket(round(settings.controls_per_second * _BURST_SECONDS), _BURST_SECONDS)

    @cached_property
    def _malformed(self) -> TokenBucket:
        # Made when it is needed: most clients send no malformed frame.
        return TokenBucket(_MAX_MALFORMED, _MALFORMED_SECONDS)

    def count(self) -> Ending | None:
        """Count a frame; return an ending if there were too many."""
        return TOO_FAST if self._frames.take() else None

    def count_malformed(self) -> Ending | None:
        """Count a malformed frame; return an ending if there were too many."""
        return MALFORMED if self._malformed.take() else None


class RunSource(Protocol):
    """How the runs of a socket's requests are started, found and sent: by chat or in a live conversation."""

    def check_chat(self, chat: str) -> None:
        """Raise when this socket takes no requests about a chat."""
        ...

    def bind_chat(self, chat: str) -> None:
        """Note that a request about a chat was admitted."""
        ...

    async def start(self, request: Request, frame: SendFrame) -> None:
        """Start the run of a message and send it."""
        ...

    async def follow(self, frame: ResumeFrame, after: Position | None) -> Reading | None:
        """Return the run that a client resumes; None when none is active."""
        ...

    async def send(
        self, request: Request, reading: Reading, profile: Profile, *, first: int = 0, behind: int = -1
    ) -> None:
        """Send a run to its end. Its first chunk gets the number `first`; chunks up to `behind` are not sent."""
        ...


class OfficialFrames:
    """Carries out the official frames of a client: `send`, `resume`, `abort`, and the `ping` of our subprotocol."""

    def __init__(
        self,
        connection: SocketConnection,
        backend: Backend,
        rates: MessageRates,
        frame_rates: FrameRates,
        requests: Requests,
        source: RunSource,
        *,
        mode: Mode,
        ours: bool,
    ) -> None:
        settings = backend.settings
        self.limits = FrameLimits(settings.max_control_bytes, settings.max_body_bytes, input_limits(settings))
        self._connection = connection
        self._backend = backend
        self._rates = rates
        self._frame_rates = frame_rates
        self._requests = requests
        self._source = source
        self._mode: Mode = mode
        self._ours = ours

    def receive(self, message: Message) -> Ending | None:
        """Carry out the frame in a message, or send what is wrong with it; return an ending after too many errors."""
        if (ending := self._frame_rates.count()) is not None:
            return ending
        request_id, text = None, message.get("text")
        try:
            if text is None:
                raise Unprocessable("Binary frames are not accepted here.")
            raw = text.encode(errors="surrogatepass")
            head = decode_head(raw)
            request_id = head.request_id
            self.carry_out(decode_frame(head, raw, self.limits, ours=self._ours), raw)
        except RequestError as error:
            if request_id is None:
                self.notice(error.code, text_of(error))
                return self._frame_rates.count_malformed()
            self._requests.refuse(request_id, error)
        return None

    def carry_out(self, frame: ClientFrame, raw: bytes) -> None:
        """Carry out a frame; raise when it is refused."""
        match frame:
            case SendFrame():
                self._send(frame, raw)
            case ResumeFrame():
                self._source.check_chat(frame.chat)
                self._requests.admit(frame.request_id)
                request = Request(frame.request_id, frame.chat)
                self._requests.begin(request, partial(self._resume, request, frame))
                self._source.bind_chat(frame.chat)
            case AbortFrame():
                self._requests.abort(frame.request_id)
            case PingFrame():
                self._connection.out.put(pong_frame(frame.timestamp, round(time.time() * 1000)))
            case _:
                assert_never(frame)

    def record(self, chat: str, raw: bytes) -> None:
        """Write a frame to the recording of its chat, where recording is on."""
        if self._backend.recorder is not None:
            self._backend.recorder.frame(self._connection.user, chat, self._mode, raw)

    def notice(self, code: str, text: str) -> None:
        """Send a notice to a client that knows notices."""
        if self._ours:
            self._connection.out.put(notice_frame("warning", code, text))

    def profile(self, frame: SendFrame) -> Profile:
        """Return the profile of the release that a client has declared in a frame, or for the socket."""
        return Profile.declared(frame.client or frame.turn.client or self._connection.client)

    def _send(self, frame: SendFrame, raw: bytes) -> None:
        chat, message = frame.turn.chat, frame.turn.message
        self._source.check_chat(chat)
        self._requests.admit(frame.request_id)
        self._rates.take(self._connection.user)
        self.record(chat, raw)
        request = Request(frame.request_id, chat, message.id if message is not None else None)
        request.starting = True
        self._requests.begin(request, partial(self._source.start, request, frame))
        self._source.bind_chat(chat)

    async def _resume(self, request: Request, frame: ResumeFrame) -> None:
        after = parse_position(frame.after) if frame.after is not None else None
        reading = await self._source.follow(frame, after)
        if reading is None:
            self._requests.close(request)
            self._connection.out.put(no_active_frame(request.id))
            return
        known = -1 if frame.last_sequence is None else frame.last_sequence
        first, behind = (0, known) if after is None else (known + 1, -1)
        profile = Profile.declared(frame.client or self._connection.client)
        await self._source.send(request, reading, profile, first=first, behind=behind)


class ChatSocket:
    """The chat socket of one client."""

    def __init__(self, connection: SocketConnection, backend: Backend, rates: MessageRates, *, ours: bool) -> None:
        """`ours` if the client has asked for our subprotocol: it gets more than the official frames."""
        self._connection = connection
        self._backend = backend
        self._ours = ours
        self._requests = Requests(connection, backend, ours=ours)
        self._frames = OfficialFrames(
            connection,
            backend,
            rates,
            FrameRates(backend.settings),
            self._requests,
            self,
            mode="websocket",
            ours=ours,
        )

    @property
    def is_busy(self) -> bool:
        """True while a request is open."""
        return bool(self._requests.open)

    async def enter(self) -> Ending | None:
        """Do nothing: a chat socket needs no preparation."""
        return None

    def receive(self, message: Message) -> Ending | None:
        """Carry out the frame in a message."""
        return self._frames.receive(message)

    def leave(self) -> None:
        """Stop reading runs for the client."""
        self._requests.leave()

    def drain(self) -> None:
        """Tell the client that the server shuts down, and end the connection when no request is open."""
        self._frames.notice(*RESTART_NOTICE)
        self._requests.end_when_drained()

    def check_chat(self, chat: str) -> None:
        """Accept every chat."""

    def bind_chat(self, chat: str) -> None:
        """Do nothing: one socket is for any number of chats."""

    async def start(self, request: Request, frame: SendFrame) -> None:
        """Start the run of a message, or find the run that it has started before, and send it."""
        turn = frame.turn
        run = await self._backend.start(self._connection.user, turn)
        request.starting = False
        # A client that answers calls has the message that they are in.
        whole = turn.message is not None or turn.answers is None
        await self.send(request, self._backend.reading(run, whole=whole), self._frames.profile(frame))

    async def follow(self, frame: ResumeFrame, after: Position | None) -> Reading | None:
        """Return the run that a client resumes."""
        return await follow(self._backend, self._connection.user, frame, after)

    async def send(
        self, request: Request, reading: Reading, profile: Profile, *, first: int = 0, behind: int = -1
    ) -> None:
        """Send a run to its end."""
        if not self._requests.bind(request, reading):
            return
        out, run = self._connection.out, reading.run if self._ours else None
        chunks = ChunkFrames(request.id, profile, run=run, first=first, behind=behind)
        out.put(start_frame(request.id))
        async with aclosing(reading.batches) as batches:
            async for batch in batches:
                request.note_end(batch)
                if frames := chunks.encode(batch.first, batch.entries):
                    await out.put(*frames)
        self._requests.close(request)
        out.put(end_frame(request.id))


async def follow(backend: Backend, user: str, frame: ResumeFrame, after: Position | None) -> Reading | None:
    """Return the run that a `resume` frame is about: after a position, by name, or the active one."""
    run = check_run_id(frame.run) if frame.run is not None else None
    return await backend.follow(user, frame.chat, after, run=run)
