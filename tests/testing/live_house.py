"""ADK's `run_live` with ADK's own `Gemini` class, against the emulator, and what comes out of it in short words."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from google.adk.agents import LiveRequestQueue, LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.events import Event
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import types

from adkwire.testing import GeminiEmulator
from tests.patience import PATIENCE

SECOND = "gemini-2.5-flash-native-audio-preview"
THIRD = "gemini-3.1-flash-live-preview"
BOTH = [SECOND, THIRD]
MANUAL = types.RealtimeInputConfig(
    automatic_activity_detection=types.AutomaticActivityDetection(disabled=True),
)
RESUMABLE = types.SessionResumptionConfig()


def said(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def in_short(event: Event) -> list[str]:
    """The event in words: kind and content."""
    told = [_part(part, event) for part in (event.content.parts if event.content else None) or ()]
    for who, transcript in (("user", event.input_transcription), ("model", event.output_transcription)):
        if transcript:
            told.append(f"{who}{'' if transcript.finished else '~'} {transcript.text}")
    flags = {
        "interrupted": event.interrupted,
        "turn_complete": event.turn_complete,
        "usage": event.usage_metadata,
        "resumption": event.live_session_resumption_update,
    }
    return told + [name for name, value in flags.items() if value]


def _part(part: types.Part, event: Event) -> str:
    if part.function_call:
        return f"call {part.function_call.name}"
    if part.function_response:
        return f"response {part.function_response.name}"
    if part.inline_data:
        return f"sound {part.inline_data.mime_type}"
    return f"{'thought' if part.thought else 'text'}{'~' if event.partial else ''} {part.text}"


class Talk:
    """One `run_live` and its events."""

    def __init__(self, runner: InMemoryRunner, config: RunConfig, session: str) -> None:
        self.queue = LiveRequestQueue()
        self.events: list[Event] = []
        self._news = asyncio.Event()
        self._run = asyncio.create_task(self._collect(runner, config, session), name="live")

    async def _collect(self, runner: InMemoryRunner, config: RunConfig, session: str) -> None:
        try:
            async with aclosing(
                runner.run_live(user_id="ann", session_id=session, live_request_queue=self.queue, run_config=config)
            ) as events:
                async for event in events:
                    self.events.append(event)
                    self._tell()
        finally:
            self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    @property
    def told(self) -> list[str]:
        return [word for event in self.events for word in in_short(event)]

    async def until(self, word: str, count: int = 1) -> None:
        """Wait until it was told so often."""
        while sum(each == word for each in self.told) < count:
            if self._run.done():
                raise AssertionError(f"run_live ended without {word!r}: {self.told}") from self._run.exception()
            await asyncio.wait_for(self._news.wait(), PATIENCE)

    async def ended(self) -> None:
        """Wait for its end; raises what it raised."""
        await asyncio.wait_for(asyncio.shield(self._run), PATIENCE)

    async def close(self) -> None:
        self._run.cancel()
        await asyncio.gather(self._run, return_exceptions=True)


@asynccontextmanager
async def talking(
    gemini: GeminiEmulator,
    model: str,
    *,
    modality: str = "TEXT",
    tools: Sequence[Callable[..., Any]] = (),
    before: Sequence[types.Content] = (),
    **config: Any,
) -> AsyncGenerator[Talk]:
    agent = LlmAgent(name="helper", model=Gemini(model=model, **gemini.model_kwargs), tools=list(tools))
    runner = InMemoryRunner(agent=agent, app_name="live")
    session = await runner.session_service.create_session(app_name="live", user_id="ann")
    for content in before:
        author = "user" if content.role == "user" else "helper"
        await runner.session_service.append_event(session, Event(author=author, content=content, invocation_id="i"))
    modalities = [types.Modality[modality]]
    talk = Talk(runner, RunConfig(response_modalities=modalities, **config), session.id)
    try:
        yield talk
    finally:
        await talk.close()
        await runner.close()
