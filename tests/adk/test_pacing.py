"""Pacing of partial text: fewer, larger partial events with the same text."""

# Agent trees of the older kind are still served.
# pyright: reportDeprecated=false

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress

import pytest
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.models import Gemini
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import PrivateAttr

from adkwire import tasks
from adkwire.adk.app import paced_agent, paced_model
from adkwire.testing import Call, Fail, Raw, Say, ScriptedModel, Show, Step, Think, Wait
from tests.patience import PATIENCE
from tests.support.chats import text_of
from tests.support.fixtures import Make, leaked_since

SLOW = 0.001
"""A rate so low that all text that arrives together is joined."""


def partial(text: str, *, thought: bool | None = None, signature: bytes | None = None) -> LlmResponse:
    part = types.Part(text=text, thought=thought, thought_signature=signature)
    return LlmResponse(content=types.Content(role="model", parts=[part]), partial=True)


class Flood(BaseLlm):
    """A model that yields all its responses without waiting, and says when it was closed."""

    model: str = "flood"
    responses: Sequence[LlmResponse] = ()
    _closed: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)

    @property
    def closed(self) -> asyncio.Event:
        return self._closed

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        try:
            for response in self.responses:
                yield response
        finally:
            self._closed.set()


def flood(*responses: LlmResponse) -> Flood:
    return Flood(responses=responses)


async def collect(model: BaseLlm, *, stream: bool = True) -> list[LlmResponse]:
    return [response async for response in model.generate_content_async(LlmRequest(), stream)]


def parts(responses: Sequence[LlmResponse]) -> list[types.Part]:
    return [part for response in responses if response.content for part in response.content.parts or ()]


def texts(responses: Sequence[LlmResponse]) -> list[tuple[str, bool]]:
    return [(part.text or "", bool(part.thought)) for part in parts(responses)]


async def test_the_joined_text_is_the_same_and_there_are_fewer_events() -> None:
    words = [str(number) for number in range(500)]
    responses = await collect(paced_model(flood(*map(partial, words)), 30))
    assert "".join(text for text, _ in texts(responses)) == "".join(words)
    assert len(responses) < 10
    assert all(response.partial for response in responses)


async def test_thoughts_and_text_are_not_mixed() -> None:
    pieces = [
        partial("a", thought=True),
        partial("b", thought=True),
        partial("c"),
        partial("d"),
        partial("e", thought=True),
    ]
    responses = await collect(paced_model(flood(*pieces), 1000))
    assert [(t, h) for t, h in texts(responses)] == [("ab", True), ("cd", False), ("e", True)]


async def test_everything_else_passes_untouched_and_in_order() -> None:
    call = LlmResponse(
        content=types.Content(role="model", parts=[types.Part(function_call=types.FunctionCall(name="f", args={}))]),
        partial=True,
    )
    two = LlmResponse(
        content=types.Content(role="model", parts=[types.Part(text="x"), types.Part(text="y")]), partial=True
    )
    signed = partial("signed", signature=b"s")
    final = LlmResponse(content=types.Content(role="model", parts=[types.Part(text="all")]), partial=False)
    empty = LlmResponse(partial=True)
    pieces = [partial("a"), call, partial("b"), two, partial("c"), signed, empty, partial("d"), final]
    assert await collect(paced_model(flood(*pieces), 1000)) == pieces


async def test_the_first_piece_goes_out_at_once() -> None:
    held = asyncio.Event()
    model = paced_model(ScriptedModel(turns=[[Say("one"), Wait(held), Say("two")]]), SLOW)
    async with asyncio.timeout(PATIENCE), aclosing(model.generate_content_async(LlmRequest(), True)) as responses:
        assert texts([await anext(responses)]) == [("one", False)]


async def test_a_second_piece_waits_for_its_time() -> None:
    """It has arrived, and is not yielded before the period is over."""
    held = asyncio.Event()
    model = paced_model(ScriptedModel(turns=[[Say("one"), Say("two"), Say("three"), Wait(held)]]), SLOW)
    async with aclosing(model.generate_content_async(LlmRequest(), True)) as responses:
        await anext(responses)
        done, waiting = await asyncio.wait([asyncio.ensure_future(anext(responses))], timeout=0.05)
        assert not done
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


async def test_without_streaming_nothing_is_joined() -> None:
    pieces = [partial("a"), partial("b")]
    assert await collect(paced_model(flood(*pieces), SLOW), stream=False) == pieces


async def test_an_exception_of_the_model_comes_through_behind_its_text() -> None:
    model = paced_model(ScriptedModel(turns=[[Say("one two"), Fail(OSError("cut"))]]), 30)
    responses: list[LlmResponse] = []
    with pytest.raises(OSError, match="cut"):
        await _collect_into(responses, model)
    assert "".join(text for text, _ in texts(responses)) == "one two"


@pytest.mark.parametrize("stream", [True, False])
async def test_closing_early_closes_the_model(stream: bool) -> None:
    before = asyncio.all_tasks()
    model = flood(*(partial(str(number)) for number in range(100)))
    responses = paced_model(model, 1000).generate_content_async(LlmRequest(), stream)
    await anext(responses)
    await responses.aclose()
    assert model.closed.is_set()
    assert not leaked_since(before)


