"""Turns that Gemini answers without an agent: which model answers, what it reads, how turns end."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse

from adkwire import tasks
from adkwire.adk import gemini_direct as direct
from adkwire.adk.gemini_direct import contents_of_chat
from adkwire.bridge import Bridge
from adkwire.demo.agent import DEFAULT_MODEL, build_agent
from adkwire.demo.offline_model import OfflineModel
from adkwire.errors import Unavailable
from adkwire.stores.base import ChatKey
from adkwire.testing import Call, Fail, GeminiEmulator, Say, ScriptedModel, Think, Wait
from adkwire.wire.decode.decoder import UserMessage
from adkwire.wire.encode.outcome import ABORTED
from tests.patience import PATIENCE
from tests.support.chats import Answer, Chat, scripted, settings, stored, text_of, tool_parts
from tests.support.fixtures import leaked_since

KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE")
Start: TypeAlias = Callable[..., Chat]


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Return a function that makes chats with an agent and an offline model; no task is left at the end."""
    before = asyncio.all_tasks()
    async with AsyncExitStack() as stack:

        def build(agent: LlmAgent, offline: BaseLlm | None = None, **options: Any) -> Chat:
            bridge = Bridge(agent, settings=settings(tmp_path, **options), offline_model=offline)
            stack.push_async_callback(bridge.close)
            return Chat(bridge)

        yield build
    assert not leaked_since(before)


async def ask(chat: Chat, text: str) -> Answer:
    chat.count += 1
    turn = chat.turn(text, f"u{chat.count}")
    return await chat.read(await chat.bridge.start(chat.user, turn, direct=True))


def events_of(chat: Chat, abort: asyncio.Event) -> AsyncGenerator[Event, None]:
    return chat.bridge.direct.turn(ChatKey("ann", "chat"), UserMessage("u1", ("hello",)), {}, abort)


def agent_that(*turns: list[Any], tools: tuple[Any, ...] = ()) -> LlmAgent:
    return scripted(ScriptedModel(turns=turns), *tools)


class ClosingModel(ScriptedModel):
    """A model that says when its stream was closed."""

    @property
    def closed(self) -> asyncio.Event:
        return self._closed

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._closed = asyncio.Event()

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        try:
            async for response in super().generate_content_async(llm_request, stream):
                yield response
        finally:
            self._closed.set()


async def test_the_offline_model_answers_without_a_key(start: Start, tmp_path: Path) -> None:
    spare = ScriptedModel(turns=[[Think("Hm."), Say("Offline.")]])
    chat = start(agent_that([Say("never")]), spare)
    assert (chat.bridge.direct.name, chat.bridge.direct.offline) == ("scripted", True)
    answer = await ask(chat, "hello")
    assert answer.text == "Offline."
    assert answer.message["metadata"]["author"] == "gemini"
    assert (await chat.messages())[-1] == answer.message
    question, reply = await stored(tmp_path)
    assert (question.author, reply.author, question.invocation_id) == ("user", "gemini", reply.invocation_id)
    assert question.custom_metadata == reply.custom_metadata
    assert question.invocation_id.startswith("e-")


async def test_the_demo_answers_with_its_offline_model(start: Start) -> None:
    chat = start(build_agent({}))
    assert (chat.bridge.direct.name, chat.bridge.direct.offline) == ("offline", True)
    assert "1 2 3" in (await ask(chat, "count to 3")).text
    assert tool_parts((await ask(chat, "weather in Tokyo")).message) == []


async def test_a_turn_is_refused_without_a_key_and_an_offline_model(start: Start, tmp_path: Path) -> None:
    chat = start(agent_that([Say("never")]))
    assert (chat.bridge.direct.name, chat.bridge.direct.offline) == (None, False)
    with pytest.raises(Unavailable, match="no key"):
        await ask(chat, "hello")
    assert await stored(tmp_path) == []


async def test_a_key_in_the_environment_is_used_with_any_agent(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    async with GeminiEmulator([[Say("From Google.")]]) as gemini:
        for name, value in {**gemini.environment, "NO_PROXY": "127.0.0.1"}.items():
            monkeypatch.setenv(name, value)
        chat = start(agent_that([Say("never")]), OfflineModel())
        assert (chat.bridge.direct.name, chat.bridge.direct.offline) == (DEFAULT_MODEL, False)
        assert (await ask(chat, "hello")).text == "From Google."
        assert gemini.requests[0].model == DEFAULT_MODEL
        await chat.bridge.close()


def test_the_demo_has_the_same_default_model() -> None:
    assert direct.DEFAULT_MODEL == DEFAULT_MODEL


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, False),
        ({"GOOGLE_API_KEY": ""}, False),
        ({"GOOGLE_API_KEY": "x"}, True),
        ({"GEMINI_API_KEY": "x"}, True),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "True"}, True),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "0"}, False),
        ({"GOOGLE_GENAI_USE_ENTERPRISE": "1"}, True),
    ],
)
def test_what_counts_as_a_key(environ: dict[str, str], found: bool) -> None:
    assert direct.has_gemini_key(environ) is found


