"""Approvals and browser tools while a live conversation goes on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.events.event import Event
from google.adk.models.base_llm_connection import RealtimeInput
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from msgspec import UNSET

from adkwire.adk.events import EXPIRED, FAILED, WENT_ON
from adkwire.bridge import Bridge
from adkwire.gate.policy import Policy, Rule
from adkwire.gate.records import State, UncheckedAnswer
from adkwire.settings import Settings
from adkwire.stores.base import CallRow, ChatKey
from adkwire.testing import Call, Drop, Say, ScriptedModel, Wait
from adkwire.testing.live_responses import Manner
from adkwire.testing.model_connection import ModelConnection
from adkwire.wire.decode.call_answers import CallAnswer, CallAnswers
from adkwire.wire.decode.decoder import TurnInput
from adkwire.wire.encode.tool_calls import REQUEST_CONFIRMATION, UNFINISHED
from tests.live.live_house import CHAT, ME, Ear, House, Modality, Reader, Till, house
from tests.patience import PATIENCE

MODALITIES: list[Modality] = ["text", "audio"]
PAY = [Call("pay", {"amount": 5})]
YES, NO = UncheckedAnswer(approved=True), UncheckedAnswer(approved=False, reason="too much")


def part_of(reader: Reader, tool: str) -> dict[str, Any]:
    return next(part for part in reader.message["parts"] if part["type"] == f"tool-{tool}")


@pytest.mark.parametrize("modality", MODALITIES)
@pytest.mark.parametrize("given", [YES, NO], ids=["approve", "deny"])
async def test_a_verdict(modality: Modality, given: UncheckedAnswer) -> None:
    async with house([PAY, [Say("Done.")], [Say("Bye.")]], modality) as here:
        answer = await (await here.say("pay 5")).until_break()
        await here.answer("pay", given)
        await answer.rest()
        assert here.till.paid == ([5] if given is YES else [])
        assert part_of(answer, "pay")["state"] == ("output-available" if given is YES else "output-denied")
        assert answer.text == "Done."
        last = await (await here.say("bye")).rest()
        assert last.text == "Bye."
        assert len(here.model.live) == 1
        await here.agrees_with(answer, last)


@pytest.mark.parametrize("first", [0, 1])
async def test_two_payments_one_by_one(first: int) -> None:
    calls = [Call("pay", {"amount": 1}), Call("pay", {"amount": 2})]
    async with house([calls, [Say("Both.")]]) as here:
        answer = await (await here.say("pay")).until_break()
        waiting = sorted(await here.pending(), key=lambda call: call.input["amount"])
        order = waiting if first == 0 else waiting[::-1]
        await here.bridge.answer(ME, CHAT, order[0].tool_call_id, YES)
        await answer.until(lambda me: "tool-output-available" in me.types)
        assert len(here.till.paid) == 1
        await here.bridge.answer(ME, CHAT, order[1].tool_call_id, NO)
        await answer.rest()
        assert here.till.paid == [1 + first]
        assert answer.text == "Both."
        await here.agrees_with(answer)


@pytest.mark.parametrize("modality", MODALITIES)
async def test_three_kinds_in_one_step(modality: Modality) -> None:
    calls = [Call("pay", {"amount": 1}), Call("clock"), Call("weather", {"place": "Rome"}), Call("locate")]
    async with house([calls, [Say("All.")]], modality) as here:
        answer = await (await here.say("everything")).until_break()
        assert part_of(answer, "weather")["state"] == "output-available"
        assert part_of(answer, "clock")["state"] == "input-available"
        assert part_of(answer, "locate")["state"] == "approval-requested"
        await here.answer("clock", UncheckedAnswer(output={"time": "noon"}))
        await here.answer("locate", YES)
        await answer.until(lambda me: part_of(me, "locate")["state"] == "input-available")
        await here.answer("locate", UncheckedAnswer(output={"latitude": 1}))
        await here.answer("pay", NO)
        await answer.rest()
        assert part_of(answer, "clock")["output"] == {"time": "noon"}
        assert answer.text == "All."
        await here.agrees_with(answer)
        await here.link.close()
        assert await here.pending() == []


async def test_an_output_is_an_approval() -> None:
    async with house([[Call("locate")], [Say("There.")]]) as here:
        answer = await (await here.say("where")).until_break()
        await here.answer("locate", UncheckedAnswer(output={"latitude": 1}))
        await answer.rest()
        assert part_of(answer, "locate")["state"] == "output-available"
        await here.agrees_with(answer)


async def test_edited_arguments() -> None:
    async with house([PAY, [Say("Done.")]]) as here:
        answer = await (await here.say("pay")).until_break()
        await here.answer("pay", UncheckedAnswer(approved=True, args={"amount": 3}))
        await answer.rest()
        assert here.till.paid == [3]
        await here.agrees_with(answer)


async def test_a_tool_that_asks_from_inside() -> None:
    async with house([[Call("careful", {"amount": 7})], [Say("Done.")]]) as here:
        answer = await (await here.say("pay")).until_break()
        assert (await here.waiting("careful")).hint == "Really?"
        await here.answer("careful", UncheckedAnswer(approved=True, payload={"code": "42"}))
        await answer.rest()
        assert here.till.paid == [7]
        assert part_of(answer, "careful")["output"] == {"paid": 7, "code": {"code": "42"}}
        await here.agrees_with(answer)


async def test_nobody_answers() -> None:
    async with house([PAY, [Say("Pity.")]], live_approval_timeout=0.05) as here:
        answer = await (await here.say("pay")).rest()
        assert part_of(answer, "pay")["state"] == "output-error"
        assert answer.text == "Pity."
        assert here.till.paid == []
        await here.agrees_with(answer)


async def test_the_browser_does_not_answer() -> None:
    async with house([[Call("clock")], [Say("Pity.")]], client_tool_timeout=0.05) as here:
        answer = await (await here.say("time")).rest()
        assert part_of(answer, "clock")["state"] == "output-error"
        await here.agrees_with(answer)


async def test_a_grant_for_the_chat() -> None:
    async with house([PAY, [Say("Done.")], PAY, [Say("Again.")]]) as here:
        answer = await (await here.say("pay")).until_break()
        await here.answer("pay", UncheckedAnswer(approved=True, scope="chat"))
        await answer.rest()
        again = await (await here.say("pay")).rest()
        assert here.till.paid == [5, 5]
        assert "tool-approval-request" not in again.types
        await here.agrees_with(answer, again)


async def test_the_model_goes_on_while_a_call_waits() -> None:
    talking = Manner(blocking=False, hears=lambda sound: "and the weather")
    async with house([PAY, [Say("It is sunny meanwhile.")], [Say("Paid.")]], manner=talking) as here:
        answer = await (await here.say("pay")).until_break()
        await here.link.activity(start=True)
        here.link.audio(bytes(3200))
        await here.link.activity(start=False)
        await answer.until(lambda me: "meanwhile" in me.text)
        await answer.until_break()
        assert part_of(answer, "pay")["state"] == "approval-requested"
        await here.answer("pay", YES)
        await answer.rest()
        assert answer.text == "It is sunny meanwhile.Paid."
        assert here.till.paid == [5]
        assert all(run is answer.run for run, _ in here.ear.turns)
        await here.agrees_with(answer)
        texts = [part["text"] for part in (await here.messages())[0]["parts"]]
        assert texts == ["pay", "and the weather"]


async def test_an_interruption_while_a_call_waits() -> None:
    hold = asyncio.Event()
    talking = Manner(blocking=False, hears=lambda sound: "hm")
    async with house([PAY, [Say("I wait and "), Wait(hold), Say("wait")], [Say("Paid.")]], manner=talking) as here:
        answer = await (await here.say("pay")).until_break()
        await here.link.activity(start=True)
        here.link.audio(bytes(3200))
        await here.link.activity(start=False)
        await answer.until(lambda me: "and " in me.text)
        await here.link.interrupt()
        assert here.ear.interruptions
        await answer.until(lambda me: me.types[-1] == "text-end")
        assert part_of(answer, "pay")["state"] == "approval-requested"
        await here.answer("pay", YES)
        await answer.rest()
        assert answer.text == "I wait and Paid."
        assert here.till.paid == [5]
        await here.agrees_with(answer)


async def test_a_call_is_answered_before_the_model_has_stopped_speaking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the interrupted speech reaches the server after the response of the call."""
    hold, answered = asyncio.Event(), asyncio.Event()
    send_realtime = ModelConnection.send_realtime

    async def send_interruption_late(self: ModelConnection, blob: RealtimeInput) -> None:
        if here.ear.interruptions:
            await answered.wait()
        await send_realtime(self, blob)

    monkeypatch.setattr(ModelConnection, "send_realtime", send_interruption_late)
    talking = Manner(blocking=False, hears=lambda sound: "hm")
    async with house([PAY, [Say("I wait and "), Wait(hold), Say("wait")], [Say("Paid.")]], manner=talking) as here:
        answer = await (await here.say("pay")).until_break()
        await here.link.activity(start=True)
        here.link.audio(bytes(3200))
        await here.link.activity(start=False)
        await answer.until(lambda me: "and " in me.text)
        await here.link.interrupt()
        await here.answer("pay", YES)
        await answer.until(lambda me: "tool-output-available" in me.types)
        answered.set()
        await answer.rest()
        assert answer.text == "I wait and Paid."
        assert [run for run, _ in here.ear.turns if run is not answer.run] == []
        await here.agrees_with(answer)


