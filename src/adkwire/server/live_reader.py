"""What a client of a live conversation gets: turns it has asked for or not, sound, and what else it should know."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from msgspec import UNSET
from starlette.websockets import WebSocket

from adkwire.errors import RequestError
from adkwire.runs.bridge import Bridge
from adkwire.runs.live_turns import Origin
from adkwire.runs.lives import Told
from adkwire.runs.reading import Reading
from adkwire.runs.run import Run
from adkwire.server.chat_socket import ChatSocket, Request, note_end, words_of
from adkwire.server.limits import Rates, Seat
from adkwire.server.outbox import Ending, Sound
from adkwire.stores.base import Batch
from adkwire.wire.breaks import ends_of, is_break
from adkwire.wire.chunks import Start
from adkwire.wire.frames import Level, end_frame, start_frame
from adkwire.wire.live_binary import encode_sound, is_older
from adkwire.wire.live_replies import (
    CallSettled,
    Interrupted,
    LiveChunkFrames,
    LiveServerFrame,
    LiveState,
    Notice,
    Refusal,
    StateChanged,
    TurnPushed,
    UserTranscript,
    encode_live_frame,
    pcm_chunk,
)
from adkwire.wire.profiles import Profile

NO_CHAT = Ending(4404, "no such chat")
TAKEN_OVER = Ending(1000, "taken over")


class LiveReader(ChatSocket):
    """A socket that listens. One that `talks` has asked for the subprotocol; a stock client hears by `data-pcm`.

    The answer to a stock client ends where somebody has to act first, and goes on with what it sends then.
    """

    def __init__(
        self, socket: WebSocket, user: str, bridge: Bridge, rates: Rates, seat: Seat, *, ours: bool, talks: bool
    ) -> None:
        super().__init__(socket, user, bridge, rates, seat, ours=ours)
        self._live_bridge = bridge
        self.talks = talks
        self._gone = False
        self._generation = 0
        self._last_told = ("", "")
        self._telling: LiveChunkFrames | None = None
        """The answer that is being told, beside which a stock client hears it."""

    def _leave(self) -> None:
        super()._leave()
        self._gone = True

    async def _tell(
        self,
        request: Request,
        reading: Reading,
        profile: Profile,
        *,
        first: int = 0,
        behind: int = -1,
        again: Told | None = None,
    ) -> None:
        """Send a turn to its end, or as far as it goes; one that goes on begins `again` with its message."""
        async with aclosing(reading.batches) as batches:
            if not self._bind(request, reading):
                return
            run = reading.run if self._ours else None
            given = again.given if again is not None else ()
            frames = LiveChunkFrames(request.id, profile, run=run, first=first, behind=behind, given=given)
            self._last_told, self._telling = (reading.run, request.id), frames
            begin = frames.beside(Start(message_id=again.run.message_id)) if again is not None else ()
            self._out.put(start_frame(request.id), *begin)
            try:
                await self._tell_all(request, batches, frames, again.past if again is not None else -1)
            finally:
                if self._telling is frames:
                    self._telling = None
        self._forget(request)
        self._out.put(end_frame(request.id))

    async def _tell_all(
        self, request: Request, batches: AsyncGenerator[Batch, None], frames: LiveChunkFrames, past: int
    ) -> None:
        """Up to the end, or for a stock client to the first break behind those it is `past`."""
        async for batch in batches:
            note_end(request, batch)
            if told := frames.of(batch.first, batch.entries):
                await self._out.put(*told)
            if not self.talks and is_held(batch, past):
                await self._out.silent()
                self._out.put(*frames.beside(*ends_of(batch.entries[-1])))
                return
        if not self.talks:
            # Its sound is part of the answer, and nothing comes behind the end.
            await self._out.silent()

    def _say(self, frame: LiveServerFrame) -> None:
        if self.talks:
            self._out.put(encode_live_frame(frame))

    def _reply(self, name: str, error: RequestError, call: str | None = None) -> None:
        self._say(Refusal(code=error.code, text=words_of(error), frame=name or UNSET, tool_call_id=call or UNSET))

    def _notice(self, code: str, text: str) -> None:
        if self.talks:
            self.notice("warning", code, text)
        else:
            super()._notice(code, text)

    def turn(self, run: Run, origin: Origin) -> bool:
        """A turn begins; whether it is one that this client has not asked for."""
        if not self.talks or self._gone or self._reads(run):
            return False
        request = Request(f"turn-{run.id}", run.key.chat)
        pushed = TurnPushed(
            request_id=request.id,
            message_id=run.message_id,
            # Nobody has said anything where the agent speaks by itself.
            user_message_id=run.message.id if origin == "voice" or run.message.parts else "",
            origin="voice" if origin == "voice" else "server",
        )
        self._say(pushed)
        self._begin(request, partial(self._push, request, run))
        return True

    def _reads(self, run: Run) -> bool:
        """Whether this client gets a run, or will as soon as its request has one: it may say what others say, too."""
        if f"turn-{run.id}" in self._requests:
            return True
        requests = self._requests.values()
        return any(asked.run == run.id or (asked.starting and asked.message == run.message.id) for asked in requests)

    async def _push(self, request: Request, run: Run) -> None:
        await self._tell(request, self._bridge.reading(run, whole=True), Profile.declared(self._client))

    def transcript(self, user_message: str, text: str, *, final: bool) -> None:
        """What the user has been heard to say."""
        self._say(UserTranscript(user_message_id=user_message, text=text, final=final))

    def state(self, state: LiveState) -> None:
        """What the model does now."""
        self._say(StateChanged(state=state))

    def interrupted(self, run: str, generation: int, kept: str | None) -> None:
        """What was being said is over, and what was not sent of it yet is not sent."""
        self._generation = generation
        self._out.hush(generation)
        heard = UNSET if kept is None else kept
        self._say(Interrupted(request_id=self._name_of(run), generation=generation, kept=heard))

    def _name_of(self, run: str) -> str:
        """The request by which this client reads a run, or has read it last."""
        reading = (request.id for request in self._requests.values() if request.run == run)
        told, name = self._last_told
        return next(reading, name if told == run else f"turn-{run}")

    def settled(self, call: str, state: str, ask: str | None) -> None:
        """A call has its answer; `ask` is the question, when it was asked about."""
        self._say(CallSettled(tool_call_id=call, approval_id=ask or UNSET, state=state))

    def notice(self, level: Level, code: str, text: str) -> None:
        """Something a person should know."""
        self._say(Notice(level=level, code=code, text=text))

    def sound(self, pcm: bytes, generation: int, position: int, *, last: bool) -> None:
        """A piece of what the model says."""
        if is_older(generation, self._generation):
            return
        if self.talks:
            self._out.put_sound(Sound(generation, len(pcm), encode_sound(pcm, generation, position, last=last)))
        elif pcm:
            self._out.put_sound(Sound(generation, len(pcm), partial(self._as_chunk, pcm)))

    def _as_chunk(self, pcm: bytes) -> str | None:
        return self._telling.beside(pcm_chunk(pcm))[0] if self._telling is not None else None

    def ended(self, *, deleted: bool) -> None:
        """The conversation is over. While the server goes down, its readers still get their end."""
        if not self._draining:
            self._out.put().add_done_callback(lambda _: self.end(NO_CHAT if deleted else TAKEN_OVER))


def is_held(batch: Batch, past: int = -1) -> bool:
    """Whether everything in a turn waits for somebody, as far as it was written, and behind a place."""
    return bool(batch.entries) and is_break(batch.entries[-1]) and batch.first + len(batch.entries) - 1 > past
