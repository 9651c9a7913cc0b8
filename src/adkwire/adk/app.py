"""The ADK App around a user's agent: adkwire's plugin, pacing, and the copy of the agent that runs live.

The user's own agents, models and tools are never changed. Where adkwire needs other behaviour it works on copies.
"""

import contextlib
import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode  # pyright: ignore[reportPrivateImportUsage]
from google.adk.apps import App, ResumabilityConfig
from google.adk.models.base_llm import BaseLlm
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.telemetry.context import TelemetryConfig
from google.adk.tools.base_tool import BaseTool
from google.adk.workflow import BaseNode
from google.genai import types

from adkwire.adk.background_tools import BackgroundTools
from adkwire.adk.call_records import schema_of
from adkwire.adk.live_model import watched_connect
from adkwire.adk.pacing import paced_generate
from adkwire.errors import ConfigError
from adkwire.gate.client_tool import ClientTool
from adkwire.settings import Settings

M = TypeVar("M", bound=BaseLlm)

# ADK tries this optional import on every turn and Python does not remember failures: it costs a third of a short turn.
if importlib.util.find_spec("a2a") is None:
    sys.modules.setdefault("google.adk.agents.remote_a2a_agent", None)  # pyright: ignore[reportArgumentType]


Target: TypeAlias = BaseNode | App
"""What can be served: an agent, a workflow, or an app around one."""


class ToolInfo(NamedTuple):
    """A tool, as `/api/info` lists it."""

    name: str
    kind: Literal["server", "client"]
    asks: bool
    """True when the tool asks a person before it runs, always or depending on its arguments."""
    schema: dict[str, Any] | None


def app_around(target: Target, rate: float, plugin: BasePlugin) -> App:
    """Return the user's app, or an app around the agent, with `plugin`, able to pause and resume.

    With a `rate` its models yield at most so many partial events a second.
    """
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
    """Return the configuration that lets ADK pause and resume, without ADK's warning that it is experimental.

    Without it ADK calls the model again while calls of the step are unanswered.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return ResumabilityConfig(is_resumable=True)


def live_app(app: App) -> App:
    """Return a copy of an app whose agents run live: tools in the background, connections of models supervised."""
    root = app.root_agent
    return app.model_copy(update={"root_agent": _live_agent(root)}) if isinstance(root, BaseAgent) else app


def streaming_config(telemetry: TelemetryConfig) -> RunConfig:
    """Return the configuration of a request/response run."""
    return RunConfig(streaming_mode=StreamingMode.SSE, telemetry=telemetry)


def live_config(settings: Settings, telemetry: TelemetryConfig) -> RunConfig:
    """Return the configuration of a live run. The client says when a person begins and stops to speak.

    If the model listened for it, a pause in thought would end a sentence, and a push-to-talk button would mean nothing.
    """
    by_client = types.AutomaticActivityDetection(disabled=True)
    return RunConfig(
        response_modalities=[types.Modality.AUDIO if settings.live_modality == "audio" else types.Modality.TEXT],
        realtime_input_config=types.RealtimeInputConfig(automatic_activity_detection=by_client),
        session_resumption=types.SessionResumptionConfig(),
        telemetry=telemetry,
    )


def paced_agent(agent: BaseAgent, rate: float) -> BaseAgent:
    """Return a copy of an agent tree in which every model of its own is paced."""

    def paced(each: LlmAgent) -> dict[str, Any]:
        return {"model": paced_model(each.canonical_model, rate)} if each.model else {}

    return _copied_agent(agent, paced)


def paced_model(model: M, rate: float) -> M:
    """Return a copy of a model that yields at most `rate` partial texts a second."""
    return _copied_model(model, generate_content_async=paced_generate(type(model), rate))


def _live_agent(agent: BaseAgent) -> BaseAgent:
    """Return a copy of an agent tree with tools in the background and supervised models."""

    def live(each: LlmAgent) -> dict[str, Any]:
        tools: list[Any] = getattr(each, "tools", None) or []
        update: dict[str, Any] = {"tools": [*tools, BackgroundTools()]} if tools else {}
        if each.model:
            model = each.canonical_live_model
            update["model"] = _copied_model(model, connect=watched_connect(type(model)))
        return update

    return _copied_agent(agent, live)


def _copied_agent(agent: BaseAgent, change: Callable[[LlmAgent], dict[str, Any]]) -> BaseAgent:
    """Return a copy of an agent tree in which `change` gives the new fields of each LlmAgent."""
    update: dict[str, Any] = {"sub_agents": [_copied_agent(child, change) for child in agent.sub_agents]}
    if isinstance(agent, LlmAgent):
        update |= change(agent)
    return agent.clone(update=update)


def _copied_model(model: M, **methods: Callable[..., Any]) -> M:
    """Return a copy of a model with other methods.

    Its class is a subclass made on the spot, so `isinstance(model, Gemini)` still holds.
    """
    own = type(model)
    body = {**methods, "__module__": own.__module__, "__doc__": own.__doc__}
    copied = model.model_copy()
    copied.__class__ = cast("type[M]", type(own.__name__, (own,), body))
    return copied


def agents_in(node: BaseNode | None) -> Iterator[BaseNode]:
    """Yield a node and everything it may hand over to: sub-agents, and the nodes of a workflow's graph."""
    if node is None:
        return
    yield node
    children: Iterable[BaseNode] = node.sub_agents if isinstance(node, BaseAgent) else ()
    graph = getattr(node, "graph", None)
    for child in (*children, *(graph.nodes if graph is not None else ())):
        yield from agents_in(child)


async def tools_of(root: BaseNode | None) -> list[ToolInfo]:
    """Return the tools of a whole agent tree, each name once."""
    found: dict[str, ToolInfo] = {}
    for agent in agents_in(root):
        if isinstance(agent, LlmAgent):
            for tool in await agent.canonical_tools():
                found.setdefault(tool.name, _tool_info(tool))
    return list(found.values())


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
"""Modules that ADK imports in its first turn, some 450 with all they need."""


def warm_up() -> None:
    """Import what ADK would import in the first turn. A module that a release has moved is left out."""
    for name in _LOADED_LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
