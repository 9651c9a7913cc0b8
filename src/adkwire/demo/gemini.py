"""Gemini for the demo: one model that answers in text, another one that is talked with."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from google.adk.models import Gemini
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest


class DemoGemini(Gemini):
    """Google has no model for both, and an ADK agent has one `model`."""

    live_model: str

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncGenerator[BaseLlmConnection, None]:
        """Open a live connection, to the model that has such."""
        request = llm_request.model_copy(update={"model": self.live_model})
        async with super().connect(request) as connection:
            yield connection
