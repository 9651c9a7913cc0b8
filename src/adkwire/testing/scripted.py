"""A model for tests that plays a script, and streams it as a real model does."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import groupby
from typing import Literal, Self

from google.adk.models.base_llm import BaseLlm
from google.adk.models.base_llm_connection import RealtimeInput
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import PrivateAttr, model_validator

from adkwire.testing.live_responses import Manner
from adkwire.testing.model_connection import ModelConnection
from adkwire.testing.steps import Step, drop, play
from adkwire.testing.turn_player import ModelConversation


class ScriptExhaustedError(LookupError):
    """Raised when the model needs a turn that its script does not have: the script of the test is too short."""


class ScriptedModel(BaseLlm):
    """An ADK model that plays a script, in requests and on live connections.

    `turns` is a list of turns, each a list of steps. The number of model turns in the request decides which turn is
    played, so one instance serves any number of runs at once. A turn that failed left no content in the session, so it
    is played again. Or give `script`, a function from the request to the steps.

        ScriptedModel(turns=[[Call("get_weather", {"location": "Paris"})], [Say("Sunny.")]])

    On a live connection the request is the conversation so far: the history and what the connection added to it.
    """

    model: str = "scripted"
    turns: Sequence[Sequence[Step]] | None = None
    script: Callable[[LlmRequest], Iterable[Step]] | None = None
    manner: Manner = Manner()
    """How the model behaves on a live connection. Its `delay` also applies to requests."""
    _requests: list[list[types.Content]] = PrivateAttr(default_factory=list[list[types.Content]])
    _live: list["ScriptedConnection"] = PrivateAttr(default_factory=list["ScriptedConnection"])
    _opened: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)
    _resumable: dict[str, ModelConversation] = PrivateAttr(default_factory=dict[str, ModelConversation])

    @model_validator(mode="after")
    def _one_kind_of_script(self) -> Self:
        if (self.turns is None) == (self.script is None):
            raise ValueError("a ScriptedModel takes either turns or script")
        return self

    @property
    def requests(self) -> list[list[types.Content]]:
        """The contents of every request that this instance received, copied at that time."""
        return self._requests

    @property
    def live(self) -> list["ScriptedConnection"]:
        """Every live connection to this instance, closed ones too, with what it received."""
        return self._live

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Play the turn that this request asks for."""
        steps = self.steps(llm_request)
        async with aclosing(play(steps, stream=stream, model=self.model, delay=self.manner.delay)) as responses:
            async for response in responses:
                yield response

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncGenerator["ScriptedConnection"]:
        """Open a live connection."""
        resumption = llm_request.live_connect_config.session_resumption
        connection = ScriptedConnection(self, llm_request, self._resumed(resumption and resumption.handle))
        self._live.append(connection)
        # Set and cleared, never replaced: the bridge runs a copy of the model, which shares this event.
        self._opened.set()
        self._opened.clear()
        try:
            yield connection
        finally:
            await connection.close()

    async def connected(self, times: int = 1) -> "ScriptedConnection":
        """Wait until so many live connections were opened, and return the last of them."""
        while len(self._live) < times:
            await self._opened.wait()
        return self._live[times - 1]

    def steps(self, request: LlmRequest) -> Iterable[Step]:
        """Return the steps of the answer to a request."""
        self._requests.append([content.model_copy(deep=True) for content in request.contents])
        if self.script is not None:
            return self.script(request)
        turns = self.turns or ()
        count = _model_turns(request.contents)
        if count >= len(turns):
            raise ScriptExhaustedError(f"turn {count + 1} was asked for, the script of {self.model!r} has {len(turns)}")
        return turns[count]

    def handle(self, conversation: ModelConversation) -> str:
        """Return a new handle, by which a later connection resumes this conversation."""
        handle = f"handle-{len(self._resumable) + 1}"
        self._resumable[handle] = conversation
        return handle

    def _resumed(self, handle: str | None) -> ModelConversation:
        if handle and handle not in self._resumable:
            drop(1008, "BidiGenerateContent session not found")
        return self._resumable[handle] if handle else ModelConversation()


class ScriptedConnection(ModelConnection):
    """A live connection to a `ScriptedModel`, and what it received."""

    def __init__(self, model: ScriptedModel, request: LlmRequest, conversation: ModelConversation) -> None:
        super().__init__(request, model.model, model.manner, conversation)
        self.history: list[types.Content] = []
        """The contents of the conversation before this connection."""
        self.contents: list[types.Content] = []
        """The messages and tool responses that were received, in order."""
        self.sound = bytearray()
        """The audio that was received."""
        self.frames: list[types.Blob] = []
        """The images of a camera or a screen that were received."""
        self.marks: list[Literal["activity_start", "activity_end", "audio_stream_end"]] = []
        """The marks of where speech begins and ends, in order."""
        self._scripted = model
        self._changed = asyncio.Event()
        """Set, and replaced by a new event, when something was received or the connection was closed."""
        self.player.handle = lambda: model.handle(conversation)

    async def until(self, received: Callable[[Self], object]) -> None:
        """Wait until a condition on this connection, such as on what it received or `closed`, is true."""
        while not received(self):
            await self._changed.wait()

    def answer(self, request: LlmRequest) -> Iterable[Step]:
        """Return the steps of the script's next turn in the conversation."""
        return self._scripted.steps(request)

    async def send_history(self, history: list[types.Content]) -> None:
        """Record a history, and replace the conversation by it."""
        self.history = [content.model_copy(deep=True) for content in history]
        self._notify()
        await super().send_history(history)

    async def _send_content(self, content: types.Content, *, partial: bool = False) -> None:
        self.contents.append(content.model_copy(deep=True))
        self._notify()
        await super()._send_content(content, partial=partial)

    async def send_realtime(self, blob: RealtimeInput) -> None:
        """Record and receive audio, an image or a mark."""
        match blob:
            case types.ActivityStart():
                self.marks.append("activity_start")
            case types.ActivityEnd():
                self.marks.append("activity_end")
            case types.LiveClientRealtimeInput():
                self.marks.append("audio_stream_end")
            case types.Blob() if (blob.mime_type or "").startswith("audio/"):
                self.sound += blob.data or b""
            case types.Blob():
                self.frames.append(blob)
        self._notify()
        await super().send_realtime(blob)

    async def close(self) -> None:
        """Stop the current turn and end `receive`."""
        await super().close()
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _model_turns(contents: Iterable[types.Content]) -> int:
    # ADK stores the text and the calls of one live turn as separate contents: adjacent model contents are one turn.
    return sum(role == "model" for role, _ in groupby(content.role for content in contents))
