"""A live model that answers every piece of sound with as many pieces as the first byte of it says."""

import asyncio
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection, RealtimeInput
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

MARK = struct.Struct("<BxxxId")
"""How a piece begins: answers wanted, what the client counts by, when it was sent. Answers begin with it, too."""
HEARD = struct.Struct("<I")
"""What follows in an answer: how many pieces were heard so far."""
HEARING, SPEECH = 640, 960
"""Bytes of 20 ms: 16 kHz in, 24 kHz out."""


class VoiceConnection(BaseLlmConnection):
    """One conversation."""

    def __init__(self) -> None:
        self._out: asyncio.Queue[LlmResponse | None] = asyncio.Queue()
        self._heard = 0

    async def send_history(self, history: list[types.Content]) -> None:
        """Nothing that was said before matters."""

    async def send_content(self, content: types.Content) -> None:
        """It does not read."""

    async def send_realtime(self, blob: RealtimeInput) -> None:
        """Listen; when nobody speaks any more, the turn is over."""
        if isinstance(blob, types.Blob) and blob.data:
            self._heard += 1
            for _ in range(blob.data[0]):
                self._out.put_nowait(_spoken(blob.data, self._heard))
        elif isinstance(blob, types.ActivityEnd):
            self._out.put_nowait(LlmResponse(turn_complete=True))

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        """What it says, up to the end of the turn; like a real model it lets others run before each piece."""
        while (response := await self._out.get()) is not None:
            await asyncio.sleep(0)
            yield response
            if response.turn_complete:
                return

    async def close(self) -> None:
        """Say nothing more."""
        self._out.put_nowait(None)


class VoiceModel(BaseLlm):
    """The model of both sides."""

    model: str = "voice"

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncGenerator[BaseLlmConnection, None]:
        """Begin a conversation."""
        connection = VoiceConnection()
        try:
            yield connection
        finally:
            await connection.close()

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """It only talks."""
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Speak.")]))


def _spoken(piece: bytes, heard: int) -> LlmResponse:
    pcm = (piece[: MARK.size] + HEARD.pack(heard)).ljust(SPEECH, b"\0")
    sound = types.Blob(data=pcm, mime_type="audio/pcm;rate=24000")
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(inline_data=sound)]))


root_agent = LlmAgent(name="voice", model=VoiceModel())
