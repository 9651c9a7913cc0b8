"""Several calls in one step: answered in any order, with any verdicts, in one go or one by one."""

import asyncio
from itertools import permutations, product
from typing import Any

import pytest
from google.adk.tools.function_tool import FunctionTool

from adkwire.adk.events import DENIED
from adkwire.testing import Call
from tests.support.fixtures import Make, Open
from tests.support.gated_tools import Till, assert_history_matches, clock, tool_responses, where
from tests.support.pages import FINISH_PENDING, START, Page, comparable_chunks
from tests.support.payments import model_calling

PAY_5, PAY_6, PAY_7 = (Call("pay", {"amount": amount}, f"c{amount}") for amount in (5, 6, 7))
CLOCK, WHERE = Call("clock", {"zone": "UTC"}, "t1"), Call("where", {"exact": True}, "w1")
NOON, PARIS = {"time": "noon"}, {"city": "Paris"}
TWO = ["c5", "c6"]
THREE = ["c5", "c6", "c7"]


def result(call: str, approved: bool) -> dict[str, Any]:
    return {"paid": int(call[1:])} if approved else {"error": DENIED}


@pytest.mark.parametrize("verdicts", list(product([True, False], repeat=2)))
async def test_two_calls_can_be_answered_in_one_request(open_page: Open, verdicts: tuple[bool, ...]) -> None:
    till, model = Till(), model_calling(PAY_5, PAY_6)
    page = open_page(model, till.pay)
    await page.say("pay")
    for call, approved in zip(TWO, verdicts, strict=True):
        page.approve(call, approved=approved)
    assert (await page.send()).text == "Done."
    assert till.paid == [int(call[1:]) for call, approved in zip(TWO, verdicts, strict=True) if approved]
    assert tool_responses(model.requests[-1]) == {
        call: result(call, approved) for call, approved in zip(TWO, verdicts, strict=True)
    }
    await assert_history_matches(page, model)


@pytest.mark.parametrize("verdicts", list(product([True, False], repeat=2)))
@pytest.mark.parametrize("order", list(permutations(TWO)))
async def test_two_calls_can_be_answered_one_by_one(
    open_page: Open, order: tuple[str, ...], verdicts: tuple[bool, ...]
) -> None:
    till, model = Till(), model_calling(PAY_5, PAY_6)
    page = open_page(model, till.pay)
    await page.say("pay")
    verdict_of = dict(zip(order, verdicts, strict=True))
    first = await page.approve(order[0], approved=verdict_of[order[0]]).send()
    assert comparable_chunks(page, first) == [START, FINISH_PENDING]
    assert (till.paid, len(model.requests)) == ([], 1)
    await assert_history_matches(page, model)
    assert [pending["toolCallId"] for pending in await page.pending()] == [order[1]]
    second = await page.approve(order[1], approved=verdict_of[order[1]]).send()
    assert second.text == "Done."
    assert till.paid == [int(call[1:]) for call in TWO if verdict_of[call]]
    assert tool_responses(model.requests[-1]) == {call: result(call, verdict_of[call]) for call in TWO}
    await assert_history_matches(page, model)


@pytest.mark.parametrize("verdicts", list(product([True, False], repeat=3)))
@pytest.mark.parametrize("order", list(permutations(THREE)))
async def test_three_calls_can_be_answered_by_the_calls_route(
    make: Make, order: tuple[str, ...], verdicts: tuple[bool, ...]
) -> None:
    till, model = Till(), model_calling(PAY_5, PAY_6, PAY_7)
    page = Page(make(model, till.pay, db="memory:"))
    await page.say("pay")
    verdict_of = dict(zip(order, verdicts, strict=True))
    for call in order[:-1]:
        assert (await page.answer(call, approved=verdict_of[call])).state == "answered"
    await page.reload()
    assert page.calls == {call: _state(call, order[-1]) for call in THREE}
    assert till.paid == []
    await page.answer_and_follow(order[-1], approved=verdict_of[order[-1]])
    assert till.paid == [int(call[1:]) for call in THREE if verdict_of[call]]
    assert tool_responses(model.requests[-1]) == {call: result(call, verdict_of[call]) for call in THREE}
    await assert_history_matches(page, model)


