"""A user who sends a new message instead of an answer: pending calls are superseded, outputs are kept."""

import asyncio
from typing import Any

import pytest

from adkwire.adk.events import SUPERSEDED, WENT_ON
from adkwire.testing import Call, Say, ScriptedModel
from adkwire.wire.encode.tool_calls import UNFINISHED
from tests.patience import PATIENCE
from tests.support.chats import tool_parts
from tests.support.fixtures import Open
from tests.support.gated_tools import Till, assert_history_matches, clock, tool_responses, where
from tests.support.pages import Page, refusal, refused

PAY, PAY_6 = Call("pay", {"amount": 5}, "c1"), Call("pay", {"amount": 6}, "c2")
CLOCK, WHERE = Call("clock", {"zone": "UTC"}, "t1"), Call("where", {"exact": True}, "w1")
NOON = {"time": "noon"}
LATE = "Too late: the conversation went on without this call, and it was not executed."


def calling(*calls: Call) -> ScriptedModel:
    return ScriptedModel(turns=[list(calls), [Say("Never mind.")], [Say("Bye.")]])


async def first_calls(page: Page) -> dict[str, dict[str, Any]]:
    """Return the calls of the first answer as history has them, by id."""
    return {part["toolCallId"]: part for part in tool_parts((await page.chat.messages())[1])}


async def test_a_new_message_supersedes_a_call_that_waits_for_a_verdict(open_page: Open) -> None:
    till, model = Till(), calling(PAY)
    page = open_page(model, till.pay)
    await page.say("pay")
    tab = page.another_tab()
    assert (await page.say("forget it")).text == "Never mind."
    assert till.paid == []
    assert tool_responses(model.requests[-1]) == {"c1": {"error": SUPERSEDED}}
    await assert_history_matches(page, model)
    part = (await first_calls(page))["c1"]
    assert (part["state"], part["errorText"]) == ("output-error", SUPERSEDED)
    assert await page.pending() == []
    assert await refused(page.answer("c1", approved=True)) == (409, LATE)
    assert refusal(await tab.approve("c1").send()) == LATE
    assert till.paid == []
    assert await page.audit() == [
        ("agent", "c1", "asked", "waiting"),
        ("ann", "c1", "superseded", "superseded"),
        ("ann", "c1", "refused", "conflict"),
        ("ann", "c1", "refused", "conflict"),
    ]
    assert (await page.say("bye")).text == "Bye."
    await assert_history_matches(page, model)


@pytest.mark.parametrize("verdict", [True, False])
async def test_a_new_message_voids_a_verdict_while_another_call_is_pending(open_page: Open, verdict: bool) -> None:
    till, model = Till(), calling(PAY, PAY_6)
    page = open_page(model, till.pay)
    await page.say("pay")
    await page.approve("c1", approved=verdict).send()
    tab = page.another_tab()
    await page.say("forget it")
    assert till.paid == []
    assert tool_responses(model.requests[-1]) == {"c1": {"error": WENT_ON}, "c2": {"error": SUPERSEDED}}
    await assert_history_matches(page, model)
    assert {part["state"] for part in (await first_calls(page)).values()} == {"output-error"}
    assert refusal(await tab.approve("c2").send()) == LATE
    assert await refused(page.answer("c1", approved=verdict)) == (409, LATE)
    assert till.paid == []


async def test_a_new_message_keeps_an_output(open_page: Open) -> None:
    till, model = Till(), calling(PAY, CLOCK)
    page = open_page(model, till.pay, clock)
    await page.say("go")
    await page.give("t1", NOON).send()
    await page.say("forget it")
    assert tool_responses(model.requests[-1]) == {"c1": {"error": SUPERSEDED}, "t1": NOON}
    part = (await first_calls(page))["t1"]
    assert (part["state"], part["output"]) == ("output-available", NOON)
    assert till.paid == []
    await assert_history_matches(page, model)


