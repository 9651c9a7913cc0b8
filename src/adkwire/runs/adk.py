"""The only caller of ADK: App, Runner, sessions, rewind, plugin. Every quirk of a version lives here."""

import asyncio
import contextlib
import importlib
import importlib.util
import logging
import sys
import warnings
from collections.abc import AsyncGenerator, Collection, Generator, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.agents.run_config import RunConfig, StreamingMode  # pyright: ignore[reportPrivateImportUsage]
from google.adk.apps import App, ResumabilityConfig
from google.adk.artifacts import BaseArtifactService, InMemoryArtifactService
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.memory import BaseMemoryService
from google.adk.models.base_llm import BaseLlm
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from google.adk.telemetry.context import TelemetryConfig
from google.adk.tools.base_tool import BaseTool
from google.adk.workflow import BaseNode
from google.genai import types

from adkwire.errors import ConfigError, Unavailable
from adkwire.gate.client_tool import ClientTool
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import PendingCall
from adkwire.runs.dispatch import live_agent
from adkwire.runs.gated import schema_of
from adkwire.runs.held_calls import HeldCalls
from adkwire.runs.history import marked
from adkwire.runs.holding import HOLDER, Holds
from adkwire.runs.own_events import (
    answer_event,
    is_released,
    output_part,
    shapes_of,
    verdict_event,
    verdict_part,
    verdicts_of,
)
from adkwire.runs.pacing import paced_agent
from adkwire.runs.plugin import GatePlugin
from adkwire.runs.sessions import ChatKey, MarkedSessions, Scribe, SqliteSessions
from adkwire.settings import Settings
from adkwire.wire.decoder import UserMessage
from adkwire.wire.encoder import OWN_STATE
from adkwire.wire.media import Media

logger = logging.getLogger("adkwire")

TITLE = f"{OWN_STATE}title"
CREATED = f"{OWN_STATE}created"
_RESTORED = "adkwire-restored"

# ADK tries this optional import on every turn and Python does not remember failures: it costs a third of a short turn.
if importlib.util.find_spec("a2a") is None:
    sys.modules.setdefault("google.adk.agents.remote_a2a_agent", None)  # pyright: ignore[reportArgumentType]


Target: TypeAlias = BaseNode | App
"""What can be served: an agent, a workflow, or an app around one."""
Mark: TypeAlias = dict[str, Any]
"""What is stamped on events."""


class Services(NamedTuple):
    """ADK's own services; what is None gets adkwire's default."""

    session: BaseSessionService | None = None
    artifact: BaseArtifactService | None = None
    memory: BaseMemoryService | None = None


class ToolInfo(NamedTuple):
    """What `/api/info` says about a tool."""

    name: str
    kind: Literal["server", "client"]
    asks: bool
    """Whether it asks a person before it runs, always or depending on its arguments."""
    schema: dict[str, Any] | None


