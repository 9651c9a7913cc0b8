"""Bridge: an ADK agent that AI SDK front ends can talk to."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing
from functools import cached_property
from typing import TYPE_CHECKING, TypedDict

from google.adk.artifacts import BaseArtifactService
from google.adk.memory import BaseMemoryService
from google.adk.models.base_llm import BaseLlm
from google.adk.sessions import BaseSessionService

from adkwire.adk.app import Target, ToolInfo
from adkwire.adk.gemini_direct import GeminiDirect
from adkwire.adk.runner import AgentRunner, Services
from adkwire.errors import NotFound, Unavailable, Unprocessable
from adkwire.gate.expiry import Expiry
from adkwire.gate.gate import ToolGate
from adkwire.gate.policy import Policy
from adkwire.gate.records import AuditEntry, CallRecord, UncheckedAnswer
from adkwire.live.conversations import Conversations
from adkwire.recording.recorded_log import RecordedLog
from adkwire.recording.recorder import Recorder
from adkwire.runs import views
from adkwire.runs.chat_events import CallListeners, ChatEvent, ChatEvents, call_event
from adkwire.runs.chats import Chats
from adkwire.runs.continuation import RunContinuer
from adkwire.runs.history import History
from adkwire.runs.ownership import Ownership
from adkwire.runs.readers import Position, Readers, Reading, first_number
from adkwire.runs.run import Run, stop_all
from adkwire.runs.sealing import Sealing
from adkwire.runs.services import RunServices
from adkwire.runs.start import RunStarter
from adkwire.runs.worker_messages import Settled, Stop, handle_all
from adkwire.settings import Settings
from adkwire.stores.base import ChatKey
from adkwire.stores.stores import Stores
from adkwire.tasks import Watchers
from adkwire.wire.decode.decoder import TurnInput
from adkwire.wire.failures import explain_briefly, explain_fully

if TYPE_CHECKING:
    from fastapi import APIRouter
    from starlette.routing import BaseRoute

    from adkwire.server.routes import Routes
    from adkwire.server.security import Authenticate

logger = logging.getLogger("adkwire")

_SEE_LOG = "It is started again automatically. The server's log has the error."


class BridgeOptions(TypedDict, total=False):
    """The options of a `Bridge`."""

    settings: Settings | None
    authenticate: "Authenticate | None"
    session_service: BaseSessionService | None
    artifact_service: BaseArtifactService | None
    memory_service: BaseMemoryService | None
    stores: Stores | None
    policy: Policy | None
    offline_model: BaseLlm | None
    clock: Callable[[], float]


class Bridge:
    """An ADK agent that AI SDK front ends can talk to."""

    def __init__(
        self,
        agent: Target,
        *,
        settings: Settings | None = None,
        authenticate: "Authenticate | None" = None,
        session_service: BaseSessionService | None = None,
        artifact_service: BaseArtifactService | None = None,
        memory_service: BaseMemoryService | None = None,
        stores: Stores | None = None,
        policy: Policy | None = None,
        offline_model: BaseLlm | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings = settings or Settings()
        self._authenticate = authenticate
        stores = stores or Stores.open(settings)
        self.recorder = Recorder.of(settings)
        """Writes every chat to a file; None where recording is off."""
        self._signals = stores.signals
        self._log = stores.log if self.recorder is None else RecordedLog(stores.log, self.recorder)
        self._call_listeners = CallListeners()
        self._gate = ToolGate(
            stores.gate,
            policy or (Policy.load(settings.policy) if settings.policy is not None else Policy()),
            clock=clock,
            timeout=settings.approval_timeout,
            browser_timeout=settings.client_tool_timeout,
            max_output=settings.max_output_bytes,
            worker=stores.signals.worker,
            changed=self._call_listeners,
        )
        adk_services = Services(session_service, artifact_service, memory_service)
        self._runner = AgentRunner(agent, settings, adk_services, self._gate, clock)
        self.direct = GeminiDirect(self._runner, model=settings.model, offline=offline_model)
        """The model without the agent."""
        self._chats = Chats()
        self._events = ChatEvents()
        services = RunServices(
            settings=settings,
            runner=self._runner,
            gate=self._gate,
            log=self._log,
            signals=self._signals,
            chats=self._chats,
            events=self._events,
            explain=explain_fully if settings.error_detail else explain_briefly,
            clock=clock,
            tap=self.recorder.tap if self.recorder is not None else lambda key, source: source,
        )
        self._sealing = Sealing(services)
        self._ownership = Ownership(services, self._sealing)
        self._readers = Readers(services, self._ownership)
        self._history = History(services, self._ownership)
        self._continuer = RunContinuer(services, self._ownership)
        self._starter = RunStarter(services, self._ownership, self._sealing, self._continuer)
        self.live = Conversations(services, self._ownership, self._sealing, self._starter, self._continuer)
        """The live conversations."""
        self._watchers = Watchers()
        self._expiry = Expiry(self._gate, clock, self._watchers)
        self._listen_to_calls()

    def _listen_to_calls(self) -> None:
        """Have every change of a call at the gate reach the parts that wait for it."""
        self._call_listeners.add(
            lambda call: self._events.publish(call.user, call_event(call)),
            lambda call: self._runner.held_calls.changed(ChatKey(call.user, call.chat), call.call),
            self.live.changed,
            self._continuer.changed,
            self._expiry.changed,
        )

    # Routes, for an app of one's own.

    def router(self) -> "APIRouter":
        """Return all routes under `/api`, guarded, for `app.include_router(...)`."""
        from fastapi import APIRouter  # imported here, because `adkwire serve` does not need it

        router = APIRouter(lifespan=self.api.lifespan)
        router.routes.extend(self.routes())
        return router

    def routes(self) -> "list[BaseRoute]":
        """Return the same routes for a plain Starlette app."""
        return self.api.routes()

    @cached_property
    def api(self) -> "Routes":
        """The routes of this bridge, with its open sockets; made on first use."""
        from adkwire.server.routes import Routes

        return Routes(self, self._authenticate, self)

    # The agent.

    @property
    def agent_name(self) -> str:
        """The name of the agent."""
        return self._runner.agent_name

    @property
    def model_name(self) -> str | None:
        """The name of the agent's model; None where it has none."""
        return self._runner.model_name

    @property
    def offline(self) -> bool:
        """True if the agent's model needs no network."""
        return self._runner.offline

    @property
    def supports_live(self) -> bool:
        """True if the agent can hold live conversations."""
        return self._runner.supports_live

    async def tools(self) -> list[ToolInfo]:
        """Return the agent's tools."""
        return await self._runner.tools()

    # Turns.

    async def start(self, user: str, turn: TurnInput, *, direct: bool = False) -> Run:
        """Start the run of a turn, or return the run that an earlier request for it has started: no turn runs twice.

        With `direct` the model answers without the agent and its tools.
        """
        key = ChatKey(user, turn.chat)
        self._ownership.refuse_when_draining()
        if direct:
            self.direct.check()
        if turn.message is None and turn.answers is not None:
            if direct:
                raise Unprocessable("Answers to calls go to /api/chat: Gemini direct has no tools.")
            return await self._continuer.repost(key, turn.answers)
        return await self._starter.start(key, turn, self.direct if direct else self._runner)

    async def answer(self, user: str, chat_id: str, call_id: str, answer: UncheckedAnswer) -> CallRecord:
        """Answer one pending call; when it was the last one of its step, its message continues by itself."""
        return await self._continuer.answer(ChatKey(user, chat_id), call_id, answer)

    async def stop(self, user: str, chat_id: str, run_id: str | None = None) -> bool:
        """Stop the runs and seal the pending calls of a chat, or stop one run; return False if there was nothing."""
        key, stopped = ChatKey(user, chat_id), False
        while True:
            wanted = [run for run in self._chats.active(key) if run_id in (None, run.id)]
            await stop_all(wanted)
            stopped = stopped or bool(wanted)
            elsewhere = await self._ownership.run_elsewhere(key)
            if elsewhere is not None and run_id not in (None, elsewhere.run):
                return stopped
            if not await self._ownership.exists(key):
                return stopped
            wish = Stop(user, chat_id, run_id)
            if elsewhere is not None and await self._ownership.stop_elsewhere(key, elsewhere, wish):
                return True
            async with self._ownership.owned(key, stop=wish) as chat:
                stopped = stopped or elsewhere is not None
                if any(run_id in (None, run.id) for run in chat.active):
                    continue  # A run has begun meanwhile, which is stopped, too.
                newer = chat.active or (run_id is not None and (chat.last is None or chat.last.id != run_id))
                return stopped if newer else await self._sealing.seal(key, chat, "stopped") or stopped

    # Readers.

    def running(self, user: str, chat_id: str) -> Run | None:
        """Return the run that writes in a chat on this worker; one that is being stopped only if there is no other."""
        return self._chats.running(ChatKey(user, chat_id))

    async def follow(
        self, user: str, chat_id: str, after: Position | None = None, *, run: str | None = None
    ) -> Reading | None:
        """Read the chunks after a position; without one, a whole message: of `run`, or the one that is being written.

        Return None when nothing is named and nothing is being written. A position or a run that is no longer kept
        raises `NotRecovered`.
        """
        key = ChatKey(user, chat_id)
        if after is not None:
            return await self._readers.after(key, after)
        if run is not None:
            return await self._readers.message_of(key, run)
        await self._ownership.load_when_new(key)
        writing = self.running(user, chat_id)
        head = writing.head if writing is not None else await self._ownership.run_elsewhere(key)
        return None if head is None else self._readers.whole(head)

    def reading(self, run: Run, *, after: int | None = None, whole: bool = False) -> Reading:
        """Read a run from its beginning or after a number; with `whole` also what earlier runs wrote in its message."""
        return self._readers.read(run.head, first_number(run, after, whole=whole))

    async def events(self, user: str) -> AsyncGenerator[ChatEvent | None, None]:
        """Yield the chat events of a user from now on; None is a heartbeat."""
        self._ownership.refuse_when_draining()
        async with aclosing(self._events.listen(user, self.settings.heartbeat)) as items:
            async for item in items:
                yield item

    # Chats.

    async def chats(self, user: str, *, limit: int, before: str | None) -> views.ChatList:
        """Return a page of the user's chats, newest first."""
        return await self._history.chats(user, limit=limit, before=before)

    async def history(
        self, user: str, chat_id: str, *, limit: int | None = None, before: str | None = None
    ) -> views.ChatHistory:
        """Return a chat with its messages, all or a page of them."""
        return await self._history.messages(ChatKey(user, chat_id), limit=limit, before=before)

    async def audit(self, user: str, chat_id: str) -> list[AuditEntry]:
        """Return who asked, who answered and the outcome of each call of a chat."""
        await self._history.session(ChatKey(user, chat_id))
        return await self._gate.audit(user, chat_id)

    async def grants(self, user: str, *, limit: int, before: int | None) -> views.GrantList:
        """Return a page of the user's standing grants, newest first."""
        return await self._history.grants(user, limit=limit, before=before)

    async def revoke(self, user: str, grant_id: int) -> None:
        """Take a standing grant of the user back: the next call that it covered asks again."""
        await self._gate.revoke(user, grant_id)

    async def recording(self, user: str, chat_id: str) -> AsyncGenerator[bytes, None]:
        """Return the recording of a chat in blocks. ADK's events are left out where clients may not read errors."""
        if self.recorder is None:
            raise NotFound("This server does not record chats.", hint="Start it with --record DIR.")
        key = ChatKey(user, chat_id)
        await self._history.session(key)
        lines = await self.recorder.lines(key, events=self.settings.error_detail)
        if lines is None:
            raise NotFound("Nothing of this chat is recorded.", hint="Only what is said while --record is on is.")
        return lines

    async def rename(self, user: str, chat_id: str, title: str) -> views.ChatSummary:
        """Set the title of a chat. A running turn owns the session, so its end is awaited first."""
        key = ChatKey(user, chat_id)
        await self._ownership.refuse_when_live_elsewhere(key)
        while True:
            async with self._ownership.owned(key) as chat:
                live = chat.live
                writing = [run for run in chat.active if live is None or not live.writes(run.message_id)]
                if not writing:
                    await self._history.session(key)
                    await self._runner.rename(key, title)
                    self._events.publish(user, ChatEvent(type="chat-updated", chat=chat_id))
                    return await self._history.summary(key)
            for run in writing:
                await run.done.wait()

    async def delete(self, user: str, chat_id: str) -> None:
        """Stop the runs of a chat and delete it."""
        key = ChatKey(user, chat_id)
        if not await self._ownership.exists(key):
            raise NotFound("There is no such chat.")
        async with self._ownership.owned(key, stop=Stop(user, chat_id, why="deleted")) as chat:
            await self.live.end(chat)
            await stop_all(chat.active)
            await self._history.session(key)
            await self._gate.void(*key, "stopped")
            await self._gate.forget(*key)
            await self._runner.delete(key)
            await self._log.forget(*key)
            self._chats.forget(key)
        await self._ownership.forget(key)
        self._events.publish(user, ChatEvent(type="chat-updated", chat=chat_id))

    # The process.

    def watch(self) -> None:
        """Start the background tasks: expiry, the search for runs of dead workers, messages of other workers."""
        self._expiry.start()
        self._watchers.start("crashed-runs", self._ownership.close_crashed_runs)
        self._watchers.start("stops", lambda: handle_all(self._signals, Stop, self._stop_here))
        self._watchers.start("answers", lambda: handle_all(self._signals, Settled, self._settled_there))

    async def _stop_here(self, wish: Stop) -> None:
        self.live.handle_stop(wish)
        if self.live.ignores_stop(wish):
            return
        for run in self._chats.active(ChatKey(wish.user, wish.chat)):
            if wish.run in (None, run.id):
                run.abort(wish.why)

    async def _settled_there(self, answered: Settled) -> None:
        call = await self._gate.get(answered.user, answered.chat, answered.call)
        if call is not None and call.worker != self._gate.worker:
            self._call_listeners(call)

    async def ready(self) -> bool:
        """Return False while the server drains; raise `Unavailable` when a store or a watcher does not work."""
        if self._ownership.draining:
            return False
        if gone := self._watchers.gone:
            raise Unavailable(f"A background task of this server has failed: {', '.join(gone)}.", hint=_SEE_LOG)
        await self._runner.all_of("adkwire-readiness")
        await self._gate.waiting("adkwire-readiness")
        return True

    @property
    def active_runs(self) -> list[Run]:
        """All runs that have not ended."""
        return self._chats.all_active()

    async def close(self, *, drain: float | None = None) -> None:
        """Refuse new turns, wait up to `drain` seconds (by default as set) for running ones, and close everything."""
        seconds = self.settings.drain if drain is None else drain
        # A socket is closed when the runs that it follows have ended.
        await (self.api.drain(seconds) if "api" in self.__dict__ else self.drain(seconds))
        async with AsyncExitStack() as last_first:
            if self.recorder is not None:
                last_first.push_async_callback(self.recorder.close)
            for part in (
                self._log.aclose,
                self._signals.close,
                self._gate.close,
                self._runner.close,
                self.direct.close,
            ):
                last_first.push_async_callback(part)
            for part in (self._ownership.close, self._continuer.close, self._watchers.close):
                last_first.push_async_callback(part)

    async def drain(self, seconds: float) -> None:
        """Refuse new turns, wait up to so many seconds for the running ones, and stop the rest."""
        self._ownership.drain()
        self._events.close()
        await self.live.drain()
        if running := self.active_runs:
            logger.info("draining: %d runs", len(running))
            waits = [asyncio.create_task(run.done.wait(), name="adkwire-drain") for run in running]
            await asyncio.wait(waits, timeout=seconds)
            for wait in waits:
                wait.cancel()
        await self.live.close()
        await asyncio.gather(*(run.stop() for run in self._chats.all_open()))
