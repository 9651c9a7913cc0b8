"""A connection to a live model, or a tool, that swallows its cancellation is abandoned."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models.llm_request import LlmRequest

from adkwire import tasks
from adkwire.adk.writer import WRITER, LockedOutError, Writer, check_writer
from adkwire.testing import Call, Say, ScriptedConnection, ScriptedModel
from tests.live.live_chat import CHAT, ME, LiveChat, chat_with_agent
from tests.patience import PATIENCE
from tests.support.stubborn import Stubborn


class StubbornModel(ScriptedModel):
    """A model whose live connections swallow the cancellation when they are closed."""

    stubborn: Any

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncGenerator[ScriptedConnection]:
        async with super().connect(llm_request) as connection:
            try:
                yield connection
            finally:
                await self.stubborn.work()


@pytest.fixture(autouse=True)
def short_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "CANCEL_SECONDS", 0.05)


@asynccontextmanager
async def conversation(model: ScriptedModel, *tools: Any) -> AsyncGenerator[LiveChat]:
    agent = LlmAgent(name="teller", model=model, tools=list(tools))
    async with chat_with_agent(agent, model, live_modality="text") as chat:
        yield chat


async def close_link(chat: LiveChat) -> None:
    await chat.link.close()


async def delete_chat(chat: LiveChat) -> None:
    await chat.bridge.delete(ME, CHAT)


async def close_bridge(chat: LiveChat) -> None:
    await chat.bridge.close(drain=0)


@pytest.mark.parametrize("leave", [close_link, delete_chat, close_bridge])
async def test_a_connection_that_does_not_end_is_abandoned(leave: Callable[[LiveChat], Awaitable[None]]) -> None:
    async with Stubborn() as stubborn:
        model = StubbornModel(turns=[[Say("Hello.")]], stubborn=stubborn)
        async with conversation(model) as chat:
            await (await chat.send("hi")).rest()
            async with asyncio.timeout(PATIENCE):
                await leave(chat)
            assert stubborn.began.is_set()
            assert not stubborn.ended.is_set()


async def test_the_chat_goes_on_while_an_abandoned_connection_is_still_there() -> None:
    async with Stubborn() as stubborn:
        model = StubbornModel(turns=[[Say("Hello.")], [Say("Again.")]], stubborn=stubborn)
        async with conversation(model) as chat:
            await (await chat.send("hi")).rest()
            await chat.link.close()
            again = await (await chat.post("and now?")).rest()
            assert again.text == "Again."
            before = await chat.messages()
            await stubborn.release()
            assert await chat.messages() == before
            assert [message["role"] for message in before] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("leave", [close_link, delete_chat, close_bridge])
async def test_a_tool_that_does_not_end_is_abandoned_and_stores_nothing_later(
    leave: Callable[[LiveChat], Awaitable[None]],
) -> None:
    async with Stubborn() as stubborn:

        async def slow() -> dict[str, str]:
            """Take long."""
            await stubborn.work()
            return {"done": "late"}

        model = ScriptedModel(turns=[[Call("slow", {})], [Say("never")]])
        async with conversation(model, slow) as chat:
            await chat.send("be slow")
            await stubborn.began.wait()
            async with asyncio.timeout(PATIENCE):
                await leave(chat)
            kept = await chat.messages() if leave is close_link else []
            await stubborn.release()
            if leave is close_link:
                assert await chat.messages() == kept
                assert "late" not in str(kept)


async def test_a_locked_out_task_and_what_it_starts_may_write_no_more() -> None:
    writer = Writer()
    WRITER.set(writer)
    check_writer()
    writer.lock_out()
    with pytest.raises(LockedOutError):
        check_writer()

    async def child() -> None:
        check_writer()

    with pytest.raises(LockedOutError):
        await asyncio.create_task(child())
