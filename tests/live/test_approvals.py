"""Approvals and browser tools while a live conversation goes on."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.events.event import Event
from google.adk.models.base_llm_connection import RealtimeInput
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from msgspec import UNSET

from adkwire.adk.events import EXPIRED, FAILED, WENT_ON
from adkwire.gate.policy import Policy, Rule
from adkwire.gate.records import State, UncheckedAnswer
from adkwire.stores.base import CallRow, ChatKey
from adkwire.testing import Call, Drop, Say, ScriptedModel, Wait
from adkwire.testing.live_responses import Manner
from adkwire.testing.model_connection import ModelConnection
from adkwire.wire.decode.call_answers import CallAnswer, CallAnswers
from adkwire.wire.decode.decoder import TurnInput
from adkwire.wire.encode.tool_calls import REQUEST_CONFIRMATION, UNFINISHED
from tests.live.live_chat import (
    CHAT,
    ME,
    LiveChat,
    LiveTools,
    Modality,
    Reader,
    RecordingListener,
    chat_with_agent,
    chat_with_inner_agent,
    live_chat,
)
from tests.patience import PATIENCE

MODALITIES: list[Modality] = ["text", "audio"]
PAY = [Call("pay", {"amount": 5})]
YES, NO = UncheckedAnswer(approved=True), UncheckedAnswer(approved=False, reason="too much")


def is_asked(reader: Reader) -> bool:
    """Return whether an approval request was read."""
    return "tool-approval-request" in reader.types


@pytest.mark.parametrize("modality", MODALITIES)
@pytest.mark.parametrize("verdict", [YES, NO], ids=["approve", "deny"])
async def test_a_held_call_runs_after_a_yes_and_not_after_a_no(modality: Modality, verdict: UncheckedAnswer) -> None:
    async with live_chat([PAY, [Say("Done.")], [Say("Bye.")]], modality) as chat:
        answer = await (await chat.send("pay 5")).until_break()
        await chat.answer("pay", verdict)
        await answer.rest()
        assert chat.tools.paid == ([5] if verdict is YES else [])
        assert answer.part("pay")["state"] == ("output-available" if verdict is YES else "output-denied")
        assert answer.text == "Done."
        last = await (await chat.send("bye")).rest()
        assert last.text == "Bye."
        assert len(chat.model.live) == 1
        await chat.assert_history_matches(answer, last)


async def test_a_held_call_that_may_have_been_executed_is_not_reported_as_not_executed() -> None:
    async with live_chat([PAY, [Say("Done.")]]) as chat:
        answer = await (await chat.send("pay 5")).until_break()
        gate, call = chat.bridge._gate, (await chat.pending_call("pay")).tool_call_id
        record = await gate.get(ME, CHAT, call)
        assert record is not None
        unknown = await gate._store_move(msgspec.structs.replace(record, state=State.UNKNOWN, outcome="unknown"))
        assert unknown is not None
        gate._notify(unknown)
        await answer.rest()
        assert answer.part("pay")["errorText"] == UNFINISHED
        await chat.assert_history_matches(answer)


@pytest.mark.parametrize("first", [0, 1])
async def test_two_held_calls_are_answered_one_by_one(first: int) -> None:
    calls = [Call("pay", {"amount": 1}), Call("pay", {"amount": 2})]
    async with live_chat([calls, [Say("Both.")]]) as chat:
        answer = await (await chat.send("pay")).until_break()
        waiting = sorted(await chat.pending(), key=lambda call: call.input["amount"])
        order = waiting if first == 0 else waiting[::-1]
        await chat.bridge.answer(ME, CHAT, order[0].tool_call_id, YES)
        await answer.until(lambda reader: "tool-output-available" in reader.types)
        assert len(chat.tools.paid) == 1
        await chat.bridge.answer(ME, CHAT, order[1].tool_call_id, NO)
        await answer.rest()
        assert chat.tools.paid == [1 + first]
        assert answer.text == "Both."
        await chat.assert_history_matches(answer)


@pytest.mark.parametrize("modality", MODALITIES)
async def test_gated_browser_and_plain_calls_in_one_step(modality: Modality) -> None:
    calls = [Call("pay", {"amount": 1}), Call("clock"), Call("weather", {"place": "Rome"}), Call("locate")]
    async with live_chat([calls, [Say("All.")]], modality) as chat:
        answer = await (await chat.send("everything")).until_break()
        assert answer.part("weather")["state"] == "output-available"
        assert answer.part("clock")["state"] == "input-available"
        assert answer.part("locate")["state"] == "approval-requested"
        await chat.answer("clock", UncheckedAnswer(output={"time": "noon"}))
        await chat.answer("locate", YES)
        await answer.until(lambda reader: reader.part("locate")["state"] == "input-available")
        await chat.answer("locate", UncheckedAnswer(output={"latitude": 1}))
        await chat.answer("pay", NO)
        await answer.rest()
        assert answer.part("clock")["output"] == {"time": "noon"}
        assert answer.text == "All."
        await chat.assert_history_matches(answer)
        await chat.link.close()
        assert await chat.pending() == []


async def test_an_output_for_a_gated_browser_call_counts_as_approval() -> None:
    async with live_chat([[Call("locate")], [Say("There.")]]) as chat:
        answer = await (await chat.send("where")).until_break()
        await chat.answer("locate", UncheckedAnswer(output={"latitude": 1}))
        await answer.rest()
        assert answer.part("locate")["state"] == "output-available"
        await chat.assert_history_matches(answer)


async def test_edited_arguments_are_what_runs() -> None:
    async with live_chat([PAY, [Say("Done.")]]) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.answer("pay", UncheckedAnswer(approved=True, args={"amount": 3}))
        await answer.rest()
        assert chat.tools.paid == [3]
        await chat.assert_history_matches(answer)


async def test_a_tool_that_requests_its_own_confirmation() -> None:
    async with live_chat([[Call("careful", {"amount": 7})], [Say("Done.")]]) as chat:
        answer = await (await chat.send("pay")).until_break()
        assert (await chat.pending_call("careful")).hint == "Really?"
        await chat.answer("careful", UncheckedAnswer(approved=True, payload={"code": "42"}))
        await answer.rest()
        assert chat.tools.paid == [7]
        assert answer.part("careful")["output"] == {"paid": 7, "code": {"code": "42"}}
        await chat.assert_history_matches(answer)


async def test_a_held_approval_expires() -> None:
    async with live_chat([PAY, [Say("Pity.")]], live_approval_timeout=0.05) as chat:
        answer = await (await chat.send("pay")).rest()
        assert answer.part("pay")["state"] == "output-error"
        assert answer.text == "Pity."
        assert chat.tools.paid == []
        await chat.assert_history_matches(answer)


async def test_a_held_browser_call_expires() -> None:
    async with live_chat([[Call("clock")], [Say("Pity.")]], client_tool_timeout=0.05) as chat:
        answer = await (await chat.send("time")).rest()
        assert answer.part("clock")["state"] == "output-error"
        await chat.assert_history_matches(answer)


async def test_a_grant_for_the_chat_covers_the_next_call() -> None:
    async with live_chat([PAY, [Say("Done.")], PAY, [Say("Again.")]]) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.answer("pay", UncheckedAnswer(approved=True, scope="chat"))
        await answer.rest()
        again = await (await chat.send("pay")).rest()
        assert chat.tools.paid == [5, 5]
        assert "tool-approval-request" not in again.types
        await chat.assert_history_matches(answer, again)


async def test_the_model_answers_speech_while_a_call_is_held() -> None:
    talking = Manner(blocking=False, hears=lambda sound: "and the weather")
    async with live_chat([PAY, [Say("It is sunny meanwhile.")], [Say("Paid.")]], manner=talking) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.speak()
        await answer.until(lambda reader: "meanwhile" in reader.text)
        await answer.until_break()
        assert answer.part("pay")["state"] == "approval-requested"
        await chat.answer("pay", YES)
        await answer.rest()
        assert answer.text == "It is sunny meanwhile.Paid."
        assert chat.tools.paid == [5]
        assert all(run is answer.run for run, _ in chat.listener.turns)
        await chat.assert_history_matches(answer)
        texts = [part["text"] for part in (await chat.messages())[0]["parts"]]
        assert texts == ["pay", "and the weather"]


async def test_an_interruption_while_a_call_is_held() -> None:
    hold = asyncio.Event()
    talking = Manner(blocking=False, hears=lambda sound: "hm")
    async with live_chat([PAY, [Say("I wait and "), Wait(hold), Say("wait")], [Say("Paid.")]], manner=talking) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.speak()
        await answer.until(lambda reader: "and " in reader.text)
        await chat.link.interrupt()
        assert chat.listener.interruptions
        await answer.until(lambda reader: reader.types[-1] == "text-end")
        assert answer.part("pay")["state"] == "approval-requested"
        await chat.answer("pay", YES)
        await answer.rest()
        assert answer.text == "I wait and Paid."
        assert chat.tools.paid == [5]
        await chat.assert_history_matches(answer)


@pytest.mark.parametrize("how", ["button", "speech"])
async def test_an_interruption_while_the_model_waits_for_a_held_call(how: str) -> None:
    """The model has ended its speech by a call: there is nothing to mute, and its next words are shown."""
    turns = [[Say("Let me pay. "), *PAY], [Say("Done.")]]
    async with live_chat(turns, manner=Manner(hears=lambda sound: "")) as chat:
        answer = await (await chat.send("pay")).until_break()
        chat.link.played(chat.listener.sounds[-1][0], 1)
        if how == "button":
            await chat.link.interrupt()
        else:
            await chat.speak()
        assert [kept for *_, kept in chat.listener.interruptions] == [None], "the rest of the sound is dropped"
        await chat.answer("pay", YES)
        await answer.rest()
        assert answer.text == "Let me pay. Done."
        assert chat.tools.paid == [5]
        await chat.assert_history_matches(answer)


async def test_a_call_is_answered_before_the_model_has_stopped_speaking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the interrupted speech reaches the server after the response of the call."""
    hold, answered = asyncio.Event(), asyncio.Event()
    send_realtime = ModelConnection.send_realtime

    async def send_interruption_late(self: ModelConnection, blob: RealtimeInput) -> None:
        if chat.listener.interruptions:
            await answered.wait()
        await send_realtime(self, blob)

    monkeypatch.setattr(ModelConnection, "send_realtime", send_interruption_late)
    talking = Manner(blocking=False, hears=lambda sound: "hm")
    async with live_chat([PAY, [Say("I wait and "), Wait(hold), Say("wait")], [Say("Paid.")]], manner=talking) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.speak()
        await answer.until(lambda reader: "and " in reader.text)
        await chat.link.interrupt()
        await chat.answer("pay", YES)
        await answer.until(lambda reader: "tool-output-available" in reader.types)
        answered.set()
        await answer.rest()
        assert answer.text == "I wait and Paid."
        assert [run for run, _ in chat.listener.turns if run is not answer.run] == []
        await chat.assert_history_matches(answer)


