"""How runs with gated calls end when the end itself is disturbed."""

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


class Trouble(MemoryGateStore):
    """A store that does not answer, or answers too late."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.late: asyncio.Event | None = None

    async def get(self, user: str, chat: str, call: str) -> CallRow | None:
        await self._trouble()
        return await super().get(user, chat, call)

    async def find(self, user: str, states: Any, chat: str | None = None) -> list[CallRow]:
        await self._trouble()
        return await super().find(user, states, chat)

    async def _trouble(self) -> None:
        if self.away:
            raise Unavailable("away")
        if self.late is not None:
            await self.late.wait()


class Waiting(MemoryGateStore):
    """A store that is slow when the run is about to end with a call that waits."""

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
async def test_what_comes_while_a_run_ends_with_a_question(make: Make, words: str) -> None:
    store = Waiting()
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


class Answered(MemoryGateStore):
    """A store that tells when a call has its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = asyncio.Event()

    async def replace(self, row: CallRow) -> bool:
        done = await super().replace(row)
        if row.state == "answered":
            self.answered.set()
        return done


async def test_stop_meets_a_continuation_that_is_just_beginning(tmp_path: Path) -> None:
    till, store = Till(), Answered()
    till.pause(5)
    model = ScriptedModel(turns=[[PAY], [Say("Done.")]])
    # No threads: the stop comes where it is meant to, every time.
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


async def test_a_run_ends_though_the_gate_answers_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "STOP_PATIENCE", 0.05)
    till, store = Till(), Trouble()
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


async def test_with_the_gate_away_at_the_end_the_model_is_told_no_lie(tmp_path: Path) -> None:
    till, store = Till(), Trouble()
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
    told = [
        part.function_response
        for content in model.requests[-1]
        for part in content.parts or ()
        if part.function_response
    ]
    assert [answer.response for answer in told] == [{"error": "This call did not finish; its outcome is unknown."}]
    assert (await chat.bridge.audit(chat.user, chat.id))[-1].outcome == "unknown"
    await chat.bridge.close()