async def test_typing_takes_the_call_back() -> None:
    async with house([PAY, [Say("Never mind.")]]) as here:
        answer = await (await here.say("pay")).until_break()
        call = await here.waiting("pay")
        after = await (await here.say("forget it")).rest()
        await answer.rest()
        assert after.text == "Never mind."
        with pytest.raises(Exception, match="went on"):
            await here.bridge.answer(ME, CHAT, call.tool_call_id, YES)
        assert here.till.paid == []
        assert part_of(answer, "pay")["state"] == "output-error"
        await here.agrees_with(answer, after)


@pytest.mark.parametrize("held", [True, False], ids=["held", "executing"])
async def test_stop_ends_a_call(held: bool) -> None:
    async with house([[Call("slow", {"amount": 9})], [Say("Next.")]]) as here:
        answer = await (await here.say("pay")).until_break()
        if not held:
            await here.answer("slow", YES)
            await here.till.begun.wait()
        await here.bridge.stop(ME, CHAT, answer.run.id)
        await answer.rest()
        assert answer.types[-1] == "finish"
        assert "abort" in answer.types
        assert part_of(answer, "slow")["state"] == "output-error"
        here.till.go.set()
        after = await (await here.say("go on")).rest()
        assert after.text == "Next."
        assert here.till.paid == []
        await here.agrees_with(answer, after)


