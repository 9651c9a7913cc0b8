"""An agent whose model and tools go on only when the test lets them. Its state survives crashes of the server."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

from google.adk.agents import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.function_tool import FunctionTool
from google.genai import types
from pydantic import PrivateAttr

from adkwire import client_tool
from adkwire.testing import Call, ErrorCode, Fail, Say, ScriptedModel, Think, Wait
from adkwire.testing.steps import Step
from tests.support.chats import AGENT, assert_legal

RENUMBERS = "c1"
"""The chat in which the model numbers its calls anew in every message."""


@dataclass(eq=False)
class ModelRequest:
    """One request to the model."""

    request: LlmRequest
    chat: str
    calls: int
    """How many calls its turn has already."""
    steps: deque[Step | None] = field(default_factory=lambda: deque[Step | None]())
    """The next steps of its answer; None ends it."""
    more: asyncio.Event = field(default_factory=asyncio.Event)


class NotifyingModel(ScriptedModel):
    """A model that calls a listener when a request has ended."""

    _ended: Callable[[LlmRequest], None] = PrivateAttr()

    def with_listener(self, ended: Callable[[LlmRequest], None]) -> "NotifyingModel":
        self._ended = ended
        return self

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        try:
            async with aclosing(super().generate_content_async(llm_request, stream)) as responses:
                async for response in responses:
                    yield response
        finally:
            self._ended(llm_request)


class ControlledAgent:
    """The agent, with what was really approved and executed, whatever the server has stored."""

    def __init__(self) -> None:
        self.calls = 0
        self.executed: Counter[int] = Counter()
        self._approved: set[int] = set()
        self._denied: set[int] = set()
        self.problems: list[str] = []
        self.requests: list[ModelRequest] = []
        self.held: dict[int, asyncio.Event] = {}

    def make_agent(self) -> LlmAgent:
        """Return the agent for a new server; requests and tools of the last one are dropped."""
        self.requests, self.held = [], {}
        pay = FunctionTool(self.pay, require_confirmation=True)
        tools = [self.look, pay, trip, clock, where]
        model = NotifyingModel(script=self._script).with_listener(self.ended)
        return LlmAgent(name=AGENT, model=model, tools=list(tools))

    def approve(self, n: int, *, asked: bool) -> None:
        """Note the approval of a payment; after a denial it counts only if the server asks again."""
        self._approved.add(n)
        if asked:
            self._denied.discard(n)

    def deny(self, n: int) -> None:
        """Note that the server has taken a denial."""
        self._denied.add(n)

    def requests_of(self, chat: str) -> list[ModelRequest]:
        return [model_request for model_request in self.requests if model_request.chat == chat]

    def _script(self, request: LlmRequest) -> Iterator[Step]:
        try:
            assert_legal(request.contents)
        except AssertionError as error:
            self.problems.append(f"the model got an illegal request: {error}")
        model_request = ModelRequest(
            request, _first_text(request.contents).split()[0], _calls_in_turn(request.contents)
        )
        self.requests.append(model_request)
        while True:
            while model_request.steps:
                step = model_request.steps.popleft()
                if step is None:
                    return
                yield step
            model_request.more.clear()
            yield Wait(model_request.more)

    def ended(self, request: LlmRequest) -> None:
        """Drop a request to the model that has ended."""
        self.requests = [model_request for model_request in self.requests if model_request.request is not request]

    def advance(self, model_request: ModelRequest, steps: list[str]) -> None:
        """Add steps to the answer of a request."""
        model_request.steps.extend(self._step(step, model_request) for step in steps)
        model_request.more.set()

    def _step(self, kind: str, model_request: ModelRequest) -> Step | None:
        match kind:
            case "say":
                return Say("Word ")
            case "think":
                return Think("Hm ")
            case "fail":
                return Fail(RuntimeError("the model fell over"))
            case "error":
                return ErrorCode("UNAVAILABLE", "the model is away")
            case "end":
                return None
            case _:
                self.calls += 1
                name, _, how = kind.partition("+")
                args = {"n": self.calls, **({"hold": True} if how else {})}
                model_request.calls += 1
                return Call(
                    name,
                    args,
                    f"k{model_request.calls}" if model_request.chat == RENUMBERS else f"call-{self.calls}",
                )

    async def look(self, n: int, hold: bool = False) -> dict[str, int]:
        """Look."""
        if hold:
            await self._hold(n)
        return {"seen": n}

    async def pay(self, n: int, hold: bool = False) -> dict[str, int]:
        """Pay."""
        self.executed[n] += 1
        if self.executed[n] > 1:
            self.problems.append(f"payment {n} was executed {self.executed[n]} times")
        if n not in self._approved or n in self._denied:
            self.problems.append(f"payment {n} was executed without approval")
        if hold:
            await self._hold(n)
        return {"paid": n}

    async def _hold(self, n: int) -> None:
        self.held[n] = asyncio.Event()
        try:
            await self.held[n].wait()
        finally:
            self.held.pop(n, None)


def _first_text(contents: list[types.Content]) -> str:
    return next(part.text for content in contents for part in content.parts or () if part.text)


def _calls_in_turn(contents: list[types.Content]) -> int:
    """Return how many calls there are since the last text of the user."""
    count = 0
    for content in contents:
        parts = content.parts or []
        if content.role == "user" and any(part.text for part in parts):
            count = 0
        count += sum(part.function_call is not None for part in parts)
    return count


async def trip(n: int) -> None:
    """Fall over."""
    raise RuntimeError(f"tripped over {n}")


@client_tool
def clock(n: int) -> dict[str, int]:
    """Read the clock of the device."""
    raise NotImplementedError


@client_tool(require_confirmation=True)
def where(n: int) -> dict[str, int]:
    """Find the device."""
    raise NotImplementedError
