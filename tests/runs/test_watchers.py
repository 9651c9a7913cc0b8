"""Watchers of a bridge go on after a bug in a store or a listener, and readiness fails while one does not run."""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

import pytest

from adkwire import tasks
from adkwire.errors import Unavailable
from adkwire.gate.records import CallRecord, UncheckedAnswer
from adkwire.runs.chat_events import CallListeners
from adkwire.stores.base import CallRow, RunHead
from adkwire.stores.memory import MemoryGateStore, MemorySignals, MemoryStreamLog, SharedSignals
from adkwire.testing import Call, Say, ScriptedModel, Wait
from tests.gate.records import asked
from tests.live.live_chat import RecordingListener, live_chat
from tests.patience import PATIENCE
from tests.support.fixtures import Make
from tests.support.gated_tools import Till
from tests.support.pages import Page

BUG = "a bug in a store"


class FailingLog(MemoryStreamLog):
    """A stream log with a run that a dead worker left. Listing the open runs of all users fails at first."""

    def __init__(self, failures: int) -> None:
        super().__init__(ttl=60)
        self._failures = failures
        self.failed = asyncio.Event()

    async def unclosed(self, user: str | None = None, chat: str | None = None) -> list[RunHead]:
        if user is None and self._failures:
            self._failures -= 1
            self.failed.set()
            raise ZeroDivisionError(BUG)
        return await super().unclosed(user, chat)


class FailingSignals(MemorySignals):
    """Signals whose first `failures` listeners fail."""

    def __init__(self, board: SharedSignals, failures: int) -> None:
        super().__init__(board)
        self._failures = failures
        self.listening = asyncio.Event()
        """Set when a listener listens."""

    async def listen(self, topic: str) -> AsyncGenerator[bytes, None]:
        if self._failures:
            self._failures -= 1
            raise ZeroDivisionError(BUG)
        self.listening.set()
        async with aclosing(super().listen(topic)) as messages:
            async for message in messages:
                yield message


class FailingGateStore(MemoryGateStore):
    """A gate store whose `find` fails `failures` times."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0

    async def find(self, user: str, states: Collection[str], chat: str | None = None) -> list[CallRow]:
        if self.failures:
            self.failures -= 1
            raise ZeroDivisionError(BUG)
        return await super().find(user, states, chat)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed watchers start again at once."""
    monkeypatch.setattr(tasks, "_SHORTEST_PAUSE", 0)


def greeting_model() -> ScriptedModel:
    return ScriptedModel(script=lambda _: [Say("Hi.")])


async def until_closed(log: MemoryStreamLog, run: str) -> None:
    async with asyncio.timeout(PATIENCE):
        after = -1
        while not (batch := await log.read(run, after, PATIENCE)) or not batch.closed:
            assert batch is not None
            after += len(batch.entries)


async def test_crashed_runs_are_closed_after_a_failure(
    make: Make, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    log = FailingLog(failures=2)
    await log.open(RunHead("run-dead", "ann", "chat", "msg-1", "u1"))
    chat = make(greeting_model(), db="memory:", stream_log=log)
    chat.bridge.watch()
    await until_closed(log, "run-dead")
    failures = [record for record in caplog.records if record.exc_info and BUG in str(record.exc_info[1])]
    assert [record.getMessage() for record in failures] == ["watcher crashed-runs failed; it starts again soon"] * 2


async def test_readiness_names_a_watcher_that_does_not_run(make: Make) -> None:
    log = FailingLog(failures=1)
    chat = make(greeting_model(), db="memory:", stream_log=log)
    assert await chat.bridge.ready(), "a bridge that does not watch has no watchers"
    chat.bridge.watch()
    await log.failed.wait()
    with pytest.raises(Unavailable, match="crashed-runs"):
        await chat.bridge.ready()


async def test_stops_of_other_workers_are_handled_after_a_failure(make: Make, impatient: None) -> None:
    board, log, gate = SharedSignals(), MemoryStreamLog(ttl=60), MemoryGateStore()
    signals, others = FailingSignals(board, failures=4), MemorySignals(board)
    here = make(
        ScriptedModel(turns=[[Say("one "), Wait(asyncio.Event())]]), stream_log=log, gate_store=gate, signals=signals
    )
    there = make(greeting_model(), stream_log=log, gate_store=gate, signals=others)
    here.bridge.watch()
    async with asyncio.timeout(PATIENCE):
        await signals.listening.wait()
    run = await here.begin("a")
    await here.reader(run).until("text-delta")
    assert await there.stop()
    assert not run.active


async def test_a_message_that_cannot_be_handled_does_not_block_the_next(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    board, log, gate = SharedSignals(), MemoryStreamLog(ttl=60), MemoryGateStore()
    signals, others = FailingSignals(board, failures=0), MemorySignals(board)
    here = make(
        ScriptedModel(turns=[[Say("one "), Wait(asyncio.Event())]]), stream_log=log, gate_store=gate, signals=signals
    )
    there = make(greeting_model(), stream_log=log, gate_store=gate, signals=others)
    here.bridge.watch()
    await signals.listening.wait()
    run = await here.begin("a")
    await here.reader(run).until("text-delta")
    await others.send("stop", b"no JSON")
    assert await there.stop()
    assert not run.active
    assert await here.bridge.ready()
    assert "a message of another worker on topic stop was not handled" in caplog.messages


async def test_a_continuation_is_tried_again_after_a_failure(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adkwire.runs.continuation._RETRY", 0.01)
    now, till, store = [1000.0], Till(), FailingGateStore()
    model = ScriptedModel(turns=[[Call("pay", {"amount": 5}, "c1")], [Say("Too late.")]])
    chat = make(model, till.pay, db="memory:", gate_store=store, approval_timeout=60, clock=lambda: now[0])
    page = Page(chat)
    await page.say("pay")
    async with page.chat_events() as events:
        store.failures, now[0] = 2, now[0] + 61
        chat.bridge.watch()
        started = await events.until("run-started")
    answer = await page.follow(await chat.find(str(started.run)))
    assert (answer.text, till.paid, store.failures) == ("Too late.", [], 0)


def test_a_listener_that_fails_does_not_keep_a_call_from_the_next(caplog: pytest.LogCaptureFixture) -> None:
    def fail(call: CallRecord) -> None:
        raise ZeroDivisionError(BUG)

    received: list[CallRecord] = []
    listeners = CallListeners()
    listeners.add(fail, received.append)
    listeners(call := asked())
    assert received == [call]
    assert caplog.messages == ["a listener failed for call c1 in chat chat"]


class FailingListener(RecordingListener):
    """A client of a live conversation that raises when a call is answered."""

    def settled(self, call: str, state: str, ask: str | None) -> None:
        raise ZeroDivisionError(BUG)


async def test_a_live_client_that_fails_does_not_keep_an_answer_from_its_call() -> None:
    async with live_chat([[Call("pay", {"amount": 5})], [Say("Done.")]]) as chat:
        answer = await (await chat.send("pay 5")).until_break()
        await chat.join(FailingListener())
        await chat.answer("pay", UncheckedAnswer(approved=True))
        await answer.rest()
        assert (chat.tools.paid, answer.text) == ([5], "Done.")
