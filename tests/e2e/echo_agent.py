"""An agent whose model streams back what it is told; after `repeat N` in the first line, the other lines N times."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse

from adkwire.testing import Say
from adkwire.testing.steps import play

REPEAT = re.compile(r"repeat (\d+)\n(.*)", re.DOTALL)
CHUNK = 100
"""Characters in a piece of the stream."""


class EchoModel(BaseLlm):
    """Streams the last message of the user."""

    model: str = "echo"
    offline: ClassVar[bool] = True

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        text = "".join(part.text or "" for part in llm_request.contents[-1].parts or [])
        if found := REPEAT.fullmatch(text):
            text = found[2] * int(found[1])
        playing = play([Say(text, CHUNK)], stream=stream, model=self.model, delay=0.002)
        async with aclosing(playing) as responses:
            async for response in responses:
                yield response


root_agent = LlmAgent(name="echo", model=EchoModel())
