"""ADK executes a call whenever it is handed a yes: only the record says that it may."""

import asyncio
import time
from pathlib import Path

import pytest
from google.adk.sessions import InMemorySessionService

from adkwire.adk.runner import AgentRunner, Services
from adkwire.adk.stamps import turn_stamp
from adkwire.gate.gate import ToolGate
from adkwire.gate.policy import Policy
from adkwire.gate.records import PendingCall, UncheckedAnswer
from adkwire.stores.base import ChatKey
from adkwire.stores.memory import MemoryGateStore
from adkwire.testing import Call, Say, ScriptedModel
from adkwire.wire.decode.decoder import UserMessage
from tests.support.chats import scripted, settings
from tests.support.gated_tools import Till, tool_responses

KEY = ChatKey("ann", "chat")
MARK = turn_stamp("m1", "u1")
BEGUN = "This call was begun before and is not executed again; what came of it is unknown here."
NOT_RELEASED = "This call was answered before or is no longer allowed; it was not executed."


class Shop:
    """A session in which it was asked whether to pay; any number of workers may go on with it."""

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
        async for _ in adk.turn(KEY, UserMessage("u1", ("pay",)), MARK, asyncio.Event()):
            pass

    async def approve(self) -> PendingCall:
        return await self.gate.settle(*KEY, "c1", UncheckedAnswer(approved=True))

    async def resume(self, call: PendingCall) -> object:
        """Hand the answer to ADK, whatever has become of the call; what the agent is told of it."""
        async for _ in self.worker().go_on(KEY, [call], (), MARK, asyncio.Event()):
            pass
        return tool_responses(self.model.requests[-1])["c1"]


@pytest.fixture
async def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    await shop.ask()
    return shop


async def test_a_yes_that_reaches_adk_twice_is_executed_once(shop: Shop) -> None:
    go_on = shop.till.pause(5)
    call = await shop.approve()
    async with asyncio.TaskGroup() as running:
        first = running.create_task(shop.resume(call))
        await shop.till.until_begun(5)
        shop.till.paused.clear()
        assert await shop.resume(call) == {"error": BEGUN}
        go_on.set()
    assert first.result() == {"paid": 5}
    assert shop.till.paid == [5]


async def test_a_yes_that_was_taken_back_on_the_way_is_not_executed(shop: Shop) -> None:
    call = await shop.approve()
    await shop.gate.void(*KEY, "superseded")
    assert await shop.resume(call) == {"error": NOT_RELEASED}
    assert shop.till.paid == []


async def test_a_yes_that_is_asked_for_again_is_not_executed(shop: Shop) -> None:
    call = await shop.approve()
    await shop.gate.reopen(call)
    assert await shop.resume(call) == {"error": NOT_RELEASED}
    assert shop.till.paid == []
