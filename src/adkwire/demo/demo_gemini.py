"""Gemini for the demo agent: one model for requests and another one for live connections."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from google.adk.models import Gemini
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest


class DemoGemini(Gemini):
    """Two Gemini models as one: Google has none for both requests and live, and an ADK agent has one `model`."""

    live_model: str
    """Name of the model for live connections."""

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncGenerator[BaseLlmConnection, None]:
        """Open a live connection to the live model."""
        request = llm_request.model_copy(update={"model": self.live_model})
        async with super().connect(request) as connection:
            yield connection
