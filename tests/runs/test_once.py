"""ADK executes a call whenever it is handed a yes, as often as that happens: only the record says that it may."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from adkwire.gate.gate import ToolGate
from adkwire.gate.policy import Policy
from adkwire.gate.records import Given, PendingCall
from adkwire.runs.adk import Adk, Services
from adkwire.runs.history import mark_of
from adkwire.runs.sessions import ChatKey
from adkwire.stores.memory import MemoryGateStore
from adkwire.testing import Call, Say, ScriptedModel
from adkwire.wire.decoder import UserMessage
from tests.runs.chats import scripted, settings
from tests.runs.gated import Till, responses

KEY = ChatKey("ann", "chat")
MARK = mark_of("m1", "u1")
BEGUN = "This call was begun before and is not executed again; what came of it is unknown here."
NOT_RELEASED = "This call was answered before or is no longer allowed; it was not executed."


class Asked:
    """An agent that has asked whether to pay, with nothing between the test and ADK."""

    def __init__(self, folder: Path) -> None:
        self.till = Till()
        self.model = ScriptedModel(
            script=lambda request: [Say("Done.")] if len(request.contents) > 1 else [Call("pay", {"amount": 5}, "c1")]
        )
        self.gate = ToolGate(MemoryGateStore(), Policy(), clock=time.time)
        self.adk = Adk(scripted(self.model, self.till.pay), settings(folder, db="memory:"), Services(), self.gate)

    async def ask(self) -> None:
        await self.adk.create(KEY, title="", created=0.0)
        async for _ in self.adk.turn(KEY, UserMessage("u1", ("pay",)), MARK, asyncio.Event()):
            pass

    async def approve(self) -> PendingCall:
        return await self.gate.settle(*KEY, "c1", Given(approved=True))

    async def resume(self, call: PendingCall) -> None:
        """Hand ADK the answer, whatever has become of it."""
        async for _ in self.adk.go_on(KEY, [call], (), MARK, asyncio.Event()):
            pass


@asynccontextmanager
async def asked_to_pay(folder: Path) -> AsyncIterator[Asked]:
    asked = Asked(folder)
    await asked.ask()
    yield asked
    await asked.adk.close()


async def test_a_yes_that_reaches_adk_twice_is_executed_once(tmp_path: Path) -> None:
    async with asked_to_pay(tmp_path) as asked:
        call = await asked.approve()
        await asked.resume(call)
        assert responses(asked.model.requests[-1]) == {"c1": {"paid": 5}}
        await asked.resume(call)
        assert responses(asked.model.requests[-1]) == {"c1": {"error": BEGUN}}
        assert asked.till.paid == [5]


async def test_a_yes_that_was_taken_back_before_it_reached_adk_is_not_executed(tmp_path: Path) -> None:
    async with asked_to_pay(tmp_path) as asked:
        call = await asked.approve()
        await asked.gate.void(*KEY, "superseded")
        await asked.resume(call)
        assert responses(asked.model.requests[-1]) == {"c1": {"error": NOT_RELEASED}}
        assert asked.till.paid == []


async def test_a_yes_that_nobody_gave_is_not_executed(tmp_path: Path) -> None:
    async with asked_to_pay(tmp_path) as asked:
        call = await asked.approve()
        await asked.gate.reopen(call)
        await asked.resume(call)
        assert responses(asked.model.requests[-1]) == {"c1": {"error": NOT_RELEASED}}
        assert asked.till.paid == []
