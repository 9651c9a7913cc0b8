"""A restart with a call in each state: pending calls stay pending, and none is executed twice.

The server that died is a bridge that gets no more requests; the restarted one is another bridge on the same file.
"""

from pathlib import Path
from typing import Any

import pytest
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.function_tool import FunctionTool
from msgspec.structs import replace

from adkwire import Policy
from adkwire.adk.events import INTERRUPTED, verdict_event
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import State, UncheckedAnswer
from adkwire.stores.memory import MemoryGateStore
from adkwire.stores.sqlite.gate import SqliteGateStore
from adkwire.testing import Call, Say, ScriptedModel
from adkwire.wire.encode.tool_calls import UNFINISHED
from tests.gate.records import Clock
from tests.support.chats import AGENT
from tests.support.fixtures import Make
from tests.support.gated_tools import Till, assert_history_matches, clock, tool_responses, where
from tests.support.pages import Page, refusal, refused
from tests.support.payments import PAY, Payments, model_calling

PAY_6 = Call("pay", {"amount": 6}, "c2")
CLOCK, WHERE = Call("clock", {"zone": "UTC"}, "t1"), Call("where", {"exact": True}, "w1")
NOON, PARIS = {"time": "noon"}, {"city": "Paris"}
UNSURE = "This call was cut off while it ran; whether it was executed is not known."


async def settle_at_gate(folder: Path, call: str, answer: UncheckedAnswer) -> None:
    """Settle an answer as a server does that dies before it continues the message."""
    gate = ToolGate(SqliteGateStore(folder / "state.db"), Policy(), clock=Clock())
    await gate.settle("ann", "chat", call, answer)
    await gate.close()


async def set_state(folder: Path, call: str, state: State) -> None:
    """Set the state of a record, as a server may have left it that died."""
    store = SqliteGateStore(folder / "state.db")
    row = await store.get("ann", "chat", call)
    assert row is not None
    gate = ToolGate(store, Policy(), clock=Clock())
    record = await gate.get("ann", "chat", call)
    assert record is not None
    data = row.data.replace(f'"state":"{record.state}"'.encode(), f'"state":"{state}"'.encode())
    assert await store.replace(replace(row, state=state, data=data))
    await store.close()


async def store_verdict(folder: Path, call: str, message: str) -> None:
    """Store a verdict in the session, as a server does that dies before the tool begins."""
    gate = ToolGate(SqliteGateStore(folder / "state.db"), Policy(), clock=Clock())
    record = await gate.get("ann", "chat", call)
    await gate.close()
    assert record is not None
    service = SqliteSessionService(str(folder / "state.db"))
    session = await service.get_session(app_name=AGENT, user_id="ann", session_id="chat")
    assert session is not None
    await service.append_event(session, verdict_event(record, {"message": message, "user": "u1"}))


@pytest.mark.parametrize("way", ["post", "route"])
@pytest.mark.parametrize("approved", [True, False])
async def test_a_call_that_waits_for_a_verdict_survives_a_restart(make: Make, way: str, approved: bool) -> None:
    till, model = Till(), model_calling(PAY)
    page = Page(make(model, till.pay))
    await page.say("pay")
    page = page.after_restart(make(model, till.pay))
    assert len(await page.pending()) == 1
    assert await page.stored() == page.last
    if way == "post":
        await page.approve("c1", approved=approved).send()
    else:
        await page.answer_and_follow("c1", approved=approved)
    assert till.paid == ([5] if approved else [])
    assert page.last["parts"][-1]["text"] == "Done."
    await assert_history_matches(page, model)


async def test_a_browser_call_survives_a_restart(make: Make) -> None:
    model = model_calling(CLOCK)
    page = Page(make(model, clock))
    await page.say("time?")
    page = page.after_restart(make(model, clock))
    assert [one["kind"] for one in await page.pending()] == ["client"]
    await page.give("t1", NOON).send()
    assert tool_responses(model.requests[-1]) == {"t1": NOON}
    await assert_history_matches(page, model)


async def test_an_approved_browser_call_survives_a_restart(make: Make) -> None:
    model = model_calling(WHERE)
    page = Page(make(model, where))
    await page.say("where?")
    await page.approve("w1").send()
    page = page.after_restart(make(model, where))
    assert [one["kind"] for one in await page.pending()] == ["client"]
    await page.reload()
    assert page.calls == {"w1": "input-available"}
    await page.give("w1", PARIS).send()
    assert tool_responses(model.requests[-1]) == {"w1": PARIS}
    await assert_history_matches(page, model)