async def test_a_lost_socket_comes_back_to_its_card() -> None:
    async with house([PAY, [Say("Done.")]]) as here:
        answer = await (await here.say("pay")).until_break()
        here.link.leave()
        back = Ear()
        link = await here.join(back)
        assert link.resumed
        assert link.run == answer.run.id
        await here.answer("pay", YES)
        await answer.rest()
        assert here.till.paid == [5]
        assert back.settlements
        assert len(here.model.live) == 1


@pytest.mark.parametrize("how", ["http", "live", "repost"])
@pytest.mark.parametrize("given", [YES, NO], ids=["approve", "deny"])
async def test_a_parked_card(how: str, given: UncheckedAnswer) -> None:
    async with house([PAY, [Say("Done.")], [Say("Bye.")]]) as here:
        answer = await (await here.say("pay")).until_break()
        await here.link.close()
        await answer.rest()
        assert answer.plain[-1]["finishReason"] == "tool-calls"
        await here.agrees_with(answer)
        call = await here.waiting("pay")
        assert call.expires_at is UNSET
        here._link = None  # pyright: ignore[reportPrivateUsage]
        if how == "live":
            await here.join()
        if how == "repost":
            run = await here.bridge.start(ME, repost(answer, given))
        else:
            await here.bridge.answer(ME, CHAT, call.tool_call_id, given)
            run = here.bridge.running(ME, CHAT)
        assert run is not None
        rest = await Reader(here.bridge, run).rest()
        assert here.till.paid == ([5] if given is YES else [])
        assert rest.text == "Done."
        assert len(here.model.live) == (2 if how == "live" else 1)
        final = (await here.messages())[-1]
        assert final["id"] == answer.run.message_id
        assert [part.get("state") for part in final["parts"] if part["type"] == "tool-pay"] == [
            "output-available" if given is YES else "output-denied"
        ]
        last = await ((await here.say("bye")) if how == "live" else (await here.type("bye"))).rest()
        assert last.text == "Bye."