@pytest.mark.parametrize("verdicts", [(True, False, True), (False, True, False), (True, True, True)])
@pytest.mark.parametrize("order", list(permutations(THREE)))
async def test_three_calls_can_be_answered_one_by_one(
    make: Make, order: tuple[str, ...], verdicts: tuple[bool, ...]
) -> None:
    till, model = Till(), model_calling(PAY_5, PAY_6, PAY_7)
    page = Page(make(model, till.pay, db="memory:"))
    await page.say("pay")
    verdict_of = dict(zip(order, verdicts, strict=True))
    for call in order[:-1]:
        assert comparable_chunks(page, await page.approve(call, approved=verdict_of[call]).send()) == [
            START,
            FINISH_PENDING,
        ]
        await assert_history_matches(page, model)
    assert (till.paid, len(model.requests)) == ([], 1)
    await page.approve(order[-1], approved=verdict_of[order[-1]]).send()
    assert till.paid == [int(call[1:]) for call in THREE if verdict_of[call]]
    assert tool_responses(model.requests[-1]) == {call: result(call, verdict_of[call]) for call in THREE}
    await assert_history_matches(page, model)


def _state(call: str, pending: str) -> str:
    return "approval-requested" if call == pending else "approval-responded"


async def test_answers_by_the_calls_route_at_once_make_one_continuation(open_page: Open) -> None:
    till, model = Till(), model_calling(PAY_5, PAY_6, PAY_7)
    page = open_page(model, till.pay)
    await page.say("pay")
    async with page.chat_events() as events:
        await asyncio.gather(*(page.answer(call, approved=True) for call in THREE))
        await events.until("run-ended")
    assert sorted(till.paid) == [5, 6, 7]
    assert len(model.requests) == 2
    await page.reload()
    await assert_history_matches(page, model)


async def _answer(page: Page, what: str) -> None:
    """Send one answer, in the page's message or by the calls route."""
    match what:
        case "yes":
            await page.approve("c5").send()
        case "no":
            await page.deny("c5").send()
        case "yes by route":
            await _answer_by_route(page, "c5", approved=True)
        case "no by route":
            await _answer_by_route(page, "c5", approved=False)
        case "output":
            await page.give("t1", NOON).send()
        case "output by route":
            await _answer_by_route(page, "t1", output=NOON)
        case "error":
            await page.fail("t1", "no clock").send()
        case _:
            raise AssertionError(what)


async def _answer_by_route(page: Page, call: str, **answer: Any) -> None:
    last = len(await page.pending()) == 1
    if last:
        await page.answer_and_follow(call, **answer)
    else:
        await page.answer(call, **answer)
        await page.reload()


@pytest.mark.parametrize("verdict", ["yes", "no", "yes by route", "no by route"])
@pytest.mark.parametrize("output", ["output", "output by route", "error"])
@pytest.mark.parametrize("verdict_first", [True, False])
async def test_a_gated_and_a_browser_call_can_be_answered_in_any_order_and_way(
    make: Make, verdict: str, output: str, verdict_first: bool
) -> None:
    till, model = Till(), model_calling(PAY_5, CLOCK)
    page = Page(make(model, till.pay, clock))
    await page.say("go")
    assert page.calls == {"c5": "approval-requested", "t1": "input-available"}
    answers = [verdict, output] if verdict_first else [output, verdict]
    await _answer(page, answers[0])
    assert (till.paid, len(model.requests)) == ([], 1)
    await assert_history_matches(page, model)
    await _answer(page, answers[1])
    approved = verdict.startswith("yes")
    assert till.paid == ([5] if approved else [])
    assert tool_responses(model.requests[-1]) == {
        "c5": result("c5", approved),
        "t1": {"error": "no clock"} if output == "error" else NOON,
    }
    assert len(model.requests) == 2
    await assert_history_matches(page, model)


@pytest.mark.parametrize("order", list(permutations(["c5", "t1", "w1"])))
async def test_calls_of_three_kinds_can_be_answered_in_any_order(open_page: Open, order: tuple[str, ...]) -> None:
    till, model = Till(), model_calling(PAY_5, CLOCK, WHERE)
    page = open_page(model, till.pay, clock, where)
    await page.say("go")
    for call in order:
        if call == "c5":
            await page.approve("c5").send()
        elif call == "t1":
            await page.give("t1", NOON).send()
        else:
            released = await page.approve("w1").send()
            assert released.types.count("tool-input-available") == 1
            await assert_history_matches(page, model)
            await page.give("w1", PARIS).send()
        await assert_history_matches(page, model)
    assert till.paid == [5]
    assert tool_responses(model.requests[-1]) == {"c5": {"paid": 5}, "t1": NOON, "w1": PARIS}
    assert len(model.requests) == 2


