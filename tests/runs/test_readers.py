"""Readers of a run: each at its own pace, and independent of the run."""

import asyncio

import pytest

from adkwire.errors import NotRecovered
from adkwire.runs import chats
from adkwire.runs.readers import Position
from adkwire.runs.run import Run
from adkwire.stores.base import Batch
from adkwire.stores.memory import MemoryStreamLog
from adkwire.testing import Call, Say, ScriptedModel, Wait
from tests.patience import PATIENCE
from tests.stores.contract import Clock
from tests.support.chats import Answer, Chat
from tests.support.fixtures import Make


async def test_a_reader_that_leaves_does_not_stop_the_run(make: Make) -> None:
    held = asyncio.Event()
    chat = make(ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]]))
    run = await chat.begin("a")
    reader = chat.reader(run)
    await reader.until("text-delta")
    await reader.leave()
    # Time in which a stop would have ended it: the model is still held.
    ended, waiting = await asyncio.wait([asyncio.ensure_future(run.done.wait())], timeout=0.1)
    assert not ended
    assert not run.stopping
    held.set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait(waiting)
    assert await chat.texts() == [("user", "a"), ("assistant", "one two")]
    assert (await chat.read(run)).text == "one two"


async def test_a_run_without_a_reader_is_stored(make: Make) -> None:
    chat = make(ScriptedModel(turns=[[Call("nothing")], [Say("ok")]]), nothing)
    run = await chat.begin("a")
    async with asyncio.timeout(PATIENCE):
        await run.done.wait()
    assert (await chat.messages())[1] == (await chat.read(run)).message


async def test_all_readers_get_the_same_bytes_whenever_they_come(make: Make) -> None:
    held = asyncio.Event()
    chat = make(ScriptedModel(turns=[[Say("one two "), Wait(held), Say("three four")]]))
    run = await chat.begin("a")
    slow = chat.reader(run)
    await slow.until("text-delta")
    eager = [asyncio.create_task(chat.read(run)) for _ in range(10)]
    batch_by_batch = asyncio.create_task(_read_batch_by_batch(chat, run))
    held.set()
    async with asyncio.timeout(PATIENCE):
        await run.done.wait()
    everyone = [await slow.rest(), *(await asyncio.gather(*eager)), await batch_by_batch, await chat.read(run)]
    assert all(answer.data == everyone[0].data for answer in everyone)
    assert everyone[0].text == "one two three four"


async def test_a_reader_goes_on_after_its_position(make: Make) -> None:
    chat = make(ScriptedModel(turns=[[Say("one two three")]]))
    answer = await chat.say("a")
    for after in (0, 3, len(answer.data) - 2, len(answer.data) - 1):
        assert (await chat.read(answer.run, after)).data == answer.data[after + 1 :]


class LateLog(MemoryStreamLog):
    """A log whose empty batches arrive after the run has ended, as those of another thread may."""

    def __init__(self) -> None:
        super().__init__(ttl=60)
        self.late = False
        self.release, self.ended = asyncio.Event(), asyncio.Event()

    async def read(self, run: str, after: int, wait: float) -> Batch | None:
        batch = await super().read(run, after, wait)
        if self.late and batch is not None and not batch.entries and not batch.closed:
            self.release.set()
            await self.ended.wait()
        return batch

    async def close(self, run: str) -> None:
        await super().close(run)
        self.ended.set()


async def test_a_run_that_ends_during_a_heartbeat_is_read_to_its_end(make: Make) -> None:
    log = LateLog()
    model = ScriptedModel(turns=[[Say("one "), Wait(log.release), Say("two")]])
    chat = make(model, stream_log=log, heartbeat=0.01)
    run = await chat.begin("a")
    reader = chat.reader(run)
    await reader.until("text-delta")
    log.late = True
    assert (await reader.rest()).text == "one two"


async def test_a_reader_gets_heartbeats_while_no_chunk_comes(make: Make) -> None:
    held = asyncio.Event()
    chat = make(ScriptedModel(turns=[[Wait(held), Say("ok")]]), heartbeat=0.01)
    run = await chat.begin("a")
    batches = chat.bridge.reading(run).batches
    first, beat = await anext(batches), await anext(batches)
    assert len(first.entries) == 1
    assert (beat.first, list(beat.entries), beat.closed) == (1, [], False)
    await batches.aclose()
    held.set()
    assert (await chat.read(run)).text == "ok"


