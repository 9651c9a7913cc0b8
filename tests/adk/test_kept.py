"""What the plugin keeps of a run is gone when the run has ended, also of agents inside tools."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool

from adkwire.bridge import Bridge
from adkwire.gate.records import UncheckedAnswer
from adkwire.settings import Settings
from adkwire.testing import Call, Say, ScriptedModel
from tests.live.live_house import CHAT, ME, House
from tests.live.live_house import Till as LiveTill
from tests.patience import PATIENCE
from tests.support.fixtures import Make
from tests.support.gated_tools import Till
from tests.support.payments import PAY

# ADK's own: AgentTool hands the plugins on in a way that its Runner no longer likes.
pytestmark = pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")


def kept(bridge: Bridge) -> dict[str, Collection[Any]]:
    """Return the containers of the plugin, and of its own objects, that are not empty."""
    gc.collect()
    plugin = bridge._runner._plugin
    own = [each for each in vars(plugin).values() if type(each).__module__ == "adkwire.adk.call_records"]
    named = [(name, value) for each in (plugin, *own) for name, value in vars(each).items()]
    return {name: value for name, value in named if isinstance(value, Collection) and name != "name" and len(value)}


@asynccontextmanager
async def conversation(pay: Any) -> AsyncGenerator[House]:
    """Talk with an agent whose tool is an agent that pays when it is approved; the payment waits."""
    gated = FunctionTool(pay, require_confirmation=True)
    inner = LlmAgent(name="inner", model=ScriptedModel(turns=[[PAY], [Say("Inner.")]]), tools=[gated])
    model = ScriptedModel(turns=[[Call("inner", {"request": "pay"})], [Say("Done.")]])
    agent = LlmAgent(name="outer", model=model, tools=[AgentTool(inner)])
    bridge = Bridge(agent, settings=Settings(db="memory:", events_per_second=0))
    here = House(bridge, model, LiveTill())
    try:
        await here.join()
        yield here
    finally:
        await bridge.close(drain=0)


@pytest.mark.parametrize("approved", [True, False])
async def test_a_held_call_of_an_agent_inside_a_tool(approved: bool) -> None:
    till = Till()
    async with conversation(till.plain) as here:
        answer = await (await here.say("pay")).until(lambda me: "tool-approval-request" in me.types)
        await here.answer("pay", UncheckedAnswer(approved=approved))
        await answer.rest()
        assert till.paid == ([5] if approved else [])
        await here.link.close()
        assert kept(here.bridge) == {}


@pytest.mark.parametrize("begun", [False, True], ids=["waiting", "executing"])
async def test_a_conversation_that_is_stopped_during_a_call_inside_a_tool(begun: bool) -> None:
    till = Till()
    till.pause(5)
    async with conversation(till.plain) as here:
        answer = await (await here.say("pay")).until(lambda me: "tool-approval-request" in me.types)
        if begun:
            await here.answer("pay", UncheckedAnswer(approved=True))
            await till.until_begun(5)
        await here.bridge.stop(ME, CHAT)
        await answer.rest()
        await here.link.close()
        assert kept(here.bridge) == {}


async def test_a_run_that_is_stopped_during_a_call_inside_a_tool(make: Make) -> None:
    till = Till()
    till.pause(5)
    inner = LlmAgent(name="inner", model=ScriptedModel(turns=[[PAY]]), tools=[till.plain])
    chat = make(ScriptedModel(turns=[[Call("inner", {"request": "pay"}, "a1")]]), AgentTool(inner))
    await chat.begin("pay")
    await till.until_begun(5)
    await chat.stop()
    assert kept(chat.bridge) == {}


async def test_a_tool_that_ends_after_its_conversation() -> None:
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
    here = House(bridge, ScriptedModel(turns=[]), LiveTill())
    await here.join()
    answer = await here.say("go")
    try:
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
            await bridge.stop(ME, CHAT)
            await answer.rest()
            await here.link.close()
            await bridge.close(drain=0)
    finally:
        go_on.set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait(asyncio.all_tasks() - before)
    assert kept(bridge) == {}
