"""The gate's store is away: nothing is executed that needs a record, and model and page get an error."""

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, cast

import pytest
from google.adk.agents import LlmAgent
from google.adk.events.event import Event
from google.adk.sessions import InMemorySessionService, Session

from adkwire.bridge import Bridge
from adkwire.errors import Unavailable
from adkwire.gate.records import UncheckedAnswer
from adkwire.settings import Settings
from adkwire.stores.base import CallRow, GateStore
from adkwire.stores.memory import MemoryGateStore
from adkwire.stores.stores import Stores
from adkwire.testing import Call, Say, ScriptedModel
from tests.live.live_chat import CHAT, ME, LiveChat, LiveTools
from tests.support.fixtures import Make
from tests.support.gated_tools import Till, assert_history_matches, clock, tool_responses, where
from tests.support.pages import Page, refused
from tests.support.payments import PAY, Payments, model_calling

YES = UncheckedAnswer(approved=True)
NO_STORE = "The server's store of calls does not answer; the call was not executed."


class Away(MemoryGateStore):
    """A store of which some operations fail while it is `away`."""

    def __init__(self, *operations: str) -> None:
        super().__init__()
        self.away = frozenset(operations)

    def _check(self, operation: str) -> None:
        if operation in self.away:
            raise Unavailable("The gate's store does not answer.")

    async def add(self, row: CallRow) -> bool:
        self._check("add")
        return await super().add(row)

    async def get(self, user: str, chat: str, call: str) -> CallRow | None:
        self._check("get")
        return await super().get(user, chat, call)

    async def replace(self, row: CallRow) -> bool:
        self._check("replace")
        return await super().replace(row)

    async def calls(self, user: str, chat: str) -> list[CallRow]:
        self._check("calls")
        return await super().calls(user, chat)

    async def find(self, user: str, states: Collection[str], chat: str | None = None) -> list[CallRow]:
        self._check("find")
        return await super().find(user, states, chat)

    async def granted(self, user: str, chat: str, what: Collection[str]) -> bool:
        self._check("granted")
        return await super().granted(user, chat, what)

    async def add_audit_line(self, user: str, chat: str, line: bytes) -> None:
        self._check("write")
        await super().add_audit_line(user, chat, line)


class AwayOnClaim(Away):
    """A store that fails when an approved call is about to begin."""

    async def replace(self, row: CallRow) -> bool:
        if row.state == "executing":
            self._check("claim")
        return await super().replace(row)


class AwayOnDone(Away):
    """A store that fails when a call has ended."""

    async def replace(self, row: CallRow) -> bool:
        if row.state == "done":
            self._check("done")
        return await super().replace(row)


class FailingOnceStore(MemoryGateStore):
    """A store that fails once: at the first `operation` after a call has reached `state`."""

    def __init__(self, operation: str, state: str) -> None:
        super().__init__()
        self._operation = operation
        self._state = state
        self._armed = self.failed = False

    def _step(self, operation: str) -> None:
        if self._armed and not self.failed and operation == self._operation:
            self.failed = True
            raise Unavailable("The gate's store does not answer.")

    async def add(self, row: CallRow) -> bool:
        done = await super().add(row)
        self._armed = self._armed or row.state == self._state
        return done

    async def replace(self, row: CallRow) -> bool:
        if row.state == self._state and self._operation == "replace":
            self._armed = True
            self._step("replace")
        done = await super().replace(row)
        self._armed = self._armed or row.state == self._state
        return done

    async def get(self, user: str, chat: str, call: str) -> CallRow | None:
        self._step("get")
        return await super().get(user, chat, call)

    async def find(self, user: str, states: Collection[str], chat: str | None = None) -> list[CallRow]:
        if "answered" in states:
            self._step("find")
        return await super().find(user, states, chat)