async def test_typing_supersedes_a_held_call() -> None:
    async with live_chat([PAY, [Say("Never mind.")]]) as chat:
        answer = await (await chat.send("pay")).until_break()
        call = await chat.pending_call("pay")
        after = await (await chat.send("forget it")).rest()
        await answer.rest()
        assert after.text == "Never mind."
        with pytest.raises(Exception, match="went on"):
            await chat.bridge.answer(ME, CHAT, call.tool_call_id, YES)
        assert chat.tools.paid == []
        assert answer.part("pay")["state"] == "output-error"
        await chat.assert_history_matches(answer, after)


@pytest.mark.parametrize("held", [True, False], ids=["held", "executing"])
async def test_stop_ends_a_call(held: bool) -> None:
    async with live_chat([[Call("slow", {"amount": 9})], [Say("Next.")]]) as chat:
        answer = await (await chat.send("pay")).until_break()
        if not held:
            await chat.answer("slow", YES)
            await chat.tools.slow_began.wait()
        await chat.bridge.stop(ME, CHAT, answer.run.id)
        await answer.rest()
        assert answer.types[-1] == "finish"
        assert "abort" in answer.types
        assert answer.part("slow")["state"] == "output-error"
        chat.tools.slow_may_end.set()
        after = await (await chat.send("go on")).rest()
        assert after.text == "Next."
        assert chat.tools.paid == []
        await chat.assert_history_matches(answer, after)