async def test_an_output_that_comes_with_the_new_message_is_kept(open_page: Open) -> None:
    """The page had it and had not sent it."""
    till, model = Till(), calling(PAY, CLOCK)
    page = open_page(model, till.pay, clock)
    await page.say("go")
    page.give("t1", NOON)
    await page.say("forget it")
    assert tool_responses(model.requests[-1]) == {"c1": {"error": SUPERSEDED}, "t1": NOON}
    part = (await first_calls(page))["t1"]
    assert (part["state"], part["output"]) == ("output-available", NOON)
    await assert_history_matches(page, model)


async def test_a_browser_error_that_comes_with_the_new_message_is_kept(open_page: Open) -> None:
    model = calling(CLOCK)
    page = open_page(model, clock)
    await page.say("go")
    page.fail("t1", "no clock")
    await page.say("forget it")
    assert tool_responses(model.requests[-1]) == {"t1": {"error": "no clock"}}
    await assert_history_matches(page, model)


async def test_an_output_of_an_approved_call_that_comes_with_the_new_message_is_kept(open_page: Open) -> None:
    model = calling(WHERE)
    page = open_page(model, where)
    await page.say("go")
    await page.approve("w1").send()
    page.give("w1", {"city": "Paris"})
    await page.say("and then?")
    assert tool_responses(model.requests[-1]) == {"w1": {"city": "Paris"}}
    assert (await first_calls(page))["w1"]["approval"]["approved"] is True
    await assert_history_matches(page, model)


async def test_a_wrong_output_that_comes_with_the_new_message_is_not_kept(open_page: Open) -> None:
    model = calling(WHERE)
    page = open_page(model, where)
    await page.say("go")
    await page.approve("w1").send()
    page.give("w1", {"city": 5})
    assert (await page.say("and then?")).text == "Never mind."
    assert tool_responses(model.requests[-1]) == {"w1": {"error": WENT_ON}}
    await assert_history_matches(page, model)


async def test_an_output_of_an_unapproved_call_that_comes_with_the_new_message_is_not_kept(open_page: Open) -> None:
    """It would also be the approval, which the user has not given."""
    model = ScriptedModel(turns=[[Call("where", {"exact": True}, "w1")], [Say("Never mind.")]])
    page = open_page(model, where)
    await page.say("go")
    page.give("w1", {"city": "Paris"})
    assert (await page.say("forget it")).text == "Never mind."
    assert tool_responses(model.requests[-1]) == {"w1": {"error": SUPERSEDED}}
    assert [line[2] for line in await page.audit()] == ["asked", "superseded"]
    await assert_history_matches(page, model)


async def test_a_verdict_that_comes_with_the_new_message_is_ignored(open_page: Open) -> None:
    """A user who sends a message instead of the verdict has not given it."""
    till, model = Till(), calling(PAY)
    page = open_page(model, till.pay)
    await page.say("pay")
    page.approve("c1")
    await page.say("forget it")
    assert till.paid == []
    assert tool_responses(model.requests[-1]) == {"c1": {"error": SUPERSEDED}}


async def test_a_new_message_supersedes_a_browser_call(open_page: Open) -> None:
    model = calling(CLOCK)
    page = open_page(model, clock)
    await page.say("go")
    await page.say("forget it")
    assert tool_responses(model.requests[-1]) == {"t1": {"error": SUPERSEDED}}
    assert await refused(page.answer("t1", output=NOON)) == (409, LATE)
    await assert_history_matches(page, model)


@pytest.mark.parametrize("approved", [True, False])
async def test_a_new_message_supersedes_a_gated_browser_call(open_page: Open, approved: bool) -> None:
    model = calling(WHERE)
    page = open_page(model, where)
    await page.say("go")
    if approved:
        await page.approve("w1").send()
    await page.say("forget it")
    words = WENT_ON if approved else SUPERSEDED
    assert tool_responses(model.requests[-1]) == {"w1": {"error": words}}
    part = (await first_calls(page))["w1"]
    assert (part["state"], part["errorText"]) == ("output-error", words)
    await assert_history_matches(page, model)
    assert await refused(page.answer("w1", output={"city": "Paris"})) == (409, LATE)


