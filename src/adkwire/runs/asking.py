"""Asking: the way of a user's message to the agent, or to the run that already answers it."""

import asyncio
import math
from collections.abc import AsyncGenerator
from typing import Any, Protocol

from google.adk.events.event import Event

from adkwire.errors import Conflict, NotFound
from adkwire.runs.answering import Answering
from adkwire.runs.chats import Chat
from adkwire.runs.history import said_in
from adkwire.runs.ids import new_id
from adkwire.runs.keeper import PATIENCE, Keeper, Stop
from adkwire.runs.news import Item
from adkwire.runs.run import Run, fingerprint
from adkwire.runs.sessions import ChatKey
from adkwire.runs.views import title_for
from adkwire.stores.base import RunHead
from adkwire.wire.decoder import TurnInput, UserMessage
from adkwire.wire.encoder import Encoder


class Answers(Protocol):
    """Whoever answers a message: the agent, or the model by itself."""

    def turn(
        self, key: ChatKey, message: UserMessage, mark: dict[str, Any], abort: asyncio.Event
    ) -> AsyncGenerator[Event, None]:
        """Answer one message, until the abort signal is set."""
        ...


class Asking:
    """Takes messages and lets their answers run, one at a time in each chat."""

    def __init__(self, keeper: Keeper, answering: Answering) -> None:
        self._keeper = keeper
        self._answering = answering

    async def start(self, key: ChatKey, turn: TurnInput, by: Answers) -> Run:
        """Run a turn, or find the run that already does."""
        head = await self._keeper.elsewhere(key)
        if head is not None and _is_meant(head, turn):
            return Run.over(head)
        await self._keeper.refuse_when_live_elsewhere(key)
        on_busy = self._keeper.settings.on_busy
        stop = Stop(*key, why="superseded") if on_busy == "replace" else None
        patience = {"replace": PATIENCE, "refuse": 0, "queue": math.inf}[on_busy]
        async with self._keeper.owned(key, stop=stop, patience=patience) as chat:
            if (known := await self._known(key, chat, turn)) is not None:
                return known
            if not _is_same(chat.live, by):
                await self._keeper.take_from_live(chat)
            message = await self._message(key, turn)
            self._keeper.refuse_when_draining()
            if chat.active and on_busy == "refuse":
                raise Conflict("An answer is being written in this chat.", hint="Wait for it, or stop it.")
            return await self._begin(key, chat, turn, message, by)

    async def _known(self, key: ChatKey, chat: Chat, turn: TurnInput) -> Run | None:
        """The run that a repeated request means. A regeneration may be meant anew once the last one has ended."""
        if turn.message is not None and not turn.message.id:
            return None
        request = fingerprint(turn)
        same = next((run for run in chat.runs.values() if run.request == request), None)
        if same is not None and (same.active or turn.trigger == "submit-message") and await self._is_kept(same):
            return same
        if turn.trigger != "submit-message" or turn.replaces is not None or turn.message is None:
            return None
        run = chat.runs.get(turn.message.id)
        if run is not None and await self._is_kept(run):
            return run
        if run is None and turn.message.id not in chat.answered:
            return None
        return await self._from_history(key, turn, turn.message)

    async def _from_history(self, key: ChatKey, turn: TurnInput, message: UserMessage) -> Run | None:
        """The answer to a message whose stream is gone, told again from the session."""
        found = next((told for told in await self._keeper.turns(key) if told.user_id == message.id), None)
        if found is None:
            return None
        encoder, chunks = found.encoder(self._keeper.explain)
        run = Run(new_id("run"), key, message, encoder)
        await run.tell(self._keeper.log, [*chunks, *encoder.end()])
        return run

    async def _message(self, key: ChatKey, turn: TurnInput) -> UserMessage:
        """The message to run: the one that came, or the stored one that a regeneration names."""
        if turn.message is not None:
            return turn.message if turn.message.id else turn.message._replace(id=new_id("user"))
        for stored in await self._keeper.turns(key):
            if turn.replaces in (stored.message_id, stored.user_id) and stored.asked is not None:
                return UserMessage(stored.user_id, tuple(said_in(stored.asked)))
        raise NotFound("There is no such message to answer again.")

    async def _begin(self, key: ChatKey, chat: Chat, turn: TurnInput, message: UserMessage, by: Answers) -> Run:
        chat.repeats = 0
        encoder = Encoder(new_id("msg"), explain=self._keeper.explain)
        run = Run(new_id("run"), key, message, encoder, request=fingerprint(turn))
        before, replace = chat.active, self._keeper.settings.on_busy == "replace"
        if turn.answers is not None:
            await self._answering.take_outputs(key, turn.answers)
        for old in before if replace else ():
            old.abort("superseded")

        async def prepare() -> None:
            with run.queueing():
                for old in before:
                    await (old.stop() if replace else old.done.wait())
            await self._prepare(chat, run, turn)

        def source(abort: asyncio.Event) -> AsyncGenerator[Event, None]:
            return by.turn(key, message, run.mark, abort)

        return await self._keeper.begin(run, chat, source, prepare=prepare)

    async def _prepare(self, chat: Chat, run: Run, turn: TurnInput) -> None:
        """Make the session ready for the turn: it exists, it is at the right point, and no call is left hanging."""
        if await self._keeper.adk.load(run.key, recent=0) is None:
            await self._keeper.adk.create(run.key, title=title_for(run.message), created=self._keeper.clock())
            self._keeper.news.publish(run.key.user, Item(type="chat-updated", chat=run.key.chat))
        await self._keeper.seal(run.key, chat, "superseded")
        if turn.trigger == "regenerate-message" or turn.replaces is not None or run.message.id in chat.unheard:
            await self._go_back(chat, run, turn.replaces)
        chat.answered |= chat.unheard
        chat.unheard = set()

    async def _go_back(self, chat: Chat, run: Run, replaces: str | None) -> None:
        """Rewind to before the message that is answered again; one the session never saw is simply new."""
        told = await self._keeper.turns(run.key)
        wanted = {run.message.id, replaces}
        at = next((i for i, turn in enumerate(told) if {turn.user_id, turn.message_id} & wanted), None)
        if at is not None:
            await self._keeper.adk.rewind(run.key, told[at].invocation_id)
            for turn in told[at:]:
                if turn.user_id != run.message.id:
                    chat.answered.discard(turn.user_id)
                    chat.runs.pop(turn.user_id, None)

    async def _is_kept(self, run: Run) -> bool:
        return run.active or await self._keeper.log.read(run.id, -1, 0) is not None


def _is_meant(head: RunHead, turn: TurnInput) -> bool:
    """Whether a request repeats the one that another worker is answering."""
    said = turn.message.id if turn.message is not None else None
    is_new = turn.trigger == "submit-message" and turn.replaces is None
    return said != "" and (head.request == fingerprint(turn) or (is_new and said == head.said))


def _is_same(one: object, other: object) -> bool:
    return one is other