class Adk:
    """An agent, an app or a workflow, ready to run turns on ADK sessions."""

    def __init__(self, target: Target, settings: Settings, services: Services, gate: ToolGate) -> None:
        self._target = target.root_agent if isinstance(target, App) else target
        self._settings = settings
        self._sessions = MarkedSessions(services.session or _default_sessions(settings))
        self.holds = Holds(gate)
        """Those who wait in live runs."""
        held = HeldCalls(gate, self.holds, settings)
        self._plugin = GatePlugin(gate, held, self._sessions, detail=settings.error_detail)
        self._app = _prepared(target, settings.events_per_second, self._plugin)
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
        """The name of the agent that answers."""
        return self._target.name if self._target is not None else self._app.name

    @property
    def model(self) -> BaseLlm | None:
        """The model of the root agent; None for a workflow."""
        return self._target.canonical_model if isinstance(self._target, LlmAgent) else None

    @property
    def model_name(self) -> str | None:
        """Its name."""
        return self.model.model if self.model is not None else None

    @property
    def offline(self) -> bool:
        """Whether the model says of itself that it needs no network."""
        return getattr(self.model, "offline", False) is True

    @property
    def talks(self) -> bool:
        """Whether it can run live: an agent, whose model has a live side."""
        if not isinstance(self._target, LlmAgent):
            return False
        return type(self._target.canonical_live_model).connect is not BaseLlm.connect

    def turn(self, key: ChatKey, message: UserMessage, mark: Mark, abort: asyncio.Event) -> AsyncGenerator[Event, None]:
        """Run one user message and yield ADK's events; what is stored of them is stamped with `mark`."""
        return self._run(key, content_of(message), mark, abort, {})

    async def go_on(
        self, key: ChatKey, calls: Sequence[PendingCall], told: Collection[str], mark: Mark, abort: asyncio.Event
    ) -> AsyncGenerator[Event, None]:
        """Give the agent the answers to all calls of its last step and yield what it does with them.

        `told` are the calls whose verdict the session has. Of agents side by side ADK wakes only one by a message, so
        each gets its answers by itself.
        """
        for branch in dict.fromkeys(call.branch for call in calls):
            if abort.is_set():
                return
            answers = [call for call in calls if call.branch == branch]
            async with contextlib.aclosing(self._answer(key, answers, told, mark, abort)) as events:
                async for event in events:
                    yield event

    async def _answer(
        self, key: ChatKey, calls: Sequence[PendingCall], told: Collection[str], mark: Mark, abort: asyncio.Event
    ) -> AsyncGenerator[Event, None]:
        """ADK loses a browser's output that comes in one message with a verdict, and must not be given the approval of
        a browser call, which it would take for the order to run it: both are put into the session beside it."""
        outputs = [call for call in calls if is_released(call)]
        verdicts = [call for call in calls if not is_released(call)]
        beside = [verdict_event(call, mark) for call in outputs if call.ask and call.call not in told]
        if verdicts:
            beside += [answer_event(call, output_part(call), {**mark, **shapes_of([call])}) for call in outputs]
        for event in beside:
            await self.append(key, [event])
            yield event
        parts = [verdict_part(call) for call in verdicts] or [output_part(call) for call in outputs]
        content = types.Content(role="user", parts=parts)
        said = {**verdicts_of(verdicts), **shapes_of(outputs)}
        # Not every kind of agent makes ADK yield the user's event, so it is shown from here.
        yield Event(author="user", content=content, custom_metadata=marked(None, {**mark, **said}))
        async with contextlib.aclosing(self._run(key, content, mark, abort, said)) as events:
            async for event in events:
                yield event

    async def _run(
        self, key: ChatKey, content: types.Content, mark: Mark, abort: asyncio.Event, said: Mark
    ) -> AsyncGenerator[Event, None]:
        # Whatever has led here, a live conversation has no part in what comes.
        HOLDER.set(None)
        events = self._runner.run_async(
            user_id=key.user,
            session_id=key.chat,
            new_message=content,
            run_config=RunConfig(streaming_mode=StreamingMode.SSE, telemetry=self._telemetry),
            abort_signal=abort,
        )
        with self._sessions.marking(key, mark, said):
            async with contextlib.aclosing(events):
                async for event in events:
                    yield event

    async def live(self, key: ChatKey, queue: LiveRequestQueue, scribe: Scribe) -> AsyncGenerator[Event, None]:
        """Run live and yield ADK's events until the queue is closed or the model ends it."""
        if self._live_runner is None:
            self._live_runner = self._made_runner(_live(self._app))
        events = self._live_runner.run_live(
            user_id=key.user,
            session_id=key.chat,
            live_request_queue=queue,
            run_config=_live_config(self._settings, self._telemetry),
        )
        with self._sessions.live(key, scribe) as live:
            try:
                async with contextlib.aclosing(events):
                    async for event in events:
                        yield event
            finally:
                self._plugin.forget(live.invocation)

    async def hand_over(
        self, key: ChatKey, calls: Sequence[PendingCall], told: Collection[str], mark: Mark
    ) -> list[Event]:
        """Put the answers to parked calls into the session, where a live run finds them when it begins."""
        outputs = [call for call in calls if is_released(call)]
        verdicts = [call for call in calls if not is_released(call)]
        events = [verdict_event(call, mark) for call in outputs if call.ask and call.call not in told]
        events += [answer_event(call, output_part(call), {**mark, **shapes_of([call])}) for call in outputs]
        for branch in dict.fromkeys(call.branch for call in verdicts):
            given = [call for call in verdicts if call.branch == branch]
            event = answer_event(given[0], verdict_part(given[0]), {**mark, **verdicts_of(given)})
            event.content = types.Content(role="user", parts=[verdict_part(call) for call in given])
            events.append(event)
        await self.append(key, events)
        return events

    def result_of(self, invocation_id: str, call_id: str) -> dict[str, Any] | None:
        """What a call of a run gave that the session does not hold."""
        return self._plugin.result_of(invocation_id, call_id)

    def forget(self, invocation_id: str) -> None:
        """The run of this invocation is over."""
        self._plugin.forget(invocation_id)

    async def load(self, key: ChatKey, *, recent: int | None = None) -> Session | None:
        """The session of a chat, whole or with its newest events only; None when there is none."""
        config = None if recent is None else GetSessionConfig(num_recent_events=recent)
        with _store_errors():
            return await self._sessions.get_session(
                app_name=self._app.name, user_id=key.user, session_id=key.chat, config=config
            )

    async def create(self, key: ChatKey, *, title: str, created: float) -> None:
        """Make the session of a new chat; that another request was faster is fine."""
        with contextlib.suppress(AlreadyExistsError), _store_errors():
            await self._sessions.create_session(
                app_name=self._app.name,
                user_id=key.user,
                session_id=key.chat,
                state={TITLE: title, CREATED: created},
            )

    async def all_of(self, user: str) -> list[Session]:
        """The user's sessions without their events."""
        with _store_errors():
            found = await self._sessions.list_sessions(app_name=self._app.name, user_id=user)
        return found.sessions

    async def delete(self, key: ChatKey) -> None:
        """Forget a chat and the artifacts that are its own."""
        place = {"app_name": self._app.name, "user_id": key.user, "session_id": key.chat}
        with _store_errors():
            for name in await self._artifacts.list_artifact_keys(**place):
                if not name.startswith("user:"):
                    await self._artifacts.delete_artifact(**place, filename=name)
            await self._sessions.delete_session(**place)

    async def rewind(self, key: ChatKey, invocation_id: str) -> None:
        """Go back to before an invocation: its events and all after it are no longer part of the chat."""
        session = await self.load(key)
        await self._runner.rewind_async(
            user_id=key.user, session_id=key.chat, rewind_before_invocation_id=invocation_id
        )
        if session is not None and (state := _initial_state(session)):
            await self.append(key, [_restoring(state)])

    async def append(self, key: ChatKey, events: Iterable[Event]) -> None:
        """Write events of our own: with the handle of a live run, or, while no run has the session, with a fresh one
        for all of them."""
        session = self._sessions.handle(key) or await self.load(key, recent=0)
        if session is not None:
            with _store_errors():
                for event in events:
                    await self._sessions.append_event(session, event)

    async def rename(self, key: ChatKey, title: str) -> None:
        """Give a chat another title."""
        titled = EventActions(state_delta={TITLE: title})
        await self.append(key, [Event(author="user", actions=titled, custom_metadata=marked(None, {"aside": True}))])

    async def tools(self) -> list[ToolInfo]:
        """The tools of the whole agent tree, each name once."""
        found: dict[str, ToolInfo] = {}
        for agent in agents_in(self._target):
            if isinstance(agent, LlmAgent):
                for tool in await agent.canonical_tools():
                    found.setdefault(tool.name, _tool_info(tool))
        return list(found.values())

    async def close(self) -> None:
        """Let go of toolsets, plugins and the session store."""
        await self._runner.close()
        await self._sessions.close()