def repost(answer: Reader, given: UncheckedAnswer) -> TurnInput:
    part = part_of(answer, "pay")
    said = CallAnswer(
        call=part["toolCallId"],
        tool="pay",
        approval=part["approval"]["id"],
        approved=given.approved,
        reason=given.reason or None,
        input=part["input"],
    )
    return TurnInput(
        chat=CHAT,
        message=None,
        trigger="submit-message",
        replaces=None,
        answers=CallAnswers(answer.run.message_id, (said,)),
    )


async def test_a_stock_client_sends_its_answer() -> None:
    async with house([PAY, [Say("Done.")]]) as here:
        answer = await (await here.say("pay")).until_break()
        told = await here.link.send(repost(answer, YES))
        assert told.run is answer.run
        assert told.after == len(answer.entries) - 1
        rest = await Reader(here.bridge, told.run, told.after).rest()
        assert rest.text == "Done."
        assert rest.types[0] == "tool-approval-response"
        again = await here.link.send(repost(answer, YES))
        assert again.run is not answer.run or again.run.done.is_set()
        assert here.till.paid == [5]


class Shelf(BaseToolset):
    """A toolset."""

    def __init__(self, *tools: BaseTool) -> None:
        super().__init__()
        self._tools = list(tools)

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        return self._tools


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated")
@pytest.mark.parametrize("where", ["toolset", "sub-agent", "inside"])
async def test_wherever_the_tool_is(where: str) -> None:
    till = Till()
    gated = FunctionTool(till_pay(till), require_confirmation=True)
    inner = LlmAgent(name="inner", model=ScriptedModel(turns=[PAY, [Say("Inner.")]]), tools=[gated])
    if where == "inside":
        model = ScriptedModel(turns=[[Call("inner", {"request": "pay"})], [Say("Done.")]])
        agent = LlmAgent(name="outer", model=model, tools=[AgentTool(inner)])
    elif where == "toolset":
        agent = LlmAgent(name="outer", model=ScriptedModel(turns=[PAY, [Say("Done.")]]), tools=[Shelf(gated)])
    else:
        model = ScriptedModel(turns=[[Call("transfer_to_agent", {"agent_name": "sub"})], PAY, [Say("Done.")]])
        agent = LlmAgent(name="outer", model=model, sub_agents=[LlmAgent(name="sub", model=model, tools=[gated])])
    bridge = Bridge(agent, settings=Settings(db="memory:", events_per_second=0))
    here = House(bridge, ScriptedModel(turns=[]), till)
    await here.join()
    answer = await (await here.say("pay")).until(lambda me: "tool-approval-request" in me.types)
    assert part_of(answer, "pay")["state"] == "approval-requested"
    await here.answer("pay", YES)
    await answer.rest()
    assert till.paid == [5]
    assert part_of(answer, "pay")["state"] == "output-available"
    assert answer.text == "Done."
    await here.agrees_with(answer)
    await bridge.close(drain=0)