async def test_closing_while_the_model_waits_closes_it() -> None:
    before = asyncio.all_tasks()
    model = paced_model(ScriptedModel(turns=[[Say("one"), Wait(asyncio.Event())]]), 1000)
    responses = model.generate_content_async(LlmRequest(), True)
    await anext(responses)
    next_one = asyncio.ensure_future(anext(responses))
    await asyncio.sleep(0)
    next_one.cancel()
    await asyncio.wait([next_one])
    await responses.aclose()
    assert not leaked_since(before)


def test_the_model_is_a_copy_of_the_same_kind() -> None:
    own = Gemini(model="gemini-2.5-flash")
    paced = paced_model(own, 30)
    assert isinstance(paced, Gemini)
    assert paced is not own
    assert type(own) is Gemini
    assert paced.model == "gemini-2.5-flash"
    assert type(paced).__name__ == "Gemini"


@pytest.mark.filterwarnings("ignore:.*deprecated in favor of Workflow:DeprecationWarning")
def test_the_agents_of_the_user_are_left_as_they_are() -> None:
    child = LlmAgent(name="child", model=ScriptedModel(turns=[[]]))
    heir = LlmAgent(name="heir")
    root = LlmAgent(name="root", model=ScriptedModel(turns=[[]]), sub_agents=[child, heir])
    tree = SequentialAgent(name="tree", sub_agents=[root])
    before = (root.model, child.model, heir.model, root.sub_agents, child.parent_agent, root.parent_agent)
    paced = paced_agent(tree, 30)
    assert (root.model, child.model, heir.model, root.sub_agents, child.parent_agent, root.parent_agent) == before
    assert child.parent_agent is root
    assert root.parent_agent is tree
    copy = paced.sub_agents[0]
    assert isinstance(copy, LlmAgent)
    assert copy is not root
    assert type(copy.canonical_model) is not ScriptedModel
    assert [agent.name for agent in copy.sub_agents] == ["child", "heir"]
    assert all(agent.parent_agent is copy for agent in copy.sub_agents)
    inherited = copy.sub_agents[1]
    assert isinstance(inherited, LlmAgent)
    assert inherited.canonical_model is copy.canonical_model


async def test_one_agent_may_be_served_twice(make: Make) -> None:
    agent = LlmAgent(name="helper", model=ScriptedModel(script=lambda _: [Say("ok")]))
    one, two = make(agent, events_per_second=30), make(agent, events_per_second=30)
    assert (await one.say("a")).text == "ok"
    assert (await two.say("b", "b")).text == "ok"


@pytest.mark.parametrize("rate", [0, 30, 1000])
async def test_a_paced_turn_ends_in_the_same_message(make: Make, rate: float) -> None:
    steps: list[Step] = [
        Think("Let me think. "),
        Say("One. "),
        Show("image/png", b"x"),
        Say("Two."),
        Call("nothing", {}, "c1"),
    ]
    chat = make(ScriptedModel(turns=[steps, [Say("a b c d e f g", chunk=1)]]), nothing, events_per_second=rate)
    answer = await chat.say("go")
    assert text_of(answer.message) == "One. Two.a b c d e f g"
    assert (await chat.messages())[-1] == answer.message


async def test_a_rate_of_zero_passes_every_event_on(make: Make) -> None:
    chat = make(ScriptedModel(turns=[[Say("a" * 200, chunk=1)]]), events_per_second=0)
    assert (await chat.say("go")).types.count("text-delta") == 200


async def test_a_raw_response_without_parts_does_not_break_it(make: Make) -> None:
    raw = LlmResponse(content=types.Content(role="model", parts=None), partial=True)
    chat = make(ScriptedModel(turns=[[Say("a "), Raw(raw), Say("b")]]), events_per_second=30)
    assert (await chat.say("go")).text == "a b"


async def _collect_into(responses: list[LlmResponse], model: BaseLlm) -> None:
    async for response in model.generate_content_async(LlmRequest(), True):
        responses.append(response)  # noqa: PERF401 - the responses before an error are needed


def nothing() -> None:
    """Return nothing."""


class Stubborn(BaseLlm):
    """A model that yields one text and then swallows every cancellation until it is let go."""

    model: str = "stubborn"
    _let_go: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)

    @property
    def let_go(self) -> asyncio.Event:
        return self._let_go

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        yield partial("a")
        while not self._let_go.is_set():
            with suppress(asyncio.CancelledError):
                await self._let_go.wait()


async def test_a_model_that_swallows_its_cancellation_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "CANCEL_SECONDS", 0.01)
    before, model = asyncio.all_tasks(), Stubborn()
    try:
        async with asyncio.timeout(PATIENCE):
            async with aclosing(paced_model(model, 1000).generate_content_async(LlmRequest(), stream=True)) as source:
                assert (await anext(source)).content == partial("a").content
        assert leaked_since(before) == ["adkwire-pacing"]
    finally:
        model.let_go.set()
    await asyncio.wait(asyncio.all_tasks() - before)
