"""Stop, delete, regenerate and edit while a call is pending, is executing or was executed."""

import asyncio

import pytest
from google.adk.tools.function_tool import FunctionTool

from adkwire.adk.events import STOPPED
from adkwire.errors import NotFound
from adkwire.gate.judge import REFUSED
from adkwire.stores.memory import MemoryGateStore
from adkwire.testing import Call, Say, ScriptedModel, Wait
from adkwire.wire.encode.tool_calls import UNFINISHED
from tests.patience import PATIENCE
from tests.support.chats import Chat
from tests.support.fixtures import Make, Open
from tests.support.gated_tools import Till, assert_history_matches, clock, tool_responses, where
from tests.support.pages import Page, refusal, refused

PAY, PAY_6 = Call("pay", {"amount": 5}, "c1"), Call("pay", {"amount": 6}, "c2")
CLOCK, WHERE = Call("clock", {"zone": "UTC"}, "t1"), Call("where", {"exact": True}, "w1")
NOON = {"time": "noon"}
LATE = "Too late: the call was stopped before it was executed."
LATE_SUPERSEDED = "Too late: the conversation went on without this call, and it was not executed."


def calling(*calls: Call) -> ScriptedModel:
    return ScriptedModel(turns=[list(calls), [Say("Fine.")], [Say("Bye.")]])


async def test_stop_voids_a_call_that_waits_for_a_verdict(open_page: Open) -> None:
    till, model = Till(), calling(PAY)
    page = open_page(model, till.pay)
    await page.say("pay")
    tab = page.another_tab()
    assert await page.chat.stop()
    await page.reload()
    assert (page.calls, page.part("c1")["errorText"]) == ({"c1": "output-error"}, STOPPED)
    assert await page.pending() == []
    assert not await page.chat.stop()
    assert await refused(page.answer("c1", approved=True)) == (409, LATE)
    assert refusal(await tab.approve("c1").send()) == LATE
    assert (till.paid, len(model.requests)) == ([], 1)
    assert (await page.say("go on")).text == "Fine."
    assert tool_responses(model.requests[-1]) == {"c1": {"error": STOPPED}}
    await assert_history_matches(page, model)


@pytest.mark.parametrize("call", [CLOCK, WHERE])
async def test_stop_voids_a_call_that_waits_for_the_browser(open_page: Open, call: Call) -> None:
    model = calling(call)
    page = open_page(model, clock, where)
    await page.say("go")
    if call is WHERE:
        await page.approve("w1").send()
    assert await page.chat.stop()
    await page.reload()
    assert list(page.calls.values()) == ["output-error"]
    assert await page.pending() == []
    await page.say("go on")
    assert list(tool_responses(model.requests[-1]).values()) == [{"error": STOPPED}]
    await assert_history_matches(page, model)


async def test_stop_voids_an_approval_and_keeps_an_output(open_page: Open) -> None:
    till, model = Till(), calling(PAY, PAY_6, CLOCK)
    page = open_page(model, till.pay, clock)
    await page.say("go")
    await page.approve("c1").give("t1", NOON).send()
    assert await page.chat.stop()
    await page.reload()
    assert page.calls == {"c1": "output-error", "c2": "output-error", "t1": "output-available"}
    await page.say("go on")
    assert till.paid == []
    assert tool_responses(model.requests[-1]) == {"c1": {"error": STOPPED}, "c2": {"error": STOPPED}, "t1": NOON}
    await assert_history_matches(page, model)


async def test_stop_of_the_asking_run_voids_its_call(open_page: Open) -> None:
    page = open_page(calling(PAY), Till().pay)
    asked = await page.say("pay")
    assert not await page.chat.stop("run-unknown")
    assert len(await page.pending()) == 1
    assert await page.chat.stop(asked.run.id)
    assert await page.pending() == []


