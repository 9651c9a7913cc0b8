"""The only caller of ADK: App, Runner, sessions, rewind, plugin. Every quirk of a version lives here."""

import asyncio
import contextlib
import importlib
import importlib.util
import logging
import sys
import warnings
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias, cast

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.run_config import RunConfig, StreamingMode  # pyright: ignore[reportPrivateImportUsage]
from google.adk.apps import App, ResumabilityConfig
from google.adk.artifacts import BaseArtifactService, InMemoryArtifactService
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.memory import BaseMemoryService
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from google.adk.telemetry.context import TelemetryConfig
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import BaseNode
from google.genai import types

from adkwire.errors import ConfigError, Unavailable
from adkwire.runs.history import marked
from adkwire.runs.pacing import paced_agent
from adkwire.runs.sessions import ChatKey, MarkedSessions, SqliteSessions
from adkwire.settings import Settings
from adkwire.wire.calls import UNFINISHED
from adkwire.wire.decoder import UserMessage
from adkwire.wire.encoder import ABORTED, OWN_STATE, Encoder, Unsaved
from adkwire.wire.media import Media

logger = logging.getLogger("adkwire")

TITLE = f"{OWN_STATE}title"
CREATED = f"{OWN_STATE}created"
_RESTORED = "adkwire-restored"
SUPERSEDED = "The user went on without answering; this call was not executed."

# ADK tries this optional import on every turn and Python does not remember failures: it costs a third of a short turn.
if importlib.util.find_spec("a2a") is None:
    sys.modules.setdefault("google.adk.agents.remote_a2a_agent", None)  # pyright: ignore[reportArgumentType]


Target: TypeAlias = BaseNode | App
"""What can be served: an agent, a workflow, or an app around one."""


class Services(NamedTuple):
    """ADK's own services; what is None gets adkwire's default."""

    session: BaseSessionService | None = None
    artifact: BaseArtifactService | None = None
    memory: BaseMemoryService | None = None


class ToolInfo(NamedTuple):
    """What `/api/info` says about a tool."""

    name: str
    asks: bool
    """Whether it asks a person before it runs, always or depending on its arguments."""
    schema: dict[str, Any] | None


class Adk:
    """An agent, an app or a workflow, ready to run turns on ADK sessions."""

    def __init__(self, target: Target, settings: Settings, services: Services) -> None:
        self._target = target.root_agent if isinstance(target, App) else target
        self._plugin = GuardPlugin(detail=settings.error_detail)
        self._app = _prepared(target, settings.events_per_second, self._plugin)
        self._sessions = MarkedSessions(services.session or _default_sessions(settings))
        self._artifacts = services.artifact or InMemoryArtifactService()
        self._runner = Runner(
            app=self._app,
            session_service=self._sessions,
            artifact_service=self._artifacts,
            memory_service=services.memory,
        )
        self._telemetry = TelemetryConfig()

    @property
    def agent_name(self) -> str:
        """The name of the agent that answers."""
        return self._target.name if self._target is not None else self._app.name

    @property
    def model_name(self) -> str | None:
        """The model of the root agent; None for a workflow."""
        return self._target.canonical_model.model if isinstance(self._target, LlmAgent) else None

    @property
    def offline(self) -> bool:
        """Whether the model says of itself that it needs no network."""
        model = self._target.canonical_model if isinstance(self._target, LlmAgent) else None
        return getattr(model, "offline", False) is True

    async def turn(
        self, key: ChatKey, message: UserMessage, mark: dict[str, Any], abort: asyncio.Event
    ) -> AsyncGenerator[Event, None]:
        """Run one user message and yield ADK's events; what is stored of them is stamped with `mark`."""
        events = self._runner.run_async(
            user_id=key.user,
            session_id=key.chat,
            new_message=types.Content(role="user", parts=[_part(part) for part in message.parts]),
            run_config=RunConfig(streaming_mode=StreamingMode.SSE, telemetry=self._telemetry),
            abort_signal=abort,
        )
        invocation_id = ""
        try:
            with self._sessions.marking(key, mark):
                async with contextlib.aclosing(events):
                    async for event in events:
                        invocation_id = event.invocation_id
                        yield event
        finally:
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
        """Write events of our own while no run holds the session: all through one fresh handle."""
        session = await self.load(key, recent=0)
        if session is not None:
            with _store_errors():
                for event in events:
                    await self._sessions.append_event(session, event)

    async def rename(self, key: ChatKey, title: str) -> None:
        """Give a chat another title."""
        await self.append(key, [Event(author="user", actions=EventActions(state_delta={TITLE: title}))])

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


