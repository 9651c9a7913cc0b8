"""A stream log that fails: requests fail, and no run is left."""

import asyncio
from collections.abc import Sequence

import pytest

from adkwire.stores.memory import MemoryStreamLog
from adkwire.testing import Say, ScriptedModel, Wait
from tests.patience import PATIENCE
from tests.support.chats import Chat
from tests.support.fixtures import Make


class FailingLog(MemoryStreamLog):
    """A log whose named operations fail."""

    def __init__(self) -> None:
        super().__init__(ttl=60)
        self.failing: set[str] = set()

    async def append(self, run: str, entries: Sequence[bytes]) -> None:
        self._check("append")
        await super().append(run, entries)

    async def close(self, run: str) -> None:
        self._check("close")
        await super().close(run)

    def _check(self, operation: str) -> None:
        if operation in self.failing:
            raise OSError("away")


def echo() -> ScriptedModel:
    return ScriptedModel(script=lambda _: [Say("ok")])


async def close(chat: Chat) -> None:
    async with asyncio.timeout(PATIENCE):
        await chat.bridge.close()


async def test_a_run_whose_start_cannot_be_written_fails_and_leaves_no_run(make: Make) -> None:
    log = FailingLog()
    chat = make(echo(), stream_log=log)
    log.failing = {"append"}
    with pytest.raises(OSError, match="away"):
        await chat.begin("a", "u1")
    assert chat.bridge.running(chat.user, chat.id) is None
    assert chat.bridge.active_runs == []
    log.failing = set()
    assert (await chat.say("a", "u1")).text == "ok"
    log.failing = {"append"}
    with pytest.raises(OSError, match="away"):
        await chat.begin("b")
    await close(chat)


@pytest.mark.parametrize("failing", [{"append"}, {"close"}, {"append", "close"}], ids=["append", "close", "both"])
async def test_a_run_whose_end_cannot_be_written_ends(make: Make, failing: set[str]) -> None:
    log, held = FailingLog(), asyncio.Event()
    chat = make(ScriptedModel(script=lambda _: [Say("one "), Wait(held)]), stream_log=log, drain=600)
    run = await chat.begin("a")
    await chat.reader(run).until("text-delta")
    log.failing = failing
    held.set()
    async with asyncio.timeout(PATIENCE):
        await run.done.wait()
    assert chat.bridge.running(chat.user, chat.id) is None
    log.failing = set()
    assert (await chat.say("b")).text == "one "
    await close(chat)


@pytest.mark.parametrize("failing", [{"append"}, {"append", "close"}], ids=["append", "both"])
async def test_a_reader_of_a_run_whose_end_cannot_be_written_comes_to_an_end(make: Make, failing: set[str]) -> None:
    log, held = FailingLog(), asyncio.Event()
    model = ScriptedModel(script=lambda _: [Say("one "), Wait(held)])
    chat = make(model, stream_log=log, heartbeat=0.01)
    run = await chat.begin("a")
    reader = chat.reader(run)
    await reader.until("text-delta")
    log.failing = failing
    held.set()
    async with asyncio.timeout(PATIENCE):
        await reader.rest()
