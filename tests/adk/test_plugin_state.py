"""The gate plugin keeps nothing of a run that has ended, also of agents inside tools."""

import asyncio
import gc
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.tools.agent_tool import AgentTool

from adkwire.bridge import Bridge
from adkwire.gate.records import UncheckedAnswer
from adkwire.settings import Settings
from adkwire.testing import Call, ScriptedModel
from tests.live.live_chat import CHAT, ME, LiveChat, chat_with_inner_agent
from tests.patience import PATIENCE
from tests.support.fixtures import Make
from tests.support.gated_tools import Till
from tests.support.payments import PAY

# AgentTool passes plugins to its Runner in a way that ADK itself has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")


def kept(bridge: Bridge) -> dict[str, Collection[Any]]:
    """Return the containers of the plugin, and of its own objects, that are not empty."""
    gc.collect()
    plugin = bridge._runner._plugin
    own = [each for each in vars(plugin).values() if type(each).__module__ == "adkwire.adk.call_records"]
    named = [(name, value) for each in (plugin, *own) for name, value in vars(each).items()]
    return {name: value for name, value in named if isinstance(value, Collection) and name != "name" and len(value)}


@pytest.mark.parametrize("approved", [True, False])
async def test_nothing_is_kept_of_an_inner_held_call(approved: bool) -> None:
    till = Till()
    async with chat_with_inner_agent(till.plain) as chat:
        answer = await (await chat.send("pay")).until(lambda reader: "tool-approval-request" in reader.types)
        await chat.answer("pay", UncheckedAnswer(approved=approved))
        await answer.rest()
        assert till.paid == ([5] if approved else [])
        await chat.link.close()
        assert kept(chat.bridge) == {}


@pytest.mark.parametrize("begun", [False, True], ids=["waiting", "executing"])
async def test_nothing_is_kept_of_an_inner_call_that_was_stopped(begun: bool) -> None:
    till = Till()
    till.pause(5)
    async with chat_with_inner_agent(till.plain) as chat:
        answer = await (await chat.send("pay")).until(lambda reader: "tool-approval-request" in reader.types)
        if begun:
            await chat.answer("pay", UncheckedAnswer(approved=True))
            await till.until_begun(5)
        await chat.bridge.stop(ME, CHAT)
        await answer.rest()
        await chat.link.close()
        assert kept(chat.bridge) == {}


async def test_nothing_is_kept_of_a_stopped_run_with_an_inner_call(make: Make) -> None:
    till = Till()
    till.pause(5)
    inner = LlmAgent(name="inner", model=ScriptedModel(turns=[[PAY]]), tools=[till.plain])
    chat = make(ScriptedModel(turns=[[Call("inner", {"request": "pay"}, "a1")]]), AgentTool(inner))
    await chat.begin("pay")
    await till.until_begun(5)
    await chat.stop()
    assert kept(chat.bridge) == {}


async def test_nothing_is_kept_of_a_tool_that_ends_after_its_conversation() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        """Swallow every cancellation."""
        begun.set()
        while not go_on.is_set():
            with suppress(asyncio.CancelledError):
                await go_on.wait()
        return "late"

    before = asyncio.all_tasks()
    agent = LlmAgent(name="agent", model=ScriptedModel(turns=[[Call("stubborn", {}, "c1")]]), tools=[stubborn])
    bridge = Bridge(agent, settings=Settings(db="memory:", events_per_second=0))
    chat = LiveChat(bridge)
    await chat.join()
    answer = await chat.send("go")
    try:
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
            await bridge.stop(ME, CHAT)
            await answer.rest()
            await chat.link.close()
            await bridge.close(drain=0)
    finally:
        go_on.set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait(asyncio.all_tasks() - before)
    assert kept(bridge) == {}
