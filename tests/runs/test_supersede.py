"""A user who types instead of answering: what was not executed is taken back, what the browser gave is kept."""

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


async def sealed(page: Page) -> dict[str, dict[str, Any]]:
    """The calls of the first answer as history has them."""
    return {part["toolCallId"]: part for part in tool_parts((await page.chat.messages())[1])}


async def test_a_question_that_is_typed_over(open_page: Open) -> None:
    till, model = Till(), calling(PAY)
    page = open_page(model, till.pay)
    await page.say("pay")
    tab = page.another_tab()
    assert (await page.say("forget it")).text == "Never mind."
    assert till.paid == []
    assert tool_responses(model.requests[-1]) == {"c1": {"error": SUPERSEDED}}
    await assert_history_matches(page, model)
    part = (await sealed(page))["c1"]
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
async def test_an_answer_whose_sibling_is_open_is_void(open_page: Open, verdict: bool) -> None:
    till, model = Till(), calling(PAY, PAY_6)
    page = open_page(model, till.pay)
    await page.say("pay")
    await page.approve("c1", approved=verdict).send()
    tab = page.another_tab()
    await page.say("forget it")
    assert till.paid == []
    assert tool_responses(model.requests[-1]) == {"c1": {"error": WENT_ON}, "c2": {"error": SUPERSEDED}}
    await assert_history_matches(page, model)
    assert {part["state"] for part in (await sealed(page)).values()} == {"output-error"}
    assert refusal(await tab.approve("c2").send()) == LATE
    assert await refused(page.answer("c1", approved=verdict)) == (409, LATE)
    assert till.paid == []


async def test_an_output_that_was_given_is_kept(open_page: Open) -> None:
    till, model = Till(), calling(PAY, CLOCK)
    page = open_page(model, till.pay, clock)
    await page.say("go")
    await page.give("t1", NOON).send()
    await page.say("forget it")
    assert tool_responses(model.requests[-1]) == {"c1": {"error": SUPERSEDED}, "t1": NOON}
    part = (await sealed(page))["t1"]
    assert (part["state"], part["output"]) == ("output-available", NOON)
    assert till.paid == []
    await assert_history_matches(page, model)


async def test_an_output_that_only_the_new_post_brings_is_kept(open_page: Open) -> None:
    """The page had it, and had no time to send it."""
    till, model = Till(), calling(PAY, CLOCK)
    page = open_page(model, till.pay, clock)
    await page.say("go")
    page.give("t1", NOON)
    await page.say("forget it")
    assert tool_responses(model.requests[-1]) == {"c1": {"error": SUPERSEDED}, "t1": NOON}
    part = (await sealed(page))["t1"]
    assert (part["state"], part["output"]) == ("output-available", NOON)
    await assert_history_matches(page, model)


async def test_an_error_that_only_the_new_post_brings_is_kept(open_page: Open) -> None:
    model = calling(CLOCK)
    page = open_page(model, clock)
    await page.say("go")
    page.fail("t1", "no clock")
    await page.say("forget it")
    assert tool_responses(model.requests[-1]) == {"t1": {"error": "no clock"}}
    await assert_history_matches(page, model)


async def test_an_output_that_only_the_new_post_brings_for_an_approved_call(open_page: Open) -> None:
    model = calling(WHERE)
    page = open_page(model, where)
    await page.say("go")
    await page.approve("w1").send()
    page.give("w1", {"city": "Paris"})
    await page.say("and then?")
    assert tool_responses(model.requests[-1]) == {"w1": {"city": "Paris"}}
    assert (await sealed(page))["w1"]["approval"]["approved"] is True
    await assert_history_matches(page, model)


async def test_a_wrong_output_in_the_new_post_is_not_kept(open_page: Open) -> None:
    model = calling(WHERE)
    page = open_page(model, where)
    await page.say("go")
    await page.approve("w1").send()
    page.give("w1", {"city": 5})
    assert (await page.say("and then?")).text == "Never mind."
    assert tool_responses(model.requests[-1]) == {"w1": {"error": WENT_ON}}
    await assert_history_matches(page, model)