async def test_a_call_is_refused_when_grants_cannot_be_read(make: Make) -> None:
    till, model = Till(), model_calling(PAY)
    page = Page(make(model, till.pay, gate_store=Away("granted")))
    assert (await page.say("pay")).text == "Done."
    assert (page.part("c1")["state"], page.part("c1")["errorText"]) == ("output-error", NO_STORE)
    assert till.paid == []
    assert tool_responses(model.requests[-1]) == {"c1": {"error": NO_STORE}}
    await assert_history_matches(page, model)


async def test_a_gated_call_without_a_record_is_refused(make: Make) -> None:
    """Nobody could answer it."""
    till, model = Till(), model_calling(PAY)
    store = Away("add")
    page = Page(make(model, till.pay, gate_store=store))
    await page.say("pay")
    store.away = frozenset()
    assert page.calls == {"c1": "output-error"}
    assert "not executed" in page.part("c1")["errorText"]
    assert await page.pending() == []
    await assert_history_matches(page, model)
    status, _ = await refused(page.answer("c1", approved=True))
    assert status == 404
    await page.say("and?")
    assert "not executed" in tool_responses(model.requests[-1])["c1"]["error"]
    assert till.paid == []
    await assert_history_matches(page, model)


async def test_a_call_can_be_answered_though_its_audit_entry_is_missing(make: Make) -> None:
    till, model = Till(), model_calling(PAY)
    store = Away("write")
    page = Page(make(model, till.pay, gate_store=store))
    await page.say("pay")
    assert (page.calls, till.paid) == ({"c1": "approval-requested"}, [])
    await assert_history_matches(page, model)
    store.away = frozenset()
    await page.approve("c1").send()
    assert till.paid == [5]
    await assert_history_matches(page, model)


async def test_a_browser_call_without_a_record_is_refused(make: Make) -> None:
    model = model_calling(Call("clock", {"zone": "UTC"}, "t1"))
    store = Away("add")
    page = Page(make(model, clock, gate_store=store))
    answer = await page.say("time?")
    assert page.calls == {"t1": "output-error"}
    assert "tool-input-available" not in answer.types
    assert tool_responses(model.requests[-1]) == {"t1": {"error": NO_STORE}}
    await assert_history_matches(page, model)


async def test_a_tool_without_approval_runs(make: Make) -> None:
    till, model = Till(), model_calling(PAY)
    page = Page(make(model, till.plain, gate_store=Away("add", "granted", "write", "get", "replace")))
    assert (await page.say("pay")).text == "Done."
    assert till.paid == [5]
    assert page.calls == {"c1": "output-available"}


@pytest.mark.parametrize("operation", ["get", "replace"])
async def test_an_answer_that_cannot_be_stored_is_refused_and_the_call_stays_pending(
    make: Make, operation: str
) -> None:
    till, model = Till(), model_calling(PAY)
    store = Away()
    page = Page(make(model, till.pay, gate_store=store))
    await page.say("pay")
    store.away = frozenset({operation})
    status, _ = await refused(page.answer("c1", approved=True))
    assert status == 503
    with suppress(Unavailable):
        assert (await page.another_tab().approve("c1").send()).types == ["start", "error"]
    assert (till.paid, len(model.requests)) == ([], 1)
    store.away = frozenset()
    await page.approve("c1").send()
    assert till.paid == [5]
    await assert_history_matches(page, model)


async def test_a_call_that_cannot_be_claimed_is_not_executed(make: Make) -> None:
    till, model = Till(), model_calling(PAY)
    store = AwayOnClaim("claim")
    page = Page(make(model, till.pay, gate_store=store))
    await page.say("pay")
    tab = page.approve("c1").another_tab()
    await page.send()
    assert till.paid == []
    assert page.calls == {"c1": "output-error"}
    assert "not executed" in page.part("c1")["errorText"]
    await assert_history_matches(page, model)
    # Model and page have read that it was not executed: that must stay true.
    store.away = frozenset()
    await tab.send()
    await page.answer("c1", approved=True)
    assert await page.stored() == page.last
    await page.say("and?")
    assert till.paid == []
    assert "not executed" in tool_responses(model.requests[-1])["c1"]["error"]
    assert (await page.audit())[-1] == ("ann", "c1", "approved", "not executed")
    await assert_history_matches(page, model)


