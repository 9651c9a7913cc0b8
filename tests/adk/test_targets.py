"""Targets that can be served: an agent, an app with plugins, a workflow, agents that transfer to each other."""

# Agent trees of the older kind are still served.
# pyright: reportDeprecated=false

import asyncio
from typing import Any

import pytest
from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.apps import App
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import START, Workflow
from google.genai import types

from adkwire.testing import Call, Say, ScriptedModel, Step, Wait
from tests.support.chats import tool_parts
from tests.support.fixtures import Make

old_trees = pytest.mark.filterwarnings("ignore:.*deprecated in favor of Workflow:DeprecationWarning")


class RecordingPlugin(BasePlugin):
    """A plugin of the user's app that records the messages."""

    def __init__(self) -> None:
        super().__init__(name="recording")
        self.messages: list[str] = []

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: types.Content) -> None:
        self.messages.append("".join(part.text or "" for part in user_message.parts or ()))


async def test_an_app_keeps_its_name_and_plugins(make: Make) -> None:
    plugin = RecordingPlugin()
    app = App(
        name="my_app", root_agent=LlmAgent(name="root", model=ScriptedModel(turns=[[Say("ok")]])), plugins=[plugin]
    )
    chat = make(app, events_per_second=30)
    answer = await chat.say("hello")
    assert answer.text == "ok"
    assert plugin.messages == ["hello"]
    assert app.plugins == [plugin]
    assert app.resumability_config is None
    assert (await chat.messages())[-1] == answer.message


async def test_a_transfer_to_a_sub_agent(make: Make) -> None:
    expert = LlmAgent(name="expert", model=ScriptedModel(script=lambda _: [Say("I know.")]), description="Knows.")
    model = ScriptedModel(script=lambda _: [Call("transfer_to_agent", {"agent_name": "expert"}, "t1")])
    chat = make(LlmAgent(name="root", model=model, sub_agents=[expert]), events_per_second=30)
    answer = await chat.say("hard one")
    assert answer.text == "I know."
    assert [chunk["data"] for chunk in answer.plain if chunk["type"] == "data-transfer"] == [
        {"from": "root", "to": "expert"}
    ]
    assert answer.types[-1] == "finish"
    messages = await chat.messages()
    assert messages[-1] == answer.message
    second = await chat.say("another")
    assert second.types[-1] == "finish"
    assert second.text == "I know."
    assert len(await chat.messages()) == 4


async def test_stop_in_a_sub_agent(make: Make) -> None:
    held = asyncio.Event()
    expert = LlmAgent(
        name="expert", model=ScriptedModel(script=lambda _: [Say("I "), Wait(held)]), description="Knows."
    )
    model = ScriptedModel(script=lambda _: [Call("transfer_to_agent", {"agent_name": "expert"}, "t1")])
    chat = make(LlmAgent(name="root", model=model, sub_agents=[expert]))
    run = await chat.begin("hard one")
    reader = chat.reader(run)
    await reader.until("text-delta")
    assert await chat.stop()
    answer = await reader.rest()
    assert answer.text == "I "
    assert answer.types[-2:] == ["abort", "finish"]
    assert (await chat.messages())[-1] == answer.message


def speaker(name: str, text: str) -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedModel(script=lambda _: [Say(text)]))


@old_trees
async def test_agents_one_after_the_other(make: Make) -> None:
    tree = SequentialAgent(name="both", sub_agents=[speaker("one", "First. "), speaker("two", "Second.")])
    chat = make(tree, events_per_second=30)
    answer = await chat.say("go")
    assert answer.text == "First. Second."
    assert (await chat.messages())[-1] == answer.message