@contextlib.contextmanager
def _store_errors() -> Generator[None, None, None]:
    """Whatever a session service raises means to a client that the store is away."""
    try:
        yield
    except AlreadyExistsError:
        raise
    except Exception as error:
        logger.warning("the session store failed: %s", type(error).__name__, exc_info=error)
        raise Unavailable("The session store does not answer.", hint="Try again in a moment.") from error


def _initial_state(session: Session) -> dict[str, Any]:
    """State that came with the session: ADK's rewind resets what no event has set, so it must be put back."""
    set_by_events = {name for event in session.events if not _is_restoring(event) for name in event.actions.state_delta}
    return {
        name: value
        for name, value in session.state.items()
        if name.startswith(OWN_STATE)
        or (name not in set_by_events and not name.startswith((State.APP_PREFIX, State.USER_PREFIX)))
    }


def _restoring(state: dict[str, Any]) -> Event:
    return Event(author="user", actions=EventActions(state_delta=state), custom_metadata={_RESTORED: True})


def _is_restoring(event: Event) -> bool:
    return bool((event.custom_metadata or {}).get(_RESTORED))


def _prepared(target: Target, rate: float, plugin: BasePlugin) -> App:
    """The user's app, or one around the agent, with our plugin, able to pause and resume."""
    root = target.root_agent if isinstance(target, App) else target
    if root is not None and root.name == "user":
        raise ConfigError("An agent or workflow may not be called `user`: in ADK's events that is the person.")
    app = target if isinstance(target, App) else App(name=target.name, root_agent=target)
    if rate and isinstance(root, BaseAgent):
        root = paced_agent(root, rate)
    return app.model_copy(
        update={
            "root_agent": root,
            "plugins": [*app.plugins, plugin],
            "resumability_config": _resumable(),
        }
    )


