"""What is outside the server and does not die with it: a model and tools that go on only when the test lets them."""

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
    """How many calls its message has already."""
    steps: deque[Step | None] = field(default_factory=lambda: deque[Step | None]())
    """What it is to say; None when that is all."""
    more: asyncio.Event = field(default_factory=asyncio.Event)


class NotifyingModel(ScriptedModel):
    """A model that says when it is no longer asked."""

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
    """The world as it is, whatever the server knows of it."""

    def __init__(self) -> None:
        self.calls = 0
        self.executed: Counter[int] = Counter()
        self._approved: set[int] = set()
        self._denied: set[int] = set()
        self.problems: list[str] = []
        self.requests: list[ModelRequest] = []
        self.held: dict[int, asyncio.Event] = {}

    def make_agent(self) -> LlmAgent:
        """What is served; nothing of an earlier life is held any more."""
        self.requests, self.held = [], {}
        pay = FunctionTool(self.pay, require_confirmation=True)
        tools = [self.look, pay, trip, clock, where]
        model = NotifyingModel(script=self._script).with_listener(self.ended)
        return LlmAgent(name=AGENT, model=model, tools=list(tools))

    def approve(self, n: int, *, asked: bool) -> None:
        """Somebody approves a payment; that counts after a no only if the server asks again."""
        self._approved.add(n)
        if asked:
            self._denied.discard(n)

    def deny(self, n: int) -> None:
        """The server has taken a no."""
        self._denied.add(n)

    def requests_of(self, chat: str) -> list[ModelRequest]:
        return [request_of_model for request_of_model in self.requests if request_of_model.chat == chat]

    def _script(self, request: LlmRequest) -> Iterator[Step]:
        try:
            assert_legal(request.contents)
        except AssertionError as error:
            self.problems.append(f"the model got an illegal request: {error}")
        request_of_model = ModelRequest(
            request, _first_text(request.contents).split()[0], _calls_in_turn(request.contents)
        )
        self.requests.append(request_of_model)
        while True:
            while request_of_model.steps:
                step = request_of_model.steps.popleft()
                if step is None:
                    return
                yield step
            request_of_model.more.clear()
            yield Wait(request_of_model.more)

    def ended(self, request: LlmRequest) -> None:
        """The model is no longer asked this."""
        self.requests = [
            request_of_model for request_of_model in self.requests if request_of_model.request is not request
        ]

    def advance(self, request_of_model: ModelRequest, steps: list[str]) -> None:
        """Let the model do these things."""
        request_of_model.steps.extend(self._step(step, request_of_model) for step in steps)
        request_of_model.more.set()

    def _step(self, kind: str, request_of_model: ModelRequest) -> Step | None:
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
                request_of_model.calls += 1
                return Call(
                    name,
                    args,
                    f"k{request_of_model.calls}" if request_of_model.chat == RENUMBERS else f"call-{self.calls}",
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
    """How many calls there are since the user said something last."""
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