class Forgetful(InMemorySessionService):
    """Fails once to store what came of a payment inside a tool."""

    fell = False

    async def append_event(self, session: Session, event: Event) -> Event:
        if not self.fell and event.content is None and "'paid'" in str(event.custom_metadata):
            self.fell = True
            raise OSError("away")
        return await super().append_event(session, event)


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated")
async def test_what_was_done_inside_a_tool_is_told_when_it_can_be() -> None:
    till, sessions = Till(), Forgetful()
    async with inside(till_pay(till), till, sessions) as here:
        answer = await (await here.say("pay")).until(lambda me: "tool-approval-request" in me.types)
        await here.answer("pay", YES)
        await answer.rest()
        assert sessions.fell
        assert (till.paid, answer.text) == ([5], "Done.")
        assert part_of(answer, "inner")["output"] == {"result": "Inner."}
        assert part_of(answer, "pay")["output"] == {"paid": 5}
        await here.agrees_with(answer)


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated")
async def test_nobody_knows_what_a_tool_inside_a_tool_had_done_when_it_was_stopped() -> None:
    till = Till()

    async def pay(amount: float) -> None:
        """Pay, and never come back."""
        till.paid.append(amount)
        till.begun.set()
        await till.go.wait()

    async with inside(pay, till) as here:
        answer = await (await here.say("pay")).until(lambda me: "tool-approval-request" in me.types)
        await here.answer("pay", YES)
        await till.begun.wait()
        await here.bridge.stop(ME, CHAT)
        await answer.rest()
        assert till.paid == [5]
        assert part_of(answer, "pay")["errorText"] == UNFINISHED
        assert (await here.bridge.audit(ME, CHAT))[-1].outcome == "unknown"
        await here.agrees_with(answer)


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated")
async def test_what_waits_inside_a_tool_is_over_when_the_connection_is_lost() -> None:
    till = Till()
    async with inside(till_pay(till), till) as here:
        answer = await (await here.say("pay")).until(lambda me: "tool-approval-request" in me.types)
        (await here.model.connected()).interject(Drop(1006))
        await answer.rest()
        assert answer.types[-1] == "error", "nobody could go on with it"
        assert (await here.pending(), till.paid) == ([], [])
        assert part_of(answer, "pay")["errorText"] == FAILED
        await here.agrees_with(answer)


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated")
@pytest.mark.parametrize("end", ["answered", "stopped", "lost", "closed"])
async def test_nothing_is_kept_of_the_calls_of_a_turn_that_has_ended(end: str) -> None:
    till = Till()
    async with inside(till_pay(till), till) as here:
        conversation = here.bridge.live._all[ChatKey(ME, CHAT)]  # pyright: ignore[reportPrivateUsage]
        answer = await (await here.say("pay")).until(lambda me: "tool-approval-request" in me.types)
        if end == "answered":
            await here.answer("pay", YES)
        elif end == "stopped":
            await here.bridge.stop(ME, CHAT)
        elif end == "lost":
            (await here.model.connected()).interject(Drop(1006))
        else:
            await here.link.close()
        await answer.rest()
        await answer.run.done.wait()
        assert conversation._calls._announced == {}  # pyright: ignore[reportPrivateUsage]
        assert conversation._turns.streamed == {}, "and with it the calls inside tools"  # pyright: ignore[reportPrivateUsage]


@asynccontextmanager
async def inside(pay: Any, till: Till, sessions: BaseSessionService | None = None) -> AsyncGenerator[House]:
    """A conversation with an agent whose tool is an agent that pays."""
    gated = FunctionTool(pay, require_confirmation=True)
    inner = LlmAgent(name="inner", model=ScriptedModel(turns=[PAY, [Say("Inner.")]]), tools=[gated])
    model = ScriptedModel(turns=[[Call("inner", {"request": "pay"})], [Say("Done.")]])
    agent = LlmAgent(name="outer", model=model, tools=[AgentTool(inner)])
    bridge = Bridge(agent, settings=Settings(db="memory:", events_per_second=0), session_service=sessions)
    here = House(bridge, model, till)
    await here.join()
    yield here
    await bridge.close(drain=0)


async def test_a_connection_that_is_lost_when_the_conversation_ends_parks_once() -> None:
    sessions = InMemorySessionService()
    async with house([PAY, [Say("Done.")]], sessions=sessions) as here:
        answer = await (await here.say("pay")).until_break()
        (await here.model.connected()).interject(Drop(1006))
        await here.ear.until(lambda ear: ear.notices)
        await here.link.close()
        await answer.rest()
        session = await sessions.get_session(app_name="teller", user_id=ME, session_id=CHAT)
        assert session is not None
        assert len([each for event in session.events for each in event.get_function_responses()]) == 1