async def test_a_new_message_keeps_the_result_of_an_executed_call(open_page: Open) -> None:
    def add(a: int, b: int) -> dict[str, int]:
        """Add."""
        return {"sum": a + b}

    model = calling(PAY, Call("add", {"a": 1, "b": 2}, "s1"))
    page = open_page(model, Till().pay, add)
    await page.say("go")
    await page.say("forget it")
    assert tool_responses(model.requests[-1]) == {"c1": {"error": SUPERSEDED}, "s1": {"sum": 3}}
    await assert_history_matches(page, model)


async def test_a_new_message_makes_an_executing_call_unknown(open_page: Open) -> None:
    """It had begun, so that nobody can say whether it was executed."""
    till = Till()
    till.pause(5)
    model = calling(PAY)
    page = open_page(model, till.pay)
    await page.say("pay")
    run = await page.approve("c1").post()
    await till.until_begun(5)
    page.chat.count += 1
    after = await page.bridge.start("ann", page.chat.turn("forget it", "u9"))
    await page.follow(run)
    assert page.calls == {"c1": "output-error"}
    await page.reply(after)
    assert till.paid == [5]
    assert tool_responses(model.requests[-1]) == {"c1": {"error": UNFINISHED}}
    assert (await page.audit())[-1][2:] == ("approved", "unknown")
    assert (await page.chat.messages())[1]["parts"][1]["errorText"] == UNFINISHED
    status, words = await refused(page.answer("c1", approved=True))
    assert (status, "not known" in words) == (409, True)


async def test_a_queued_message_waits_for_the_result_of_an_approved_call(open_page: Open) -> None:
    till, model = Till(), calling(PAY)
    go_on = till.pause(5)
    page = open_page(model, till.pay, on_busy="queue")
    await page.say("pay")
    run = await page.approve("c1").post()
    await till.until_begun(5)
    queued = await page.bridge.start("ann", page.chat.turn("and then?", "u9"))
    go_on.set()
    await page.follow(run)
    assert page.calls == {"c1": "output-available"}
    await page.reply(queued)
    assert tool_responses(model.requests[-1]) == {"c1": {"paid": 5}}
    await assert_history_matches(page, model)


async def test_a_pending_call_does_not_make_a_chat_busy(open_page: Open) -> None:
    till, model = Till(), calling(PAY)
    page = open_page(model, till.pay, on_busy="refuse")
    await page.say("pay")
    assert (await page.say("forget it")).text == "Never mind."
    assert tool_responses(model.requests[-1]) == {"c1": {"error": SUPERSEDED}}
    await assert_history_matches(page, model)


async def test_three_messages_at_once_supersede_a_call_once(open_page: Open) -> None:
    till, model = Till(), calling(PAY)
    page = open_page(model, till.pay)
    await page.say("pay")
    await asyncio.gather(*(page.bridge.start("ann", page.chat.turn(f"no {n}", f"x{n}")) for n in range(3)))
    async with asyncio.timeout(PATIENCE):
        while page.bridge.active_runs:
            await page.bridge.active_runs[0].done.wait()
    assert till.paid == []
    assert await page.pending() == []
    page.messages = []
    await page.say("bye")
    assert tool_responses(model.requests[-1]) == {"c1": {"error": SUPERSEDED}}


async def test_an_approval_and_a_message_at_once_execute_the_call_at_most_once(open_page: Open) -> None:
    """Whichever is first, the model reads whether the call was executed."""
    till, model = Till(), ScriptedModel(script=lambda r: [Say("ok")] if _has_call(r) else [PAY])
    page = open_page(model, till.pay)
    await page.say("pay")
    answering = asyncio.create_task(page.answer("c1", approved=True))
    typing = asyncio.create_task(page.bridge.start("ann", page.chat.turn("forget it", "u2")))
    await asyncio.wait([answering, typing])
    async with asyncio.timeout(PATIENCE):
        while page.bridge.active_runs:
            await page.bridge.active_runs[0].done.wait()
    response = tool_responses(model.requests[-1])["c1"]
    if till.paid:
        assert response in ({"paid": 5}, {"error": UNFINISHED})
    else:
        assert response in ({"error": SUPERSEDED}, {"error": WENT_ON})
    assert len(till.paid) <= 1


def _has_call(request: Any) -> bool:
    return any(part.function_call for content in request.contents for part in content.parts or ())