async def test_a_client_that_reconnects_finds_its_held_call() -> None:
    async with live_chat([PAY, [Say("Done.")]]) as chat:
        answer = await (await chat.send("pay")).until_break()
        chat.link.leave()
        listener = RecordingListener()
        link = await chat.join(listener)
        assert link.resumed
        assert link.run == answer.run.id
        await chat.answer("pay", YES)
        await answer.rest()
        assert chat.tools.paid == [5]
        assert listener.settlements
        assert len(chat.model.live) == 1


@pytest.mark.parametrize("how", ["http", "live", "repost"])
@pytest.mark.parametrize("verdict", [YES, NO], ids=["approve", "deny"])
async def test_a_parked_call_is_answered_in_any_mode(how: str, verdict: UncheckedAnswer) -> None:
    async with live_chat([PAY, [Say("Done.")], [Say("Bye.")]]) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.link.close()
        await answer.rest()
        assert answer.plain[-1]["finishReason"] == "tool-calls"
        await chat.assert_history_matches(answer)
        call = await chat.pending_call("pay")
        assert call.expires_at is UNSET
        if how == "live":
            await chat.rejoin()
        if how == "repost":
            run = await chat.bridge.start(ME, repost(answer, verdict))
        else:
            await chat.bridge.answer(ME, CHAT, call.tool_call_id, verdict)
            run = chat.bridge.running(ME, CHAT)
        assert run is not None
        rest = await Reader(chat.bridge, run).rest()
        assert chat.tools.paid == ([5] if verdict is YES else [])
        assert rest.text == "Done."
        assert len(chat.model.live) == (2 if how == "live" else 1)
        final = (await chat.messages())[-1]
        assert final["id"] == answer.run.message_id
        assert [part.get("state") for part in final["parts"] if part["type"] == "tool-pay"] == [
            "output-available" if verdict is YES else "output-denied"
        ]
        last = await ((await chat.send("bye")) if how == "live" else (await chat.post("bye"))).rest()
        assert last.text == "Bye."