async def test_a_verdict_that_had_not_reached_the_agent_is_asked_for_again(make: Make, tmp_path: Path) -> None:
    till, model = Till(), model_calling(PAY)
    page = Page(make(model, till.pay))
    await page.say("pay")
    await page.bridge.close()
    await settle_at_gate(tmp_path, "c1", UncheckedAnswer(approved=True))
    page = page.after_restart(make(model, till.pay))
    await page.reload()
    assert page.calls == {"c1": "approval-requested"}
    assert till.paid == []
    await page.approve("c1").send()
    assert till.paid == [5]
    await assert_history_matches(page, model)


async def test_a_verdict_that_had_not_reached_the_agent_can_be_sent_again(make: Make, tmp_path: Path) -> None:
    till, model = Till(), model_calling(PAY)
    page = Page(make(model, till.pay))
    await page.say("pay")
    await page.bridge.close()
    await settle_at_gate(tmp_path, "c1", UncheckedAnswer(approved=True))
    page = page.after_restart(make(model, till.pay))
    assert (await page.approve("c1").send()).text == "Done."
    assert till.paid == [5]
    await assert_history_matches(page, model)


async def test_after_a_restart_all_verdicts_of_an_unfinished_step_are_asked_for_again(make: Make) -> None:
    till, model = Till(), model_calling(PAY, PAY_6)
    page = Page(make(model, till.pay))
    await page.say("pay")
    await page.approve("c1").send()
    await page.bridge.close()
    page = page.after_restart(make(model, till.pay))
    await page.reload()
    assert page.calls == {"c1": "approval-requested", "c2": "approval-requested"}
    await page.approve("c1").deny("c2").send()
    assert till.paid == [5]
    await assert_history_matches(page, model)


async def test_an_output_that_had_not_reached_the_agent_is_kept(make: Make) -> None:
    till, model = Till(), model_calling(PAY, CLOCK)
    page = Page(make(model, till.pay, clock))
    await page.say("go")
    await page.give("t1", NOON).send()
    page = page.after_restart(make(model, till.pay, clock))
    await page.reload()
    assert page.calls == {"c1": "approval-requested", "t1": "output-available"}
    assert [one["toolCallId"] for one in await page.pending()] == ["c1"]
    await page.approve("c1").send()
    assert tool_responses(model.requests[-1]) == {"c1": {"paid": 5}, "t1": NOON}
    await assert_history_matches(page, model)


async def test_an_output_that_had_not_reached_the_agent_can_be_sent_again(make: Make, tmp_path: Path) -> None:
    """No call is pending any more, and the message has not continued: the page sends the output again."""
    model = model_calling(CLOCK)
    page = Page(make(model, clock))
    await page.say("time?")
    await page.bridge.close()
    await settle_at_gate(tmp_path, "t1", UncheckedAnswer(output=NOON))
    page = page.after_restart(make(model, clock))
    await page.give("t1", NOON).send()
    assert tool_responses(model.requests[-1]) == {"t1": NOON}
    assert page.last["parts"][-1]["text"] == "Done."
    await assert_history_matches(page, model)


async def test_a_new_message_brings_an_output_that_had_not_reached_the_agent(make: Make, tmp_path: Path) -> None:
    model = model_calling(CLOCK)
    page = Page(make(model, clock))
    await page.say("time?")
    await page.bridge.close()
    await settle_at_gate(tmp_path, "t1", UncheckedAnswer(output=NOON))
    page = page.after_restart(make(model, clock))
    await page.say("so?")
    assert tool_responses(model.requests[-1]) == {"t1": NOON}
    await assert_history_matches(page, model)


async def test_an_approved_call_whose_tool_had_not_begun_is_not_executed(make: Make, tmp_path: Path) -> None:
    till, model = Till(), model_calling(PAY)
    page = Page(make(model, till.pay))
    asked = await page.say("pay")
    await page.bridge.close()
    await settle_at_gate(tmp_path, "c1", UncheckedAnswer(approved=True))
    await store_verdict(tmp_path, "c1", asked.run.message_id)
    page = page.after_restart(make(model, till.pay))
    tab = page.another_tab()
    await page.reload()
    assert (page.calls, page.part("c1")["errorText"]) == ({"c1": "output-error"}, INTERRUPTED)
    assert await page.pending() == []
    assert refusal(await tab.approve("c1").send()).startswith("Too late: the server stopped")
    assert till.paid == []
    await page.say("and?")
    assert tool_responses(model.requests[-1]) == {"c1": {"error": INTERRUPTED}}
    await assert_history_matches(page, model)