async def test_a_verdict_in_the_new_post_counts_for_nothing(open_page: Open) -> None:
    """Who types over a yes that was not sent has not given it."""
    till, model = Till(), calling(PAY)
    page = open_page(model, till.pay)
    await page.say("pay")
    page.approve("c1")
    await page.say("forget it")
    assert till.paid == []
    assert tool_responses(model.requests[-1]) == {"c1": {"error": SUPERSEDED}}


async def test_a_browser_call_that_is_typed_over(open_page: Open) -> None:
    model = calling(CLOCK)
    page = open_page(model, clock)
    await page.say("go")
    await page.say("forget it")
    assert tool_responses(model.requests[-1]) == {"t1": {"error": SUPERSEDED}}
    assert await refused(page.answer("t1", output=NOON)) == (409, LATE)
    await assert_history_matches(page, model)


@pytest.mark.parametrize("approved", [True, False])
async def test_a_gated_browser_call_that_is_typed_over(open_page: Open, approved: bool) -> None:
    model = calling(WHERE)
    page = open_page(model, where)
    await page.say("go")
    if approved:
        await page.approve("w1").send()
    await page.say("forget it")
    words = WENT_ON if approved else SUPERSEDED
    assert tool_responses(model.requests[-1]) == {"w1": {"error": words}}
    part = (await sealed(page))["w1"]
    assert (part["state"], part["errorText"]) == ("output-error", words)
    await assert_history_matches(page, model)
    assert await refused(page.answer("w1", output={"city": "Paris"})) == (409, LATE)


async def test_what_has_run_stays_as_it_is(open_page: Open) -> None:
    def add(a: int, b: int) -> dict[str, int]:
        """Add."""
        return {"sum": a + b}

    model = calling(PAY, Call("add", {"a": 1, "b": 2}, "s1"))
    page = open_page(model, Till().pay, add)
    await page.say("go")
    await page.say("forget it")
    assert tool_responses(model.requests[-1]) == {"c1": {"error": SUPERSEDED}, "s1": {"sum": 3}}
    await assert_history_matches(page, model)


async def test_a_message_while_an_approved_call_runs(open_page: Open) -> None:
    """It had begun: nobody knows how far it came, and nobody says that it was not executed."""
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


async def test_a_message_that_queues_behind_an_approved_call_finds_its_result(open_page: Open) -> None:
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


async def test_where_a_busy_chat_refuses_a_question_does_not_make_it_busy(open_page: Open) -> None:
    till, model = Till(), calling(PAY)
    page = open_page(model, till.pay, on_busy="refuse")
    await page.say("pay")
    assert (await page.say("forget it")).text == "Never mind."
    assert tool_responses(model.requests[-1]) == {"c1": {"error": SUPERSEDED}}
    await assert_history_matches(page, model)


async def test_two_messages_over_one_question(open_page: Open) -> None:
    till, model = Till(), calling(PAY)
    page = open_page(model, till.pay)
    await page.say("pay")
    await asyncio.gather(*(page.bridge.start("ann", page.chat.turn(f"no {n}", f"x{n}")) for n in range(3)))
    async with asyncio.timeout(PATIENCE):
        while page.bridge.writing:
            await page.bridge.writing[0].done.wait()
    assert till.paid == []
    assert await page.pending() == []
    page.messages = []
    await page.say("bye")
    assert tool_responses(model.requests[-1]) == {"c1": {"error": SUPERSEDED}}


async def test_an_answer_and_a_message_at_once(open_page: Open) -> None:
    """Whichever is first: executed once or never, and the model reads what happened."""
    till, model = Till(), ScriptedModel(script=lambda r: [Say("ok")] if _asked(r) else [PAY])
    page = open_page(model, till.pay)
    await page.say("pay")
    answering = asyncio.create_task(page.answer("c1", approved=True))
    typing = asyncio.create_task(page.bridge.start("ann", page.chat.turn("forget it", "u2")))
    await asyncio.wait([answering, typing])
    async with asyncio.timeout(PATIENCE):
        while page.bridge.writing:
            await page.bridge.writing[0].done.wait()
    told = tool_responses(model.requests[-1])["c1"]
    if till.paid:
        assert told in ({"paid": 5}, {"error": UNFINISHED})
    else:
        assert told in ({"error": SUPERSEDED}, {"error": WENT_ON})
    assert len(till.paid) <= 1


def _asked(request: Any) -> bool:
    return any(part.function_call for content in request.contents for part in content.parts or ())