async def test_a_run_can_be_read_by_its_user_only(make: Make) -> None:
    held = asyncio.Event()
    chat = make(ScriptedModel(turns=[[Say("x"), Wait(held)]]))
    run = await chat.begin("a")
    assert chat.bridge.running("ann", "chat") is run
    assert chat.bridge.running("bob", "chat") is None
    assert chat.bridge.running("ann", "other") is None
    held.set()
    await chat.read(run)
    assert chat.bridge.running("ann", "chat") is None
    assert (await chat.find(run.id)).id == run.id
    for user, name, run_id in (("bob", "chat", run.id), ("ann", "other", run.id), ("ann", "chat", "run-x")):
        with pytest.raises(NotRecovered):
            await chat.bridge.follow(user, name, Position(run_id, 0))


class FastClock:
    """A clock that advances the time of the running loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._now = loop.time
        self._ahead = 0.0
        monkeypatch.setattr(loop, "time", lambda: self._now() + self._ahead)

    async def advance(self, seconds: float) -> None:
        self._ahead += seconds
        for _ in range(5):
            await asyncio.sleep(0)


async def test_stop_without_reader_stops_a_run_some_time_after_its_last_reader(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = make(ScriptedModel(turns=[[Say("x "), Wait(asyncio.Event())]]), stop_without_reader=1000)
    clock = FastClock(monkeypatch)
    run = await chat.begin("a")
    staying, reader = chat.reader(run), chat.reader(run)
    await reader.until("text-delta")
    await staying.until("text-delta")
    await reader.leave()
    await clock.advance(2000)
    assert not run.stopping
    await staying.leave()
    await clock.advance(500)
    back = chat.reader(run)
    await back.until("text-delta")
    await back.leave()
    await clock.advance(600)
    assert not run.stopping, "a reader was there less than the set time ago"
    await clock.advance(500)
    assert run.stopping
    async with asyncio.timeout(PATIENCE):
        await run.done.wait()
    assert await chat.texts() == [("user", "a"), ("assistant", "x ")]


async def test_stop_without_reader_stops_a_run_that_never_had_a_reader(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection broke before the first byte was read."""
    chat = make(ScriptedModel(turns=[[Say("x "), Wait(asyncio.Event())]]), stop_without_reader=1000)
    clock = FastClock(monkeypatch)
    run = await chat.begin("a")
    await clock.advance(2000)
    assert run.stopping
    await chat.stop()


async def test_of_many_chats_the_newest_can_still_be_resumed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chats, "_KEPT_CHATS", 3)
    chat = make(ScriptedModel(script=lambda _: [Say("ok")]))
    for number in range(9):
        newest = Chat(chat.bridge, f"chat-{number}")
        answer = await newest.say("a")
        assert (await newest.find(answer.run.id)).id == answer.run.id
        await Chat(chat.bridge, f"beside-{number}").say("a")
        assert (await newest.find(answer.run.id)).id == answer.run.id


async def test_a_reader_whose_stream_is_no_longer_kept_gets_an_error(make: Make) -> None:
    clock, held = Clock(), asyncio.Event()
    model = ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]])
    chat = make(model, stream_log=MemoryStreamLog(ttl=60, clock=clock))
    run = await chat.begin("a")
    reader = chat.reader(run)
    await reader.until("text-delta")
    held.set()
    async with asyncio.timeout(PATIENCE):
        await run.done.wait()
    clock.now += 61
    answer = await reader.rest()
    assert answer.types[-2:] == ["text-delta", "error"]
    assert "Load the chat again" in answer.plain[-1]["errorText"]


async def test_a_reader_whose_position_is_no_longer_kept_gets_an_error(make: Make) -> None:
    log = MemoryStreamLog(ttl=60, max_run_bytes=200)
    chat = make(ScriptedModel(turns=[[Say("one two three four five six seven")]]), stream_log=log)
    run = await chat.begin("a")
    async with asyncio.timeout(PATIENCE):
        await run.done.wait()
    assert (await chat.read(run, 1)).types == ["error"]


def nothing() -> None:
    """Return nothing."""


async def _read_batch_by_batch(chat: Chat, run: Run) -> Answer:
    """Read with a new connection for every batch."""
    answer = Answer(run)
    closed = False
    while not closed:
        batches = chat.bridge.reading(run, after=len(answer.data) - 1 if answer.data else None).batches
        batch = await anext(batches)
        answer.data += batch.entries
        closed = batch.closed
        await batches.aclose()
    return answer