async def test_a_call_that_was_executing_when_the_server_died_is_unknown(make: Make) -> None:
    till, model = Till(), model_calling(PAY)
    till.pause(5)
    page = Page(make(model, till.pay, drain=0.01))
    await page.say("pay")
    await page.approve("c1").post()
    await till.until_begun(5)
    page = page.after_restart(make(model, till.pay))
    tab = page.another_tab()
    await page.reload()
    assert (page.calls, page.part("c1")["errorText"]) == ({"c1": "output-error"}, UNFINISHED)
    assert await page.pending() == []
    assert (await page.audit())[-1] == ("server", "c1", "approved", "unknown")
    assert (await page.bridge.history("ann", "chat")).retryable == []
    assert await refused(page.answer("c1", approved=True)) == (409, UNSURE)
    answer = await tab.send()
    assert (tab.last, answer.types[-1]) == (page.last, "error")
    assert till.paid == [5]
    await page.say("and?")
    assert tool_responses(model.requests[-1]) == {"c1": {"error": UNFINISHED}}
    assert till.paid == [5]
    await assert_history_matches(page, model)


async def test_a_retryable_call_is_executed_again_when_a_person_approves_it_again(make: Make) -> None:
    payments, model = Payments(), model_calling(PAY)
    page = await payments.cut_off(make, model)
    tab = page.another_tab()
    await page.reload()
    assert page.calls == {"c1": "output-error"}
    assert (await page.bridge.history("ann", "chat")).retryable == ["c1"]
    # A stock page that repeats its approval does not know that the call would be executed a second time.
    await tab.send()
    assert tab.last == page.last
    assert payments.ran == ["c1"]
    async with page.chat_events() as events:
        await page.answer("c1", approved=True)
        await events.until("run-ended")
    assert payments.ran == ["c1", "c1"]
    assert (await page.bridge.history("ann", "chat")).retryable == []
    await page.reload()
    assert (page.calls, page.part("c1")["output"]) == ({"c1": "output-available"}, {"paid": 5})
    assert tool_responses(model.requests[-1]) == {"c1": {"paid": 5}}
    assert await refused(page.answer("c1", approved=False)) == (409, "This call was already answered.")
    await assert_history_matches(page, model)


async def test_a_call_that_may_be_run_again_may_not_when_the_chat_has_gone_on(make: Make) -> None:
    payments, model = Payments(), model_calling(PAY)
    page = await payments.cut_off(make, model)
    await page.reload()
    await page.say("never mind")
    assert (await page.bridge.history("ann", "chat")).retryable == []
    assert await refused(page.answer("c1", approved=True)) == (409, UNSURE)
    assert payments.ran == ["c1"]


async def test_a_record_is_closed_when_the_session_has_the_result(make: Make, tmp_path: Path) -> None:
    till, model = Till(), model_calling(PAY)
    page = Page(make(model, till.pay))
    await page.say("pay")
    await page.approve("c1").send()
    await page.bridge.close()
    await set_state(tmp_path, "c1", State.EXECUTING)
    page = page.after_restart(make(model, till.pay))
    await page.reload()
    assert page.calls == {"c1": "output-available"}
    assert (await page.audit())[-1][2:] == ("approved", "executed")
    assert (await page.answer("c1", approved=True)).state == "done"
    assert till.paid == [5]
    await assert_history_matches(page, model)


async def test_a_repeated_answer_after_a_restart_executes_nothing(make: Make) -> None:
    till, model = Till(), model_calling(PAY)
    page = Page(make(model, till.pay))
    await page.say("pay")
    tab = page.approve("c1").another_tab()
    await page.send()
    page = page.after_restart(make(model, till.pay))
    tab = tab.after_restart(page.chat)
    await tab.send()
    assert tab.last == page.last
    assert await refused(page.answer("c1", approved=False)) == (409, "This call was already answered.")
    assert (await page.answer("c1", approved=True)).state == "done"
    assert till.paid == [5]
    assert len(model.requests) == 2
    await assert_history_matches(page, model)