async def test_the_events_of_an_answer(start: Start) -> None:
    chat = start(agent_that([Say("never")]), ScriptedModel(turns=[[Say("Well, yes.")]]))
    *partial, last = [event async for event in events_of(chat, asyncio.Event())]
    assert [event.partial for event in (*partial, last)] == [True, True, False]
    assert len({event.id for event in (*partial, last)}) == 1
    assert {event.author for event in (*partial, last)} == {"gemini"}


async def test_a_stop_between_two_words_closes_the_model(start: Start) -> None:
    spare, abort = ClosingModel(turns=[[Say("Well, yes.")]]), asyncio.Event()
    events = events_of(start(agent_that([Say("never")]), spare), abort)
    assert (await anext(events)).partial
    abort.set()
    [last] = [event async for event in events]
    assert (last.error_code, spare.closed.is_set()) == (ABORTED, True)


async def test_a_stop_closes_the_model(start: Start) -> None:
    spare = ClosingModel(turns=[[Say("It is "), Wait(asyncio.Event())], [Say("Fine.")]])
    chat = start(agent_that([Say("never")]), spare)
    run = await chat.bridge.start(chat.user, chat.turn("hello", "u1"), direct=True)
    reader = chat.reader(run)
    await reader.until("text-delta")
    assert await chat.stop()
    assert spare.closed.is_set()
    answer = await reader.rest()
    assert (answer.text, answer.types[-2:]) == ("It is ", ["abort", "finish"])
    assert (await chat.messages())[-1] == answer.message
    chat.count = 1
    assert (await ask(chat, "go on")).text == "Fine."
    assert (await chat.messages())[1] == answer.message


class StubbornModel(ScriptedModel):
    """A model that swallows every cancellation after its first response, until it is let go."""

    @property
    def let_go(self) -> asyncio.Event:
        return self._let_go

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._let_go = asyncio.Event()

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        async for response in super().generate_content_async(llm_request, stream):
            yield response
            while not self._let_go.is_set():
                with suppress(asyncio.CancelledError):
                    await self._let_go.wait()


async def test_a_model_that_swallows_its_cancellation_is_abandoned(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "CANCEL_SECONDS", 0.01)
    spare = StubbornModel(turns=[[Say("It is ")]])
    chat = start(agent_that([Say("From the agent.")]), spare)
    reader = chat.reader(await chat.bridge.start(chat.user, chat.turn("hello", "u1"), direct=True))
    await reader.until("text-delta")
    try:
        assert await chat.stop()
        assert (await reader.rest()).types[-2:] == ["abort", "finish"]
    finally:
        spare.let_go.set()


async def test_a_message_to_the_agent_supersedes_a_direct_answer(start: Start) -> None:
    spare = ClosingModel(turns=[[Say("It is "), Wait(asyncio.Event())]])
    chat = start(agent_that([Say("From the agent.")]), spare)
    run = await chat.bridge.start(chat.user, chat.turn("hello", "u0"), direct=True)
    reader = chat.reader(run)
    await reader.until("text-delta")
    assert (await chat.say("no, you")).text == "From the agent."
    assert (await reader.rest()).types[-2:] == ["abort", "finish"]
    assert spare.closed.is_set()


async def test_closing_the_server_ends_an_answer(start: Start) -> None:
    spare = ClosingModel(turns=[[Say("It is "), Wait(asyncio.Event())]])
    chat = start(agent_that([Say("never")]), spare, drain=0)
    reader = chat.reader(await chat.bridge.start(chat.user, chat.turn("hello", "u1"), direct=True))
    await reader.until("text-delta")
    async with asyncio.timeout(PATIENCE):
        await chat.bridge.close()
    assert spare.closed.is_set()


async def test_an_offline_model_that_fails(start: Start) -> None:
    spare = ScriptedModel(turns=[[Say("It is "), Fail(RuntimeError("broken"))]])
    chat = start(agent_that([Say("never")]), spare)
    answer = await ask(chat, "hello")
    assert (answer.text, answer.types[-1]) == ("It is ", "error")
    assert "RuntimeError" in answer.plain[-1]["errorText"]
    assert (await chat.messages())[-1] == answer.message


async def test_calls_are_described_as_context_of_the_user(start: Start, tmp_path: Path) -> None:
    def weather(city: str) -> dict[str, str]:
        """Tell the weather."""
        if city == "Nowhere":
            raise ValueError("there is no such city")
        return {"condition": "sunny"}

    calls = [Call("weather", {"city": city}, city) for city in ("Oslo", "Nowhere")]
    chat = start(agent_that([Think("Hm."), *calls], [Say("Sunny, and nowhere.")], tools=(weather,)), error_detail=True)
    answer = await chat.say("weather?")
    assert text_of(answer.message) == "Sunny, and nowhere."
    question, context, reply = contents_of_chat(await stored(tmp_path))
    assert [content.role for content in (question, context, reply)] == ["user", "user", "model"]
    first, second = [part.text or "" for part in context.parts or ()]
    assert first == 'For context: the tool weather was called with {"city":"Oslo"} and gave {"condition":"sunny"}.'
    assert second.startswith('For context: the tool weather was called with {"city":"Nowhere"} and failed: ')
    assert "there is no such city" in second
