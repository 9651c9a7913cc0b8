"""Keeper: what turns and continuations share: the parts of the house, and the order in which a chat is written."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
from google.adk.events.event import Event

from adkwire.errors import Conflict, RequestError, Unavailable
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import PendingCall
from adkwire.runs.adk import Adk, content_of
from adkwire.runs.chats import Chat, Chats
from adkwire.runs.crashed import closing_of
from adkwire.runs.history import Turn, turns
from adkwire.runs.news import Item, News
from adkwire.runs.own_events import LOST, LooseEnds, Response, question_event, why_not, without_answers
from adkwire.runs.parked import loose_ends_of, recover, responses_of
from adkwire.runs.recording import Recorder
from adkwire.runs.run import STOP_PATIENCE, Prepare, Run, Source, said_before
from adkwire.runs.sessions import ChatKey
from adkwire.runs.views import title_for
from adkwire.settings import Settings
from adkwire.stores.base import RunHead, Signals, StreamLog
from adkwire.wire.chunks import Chunk, decode_chunk
from adkwire.wire.encoder import Encoder, Explain
from adkwire.wire.profiles import encode_chunks

logger = logging.getLogger("adkwire")

STOP = "stop"
"""The topic on which workers ask each other to stop what they write."""
_LOOK = 0.1
_PATIENCE = 2 * STOP_PATIENCE
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
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set["asyncio.Task[None]"])

    def refuse_when_draining(self) -> None:
        """No new work while the server goes down."""
        if self.draining:
            raise Unavailable("The server is going down.", hint="Try again in a moment.")

    @asynccontextmanager
    async def owned(self, key: ChatKey, *, stop: str = "") -> AsyncGenerator[Chat, None]:
        """A chat for one at a time, here and on all other workers, with what its last owner left behind settled.

        While another worker writes in it, that one is asked to stop (if `stop` says why) and waited for.
        """
        async with self.chats.locked(key) as chat:
            await self._own(key, chat, stop)
            try:
                await self._settle(key, chat)
                yield chat
            finally:
                if not chat.active:
                    await self.signals.release(_lease(key))

    async def meet(self, key: ChatKey) -> None:
        """See to a chat that this process has not met: what is left of a worker that is gone is settled."""
        async with self.chats.locked(key) as chat:
            if chat.read or await self.signals.holder(_lease(key)) not in (None, self.signals.worker):
                return
        async with self.owned(key):
            pass

    async def look_after(self, head: RunHead) -> None:
        """Somebody waits for a run of another worker: when that one is gone, it is closed here."""
        key = ChatKey(head.user, head.chat)
        if await self.signals.holder(_lease(key)) is None:
            async with self.owned(key):
                pass

    async def _own(self, key: ChatKey, chat: Chat, stop: str) -> None:
        waited = 0.0
        while (last := await self.signals.acquire(_lease(key))) is None:
            if stop and not waited:
                await self.signals.send(STOP, msgspec.json.encode(Stop(*key, why=stop)))
            if waited > _PATIENCE:
                raise Conflict("Another worker is busy with this chat.", hint="Wait for it, or stop it.")
            await asyncio.sleep(_LOOK)
            waited += _LOOK
        if last not in ("", self.signals.worker):
            chat.read_anew()

    def _let_go(self, key: ChatKey) -> None:
        """Give the chat back once nothing writes in it."""
        task = asyncio.create_task(self._release(key), name=f"adkwire-release-{key.chat}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _release(self, key: ChatKey) -> None:
        try:
            async with self.chats.locked(key) as chat:
                if not chat.active:
                    await self.signals.release(_lease(key))
        except RequestError as error:
            logger.warning("chat %s could not be given back: %s", key.chat, error.message)

    async def _settle(self, key: ChatKey, chat: Chat) -> None:
        """Read the session once, when this process first meets the chat, and settle what another one left."""
        if chat.read:
            return
        told = await self.turns(key)
        await recover(self.gate, key, _paused(told[-1]) if told else None)
        if await self._close_crashed(key, chat, told):
            told = await self.turns(key)
        chat.loose = [loose_ends_of(told[-1], _paused(told[-1]))] if told else []
        chat.unheard = {turn.user_id for turn in told[-1:] if turn.is_unheard}
        chat.answered = {turn.user_id for turn in told} - chat.unheard
        chat.recall([Run.over(head) for head in await self.log.runs(*key) if head.said in chat.answered])
        chat.read = True
        for call in await self.gate.undecided(*key):
            self.answered(call)

    async def _close_crashed(self, key: ChatKey, chat: Chat, told: Sequence[Turn]) -> bool:
        """End the runs whose process is gone, so that stream and history say the same."""
        crashed = [head for head in await self.log.unclosed() if (head.user, head.chat) == key]
        for head in crashed:
            if chat.find(head.run) is None:
                await self._close(key, head, told)
        return bool(crashed)

    async def _close(self, key: ChatKey, head: RunHead, told: Sequence[Turn]) -> None:
        turn = next((turn for turn in told if turn.message_id == head.message), None)
        turn = turn or await self._unheard(key, head, told)
        calls = {call.call: call for call in await self.gate.of(*key)}
        lost: dict[str, Response] = {
            call.id: {"error": LOST} for call in _paused(turn).waiting() if call.id not in calls
        }
        shown = [decode_chunk(entry) for entry in await _all_of(self.log, head)]
        known = {**responses_of(calls.values()), **lost}
        closing = closing_of(turn, shown, known, self.explain, self.adk.agent_name)
        retryable = {call.call for call in calls.values() if call.can_be_retried}
        await self.adk.append(key, without_answers(closing.events, retryable))
        await self.log.append(head.run, encode_chunks(closing.tail))
        await self.log.close(head.run)
        logger.warning("run %s in chat %s was cut off when its server ended; it is closed", head.run, key.chat)

    async def _unheard(self, key: ChatKey, head: RunHead, told: Sequence[Turn]) -> Turn:
        """The turn of a message that did not reach the agent: it is not lost, and can be sent again."""
        turn, message = Turn(head.message, head.said, new_id("e")), said_before(head)
        before = [old for old in told if old.user_id == head.said]
        if message is None or not all(old.is_unheard for old in before):
            return turn
        for old in before:
            await self.adk.rewind(key, old.invocation_id)
        await self.adk.create(key, title=title_for(message), created=self.clock())
        turn.asked = question_event(content_of(message), turn.invocation_id, turn.mark)
        await self.adk.append(key, [turn.asked])
        return turn

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
        run.ended = self._ended
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
        self._let_go(run.key)
        self.news.publish(run.key.user, Item(type="run-ended", chat=run.key.chat, run=run.id))

    async def told(self, run: Run, chunks: Sequence[Chunk]) -> Run:
        """A run that is over before it began: it only has something to say."""
        await run.tell(self.log, chunks)
        return run

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
        """Wait for what was begun here."""
        await asyncio.gather(*self._tasks)


class Stop(msgspec.Struct, frozen=True):
    """What one worker asks of the others: to stop what they write in a chat."""

    user: str
    chat: str
    run: str | None = None
    why: str = "stopped"


def _lease(key: ChatKey) -> str:
    return f"chat {key.user}\n{key.chat}"


def _paused(turn: Turn) -> Encoder:
    encoder, _ = turn.encoder()
    encoder.pause()
    return encoder


async def _all_of(log: StreamLog, head: RunHead) -> list[bytes]:
    """What readers of a run have been shown, with what its message held before."""
    first, found = -head.before, list[bytes]()
    while (batch := await log.read(head.run, first - 1, 0)) is not None and batch.entries:
        found += batch.entries
        first = batch.first + len(batch.entries)
    return found[: head.before] + found[head.before + 1 :] if head.before else found


def new_id(kind: str) -> str:
    """An id that nobody can guess."""
    return f"{kind}-{secrets.token_hex(8)}"
