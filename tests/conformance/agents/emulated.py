"""The tools of `gated.py` behind ADK's real `Gemini` class, which talks to an emulator in this process.

MODEL names the model, and by that the dialect of Live. `discards yes`, typed in any chat but a live one, lets an
interruption make calls void that have no response yet; `discards no` leaves them open.
"""

import asyncio
import os
import threading
from collections.abc import Iterable
from typing import Any, cast

from gated import TOOLS, heard, script
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models import Gemini
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from adkwire.testing import GeminiEmulator, GeminiLiveStep, GeminiRequest, GeminiStep, Hear, LiveTurn, Say


def _content(raw: dict[str, Any]) -> types.Content:
    content = types.Content.model_validate(raw)
    for part in content.parts or ():
        if part.inline_data and (part.inline_data.mime_type or "").startswith("audio/"):
            part.text, part.inline_data = heard(part.inline_data.data or b""), None
    return content


def _steps(contents: list[types.Content]) -> Iterable[Any]:
    return script(LlmRequest(contents=contents))


def _live(turn: LiveTurn) -> Iterable[GeminiLiveStep]:
    understood: list[GeminiLiveStep] = [Hear(heard(turn.sound))] if turn.sound else []
    return [*understood, *cast("Iterable[GeminiLiveStep]", _steps([_content(raw) for raw in turn.contents]))]


def _asked(request: GeminiRequest) -> Iterable[GeminiStep]:
    contents = [_content(raw) for raw in request.contents]
    last = (contents[-1].parts or [types.Part()])[0].text or ""
    if last.startswith("discards "):
        emulator.live.discards = last == "discards yes"
        return [Say("Very well.")]
    return cast("Iterable[GeminiStep]", _steps(contents))


def _serve(ready: threading.Event) -> None:
    async def serve() -> None:
        async with emulator:
            ready.set()
            await asyncio.Event().wait()

    asyncio.run(serve())


emulator = GeminiEmulator(script=_asked, live=_live)
is_ready = threading.Event()
# It ends with the process.
threading.Thread(target=_serve, args=[is_ready], daemon=True).start()
is_ready.wait()
os.environ.update(emulator.environment)
root_agent = LlmAgent(name="emulated", model=Gemini(model=os.environ["MODEL"]), tools=TOOLS)
