"""AgentRunner: runs turns of an agent on ADK sessions, streamed or live, and reads and writes those sessions."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from google.adk.agents import LlmAgent
from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.apps import App
from google.adk.artifacts import BaseArtifactService, InMemoryArtifactService
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.memory import BaseMemoryService
from google.adk.models.base_llm import BaseLlm
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from google.adk.telemetry.context import TelemetryConfig
from google.genai import types

from adkwire.adk.app import Target, ToolInfo, app_around, live_app, live_config, streaming_config, tools_of
from adkwire.adk.events import (
    answer_event,
    is_released,
    output_part,
    output_stamp,
    verdict_event,
    verdict_part,
    verdict_stamp,
)
from adkwire.adk.gate_plugin import GatePlugin
from adkwire.adk.held_calls import HOLDING_RUN, HeldCalls
from adkwire.adk.sessions import EventStamper, SqliteSessions, StampedSessions
from adkwire.adk.stamps import add_stamp
from adkwire.adk.turns import Turn, turns
from adkwire.errors import ConfigError, Unavailable
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import CallRecord
from adkwire.settings import Settings
from adkwire.stores.base import ChatKey
from adkwire.stores.outages import is_outage
from adkwire.wire.decode.decoder import UserMessage
from adkwire.wire.encode.event_parts import OWN_STATE_PREFIX
from adkwire.wire.media import Media

logger = logging.getLogger("adkwire")

TITLE = f"{OWN_STATE_PREFIX}title"
CREATED = f"{OWN_STATE_PREFIX}created"
_RESTORED = "adkwire-restored"

Stamp: TypeAlias = dict[str, Any]
"""What is stamped on events."""


class Services(NamedTuple):
    """ADK's services; adkwire's default stands in for each that is None."""

    session: BaseSessionService | None = None
    artifact: BaseArtifactService | None = None
    memory: BaseMemoryService | None = None


class AgentRunner:
    """An agent, an app or a workflow, ready to run turns on ADK sessions."""

    def __init__(
        self,
        target: Target,
        settings: Settings,
        services: Services,
        gate: ToolGate,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._target = target.root_agent if isinstance(target, App) else target
        self._settings = settings
        self._sessions = StampedSessions(services.session or _default_sessions(settings), clock)
        self.held_calls = HeldCalls(gate, settings)
        """Calls of live runs that wait in this process."""
        self._plugin = GatePlugin(gate, self.held_calls, self._sessions, detail=settings.error_detail)
        self._app = app_around(target, settings.events_per_second, self._plugin)
        self._artifacts = services.artifact or InMemoryArtifactService()
        self._memory = services.memory
        self._runner = self._made_runner(self._app)
        self._live_runner: Runner | None = None
        self._telemetry = TelemetryConfig()

    def _made_runner(self, app: App) -> Runner:
        return Runner(
            app=app,
            session_service=self._sessions,
            artifact_service=self._artifacts,
            memory_service=self._memory,
        )

    @property
    def agent_name(self) -> str:
        """The name of the root agent."""
        return self._target.name if self._target is not None else self._app.name

    @property
    def model(self) -> BaseLlm | None:
        """The model of the root agent; None for a workflow."""
        return self._target.canonical_model if isinstance(self._target, LlmAgent) else None

    @property
    def model_name(self) -> str | None:
        """The name of that model."""
        return self.model.model if self.model is not None else None

    @property
    def offline(self) -> bool:
        """True when the model declares that it needs no network."""
        return getattr(self.model, "offline", False) is True

    @property
    def supports_live(self) -> bool:
        """True when the root is an agent whose model has live connections."""
        if not isinstance(self._target, LlmAgent):
            return False
        return type(self._target.canonical_live_model).connect is not BaseLlm.connect

    def turn(
        self, key: ChatKey, message: UserMessage, stamp: Stamp, abort: asyncio.Event
    ) -> AsyncGenerator[Event, None]:
        """Run one user message and yield ADK's events; what is stored of them is stamped with `stamp`."""
        return self._run(key, content_of(message), stamp, abort, {})

    async def go_on(
        self,
        key: ChatKey,
        calls: Sequence[CallRecord],
        with_verdict: Collection[str],
        stamp: Stamp,
        abort: asyncio.Event,
    ) -> AsyncGenerator[Event, None]:
        """Give the agent the answers to all calls of its last step and yield what it does with them.

        `with_verdict` are the calls whose verdict is in the session. Of agents side by side ADK wakes only one by a
        message, so each gets its answers by itself.
        """
        for branch in dict.fromkeys(call.branch for call in calls):
            if abort.is_set():
                return
            answers = [call for call in calls if call.branch == branch]
            async with contextlib.aclosing(self._answer(key, answers, with_verdict, stamp, abort)) as events:
                async for event in events:
                    yield event

    async def _answer(
        self,
        key: ChatKey,
        calls: Sequence[CallRecord],
        with_verdict: Collection[str],
        stamp: Stamp,
        abort: asyncio.Event,
    ) -> AsyncGenerator[Event, None]:
        """Give one agent its answers and yield what it does with them.

        ADK loses a browser's output that comes in one message with a verdict, and would execute a browser call if it
        got the approval of it: both are stored as events of our own.
        """
        outputs = [call for call in calls if is_released(call)]
        verdicts = [call for call in calls if not is_released(call)]
        own_events = [verdict_event(call, stamp) for call in outputs if call.ask and call.call not in with_verdict]
        if verdicts:
            own_events += [answer_event(call, output_part(call), {**stamp, **output_stamp([call])}) for call in outputs]
        for event in own_events:
            await self.append(key, [event])
            yield event
        parts = [verdict_part(call) for call in verdicts] or [output_part(call) for call in outputs]
        content = types.Content(role="user", parts=parts)
        user_stamp = {**verdict_stamp(verdicts), **output_stamp(outputs)}
        # Not every kind of agent makes ADK yield the user's event, so it is shown from here.
        yield Event(author="user", content=content, custom_metadata=add_stamp(None, {**stamp, **user_stamp}))
        async with contextlib.aclosing(self._run(key, content, stamp, abort, user_stamp)) as events:
            async for event in events:
                yield event

    async def _run(
        self, key: ChatKey, content: types.Content, stamp: Stamp, abort: asyncio.Event, user_stamp: Stamp
    ) -> AsyncGenerator[Event, None]:
        # The task may have been started by a live conversation, which this run is not part of.
        HOLDING_RUN.set(None)
        events = self._runner.run_async(
            user_id=key.user,
            session_id=key.chat,
            new_message=content,
            run_config=streaming_config(self._telemetry),
            abort_signal=abort,
        )
        with self._sessions.stamping(key, stamp, user_stamp):
            async with contextlib.aclosing(events):
                async for event in events:
                    yield event

    def stamping(self, key: ChatKey, stamp: Stamp) -> contextlib.AbstractContextManager[None]:
        """Stamp what is stored in a chat with `stamp`, as long as this lasts."""
        return self._sessions.stamping(key, stamp)

    def now(self, key: ChatKey) -> float:
        """Return the time of an event that is shown in a chat and not stored."""
        return self._sessions.now(key)

    async def live(self, key: ChatKey, queue: LiveRequestQueue, stamper: EventStamper) -> AsyncGenerator[Event, None]:
        """Run live and yield ADK's events until the queue is closed or the model ends it."""
        if self._live_runner is None:
            self._live_runner = self._made_runner(live_app(self._app))
        events = self._live_runner.run_live(
            user_id=key.user,
            session_id=key.chat,
            live_request_queue=queue,
            run_config=live_config(self._settings, self._telemetry),
        )
        with self._sessions.live(key, stamper) as live:
            try:
                async with contextlib.aclosing(events):
                    async for event in events:
                        yield event
            finally:
                self._plugin.records.forget(live.invocation)

    async def hand_over(
        self, key: ChatKey, calls: Sequence[CallRecord], with_verdict: Collection[str], stamp: Stamp
    ) -> list[Event]:
        """Store the answers to parked calls, which a live run reads when it begins; return the stored events."""
        outputs = [call for call in calls if is_released(call)]
        verdicts = [call for call in calls if not is_released(call)]
        events = [verdict_event(call, stamp) for call in outputs if call.ask and call.call not in with_verdict]
        events += [answer_event(call, output_part(call), {**stamp, **output_stamp([call])}) for call in outputs]
        for branch in dict.fromkeys(call.branch for call in verdicts):
            answered = [call for call in verdicts if call.branch == branch]
            event = answer_event(answered[0], verdict_part(answered[0]), {**stamp, **verdict_stamp(answered)})
            event.content = types.Content(role="user", parts=[verdict_part(call) for call in answered])
            events.append(event)
        await self.append(key, events)
        return events

    def result_of(self, invocation_id: str, call_id: str) -> dict[str, Any] | None:
        """Return the result of a call of a run that ADK has not stored."""
        return self._plugin.records.result_of(invocation_id, call_id)

    def forget(self, invocation_id: str) -> None:
        """Drop what is kept of a run that has ended."""
        self._plugin.records.forget(invocation_id)

    async def load(self, key: ChatKey, *, recent: int | None = None) -> Session | None:
        """Return the session of a chat, whole or with its newest events only; None when there is none."""
        config = None if recent is None else GetSessionConfig(num_recent_events=recent)
        with _store_errors():
            return await self._sessions.get_session(
                app_name=self._app.name, user_id=key.user, session_id=key.chat, config=config
            )

    async def turns(self, key: ChatKey) -> list[Turn]:
        """Return the turns of a chat, as its session has them; none when there is no session."""
        session = await self.load(key)
        return turns(session.events) if session is not None else []

    async def exists(self, key: ChatKey) -> bool:
        """Return whether the chat has a session."""
        return await self.load(key, recent=0) is not None

    async def create(self, key: ChatKey, *, title: str, created: float) -> None:
        """Create the session of a new chat; do nothing when another request was faster."""
        with contextlib.suppress(AlreadyExistsError), _store_errors():
            await self._sessions.create_session(
                app_name=self._app.name,
                user_id=key.user,
                session_id=key.chat,
                state={TITLE: title, CREATED: created},
            )

    async def all_of(self, user: str) -> list[Session]:
        """Return the user's sessions without their events."""
        with _store_errors():
            found = await self._sessions.list_sessions(app_name=self._app.name, user_id=user)
        return found.sessions

    async def delete(self, key: ChatKey) -> None:
        """Delete the session of a chat and the artifacts of this session."""
        place = {"app_name": self._app.name, "user_id": key.user, "session_id": key.chat}
        with _store_errors():
            for name in await self._artifacts.list_artifact_keys(**place):
                if not name.startswith("user:"):
                    await self._artifacts.delete_artifact(**place, filename=name)
            await self._sessions.delete_session(**place)

    async def rewind(self, key: ChatKey, invocation_id: str) -> None:
        """Rewind a chat to before an invocation: its events and all later ones are no longer part of the chat."""
        session = await self.load(key)
        await self._runner.rewind_async(
            user_id=key.user, session_id=key.chat, rewind_before_invocation_id=invocation_id
        )
        if session is not None and (state := _initial_state(session)):
            await self.append(key, [_restoring(state)])

    async def append(self, key: ChatKey, events: Iterable[Event]) -> None:
        """Store events of our own, with the session handle of a live run or, while nothing runs, with a fresh one."""
        session = self._sessions.handle(key) or await self.load(key, recent=0)
        if session is not None:
            with _store_errors():
                for event in events:
                    await self._sessions.append_event(session, event)

    async def rename(self, key: ChatKey, title: str) -> None:
        """Give a chat another title."""
        titled = EventActions(state_delta={TITLE: title})
        await self.append(key, [Event(author="user", actions=titled, custom_metadata=add_stamp(None, {"aside": True}))])

    async def tools(self) -> list[ToolInfo]:
        """Return the tools of the whole agent tree, each name once."""
        return await tools_of(self._target)

    async def close(self) -> None:
        """Close toolsets, plugins and the session store."""
        await self._runner.close()
        await self._sessions.close()


