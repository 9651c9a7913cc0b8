"""A model for tests that says what it is told to say, and streams it like a real one."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Self

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import PrivateAttr, model_validator

from adkwire.testing.steps import Step, play


class ScriptExhaustedError(LookupError):
    """The model was asked for more turns than its script has: a test's script is too short."""


class ScriptedModel(BaseLlm):
    """An ADK model that plays a script.

    `turns` is a list of turns, each a list of steps. Which turn is played is the number of model contents already
    in the request, so the instance keeps no state and may serve any number of runs at once. A turn that failed left
    no content behind, so it is played again. Or give `script`, a function from the request to the steps.

        ScriptedModel(turns=[[Call("get_weather", {"location": "Paris"})], [Say("Sunny.")]])
    """

    model: str = "scripted"
    turns: Sequence[Sequence[Step]] | None = None
    script: Callable[[LlmRequest], Iterable[Step]] | None = None
    _requests: list[list[types.Content]] = PrivateAttr(default_factory=list[list[types.Content]])

    @model_validator(mode="after")
    def _one_kind_of_script(self) -> Self:
        if (self.turns is None) == (self.script is None):
            raise ValueError("a ScriptedModel takes either turns or script")
        return self

    @property
    def requests(self) -> list[list[types.Content]]:
        """The contents of every request this instance received, as they were then."""
        return self._requests

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Play the turn this request asks for."""
        self._requests.append([content.model_copy(deep=True) for content in llm_request.contents])
        async with aclosing(play(self._steps(llm_request), stream=stream, model=self.model)) as responses:
            async for response in responses:
                yield response

    def _steps(self, request: LlmRequest) -> Iterable[Step]:
        if self.script is not None:
            return self.script(request)
        turns = self.turns or ()
        index = sum(content.role == "model" for content in request.contents)
        if index >= len(turns):
            raise ScriptExhaustedError(f"turn {index + 1} was asked for, the script of {self.model!r} has {len(turns)}")
        return turns[index]