async def test_an_answer_to_a_superseded_call_is_refused_after_a_restart(make: Make) -> None:
    till, model = Till(), model_calling(PAY)
    page = Page(make(model, till.pay))
    await page.say("pay")
    tab = page.another_tab()
    await page.say("forget it")
    page = page.after_restart(make(model, till.pay))
    tab = tab.after_restart(page.chat)
    assert refusal(await tab.approve("c1").send()).startswith("Too late")
    status, words = await refused(page.answer("c1", approved=True))
    assert (status, words.startswith("Too late")) == (409, True)
    assert till.paid == []
    await assert_history_matches(page, model)


@pytest.mark.parametrize("scope", ["chat", "always"])
async def test_a_grant_survives_a_restart(make: Make, scope: str) -> None:
    till = Till()
    model = ScriptedModel(turns=[[PAY], [Say("Done.")], [PAY_6], [Say("Again.")]])
    page = Page(make(model, till.pay))
    await page.say("pay")
    await page.answer_and_follow("c1", approved=True, scope=scope)
    page = page.after_restart(make(model, till.pay))
    await page.say("pay 6")
    assert till.paid == [5, 6]
    await assert_history_matches(page, model)


async def test_an_approved_call_of_a_tool_that_no_longer_exists_is_an_error(make: Make) -> None:
    """The restarted server has another agent; the chat goes on."""
    till, model = Till(), model_calling(PAY)
    page = Page(make(model, till.pay))
    await page.say("pay")
    page = page.after_restart(make(model))
    await page.approve("c1").send()
    assert till.paid == []
    assert page.calls["c1"] == "output-error"
    assert await page.stored() == page.last
    await page.say("and?")
    assert set(tool_responses(model.requests[-1])) == {"c1"}


async def test_an_approved_call_that_the_policy_forbids_since_is_not_executed(make: Make) -> None:
    till, model = Till(), model_calling(PAY)
    page = Page(make(model, till.pay))
    await page.say("pay")
    page = page.after_restart(make(model, till.pay, policy=Policy(deny=["pay"])))
    await page.approve("c1").send()
    assert (page.calls, till.paid) == ({"c1": "output-error"}, [])
    assert "no longer allowed; it was not executed" in page.part("c1")["errorText"]
    await assert_history_matches(page, model)
    assert (await page.audit())[-1][3] == "not executed"


async def test_a_call_of_the_second_step_survives_a_restart(make: Make) -> None:
    till = Till()
    model = ScriptedModel(turns=[[PAY], [PAY_6], [Say("Done.")]])
    page = Page(make(model, till.pay))
    await page.say("pay")
    await page.approve("c1").send()
    page = page.after_restart(make(model, till.pay))
    await page.approve("c2").send()
    assert till.paid == [5, 6]
    await assert_history_matches(page, model)


async def test_a_tool_that_requests_confirmation_itself_survives_a_restart(make: Make) -> None:
    till, model = Till(), model_calling(Call("haggle", {"amount": 9}, "c1"))
    page = Page(make(model, till.haggle))
    await page.say("haggle")
    page = page.after_restart(make(model, till.haggle))
    [pending] = await page.pending()
    assert (pending["hint"], pending["payload"]) == ("How much of 9?", {"granted": 0})
    await page.answer_and_follow("c1", approved=True, payload={"granted": 2})
    assert till.paid == [2]
    await assert_history_matches(page, model)


async def test_a_call_whose_record_is_lost_cannot_be_approved(make: Make) -> None:
    """The session has the approval request, but the gate has no record."""
    till, model = Till(), model_calling(PAY)
    page = Page(make(model, till.pay, gate_store=MemoryGateStore()))
    await page.say("pay")
    page = page.after_restart(make(model, till.pay, gate_store=MemoryGateStore()))
    tab = page.another_tab()
    await page.reload()
    assert page.calls == {"c1": "output-error"}
    assert (await tab.approve("c1").send()).types == ["start", "error"]
    assert till.paid == []
    await page.say("and?")
    assert set(tool_responses(model.requests[-1])) == {"c1"}
    await assert_history_matches(page, model)


def raising(amount: int) -> Any:
    """Never run."""
    raise AssertionError(f"it ran with {amount}")


async def test_a_call_that_is_denied_after_a_restart_is_not_executed(make: Make) -> None:
    tool = FunctionTool(raising, require_confirmation=True)
    model = model_calling(Call("raising", {"amount": 1}, "c1"))
    page = Page(make(model, tool))
    await page.say("go")
    page = page.after_restart(make(model, tool))
    await page.deny("c1").send()
    assert page.calls == {"c1": "output-denied"}
    await assert_history_matches(page, model)