def repost(answer: Reader, verdict: UncheckedAnswer) -> TurnInput:
    """Return the message by which a stock client answers the payment."""
    part = answer.part("pay")
    call_answer = CallAnswer(
        call=part["toolCallId"],
        tool="pay",
        approval=part["approval"]["id"],
        approved=verdict.approved,
        reason=verdict.reason or None,
        input=part["input"],
    )
    return TurnInput(
        chat=CHAT,
        message=None,
        trigger="submit-message",
        replaces=None,
        answers=CallAnswers(answer.run.message_id, (call_answer,)),
    )


async def test_a_stock_client_sends_its_answer_as_a_message() -> None:
    async with live_chat([PAY, [Say("Done.")]]) as chat:
        answer = await (await chat.send("pay")).until_break()
        to_read = await chat.link.send(repost(answer, YES))
        assert to_read.run is answer.run
        assert to_read.after == len(answer.entries) - 1
        rest = await Reader(chat.bridge, to_read.run, to_read.after).rest()
        assert rest.text == "Done."
        assert rest.types[0] == "tool-approval-response"
        again = await chat.link.send(repost(answer, YES))
        assert again.run is not answer.run or again.run.done.is_set()
        assert chat.tools.paid == [5]


class PlainToolset(BaseToolset):
    """A toolset of the given tools."""

    def __init__(self, *tools: BaseTool) -> None:
        super().__init__()
        self._tools = list(tools)

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        return self._tools


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated")
@pytest.mark.parametrize("where", ["toolset", "sub-agent", "inside"])
async def test_a_gated_tool_in_a_toolset_a_sub_agent_or_an_agent_tool(where: str) -> None:
    tools = LiveTools()
    gated = FunctionTool(tools.pay, require_confirmation=True)
    inner = LlmAgent(name="inner", model=ScriptedModel(turns=[PAY, [Say("Inner.")]]), tools=[gated])
    if where == "inside":
        model = ScriptedModel(turns=[[Call("inner", {"request": "pay"})], [Say("Done.")]])
        agent = LlmAgent(name="outer", model=model, tools=[AgentTool(inner)])
    elif where == "toolset":
        agent = LlmAgent(name="outer", model=ScriptedModel(turns=[PAY, [Say("Done.")]]), tools=[PlainToolset(gated)])
    else:
        model = ScriptedModel(turns=[[Call("transfer_to_agent", {"agent_name": "sub"})], PAY, [Say("Done.")]])
        agent = LlmAgent(name="outer", model=model, sub_agents=[LlmAgent(name="sub", model=model, tools=[gated])])
    async with chat_with_agent(agent) as chat:
        answer = await (await chat.send("pay")).until(is_asked)
        assert answer.part("pay")["state"] == "approval-requested"
        await chat.answer("pay", YES)
        await answer.rest()
        assert tools.paid == [5]
        assert answer.part("pay")["state"] == "output-available"
        assert answer.text == "Done."
        await chat.assert_history_matches(answer)