async def test_calls_of_three_kinds_can_be_answered_in_one_request(open_page: Open) -> None:
    till, model = Till(), model_calling(PAY_5, CLOCK, WHERE)
    page = open_page(model, till.pay, clock, where)
    await page.say("go")
    page.approve("c5").give("t1", NOON).approve("w1").give("w1", PARIS)
    assert (await page.send()).text == "Done."
    assert tool_responses(model.requests[-1]) == {"c5": {"paid": 5}, "t1": NOON, "w1": PARIS}
    await assert_history_matches(page, model)


async def test_a_call_without_approval_runs_beside_a_gated_one(open_page: Open) -> None:
    def add(a: int, b: int) -> dict[str, int]:
        """Add."""
        return {"sum": a + b}

    till, model = Till(), model_calling(PAY_5, Call("add", {"a": 1, "b": 2}, "s1"))
    page = open_page(model, till.pay, add)
    await page.say("go")
    assert page.calls == {"c5": "approval-requested", "s1": "output-available"}
    await assert_history_matches(page, model)
    await page.approve("c5").send()
    assert tool_responses(model.requests[-1]) == {"c5": {"paid": 5}, "s1": {"sum": 3}}
    await assert_history_matches(page, model)


async def test_two_browser_calls_can_be_answered_one_by_one(open_page: Open) -> None:
    model = model_calling(CLOCK, Call("clock", {"zone": "CET"}, "t2"))
    page = open_page(model, clock)
    await page.say("go")
    assert comparable_chunks(page, await page.give("t2", {"time": "one"}).send()) == [START, FINISH_PENDING]
    await assert_history_matches(page, model)
    assert page.calls == {"t1": "input-available", "t2": "output-available"}
    await page.give("t1", NOON).send()
    assert tool_responses(model.requests[-1]) == {"t1": NOON, "t2": {"time": "one"}}
    await assert_history_matches(page, model)


@pytest.mark.parametrize("approved", [True, False])
async def test_the_first_of_two_verdicts_is_in_history(open_page: Open, approved: bool) -> None:
    till, model = Till(), model_calling(PAY_5, PAY_6)
    page = open_page(model, till.pay)
    await page.say("pay")
    await page.approve("c5", approved=approved, reason="so").send()
    await page.reload()
    assert page.calls == {"c5": "approval-responded", "c6": "approval-requested"}
    assert page.part("c5")["approval"]["approved"] is approved
    assert page.part("c5")["approval"]["reason"] == "so"
    await page.approve("c6").send()
    assert till.paid == ([5, 6] if approved else [6])
    await assert_history_matches(page, model)


async def test_a_repeated_first_verdict_executes_nothing(open_page: Open) -> None:
    till, model = Till(), model_calling(PAY_5, PAY_6)
    page = open_page(model, till.pay)
    await page.say("pay")
    await page.approve("c5").send()
    again = await page.another_tab().send()
    assert again.types[0] == "start"
    assert (till.paid, len(model.requests)) == ([], 1)
    await page.approve("c6").send()
    assert till.paid == [5, 6]
    await assert_history_matches(page, model)


async def test_one_of_two_approved_calls_may_fail(open_page: Open) -> None:
    def crash(amount: int) -> str:
        """Break."""
        raise RuntimeError("jammed")

    till = Till()
    model = model_calling(PAY_5, Call("crash", {"amount": 6}, "x1"))
    page = open_page(model, till.pay, FunctionTool(crash, require_confirmation=True))
    await page.say("pay")
    await page.approve("c5", "x1").send()
    assert page.calls == {"c5": "output-available", "x1": "output-error"}
    outcomes = {(call, outcome) for _, call, _, outcome in await page.audit() if outcome != "waiting"}
    assert outcomes == {("c5", "executed"), ("x1", "failed")}
    await assert_history_matches(page, model)
