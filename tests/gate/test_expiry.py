"""Calls that nobody answers in time: told as such to model and person, and never executed."""

import asyncio
from typing import Any

import pytest

from adkwire import Policy, Rule
from adkwire.adk.events import EXPIRED
from adkwire.testing import Call
from tests.gate.records import Clock
from tests.support.fixtures import Make, Open
from tests.support.gated_tools import Till, assert_history_matches, clock, tool_responses, where
from tests.support.pages import FINISH_PENDING, START, Page, comparable_chunks, last_step, refusal, refused
from tests.support.payments import PAY, model_calling

LATE = "Too late: nobody answered in time, and the call was not executed."


async def pass_time(page: Page, time: Clock, seconds: float) -> None:
    """Let time pass until the chat has gone on."""
    async with page.chat_events() as events:
        time.advance(seconds)
        page.bridge.watch()
        started = await events.until("run-started")
        run = await page.chat.find(str(started.run))
        await page.follow(run)


async def test_a_question_says_until_when_it_waits(open_page: Open) -> None:
    page = open_page(model_calling(PAY), Till().pay, clock=Clock(0), approval_timeout=60)
    await page.say("pay")
    data = next(part["data"] for part in page.last["parts"] if part["type"] == "data-approval")
    assert data["expiresAt"] == "1970-01-01T00:01:00.000Z"
    assert (await page.pending())[0]["expiresAt"] == "1970-01-01T00:01:00.000Z"
    assert await page.stored() == page.last


async def test_a_question_that_nobody_answers(open_page: Open) -> None:
    till, model, time = Till(), model_calling(PAY), Clock()
    page = open_page(model, till.pay, clock=time, approval_timeout=60)
    await page.say("pay")
    await pass_time(page, time, 60)
    assert till.paid == []
    assert (page.part("c1")["state"], page.part("c1")["errorText"]) == ("output-error", EXPIRED)
    assert "approved" not in page.part("c1")["approval"]
    assert tool_responses(model.requests[-1]) == {"c1": {"error": EXPIRED}}
    assert (await page.audit())[1:] == [
        ("clock", "c1", "expired", "waiting"),
        ("clock", "c1", "expired", "not executed"),
    ]
    await assert_history_matches(page, model)
    assert await refused(page.answer("c1", approved=True)) == (409, LATE)
    assert (await page.say("bye")).text == "Bye."
    await assert_history_matches(page, model)


async def test_what_the_stream_of_an_expiry_says(open_page: Open) -> None:
    time = Clock()
    page = open_page(model_calling(PAY), Till().pay, clock=time, approval_timeout=60)
    await page.say("pay")
    async with page.chat_events() as events:
        time.advance(60)
        page.bridge.watch()
        started = await events.until("run-started")
    run = await page.chat.find(str(started.run))
    assert comparable_chunks(page, await page.follow(run)) == [
        START,
        {"type": "tool-output-error", "toolCallId": "c1", "errorText": EXPIRED},
        *last_step(1, "Done."),
    ]


@pytest.mark.parametrize("way", ["post", "route"])
@pytest.mark.parametrize("given", ["yes", "no"])
async def test_an_answer_that_comes_too_late_before_the_clock_came_by(open_page: Open, way: str, given: str) -> None:
    till, model, time = Till(), model_calling(PAY), Clock()
    page = open_page(model, till.pay, clock=time, approval_timeout=60)
    await page.say("pay")
    time.advance(60)
    if way == "post":
        assert refusal(await page.another_tab().approve("c1", approved=given == "yes").send()) == LATE
    else:
        assert await refused(page.answer("c1", approved=given == "yes")) == (409, LATE)
    assert (till.paid, len(model.requests)) == ([], 1)


async def test_a_browser_call_that_nobody_executes(open_page: Open) -> None:
    model, time = model_calling(Call("clock", {"zone": "UTC"}, "c1")), Clock()
    page = open_page(model, clock, clock=time, approval_timeout=60)
    await page.say("time?")
    assert (await page.pending())[0]["expiresAt"] == "1970-01-01T00:17:40.000Z"
    await pass_time(page, time, 60)
    assert page.calls == {"c1": "output-error"}
    assert tool_responses(model.requests[-1]) == {"c1": {"error": EXPIRED}}
    await assert_history_matches(page, model)
    assert await refused(page.answer("c1", output={"time": "noon"})) == (409, LATE)


async def test_an_approved_browser_call_that_nobody_executes(open_page: Open) -> None:
    model, time = model_calling(Call("where", {"exact": True}, "c1")), Clock()
    page = open_page(model, where, clock=time, approval_timeout=60)
    await page.say("where?")
    await page.approve("c1").send()
    await pass_time(page, time, 60)
    assert page.calls == {"c1": "output-error"}
    assert page.part("c1")["approval"]["approved"] is True
    assert tool_responses(model.requests[-1]) == {"c1": {"error": EXPIRED}}
    await assert_history_matches(page, model)