def _live(app: App) -> App:
    root = app.root_agent
    return app.model_copy(update={"root_agent": live_agent(root)}) if isinstance(root, BaseAgent) else app


def _live_config(settings: Settings, telemetry: TelemetryConfig) -> RunConfig:
    """Whoever speaks says when: with the model listening for it, a pause in thought would be the end of a sentence, and
    what a button means would have to be guessed."""
    spoken = types.AutomaticActivityDetection(disabled=True)
    return RunConfig(
        response_modalities=[types.Modality.AUDIO if settings.live_modality == "audio" else types.Modality.TEXT],
        realtime_input_config=types.RealtimeInputConfig(automatic_activity_detection=spoken),
        session_resumption=types.SessionResumptionConfig(),
        telemetry=telemetry,
    )


def _resumable() -> ResumabilityConfig:
    """Without it ADK calls the model again while calls of the step are unanswered; that it is new is known to us."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return ResumabilityConfig(is_resumable=True)


def _default_sessions(settings: Settings) -> BaseSessionService:
    path = settings.made_db_path()
    if path is None:
        return InMemorySessionService()
    try:
        return SqliteSessions(str(path))
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"Cannot keep chats in {path}: {error}. Choose another file with --db.") from None


def content_of(message: UserMessage) -> types.Content:
    """A user's message in ADK's form."""
    return types.Content(role="user", parts=[_part(part) for part in message.parts])


def _part(part: str | Media) -> types.Part:
    if isinstance(part, str):
        return types.Part(text=part)
    blob = types.Blob(data=part.data, mime_type=part.media_type, display_name=part.filename)
    return types.Part(inline_data=blob)


def agents_in(node: BaseNode | None) -> Iterator[BaseNode]:
    """A node and everything it may hand over to: sub-agents, and the nodes of a workflow's graph."""
    if node is None:
        return
    yield node
    children: Iterable[BaseNode] = node.sub_agents if isinstance(node, BaseAgent) else ()
    graph = getattr(node, "graph", None)
    for child in (*children, *(graph.nodes if graph is not None else ())):
        yield from agents_in(child)


def _tool_info(tool: BaseTool) -> ToolInfo:
    browser = isinstance(tool, ClientTool)
    asks = tool.require_confirmation if browser else getattr(tool, "_require_confirmation", False)
    return ToolInfo(tool.name, "client" if browser else "server", bool(asks), schema_of(tool))


_LOADED_LATE = (
    "google.adk.flows.llm_flows.auto_flow",
    "google.adk.auth.auth_preprocessor",
    "google.adk.agents._agent_router",
    "google.adk.tools.agent_tool",
    "google.adk.workflow._workflow",
    "google.adk.workflow._dynamic_node_scheduler",
    "google.adk.workflow._llm_agent_wrapper",
    "google.adk.models.google_llm",
)
"""What ADK imports on its first turn, some 450 modules with all they need."""


def warm_up() -> None:
    """Import that before somebody waits for it; a name that a release has moved is simply not there."""
    for name in _LOADED_LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
