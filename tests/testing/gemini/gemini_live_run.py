"""ADK's `run_live` with ADK's own `Gemini` class on the emulator, with short summaries of its events to compare."""

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

GEMINI_25 = "gemini-2.5-flash-native-audio-preview"
GEMINI_3 = "gemini-3.1-flash-live-preview"
BOTH = [GEMINI_25, GEMINI_3]
MANUAL = types.RealtimeInputConfig(
    automatic_activity_detection=types.AutomaticActivityDetection(disabled=True),
)
RESUMABLE = types.SessionResumptionConfig()


def user_content(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def summary(event: Event) -> list[str]:
    """Return a summary of each thing in an event: its kind and text, with ~ for partial."""
    parts = [_part(part, event) for part in (event.content.parts if event.content else None) or ()]
    for who, transcript in (("user", event.input_transcription), ("model", event.output_transcription)):
        if transcript:
            parts.append(f"{who}{'' if transcript.finished else '~'} {transcript.text}")
    flags = {
        "interrupted": event.interrupted,
        "turn_complete": event.turn_complete,
        "usage": event.usage_metadata,
        "resumption": event.live_session_resumption_update,
    }
    return parts + [name for name, value in flags.items() if value]


def _part(part: types.Part, event: Event) -> str:
    if part.function_call:
        return f"call {part.function_call.name}"
    if part.function_response:
        return f"response {part.function_response.name}"
    if part.inline_data:
        return f"sound {part.inline_data.mime_type}"
    return f"{'thought' if part.thought else 'text'}{'~' if event.partial else ''} {part.text}"


class GeminiLiveRun:
    """One live run of ADK, and its events."""

    def __init__(self, runner: InMemoryRunner, config: RunConfig, session: str) -> None:
        self.queue = LiveRequestQueue()
        self.events: list[Event] = []
        self._changed = asyncio.Event()
        """Set, and replaced by a new event, when an event came or the run ended."""
        self._run = asyncio.create_task(self._collect(runner, config, session), name="live")

    async def _collect(self, runner: InMemoryRunner, config: RunConfig, session: str) -> None:
        try:
            async with aclosing(
                runner.run_live(user_id="ann", session_id=session, live_request_queue=self.queue, run_config=config)
            ) as events:
                async for event in events:
                    self.events.append(event)
                    self._notify()
        finally:
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def summaries(self) -> list[str]:
        """Summaries of all events so far."""
        return [line for event in self.events for line in summary(event)]

    async def until(self, line: str, count: int = 1) -> None:
        """Wait until the summaries have this line so many times."""
        while self.summaries.count(line) < count:
            if self._run.done():
                raise AssertionError(f"run_live ended without {line!r}: {self.summaries}") from self._run.exception()
            await asyncio.wait_for(self._changed.wait(), PATIENCE)

    async def ended(self) -> None:
        """Wait for the end of the run; raise what it raised."""
        await asyncio.wait_for(asyncio.shield(self._run), PATIENCE)

    async def close(self) -> None:
        """Cancel the run."""
        self._run.cancel()
        await asyncio.gather(self._run, return_exceptions=True)


@asynccontextmanager
async def live_run(
    gemini: GeminiEmulator,
    model: str,
    *,
    modality: str = "TEXT",
    tools: Sequence[Callable[..., Any]] = (),
    before: Sequence[types.Content] = (),
    **config: Any,
) -> AsyncGenerator[GeminiLiveRun]:
    """Run an agent live on the emulator; `before` is the history of its session."""
    agent = LlmAgent(name="helper", model=Gemini(model=model, **gemini.model_kwargs), tools=list(tools))
    runner = InMemoryRunner(agent=agent, app_name="live")
    session = await runner.session_service.create_session(app_name="live", user_id="ann")
    for content in before:
        author = "user" if content.role == "user" else "helper"
        await runner.session_service.append_event(session, Event(author=author, content=content, invocation_id="i"))
    modalities = [types.Modality[modality]]
    run = GeminiLiveRun(runner, RunConfig(response_modalities=modalities, **config), session.id)
    try:
        yield run
    finally:
        await run.close()
        await runner.close()
