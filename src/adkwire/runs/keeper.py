"""Keeper: what turns and continuations share: the parts of the house, and the order in which a chat is written."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
from google.adk.events.event import Event

from adkwire.errors import Conflict, RequestError, Unavailable
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import PendingCall
from adkwire.runs.adk import Adk
from adkwire.runs.chats import Chat, Chats
from adkwire.runs.history import Turn, turns
from adkwire.runs.news import Item, News
from adkwire.runs.own_events import LooseEnds, Response, why_not
from adkwire.runs.parked import loose_ends_of, recover, responses_of
from adkwire.runs.recording import Recorder
from adkwire.runs.recovery import Recovery, paused
from adkwire.runs.run import STOP_PATIENCE, Prepare, Run, Source
from adkwire.runs.sessions import ChatKey
from adkwire.settings import Settings
from adkwire.stores.base import RunHead, Signals, StreamLog
from adkwire.wire.failures import Explain

logger = logging.getLogger("adkwire")

STOP = "stop"
"""The topic on which workers ask each other to stop what they write."""
_LOOK = 0.1
_LOOKS = 5
_LET_GO_AGAIN = 5.0
_LIVE = "This chat is in a live conversation."
_USE_LIVE = "Use the live connection, or close it."
PATIENCE = 2 * STOP_PATIENCE
"""Seconds that another worker has to give a chat free, and how often is looked."""


@dataclass
class Keeper:
    """Keeps chats in order: one run at a time, and no call without an answer behind it."""

    settings: Settings
    adk: Adk
    gate: ToolGate
    log: StreamLog
    chats: Chats
    news: News
    explain: Explain
    signals: Signals
    recorder: Recorder | None
    clock: Callable[[], float]
    draining: bool = False
    answered: Callable[[PendingCall], None] = lambda call: None
    """Called for calls that have their answer and may go on."""
    _recovery: Recovery = field(init=False)
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set["asyncio.Task[None]"])

    def __post_init__(self) -> None:
        self._recovery = Recovery(self.adk, self.gate, self.log, self.explain, self.clock, self._supersede)

    def refuse_when_draining(self) -> None:
        """No new work while the server goes down."""
        if self.draining:
            raise Unavailable("The server is going down.", hint="Try again in a moment.")

    @asynccontextmanager
    async def owned(
        self, key: ChatKey, *, stop: "Stop | None" = None, patience: float = PATIENCE
    ) -> AsyncGenerator[Chat, None]:
        """A chat for one at a time, here and on all other workers, with what its last owner left behind settled.

        While another worker writes in it, that one is asked to stop (if `stop` says so) and waited for.
        """
        waited = 0.0
        while True:
            async with self.chats.locked(key) as chat:
                try:
                    if await self._own(key, chat):
                        await self._settle(key, chat)
                        yield chat
                        return
                finally:
                    if chat.idle:
                        await self._release(key)
            # Not while the chat is locked: others only want to read.
            self.refuse_when_draining()
            if waited >= patience:
                raise Conflict("Another worker is busy with this chat.", hint="Wait for it, or stop it.")
            if stop is not None and not waited:
                await self.signals.send(STOP, msgspec.json.encode(stop))
            await asyncio.sleep(_LOOK)
            waited += _LOOK

    async def meet(self, key: ChatKey) -> None:
        """See to a chat that this process has not met: what is left of a worker that is gone is settled."""
        chat = self.chats.get(key)
        if (chat is None or not chat.read) and not await self.is_elsewhere(key) and await self.is_known(key):
            async with self.owned(key):
                pass

    async def is_known(self, key: ChatKey) -> bool:
        """Whether there is anything of a chat: nothing is done, or kept, about chats that do not exist."""
        return await self.exists(key) or bool(await self.log.unclosed(*key))

    async def elsewhere(self, key: ChatKey) -> RunHead | None:
        """The run that another worker writes in a chat. One that nobody writes any more is closed."""
        head = next(iter(await self.all_elsewhere(*key)), None)
        if head is None or await self.is_elsewhere(key):
            return head
        async with self.owned(key) as chat:
            await self._recovery.close_crashed(key, chat, await self.turns(key))
        return None

    async def all_elsewhere(self, user: str, chat: str | None = None) -> list[RunHead]:
        """The runs without an end that this process does not write."""
        return [head for head in await self.log.unclosed(user, chat) if self.local(head) is None]

    def local(self, head: RunHead) -> Run | None:
        """A run of this process."""
        chat = self.chats.get(ChatKey(head.user, head.chat))
        return chat.find(head.run) if chat is not None else None

    async def is_elsewhere(self, key: ChatKey) -> bool:
        """Whether another worker has the chat."""
        return await self.signals.holder(_lease(key)) not in (None, self.signals.worker)

    async def _own(self, key: ChatKey, chat: Chat) -> bool:
        last = await self.signals.acquire(_lease(key))
        if last not in (None, self.signals.worker):
            # Somebody else had it since, or it was deleted.
            chat.read_anew()
        return last is not None

    async def _release(self, key: ChatKey) -> None:
        """Give a chat back; when that cannot be said now, again and again."""
        try:
            await self.signals.release(_lease(key))
        except RequestError as error:
            logger.warning("chat %s could not be given back yet: %s", key.chat, error.message)
            self.let_go(key, _LET_GO_AGAIN)

    def let_go(self, key: ChatKey, delay: float = 0) -> None:
        """Give the chat back once nothing writes in it."""
        task = asyncio.create_task(self._release_idle(key, delay), name=f"adkwire-release-{key.chat}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _release_idle(self, key: ChatKey, delay: float) -> None:
        if not self.draining:
            await asyncio.sleep(delay)
        async with self.chats.locked(key) as chat:
            if chat.idle:
                await self._release(key)

    async def forget(self, key: ChatKey) -> None:
        """The chat is gone, and who wrote in it is nobody's business any more."""
        await self.signals.forget(_lease(key))

    async def _settle(self, key: ChatKey, chat: Chat) -> None:
        """Read the session once, when this process first meets the chat, and settle what another one left."""
        if chat.read:
            return
        told = await self.turns(key)
        last = _last_heard(told)
        await recover(self.gate, key, paused(last) if last is not None else None)
        if await self._recovery.close_crashed(key, chat, told):
            told = await self.turns(key)
        chat.loose = _loose_ends(told)
        chat.unheard = {turn.user_id for turn in told[-1:] if turn.is_unheard}
        chat.answered = {turn.user_id for turn in told} - chat.unheard
        chat.recall([Run.over(head) for head in await self.log.runs(*key) if head.said in chat.answered])
        chat.read = True
        for call in await self.gate.undecided(*key):
            self.answered(call)

    async def attached(self, key: ChatKey, *, here: bool) -> None:
        """Note for all workers whether somebody is connected to the live conversation of a chat on this one."""
        name = _live_lease(key)
        await (self.signals.acquire(name) if here else self.signals.release(name))

    async def refuse_when_live_elsewhere(self, key: ChatKey) -> None:
        """While somebody talks on another worker nobody writes here. Who has just hung up may not be noticed yet."""
        for _ in range(_LOOKS):
            if await self.signals.holder(_live_lease(key)) in (None, self.signals.worker):
                return
            await asyncio.sleep(_LOOK)
        raise Conflict(_LIVE, hint=_USE_LIVE)

    async def stopped_elsewhere(self, key: ChatKey, head: RunHead, wish: "Stop") -> bool:
        """Have another worker stop what it writes; says whether the chat stays with it, as with a conversation."""
        waited = 0.0
        await self.signals.send(STOP, msgspec.json.encode(wish))
        while head.run in {each.run for each in await self.log.unclosed(*key)} and waited < PATIENCE:
            await asyncio.sleep(_LOOK)
            waited += _LOOK
        return await self.is_elsewhere(key)

    async def take_from_live(self, chat: Chat) -> None:
        """Write in a chat that has a live conversation: only when nobody is connected to it."""
        if chat.live is not None:
            if chat.live.attached:
                raise Conflict(_LIVE, hint=_USE_LIVE)
            await chat.live.park()

    async def exists(self, key: ChatKey) -> bool:
        """Whether the user has this chat."""
        return await self.adk.load(key, recent=0) is not None

    async def turns(self, key: ChatKey) -> list[Turn]:
        """The turns of a chat, as the session has them."""
        session = await self.adk.load(key)
        return turns(session.events) if session is not None else []

    async def begin(
        self, run: Run, chat: Chat, source: Source, *, prepare: Prepare | None = None, goes_on: bool = False
    ) -> Run:
        """Let a run write in its chat."""
        run.ended, run.released = self._ended, lambda run: self.let_go(run.key)
        if self.recorder is not None:
            source = self.recorder.tap(run.key, source)
        await run.begin(self.adk, self.gate, self.log, source, prepare)
        if goes_on:
            chat.continue_with(run)
        else:
            chat.remember(run)
        if self.draining:
            await run.stop()
        self.refuse_when_draining()
        self.left(run)
        self.news.publish(run.key.user, Item(type="run-started", chat=run.key.chat, run=run.id))
        logger.info("run %s started in chat %s", run.id, run.key.chat)
        return run

    def _ended(self, run: Run) -> None:
        self.news.publish(run.key.user, Item(type="run-ended", chat=run.key.chat, run=run.id))

    def left(self, run: Run) -> None:
        """Stop a run that nobody reads any more, if the settings say so."""
        if self.settings.stop_without_reader and not run.readers:
            run.abort_after(self.settings.stop_without_reader)

    async def seal(self, key: ChatKey, chat: Chat, why: str) -> bool:
        """Take back what waits in a chat and answer every call that has none; says whether there was one."""
        taken = await self.gate.void(*key, why)
        for call in await self.gate.executing(*key):
            # Nothing runs in this chat: the end of a run could not be told to the gate.
            await self.gate.abandon(*key, call.call, why)
        known = responses_of(taken)
        chat.collect_loose_ends()
        events: list[Event] = []
        for loose in chat.loose:
            known |= await self._taken_back(key, loose, known)
            events += loose.sealed(known, otherwise=why_not(why))
        if events:
            await self.adk.append(key, events)
        chat.loose = []
        return bool(taken)

    async def _supersede(self, key: ChatKey, chat: Chat) -> None:
        """Seal a chat for a message that another process left, unless something of ours is being written in it."""
        if not chat.read:
            chat.loose = _loose_ends(await self.turns(key))
        if not chat.active:
            await self.seal(key, chat, "superseded")

    async def _taken_back(self, key: ChatKey, loose: LooseEnds, known: Collection[str]) -> dict[str, Response]:
        """What is to be said about calls that were taken back before, when nobody could be told."""
        calls = [await self.gate.get(*key, call) for call, _ in loose.encoder.unsettled_calls() if call not in known]
        return responses_of(call for call in calls if call is not None)

    def changed(self, call: PendingCall) -> None:
        """A call at the gate has moved."""
        asked = call.answer is None and not call.outcome
        item = Item(
            type="call-asked" if asked else "call-settled",
            chat=call.chat,
            tool_call_id=call.call,
            state=call.outcome or call.state,
        )
        self.news.publish(call.user, item)

    async def close(self) -> None:
        """Wait for what was begun here. What could not be given back is, when this worker is seen to be gone."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Stop(msgspec.Struct, frozen=True):
    """What one worker asks of the others: to stop what they write in a chat."""

    user: str
    chat: str
    run: str | None = None
    why: str = "stopped"


def _last_heard(told: Sequence[Turn]) -> Turn | None:
    """The last turn that the agent knows of: only that one can have left calls without answers."""
    return next((turn for turn in reversed(told) if not turn.is_unheard), None)


def _loose_ends(told: Sequence[Turn]) -> list[LooseEnds]:
    last = _last_heard(told)
    return [loose_ends_of(last, paused(last))] if last is not None else []


def _live_lease(key: ChatKey) -> str:
    return f"live {key.user}\n{key.chat}"


def _lease(key: ChatKey) -> str:
    return f"chat {key.user}\n{key.chat}"
