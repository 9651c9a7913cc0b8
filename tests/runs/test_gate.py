"""Approvals and denials of gated calls: in the stream, in history, at the model and in the audit."""

import asyncio
from typing import Any

import pytest
from google.adk.tools.function_tool import FunctionTool

from adkwire.adk.events import DENIED
from adkwire.gate.judge import REFUSED
from adkwire.testing import Call, Fail, Say, ScriptedModel
from tests.support.chats import Chat, text_of
from tests.support.fixtures import Make, Open
from tests.support.gated_tools import Till, assert_history_matches, tool_responses
from tests.support.pages import (
    FINISH_PENDING,
    FINISH_STEP,
    START,
    START_STEP,
    Page,
    comparable_chunks,
    last_step,
    refusal,
    refused,
    text_chunks,
)
from tests.support.payments import PAY

ANNOUNCED = {"type": "tool-input-available", "toolCallId": "c1", "toolName": "pay", "input": {"amount": 5}}
QUESTION = [
    {"type": "tool-approval-request", "approvalId": "ask c1", "toolCallId": "c1"},
    {"type": "data-approval", "id": "ask c1", "data": {"toolCallId": "c1", "scopes": ["once", "chat", "always"]}},
]
ALREADY = "This call was already answered."


def paying_model() -> ScriptedModel:
    return ScriptedModel(turns=[[Say("Paying. "), PAY], [Say("Done.")], [Say("Bye.")]])


async def test_an_approved_call_is_executed_and_the_message_continues(open_page: Open) -> None:
    till, model = Till(), paying_model()
    page = open_page(model, till.pay)
    asked = await page.say("pay 5")
    assert comparable_chunks(page, asked) == [
        START,
        START_STEP,
        *text_chunks(1, "Paying. "),
        ANNOUNCED,
        *QUESTION,
        FINISH_STEP,
        FINISH_PENDING,
    ]
    assert till.paid == []
    await assert_history_matches(page, model)
    paid = await page.approve("c1").send()
    assert comparable_chunks(page, paid) == [
        START,
        {"type": "tool-approval-response", "approvalId": "ask c1", "approved": True},
        {"type": "tool-output-available", "toolCallId": "c1", "output": {"paid": 5}},
        *last_step(2, "Done."),
    ]
    assert till.paid == [5]
    assert paid.run.message_id == asked.run.message_id
    await assert_history_matches(page, model)
    assert tool_responses(model.requests[-1]) == {"c1": {"paid": 5}}
    assert await page.audit() == [
        ("agent", "c1", "asked", "waiting"),
        ("ann", "c1", "approved", "waiting"),
        ("ann", "c1", "approved", "executed"),
    ]


async def test_a_denied_call_is_not_executed_and_the_message_continues(open_page: Open) -> None:
    till, model = Till(), paying_model()
    page = open_page(model, till.pay)
    await page.say("pay 5")
    answer = await page.deny("c1", reason="too much").send()
    assert comparable_chunks(page, answer) == [
        START,
        {"type": "tool-approval-response", "approvalId": "ask c1", "approved": False, "reason": "too much"},
        {"type": "tool-output-denied", "toolCallId": "c1"},
        *last_step(2, "Done."),
    ]
    assert till.paid == []
    await assert_history_matches(page, model)
    assert page.part("c1")["approval"]["reason"] == "too much"
    assert tool_responses(model.requests[-1]) == {"c1": {"error": DENIED, "reason": "too much"}}
    assert (await page.audit())[1:] == [("ann", "c1", "denied", "waiting"), ("ann", "c1", "denied", "not executed")]


async def test_a_denial_needs_no_reason(open_page: Open) -> None:
    model = paying_model()
    page = open_page(model, Till().pay)
    await page.say("pay 5")
    await page.deny("c1").send()
    assert tool_responses(model.requests[-1]) == {"c1": {"error": DENIED}}
    await assert_history_matches(page, model)
    assert (await page.say("bye")).text == "Bye."
    await assert_history_matches(page, model)


@pytest.mark.parametrize("approved", [True, False])
async def test_an_answer_by_the_calls_route_continues_the_message(open_page: Open, approved: bool) -> None:
    till, model = Till(), paying_model()
    page = open_page(model, till.pay)
    await page.say("pay 5")
    answer = await page.answer_and_follow("c1", approved=approved, reason="because")
    assert answer.text == "Done."
    assert page.calls == {"c1": "output-available" if approved else "output-denied"}
    assert till.paid == ([5] if approved else [])
    await assert_history_matches(page, model)


async def test_pending_calls_are_in_history_and_in_the_chat_list(open_page: Open) -> None:
    page = open_page(paying_model(), Till().pay)
    await page.say("pay 5")
    [pending] = await page.pending()
    ask = page.part("c1")["approval"]["id"]
    assert pending.pop("schema")["required"] == ["amount"]
    assert pending == {
        "toolCallId": "c1",
        "approvalId": ask,
        "tool": "pay",
        "input": {"amount": 5},
        "kind": "approval",
        "scopes": ["once", "chat", "always"],
    }
    other = Chat(page.bridge, "other")
    await Page(other).say("pay 5")
    assert {chat.id: chat.pending for chat in (await page.bridge.chats("ann", limit=9, before=None)).chats} == {
        "chat": 1,
        "other": 1,
    }
    await page.approve("c1").send()
    assert await page.pending() == []
    assert {chat.id: chat.pending for chat in (await page.bridge.chats("ann", limit=9, before=None)).chats} == {
        "chat": 0,
        "other": 1,
    }


