"""The live conversations of this process, and the way into them.

A conversation is there as long as a socket is, and for a grace time after the last one was lost. Then it is parked: the
connection to the model ends, what was being said ends, and what waits for somebody can be answered in any other way.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

from adkwire.errors import Conflict, RequestError, Unprocessable
from adkwire.gate.records import PendingCall
from adkwire.runs.answering import Answering
from adkwire.runs.asking import Asking
from adkwire.runs.audience import Listener, LiveState
from adkwire.runs.chats import Chat
from adkwire.runs.keeper import Keeper, Stop
from adkwire.runs.live import LiveRun
from adkwire.runs.run import Run
from adkwire.runs.sessions import ChatKey
from adkwire.wire.decoder import TurnInput

logger = logging.getLogger("adkwire")

_NOT_LIVE = "Use /api/chat: a live mode needs a model with a live side."
_AGAIN = 5.0
"""Seconds until a store that was away is tried again."""
TAKEN_OVER = "taken-over"
"""Why a conversation is parked that another worker goes on with."""
DELETED = "deleted"
"""Why one is ended whose chat another worker deletes."""


class Told(NamedTuple):
    """What a client is to read: a run, behind a number if it has the beginning."""

    run: Run
    after: int | None = None
    past: int = -1
    """The last break at which its answers were still waited for."""
    given: frozenset[str] = frozenset()
    """The calls that it has executed."""


class Link:
    """One client's way into a conversation."""

    def __init__(self, lives: "Lives", live: LiveRun, listener: Listener, *, resumed: bool) -> None:
        running = live.running()
        self.chat = live.key.chat
        self.run = running.id if running is not None else None
        self.generation = live.audience.generation
        self.state: LiveState = live.audience.state
        self.resumed = resumed
        self._lives = lives
        self._live = live
        self._listener = listener

    async def send(self, turn: TurnInput) -> Told:
        """Say a typed message, or answer calls."""
        return await self._lives.send(self._live, self._listener, turn)

    def audio(self, pcm: bytes) -> bool:
        """A piece of sound, 16 kHz; who sends it has the microphone. False when it came to nobody."""
        return self._lives.hear(self._live, self._listener, pcm)

    async def activity(self, *, start: bool) -> None:
        """The user begins to speak, or has spoken."""
        await self._lives.speak(self._live, self._listener, start=start)

    def frame(self, data: bytes, media_type: str) -> bool:
        """A picture of the camera or the screen."""
        return self._live.see(data, media_type)

    async def interrupt(self) -> None:
        """End what is being said."""
        await self._live.interrupt()

    def played(self, generation: int, ms: int) -> None:
        """How much of the sound was really heard."""
        self._live.audience.played(generation, ms)

    async def close(self) -> None:
        """End the conversation now."""
        self.leave(grace=0)
        await self._lives.park(self._live)

    def leave(self, *, grace: float | None = None) -> None:
        """Go away; the conversation goes on for a while."""
        self._lives.leave(self._live, self._listener, grace)


