"""WS /api/live: one chat, talked with. The frames of the chat socket, and for who can talk those of `live_frames`."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import cached_property, partial
from typing import ClassVar, assert_never

from msgspec import UNSET
from starlette.types import Message
from starlette.websockets import WebSocket

from adkwire.errors import BadRequest, Conflict, NotFound, RequestError, TooLarge, TooMany, Unavailable, Unprocessable
from adkwire.runs.bridge import Bridge
from adkwire.runs.lives import Link
from adkwire.runs.reading import Place, Reading
from adkwire.server.chat import given_in
from adkwire.server.chat_socket import FAILED, RESTARTS, STORE_AWAY, TOO_FAST, ChatSocket, Request, words_of
from adkwire.server.lanes import Job, Lane
from adkwire.server.limits import Bucket, Rates, Seat
from adkwire.server.live_reader import NO_CHAT, LiveReader, is_held
from adkwire.server.outbox import Ending
from adkwire.server.security import chosen_subprotocol, user_of
from adkwire.server.senses import Camera, Microphone
from adkwire.server.socket import Sockets
from adkwire.stores.base import Batch
from adkwire.wire.decoder import check_chat_id
from adkwire.wire.frames import (
    SUBPROTOCOL,
    AbortFrame,
    ClientFrame,
    Head,
    PingFrame,
    ResumeFrame,
    SendFrame,
    decode_head,
    error_frame,
)
from adkwire.wire.live_frames import (
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
    binary_name,
    call_of,
    decode_binary,
    decode_live_frame,
    is_sound,
)
from adkwire.wire.live_replies import Pong, Ready, Refusal, encode_live_frame
from adkwire.wire.recordings import Mode

logger = logging.getLogger("adkwire")

DONE = Ending(1000, "done")
REFUSED = Ending(1008, "refused")

_WAITING_SOUND = 250
"""Pieces of sound that wait while the conversation is being opened or interrupted: 5 seconds."""
_GRUMBLES = 5
_GRUMBLED = 10.0
"""How often in so many seconds a client is told that its sound is not taken."""
_ANOTHER_CHAT = "This socket belongs to another chat."
_NEEDS_STATUS = "A call that the server executes takes a `status`."


class LiveRoutes:
    """The live sockets of a server."""

    def __init__(self, bridge: Bridge, sockets: Sockets, rates: Rates) -> None:
        self._bridge = bridge
        self._sockets = sockets
        self._rates = rates

    async def talk(self, socket: WebSocket) -> None:
        """Talk until one of both has enough."""
        offered: list[str] = socket.scope.get("subprotocols") or []
        known = LIVE_SUBPROTOCOL if LIVE_SUBPROTOCOL in offered else SUBPROTOCOL
        user, subprotocol = user_of(socket).id, chosen_subprotocol(socket, known)

        def made(seat: Seat) -> ChatSocket:
            ours = subprotocol == known
            talks = subprotocol == LIVE_SUBPROTOCOL
            return LiveSocket(socket, user, self._bridge, self._rates, seat, ours=ours, talks=talks)

        await self._sockets.admit(socket, user, subprotocol, made)


class LiveSocket(LiveReader):
    """One client of a live conversation: what it says, and what is done about it."""

    _mode: ClassVar[Mode] = "live"
    # What most clients never need is not made for each: they are many, and mostly silent.
    _held_back: deque[bytes] | None = None
    """Sound that came behind something that is still being done."""
    _answered: str | None = None
    """The call that this client answers, until it was told of it."""
    _unnamed = 0

    def __init__(
        self, socket: WebSocket, user: str, bridge: Bridge, rates: Rates, seat: Seat, *, ours: bool, talks: bool
    ) -> None:
        super().__init__(socket, user, bridge, rates, seat, ours=ours, talks=talks)
        settings = bridge.settings
        self._chat = socket.query_params.get("chat")
        self._live_limits = LiveLimits(self._limits, settings.max_audio_bytes, settings.max_video_bytes)
        self._link: Link | None = None
        self._joining = asyncio.Lock()
        self._moves = Lane(self._tasks, "live")
        self._microphone = Microphone(settings.audio_per_second)

    @cached_property
    def _verdicts(self) -> Lane:
        return Lane(self._tasks, "answers")

    @cached_property
    def _camera(self) -> Camera:
        return Camera(self._show)

    @cached_property
    def _grumbles(self) -> Bucket:
        return Bucket(_GRUMBLES, _GRUMBLED)

    async def _enter(self) -> Ending | None:
        """Join the chat that the address names; nothing is said before. A stock client may name it by its first
        request."""
        if self.talks or self._chat is not None:
            self._out.hold()
            try:
                await self._join()
            except RequestError as error:
                return self._why_not(error)
            self._out.let_go()
        return None

    def _leave(self) -> None:
        super()._leave()
        self._camera.close()
        if self._link is not None:
            self._link.leave()
        if dropped := self._microphone.dropped + self._camera.dropped + self._out.dropped:
            logger.info("a live socket has left out %d pieces of sound or pictures", dropped)

    async def _join(self) -> Link:
        async with self._joining:
            if self._link is None:
                if self._chat is None:
                    raise NotFound("A live socket needs a chat.")
                link = await self._live_bridge.live.join(self._user, check_chat_id(self._chat), self)
                self._joined(link)
                return link
            return self._link

    def _joined(self, link: Link) -> None:
        self._link = link
        self._generation = link.generation
        if self._gone:
            link.leave()
        if self.talks:
            ready = Ready(chat=link.chat, run=link.run, generation=link.generation, resumed=link.resumed)
            self._out.put(encode_live_frame(ready), first=True)
            self.state(link.state)

    def _why_not(self, error: RequestError) -> Ending:
        logger.info("a live socket was refused: %s", error.message)
        match error:
            case Unavailable():
                return RESTARTS if self._draining else STORE_AWAY
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

    def _take(self, message: Message) -> Ending | None:
        if not self.talks:
            return super()._take(message)
        binary = message.get("bytes")
        return self._take_text(message["text"]) if binary is None else self._take_binary(binary)

    def _take_text(self, text: str) -> Ending | None:
        head, raw = Head("", None), text.encode(errors="surrogatepass")
        try:
            head = decode_head(raw)
            decode = partial(decode_live_frame, head, raw, self._live_limits, self._chat or "")
            return self._take_sound(decode) if is_sound(head) else self._take_other(decode, raw)
        except RequestError as error:
            return self._complain(head, error, call_of(head, raw))

    def _take_binary(self, raw: bytes) -> Ending | None:
        head, decode = Head(binary_name(raw), None), partial(decode_binary, raw, self._live_limits)
        try:
            return self._take_sound(decode) if is_sound(head) else self._take_other(decode, raw)
        except RequestError as error:
            return self._complain(head, error)

    def _take_sound(self, decode: Callable[[], LiveFrame]) -> Ending | None:
        """Sound has a limit of its own: there is much of it, and a piece more or less does not matter."""
        if self._microphone.admits():
            self._do(decode(), b"")
        return TOO_FAST if self._microphone.abused else None

    def _take_other(self, decode: Callable[[], LiveFrame], raw: bytes) -> Ending | None:
        if self._pace.take():
            return TOO_FAST
        self._do(decode(), raw)
        return None

    def _complain(self, head: Head, error: RequestError, call: str | None = None) -> Ending | None:
        """Say what is wrong with a frame. Sound that is not taken is no attack, but need not be told for each piece."""
        if head.request_id is not None:
            self._out.put(error_frame(head.request_id, words_of(error), error.code, call))
            return None
        malformed = isinstance(error, BadRequest | Unprocessable | TooLarge)
        if malformed or not is_sound(head) or not self._grumbles.take():
            self._reply(head.type, error, call)
        return self._suffer() if malformed else None

    def _do(self, frame: LiveFrame, raw: bytes) -> None:
        match frame:
            case SendFrame() | ResumeFrame() | AbortFrame() | PingFrame():
                self._obey(frame, raw)
            case MessageFrame():
                self._obey(SendFrame(frame.request_id or self._new_name(), frame.turn, None), raw)
            case AudioFrame():
                self._hear(self._microphone.hear(frame))
            case VideoFrame():
                self._camera.see(frame)
            case PlayedFrame():
                self._conversation.played(frame.generation, frame.ms)
            case InterruptFrame():
                self._order("interrupt", self._conversation.interrupt, raw)
            case AudioControlFrame():
                self._control(frame, raw)
            case ToolResultFrame():
                self._record(self._conversation.chat, raw)
                self._verdicts.put(partial(self._try, "tool_result", partial(self._settle, frame), frame.call))
            case CloseFrame():
                self._order("close", self._hang_up, raw)
            case _:
                assert_never(frame)

    def _obey(self, frame: ClientFrame, raw: bytes) -> None:
        match frame:
            case SendFrame():
                self._belong_to(frame.turn.chat, frame, raw)
            case ResumeFrame():
                self._belong_to(frame.chat, frame, raw)
            case PingFrame() if self.talks:
                self._say(Pong(timestamp=frame.timestamp, server_time=round(time.time() * 1000)))
            case _:
                super()._obey(frame, raw)

    def _belong_to(self, chat: str, frame: ClientFrame, raw: bytes) -> None:
        """Obey what is about a chat; the first that is admitted says which one the socket is for."""
        if self._chat not in (None, chat):
            raise Unprocessable(_ANOTHER_CHAT, hint="Open one for each chat.")
        super()._obey(frame, raw)
        self._chat = chat

    def _new_name(self) -> str:
        self._unnamed += 1
        return f"message-{self._unnamed}"

    def _order(self, name: str, job: Job, raw: bytes) -> None:
        self._record(self._conversation.chat, raw)
        self._held_back = None
        self._moves.put(partial(self._move, name, job))

    async def _move(self, name: str, job: Job) -> None:
        """Who has gone meanwhile neither speaks nor is interrupted any more."""
        if not self._gone:
            await self._try(name, job)

    def _control(self, frame: AudioControlFrame, raw: bytes) -> None:
        start = frame.action == "start"
        if start:
            self._microphone.begin()
        self._order("audio_control", partial(self._conversation.activity, start=start), raw)

    async def _try(self, name: str, job: Job, call: str | None = None) -> None:
        try:
            await job()
        except RequestError as error:
            self._reply(name, error, call)
        except Exception:
            logger.exception("a frame of a live socket could not be obeyed")
            self._say(Refusal(code="internal", text=FAILED, frame=name, tool_call_id=call or UNSET))

    async def _settle(self, frame: ToolResultFrame) -> None:
        self._rates.take(self._user)
        self._answered = frame.call
        try:
            call = await self._bridge.answer(self._user, self._conversation.chat, frame.call, given_in(frame.answer))
        except NotFound as error:
            raise NotFound(error.message, hint=_NEEDS_STATUS if frame.answer.approved is None else None) from None
        # Who says it again, after a lost connection, is told again that it has arrived.
        if self._answered == call.call:
            self.settled(call.call, call.outcome or call.state, call.ask)

    def settled(self, call: str, state: str, ask: str | None) -> None:
        """A call has its answer, also when it is not this client's."""
        if call == self._answered:
            self._answered = None
        super().settled(call, state, ask)

    async def _hang_up(self) -> None:
        await self._verdicts.settled()
        await self._conversation.close()
        self._out.put().add_done_callback(lambda _: self.end(DONE))

    def _hear(self, pcm: bytes) -> None:
        """Hand sound on, behind whatever was wanted before it."""
        if not pcm:
            return
        if self._moves.idle:
            self._hand_on(pcm)
            return
        if self._held_back is None:
            held = self._held_back = deque[bytes](maxlen=_WAITING_SOUND)
            self._moves.put(partial(self._catch_up, held))
        if len(self._held_back) == _WAITING_SOUND:
            self._microphone.drop()
        self._held_back.append(pcm)

    async def _catch_up(self, held: deque[bytes]) -> None:
        if self._held_back is held:
            self._held_back = None
        for pcm in () if self._gone else held:
            self._hand_on(pcm)

    def _hand_on(self, pcm: bytes) -> None:
        if not self._conversation.audio(pcm):
            self._microphone.drop()

    def _show(self, frame: VideoFrame) -> None:
        if not self._conversation.frame(frame.data, frame.media_type):
            self._camera.dropped += 1

    async def _answer(self, request: Request, frame: SendFrame) -> None:
        turn = frame.turn
        link = await self._join()
        await self._verdicts.settled()
        await self._moves.settled()
        told = await link.send(turn)
        request.starting = False
        if told.after is not None:
            reading = self._live_bridge.reading(told.run, after=told.after)
            await self._tell(request, reading, self._profile(frame), again=told)
            return
        # Who answers calls has their message already.
        whole = turn.message is not None or turn.answers is None
        await self._tell(request, self._bridge.reading(told.run, whole=whole), self._profile(frame))

    async def _follow(self, frame: ResumeFrame, after: Place | None) -> Reading | None:
        await self._join()
        reading = await super()._follow(frame, after)
        if reading is None or self.talks or after is not None or frame.last_sequence is not None:
            return reading
        # A stock client that comes anew has seen all there is, and goes on with the answer it gives.
        return await _unless_held(reading)


async def _unless_held(reading: Reading) -> Reading | None:
    """A reading, but None for a turn in which everything waits for somebody."""
    first = await anext(reading.batches, None)
    if first is None or is_held(first):
        await reading.batches.aclose()
        return None
    return Reading(reading.run, _with(first, reading.batches))


async def _with(first: Batch, rest: AsyncGenerator[Batch, None]) -> AsyncGenerator[Batch, None]:
    async with aclosing(rest):
        yield first
        async for batch in rest:
            yield batch
