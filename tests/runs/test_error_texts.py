"""The error text of a failure is one line, also with `error_detail`, which adds the text of the exception."""

from collections.abc import AsyncGenerator

from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event

from adkwire.testing import Call, Fail, Say, ScriptedModel
from tests.support.chats import tool_parts
from tests.support.fixtures import Make


def boom() -> str:
    """Break, for a reason."""
    try:
        raise OSError("no route")
    except OSError as error:
        raise RuntimeError("cannot reach the till") from error


class Breaking(BaseAgent):
    """An agent that raises before it asks its model."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        raise RuntimeError("cannot begin")
        yield


async def test_the_error_of_a_tool_is_one_line(make: Make) -> None:
    chat = make(ScriptedModel(turns=[[Call("boom")], [Say("Well.")]]), boom, error_detail=True)
    [part] = tool_parts((await chat.say("break")).message)
    assert part["errorText"] == "RuntimeError: cannot reach the till"


async def test_the_error_of_a_model_is_one_line(make: Make) -> None:
    chat = make(ScriptedModel(turns=[[Fail(ValueError("out of words"))]]), error_detail=True)
    assert (await chat.say("break")).plain[-1]["errorText"] == "The agent could not answer: ValueError: out of words"


async def test_the_error_of_an_agent_is_one_line(make: Make) -> None:
    chat = make(Breaking(name="breaking"), error_detail=True)
    assert (await chat.say("break")).plain[-1]["errorText"] == "The agent could not answer: RuntimeError: cannot begin"
