"""The tools of `gated.py` behind ADK's real `Gemini` class, which talks to an emulator in this process.

MODEL names the model, and by that the dialect of Live; DISCARDS whether an interruption makes open calls void.
"""

import base64
import os
from collections.abc import Iterable
from itertools import chain
from typing import Any, cast

from gated import heard, root_agent as gated, script
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models import Gemini
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from adkwire.testing import GeminiEmulator, GeminiLiveStep, GeminiRequest, GeminiStep, Hear, LiveTurn


def _content(raw: dict[str, Any]) -> types.Content:
    content = types.Content.model_validate(raw)
    for part in content.parts or ():
        if part.inline_data and (part.inline_data.mime_type or "").startswith("audio/"):
            part.text, part.inline_data = heard(base64.b64decode(raw["parts"][0]["inlineData"]["data"])), None
    return content


def _steps(contents: Iterable[dict[str, Any]]) -> Iterable[Any]:
    return script(LlmRequest(contents=[_content(content) for content in contents]))


def _live(turn: LiveTurn) -> Iterable[GeminiLiveStep]:
    understood = [Hear(heard(turn.sound))] if turn.sound else []
    return chain(understood, cast("Iterable[GeminiLiveStep]", _steps(turn.contents)))


def _asked(request: GeminiRequest) -> Iterable[GeminiStep]:
    return cast("Iterable[GeminiStep]", _steps(request.contents))


emulator = GeminiEmulator(script=_asked, live=_live)
emulator.live.discards = os.environ["DISCARDS"] == "yes"
# For as long as this process lives.
emulator.__enter__()
root_agent = LlmAgent(
    name="emulated", model=Gemini(model=os.environ["MODEL"], **emulator.model_kwargs), tools=list(gated.tools)
)
