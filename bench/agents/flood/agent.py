"""An agent whose model streams N equal pieces of text and then the whole text; N is the user's message."""

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

PIECE = "lorem ipsum dolor si"


class FloodModel(BaseLlm):
    """A model that streams without delay; like a real model it lets other tasks run before each piece."""

    model: str = "flood"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        count = _piece_count(llm_request)
        for _ in range(count):
            await asyncio.sleep(0)
            yield LlmResponse(content=_content(PIECE), partial=True)
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, candidates_token_count=count)
        yield LlmResponse(content=_content(PIECE * count), finish_reason=types.FinishReason.STOP, usage_metadata=usage)


def _piece_count(request: LlmRequest) -> int:
    parts = request.contents[-1].parts or []
    return int(parts[0].text or "0")


def _content(text: str) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=text)])


root_agent = LlmAgent(name="flood", model=FloodModel())