@old_trees
async def test_agents_side_by_side(make: Make) -> None:
    tree = ParallelAgent(name="both", sub_agents=[speaker("one", "a a a "), speaker("two", "b b b ")])
    chat = make(tree)
    answer = await chat.say("go")
    texts = [part["text"] for part in answer.message["parts"] if part["type"] == "text"]
    assert sorted(texts) == ["a a a ", "b b b "]
    kept = [part["text"] for part in (await chat.messages())[-1]["parts"] if part["type"] == "text"]
    assert sorted(kept) == sorted(texts)


@old_trees
async def test_a_loop_that_ends_itself(make: Make) -> None:
    def enough(tool_context: ToolContext) -> str:
        """End the loop."""
        tool_context.actions.escalate = True
        return "enough"

    def script(request: LlmRequest) -> list[Step]:
        again = any(part.function_response for part in request.contents[-1].parts or ())
        return [Say("Done.")] if again else [Say("Round. "), Call("enough")]

    worker = LlmAgent(name="worker", model=ScriptedModel(script=script), tools=[enough])
    chat = make(LoopAgent(name="loop", sub_agents=[worker], max_iterations=3))
    answer = await chat.say("go")
    assert answer.types[-1] == "finish"
    assert answer.text == "Round. Done."
    assert all(part["state"].startswith("output-") for part in tool_parts(answer.message))
    assert (await chat.messages())[-1] == answer.message


def shout(node_input: types.Content) -> str:
    """Say it loudly."""
    return "".join(part.text or "" for part in node_input.parts or ()).upper()


def greet(node_input: str) -> Event:
    """Say it kindly."""
    return Event(output=f"Hello {node_input}")


async def test_a_workflow_of_functions(make: Make) -> None:
    chat = make(Workflow(name="flow", edges=[(START, shout, greet)]), events_per_second=30)
    answer = await chat.say("ann")
    assert answer.text == "Hello ANN"
    assert (await chat.messages())[-1] == answer.message
    assert (await chat.say("bob")).text == "Hello BOB"
    assert chat.bridge.agent_name == "flow"
    assert chat.bridge.model_name is None
    assert await chat.bridge.tools() == []


async def test_a_workflow_with_an_agent(make: Make) -> None:
    chat = make(Workflow(name="flow", edges=[(START, speaker("one", "From the agent."))]), events_per_second=30)
    answer = await chat.say("ann")
    assert answer.text == "From the agent."
    assert (await chat.messages())[-1] == answer.message


async def test_tools_of_the_whole_tree_are_named_once(make: Make) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    child = LlmAgent(name="child", model=ScriptedModel(turns=[[]]), tools=[add])
    chat = make(LlmAgent(name="root", model=ScriptedModel(turns=[[]]), tools=[add], sub_agents=[child]))
    [tool] = await chat.bridge.tools()
    assert (tool.name, tool.asks) == ("add", False)
    assert tool.schema is not None
    assert set(tool.schema["properties"]) == {"a", "b"}
    assert chat.bridge.model_name == "scripted"


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def test_the_tool_list_says_which_tools_ask(make: Make) -> None:
    def maybe(amount: int) -> bool:
        return amount > 10

    def buy(amount: int) -> str:
        """Buy."""
        return f"bought {amount}"

    def look() -> str:
        """Look."""
        return "nothing"

    tools: list[Any] = [
        FunctionTool(pay, require_confirmation=True),
        FunctionTool(buy, require_confirmation=maybe),
        look,
    ]
    chat = make(LlmAgent(name="root", model=ScriptedModel(turns=[[]]), tools=tools))
    assert {tool.name: tool.asks for tool in await chat.bridge.tools()} == {"pay": True, "buy": True, "look": False}


async def test_tools_inside_a_workflow(make: Make) -> None:
    cashier = LlmAgent(name="cashier", model=ScriptedModel(turns=[[Say("ok")]]), tools=[pay])
    inner = Workflow(name="inner", edges=[(START, cashier)])
    for flow in (inner, Workflow(name="outer", edges=[(START, inner)])):
        chat = make(flow)
        assert [tool.name for tool in await chat.bridge.tools()] == ["pay"]