class FailingSessions(InMemorySessionService):
    """Sessions that fail once to store the result of an inner payment."""

    failed = False

    async def append_event(self, session: Session, event: Event) -> Event:
        if not self.failed and event.content is None and "'paid'" in str(event.custom_metadata):
            self.failed = True
            raise OSError("away")
        return await super().append_event(session, event)


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated")
async def test_an_inner_result_that_could_not_be_stored_is_shown_when_the_turn_ends() -> None:
    tools, sessions = LiveTools(), FailingSessions()
    async with chat_with_inner_agent(tools.pay, sessions=sessions) as chat:
        answer = await (await chat.send("pay")).until(is_asked)
        await chat.answer("pay", YES)
        await answer.rest()
        assert sessions.failed
        assert (tools.paid, answer.text) == ([5], "Done.")
        assert answer.part("inner")["output"] == {"result": "Inner."}
        assert answer.part("pay")["output"] == {"paid": 5}
        await chat.assert_history_matches(answer)


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated")
async def test_an_inner_call_that_was_stopped_while_executing_is_unknown() -> None:
    executing = asyncio.Event()

    async def pay(amount: float) -> None:
        """Pay, and never return."""
        executing.set()
        await asyncio.Event().wait()

    async with chat_with_inner_agent(pay) as chat:
        answer = await (await chat.send("pay")).until(is_asked)
        await chat.answer("pay", YES)
        await executing.wait()
        await chat.bridge.stop(ME, CHAT)
        await answer.rest()
        assert answer.part("pay")["errorText"] == UNFINISHED
        assert (await chat.bridge.audit(ME, CHAT))[-1].outcome == "unknown"
        await chat.assert_history_matches(answer)


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated")
async def test_an_inner_held_call_ends_with_the_connection() -> None:
    tools = LiveTools()
    async with chat_with_inner_agent(tools.pay) as chat:
        answer = await (await chat.send("pay")).until(is_asked)
        (await chat.model.connected()).interject(Drop(1006))
        await answer.rest()
        assert answer.types[-1] == "error", "no run can continue it"
        assert (await chat.pending(), tools.paid) == ([], [])
        assert answer.part("pay")["errorText"] == FAILED
        await chat.assert_history_matches(answer)


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated")
@pytest.mark.parametrize("end", ["answered", "stopped", "lost", "closed"])
async def test_nothing_is_kept_of_the_calls_of_a_turn_that_has_ended(end: str) -> None:
    tools = LiveTools()
    async with chat_with_inner_agent(tools.pay) as chat:
        conversation = chat.bridge.live._all[ChatKey(ME, CHAT)]  # pyright: ignore[reportPrivateUsage]
        answer = await (await chat.send("pay")).until(is_asked)
        if end == "answered":
            await chat.answer("pay", YES)
        elif end == "stopped":
            await chat.bridge.stop(ME, CHAT)
        elif end == "lost":
            (await chat.model.connected()).interject(Drop(1006))
        else:
            await chat.link.close()
        await answer.rest()
        await answer.run.done.wait()
        assert conversation._calls._announced == {}  # pyright: ignore[reportPrivateUsage]
        assert conversation._turns.streamed == {}, "and with it the inner calls"  # pyright: ignore[reportPrivateUsage]


async def test_a_call_is_parked_once_though_the_connection_is_lost_when_the_conversation_ends() -> None:
    sessions = InMemorySessionService()
    async with live_chat([PAY, [Say("Done.")]], sessions=sessions) as chat:
        answer = await (await chat.send("pay")).until_break()
        (await chat.model.connected()).interject(Drop(1006))
        await chat.listener.until(lambda listener: listener.notices)
        await chat.link.close()
        await answer.rest()
        session = await sessions.get_session(app_name="teller", user_id=ME, session_id=CHAT)
        assert session is not None
        assert len([each for event in session.events for each in event.get_function_responses()]) == 1


