"""A session with an agent through ADK's own Runner, as adkwire runs it: SSE streaming, optionally resumable."""

from collections.abc import AsyncIterator, Sequence

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode  # pyright: ignore[reportPrivateImportUsage]
from google.adk.apps import App, ResumabilityConfig
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

APP, USER = "test", "someone"


class AgentSession:
    """One ADK session with one agent."""

    def __init__(self, agent: LlmAgent, *, resumable: bool = False, session_id: str = "chat") -> None:
        resumability = ResumabilityConfig(is_resumable=True) if resumable else None
        app = App(name=APP, root_agent=agent, resumability_config=resumability)
        self.session_id = session_id
        self.runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)

    async def stream(self, *parts: types.Part | str, streaming: bool = True) -> AsyncIterator[Event]:
        """Send a user message and yield the events of its run."""
        message = types.Content(role="user", parts=[types.Part(text=p) if isinstance(p, str) else p for p in parts])
        async for event in self.runner.run_async(
            user_id=USER,
            session_id=self.session_id,
            new_message=message,
            run_config=RunConfig(streaming_mode=StreamingMode.SSE if streaming else StreamingMode.NONE),
        ):
            yield event

    async def say(self, *parts: types.Part | str, streaming: bool = True) -> list[Event]:
        """Send a user message and return all events of its run."""
        return [event async for event in self.stream(*parts, streaming=streaming)]


def parts(events: Sequence[Event], *, partial: bool = False) -> list[types.Part]:
    """Return all parts of the partial events, or of the complete ones."""
    return [p for e in events if bool(e.partial) == partial and e.content for p in e.content.parts or []]


def texts(events: Sequence[Event], *, partial: bool = False, thought: bool = False) -> list[str]:
    return [p.text for p in parts(events, partial=partial) if p.text and bool(p.thought) == thought]


def calls(events: Sequence[Event], *, partial: bool = False) -> list[types.FunctionCall]:
    return [p.function_call for p in parts(events, partial=partial) if p.function_call]


def results(events: Sequence[Event]) -> list[types.FunctionResponse]:
    return [p.function_response for p in parts(events) if p.function_response]
