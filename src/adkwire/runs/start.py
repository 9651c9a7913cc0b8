"""RunStarter: begin the run of a user message, or find the run that a repeated request asks for."""

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
from adkwire.runs.continuation import RunContinuer
from adkwire.runs.ownership import PATIENCE, Ownership
from adkwire.runs.run import Run, fingerprint, new_id
from adkwire.runs.sealing import Sealing
from adkwire.runs.services import RunServices
from adkwire.runs.views import title_for
from adkwire.runs.worker_messages import Stop
from adkwire.stores.base import ChatKey, RunHead
from adkwire.wire.decode.decoder import TurnInput, UserMessage
from adkwire.wire.encode.encoder import Encoder


class TurnSource(Protocol):
    """The producer of a turn's events: the agent, its live conversation, or the model without the agent."""

    def turn(
        self, key: ChatKey, message: UserMessage, stamp: dict[str, Any], abort: asyncio.Event
    ) -> AsyncGenerator[Event, None]:
        """Yield the events that answer one user message, until the abort signal is set."""
        ...


class RunStarter:
    """Starts the runs of user messages, one at a time in each chat."""

    def __init__(self, services: RunServices, ownership: Ownership, sealing: Sealing, continuer: RunContinuer) -> None:
        self._services = services
        self._ownership = ownership
        self._sealing = sealing
        self._continuer = continuer

    async def start(self, key: ChatKey, turn: TurnInput, source: TurnSource) -> Run:
        """Start the run of a request, or return the run of an earlier request that this one repeats."""
        head = await self._ownership.run_elsewhere(key)
        if head is not None and _is_repeated(head, turn):
            return Run.read_only(head)
        await self._ownership.refuse_when_live_elsewhere(key)
        on_busy = self._services.settings.on_busy
        stop = Stop(*key, why="superseded") if on_busy == "replace" else None
        patience = {"replace": PATIENCE, "refuse": 0, "queue": math.inf}[on_busy]
        async with self._ownership.owned(key, stop=stop, patience=patience) as chat:
            if (earlier := await self._earlier_run(key, chat, turn)) is not None:
                return earlier
            if not _is_same(chat.live, source):
                await self._ownership.park_live(chat)
            message = await self._message_of(key, turn)
            self._ownership.refuse_when_draining()
            if chat.active and on_busy == "refuse":
                raise Conflict("An answer is being written in this chat.", hint="Wait for it, or stop it.")
            return await self._begin(key, chat, turn, message, source)

    async def _earlier_run(self, key: ChatKey, chat: Chat, turn: TurnInput) -> Run | None:
        """Return the run that a repeated request asks for; None for a new request.

        An equal request to regenerate is a new one once the run of the last one has ended.
        """
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
        if run is None and turn.message.id not in chat.known_user_messages:
            return None
        return await self._run_from_session(key, turn.message)

    async def _run_from_session(self, key: ChatKey, message: UserMessage) -> Run | None:
        """Return a run with the stored answer to a message whose stream is no longer kept; None if none is stored."""
        stored = next((turn for turn in await self._services.runner.turns(key) if turn.user_id == message.id), None)
        if stored is None:
            return None
        encoder, chunks = stored.encoder(self._services.explain)
        run = Run(new_id("run"), key, message, encoder)
        await run.write_whole(self._services.log, [*chunks, *encoder.end()])
        return run

    async def _message_of(self, key: ChatKey, turn: TurnInput) -> UserMessage:
        """Return the user message of a request, or the stored one that a request to regenerate names."""
        if turn.message is not None:
            return turn.message if turn.message.id else turn.message._replace(id=new_id("user"))
        for stored in await self._services.runner.turns(key):
            if turn.replaces in (stored.message_id, stored.user_id) and stored.user_event is not None:
                return UserMessage(stored.user_id, tuple(text_and_files(stored.user_event)))
        raise NotFound("There is no such message to answer again.")

    async def _begin(self, key: ChatKey, chat: Chat, turn: TurnInput, message: UserMessage, source: TurnSource) -> Run:
        """Begin a run that first waits for the other runs of the chat to end, or stops them."""
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
            await self._prepare_session(chat, run, turn)

        def events(abort: asyncio.Event) -> AsyncGenerator[Event, None]:
            return source.turn(key, message, run.stamp, abort)

        return await self._ownership.begin(run, chat, events, prepare=prepare)

    async def _prepare_session(self, chat: Chat, run: Run, turn: TurnInput) -> None:
        """Create a missing session, seal unanswered calls, and rewind to a message that is answered again."""
        check_writer()
        if await self._services.runner.load(run.key, recent=0) is None:
            await self._services.runner.create(
                run.key, title=title_for(run.user_message), created=self._services.clock()
            )
            self._services.events.publish(run.key.user, ChatEvent(type="chat-updated", chat=run.key.chat))
        await self._sealing.seal(run.key, chat, "superseded")
        if turn.trigger == "regenerate-message" or turn.replaces is not None or run.user_message.id in chat.undelivered:
            await self._rewind(chat, run, turn.replaces)
        chat.known_user_messages |= chat.undelivered
        chat.undelivered = set()

    async def _rewind(self, chat: Chat, run: Run, replaces: str | None) -> None:
        """Rewind the session to before the message that is answered again; do nothing if it has no such message."""
        turns = await self._services.runner.turns(run.key)
        wanted = {run.user_message.id, replaces}
        at = next((i for i, turn in enumerate(turns) if {turn.user_id, turn.message_id} & wanted), None)
        if at is not None:
            await self._services.runner.rewind(run.key, turns[at].invocation_id)
            for turn in turns[at:]:
                if turn.user_id != run.user_message.id:
                    chat.known_user_messages.discard(turn.user_id)
                    chat.runs.pop(turn.user_id, None)

    async def _is_kept(self, run: Run) -> bool:
        return run.active or await self._services.log.read(run.id, -1, 0) is not None


def _is_repeated(head: RunHead, turn: TurnInput) -> bool:
    """Return True if a request repeats the one that another worker's run answers."""
    message = turn.message.id if turn.message is not None else None
    is_new = turn.trigger == "submit-message" and turn.replaces is None
    return message != "" and (head.request == fingerprint(turn) or (is_new and message == head.user_message))


def _is_same(one: object, other: object) -> bool:
    """Return True if both are one object. Type checkers take two protocols for different types and refuse `is`."""
    return one is other
