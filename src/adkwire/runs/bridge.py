"""Bridge: one run per chat; start, follow, stop, history. All the server needs to know of the house below it."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

from google.adk.artifacts import BaseArtifactService
from google.adk.events.event import Event
from google.adk.memory import BaseMemoryService
from google.adk.sessions import BaseSessionService
from google.adk.sessions.session import Session
from msgspec import UNSET

from adkwire.errors import Conflict, NotFound, Unavailable
from adkwire.runs import views
from adkwire.runs.adk import Adk, Services, Target, ToolInfo, seal_leftovers
from adkwire.runs.history import Turn, said_in, turns
from adkwire.runs.run import Run, fingerprint, read
from adkwire.runs.sessions import ChatKey
from adkwire.settings import Settings
from adkwire.stores.base import Batch, StreamLog
from adkwire.stores.memory import MemoryStreamLog
from adkwire.wire.decoder import TurnInput, UserMessage
from adkwire.wire.encoder import explain_briefly, explain_fully
from adkwire.wire.profiles import encode_chunks

logger = logging.getLogger("adkwire")

_KEPT_CHATS = 1000
_KEPT_RUNS = 16


@dataclass
class _Chat:
    """What this process knows about a chat; everything lasting is in the session."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    last: Run | None = None
    """The run that began last, ended or not."""
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    """Recent runs by the user message they answer, so that a repeated request finds its stream."""
    answered: set[str] = field(default_factory=set[str])
    """The user messages that have a turn."""
    read: bool = False
    """Whether the session was read since this process met the chat."""
    unsealed: list[Run] = field(default_factory=list[Run])
    """Runs in the order they began, until their calls are known to need no answer any more."""
    hanging: list[Event] = field(default_factory=list[Event])
    """What must be stored before the next turn, so that no call is left without an answer."""

    @property
    def active(self) -> list[Run]:
        """Runs that have not ended, oldest first: more than one while one is replaced or others queue."""
        return [run for run in self.unsealed if run.active]

    def collect_leftovers(self) -> None:
        """Take from every ended run, once, the answers that its calls still need."""
        ended = [run for run in self.unsealed if not run.active]
        self.unsealed = self.active
        self.hanging += [event for run in ended for event in run.leftovers()]

    def remember(self, run: Run) -> None:
        self.last = self.runs[run.message.id] = run
        self.unsealed.append(run)
        self.answered.add(run.message.id)
        ended = [uid for uid, old in self.runs.items() if not old.active]
        for uid in ended[: max(0, len(self.runs) - _KEPT_RUNS)]:
            del self.runs[uid]