async def test_a_gated_browser_call_that_nobody_answers(open_page: Open) -> None:
    model, time = model_calling(Call("where", {"exact": True}, "c1")), Clock()
    page = open_page(model, where, clock=time, approval_timeout=60)
    await page.say("where?")
    await pass_time(page, time, 60)
    assert page.calls == {"c1": "output-error"}
    assert tool_responses(model.requests[-1]) == {"c1": {"error": EXPIRED}}
    await assert_history_matches(page, model)


async def test_a_yes_beside_a_question_that_expires_is_executed(open_page: Open) -> None:
    till, time = Till(), Clock()
    model = model_calling(PAY, Call("pay", {"amount": 6}, "c2"))
    page = open_page(model, till.pay, clock=time, approval_timeout=60)
    await page.say("pay")
    assert comparable_chunks(page, await page.approve("c2").send()) == [START, FINISH_PENDING]
    await pass_time(page, time, 60)
    assert till.paid == [6]
    assert page.calls == {"c1": "output-error", "c2": "output-available"}
    assert tool_responses(model.requests[-1]) == {"c1": {"error": EXPIRED}, "c2": {"paid": 6}}
    await assert_history_matches(page, model)


async def test_two_questions_expire_one_after_the_other(open_page: Open) -> None:
    till, time = Till(), Clock()
    rules = [Rule("pay", "ask", when={"amount": 5}, timeout=30), Rule("pay", "ask", timeout=60)]
    model = model_calling(PAY, Call("pay", {"amount": 6}, "c2"))
    page = open_page(model, till.plain, clock=time, policy=Policy(rules))
    await page.say("pay")
    async with page.chat_events() as events:
        time.advance(30)
        page.bridge.watch()
        await events.until("call-settled")
    assert [pending["toolCallId"] for pending in await page.pending()] == ["c2"]
    assert len(model.requests) == 1
    await page.reload()
    await pass_time(page, time, 30)
    assert tool_responses(model.requests[-1]) == {"c1": {"error": EXPIRED}, "c2": {"error": EXPIRED}}
    assert till.paid == []
    await assert_history_matches(page, model)


async def test_the_timeout_of_a_rule_comes_before_that_of_the_settings(open_page: Open) -> None:
    policy = Policy([Rule("pay", "ask", timeout=5)])
    page = open_page(model_calling(PAY), Till().plain, clock=Clock(0), policy=policy, approval_timeout=60)
    await page.say("pay")
    assert (await page.pending())[0]["expiresAt"] == "1970-01-01T00:00:05.000Z"


async def test_without_a_timeout_it_waits(open_page: Open) -> None:
    till, time = Till(), Clock()
    page = open_page(model_calling(PAY), till.pay, clock=time)
    await page.say("pay")
    assert "expiresAt" not in (await page.pending())[0]
    time.advance(10**9)
    page.bridge.watch()
    await page.approve("c1").send()
    assert till.paid == [5]


async def test_the_clock_comes_by_itself(make: Make) -> None:
    """With the real clock: nobody wakes it."""
    model = model_calling(PAY)
    page = Page(make(model, Till().plain, policy=Policy([Rule("pay", "ask", timeout=0.05)])))
    async with page.chat_events() as events:
        await page.say("pay")
        await events.until("run-ended", times=2)
    await page.reload()
    assert page.calls == {"c1": "output-error"}
    await assert_history_matches(page, model)


async def test_what_expired_while_the_server_was_down(make: Make) -> None:
    till, time = Till(), Clock()
    page = Page(make(model_calling(PAY), till.pay, clock=time, approval_timeout=60))
    await page.say("pay")
    await page.bridge.close()
    time.advance(60)
    model = model_calling(PAY)
    page = page.after_restart(make(model, till.pay, clock=time, approval_timeout=60))
    async with page.chat_events() as events:
        page.bridge.watch()
        await events.until("run-ended")
    await page.reload()
    assert page.calls == {"c1": "output-error"}
    assert tool_responses(model.requests[-1]) == {"c1": {"error": EXPIRED}}
    await assert_history_matches(page, model)


async def test_an_answer_and_the_clock_at_once(open_page: Open) -> None:
    till, model, time = Till(), model_calling(PAY), Clock()
    page = open_page(model, till.pay, clock=time, approval_timeout=60)
    await page.say("pay")
    async with page.chat_events() as events:
        time.advance(59)
        answering: asyncio.Task[Any] = asyncio.create_task(page.answer("c1", approved=True))
        await asyncio.sleep(0)
        time.advance(1)
        page.bridge.watch()
        await asyncio.wait([answering])
        await events.until("run-ended")
    taken = answering.exception() is None
    assert till.paid == ([5] if taken else [])
    await page.reload()
    assert page.calls == {"c1": "output-available" if taken else "output-error"}
    assert len(model.requests) == 2
    await assert_history_matches(page, model)