class GuardPlugin(BasePlugin):
    """What adkwire does inside ADK's run: keep a raising tool from ending it, and note when a speaker began."""

    def __init__(self, *, detail: bool) -> None:
        super().__init__(name="adkwire")
        self._detail = detail
        self._began: dict[tuple[str, str], float] = {}

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> None:
        """Agents side by side are stored in the order they end and shown in the order they begin: stamp the latter."""
        if event.branch is None:
            return
        speaker = (event.invocation_id, event.branch)
        if event.partial:
            self._began.setdefault(speaker, event.timestamp)
        elif (at := self._began.pop(speaker, None)) is not None:
            event.custom_metadata = marked(event.custom_metadata, {"at": at})

    def forget(self, invocation_id: str) -> None:
        """Drop what a run that was cut off has left behind."""
        for speaker in [speaker for speaker in self._began if speaker[0] == invocation_id]:
            del self._began[speaker]

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: BaseException
    ) -> dict[str, Any]:
        """Turn the exception into an answer; its words only where the settings let them out."""
        name = type(error).__name__
        if not isinstance(error, asyncio.CancelledError):
            logger.warning("tool %s raised %s", tool.name, name, exc_info=error)
        return {"error": f"{name}: {error}" if self._detail and str(error) else f"The tool failed ({name})."}


def partial_event(unsaved: Unsaved, invocation_id: str, mark: dict[str, Any]) -> Event:
    """What was shown and not stored, as the model event ADK would have stored."""
    parts = [
        part if isinstance(part, types.Part) else types.Part(text=_storable(part), thought=kind == "reasoning" or None)
        for kind, part in unsaved.parts
    ]
    return Event(
        author=unsaved.author,
        branch=unsaved.branch,
        invocation_id=invocation_id,
        content=types.Content(role="model", parts=parts),
        custom_metadata=marked(None, mark),
        interrupted=True,
    )


def _storable(text: str) -> str:
    """Half a surrogate pair cannot be stored; on the wire it was a question mark."""
    return text.encode(errors="replace").decode()


def seal_leftovers(encoder: Encoder, author: str, invocation_id: str, mark: dict[str, Any]) -> list[Event]:
    """Answers for the calls of a turn that is over: what ran has an unknown fate, what waited never ran."""
    running = encoder.open_calls()
    waiting = [call for call in encoder.unsettled_calls() if call not in running]
    reasons = ((running, UNFINISHED), (waiting, SUPERSEDED))
    return [seal_event(calls, reason, author, invocation_id, mark) for calls, reason in reasons if calls]


def seal_event(
    calls: Iterable[tuple[str, str]], reason: str, author: str, invocation_id: str, mark: dict[str, Any]
) -> Event:
    """An answer for calls that will never get one, so that the model's context stays legal."""
    parts = [
        types.Part(function_response=types.FunctionResponse(id=call, name=name, response={"error": reason}))
        for call, name in calls
    ]
    return Event(
        author=author,
        invocation_id=invocation_id,
        content=types.Content(role="user", parts=parts),
        custom_metadata=marked(None, mark),
    )


def ending_event(cut: BaseException, author: str, invocation_id: str, mark: dict[str, Any]) -> Event:
    """A failure or a cancellation that ADK did not write down itself."""
    cancelled = isinstance(cut, asyncio.CancelledError)
    return Event(
        author=author,
        invocation_id=invocation_id,
        error_code=ABORTED if cancelled else type(cut).__name__,
        error_message=None if cancelled else str(cut),
        custom_metadata=marked(None, mark),
    )


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


def _resumable() -> ResumabilityConfig:
    """Without it ADK calls the model again while calls of the step are unanswered; that it is new is known to us."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return ResumabilityConfig(is_resumable=True)


def _default_sessions(settings: Settings) -> BaseSessionService:
    path = settings.db_path
    if path is None:
        return InMemorySessionService()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return SqliteSessions(str(path))
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"Cannot keep chats in {path}: {error}. Choose another file with --db.") from None


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
    declaration = tool._get_declaration()  # pyright: ignore[reportPrivateUsage] - there is no public way
    schema: Any = None
    if declaration is not None:
        schema = declaration.parameters_json_schema
        if schema is None and declaration.parameters is not None:
            schema = declaration.parameters.model_dump(mode="json", by_alias=True, exclude_none=True)
    asks = bool(getattr(tool, "_require_confirmation", False))
    return ToolInfo(tool.name, asks, cast("dict[str, Any] | None", schema))


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