class SlowClaims:
    """Makes the gate store delay the first claim of a call, also when the task that claims it is cancelled."""

    def __init__(self, chat: LiveChat) -> None:
        self.reached, self.may_go_on = asyncio.Event(), asyncio.Event()
        self.claims: list[asyncio.Task[bool]] = []
        self._store: Any = chat.bridge._gate._store  # pyright: ignore[reportPrivateUsage]
        self._replace, self._store.replace = self._store.replace, self._replace_late

    async def _replace_late(self, row: CallRow) -> bool:
        if row.state == State.EXECUTING and not self.reached.is_set():
            self.claims.append(asyncio.create_task(self._delayed(row)))
            self.reached.set()
            return await asyncio.shield(self.claims[0])
        return await self._replace(row)

    async def _delayed(self, row: CallRow) -> bool:
        await self.may_go_on.wait()
        return await self._replace(row)


APPROVED_CALLS = [("pay", {"amount": 5}), ("careful", {"amount": 5}), ("weather", {"place": "Rome"})]


@pytest.mark.parametrize(("tool", "args"), APPROVED_CALLS, ids=["tool asks", "body asks", "policy asks"])
@pytest.mark.parametrize("end", ["closed", "lost"])
async def test_an_approved_call_that_was_not_executed_yet_is_executed_by_the_continuation(
    tmp_path: Path, end: str, tool: str, args: dict[str, Any]
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rule]]\ntool = "weather"\naction = "ask"\n')
    async with live_chat([[Call(tool, args, id="c1")], [Say("Done.")]], policy=policy) as chat:
        answer, store = await (await chat.send("go")).until_break(), SlowClaims(chat)
        await chat.answer(tool, YES)
        await store.reached.wait()
        if end == "closed":
            await chat.link.close()
        else:
            (await chat.model.connected()).interject(Drop(1006))
        await answer.rest()
        assert answer.types[-3:] == ["tool-approval-response", "finish-step", "finish"]
        await read_continuation(chat, answer)
        store.may_go_on.set()
        assert await store.claims[0] is False
        assert (chat.tools.paid, answer.text) == ([] if tool == "weather" else [5], "Done.")
        assert answer.part(tool)["state"] == "output-available"
        assert [entry.outcome for entry in await chat.bridge.audit(ME, CHAT)] == ["waiting", "waiting", "executed"]
        await chat.assert_history_matches(answer)


async def test_an_approved_call_that_was_not_executed_yet_waits_for_the_other_calls() -> None:
    calls = [Call("pay", {"amount": 1}, id="c1"), Call("pay", {"amount": 2}, id="c2")]
    async with live_chat([calls, [Say("Both.")]]) as chat:
        answer, store = await (await chat.send("go")).until_break(), SlowClaims(chat)
        await chat.bridge.answer(ME, CHAT, "c1", YES)
        await store.reached.wait()
        await chat.link.close()
        await answer.rest()
        states = [part["state"] for part in answer.message["parts"] if part["type"] == "tool-pay"]
        assert states == ["approval-responded", "approval-requested"]
        await chat.assert_history_matches(answer)
        store.may_go_on.set()
        assert await store.claims[0] is False, "the claim comes too late"
        await chat.bridge.answer(ME, CHAT, "c2", YES)
        await read_continuation(chat, answer)
        assert sorted(chat.tools.paid) == [1, 2]
        await chat.assert_history_matches(answer)


class SlowVerdicts(InMemorySessionService):
    """Sessions that wait before they store a verdict."""

    def __init__(self) -> None:
        super().__init__()
        self.storing, self.go_on = asyncio.Event(), asyncio.Event()

    async def append_event(self, session: Session, event: Event) -> Event:
        if any(response.name == REQUEST_CONFIRMATION for response in event.get_function_responses()):
            self.storing.set()
            await self.go_on.wait()
        return await super().append_event(session, event)


