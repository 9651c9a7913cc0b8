"""A tool that swallows its cancellation blocks no stop, delete, drain or message, and is locked out of its chat."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.tools.function_tool import FunctionTool

from adkwire import tasks
from adkwire.errors import NotFound
from adkwire.runs import run as runs
from adkwire.runs.run import Run
from adkwire.testing import Call, Say, ScriptedModel
from adkwire.wire.encode.tool_calls import UNFINISHED
from tests.patience import PATIENCE
from tests.support.chats import Chat, tool_parts
from tests.support.fixtures import Make
from tests.support.pages import Page
from tests.support.stubborn import Stubborn


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a run hardly any time to end."""
    monkeypatch.setattr(runs, "STOP_PATIENCE", 0.02)
    monkeypatch.setattr(tasks, "CANCEL_SECONDS", 0.02)


@pytest.fixture
async def stubborn() -> AsyncIterator[Stubborn]:
    async with Stubborn() as work:
        yield work


def model() -> ScriptedModel:
    """A model that calls the tool first, and answers in text after that."""
    return ScriptedModel(turns=[[Say("One moment. "), Call("dig", {}, "c1")], [Say("Next.")], [Say("Last.")]])


def tool(stubborn: Stubborn, *, asks: bool = False) -> FunctionTool:
    async def dig() -> dict[str, Any]:
        """Dig, and ignore every cancellation."""
        await stubborn.work()
        return {"dug": True}

    return FunctionTool(dig, require_confirmation=asks)


async def end_tool(run: Run, stubborn: Stubborn) -> None:
    """Let the tool return at last, and wait until its task has ended."""
    left = [task for task in asyncio.all_tasks() if task.get_name() == f"adkwire-run-{run.id}"]
    await stubborn.release()
    if left:
        await asyncio.wait(left, timeout=PATIENCE)


async def begin_digging(chat: Chat, stubborn: Stubborn) -> Run:
    """Return a run whose tool executes."""
    run = await chat.begin("dig")
    async with asyncio.timeout(PATIENCE):
        await stubborn.began.wait()
    return run


async def test_stop_ends_the_run_and_the_tool_writes_nothing_later(
    make: Make, stubborn: Stubborn, caplog: pytest.LogCaptureFixture
) -> None:
    chat = make(model(), tool(stubborn))
    run = await begin_digging(chat, stubborn)
    assert await chat.stop()
    assert run.closed
    answer = await chat.read(run)
    assert answer.types[-2:] == ["abort", "finish"]
    assert [part["errorText"] for part in tool_parts(answer.message)] == [UNFINISHED]
    assert await chat.stop() is False, "nothing runs any more"
    assert (await chat.say("next")).text == "Next."
    stored, entries = await chat.messages(), (await chat.read(run)).data
    assert stored[1] == answer.message
    await end_tool(run, stubborn)
    assert await chat.messages() == stored
    assert (await chat.read(run)).data == entries
    assert (await chat.say("last")).text == "Last."
    assert sum("abandoned" in message for message in caplog.messages) == 1
    assert [record for record in caplog.records if record.exc_info] == []


async def test_stop_makes_an_approved_call_unknown(make: Make, stubborn: Stubborn) -> None:
    page = Page(make(model(), tool(stubborn, asks=True)))
    await page.say("dig")
    run = await page.approve("c1").post()
    async with asyncio.timeout(PATIENCE):
        await stubborn.began.wait()
    assert await page.chat.stop()
    await page.follow(run)
    assert page.part("c1")["errorText"] == UNFINISHED
    audit = await page.audit()
    assert audit[-1][-1] == "unknown"
    await end_tool(run, stubborn)
    assert await page.audit() == audit
    assert await page.stored() == page.last
    assert (await page.say("next")).text == "Next."


async def test_delete_does_not_wait_for_the_tool(make: Make, stubborn: Stubborn) -> None:
    chat = make(model(), tool(stubborn))
    run = await begin_digging(chat, stubborn)
    async with asyncio.timeout(PATIENCE):
        await chat.bridge.delete("ann", "chat")
    await end_tool(run, stubborn)
    with pytest.raises(NotFound):
        await chat.messages()
    assert (await chat.say("dig again", "u9")).text == "One moment. Next."
    assert len(await chat.messages()) == 2


async def test_drain_does_not_wait_for_the_tool(make: Make, stubborn: Stubborn) -> None:
    chat = make(model(), tool(stubborn), drain=0.01)
    run = await begin_digging(chat, stubborn)
    async with asyncio.timeout(PATIENCE):
        await chat.bridge.close()
    assert run.closed
    again = make(model(), tool(stubborn))
    stored = await again.messages()
    assert [part["errorText"] for part in tool_parts(stored[1])] == [UNFINISHED]
    await end_tool(run, stubborn)
    assert await again.messages() == stored


async def test_a_message_that_replaces_the_run_does_not_wait_for_the_tool(make: Make, stubborn: Stubborn) -> None:
    chat = make(model(), tool(stubborn))
    run = await begin_digging(chat, stubborn)
    assert (await chat.say("next")).text == "Next."
    stored = await chat.messages()
    await end_tool(run, stubborn)
    assert await chat.messages() == stored
    assert len(stored) == 4


async def test_stops_at_once_abandon_the_run_once(
    make: Make, stubborn: Stubborn, caplog: pytest.LogCaptureFixture
) -> None:
    chat = make(model(), tool(stubborn))
    run = await begin_digging(chat, stubborn)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(chat.stop(), chat.stop(), run.stop())
    assert (await chat.read(run)).types.count("abort") == 1
    assert sum("abandoned" in message for message in caplog.messages) == 1
    await end_tool(run, stubborn)
