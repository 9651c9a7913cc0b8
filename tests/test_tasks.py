"""Background tasks end when their owner closes, and every wait for one that does not end has a limit."""

import asyncio
import logging

import pytest

from adkwire import tasks
from adkwire.tasks import Tasks, Watchers, end
from tests.patience import PATIENCE
from tests.support.stubborn import Stubborn


async def settled(task: "asyncio.Task[None]") -> None:
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait([task])


async def test_a_task_that_is_cancelled_has_ended_when_end_returns() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    assert await end(task)
    assert task.cancelled()
    assert await end(task), "a task that has ended needs no end"
    assert await end()


async def test_a_task_that_swallows_its_cancellation_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    async with Stubborn() as stubborn:
        task = asyncio.create_task(stubborn.work(), name="stubborn")
        await stubborn.began.wait()
        async with asyncio.timeout(PATIENCE):
            assert not await end(task, seconds=0.01)
        assert stubborn.cancelled.is_set()
    assert [record.getMessage() for record in caplog.records] == [
        "task stubborn was cancelled and does not end; it is abandoned"
    ]


async def test_a_task_does_not_end_itself() -> None:
    async def work() -> bool:
        task = asyncio.current_task()
        assert task is not None
        return await end(task)

    assert await asyncio.create_task(work())


async def test_tasks_end_with_their_owner() -> None:
    owner = Tasks()
    first, second = (owner.start(_wait(), name) for name in ("first", "second"))
    assert (len(owner), first.get_name()) == (2, "adkwire-first")
    assert await owner.close()
    assert first.cancelled()
    assert second.cancelled()
    assert len(owner) == 0


async def test_an_owner_does_not_wait_for_ever() -> None:
    owner = Tasks()
    async with Stubborn() as stubborn:
        owner.start(stubborn.work(), "stubborn")
        await stubborn.began.wait()
        async with asyncio.timeout(PATIENCE):
            assert not await owner.close(0.01)


async def test_a_task_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    owner = Tasks()
    await settled(owner.start(_fail(), "broken"))
    [record] = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "task adkwire-broken failed")
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ZeroDivisionError)


async def test_a_watcher_goes_on_after_it_failed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks, "_SHORTEST_PAUSE", 0)
    watchers, starts, well = Watchers(), list[int](), asyncio.Event()

    async def watch() -> None:
        starts.append(1)
        if len(starts) == 1:
            raise ZeroDivisionError
        if len(starts) == 2:
            return
        well.set()
        await asyncio.Event().wait()

    watchers.start("well", watch)
    [task] = [task for task in asyncio.all_tasks() if task.get_name() == "adkwire-well"]
    waits = asyncio.create_task(well.wait())
    await asyncio.wait([task, waits], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    assert waits.done()
    assert watchers.gone == []
    failed, ended = caplog.records
    assert failed.exc_info is not None
    assert failed.getMessage() == "watcher well failed; it starts again soon"
    assert ended.getMessage() == "watcher well has ended; it starts again soon"
    await watchers.close()
    assert watchers.gone == []


async def test_a_watcher_that_does_not_run_is_gone() -> None:
    watchers, failed = Watchers(), asyncio.Event()

    async def watch() -> None:
        failed.set()
        raise ZeroDivisionError

    watchers.start("broken", watch)
    watchers.start("well", _wait)
    await failed.wait()
    assert watchers.gone == ["broken"]
    await watchers.close()


async def test_a_watcher_that_runs_is_not_started_again() -> None:
    watchers, starts = Watchers(), list[int]()

    async def watch() -> None:
        starts.append(1)
        await asyncio.Event().wait()

    for _ in range(2):
        watchers.start("once", watch)
        await asyncio.sleep(0)
    assert starts == [1]
    await watchers.close()


async def _wait() -> None:
    await asyncio.Event().wait()


async def _fail() -> None:
    raise ZeroDivisionError