async def test_an_approved_call_whose_verdict_is_just_being_stored() -> None:
    sessions = SlowVerdicts()
    async with live_chat([PAY, [Say("Done.")]], sessions=sessions) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.answer("pay", YES)
        await sessions.storing.wait()
        closing = asyncio.create_task(chat.link.close())
        for _ in range(100):
            # Until all that waits in the conversation is cancelled.
            await asyncio.sleep(0)
        sessions.go_on.set()
        await closing
        await answer.rest()
        await read_continuation(chat, answer)
        assert (chat.tools.paid, answer.text) == ([5], "Done.")
        await chat.assert_history_matches(answer)


async def read_continuation(chat: LiveChat, answer: Reader) -> None:
    """Add the chunks of the run that continues a message to its reader."""
    runs = chat.bridge._chats.get(ChatKey(ME, CHAT))  # pyright: ignore[reportPrivateUsage]
    assert runs is not None
    async with asyncio.timeout(PATIENCE):
        while runs.last in (None, answer.run):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    assert runs.last is not None
    answer.entries += (await Reader(chat.bridge, runs.last).rest()).entries


async def test_a_policy_gates_a_tool_and_the_users_agent_is_unchanged() -> None:
    model, tools = ScriptedModel(turns=[[Call("weather", {"place": "Rome"})], [Say("Done.")]]), LiveTools().all()
    agent = LlmAgent(name="outer", model=model, tools=tools)
    async with chat_with_agent(agent, rules=Policy([Rule("weather", "ask")])) as chat:
        answer = await (await chat.send("weather")).until_break()
        await chat.answer("weather", YES)
        await answer.rest()
        assert answer.part("weather")["state"] == "output-available"
        await chat.assert_history_matches(answer)
    own_tools: list[Any] = getattr(agent, "tools")  # noqa: B009 - its type is not known
    assert own_tools == tools
    assert all(getattr(tool, "behavior", None) is None for tool in own_tools)


@pytest.mark.parametrize("rule", [None, 1_000.0], ids=["by the settings", "by its rule"])
async def test_timeouts_of_a_gated_browser_call_asked_offered_and_parked(tmp_path: Path, rule: float | None) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rule]]\ntool = "locate"\naction = "ask"\n' + (f"timeout = {rule}\n" if rule else ""))
    times: dict[str, Any] = {"live_approval_timeout": 300, "client_tool_timeout": 120, "approval_timeout": 5_000}
    async with live_chat([[Call("locate")], [Say("There.")]], policy=policy, **times) as chat:
        answer = await (await chat.send("where")).until_break()
        assert await seconds_left(chat, "locate") == pytest.approx(rule or 300, abs=60)
        await chat.answer("locate", YES)
        await answer.until(lambda reader: reader.part("locate")["state"] == "input-available")
        assert await seconds_left(chat, "locate") == pytest.approx(rule or 120, abs=60)
        await chat.link.close()
        assert await seconds_left(chat, "locate") == pytest.approx(rule or 5_000, abs=60)


async def test_listeners_get_a_notice_when_a_call_expires() -> None:
    async with live_chat([PAY, [Say("Too late.")]], live_approval_timeout=0.2) as chat:
        answer = await (await chat.send("pay")).until_break()
        await answer.rest()
        assert chat.listener.notices == ["expired"]
        assert answer.part("pay")["errorText"] == EXPIRED
        assert chat.tools.paid == []
        await chat.assert_history_matches(answer)


async def seconds_left(chat: LiveChat, tool: str) -> float:
    expiry = (await chat.pending_call(tool)).expires_at
    assert isinstance(expiry, str)
    return (datetime.fromisoformat(expiry) - datetime.now(UTC)).total_seconds()


async def test_typing_supersedes_an_approved_browser_call() -> None:
    async with live_chat([[Call("locate")], [Say("Never mind.")]]) as chat:
        answer = await (await chat.send("where")).until_break()
        await chat.answer("locate", YES)
        await answer.until(lambda reader: reader.part("locate")["state"] == "input-available")
        after = await (await chat.send("forget it")).rest()
        await answer.rest()
        assert answer.part("locate")["errorText"] == WENT_ON
        assert [state for _, state in chat.listener.settlements] == ["offered", "superseded"]
        await chat.assert_history_matches(answer, after)