async def test_a_retried_call_that_cannot_be_claimed_stays_unknown(make: Make) -> None:
    payments = Payments()
    page = await payments.cut_off(make, model_calling(PAY))
    await page.reload()
    store = page.bridge._gate._store
    page.bridge._gate._store = cast("GateStore", NoClaim(store))
    async with page.chat_events() as events:
        await page.answer("c1", approved=True)
        await events.until("run-ended")
    assert payments.ran == ["c1"]
    assert (await page.audit())[-1][2:] == ("approved", "unknown")


class NoClaim:
    """A store in which no call can begin."""

    def __init__(self, store: GateStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def replace(self, row: CallRow) -> bool:
        if row.state == "executing":
            raise Unavailable("The gate's store does not answer.")
        return await self._store.replace(row)


async def test_a_denial_reaches_the_model_though_its_record_cannot_be_closed_at_once(make: Make) -> None:
    till, model = Till(), model_calling(PAY)
    page = Page(make(model, till.pay, gate_store=FailingOnceStore("replace", "done")))
    await page.say("pay")
    await page.deny("c1", reason="too much").send()
    assert tool_responses(model.requests[-1])["c1"]["reason"] == "too much"
    assert (await page.audit())[-1] == ("ann", "c1", "denied", "not executed")
    await assert_history_matches(page, model)


async def test_a_result_reaches_the_model_though_its_record_cannot_be_closed(make: Make) -> None:
    till, model = Till(), model_calling(PAY)
    store = AwayOnDone("done")
    page = Page(make(model, till.pay, gate_store=store))
    await page.say("pay")
    tab = page.approve("c1").another_tab()
    assert (await page.send()).text == "Done."
    assert page.calls == {"c1": "output-available"}
    await assert_history_matches(page, model)
    store.away = frozenset()
    await tab.send()
    assert till.paid == [5]
    await page.say("and?")
    assert tool_responses(model.requests[-1]) == {"c1": {"paid": 5}}
    assert till.paid == [5]
    await assert_history_matches(page, model)


async def test_an_output_reaches_the_model_once_though_its_record_cannot_be_closed(make: Make) -> None:
    model = model_calling(Call("where", {"exact": True}, "w1"))
    store = AwayOnDone("done")
    page = Page(make(model, where, gate_store=store))
    await page.say("where?")
    await page.approve("w1").send()
    page.give("w1", {"city": "Paris"})
    answer = await page.send()
    assert answer.types[-1] in ("finish", "error")
    store.away = frozenset()
    await page.reload()
    assert page.calls == {"w1": "output-available"}
    await page.say("and?")
    assert tool_responses(model.requests[-1]) == {"w1": {"city": "Paris"}}
    await assert_history_matches(page, model)


@pytest.mark.parametrize("operation", ["find", "calls"])
async def test_a_message_that_meets_a_pending_call_executes_nothing(make: Make, operation: str) -> None:
    till, model = Till(), model_calling(PAY)
    store = Away()
    page = Page(make(model, till.pay, gate_store=store))
    await page.say("pay")
    store.away = frozenset({operation, "replace"})
    with suppress(Unavailable):
        assert (await page.chat.say("forget it", "u9")).types[-1] in ("finish", "error")
    store.away = frozenset()
    assert till.paid == []
    await page.chat.say("and?", "u10")
    assert set(tool_responses(model.requests[-1])) == {"c1"}
    assert till.paid == []


# Held calls of a live conversation.


class FailingOnceSessions(InMemorySessionService):
    """Sessions that fail once to store an approval request or its verdict, by the author of the event."""

    def __init__(self, author: str) -> None:
        super().__init__()
        self._author = author
        self.failed = False

    async def append_event(self, session: Session, event: Event) -> Event:
        about = [part.name for part in (*event.get_function_calls(), *event.get_function_responses())]
        if not self.failed and event.author == self._author and "adk_request_confirmation" in about:
            self.failed = True
            raise OSError("away")
        return await super().append_event(session, event)


@asynccontextmanager
async def live_conversation(
    call: Call, store: GateStore, sessions: InMemorySessionService | None = None
) -> AsyncGenerator[LiveChat]:
    """A live conversation in which the model makes a call."""
    model, tools = ScriptedModel(turns=[[call], [Say("Done.")]]), LiveTools()
    agent = LlmAgent(name="teller", model=model, tools=tools.all())
    settings = Settings(db="memory:", events_per_second=0)
    bridge = Bridge(
        agent,
        settings=settings,
        stores=replace(Stores.open(settings), gate=store or MemoryGateStore()),
        session_service=sessions,
    )
    chat = LiveChat(bridge, model, tools)
    await chat.join()
    yield chat
    await bridge.close(drain=0)


async def outcomes(chat: LiveChat) -> list[tuple[str, str]]:
    return [(line.verdict, line.outcome) for line in await chat.bridge.audit(ME, CHAT)]


async def test_a_held_call_that_cannot_be_claimed_is_not_executed() -> None:
    async with live_conversation(PAY, AwayOnClaim("claim")) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.answer("pay", YES)
        await answer.rest()
        assert chat.tools.paid == []
        assert (await outcomes(chat))[-1] == ("approved", "not executed")
        assert chat.listener.settlements[-1] == ("c1", "not executed")
        await chat.assert_history_matches(answer)


@pytest.mark.parametrize(("operation", "state"), [("get", "asked"), ("get", "answered"), ("find", "asked")])
async def test_a_held_call_is_executed_after_one_failure_of_the_store(operation: str, state: str) -> None:
    store = FailingOnceStore(operation, state)
    async with live_conversation(PAY, store) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.answer("pay", YES)
        await answer.rest()
        assert store.failed
        assert (chat.tools.paid, answer.text) == ([5], "Done.")
        assert (await outcomes(chat))[-1] == ("approved", "executed")
        await chat.assert_history_matches(answer)


@pytest.mark.parametrize("store", [MemoryGateStore(), FailingOnceStore("get", "asked")], ids=["there", "away"])
async def test_a_held_call_whose_approval_request_cannot_be_stored_is_not_pending(store: MemoryGateStore) -> None:
    sessions = FailingOnceSessions("teller")
    async with live_conversation(PAY, store, sessions) as chat:
        answer = await (await chat.send("pay")).rest()
        assert sessions.failed
        assert await chat.pending() == []
        assert (await outcomes(chat))[-1] == ("interrupted", "interrupted")
        assert chat.tools.paid == []
        await chat.assert_history_matches(answer)


async def test_a_held_call_whose_verdict_cannot_be_stored_is_not_executed() -> None:
    sessions = FailingOnceSessions("user")
    async with live_conversation(PAY, MemoryGateStore(), sessions) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.answer("pay", YES)
        await answer.rest()
        assert sessions.failed
        assert (await outcomes(chat))[-1] == ("approved", "interrupted")
        assert chat.tools.paid == []
        await chat.assert_history_matches(answer)


@pytest.mark.parametrize("tool", ["clock", "locate"])
@pytest.mark.parametrize("away", ["gate", "sessions"])
async def test_an_output_for_a_held_call_is_kept_after_one_failure_of_a_store(tool: str, away: str) -> None:
    store = FailingOnceStore("replace", "done") if away == "gate" else MemoryGateStore()
    sessions = FailingOnceSessions("user") if away == "sessions" else InMemorySessionService()
    async with live_conversation(Call(tool, {}, "b1"), store, sessions) as chat:
        answer = await (await chat.send("go")).until_break()
        await chat.answer(tool, UncheckedAnswer(output={"it": "is so"}))
        await answer.rest()
        part = next(part for part in answer.message["parts"] if part["type"] == f"tool-{tool}")
        assert (part["state"], part["output"]) == ("output-available", {"it": "is so"})
        assert (await outcomes(chat))[-1] == ("answered", "answered")
        await chat.assert_history_matches(answer)
