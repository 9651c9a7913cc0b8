"""A model for tests that says what it is told to say, and streams it like a real one."""

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

from adkwire.testing.live import LiveConnection
from adkwire.testing.speech import Manner
from adkwire.testing.steps import Step, drop, play
from adkwire.testing.talking import Conversation


class ScriptExhaustedError(LookupError):
    """The model was asked for more turns than its script has: a test's script is too short."""


class ScriptedModel(BaseLlm):
    """An ADK model that plays a script, asked for an answer or on a live connection.

    `turns` is a list of turns, each a list of steps. Which turn is played is the number of times the model has already
    spoken in the request, so the instance keeps no state and may serve any number of runs at once. A turn that failed
    left no content behind, so it is played again. Or give `script`, a function from the request to the steps.

        ScriptedModel(turns=[[Call("get_weather", {"location": "Paris"})], [Say("Sunny.")]])

    On a live connection the request is the conversation so far: the history, and what was said on the connection.
    """

    model: str = "scripted"
    turns: Sequence[Sequence[Step]] | None = None
    script: Callable[[LlmRequest], Iterable[Step]] | None = None
    manner: Manner = Manner()
    """How it behaves on a live connection. The pace is kept in both modes."""
    _requests: list[list[types.Content]] = PrivateAttr(default_factory=list[list[types.Content]])
    _live: list["ScriptedConnection"] = PrivateAttr(default_factory=list["ScriptedConnection"])
    _opened: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)
    _resumable: dict[str, Conversation] = PrivateAttr(default_factory=dict[str, Conversation])

    @model_validator(mode="after")
    def _one_kind_of_script(self) -> Self:
        if (self.turns is None) == (self.script is None):
            raise ValueError("a ScriptedModel takes either turns or script")
        return self

    @property
    def requests(self) -> list[list[types.Content]]:
        """The contents of every request this instance received, as they were then."""
        return self._requests

    @property
    def live(self) -> list["ScriptedConnection"]:
        """Every live connection there was to this instance, with what it received."""
        return self._live

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Play the turn this request asks for."""
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
        # The same event for all copies of this model: bridges run on copies.
        self._opened.set()
        self._opened.clear()
        try:
            yield connection
        finally:
            await connection.close()

    async def connected(self, times: int = 1) -> "ScriptedConnection":
        """Wait until there have been so many live connections, and give the last of them."""
        while len(self._live) < times:
            await self._opened.wait()
        return self._live[times - 1]

    def steps(self, request: LlmRequest) -> Iterable[Step]:
        """The steps of the answer to a request."""
        self._requests.append([content.model_copy(deep=True) for content in request.contents])
        if self.script is not None:
            return self.script(request)
        turns = self.turns or ()
        count = _times_spoken(request.contents)
        if count >= len(turns):
            raise ScriptExhaustedError(f"turn {count + 1} was asked for, the script of {self.model!r} has {len(turns)}")
        return turns[count]

    def handle(self, conversation: Conversation) -> str:
        """A new handle: whoever connects with it goes on with this conversation."""
        handle = f"handle-{len(self._resumable) + 1}"
        self._resumable[handle] = conversation
        return handle

    def _resumed(self, handle: str | None) -> Conversation:
        if handle and handle not in self._resumable:
            drop(1008, "BidiGenerateContent session not found")
        return self._resumable[handle] if handle else Conversation()


class ScriptedConnection(LiveConnection):
    """A live connection to a `ScriptedModel`, and what it received."""

    def __init__(self, model: ScriptedModel, request: LlmRequest, conversation: Conversation) -> None:
        super().__init__(request, model.model, model.manner, conversation)
        self.history: list[types.Content] = []
        """The conversation before this connection."""
        self.contents: list[types.Content] = []
        """Messages and responses of tools, in their order."""
        self.sound = bytearray()
        self.frames: list[types.Blob] = []
        """Images of a camera or a screen."""
        self.marks: list[Literal["activity_start", "activity_end", "audio_stream_end"]] = []
        self._scripted = model
        self._news = asyncio.Event()
        self.talker.handle = lambda: model.handle(conversation)

    async def until(self, received: Callable[[Self], object]) -> None:
        """Wait until what was received, or `closed`, makes this true."""
        while not received(self):
            await self._news.wait()

    def answer(self, request: LlmRequest) -> Iterable[Step]:
        """Play the turn that is next in the conversation."""
        return self._scripted.steps(request)

    async def send_history(self, history: list[types.Content]) -> None:
        """Record and take over a conversation."""
        self.history = [content.model_copy(deep=True) for content in history]
        self._tell()
        await super().send_history(history)

    async def _send_content(self, content: types.Content, *, partial: bool = False) -> None:
        self.contents.append(content.model_copy(deep=True))
        self._tell()
        await super()._send_content(content, partial=partial)

    async def send_realtime(self, blob: RealtimeInput) -> None:
        """Record and take sound, a frame or a mark."""
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
        self._tell()
        await super().send_realtime(blob)

    async def close(self) -> None:
        """Stop talking; `receive` ends."""
        await super().close()
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _times_spoken(contents: Iterable[types.Content]) -> int:
    # ADK stores what was said and what was called in one live turn apart: what follows each other is one turn.
    return sum(role == "model" for role, _ in groupby(content.role for content in contents))
