"""Runs with gated calls that are stopped, or lose the gate's store, while they end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from adkwire.adk.events import STOPPED, SUPERSEDED
from adkwire.bridge import Bridge
from adkwire.errors import Unavailable
from adkwire.runs import run as runs
from adkwire.stores.base import CallRow
from adkwire.stores.memory import MemoryGateStore
from adkwire.testing import Say, ScriptedModel
from tests.support.chats import assert_legal, chat_with, scripted, tool_parts
from tests.support.fixtures import Make
from tests.support.gated_tools import Till
from tests.support.pages import Page
from tests.support.payments import PAY


class UnreliableStore(MemoryGateStore):
    """A store that does not answer, or answers too late."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.late: asyncio.Event | None = None

    async def get(self, user: str, chat: str, call: str) -> CallRow | None:
        await self._check()
        return await super().get(user, chat, call)

    async def find(self, user: str, states: Any, chat: str | None = None) -> list[CallRow]:
        await self._check()
        return await super().find(user, states, chat)

    async def _check(self) -> None:
        if self.away:
            raise Unavailable("away")
        if self.late is not None:
            await self.late.wait()


class SlowStore(MemoryGateStore):
    """A store that answers late while the run that asks is about to end."""

    def __init__(self) -> None:
        super().__init__()
        self.bridge: Bridge | None = None
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()

    async def get(self, user: str, chat: str, call: str) -> CallRow | None:
        run = self.bridge.running(user, chat) if self.bridge is not None else None
        if run is not None and run.encoder.pending_calls():
            self.asked.set()
            await self.answers.wait()
        return await super().get(user, chat, call)


@pytest.mark.parametrize("words", [SUPERSEDED, STOPPED])
async def test_a_message_or_a_stop_while_the_asking_run_ends_voids_its_call(make: Make, words: str) -> None:
    store = SlowStore()
    chat = make(ScriptedModel(turns=[[PAY], [Say("ok")]]), Till().pay, db="memory:", gate_store=store)
    store.bridge = chat.bridge
    first = await chat.begin("pay")
    await store.asked.wait()
    coming = asyncio.ensure_future(chat.stop() if words == STOPPED else chat.say("forget it"))
    await first._abort.wait()
    store.answers.set()
    await coming
    await chat.read(first)
    [call] = tool_parts((await chat.messages())[1])
    assert call["errorText"] == words


class NotifyingStore(MemoryGateStore):
    """A store with an event that is set when a call has its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = asyncio.Event()

    async def replace(self, row: CallRow) -> bool:
        done = await super().replace(row)
        if row.state == "answered":
            self.answered.set()
        return done


async def test_a_stop_ends_a_continuation_that_is_just_beginning(tmp_path: Path) -> None:
    till, store = Till(), NotifyingStore()
    till.pause(5)
    model = ScriptedModel(turns=[[PAY], [Say("Done.")]])
    # No threads: the stop comes at the same place every time.
    chat = chat_with(scripted(model, till.pay), tmp_path, db="memory:", gate_store=store)
    page = Page(chat)
    await page.say("pay")

    async def stop() -> bool:
        await store.answered.wait()
        return await chat.stop()

    _, stopped = await asyncio.gather(page.answer("c1", approved=True), stop())
    assert stopped
    assert chat.bridge.running(chat.user, chat.id) is None
    till.paused[5].set()
    assert till.paid == []
    await chat.bridge.close()


async def test_a_run_ends_though_the_gate_store_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "STOP_PATIENCE", 0.05)
    till, store = Till(), UnreliableStore()
    till.pause(5)
    model = ScriptedModel(turns=[[PAY], [Say("Done.")]])
    chat = chat_with(scripted(model, till.plain), tmp_path, db="memory:", gate_store=store)
    run = await Page(chat).begin("pay")
    await till.until_begun(5)
    store.late = asyncio.Event()
    stopping = asyncio.create_task(chat.bridge.stop(chat.user, chat.id))
    await run.done.wait()
    store.late.set()
    await stopping
    assert (await chat.read(run)).types[-1] in ("finish", "error")
    await chat.bridge.close()


async def test_a_call_that_ends_while_the_gate_store_is_away_has_an_unknown_outcome(tmp_path: Path) -> None:
    till, store = Till(), UnreliableStore()
    till.pause(5)
    model = ScriptedModel(turns=[[PAY], [Say("Next.")]])
    chat = chat_with(scripted(model, till.pay), tmp_path, db="memory:", gate_store=store)
    page = Page(chat)
    await page.say("pay")
    page.approve("c1")
    await page.post()
    await till.until_begun(5)
    store.away = True
    with pytest.raises(Unavailable):
        await chat.stop()
    store.away = False
    assert (await chat.say("go on", "u9")).text == "Next."
    assert_legal(model.requests[-1])
    responses = [
        part.function_response
        for content in model.requests[-1]
        for part in content.parts or ()
        if part.function_response
    ]
    assert [answer.response for answer in responses] == [{"error": "This call did not finish; its outcome is unknown."}]
    assert (await chat.bridge.audit(chat.user, chat.id))[-1].outcome == "unknown"
    await chat.bridge.close()
