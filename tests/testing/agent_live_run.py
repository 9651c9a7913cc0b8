"""A live run of an agent through ADK's own `run_live`, with short summaries of its events to compare."""

from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Literal, Self

import anyio
from google.adk.agents import LlmAgent
from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.agents.run_config import RunConfig  # pyright: ignore[reportPrivateImportUsage]
from google.adk.apps import App
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.genai import types

from tests.testing.agent_session import APP, USER

Modality = Literal["TEXT", "AUDIO"]

ONE_SECOND = bytes(32_000)
"""One second of audio from a microphone: PCM of 16 kHz."""


class AgentLiveRun:
    """One live run in one session. Events are read from ADK only when a test asks for them."""

    def __init__(
        self,
        agent: LlmAgent,
        modality: Modality = "TEXT",
        sessions: InMemorySessionService | None = None,
        session_id: str = "chat",
    ) -> None:
        self.sessions = sessions or InMemorySessionService()
        self.session_id = session_id
        self.queue = LiveRequestQueue()
        app = App(name=APP, root_agent=agent)
        self._stream: AsyncGenerator[Event, None] = Runner(
            app=app, session_service=self.sessions, auto_create_session=True
        ).run_live(
            user_id=USER,
            session_id=session_id,
            live_request_queue=self.queue,
            run_config=RunConfig(response_modalities=[types.Modality(modality)]),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stream.aclose()

    def type(self, *parts: types.Part | str) -> None:
        """Send a typed message."""
        content = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
        self.queue.send_content(types.Content(role="user", parts=content))

    def speak(self, sound: bytes = ONE_SECOND) -> None:
        """Send speech between the two marks of activity."""
        self.queue.send_activity_start()
        self.queue.send_realtime(types.Blob(mime_type="audio/pcm;rate=16000", data=sound))
        self.queue.send_activity_end()

    async def until(self, last: Callable[[Event], object]) -> list[Event]:
        """Return the events up to the first one for which `last` is true."""
        events: list[Event] = []
        with anyio.fail_after(20):
            while not (events and last(events[-1])):
                events.append(await anext(self._stream))
        return events

    async def turn(self) -> list[str]:
        """Return summaries of the events up to the end of a turn."""
        return summaries(await self.until(lambda event: event.turn_complete))

    async def rest(self) -> list[str]:
        """Return summaries of the events up to the end of the run."""
        with anyio.fail_after(20):
            return summaries([event async for event in self._stream])

    async def stored(self) -> list[Event]:
        """Return the events in the session."""
        session = await self.sessions.get_session(app_name=APP, user_id=USER, session_id=self.session_id)
        assert session
        return session.events


async def seeded(*contents: types.Content) -> InMemorySessionService:
    """Return a session service whose chat has these contents as history."""
    sessions = InMemorySessionService()
    session: Session = await sessions.create_session(app_name=APP, user_id=USER, session_id="chat")
    for content in contents:
        author = "user" if content.role == "user" else "test"
        await sessions.append_event(session, Event(author=author, content=content))
    return sessions


def words(event: Event) -> str | None:
    """Return the text of an event: a transcript or the text of its content."""
    for transcript in (event.input_transcription, event.output_transcription):
        if transcript:
            return transcript.text
    return "".join(part.text or "" for part in event.content.parts or []) if event.content else None


def summaries(events: list[Event]) -> list[str]:
    """Return a summary of each event: its kind, ~ for partial or = for final, ! for interrupted, and its text."""
    return [_summary(event) for event in events]


def _summary(event: Event) -> str:
    interrupted = "! " if event.interrupted else " "
    if event.turn_complete:
        return "end" + interrupted.rstrip()
    if event.input_transcription or event.output_transcription:
        kind = "heard" if event.input_transcription else "spoken"
        return f"{kind}{_partial_or_final(event)} {words(event)}"
    if summary := _media(event) or _calls(event) or _responses(event):
        return summary
    if event.content:
        thought = any(part.thought for part in event.content.parts or [])
        return f"{'thought' if thought else 'text'}{_partial_or_final(event)}{interrupted}{words(event)}"
    return _control(event) + interrupted.rstrip()


def _partial_or_final(event: Event) -> str:
    return "~" if event.partial else "="


def _media(event: Event) -> str:
    parts = event.content.parts or [] if event.content else []
    return " ".join(
        f"{part.inline_data.mime_type} {len(part.inline_data.data or b'')}" for part in parts if part.inline_data
    )


def _calls(event: Event) -> str:
    return " ".join(f"call {call.name}" for call in event.get_function_calls())


def _responses(event: Event) -> str:
    return " ".join(f"result {response.name}" for response in event.get_function_responses())


def _control(event: Event) -> str:
    controls = {
        "usage": event.usage_metadata,
        "resumption": event.live_session_resumption_update,
        "sources": event.grounding_metadata,
        "error": event.error_code,
        "cut": event.interrupted,
    }
    return next(name for name, value in controls.items() if value)
