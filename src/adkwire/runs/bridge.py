"""Bridge: one run per chat; start, answer, follow, stop, history. All the server needs to know of the house below."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from typing import NamedTuple

import msgspec
from google.adk.artifacts import BaseArtifactService
from google.adk.memory import BaseMemoryService
from google.adk.models.base_llm import BaseLlm
from google.adk.sessions import BaseSessionService
from google.adk.sessions.session import Session
from msgspec import UNSET

from adkwire.errors import NotFound, RequestError, Unprocessable
from adkwire.gate.gate import ToolGate
from adkwire.gate.policy import Policy
from adkwire.gate.records import OPEN, AuditEntry, Given, PendingCall
from adkwire.runs import views
from adkwire.runs.adk import Adk, Services, Target, ToolInfo
from adkwire.runs.answering import SETTLED, Answering, Settled
from adkwire.runs.asking import Asking
from adkwire.runs.chats import Chats
from adkwire.runs.direct import Direct
from adkwire.runs.expiry import Expiry
from adkwire.runs.keeper import STOP, Keeper, Stop
from adkwire.runs.lives import DELETED, Lives
from adkwire.runs.news import Item, News
from adkwire.runs.reading import Place, Readers, Reading, first_of
from adkwire.runs.recording import RecordedLog, Recorder
from adkwire.runs.run import Run
from adkwire.runs.sessions import ChatKey
from adkwire.settings import Settings
from adkwire.stores.base import GateStore, RunHead, Signals, StreamLog
from adkwire.stores.memory import MemoryGateStore, MemorySignals, MemoryStreamLog
from adkwire.stores.sqlite import SqliteGateStore
from adkwire.stores.sqlite_signals import SqliteSignals
from adkwire.stores.sqlite_streams import SqliteStreamLog
from adkwire.wire.decoder import TurnInput
from adkwire.wire.failures import explain_briefly, explain_fully
from adkwire.wire.javascript import iso

logger = logging.getLogger("adkwire")

_LOOK_AFTER = 15.0
"""Seconds between two looks for runs whose server is gone."""


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
        policy: Policy | None = None,
        stream_log: StreamLog | None = None,
        gate_store: GateStore | None = None,
        signals: Signals | None = None,
        offline_model: BaseLlm | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings = settings or Settings.load()
        stores = _Stores.of(settings)
        self._signals = signals or stores.signals
        self.recorder = Recorder.of(settings)
        """What writes everything down, if somebody asked for it."""
        log = stream_log or stores.log
        self._log = log if self.recorder is None else RecordedLog(log, self.recorder)
        self._gate = ToolGate(
            gate_store or stores.gate,
            policy or (Policy.load(settings.policy) if settings.policy is not None else Policy()),
            clock=clock,
            timeout=settings.approval_timeout,
            browser_timeout=settings.client_tool_timeout,
            max_output=settings.max_output_bytes,
            worker=self._signals.worker,
            changed=self._changed,
        )
        self._adk = Adk(agent, settings, Services(session_service, artifact_service, memory_service), self._gate)
        self._direct = Direct(self._adk, model=settings.model, offline=offline_model)
        self._explain = explain_fully if settings.error_detail else explain_briefly
        self._clock = clock
        self._chats = Chats()
        self._news = News()
        self._keeper = Keeper(
            settings=settings,
            adk=self._adk,
            gate=self._gate,
            log=self._log,
            chats=self._chats,
            news=self._news,
            explain=self._explain,
            signals=self._signals,
            recorder=self.recorder,
            clock=clock,
        )
        self._readers = Readers(self._keeper)
        self._answering = Answering(self._keeper)
        self._asking = Asking(self._keeper, self._answering)
        self.live = Lives(self._keeper, self._asking, self._answering)
        """The live conversations."""
        self._expiry = Expiry(self._gate, clock)
        self._watching: list[asyncio.Task[None]] = []

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

    @property
    def talks(self) -> bool:
        """Whether the agent can be talked with live."""
        return self._adk.talks

    async def tools(self) -> list[ToolInfo]:
        """What the agent can do."""
        return await self._adk.tools()

    @property
    def direct(self) -> Direct:
        """The model without the agent."""
        return self._direct

    async def start(self, user: str, turn: TurnInput, *, direct: bool = False) -> Run:
        """Run a turn, or find the run that already does: a repeated request never runs twice.

        With `direct` the model answers by itself, without the agent and its tools.
        """
        key = ChatKey(user, turn.chat)
        self._keeper.refuse_when_draining()
        if direct:
            self._direct.check()
        if turn.message is None and turn.answers is not None:
            if direct:
                raise Unprocessable("Answers to calls go to /api/chat: Gemini direct has no tools.")
            return await self._answering.repost(key, turn.answers)
        return await self._asking.start(key, turn, self._direct if direct else self._adk)

    async def answer(self, user: str, chat_id: str, call_id: str, given: Given) -> PendingCall:
        """Answer one call that waits; when it was the last one of its step, the message goes on by itself."""
        return await self._answering.answer(ChatKey(user, chat_id), call_id, given)

    async def stop(self, user: str, chat_id: str, run_id: str | None = None) -> bool:
        """Stop what runs or waits in a chat, or only the named run; says whether there was something to stop."""
        key, stopped = ChatKey(user, chat_id), False
        while True:
            wanted = [run for run in self._chats.active(key) if run_id in (None, run.id)]
            for run in wanted:
                run.abort()
            for run in wanted:
                await run.stop()
            stopped = stopped or bool(wanted)
            elsewhere = await self._keeper.elsewhere(key)
            if (elsewhere is not None and run_id not in (None, elsewhere.run)) or not await self._keeper.is_known(key):
                return stopped
            wish = Stop(user, chat_id, run_id)
            if elsewhere is not None and await self._keeper.stopped_elsewhere(key, elsewhere, wish):
                return True
            async with self._keeper.owned(key, stop=wish) as chat:
                stopped = stopped or elsewhere is not None
                if any(run_id in (None, run.id) for run in chat.active):
                    continue  # One has begun meanwhile.
                newer = chat.active or (run_id is not None and (chat.last is None or chat.last.id != run_id))
                return stopped if newer else await self._keeper.seal(key, chat, "stopped") or stopped

    async def audit(self, user: str, chat_id: str) -> list[AuditEntry]:
        """Who asked, who answered and what came of it, in one chat."""
        await self._existing(ChatKey(user, chat_id))
        return await self._gate.audit(user, chat_id)

    async def news(self, user: str) -> AsyncGenerator[Item | None, None]:
        """What happens in a user's chats from now on; None is a heartbeat."""
        self._keeper.refuse_when_draining()
        async with aclosing(self._news.listen(user, self.settings.heartbeat)) as items:
            async for item in items:
                yield item

    def watch(self) -> None:
        """Look after what was there when this process began: calls that wait, and runs whose server is gone; and
        listen to other workers."""
        self._expiry.start()
        self._watching = self._watching or [
            asyncio.create_task(self._close_crashed(), name="adkwire-crashed"),
            asyncio.create_task(self._obey(STOP, self._stop_here), name="adkwire-stops"),
            asyncio.create_task(self._obey(SETTLED, self._settled_there), name="adkwire-answers"),
        ]

    async def _close_crashed(self) -> None:
        while True:
            heads: list[RunHead] = []
            with contextlib.suppress(RequestError):
                heads = await self._log.unclosed()
            for head in heads:
                try:
                    await self._keeper.elsewhere(ChatKey(head.user, head.chat))
                except Exception:
                    # Whatever is wrong with this one, the others are looked after.
                    logger.exception("run %s was cut off when its server ended, and cannot be closed yet", head.run)
            await asyncio.sleep(_LOOK_AFTER)

    async def _obey(self, topic: str, obey: Callable[[bytes], Awaitable[None]]) -> None:
        """Do what other workers want of this one."""
        while True:
            try:
                async with aclosing(self._signals.listen(topic)) as messages:
                    async for message in messages:
                        await obey(message)
                return
            except (RequestError, msgspec.MsgspecError) as error:
                logger.warning("other workers cannot be heard: %s", error)
                await asyncio.sleep(1)

    async def _stop_here(self, message: bytes) -> None:
        wish = msgspec.json.decode(message, type=Stop)
        self.live.give_up(wish)
        if self.live.keeps(wish):
            return
        for run in self._chats.active(ChatKey(wish.user, wish.chat)):
            if wish.run in (None, run.id):
                run.abort(wish.why)

    async def _settled_there(self, message: bytes) -> None:
        answered = msgspec.json.decode(message, type=Settled)
        call = await self._gate.get(answered.user, answered.chat, answered.call)
        if call is not None:
            self._changed(call)

    def _changed(self, call: PendingCall) -> None:
        self._keeper.changed(call)
        self._adk.holds.changed(ChatKey(call.user, call.chat), call.call)
        self.live.changed(call)
        self._answering.changed(call)
        self._expiry.changed(call)

    def running(self, user: str, chat_id: str) -> Run | None:
        """The run that is writing in a chat, rather one that goes on than one that is being stopped."""
        active = self._written(ChatKey(user, chat_id))
        return next((run for run in active if not run.stopping), active[0] if active else None)

    async def follow(self, user: str, chat_id: str, after: Place | None = None) -> Reading | None:
        """Go on reading in a chat: behind a place, or with nothing of it the answer that is being written, whole.

        None when nothing is being written; a place that is no longer kept is refused as `NotRecovered`.
        """
        key = ChatKey(user, chat_id)
        if after is not None:
            return await self._readers.behind(key, after)
        await self._keeper.meet(key)
        run = self.running(user, chat_id)
        head = run.head if run is not None else await self._keeper.elsewhere(key)
        return None if head is None else self._readers.whole(head)

    def reading(self, run: Run, *, after: int | None = None, whole: bool = False) -> Reading:
        """Read a run from its beginning or from behind a number; `whole` with what its message held before."""
        return self._readers.read(run.head, first_of(run, after, whole=whole))

    async def chats(self, user: str, *, limit: int, before: str | None) -> views.ChatList:
        """The user's chats, newest first."""
        sessions = sorted(await self._adk.all_of(user), key=views.cursor, reverse=True)
        if before is not None:
            sessions = [session for session in sessions if views.cursor(session) < before]
        waiting = Counter(call.chat for call in await self._gate.waiting(user))
        writing = [*(run.head for run in self.writing if not run.waits), *await self._keeper.all_elsewhere(user)]
        active = {head.chat for head in writing if head.user == user}
        page = [views.summary(session, session.id in active, waiting[session.id]) for session in sessions[:limit]]
        more = views.cursor(sessions[limit - 1]) if len(sessions) > limit else UNSET
        return views.ChatList(page, more)

    async def history(
        self, user: str, chat_id: str, *, limit: int | None = None, before: str | None = None
    ) -> views.ChatHistory:
        """A chat with its messages, all or a page of them."""
        key = ChatKey(user, chat_id)
        await self._keeper.meet(key)
        session, writing, calls = await self._as_it_is(key)
        run = self.running(user, chat_id)
        elsewhere = None if run is not None else await self._keeper.elsewhere(key)
        if session is None and run is None:
            raise NotFound("There is no such chat.")
        said = [run.message for run in writing] or ([views.question(session, elsewhere.said)] if elsewhere else [])
        told = views.messages_of(session, said, calls)
        messages, more = views.page(told, limit, before)
        active = run.head if run is not None else elsewhere
        now = iso(self._clock())
        return views.ChatHistory(
            id=chat_id,
            title=views.title_of(session) or (views.title_for(run.message) if run is not None else ""),
            created_at=views.created_at(session) or now,
            updated_at=iso(session.last_update_time) if session is not None else now,
            active=views.ActiveRun(active.run) if active is not None else None,
            messages=messages,
            pending=[views.pending(call) for call in calls if call.state in OPEN],
            next=more,
        )

    async def rename(self, user: str, chat_id: str, title: str) -> views.ChatSummary:
        """Give a chat another title; a running answer owns the session, so its end is awaited first."""
        key = ChatKey(user, chat_id)
        await self._keeper.refuse_when_live_elsewhere(key)
        while True:
            async with self._keeper.owned(key) as chat:
                live = chat.live
                writing = [run for run in chat.active if live is None or not live.carries(run.message_id)]
                if not writing:
                    await self._existing(key)
                    await self._adk.rename(key, title)
                    self._news.publish(user, Item(type="chat-updated", chat=chat_id))
                    waiting = sum(call.chat == chat_id for call in await self._gate.waiting(user))
                    return views.summary(await self._existing(key), False, waiting)
            for run in writing:
                await run.done.wait()

    async def delete(self, user: str, chat_id: str) -> None:
        """Stop what runs in a chat and forget it."""
        key = ChatKey(user, chat_id)
        if not await self._keeper.is_known(key):
            raise NotFound("There is no such chat.")
        async with self._keeper.owned(key, stop=Stop(user, chat_id, why=DELETED)) as chat:
            await self.live.end(chat)
            for run in chat.active:
                await run.stop()
            await self._existing(key)
            await self._gate.void(*key, "stopped")
            await self._gate.forget(*key)
            await self._adk.delete(key)
            await self._log.forget(*key)
            self._chats.forget(key)
        await self._keeper.forget(key)
        self._news.publish(user, Item(type="chat-updated", chat=chat_id))

    async def ready(self) -> bool:
        """Whether a turn could be served now: not draining, and both stores answer."""
        if self._keeper.draining:
            return False
        await self._adk.all_of("adkwire-readiness")
        await self._gate.waiting("adkwire-readiness")
        return True

    @property
    def writing(self) -> list[Run]:
        """All runs that have not ended."""
        return self._chats.all_active()

    async def close(self, *, drain: float | None = None) -> None:
        """Take no more turns, give the running ones their time (as the settings say, or `drain`), stop the rest."""
        await self.drain(self.settings.drain if drain is None else drain)
        async with AsyncExitStack() as last_first:
            if self.recorder is not None:
                last_first.push_async_callback(self.recorder.close)
            for part in (self._log.aclose, self._signals.close, self._gate.close, self._adk.close, self._direct.close):
                last_first.push_async_callback(part)
            for part in (self._keeper.close, self._expiry.close, self._answering.close):
                last_first.push_async_callback(part)
            for task in self._watching:
                task.cancel()
            await asyncio.gather(*self._watching, return_exceptions=True)

    async def drain(self, seconds: float) -> None:
        """Take no more turns, and give the running ones their time; stop the rest."""
        self._keeper.draining = True
        self._news.close()
        await self.live.drain()
        if running := self.writing:
            logger.info("draining: %d runs", len(running))
            waits = [asyncio.create_task(run.done.wait(), name="adkwire-drain") for run in running]
            await asyncio.wait(waits, timeout=seconds)
            for wait in waits:
                wait.cancel()
        await self.live.close()
        await asyncio.gather(*(run.stop() for run in self._chats.all_open()))

    async def _existing(self, key: ChatKey) -> Session:
        session = await self._adk.load(key, recent=0)
        if session is None:
            raise NotFound("There is no such chat.")
        return session

    def _written(self, key: ChatKey) -> list[Run]:
        return [run for run in self._chats.active(key) if not run.waits]

    async def _as_it_is(self, key: ChatKey) -> tuple[Session | None, list[Run], list[PendingCall]]:
        """The session, the runs that are writing into it and the calls at the gate, seen at one moment."""
        while True:
            writing, last = self._written(key), self._chats.last(key)
            session = await self._adk.load(key)
            calls = await self._gate.of(*key)
            if (writing, last) == (self._written(key), self._chats.last(key)):
                return session, writing, calls


class _Stores(NamedTuple):
    """The default stores: one file for all, or memory."""

    log: StreamLog
    gate: GateStore
    signals: Signals

    @classmethod
    def of(cls, settings: Settings) -> "_Stores":
        path = settings.made_db_path()
        ttl, total, each = settings.stream_ttl, settings.stream_bytes, settings.stream_run_bytes
        if path is None:
            log = MemoryStreamLog(ttl=ttl, max_bytes=total, max_run_bytes=each)
            return cls(log, MemoryGateStore(), MemorySignals())
        log = SqliteStreamLog(path, ttl=ttl, max_bytes=total, max_run_bytes=each)
        return cls(log, SqliteGateStore(path), SqliteSignals(path))
