"""The demo agent: on Gemini when an API key is set, else on the offline model."""

import functools
import os
from collections.abc import Mapping

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.tools.function_tool import FunctionTool

from adkwire import Policy, Rule
from adkwire.demo.offline_model import OfflineModel
from adkwire.demo.tools import change_bgm, draw, get_location, get_timezone, get_weather, process_payment

DEFAULT_MODEL = "gemini-3.5-flash"
DEFAULT_LIVE_MODEL = "gemini-3.1-flash-live-preview"
POLICY = Policy([Rule("process_payment", "ask", grant="never", retry=True)])
"""Every payment asks for approval. A payment may be retried: the tool uses the call's id as its idempotency key."""

_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_INSTRUCTION = (
    "You are a helpful assistant that shows what its tools can do. Answer briefly, in the language of the user. "
    "Use a tool whenever one fits, several at once when several things are asked. When a tool call is refused or "
    "fails, say so in one sentence and do not try it again."
)


def is_offline(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the demo agent runs on the offline model, because no API key is set."""
    return not any(environ.get(key) for key in _KEYS)


def build_agent(environ: Mapping[str, str] = os.environ) -> LlmAgent:
    """Return the demo agent. `ADKWIRE_MODEL` and `ADKWIRE_LIVE_MODEL` in the environment name other Gemini models."""
    return LlmAgent(
        name="demo",
        description="Shows text, tools, approvals and pictures.",
        model=OfflineModel() if is_offline(environ) else _gemini(environ),
        instruction=_INSTRUCTION,
        tools=[
            get_weather,
            FunctionTool(process_payment, require_confirmation=True),
            get_location,
            change_bgm,
            get_timezone,
            draw,
        ],
    )


def _gemini(environ: Mapping[str, str]) -> BaseLlm:
    from adkwire.demo.demo_gemini import DemoGemini  # slow to import, and not needed without a key

    return DemoGemini(
        model=environ.get("ADKWIRE_MODEL") or DEFAULT_MODEL,
        live_model=environ.get("ADKWIRE_LIVE_MODEL") or DEFAULT_LIVE_MODEL,
    )


@functools.cache
def _root_agent() -> LlmAgent:
    return build_agent()


def __getattr__(name: str) -> LlmAgent:
    # ADK reads this name from an agent's module. The agent is made on demand: a key may be set after the import.
    if name == "root_agent":
        return _root_agent()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