async def test_stop_makes_an_executing_call_unknown(open_page: Open) -> None:
    """It had begun, so that nobody can say whether it was executed."""
    till, model = Till(), calling(PAY)
    till.pause(5)
    page = open_page(model, till.pay)
    await page.say("pay")
    tab = page.approve("c1").another_tab()
    run = await page.post()
    await till.until_begun(5)
    assert await page.chat.stop()
    answer = await page.follow(run)
    assert answer.types[-2:] == ["abort", "finish"]
    assert (page.calls, page.part("c1")["errorText"]) == ({"c1": "output-error"}, UNFINISHED)
    await assert_history_matches(page, model)
    assert (await page.audit())[-1][2:] == ("approved", "unknown")
    status, words = await refused(page.answer("c1", approved=True))
    assert (status, words) == (409, "This call was cut off while it ran; whether it was executed is not known.")
    await tab.send()
    assert till.paid == [5]
    await page.say("go on")
    assert tool_responses(model.requests[-1]) == {"c1": {"error": UNFINISHED}}
    await assert_history_matches(page, model)


async def test_stop_keeps_the_result_of_a_call_that_has_ended(open_page: Open) -> None:
    till, model = Till(), calling(PAY, PAY_6)
    till.pause(6)
    page = open_page(model, till.pay)
    await page.say("pay")
    async with page.chat_events() as events:
        run = await page.approve("c1", "c2").post()
        await till.until_begun(6)
        await events.until("call-settled", times=3)
    assert await page.chat.stop()
    await page.follow(run)
    assert page.calls == {"c1": "output-available", "c2": "output-error"}
    outcomes = [(call, outcome) for _, call, _, outcome in await page.audit() if outcome != "waiting"]
    assert outcomes == [("c1", "executed"), ("c2", "unknown")]
    await assert_history_matches(page, model)
    await page.say("go on")
    assert tool_responses(model.requests[-1]) == {"c1": {"paid": 5}, "c2": {"error": UNFINISHED}}
    assert till.paid == [5, 6]
    await assert_history_matches(page, model)


async def test_stop_keeps_the_denial_of_another_call(open_page: Open) -> None:
    till, model = Till(), calling(PAY, PAY_6)
    till.pause(6)
    page = open_page(model, till.pay)
    await page.say("pay")
    async with page.chat_events() as events:
        run = await page.deny("c1", reason="no").approve("c2").post()
        await till.until_begun(6)
        await events.until("call-settled", times=3)
    assert await page.chat.stop()
    await page.follow(run)
    assert page.calls == {"c1": "output-denied", "c2": "output-error"}
    await page.say("go on")
    responses = tool_responses(model.requests[-1])
    assert responses["c1"]["error"].startswith("The user refused this call")
    assert responses["c2"] == {"error": UNFINISHED}
    await assert_history_matches(page, model)


async def test_stop_in_the_text_after_a_call_keeps_its_result(open_page: Open) -> None:
    till = Till()
    model = ScriptedModel(turns=[[PAY], [Say("Paid "), Wait(asyncio.Event())], [Say("Bye.")]])
    page = open_page(model, till.pay)
    await page.say("pay")
    run = await page.approve("c1").post()
    await page.chat.reader(run).until("text-delta")
    assert await page.chat.stop()
    await page.follow(run)
    assert page.calls == {"c1": "output-available"}
    await assert_history_matches(page, model)
    await page.say("go on")
    assert tool_responses(model.requests[-1]) == {"c1": {"paid": 5}}
    assert till.paid == [5]


