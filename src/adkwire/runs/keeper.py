"""Keeper: what turns and continuations share: the parts of the house, and the order in which a chat is written."""

import logging
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from google.adk.events.event import Event

from adkwire.errors import Unavailable
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import PendingCall
from adkwire.runs.adk import Adk
from adkwire.runs.chats import Chat, Chats
from adkwire.runs.history import Turn, turns
from adkwire.runs.news import Item, News
from adkwire.runs.own_events import LooseEnds, Response, why_not
from adkwire.runs.parked import loose_ends_of, recover, responses_of
from adkwire.runs.run import Prepare, Run, Source
from adkwire.runs.sessions import ChatKey
from adkwire.settings import Settings
from adkwire.stores.base import StreamLog
from adkwire.wire.chunks import Chunk
from adkwire.wire.encoder import Explain
from adkwire.wire.profiles import encode_chunks

logger = logging.getLogger("adkwire")


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
    draining: bool = False
    answered: Callable[[PendingCall], None] = lambda call: None
    """Called for calls that have their answer and may go on."""

    def refuse_when_draining(self) -> None:
        """No new work while the server goes down."""
        if self.draining:
            raise Unavailable("The server is going down.", hint="Try again in a moment.")

    async def touch(self, key: ChatKey, chat: Chat) -> None:
        """Read the session once, when this process first meets the chat, and settle what another one left."""
        if chat.read:
            return
        told = await self.turns(key)
        encoder = None
        if told:
            encoder, _ = told[-1].encoder()
            encoder.pause()
            chat.loose = [loose_ends_of(told[-1], encoder)]
        await recover(self.gate, key, encoder)
        chat.answered = {turn.user_id for turn in told}
        chat.read = True
        for call in await self.gate.undecided(*key):
            self.answered(call)

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

    async def told(self, run: Run, chunks: Sequence[Chunk]) -> Run:
        """A run that is over before it began: it only has something to say."""
        await self.log.append(run.id, encode_chunks(chunks))
        await self.log.close(run.id)
        run.message = run.message._replace(parts=())
        run.done.set()
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


def new_id(kind: str) -> str:
    """An id that nobody can guess."""
    return f"{kind}-{secrets.token_hex(8)}"
