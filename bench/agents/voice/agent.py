"""An agent whose live model answers a piece of audio with as many pieces as the first byte of it says."""

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
"""The beginning of a piece and of its answers: number of answers, number of the piece, time at which it was sent."""
HEARD = struct.Struct("<I")
"""What follows in an answer: the number of pieces that the model has received."""
HEARING, SPEECH = 640, 960
"""Bytes of 20 ms of audio: to the model (16 kHz) and from the model (24 kHz)."""


class VoiceConnection(BaseLlmConnection):
    """One live connection."""

    def __init__(self) -> None:
        self._out: asyncio.Queue[LlmResponse | None] = asyncio.Queue()
        self._heard = 0

    async def send_history(self, history: list[types.Content]) -> None:
        """Ignore the history."""

    async def send_content(self, content: types.Content) -> None:
        """Ignore messages."""

    async def send_realtime(self, blob: RealtimeInput) -> None:
        """Answer audio; end the turn when the user stops speaking."""
        if isinstance(blob, types.Blob) and blob.data:
            self._heard += 1
            for _ in range(blob.data[0]):
                self._out.put_nowait(_response(blob.data, self._heard))
        elif isinstance(blob, types.ActivityEnd):
            self._out.put_nowait(LlmResponse(turn_complete=True))

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        """Yield the responses of a turn; like a real model it lets other tasks run before each piece."""
        while (response := await self._out.get()) is not None:
            await asyncio.sleep(0)
            yield response
            if response.turn_complete:
                return

    async def close(self) -> None:
        """End `receive`."""
        self._out.put_nowait(None)


class VoiceModel(BaseLlm):
    """The model for adkwire and for the bare live server."""

    model: str = "voice"

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncGenerator[BaseLlmConnection, None]:
        """Open a live connection."""
        connection = VoiceConnection()
        try:
            yield connection
        finally:
            await connection.close()

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer requests with one text: this model is for live connections."""
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Speak.")]))


def _response(piece: bytes, received: int) -> LlmResponse:
    pcm = (piece[: MARK.size] + HEARD.pack(received)).ljust(SPEECH, b"\0")
    sound = types.Blob(data=pcm, mime_type="audio/pcm;rate=24000")
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(inline_data=sound)]))


root_agent = LlmAgent(name="voice", model=VoiceModel())