async def test_stop_before_the_approval_request_is_sent_seals_the_call(open_page: Open) -> None:
    """Another call of the step keeps the run from pausing, so that the approval request is not sent yet."""
    started = asyncio.Event()

    async def slow() -> str:
        """Hang."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    till, model = Till(), calling(PAY, Call("slow", {}, "s1"))
    page = open_page(model, till.pay, slow)
    run = await page.begin("go")
    async with asyncio.timeout(PATIENCE):
        await started.wait()
    assert await page.chat.stop()
    await page.reply(run)
    assert set(page.calls.values()) == {"output-error"}
    assert await page.pending() == []
    await assert_history_matches(page, model)
    await page.say("go on")
    assert set(tool_responses(model.requests[-1])) == {"c1", "s1"}
    assert till.paid == []
    await assert_history_matches(page, model)


@pytest.mark.parametrize("way", ["stop", "message", "restart"])
async def test_a_call_without_a_record_does_not_get_the_output_of_an_older_call_with_its_id(
    make: Make, way: str
) -> None:
    """Some models number their calls anew in each answer; a record is opened with the approval request."""
    started = asyncio.Event()

    async def slow() -> str:
        """Hang."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    till, store = Till(), MemoryGateStore()
    turns = [[Call("clock", {"zone": "UTC"}, "c1")], [Say("Noon.")], [PAY, Call("slow", {}, "s1")], [Say("Bye.")]]
    model = ScriptedModel(turns=turns)
    page = Page(make(model, till.pay, clock, slow, gate_store=store, drain=0.01))
    await page.say("time?")
    await page.give("c1", NOON).send()
    run = await page.begin("pay")
    async with asyncio.timeout(PATIENCE):
        await started.wait()
    if way == "restart":
        page = page.after_restart(make(model, till.pay, clock, slow, gate_store=store))
        await page.reload()
    elif way == "stop":
        assert await page.chat.stop()
        await page.reply(run)
    else:
        after = await page.bridge.start("ann", page.chat.turn("forget it", "u9"))
        await page.reply(run)
        await page.chat.read(after)
    assert page.part("c1")["errorText"] == UNFINISHED
    assert (till.paid, await page.pending()) == ([], [])
    assert await page.stored(3) == page.last


async def test_delete_voids_a_pending_call(open_page: Open) -> None:
    till, model = Till(), calling(PAY)
    page = open_page(model, till.pay)
    await page.say("pay")
    tab = page.another_tab()
    await page.bridge.delete("ann", "chat")
    assert await refused(page.answer("c1", approved=True)) == (404, REFUSED)
    assert refusal(await tab.approve("c1").send()) == REFUSED
    with pytest.raises(NotFound):
        await page.pending()
    assert (await page.bridge.chats("ann", limit=5, before=None)).chats == []
    assert (till.paid, len(model.requests)) == ([], 1)


async def test_delete_ends_a_run_that_executes_a_call(open_page: Open) -> None:
    till, model = Till(), calling(PAY)
    till.pause(5)
    page = open_page(model, till.pay)
    await page.say("pay")
    run = await page.approve("c1").post()
    await till.until_begun(5)
    await page.bridge.delete("ann", "chat")
    assert (await page.chat.read(run)).types == ["error"]
    again = Page(Chat(page.bridge))
    await again.say("pay")
    assert again.calls == {"c1": "approval-requested"}
    assert len(await again.pending()) == 1


async def test_an_approval_of_a_deleted_chat_is_refused_in_a_new_one_of_the_same_id(open_page: Open) -> None:
    till, model = Till(), calling(PAY)
    page = open_page(model, till.pay)
    await page.say("pay")
    old = page.another_tab().approve("c1")
    await page.bridge.delete("ann", "chat")
    again = Page(Chat(page.bridge))
    await again.say("pay")
    assert refusal(await old.send()) == REFUSED
    assert till.paid == []
    await again.approve("c1").send()
    assert till.paid == [5]


def model_without_ids(amount: int) -> ScriptedModel:
    """Return a model that gives its calls no ids, as most do: a regenerated call is another one."""
    return ScriptedModel(turns=[[Call("pay", {"amount": amount})], [Say("Paid.")], [Say("Bye.")]])


