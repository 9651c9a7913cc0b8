"""A connection to a live model, or a tool, that swallows its cancellation keeps nobody waiting."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models.llm_request import LlmRequest

from adkwire import tasks
from adkwire.adk.writer import WRITER, LockedOutError, Writer, check_writer
from adkwire.bridge import Bridge
from adkwire.settings import Settings
from adkwire.testing import Call, Say, ScriptedConnection, ScriptedModel
from tests.live.live_house import CHAT, ME, House, Till
from tests.patience import PATIENCE
from tests.support.stubborn import Stubborn


class StubbornModel(ScriptedModel):
    """A model whose live connections do not let themselves be closed."""

    stubborn: Any

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncGenerator[ScriptedConnection]:
        async with super().connect(llm_request) as connection:
            try:
                yield connection
            finally:
                await self.stubborn.work()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "CANCEL_SECONDS", 0.05)


@asynccontextmanager
async def conversation(model: ScriptedModel, *tools: Any) -> AsyncGenerator[House]:
    agent = LlmAgent(name="teller", model=model, tools=list(tools))
    bridge = Bridge(agent, settings=Settings(live_modality="text", events_per_second=0))
    here = House(bridge, model, Till())
    try:
        await here.join()
        yield here
    finally:
        async with asyncio.timeout(PATIENCE):
            await bridge.close(drain=0)


async def hang_up(here: House) -> None:
    await here.link.close()


async def delete(here: House) -> None:
    await here.bridge.delete(ME, CHAT)


async def shut_down(here: House) -> None:
    await here.bridge.close(drain=0)


@pytest.mark.parametrize("leave", [hang_up, delete, shut_down])
async def test_a_connection_that_does_not_end_is_abandoned(leave: Callable[[House], Awaitable[None]]) -> None:
    async with Stubborn() as stubborn:
        model = StubbornModel(turns=[[Say("Hello.")]], stubborn=stubborn)
        async with conversation(model) as here:
            await (await here.say("hi")).rest()
            async with asyncio.timeout(PATIENCE):
                await leave(here)
            assert stubborn.began.is_set()
            assert not stubborn.ended.is_set()


async def test_the_chat_goes_on_while_an_abandoned_connection_is_still_there() -> None:
    async with Stubborn() as stubborn:
        model = StubbornModel(turns=[[Say("Hello.")], [Say("Again.")]], stubborn=stubborn)
        async with conversation(model) as here:
            await (await here.say("hi")).rest()
            await here.link.close()
            again = await (await here.type("and now?")).rest()
            assert again.text == "Again."
            before = await here.messages()
            await stubborn.release()
            assert await here.messages() == before
            assert [message["role"] for message in before] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("leave", [hang_up, delete, shut_down])
async def test_a_tool_that_does_not_end_is_abandoned_and_stores_nothing_later(
    leave: Callable[[House], Awaitable[None]],
) -> None:
    async with Stubborn() as stubborn:

        async def slow() -> dict[str, str]:
            """Take long."""
            await stubborn.work()
            return {"done": "late"}

        model = ScriptedModel(turns=[[Call("slow", {})], [Say("never")]])
        async with conversation(model, slow) as here:
            await here.say("be slow")
            await stubborn.began.wait()
            async with asyncio.timeout(PATIENCE):
                await leave(here)
            kept = await here.messages() if leave is hang_up else []
            await stubborn.release()
            if leave is hang_up:
                assert await here.messages() == kept
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