class Slow:
    """A store that lets nobody begin to execute a call until it is let go; who was cancelled may still come to it."""

    def __init__(self, here: House) -> None:
        self.reached, self.late = asyncio.Event(), asyncio.Event()
        self.tried: list[asyncio.Task[bool]] = []
        self._store: Any = here.bridge._gate._store  # pyright: ignore[reportPrivateUsage]
        self._replace, self._store.replace = self._store.replace, self._wait

    async def _wait(self, row: CallRow) -> bool:
        if row.state == State.EXECUTING and not self.reached.is_set():
            self.tried.append(asyncio.create_task(self._later(row)))
            self.reached.set()
            return await asyncio.shield(self.tried[0])
        return await self._replace(row)

    async def _later(self, row: CallRow) -> bool:
        await self.late.wait()
        return await self._replace(row)


APPROVED_CALLS = [("pay", {"amount": 5}), ("careful", {"amount": 5}), ("weather", {"place": "Rome"})]


@pytest.mark.parametrize(("tool", "args"), APPROVED_CALLS, ids=["its tool", "from inside", "a policy"])
@pytest.mark.parametrize("end", ["closed", "lost"])
async def test_an_approved_call_that_has_not_begun_is_gone_on_with(
    tmp_path: Path, end: str, tool: str, args: dict[str, Any]
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rule]]\ntool = "weather"\naction = "ask"\n')
    async with house([[Call(tool, args, id="c1")], [Say("Done.")]], policy=policy) as here:
        answer, store = await (await here.say("go")).until_break(), Slow(here)
        await here.answer(tool, YES)
        await store.reached.wait()
        if end == "closed":
            await here.link.close()
        else:
            (await here.model.connected()).interject(Drop(1006))
        await answer.rest()
        assert answer.types[-3:] == ["tool-approval-response", "finish-step", "finish"]
        await gone_on(here, answer)
        store.late.set()
        assert await store.tried[0] is False
        assert (here.till.paid, answer.text) == ([] if tool == "weather" else [5], "Done.")
        assert part_of(answer, tool)["state"] == "output-available"
        assert [entry.outcome for entry in await here.bridge.audit(ME, CHAT)] == ["waiting", "waiting", "executed"]
        await here.agrees_with(answer)


async def test_an_approved_call_that_has_not_begun_waits_for_the_others() -> None:
    calls = [Call("pay", {"amount": 1}, id="c1"), Call("pay", {"amount": 2}, id="c2")]
    async with house([calls, [Say("Both.")]]) as here:
        answer, store = await (await here.say("go")).until_break(), Slow(here)
        await here.bridge.answer(ME, CHAT, "c1", YES)
        await store.reached.wait()
        await here.link.close()
        await answer.rest()
        states = [part["state"] for part in answer.message["parts"] if part["type"] == "tool-pay"]
        assert states == ["approval-responded", "approval-requested"]
        await here.agrees_with(answer)
        store.late.set()
        assert await store.tried[0] is False, "who was about to execute it comes too late"
        await here.bridge.answer(ME, CHAT, "c2", YES)
        await gone_on(here, answer)
        assert sorted(here.till.paid) == [1, 2]
        await here.agrees_with(answer)