@contextlib.contextmanager
def _store_errors() -> Generator[None, None, None]:
    """Raise `Unavailable` when the session store is out of order; an exception that means a bug passes as it is."""
    try:
        yield
    except AlreadyExistsError:
        raise
    except Exception as error:
        # ADK's own exceptions are no bugs, though some are ValueErrors: a session was changed or deleted meanwhile.
        if not is_outage(error) and not type(error).__module__.startswith("google.adk."):
            raise
        logger.warning("the session store failed: %s", type(error).__name__, exc_info=error)
        raise Unavailable("The session store does not answer.", hint="Try again in a moment.") from error


def _initial_state(session: Session) -> dict[str, Any]:
    """Return the state that the session was created with: ADK's rewind resets it, since no event has set it."""
    set_by_events = {name for event in session.events if not _is_restoring(event) for name in event.actions.state_delta}
    return {
        name: value
        for name, value in session.state.items()
        if name.startswith(OWN_STATE_PREFIX)
        or (name not in set_by_events and not name.startswith((State.APP_PREFIX, State.USER_PREFIX)))
    }


def _restoring(state: dict[str, Any]) -> Event:
    return Event(author="user", actions=EventActions(state_delta=state), custom_metadata={_RESTORED: True})


def _is_restoring(event: Event) -> bool:
    return bool((event.custom_metadata or {}).get(_RESTORED))


def _default_sessions(settings: Settings) -> BaseSessionService:
    path = settings.db_path
    if path is None:
        return InMemorySessionService()
    try:
        return SqliteSessions(str(path))
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"Cannot keep chats in {path}: {error}. Choose another file with --db.") from None


def content_of(message: UserMessage) -> types.Content:
    """Return a user's message in ADK's form."""
    return types.Content(role="user", parts=[_part(part) for part in message.parts])


def _part(part: str | Media) -> types.Part:
    if isinstance(part, str):
        return types.Part(text=part)
    blob = types.Blob(data=part.data, mime_type=part.media_type, display_name=part.filename)
    return types.Part(inline_data=blob)
