"""Asking: the way of a user's message to the agent, or to the run that already answers it."""

import asyncio
import math
from collections.abc import AsyncGenerator
from typing import Any, Protocol

from google.adk.events.event import Event

from adkwire.adk.turns import text_and_files
from adkwire.adk.writer import check_writer
from adkwire.errors import Conflict, NotFound
from adkwire.runs.chat_events import ChatEvent
from adkwire.runs.chats import Chat
from adkwire.runs.continue_ import RunContinuer
from adkwire.runs.ownership import PATIENCE, Ownership
from adkwire.runs.run import Run, fingerprint, new_id
from adkwire.runs.sealing import Sealing
from adkwire.runs.services import RunServices
from adkwire.runs.views import title_for
from adkwire.runs.worker_messages import Stop
from adkwire.stores.base import ChatKey, RunHead
from adkwire.wire.decode.decoder import TurnInput, UserMessage
from adkwire.wire.encode.encoder import Encoder


class Answers(Protocol):
    """Whoever answers a message: the agent, or the model by itself."""

    def turn(
        self, key: ChatKey, message: UserMessage, stamp: dict[str, Any], abort: asyncio.Event
    ) -> AsyncGenerator[Event, None]:
        """Answer one message, until the abort signal is set."""
        ...


class RunStarter:
    """Takes messages and lets their answers run, one at a time in each chat."""

    def __init__(self, services: RunServices, ownership: Ownership, sealing: Sealing, continuer: RunContinuer) -> None:
        self._services = services
        self._ownership = ownership
        self._sealing = sealing
        self._continuer = continuer

    async def start(self, key: ChatKey, turn: TurnInput, by: Answers) -> Run:
        """Run a turn, or find the run that already does."""
        head = await self._ownership.run_elsewhere(key)
        if head is not None and _is_meant(head, turn):
            return Run.over(head)
        await self._ownership.refuse_when_live_elsewhere(key)
        on_busy = self._services.settings.on_busy
        stop = Stop(*key, why="superseded") if on_busy == "replace" else None
        patience = {"replace": PATIENCE, "refuse": 0, "queue": math.inf}[on_busy]
        async with self._ownership.owned(key, stop=stop, patience=patience) as chat:
            if (known := await self._known(key, chat, turn)) is not None:
                return known
            if not _is_same(chat.live, by):
                await self._ownership.park_live(chat)
            message = await self._message(key, turn)
            self._ownership.refuse_when_draining()
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
        found = next((told for told in await self._services.runner.turns(key) if told.user_id == message.id), None)
        if found is None:
            return None
        encoder, chunks = found.encoder(self._services.explain)
        run = Run(new_id("run"), key, message, encoder)
        await run.tell(self._services.log, [*chunks, *encoder.end()])
        return run

    async def _message(self, key: ChatKey, turn: TurnInput) -> UserMessage:
        """The message to run: the one that came, or the stored one that a regeneration names."""
        if turn.message is not None:
            return turn.message if turn.message.id else turn.message._replace(id=new_id("user"))
        for stored in await self._services.runner.turns(key):
            if turn.replaces in (stored.message_id, stored.user_id) and stored.user_event is not None:
                return UserMessage(stored.user_id, tuple(text_and_files(stored.user_event)))
        raise NotFound("There is no such message to answer again.")

    async def _begin(self, key: ChatKey, chat: Chat, turn: TurnInput, message: UserMessage, by: Answers) -> Run:
        chat.repeats = 0
        encoder = Encoder(new_id("msg"), explain=self._services.explain)
        run = Run(new_id("run"), key, message, encoder, request=fingerprint(turn))
        before, replace = chat.active, self._services.settings.on_busy == "replace"
        if turn.answers is not None:
            await self._continuer.take_outputs(key, turn.answers)
        for old in before if replace else ():
            old.abort("superseded")

        async def prepare() -> None:
            if replace:
                # The others end soon: a run that is stopped meanwhile still goes on, so that its message is stored.
                for old in before:
                    await old.stop()
            else:
                with run.queueing():
                    for old in before:
                        await old.done.wait()
            await self._prepare(chat, run, turn)

        def source(abort: asyncio.Event) -> AsyncGenerator[Event, None]:
            return by.turn(key, message, run.stamp, abort)

        return await self._ownership.begin(run, chat, source, prepare=prepare)

    async def _prepare(self, chat: Chat, run: Run, turn: TurnInput) -> None:
        """Make the session ready for the turn: it exists, it is at the right point, and no call is left hanging."""
        check_writer()
        if await self._services.runner.load(run.key, recent=0) is None:
            await self._services.runner.create(run.key, title=title_for(run.message), created=self._services.clock())
            self._services.events.publish(run.key.user, ChatEvent(type="chat-updated", chat=run.key.chat))
        await self._sealing.seal(run.key, chat, "superseded")
        if turn.trigger == "regenerate-message" or turn.replaces is not None or run.message.id in chat.unheard:
            await self._go_back(chat, run, turn.replaces)
        chat.answered |= chat.unheard
        chat.unheard = set()

    async def _go_back(self, chat: Chat, run: Run, replaces: str | None) -> None:
        """Rewind to before the message that is answered again; one the session never saw is simply new."""
        told = await self._services.runner.turns(run.key)
        wanted = {run.message.id, replaces}
        at = next((i for i, turn in enumerate(told) if {turn.user_id, turn.message_id} & wanted), None)
        if at is not None:
            await self._services.runner.rewind(run.key, told[at].invocation_id)
            for turn in told[at:]:
                if turn.user_id != run.message.id:
                    chat.answered.discard(turn.user_id)
                    chat.runs.pop(turn.user_id, None)

    async def _is_kept(self, run: Run) -> bool:
        return run.active or await self._services.log.read(run.id, -1, 0) is not None


def _is_meant(head: RunHead, turn: TurnInput) -> bool:
    """Whether a request repeats the one that another worker is answering."""
    said = turn.message.id if turn.message is not None else None
    is_new = turn.trigger == "submit-message" and turn.replaces is None
    return said != "" and (head.request == fingerprint(turn) or (is_new and said == head.user_message))


def _is_same(one: object, other: object) -> bool:
    return one is other
