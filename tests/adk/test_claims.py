"""A call is executed only if its record can be claimed, however often ADK gets its approval."""

import asyncio
import time
from pathlib import Path

import pytest
from google.adk.sessions import InMemorySessionService

from adkwire.adk.runner import AgentRunner, Services
from adkwire.adk.stamps import turn_stamp
from adkwire.gate.gate import ToolGate
from adkwire.gate.policy import Policy
from adkwire.gate.records import CallRecord, UncheckedAnswer
from adkwire.stores.base import ChatKey
from adkwire.stores.memory import MemoryGateStore
from adkwire.testing import Call, Say, ScriptedModel
from adkwire.wire.decode.decoder import UserMessage
from tests.support.chats import scripted, settings
from tests.support.gated_tools import Till, tool_responses

KEY = ChatKey("ann", "chat")
STAMP = turn_stamp("m1", "u1")
BEGUN = "This call was begun before and is not executed again; what came of it is unknown here."
NOT_RELEASED = "This call was answered before or is no longer allowed; it was not executed."


class AskedPayment:
    """A session with a payment that was asked about, and any number of workers that continue it."""

    def __init__(self, folder: Path) -> None:
        self.till = Till()
        self.model = ScriptedModel(
            script=lambda request: [Say("Done.")] if len(request.contents) > 1 else [Call("pay", {"amount": 5}, "c1")]
        )
        self.gate = ToolGate(MemoryGateStore(), Policy(), clock=time.time)
        self._settings = settings(folder, db="memory:")
        self._sessions = InMemorySessionService()

    def worker(self) -> AgentRunner:
        return AgentRunner(scripted(self.model, self.till.pay), self._settings, Services(self._sessions), self.gate)

    async def ask(self) -> None:
        adk = self.worker()
        await adk.create(KEY, title="", created=0.0)
        async for _ in adk.turn(KEY, UserMessage("u1", ("pay",)), STAMP, asyncio.Event()):
            pass

    async def approve(self) -> CallRecord:
        return await self.gate.settle(*KEY, "c1", UncheckedAnswer(approved=True))

    async def resume(self, call: CallRecord) -> object:
        """Give ADK the answer, whatever the state of the call; return the response that the model gets."""
        async for _ in self.worker().go_on(KEY, [call], (), STAMP, asyncio.Event()):
            pass
        return tool_responses(self.model.requests[-1])["c1"]


@pytest.fixture
async def payment(tmp_path: Path) -> AskedPayment:
    payment = AskedPayment(tmp_path)
    await payment.ask()
    return payment


async def test_an_approval_that_reaches_adk_twice_is_executed_once(payment: AskedPayment) -> None:
    go_on = payment.till.pause(5)
    call = await payment.approve()
    async with asyncio.TaskGroup() as running:
        first = running.create_task(payment.resume(call))
        await payment.till.until_begun(5)
        payment.till.paused.clear()
        assert await payment.resume(call) == {"error": BEGUN}
        go_on.set()
    assert first.result() == {"paid": 5}
    assert payment.till.paid == [5]


async def test_an_approved_call_that_was_superseded_is_not_executed(payment: AskedPayment) -> None:
    call = await payment.approve()
    await payment.gate.void(*KEY, "superseded")
    assert await payment.resume(call) == {"error": NOT_RELEASED}
    assert payment.till.paid == []


async def test_an_approved_call_that_is_asked_about_again_is_not_executed(payment: AskedPayment) -> None:
    call = await payment.approve()
    await payment.gate.reopen(call)
    assert await payment.resume(call) == {"error": NOT_RELEASED}
    assert payment.till.paid == []
