"""SocketListener: what a client of a live conversation gets on its socket: turns, audio, states, notices."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from msgspec import UNSET

from adkwire.errors import RequestError
from adkwire.live.conversations import RunToRead
from adkwire.live.turn_router import Origin
from adkwire.runs.readers import Reading
from adkwire.runs.run import Run
from adkwire.server.backend import Backend
from adkwire.server.sockets.connection import SocketConnection
from adkwire.server.sockets.endings import NO_CHAT, TAKEN_OVER
from adkwire.server.sockets.outbox import AudioPiece
from adkwire.server.sockets.requests import Request, Requests, text_of
from adkwire.stores.base import Batch
from adkwire.wire.breaks import break_chunks, is_break
from adkwire.wire.chunks import Start
from adkwire.wire.profiles import Profile
from adkwire.wire.socket.binary_frames import encode_audio, is_older
from adkwire.wire.socket.frames_out import NoticeLevel, end_frame, start_frame
from adkwire.wire.socket.live_frames_out import (
    CallSettled,
    Interrupted,
    LiveChunkFrames,
    LiveState,
    Notice,
    Refusal,
    ServerFrame,
    StateChanged,
    TurnPushed,
    UserTranscript,
    encode_live_frame,
    pcm_chunk,
)


class SocketListener:
    """The listener of one socket in a live conversation.

    A client that `knows_live_frames` has asked for our live subprotocol. A stock client gets official frames only,
    audio as `data-pcm`; its response ends where a call waits, and continues with the answer that it sends.
    """

    answering: str | None = None
    """The call that this client is answering, until the client gets its `call-settled`."""

    def __init__(
        self, connection: SocketConnection, backend: Backend, requests: Requests, *, ours: bool, knows_live_frames: bool
    ) -> None:
        self.knows_live_frames = knows_live_frames
        self.generation = 0
        """The generation of audio that is being sent; older audio is not."""
        self._connection = connection
        self._out = connection.out
        self._backend = backend
        self._requests = requests
        self._ours = ours
        self._last_sent = ("", "")
        """The run that was sent last, and the id of its request."""
        self._sending: LiveChunkFrames | None = None
        """The frames of the run that is being sent: a stock client gets audio among them."""

    async def send_run(
        self,
        request: Request,
        reading: Reading,
        profile: Profile,
        *,
        first: int = 0,
        behind: int = -1,
        continued: RunToRead | None = None,
    ) -> None:
        """Send a turn to its end, or to a stock client until a call waits. A `continued` turn begins with a `start`."""
        async with aclosing(reading.batches) as batches:
            if not self._requests.bind(request, reading):
                return
            run = reading.run if self._ours else None
            executed = continued.executed if continued is not None else ()
            frames = LiveChunkFrames(request.id, profile, run=run, first=first, behind=behind, executed=executed)
            self._last_sent, self._sending = (reading.run, request.id), frames
            start = frames.encode_unlogged(Start(message_id=continued.run.message_id)) if continued is not None else ()
            self._out.put(start_frame(request.id), *start)
            if not self.knows_live_frames and first == 0 and continued is None:
                # Its audio is part of the response, which must not begin with it: `start` is read from the log.
                self._out.hold_audio()
            try:
                await self._send_batches(
                    request, batches, frames, continued.last_break if continued is not None else -1
                )
            finally:
                self._out.release_audio()
                if self._sending is frames:
                    self._sending = None
        self._requests.close(request)
        self._out.put(end_frame(request.id))

    async def _send_batches(
        self, request: Request, batches: AsyncGenerator[Batch, None], frames: LiveChunkFrames, past: int
    ) -> None:
        """Send a turn to its end, or to a stock client until the first break after the number `past`."""
        async for batch in batches:
            request.note_end(batch)
            if encoded := frames.encode(batch.first, batch.entries):
                sent = self._out.put(*encoded)
                self._out.release_audio()
                await sent
            if not self.knows_live_frames and ends_in_break(batch, past):
                await self._out.audio_sent()
                self._out.put(*frames.encode_unlogged(*break_chunks(batch.entries[-1])))
                return
        if not self.knows_live_frames:
            # Its audio is part of the response, which must not end before the audio is sent.
            self._out.release_audio()
            await self._out.audio_sent()

    def send_frame(self, frame: ServerFrame) -> None:
        """Send a frame of the live subprotocol to a client that knows it."""
        if self.knows_live_frames:
            self._out.put(encode_live_frame(frame))

    def refuse(self, frame: str, error: RequestError, call: str | None = None) -> None:
        """Send an error about a frame without a request id: its type, and the call that it is about."""
        self.send_frame(Refusal(code=error.code, text=text_of(error), frame=frame or UNSET, tool_call_id=call or UNSET))

    def turn(self, run: Run, origin: Origin) -> bool:
        """Push a turn that begins; return False if the client reads it already, or takes no pushed turns."""
        if not self.knows_live_frames or self._connection.gone or self._reads(run):
            return False
        request = Request(f"turn-{run.id}", run.key.chat)
        pushed = TurnPushed(
            request_id=request.id,
            message_id=run.message_id,
            # Empty when the agent speaks by itself: no user's message comes before the turn.
            user_message_id=run.user_message.id if origin == "voice" or run.user_message.parts else "",
            origin="voice" if origin == "voice" else "server",
        )
        self.send_frame(pushed)
        self._requests.begin(request, partial(self._push, request, run))
        return True

    def _reads(self, run: Run) -> bool:
        """Return whether a request of this client reads a run, or will when it has started."""
        if self._requests.has(f"turn-{run.id}"):
            return True
        return any(
            request.run == run.id or (request.starting and request.message == run.user_message.id)
            for request in self._requests.open
        )

    async def _push(self, request: Request, run: Run) -> None:
        profile = Profile.declared(self._connection.client)
        await self.send_run(request, self._backend.reading(run, whole=True), profile)

    def transcript(self, user_message: str, text: str, *, final: bool) -> None:
        """Send the transcript of the user's speech."""
        self.send_frame(UserTranscript(user_message_id=user_message, text=text, final=final))

    def state(self, state: LiveState) -> None:
        """Send the state of the conversation."""
        self.send_frame(StateChanged(state=state))

    def interrupted(self, run: str, generation: int, kept: str | None) -> None:
        """Send an interruption, and discard audio that is older."""
        self.generation = generation
        self._out.discard_audio(generation)
        text = UNSET if kept is None else kept
        self.send_frame(Interrupted(request_id=self._request_of(run), generation=generation, kept=text))

    def _request_of(self, run: str) -> str:
        """Return the id of the request by which this client reads a run, or has read it last."""
        reading = (request.id for request in self._requests.open if request.run == run)
        last_run, last_request = self._last_sent
        return next(reading, last_request if last_run == run else f"turn-{run}")

    def settled(self, call: str, state: str, ask: str | None) -> None:
        """Send that a call has its answer; `ask` is the id of the approval request, if there was one."""
        if call == self.answering:
            self.answering = None
        self.send_frame(CallSettled(tool_call_id=call, approval_id=ask or UNSET, state=state))

    def notice(self, level: NoticeLevel, code: str, text: str) -> None:
        """Send a notice for the user."""
        self.send_frame(Notice(level=level, code=code, text=text))

    def sound(self, pcm: bytes, generation: int, position: int, *, last: bool) -> None:
        """Send a piece of the model's audio: in a binary frame, or to a stock client in a chunk."""
        if is_older(generation, self.generation):
            return
        if self.knows_live_frames:
            frame = encode_audio(pcm, generation, position, last=last)
            self._out.put_audio(AudioPiece(generation, len(pcm), frame))
        elif pcm:
            self._out.put_audio(AudioPiece(generation, len(pcm), partial(self._audio_chunk, pcm)))

    def _audio_chunk(self, pcm: bytes) -> str | None:
        return self._sending.encode_unlogged(pcm_chunk(pcm))[0] if self._sending is not None else None

    def ended(self, *, deleted: bool) -> None:
        """End the socket with its conversation. While the server shuts down, open requests are sent to their end."""
        if not self._connection.draining:
            self._connection.end_when_sent(NO_CHAT if deleted else TAKEN_OVER)


def ends_in_break(batch: Batch, past: int = -1) -> bool:
    """Return whether the last chunk of a batch, with a number greater than `past`, is a break: every call waits."""
    return bool(batch.entries) and is_break(batch.entries[-1]) and batch.first + len(batch.entries) - 1 > past