async def test_regenerate_supersedes_a_pending_call(open_page: Open) -> None:
    till, model = Till(), model_without_ids(5)
    page = open_page(model, till.pay)
    first = await page.say("pay")
    [old] = page.calls
    tab = page.another_tab()
    second = await page.chat.regenerate(first.run.message_id)
    [pending] = await page.pending()
    assert pending["toolCallId"] != old
    assert await refused(page.answer(old, approved=True)) == (409, LATE_SUPERSEDED)
    assert refusal(await tab.approve(old).send()) == LATE_SUPERSEDED
    assert till.paid == []
    await page.reload()
    assert page.last["id"] == second.run.message_id
    await page.approve(pending["toolCallId"]).send()
    assert till.paid == [5]
    await assert_history_matches(page, model)
    assert len(await page.chat.messages()) == 2


async def test_regenerate_after_a_payment_asks_again(open_page: Open) -> None:
    till, model = Till(), model_without_ids(5)
    page = open_page(model, till.pay)
    await page.say("pay")
    [old] = page.calls
    await page.approve(old).send()
    assert till.paid == [5]
    await page.chat.regenerate(page.messages[-1].id)
    await page.reload()
    [new] = page.calls
    assert (page.calls[new], new != old) == ("approval-requested", True)
    assert till.paid == [5]
    await page.deny(new).send()
    assert till.paid == [5]
    await assert_history_matches(page, model)


async def test_an_edit_supersedes_a_pending_call(open_page: Open) -> None:
    till, model = Till(), model_without_ids(5)
    page = open_page(model, till.pay)
    await page.say("pay")
    [old] = page.calls
    turn = page.chat.turn("pay again", "u1", replaces="u1")
    await page.chat.read(await page.bridge.start("ann", turn))
    await page.reload()
    [new] = page.calls
    assert new != old
    status, _ = await refused(page.answer(old, approved=True))
    assert status == 409
    await page.approve(new).send()
    assert till.paid == [5]
    await assert_history_matches(page, model)
    assert (await page.chat.texts())[0] == ("user", "pay again")


async def test_an_edit_after_an_executed_call_asks_again(open_page: Open) -> None:
    till, model = Till(), model_without_ids(5)
    page = open_page(model, till.pay)
    await page.say("pay")
    [old] = page.calls
    await page.approve(old).send()
    turn = page.chat.turn("pay again", "u1", replaces="u1")
    await page.chat.read(await page.bridge.start("ann", turn))
    assert await refused(page.answer(old, approved=False)) == (409, "This call was already answered.")
    await page.reload()
    [new] = page.calls
    await page.approve(new).send()
    assert till.paid == [5, 5]
    await assert_history_matches(page, model)
    assert [entry.outcome for entry in await page.audit_entries()].count("executed") == 2


async def test_regenerate_makes_an_executing_call_unknown(open_page: Open) -> None:
    till, model = Till(), model_without_ids(5)
    till.pause(5)
    page = open_page(model, till.pay)
    await page.say("pay")
    [old] = page.calls
    run = await page.approve(old).post()
    await till.until_begun(5)
    await page.chat.regenerate(page.messages[-1].id)
    await page.follow(run)
    await page.reload()
    [new] = page.calls
    assert (page.calls[new], new != old, till.paid) == ("approval-requested", True, [5])
    assert (await page.audit())[2][2:] == ("approved", "unknown")


async def test_a_tool_that_raises_cancelled_error_is_an_error_and_no_stop(open_page: Open) -> None:
    async def pay(amount: int) -> str:
        """Pay."""
        raise asyncio.CancelledError

    model = calling(PAY)
    page = open_page(model, FunctionTool(pay, require_confirmation=True))
    await page.say("pay")
    answer = await page.approve("c1").send()
    assert answer.types[-1] == "finish"
    assert page.calls == {"c1": "output-error"}
    assert await page.stored() == page.last
    await page.say("go on")
    assert "c1" in tool_responses(model.requests[-1])
    await assert_history_matches(page, model)
