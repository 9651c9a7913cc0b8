"""The agents of `gated.py` behind ADK's real `Gemini` class, which talks to an emulator in this process.

What a model does is written there; the emulator plays it on Gemini's wire. MODEL names the model, and by that the
dialect of Live. With DISCARDS an interruption makes the calls void that have no response yet; without, it leaves them
open.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import gated
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from adkwire.testing import (
    Drop,
    Fail,
    GeminiEmulator,
    GeminiLiveStep,
    GeminiRequest,
    GeminiStep,
    Hear,
    HttpError,
    LiveTurn,
    ScriptedModel,
    Step,
)

MODEL = os.environ["MODEL"]
NAME = re.compile(r'Your internal name is "(\w+)"')


def _agents(agent: BaseAgent) -> Iterator[LlmAgent]:
    """Return all agents of a tree that have a model."""
    tools: list[Any] = getattr(agent, "tools", [])
    if isinstance(agent, LlmAgent):
        yield agent
    for below in (*agent.sub_agents, *(tool.agent for tool in tools if isinstance(tool, AgentTool))):
        yield from _agents(below)


def _script(agent: LlmAgent) -> Callable[[LlmRequest], Iterable[Step]]:
    return cast("ScriptedModel", agent.model).steps


def _steps(setting: dict[str, Any], contents: list[dict[str, Any]]) -> Iterable[Step]:
    """Return the steps of the agent that the request is for, which its instruction names."""
    instruction = " ".join(part["text"] for part in setting["systemInstruction"]["parts"])
    (name,) = NAME.findall(instruction)
    return scripts[name](LlmRequest(contents=[_content(raw) for raw in contents]))


def _content(raw: dict[str, Any]) -> types.Content:
    content = types.Content.model_validate(raw)
    for part in content.parts or ():
        if part.inline_data and (part.inline_data.mime_type or "").startswith("audio/"):
            part.text, part.inline_data = gated.heard(part.inline_data.data or b""), None
    return content


def _live(turn: LiveTurn) -> Iterable[GeminiLiveStep]:
    if turn.sound:
        yield Hear(gated.heard(turn.sound))
    for step in _steps(turn.session.setup, turn.contents):
        yield Drop(1008, str(step.error)) if isinstance(step, Fail) else cast("GeminiLiveStep", step)


def _asked(request: GeminiRequest) -> Iterable[GeminiStep]:
    for step in _steps(request.body, request.contents):
        yield HttpError(500, "INTERNAL", str(step.error)) if isinstance(step, Fail) else cast("GeminiStep", step)


root_agent = gated.root_agent
scripts = {agent.name: _script(agent) for agent in _agents(root_agent)}
# It ends with the process.
emulator = GeminiEmulator(script=_asked, live=_live).__enter__()
emulator.live.discards = bool(os.environ["DISCARDS"])
os.environ.update(emulator.environment)
for agent in _agents(root_agent):
    agent.model = Gemini(model=MODEL)