class Lives:
    """All live conversations of this process."""

    def __init__(self, keeper: Keeper, asking: Asking, answering: Answering) -> None:
        self._keeper = keeper
        self._asking = asking
        self._answering = answering
        self._lives: dict[ChatKey, LiveRun] = {}
        self._ends: dict[ChatKey, asyncio.TimerHandle] = {}
        self._microphones: dict[ChatKey, Listener] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._lives)

    async def join(self, user: str, chat_id: str, listener: Listener) -> Link:
        """Come into a chat's conversation, or begin one."""
        key = ChatKey(user, chat_id)
        self._keeper.refuse_when_draining()
        if not self._keeper.adk.talks:
            raise Conflict("This agent cannot be talked with live.", hint=_NOT_LIVE)
        stop = Stop(user, chat_id, why=TAKEN_OVER)
        async with self._keeper.owned(key, stop=stop) as chat:
            try:
                await self._keeper.attached(key, here=True)
                self._keeper.refuse_when_draining()
            except BaseException:
                # Whoever fails or leaves here must not be taken for somebody who is connected.
                await self._detach(key)
                raise
            # Nothing is awaited from here on: nobody listens without a link to leave by.
            return self._linked(key, chat, listener)

    def _linked(self, key: ChatKey, chat: Chat, listener: Listener) -> Link:
        resumed = chat.live is not None
        live = self._lives.get(key)
        if live is None or chat.live is not live:
            live = self._lives[key] = LiveRun(key, self._keeper, self._parked)
            chat.live = live
        if (end := self._ends.pop(key, None)) is not None:
            end.cancel()
        live.audience.listeners.append(listener)
        return Link(self, live, listener, resumed=resumed)

    async def send(self, live: LiveRun, listener: Listener, turn: TurnInput) -> Told:
        """Say a typed message, or answer calls."""
        if turn.trigger != "submit-message" or turn.replaces is not None:
            raise Unprocessable(
                "A live conversation goes on; it is not answered again.", hint="Use /api/chat to regenerate or edit."
            )
        if turn.message is None and turn.answers is not None:
            with live.answering(listener):
                run = await self._answering.repost(live.key, turn.answers, live=True)
            place = run.place_of({*turn.answers.denied, *(answer.call for answer in turn.answers.calls)})
            if place is not None:
                return Told(run, *place, turn.answers.given)
            if run.active:
                live.audience.turn(run, "server", besides=listener)
            return Told(run)
        # A message that came in just before its conversation was parked is answered all the same.
        by = live if self._lives.get(live.key) is live else self._keeper.adk
        known = live.running()
        run = await self._asking.start(live.key, turn, by)
        if run is not known and run.active:
            live.audience.turn(run, "typed", besides=listener)
        return Told(run)

    def hear(self, live: LiveRun, listener: Listener, pcm: bytes) -> bool:
        """Sound of one of the clients; the one that speaks has the microphone."""
        if self._microphones.get(live.key) is not listener:
            return False
        return live.hear(pcm)

    async def speak(self, live: LiveRun, listener: Listener, *, start: bool) -> None:
        """One of the clients begins or ends to speak. Who begins takes the microphone."""
        before = self._microphones.get(live.key)
        if before is not listener:
            if not start:
                return
            self._microphones[live.key] = listener
            if before is not None and before in live.audience.listeners:
                before.notice("info", TAKEN_OVER, "The microphone is used in another window.")
        await live.activity(start=start)

    def leave(self, live: LiveRun, listener: Listener, grace: float | None) -> None:
        """A client is gone; with the last one the grace time begins."""
        if listener in live.audience.listeners:
            live.audience.listeners.remove(listener)
        if self._microphones.get(live.key) is listener:
            del self._microphones[live.key]
            live.unplug()
        if not live.attached:
            self._spawn(self._detach(live.key))
        if not live.attached and self._lives.get(live.key) is live and live.key not in self._ends:
            self._end_in(self._keeper.settings.live_grace if grace is None else grace, live)

    def _end_in(self, seconds: float, live: LiveRun) -> None:
        self._ends[live.key] = asyncio.get_running_loop().call_later(seconds, self._end_soon, live)

    def _end_soon(self, live: LiveRun) -> None:
        self._ends.pop(live.key, None)
        self._spawn(self.park(live))

    async def _detach(self, key: ChatKey) -> None:
        """Nobody is connected any more; others may know, unless somebody has come meanwhile."""
        live = self._lives.get(key)
        if live is None or not live.attached:
            try:
                await self._keeper.attached(key, here=False)
            except RequestError as error:
                logger.warning("nobody talks in chat %s any more, which cannot be told: %s", key.chat, error.message)
                self._spawn(self._detach_later(key))

    async def _detach_later(self, key: ChatKey) -> None:
        await asyncio.sleep(_AGAIN)
        await self._detach(key)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="adkwire-lives")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def park(self, live: LiveRun) -> None:
        """End a conversation that nobody is connected to."""
        try:
            async with self._keeper.owned(live.key) as chat:
                if chat.live is live and not live.attached:
                    await live.park()
        except RequestError as error:
            logger.warning("the live conversation in chat %s is not ended yet: %s", live.key.chat, error.message)
            if not live.attached:
                self._end_in(_AGAIN, live)

    def _parked(self, live: LiveRun) -> None:
        """A conversation has ended, whoever has ended it; its chat must be ours at this moment."""
        chat = self._keeper.chats.get(live.key)
        if chat is not None and chat.live is live:
            chat.live = None
        self._lives.pop(live.key, None)
        self._microphones.pop(live.key, None)
        if (end := self._ends.pop(live.key, None)) is not None:
            end.cancel()

    def changed(self, call: PendingCall) -> None:
        """A call has moved at the gate."""
        live = self._lives.get(ChatKey(call.user, call.chat))
        if live is not None:
            live.audience.settled(call)

    def give_up(self, wish: Stop) -> None:
        """Another worker wants to go on with a chat."""
        live = self._lives.get(ChatKey(wish.user, wish.chat))
        if live is None:
            return
        if wish.why == TAKEN_OVER:
            live.audience.notice("info", TAKEN_OVER, "The conversation goes on in another window.")
        if wish.why in (TAKEN_OVER, DELETED):
            live.audience.dismiss(deleted=wish.why == DELETED)
            self._spawn(self._detach(live.key))
        if not live.attached:
            self._end_soon(live)

    def keeps(self, wish: Stop) -> bool:
        """Whether a conversation does not give way to what another worker wants."""
        live = self._lives.get(ChatKey(wish.user, wish.chat))
        return live is not None and wish.why not in ("stopped", DELETED)

    async def end(self, chat: Chat) -> None:
        """End the conversation of a chat that is being deleted."""
        live = next((live for live in self._lives.values() if live is chat.live), None)
        if live is not None:
            await self._dismiss(live, deleted=True)

    async def drain(self) -> None:
        """The server goes down: what is being said may be said to its end, the rest is parked now."""
        await self._dismiss_all([live for live in self._lives.values() if not live.is_speaking])

    async def _dismiss(self, live: LiveRun, *, deleted: bool = False) -> None:
        live.audience.dismiss(deleted=deleted)
        await self._detach(live.key)
        await live.park()

    async def _dismiss_all(self, lives: Sequence[LiveRun]) -> None:
        ends = await asyncio.gather(*map(self._dismiss, lives), return_exceptions=True)
        for failure in ends:
            if failure is not None:
                logger.error("a live conversation could not be parked", exc_info=failure)

    async def close(self) -> None:
        """Everything is parked."""
        await self._dismiss_all(list(self._lives.values()))
        for end in self._ends.values():
            end.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
