"""WS /api/live: a live conversation. The frames of the chat socket, and voice for clients of the live subprotocol."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import cached_property, partial
from typing import assert_never

from msgspec import UNSET
from starlette.types import Message
from starlette.websockets import WebSocket

from adkwire.bridge import Bridge
from adkwire.errors import BadRequest, Conflict, NotFound, RequestError, TooLarge, TooMany, Unavailable, Unprocessable
from adkwire.live.conversations import Link
from adkwire.runs.readers import Position, Reading
from adkwire.server.chat import unchecked_answer
from adkwire.server.limits import MessageRates, TokenBucket
from adkwire.server.security import chosen_subprotocol, user_of
from adkwire.server.sockets.chat import RESTART_NOTICE, FrameRates, OfficialFrames, follow
from adkwire.server.sockets.connection import SocketConnection
from adkwire.server.sockets.endings import DONE, NO_CHAT, REFUSED, RESTARTING, STORE_UNAVAILABLE, TOO_FAST, Ending
from adkwire.server.sockets.listener import SocketListener, ends_in_break
from adkwire.server.sockets.media_input import MediaInput
from adkwire.server.sockets.order import Job, OrderedWork
from adkwire.server.sockets.registry import OpenSockets
from adkwire.server.sockets.requests import FAILED, Request, Requests, text_of
from adkwire.stores.base import Batch
from adkwire.wire.decode.decoder import check_chat_id
from adkwire.wire.profiles import Profile
from adkwire.wire.socket.frames_in import (
    SUBPROTOCOL,
    AbortFrame,
    FrameHead,
    PingFrame,
    ResumeFrame,
    SendFrame,
    decode_head,
)
from adkwire.wire.socket.frames_out import error_frame
from adkwire.wire.socket.live_frames_in import (
    LIVE_SUBPROTOCOL,
    AudioControlFrame,
    AudioFrame,
    CloseFrame,
    InterruptFrame,
    LiveFrame,
    LiveLimits,
    MessageFrame,
    PlayedFrame,
    ToolResultFrame,
    VideoFrame,
    answered_call,
    binary_frame_type,
    decode_binary,
    decode_live_frame,
    is_audio,
)
from adkwire.wire.socket.live_frames_out import Pong, Ready, Refusal, encode_live_frame

logger = logging.getLogger("adkwire")

_MAX_AUDIO_ERRORS = 5
"""Errors about audio that a client gets in `_AUDIO_ERROR_SECONDS`."""
_AUDIO_ERROR_SECONDS = 10.0
_ANOTHER_CHAT = "This socket belongs to another chat."
_NEEDS_STATUS = "A call that the server executes takes a `status`."


class LiveSocketRoute:
    """The route of the live socket."""

    def __init__(self, bridge: Bridge, sockets: OpenSockets, rates: MessageRates) -> None:
        self._bridge = bridge
        self._sockets = sockets
        self._rates = rates

    async def serve(self, socket: WebSocket) -> None:
        """Serve a live socket until it ends."""
        offered: list[str] = socket.scope.get("subprotocols") or []
        known = LIVE_SUBPROTOCOL if LIVE_SUBPROTOCOL in offered else SUBPROTOCOL
        user, subprotocol = user_of(socket).id, chosen_subprotocol(socket, known)

        def make(connection: SocketConnection) -> LiveSocket:
            ours, knows_live_frames = subprotocol == known, subprotocol == LIVE_SUBPROTOCOL
            return LiveSocket(connection, self._bridge, self._rates, ours=ours, knows_live_frames=knows_live_frames)

        await self._sockets.accept(socket, user, subprotocol, make)


class LiveSocket:
    """The live socket of one client: carries out its frames in the conversation of one chat."""

    _unnamed = 0
    """Messages that came without a request id."""

    def __init__(
        self, connection: SocketConnection, bridge: Bridge, rates: MessageRates, *, ours: bool, knows_live_frames: bool
    ) -> None:
        """`knows_live_frames` if the client has asked for the live subprotocol, `ours` also if for the one of chats."""
        settings = bridge.settings
        self._connection = connection
        self._bridge = bridge
        self._rates = rates
        self._knows_live_frames = knows_live_frames
        self._chat = connection.chat
        """The chat of this socket: named by the address, or by the first request of a stock client."""
        self._requests = Requests(connection, bridge, ours=ours)
        self._listener = SocketListener(
            connection, bridge, self._requests, ours=ours, knows_live_frames=knows_live_frames
        )
        self._frame_rates = FrameRates(settings)
        self._official = OfficialFrames(
            connection, bridge, rates, self._frame_rates, self._requests, self, mode="live", ours=ours
        )
        self._limits = LiveLimits(self._official.limits, settings.max_audio_bytes, settings.max_video_bytes)
        self._link: Link | None = None
        """The link to the conversation, once this socket has joined it."""
        self._joining = asyncio.Lock()
        self._commands = OrderedWork(connection.tasks, "live")
        """Speech, interruptions and the end of the conversation."""
        self._media = MediaInput(settings.audio_per_second, connection, self._commands, lambda: self._conversation)

    # Made only for clients that need them: there are many sockets, and most are silent.

    @cached_property
    def _answers(self) -> OrderedWork:
        """Answers to calls."""
        return OrderedWork(self._connection.tasks, "answers")

    @cached_property
    def _audio_errors(self) -> TokenBucket:
        return TokenBucket(_MAX_AUDIO_ERRORS, _AUDIO_ERROR_SECONDS)

    @property
    def is_busy(self) -> bool:
        """True while a request is open."""
        return bool(self._requests.open)

    async def enter(self) -> Ending | None:
        """Join the conversation of the chat that the address names, before anything is sent.

        A stock client may name the chat by its first request instead.
        """
        if self._knows_live_frames or self._chat is not None:
            self._connection.out.pause()
            try:
                await self._join()
            except RequestError as error:
                return self._ending_for(error)
            self._connection.out.resume()
        return None

    def leave(self) -> None:
        """Leave the conversation, and stop reading runs for the client."""
        self._media.close()
        if self._link is not None:
            self._link.leave()
        if dropped := self._media.dropped + self._connection.out.dropped:
            logger.info("a live socket has dropped %d pieces of audio or pictures", dropped)
        self._requests.leave()

    def drain(self) -> None:
        """Tell the client that the server shuts down, and end the connection when no request is open."""
        if self._knows_live_frames:
            self._listener.notice("warning", *RESTART_NOTICE)
        else:
            self._official.notice(*RESTART_NOTICE)
        self._requests.end_when_drained()

    # The conversation.

    async def _join(self) -> Link:
        async with self._joining:
            if self._link is None:
                if self._chat is None:
                    raise NotFound("A live socket needs a chat.")
                chat = check_chat_id(self._chat)
                link = await self._bridge.live.join(self._connection.user, chat, self._listener)
                self._joined(link)
                return link
            return self._link

    def _joined(self, link: Link) -> None:
        self._link = link
        self._listener.generation = link.generation
        if self._connection.gone:
            link.leave()
        if self._knows_live_frames:
            ready = Ready(chat=link.chat, run=link.run, generation=link.generation, resumed=link.resumed)
            self._connection.out.put(encode_live_frame(ready), first=True)
            self._listener.state(link.state)

    def _ending_for(self, error: RequestError) -> Ending:
        logger.info("a live socket was refused: %s", error.message)
        match error:
            case Unavailable():
                return RESTARTING if self._connection.draining else STORE_UNAVAILABLE
            case NotFound() | Unprocessable():
                return NO_CHAT
            case TooMany():
                return TOO_FAST
            case _:
                return REFUSED

    @property
    def _conversation(self) -> Link:
        if self._link is None:
            raise Conflict("The conversation has not begun.")
        return self._link

    # Frames.

    def receive(self, message: Message) -> Ending | None:
        """Carry out the frame in a message, or send what is wrong with it."""
        if not self._knows_live_frames:
            return self._official.receive(message)
        binary = message.get("bytes")
        return self._receive_text(message["text"]) if binary is None else self._receive_binary(binary)

    def _receive_text(self, text: str) -> Ending | None:
        head, raw = FrameHead("", None), text.encode(errors="surrogatepass")
        try:
            head = decode_head(raw)
            decode = partial(decode_live_frame, head, raw, self._limits, self._chat or "")
            return self._receive_audio(decode) if is_audio(head) else self._receive_other(decode, raw)
        except RequestError as error:
            return self._refuse(head, error, answered_call(head, raw))

    def _receive_binary(self, raw: bytes) -> Ending | None:
        head, decode = FrameHead(binary_frame_type(raw), None), partial(decode_binary, raw, self._limits)
        try:
            return self._receive_audio(decode) if is_audio(head) else self._receive_other(decode, raw)
        except RequestError as error:
            return self._refuse(head, error)

    def _receive_audio(self, decode: Callable[[], LiveFrame]) -> Ending | None:
        """Receive audio, which has a limit of its own: there is much of it, and what is too much is dropped."""
        if self._media.microphone.admit():
            self._carry_out(decode(), b"")
        return TOO_FAST if self._media.microphone.flooded else None

    def _receive_other(self, decode: Callable[[], LiveFrame], raw: bytes) -> Ending | None:
        if (ending := self._frame_rates.count()) is not None:
            return ending
        self._carry_out(decode(), raw)
        return None

    def _refuse(self, head: FrameHead, error: RequestError, call: str | None = None) -> Ending | None:
        """Send what is wrong with a frame. Refused audio is no attack, and not every piece of it gets an error."""
        if head.request_id is not None:
            self._connection.out.put(error_frame(head.request_id, text_of(error), error.code, call))
            return None
        malformed = isinstance(error, BadRequest | Unprocessable | TooLarge)
        if malformed or not is_audio(head) or not self._audio_errors.take():
            self._listener.refuse(head.type, error, call)
        return self._frame_rates.count_malformed() if malformed else None

    def _carry_out(self, frame: LiveFrame, raw: bytes) -> None:
        match frame:
            case PingFrame():
                pong = Pong(timestamp=frame.timestamp, server_time=round(time.time() * 1000))
                self._listener.send_frame(pong)
            case SendFrame() | ResumeFrame() | AbortFrame():
                self._official.carry_out(frame, raw)
            case MessageFrame():
                self._official.carry_out(SendFrame(frame.request_id or self._new_id(), frame.turn, None), raw)
            case AudioFrame():
                self._media.send_audio(frame)
            case VideoFrame():
                self._media.camera.add(frame)
            case PlayedFrame():
                self._conversation.played(frame.generation, frame.ms)
            case InterruptFrame():
                self._add_command("interrupt", self._conversation.interrupt, raw)
            case AudioControlFrame():
                self._control_audio(frame, raw)
            case ToolResultFrame():
                self._official.record(self._conversation.chat, raw)
                self._answers.add(partial(self._try, "tool_result", partial(self._answer_call, frame), frame.call))
            case CloseFrame():
                self._add_command("close", self._close_conversation, raw)
            case _:
                assert_never(frame)

    def _new_id(self) -> str:
        self._unnamed += 1
        return f"message-{self._unnamed}"

    # Commands and answers to calls, in their order.

    def _add_command(self, frame: str, job: Job, raw: bytes) -> None:
        self._official.record(self._conversation.chat, raw)
        self._media.command_follows()
        self._commands.add(partial(self._do_command, frame, job))

    async def _do_command(self, frame: str, job: Job) -> None:
        # A client that is gone neither speaks nor interrupts.
        if not self._connection.gone:
            await self._try(frame, job)

    def _control_audio(self, frame: AudioControlFrame, raw: bytes) -> None:
        start = frame.action == "start"
        if start:
            self._media.microphone.begin()
        self._add_command("audio_control", partial(self._conversation.activity, start=start), raw)

    async def _try(self, frame: str, job: Job, call: str | None = None) -> None:
        try:
            await job()
        except RequestError as error:
            self._listener.refuse(frame, error, call)
        except Exception:
            logger.exception("a frame of a live socket could not be carried out")
            refusal = Refusal(code="internal", text=FAILED, frame=frame, tool_call_id=call or UNSET)
            self._listener.send_frame(refusal)

    async def _answer_call(self, frame: ToolResultFrame) -> None:
        user = self._connection.user
        self._rates.take(user)
        self._listener.answering = frame.call
        try:
            call = await self._bridge.answer(user, self._conversation.chat, frame.call, unchecked_answer(frame.answer))
        except NotFound as error:
            raise NotFound(error.message, hint=_NEEDS_STATUS if frame.answer.approved is None else None) from None
        # A client that repeats an answer after a lost connection gets the `call-settled` again.
        if self._listener.answering == call.call:
            self._listener.settled(call.call, call.outcome or call.state, call.ask)

    async def _close_conversation(self) -> None:
        await self._answers.finished()
        await self._conversation.close()
        self._connection.end_when_sent(DONE)

    # The runs of requests, for the official frames.

    def check_chat(self, chat: str) -> None:
        """Raise when a request is about another chat."""
        if self._chat not in (None, chat):
            raise Unprocessable(_ANOTHER_CHAT, hint="Open one for each chat.")

    def bind_chat(self, chat: str) -> None:
        """Bind this socket to the chat of its first request."""
        self._chat = chat

    async def start(self, request: Request, frame: SendFrame) -> None:
        """Send a message, or answers to calls, to the conversation, and send the turn to the client."""
        turn = frame.turn
        link = await self._join()
        await self._answers.finished()
        await self._commands.finished()
        to_read = await link.send(turn)
        request.starting = False
        profile = self._official.profile(frame)
        if to_read.after is not None:
            reading = self._bridge.reading(to_read.run, after=to_read.after)
            await self._listener.send_run(request, reading, profile, continued=to_read)
            return
        # A client that answers calls has the message that they are in.
        whole = turn.message is not None or turn.answers is None
        await self._listener.send_run(request, self._bridge.reading(to_read.run, whole=whole), profile)

    async def follow(self, frame: ResumeFrame, after: Position | None) -> Reading | None:
        """Return the turn that a client resumes."""
        await self._join()
        reading = await follow(self._bridge, self._connection.user, frame, after)
        if reading is None or self._knows_live_frames or (after, frame.run, frame.last_sequence) != (None, None, None):
            return reading
        # A stock client that names nothing has a message whose calls wait from the history, and goes on by answering.
        return await _unless_waiting(reading)

    async def send(
        self, request: Request, reading: Reading, profile: Profile, *, first: int = 0, behind: int = -1
    ) -> None:
        """Send a turn to its end, or to a stock client until a call waits."""
        await self._listener.send_run(request, reading, profile, first=first, behind=behind)


async def _unless_waiting(reading: Reading) -> Reading | None:
    """Return a reading; None for a turn in which every call waits."""
    first = await anext(reading.batches, None)
    if first is None or ends_in_break(first):
        await reading.batches.aclose()
        return None
    return Reading(reading.run, _chain(first, reading.batches))


async def _chain(first: Batch, rest: AsyncGenerator[Batch, None]) -> AsyncGenerator[Batch, None]:
    async with aclosing(rest):
        yield first
        async for batch in rest:
            yield batch