class Writing(InMemorySessionService):
    """Takes its time to store a verdict."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def append_event(self, session: Session, event: Event) -> Event:
        if any(response.name == REQUEST_CONFIRMATION for response in event.get_function_responses()):
            self.begun.set()
            await self.go.wait()
        return await super().append_event(session, event)


async def test_an_approved_call_whose_verdict_is_just_being_stored() -> None:
    sessions = Writing()
    async with house([PAY, [Say("Done.")]], sessions=sessions) as here:
        answer = await (await here.say("pay")).until_break()
        await here.answer("pay", YES)
        await sessions.begun.wait()
        closing = asyncio.create_task(here.link.close())
        for _ in range(100):
            # Until all that waits in the conversation is cancelled.
            await asyncio.sleep(0)
        sessions.go.set()
        await closing
        await answer.rest()
        await gone_on(here, answer)
        assert (here.till.paid, answer.text) == ([5], "Done.")
        await here.agrees_with(answer)


async def gone_on(here: House, answer: Reader) -> None:
    """Read on in the run that goes on with a message."""
    chat = here.bridge._chats.get(ChatKey(ME, CHAT))  # pyright: ignore[reportPrivateUsage]
    assert chat is not None
    async with asyncio.timeout(PATIENCE):
        while chat.last in (None, answer.run):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    assert chat.last is not None
    answer.entries += (await Reader(here.bridge, chat.last).rest()).entries


def till_pay(till: Till) -> Any:
    def pay(amount: float) -> dict[str, Any]:
        """Pay."""
        till.paid.append(amount)
        return {"paid": amount}

    return pay


async def test_a_policy_and_an_agent_that_stays_as_it_is() -> None:
    till = Till()
    model, tools = ScriptedModel(turns=[[Call("weather", {"place": "Rome"})], [Say("Done.")]]), till.tools()
    agent = LlmAgent(name="outer", model=model, tools=tools)
    bridge = Bridge(agent, settings=Settings(db="memory:"), policy=Policy([Rule("weather", "ask")]))
    here = House(bridge, model, till)
    await here.join()
    answer = await (await here.say("weather")).until_break()
    await here.answer("weather", YES)
    await answer.rest()
    assert part_of(answer, "weather")["state"] == "output-available"
    await here.agrees_with(answer)
    mine: list[Any] = getattr(agent, "tools")  # noqa: B009 - its type is not known
    assert mine == tools
    assert all(getattr(tool, "behavior", None) is None for tool in mine)
    await bridge.close(drain=0)


@pytest.mark.parametrize("rule", [None, 1_000.0], ids=["as is usual", "by its rule"])
async def test_a_browser_has_its_own_time_for_an_approved_call(tmp_path: Path, rule: float | None) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rule]]\ntool = "locate"\naction = "ask"\n' + (f"timeout = {rule}\n" if rule else ""))
    times: dict[str, Any] = {"live_approval_timeout": 300, "client_tool_timeout": 120, "approval_timeout": 5_000}
    async with house([[Call("locate")], [Say("There.")]], policy=policy, **times) as here:
        answer = await (await here.say("where")).until_break()
        assert await seconds_left(here, "locate") == pytest.approx(rule or 300, abs=60)
        await here.answer("locate", YES)
        await answer.until(lambda me: part_of(me, "locate")["state"] == "input-available")
        assert await seconds_left(here, "locate") == pytest.approx(rule or 120, abs=60)
        await here.link.close()
        assert await seconds_left(here, "locate") == pytest.approx(rule or 5_000, abs=60)


async def test_all_are_told_of_a_call_that_nobody_answered_in_time() -> None:
    async with house([PAY, [Say("Too late.")]], live_approval_timeout=0.2) as here:
        answer = await (await here.say("pay")).until_break()
        await answer.rest()
        assert here.ear.notices == ["expired"]
        assert part_of(answer, "pay")["errorText"] == EXPIRED
        assert here.till.paid == []
        await here.agrees_with(answer)


async def seconds_left(here: House, tool: str) -> float:
    expiry = (await here.waiting(tool)).expires_at
    assert isinstance(expiry, str)
    return (datetime.fromisoformat(expiry) - datetime.now(UTC)).total_seconds()


async def test_a_call_that_is_approved_and_typed_over() -> None:
    async with house([[Call("locate")], [Say("Never mind.")]]) as here:
        answer = await (await here.say("where")).until_break()
        await here.answer("locate", YES)
        await answer.until(lambda me: part_of(me, "locate")["state"] == "input-available")
        after = await (await here.say("forget it")).rest()
        await answer.rest()
        assert part_of(answer, "locate")["errorText"] == WENT_ON
        assert [state for _, state in here.ear.settlements] == ["offered", "superseded"]
        await here.agrees_with(answer, after)