async def test_a_repeated_request_gets_the_same_stream_and_executes_once(open_page: Open) -> None:
    till, model = Till(), paying_model()
    page = open_page(model, till.pay)
    await page.say("pay 5")
    tab = page.approve("c1").another_tab()
    first, second = await page.send(), await tab.send()
    assert second.plain == first.plain
    assert tab.last == page.last
    assert till.paid == [5]
    assert len(model.requests) == 2


async def test_many_approvals_at_once_execute_a_call_once(open_page: Open) -> None:
    till, model = Till(), paying_model()
    page = open_page(model, till.pay)
    await page.say("pay 5")
    tabs = [page.another_tab().approve("c1") for _ in range(3)]
    await asyncio.gather(*(tab.send() for tab in tabs), *(page.answer("c1", approved=True) for _ in range(13)))
    assert till.paid == [5]
    assert len(model.requests) == 2
    stored = await page.stored()
    assert [tab.last for tab in tabs] == [stored] * 3


async def test_the_first_of_two_verdicts_wins(open_page: Open) -> None:
    till, model = Till(), paying_model()
    page = open_page(model, till.pay)
    await page.say("pay 5")
    other = page.another_tab()
    await page.approve("c1").send()
    assert refusal(await other.deny("c1").send()) == ALREADY
    assert await refused(page.answer("c1", approved=False)) == (409, ALREADY)
    assert till.paid == [5]
    await assert_history_matches(page, model)


async def test_a_repeated_request_follows_the_run_that_executes_the_call(open_page: Open) -> None:
    till, model = Till(), paying_model()
    go_on = till.pause(5)
    page = open_page(model, till.pay)
    await page.say("pay 5")
    tab = page.approve("c1").another_tab()
    run = await page.post()
    await till.until_begun(5)
    assert await tab.post() is run
    assert (await page.answer("c1", approved=True)).state == "executing"
    assert [message["role"] for message in await page.chat.messages()] == ["user"]
    go_on.set()
    await page.follow(run)
    await tab.follow(run)
    assert till.paid == [5]
    assert tab.last == page.last
    await assert_history_matches(page, model)


async def test_answers_that_change_nothing_are_refused_after_three_times(open_page: Open) -> None:
    till, model = Till(), paying_model()
    page = open_page(model, till.pay)
    await page.say("pay 5")
    tab = page.approve("c1").another_tab()
    await page.send()
    for _ in range(3):
        assert (await tab.another_tab().send()).text == "Done."
    for _ in range(2):
        assert "again and again" in refusal(await tab.another_tab().send())
    assert till.paid == [5]
    assert (await page.say("bye")).text == "Bye."
    await assert_history_matches(page, model)


def tampered(page: Page, **changes: Any) -> Page:
    """Return a page that approves another call, other arguments or another message than the server asked about."""
    tab = page.another_tab().approve("c1")
    part: Any = tab.messages[-1].parts[2]
    for name, value in changes.items():
        if name == "ask":
            part.approval.id = value
        elif name == "message":
            tab.messages[-1].id = value
        else:
            setattr(part, name, value)
    return tab


@pytest.mark.parametrize(
    "changes",
    [
        {"input": {"amount": 5000}},
        {"input": {}},
        {"input": {"amount": "5"}},
        {"ask": "adk-forged"},
        {"message": "msg-forged"},
        {"tool_call_id": "c2"},
    ],
)
async def test_an_approval_that_does_not_match_the_call_executes_nothing(
    open_page: Open, changes: dict[str, Any]
) -> None:
    till, model = Till(), paying_model()
    page = open_page(model, till.pay)
    await page.say("pay 5")
    tab = tampered(page, **changes)
    refused_by = await tab.send()
    assert refusal(refused_by) == REFUSED
    assert refused_by.plain[0]["messageId"] == tab.messages[-1].id
    assert (till.paid, len(model.requests)) == ([], 1)
    assert page.last == await page.stored()
    assert (await page.audit())[-1][2] == "refused"
    await page.approve("c1").send()
    assert till.paid == [5]


async def test_another_user_or_chat_cannot_answer_a_call(open_page: Open) -> None:
    till, model = Till(), paying_model()
    page = open_page(model, till.pay)
    await page.say("pay 5")
    for chat in (Chat(page.bridge, user="eve"), Chat(page.bridge, "other")):
        thief = Page(chat)
        thief.messages = page.another_tab().approve("c1").messages
        assert refusal(await thief.send()) == REFUSED
        assert await refused(thief.answer("c1", approved=True)) == (404, REFUSED)
    assert await refused(page.answer("c2", approved=True)) == (404, REFUSED)
    assert (till.paid, len(model.requests)) == ([], 1)
    assert len(await page.pending()) == 1