class Bridge:
    """Connects chats with an ADK agent."""

    def __init__(
        self,
        agent: Target,
        *,
        settings: Settings | None = None,
        session_service: BaseSessionService | None = None,
        artifact_service: BaseArtifactService | None = None,
        memory_service: BaseMemoryService | None = None,
        stream_log: StreamLog | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings or Settings.load()
        self._adk = Adk(agent, self.settings, Services(session_service, artifact_service, memory_service))
        self._log = stream_log or MemoryStreamLog(ttl=self.settings.stream_ttl, max_bytes=self.settings.stream_bytes)
        self._explain = explain_fully if self.settings.error_detail else explain_briefly
        self._clock = clock
        self._chats: dict[ChatKey, _Chat] = {}
        self._draining = False

    @property
    def agent_name(self) -> str:
        """The name of the agent that answers."""
        return self._adk.agent_name

    @property
    def model_name(self) -> str | None:
        """The model behind it."""
        return self._adk.model_name

    @property
    def offline(self) -> bool:
        """Whether that model is the offline one."""
        return self._adk.offline

    async def tools(self) -> list[ToolInfo]:
        """What the agent can do."""
        return await self._adk.tools()

    async def start(self, user: str, turn: TurnInput) -> Run:
        """Run a turn, or find the run that already does: a repeated request never runs twice."""
        key = ChatKey(user, turn.chat)
        self._refuse_when_draining()
        async with self._locked(key) as chat:
            await self._touch(key, chat)
            if (known := await self._known(key, chat, turn)) is not None:
                return known
            message = await self._message(key, turn)
            self._refuse_when_draining()
            if chat.active and self.settings.on_busy == "refuse":
                raise Conflict("An answer is being written in this chat.", hint="Wait for it, or stop it.")
            return await self._begin(key, chat, turn, message)

    def _refuse_when_draining(self) -> None:
        if self._draining:
            raise Unavailable("The server is going down.", hint="Try again in a moment.")

    async def stop(self, user: str, chat_id: str, run_id: str | None = None) -> bool:
        """Stop what runs in a chat, or only the named run; says whether there was something to stop."""
        wanted = [run for run in self._active(ChatKey(user, chat_id)) if run_id in (None, run.id)]
        for run in wanted:
            run.abort()
        for run in wanted:
            await run.stop()
        return bool(wanted)

    def running(self, user: str, chat_id: str) -> Run | None:
        """The run that is writing in a chat, rather one that goes on than one that is being stopped."""
        active = self._active(ChatKey(user, chat_id))
        return next((run for run in active if not run.stopping), active[0] if active else None)

    async def recent(self, user: str, chat_id: str, run_id: str) -> Run | None:
        """A run of a chat by its id, running or ended, while its stream is kept."""
        chat = self._chats.get(ChatKey(user, chat_id))
        run = next((run for run in chat.runs.values() if run.id == run_id), None) if chat is not None else None
        return run if run is not None and await self._is_kept(run) else None

    async def follow(self, run: Run, after: int = -1) -> AsyncGenerator[Batch, None]:
        """Read a run from behind `after` to its end. Going away does not stop it."""
        run.readers += 1
        run.keep()
        try:
            async with aclosing(read(self._log, run, after, self.settings.heartbeat)) as batches:
                async for batch in batches:
                    yield batch
                    run.noticed.set()
        finally:
            run.readers -= 1
            self._left(run)

    async def chats(self, user: str, *, limit: int, before: str | None) -> views.ChatList:
        """The user's chats, newest first."""
        sessions = sorted(await self._adk.all_of(user), key=views.cursor, reverse=True)
        if before is not None:
            sessions = [session for session in sessions if views.cursor(session) < before]
        page = [self._summary(user, session) for session in sessions[:limit]]
        more = views.cursor(sessions[limit - 1]) if len(sessions) > limit else UNSET
        return views.ChatList(page, more)

    async def history(
        self, user: str, chat_id: str, *, limit: int | None = None, before: str | None = None
    ) -> views.ChatHistory:
        """A chat with its messages, all or a page of them."""
        session, writing = await self._as_it_is(ChatKey(user, chat_id))
        run = self.running(user, chat_id)
        if session is None and run is None:
            raise NotFound("There is no such chat.")
        messages, more = views.page(views.messages_of(session, [run.message for run in writing]), limit, before)
        now = views.iso(self._clock())
        return views.ChatHistory(
            id=chat_id,
            title=views.title_of(session) or (views.title_for(run.message) if run is not None else ""),
            created_at=views.created_at(session) or now,
            updated_at=views.iso(session.last_update_time) if session is not None else now,
            active=views.ActiveRun(run.id) if run is not None else None,
            messages=messages,
            next=more,
        )

    async def rename(self, user: str, chat_id: str, title: str) -> views.ChatSummary:
        """Give a chat another title; a running answer owns the session, so its end is awaited first."""
        key = ChatKey(user, chat_id)
        while True:
            async with self._locked(key) as chat:
                writing = chat.active
                if not writing:
                    await self._existing(key)
                    await self._adk.rename(key, title)
                    return self._summary(user, await self._existing(key))
            for run in writing:
                await run.done.wait()

    async def delete(self, user: str, chat_id: str) -> None:
        """Stop what runs in a chat and forget it."""
        key = ChatKey(user, chat_id)
        async with self._locked(key):
            await self.stop(user, chat_id)
            await self._existing(key)
            await self._adk.delete(key)
            self._chats.pop(key, None)

    async def ready(self) -> bool:
        """Whether a turn could be served now: not draining, and the session store answers."""
        if self._draining:
            return False
        await self._adk.all_of("adkwire-readiness")
        return True

    @property
    def writing(self) -> list[Run]:
        """All runs that have not ended."""
        return [run for chat in self._chats.values() for run in chat.active]

    async def close(self, *, drain: float | None = None) -> None:
        """Take no more turns, give the running ones their time (as the settings say, or `drain`), stop the rest."""
        self._draining = True
        if running := self.writing:
            logger.info("draining: %d runs", len(running))
            waits = [asyncio.create_task(run.done.wait(), name="adkwire-drain") for run in running]
            await asyncio.wait(waits, timeout=self.settings.drain if drain is None else drain)
            await asyncio.gather(*(run.stop() for run in running))
            await asyncio.gather(*waits)
        await self._adk.close()

    @asynccontextmanager
    async def _locked(self, key: ChatKey) -> AsyncGenerator[_Chat, None]:
        """What is known of a chat, for one at a time; who waited while it was deleted gets the new one."""
        while True:
            chat = self._chats.get(key)
            if chat is None:
                if len(self._chats) >= _KEPT_CHATS:
                    self._forget_idle()
                chat = self._chats[key] = _Chat()
            async with chat.lock:
                if self._chats.get(key) is chat:
                    # The one touched last stands last, so that `_forget_idle` finds the quietest first.
                    self._chats[key] = self._chats.pop(key)
                    yield chat
                    return

    async def _existing(self, key: ChatKey) -> Session:
        session = await self._adk.load(key, recent=0)
        if session is None:
            raise NotFound("There is no such chat.")
        return session

    async def _as_it_is(self, key: ChatKey) -> tuple[Session | None, list[Run]]:
        """The session and the runs that are writing into it, seen at one moment."""
        while True:
            writing, last = self._active(key), self._last(key)
            session = await self._adk.load(key)
            if (writing, last) == (self._active(key), self._last(key)):
                return session, writing

    def _active(self, key: ChatKey) -> list[Run]:
        chat = self._chats.get(key)
        return chat.active if chat is not None else []

    def _last(self, key: ChatKey) -> Run | None:
        chat = self._chats.get(key)
        return chat.last if chat is not None else None

    def _forget_idle(self) -> None:
        """Make room: the chats that have been quiet for longest go first, and half of them stay."""
        idle = [key for key, chat in self._chats.items() if not chat.active and not chat.lock.locked()]
        for key in idle[: _KEPT_CHATS // 2]:
            del self._chats[key]

    async def _touch(self, key: ChatKey, chat: _Chat) -> None:
        """Read the session once, when this process first meets the chat."""
        if chat.read:
            return
        session = await self._adk.load(key)
        told = turns(session.events) if session is not None else []
        chat.read = True
        chat.answered = {turn.user_id for turn in told}
        chat.hanging = _leftovers(told[-1]) if told else []

    async def _known(self, key: ChatKey, chat: _Chat, turn: TurnInput) -> Run | None:
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
        session = await self._adk.load(key)
        found = next((t for t in turns(session.events) if t.user_id == message.id), None) if session else None
        if found is None:
            return None
        encoder, chunks = found.encoder(self._explain)
        run = self._run(key, turn, message, found.message_id)
        await self._log.append(run.id, encode_chunks([*chunks, *encoder.end()]))
        await self._log.close(run.id)
        run.done.set()
        return run

    async def _message(self, key: ChatKey, turn: TurnInput) -> UserMessage:
        """The message to run: the one that came, or the stored one that a regeneration names."""
        if turn.message is not None:
            return turn.message if turn.message.id else turn.message._replace(id=_new_id("user"))
        session = await self._adk.load(key)
        for stored in turns(session.events) if session is not None else ():
            if turn.replaces in (stored.message_id, stored.user_id) and stored.asked is not None:
                return UserMessage(stored.user_id, tuple(said_in(stored.asked)))
        raise NotFound("There is no such message to answer again.")

    async def _begin(self, key: ChatKey, chat: _Chat, turn: TurnInput, message: UserMessage) -> Run:
        run = self._run(key, turn, message, _new_id("msg"))
        before, replace = chat.active, self.settings.on_busy == "replace"
        for old in before if replace else ():
            old.abort()

        async def prepare() -> None:
            with run.queueing():
                for old in before:
                    await (old.stop() if replace else old.done.wait())
            chat.collect_leftovers()
            await self._prepare(chat, run)

        await run.begin(self._adk, self._log, prepare)
        chat.remember(run)
        if self._draining:
            await run.stop()
        self._refuse_when_draining()
        self._left(run)
        logger.info("run %s started in chat %s", run.id, key.chat)
        return run

    def _run(self, key: ChatKey, turn: TurnInput, message: UserMessage, message_id: str) -> Run:
        return Run(_new_id("run"), key, message_id, turn, message, explain=self._explain)

    async def _prepare(self, chat: _Chat, run: Run) -> None:
        """Make the session ready for the turn: it exists, it is at the right point, and no call is left hanging."""
        if await self._adk.load(run.key, recent=0) is None:
            await self._adk.create(run.key, title=views.title_for(run.message), created=self._clock())
            chat.hanging = []
            return
        if chat.hanging:
            await self._adk.append(run.key, chat.hanging)
            chat.hanging = []
        if run.trigger == "regenerate-message" or run.replaces is not None:
            await self._go_back(chat, run)

    async def _go_back(self, chat: _Chat, run: Run) -> None:
        """Rewind to before the message that is answered again; one the session never saw is simply new."""
        session = await self._adk.load(run.key)
        told = turns(session.events) if session is not None else []
        wanted = {run.message.id, run.replaces}
        at = next((i for i, turn in enumerate(told) if {turn.user_id, turn.message_id} & wanted), None)
        if at is not None:
            await self._adk.rewind(run.key, told[at].invocation_id)
            for turn in told[at:]:
                if turn.user_id != run.message.id:
                    chat.answered.discard(turn.user_id)
                    chat.runs.pop(turn.user_id, None)

    async def _is_kept(self, run: Run) -> bool:
        return run.active or await self._log.read(run.id, -1, 0) is not None

    def _left(self, run: Run) -> None:
        """Stop a run that nobody reads any more, if the settings say so."""
        if self.settings.stop_without_reader and not run.readers:
            run.abort_after(self.settings.stop_without_reader)

    def _summary(self, user: str, session: Session) -> views.ChatSummary:
        active = self.running(user, session.id) is not None
        return views.ChatSummary(session.id, views.title_of(session), views.iso(session.last_update_time), active)


def _leftovers(turn: Turn) -> list[Event]:
    """The answers that a stored turn's calls still need: the process that ran it died, or the user goes on."""
    encoder, _ = turn.encoder()
    author = turn.events[-1].author if turn.events else ""
    return seal_leftovers(encoder, author, turn.invocation_id, turn.mark)


def _new_id(kind: str) -> str:
    return f"{kind}-{secrets.token_hex(8)}"