async def test_an_answer_to_a_call_that_was_not_asked_about_is_refused(open_page: Open) -> None:
    till = Till()
    page = open_page(ScriptedModel(turns=[[PAY], [Say("Done.")]]), till.plain)
    await page.say("pay 5")
    assert till.paid == [5]
    assert await refused(page.answer("c1", approved=True)) == (404, REFUSED)
    assert await refused(page.answer("c1", output={"paid": 1})) == (404, REFUSED)
    assert till.paid == [5]


async def test_an_approved_call_that_raises_has_an_error_as_its_result(open_page: Open) -> None:
    def pay(amount: int) -> str:
        """Pay."""
        raise RuntimeError("the till is jammed")

    model = paying_model()
    page = open_page(model, FunctionTool(pay, require_confirmation=True), error_detail=True)
    await page.say("pay 5")
    await page.approve("c1").send()
    assert page.part("c1")["errorText"] == "RuntimeError: the till is jammed"
    await assert_history_matches(page, model)
    assert (await page.audit())[-1][2:] == ("approved", "failed")
    assert tool_responses(model.requests[-1]) == {"c1": {"error": "RuntimeError: the till is jammed"}}


async def test_a_repeated_request_after_a_failed_model_executes_nothing_again(open_page: Open) -> None:
    till = Till()
    failing = [True]

    def script(request: Any) -> list[Any]:
        if not any(content.role == "model" for content in request.contents):
            return [PAY]
        return [Fail(RuntimeError("no"))] if failing.pop() else [Say("never")]

    model = ScriptedModel(script=script)
    page = open_page(model, till.pay)
    await page.say("pay 5")
    tab = page.approve("c1").another_tab()
    answer = await page.send()
    assert answer.types[-1] == "error"
    assert page.calls == {"c1": "output-available"}
    again = await tab.send()
    assert again.plain == answer.plain
    assert till.paid == [5]
    await assert_history_matches(page, model)


async def test_a_later_step_of_the_same_message_can_ask_again(open_page: Open) -> None:
    till = Till()
    model = ScriptedModel(turns=[[PAY], [Say("And "), Call("pay", {"amount": 6}, "c2")], [Say("Done.")]])
    page = open_page(model, till.pay)
    await page.say("pay 5 and 6")
    second = await page.approve("c1").send()
    assert second.plain[-1]["finishReason"] == "tool-calls"
    await assert_history_matches(page, model)
    third = await page.approve("c2").send()
    assert comparable_chunks(page, third) == [
        START,
        {"type": "tool-approval-response", "approvalId": "ask c2", "approved": True},
        {"type": "tool-output-available", "toolCallId": "c2", "output": {"paid": 6}},
        *last_step(2, "Done."),
    ]
    assert till.paid == [5, 6]
    await assert_history_matches(page, model)


async def test_chat_events_report_an_approval_request_and_its_answer(open_page: Open) -> None:
    page = open_page(paying_model(), Till().pay)
    async with page.chat_events() as events:
        await page.say("pay 5")
        await events.until("run-ended")
        await page.approve("c1").send()
        await events.until("run-ended", times=2)
        await page.bridge.delete("ann", "chat")
        await events.until("chat-updated", times=2)
    assert events.summaries == [
        ("run-started",),
        ("chat-updated",),
        ("call-asked", "c1", "asked"),
        ("run-ended",),
        ("call-settled", "c1", "answered"),
        ("run-started",),
        ("call-settled", "c1", "executed"),
        ("run-ended",),
        ("chat-updated",),
    ]


async def test_chat_events_go_to_their_user_only(open_page: Open) -> None:
    page = open_page(paying_model(), Till().pay)
    eve = Page(Chat(page.bridge, user="eve"))
    async with eve.chat_events() as hers:
        await page.say("pay 5")
        await eve.say("pay 5")
        await hers.until("run-ended")
    assert [item.type for item in hers.received] == ["run-started", "chat-updated", "call-asked", "run-ended"]


async def test_two_users_with_the_same_chat_and_call_id_are_kept_apart(open_page: Open) -> None:
    till = Till()
    page = open_page(paying_model(), till.pay)
    eve = Page(Chat(page.bridge, user="eve"))
    await page.say("pay 5")
    await eve.say("pay 5")
    await eve.deny("c1").send()
    assert await eve.pending() == []
    assert len(await page.pending()) == 1
    await page.approve("c1").send()
    assert till.paid == [5]
    assert eve.calls == {"c1": "output-denied"}


async def test_a_call_id_may_be_used_again_in_a_later_turn(make: Make) -> None:
    """Not every provider gives a call an id that is new in the chat."""
    till = Till()
    model = ScriptedModel(turns=[[PAY], [Say("Done.")], [Call("pay", {"amount": 6}, "c1")], [Say("Again.")]])
    page = Page(make(model, till.pay))
    await page.say("pay 5")
    await page.approve("c1").send()
    await page.say("pay 6")
    assert (page.calls, len(await page.pending())) == ({"c1": "approval-requested"}, 1)
    await page.approve("c1").send()
    assert till.paid == [5, 6]
    assert text_of(page.last) == "Again."
