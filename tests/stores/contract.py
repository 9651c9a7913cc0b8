"""What every `StreamLog` must do. A store's own test module inherits the class and says how to make one."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from adkwire.stores.base import Batch, StreamLog

PATIENCE = 20.0
TTL = 60.0


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class MakeLog(Protocol):
    """How a store is made: it keeps closed runs for `ttl` seconds of `clock`."""

    def __call__(self, *, ttl: float, clock: Clock) -> StreamLog: ...


def entries(*texts: str) -> list[bytes]:
    return [text.encode() for text in texts]


def texts(batch: Batch | None) -> list[str]:
    assert batch is not None
    return [entry.decode() for entry in batch.entries]


async def read_all(log: StreamLog, run: str, after: int = -1) -> list[str]:
    """Read as a reader does, to the end."""
    found: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while True:
            batch = await log.read(run, after, PATIENCE)
            found += texts(batch)
            assert batch is not None
            assert batch.first == after + 1
            after += len(batch.entries)
            if batch.closed:
                return found


class StreamLogContract:
    """The tests; `make` and `log` are fixtures of the module that inherits."""

    async def test_entries_are_numbered_from_zero_in_order(self, log: StreamLog) -> None:
        await log.append("run", entries("a", "b"))
        await log.append("run", entries("c"))
        batch = await log.read("run", -1, 0)
        assert texts(batch) == ["a", "b", "c"]
        assert batch is not None
        assert (batch.first, batch.closed) == (0, False)

    async def test_what_was_stored_comes_back_whole(self, log: StreamLog) -> None:
        kept = [b"plain", '{"ü": "\\n\u2028"}'.encode(), b"x" * 1_000_000, b"", b"\x00\xff\r\n"]
        await log.append("run", kept)
        batch = await log.read("run", -1, 0)
        assert batch is not None
        assert list(batch.entries) == kept

    async def test_a_read_goes_on_behind_a_number(self, log: StreamLog) -> None:
        await log.append("run", entries("a", "b", "c"))
        batch = await log.read("run", 1, 0)
        assert texts(batch) == ["c"]
        assert batch is not None
        assert batch.first == 2

    async def test_an_unknown_run_is_none(self, log: StreamLog) -> None:
        assert await log.read("run", -1, PATIENCE) is None
        await log.append("other", entries("a"))
        assert await log.read("run", -1, PATIENCE) is None

    async def test_runs_do_not_mix(self, log: StreamLog) -> None:
        await log.append("one", entries("a"))
        await log.append("two", entries("b"))
        await log.close("one")
        assert texts(await log.read("one", -1, 0)) == ["a"]
        second = await log.read("two", -1, 0)
        assert texts(second) == ["b"]
        assert second is not None
        assert not second.closed

    async def test_the_end_comes_with_the_last_entries_or_alone(self, log: StreamLog) -> None:
        await log.append("run", entries("a"))
        await log.close("run")
        for after, rest in ((-1, ["a"]), (0, list[str]()), (7, list[str]())):
            batch = await log.read("run", after, PATIENCE)
            assert texts(batch) == rest
            assert batch is not None
            assert batch.closed

    async def test_a_run_may_end_without_an_entry(self, log: StreamLog) -> None:
        await log.close("run")
        batch = await log.read("run", -1, PATIENCE)
        assert batch is not None
        assert (list(batch.entries), batch.closed) == ([], True)

    async def test_a_read_that_must_not_wait_returns_at_once(self, log: StreamLog) -> None:
        await log.append("run", entries("a"))
        async with asyncio.timeout(PATIENCE):
            batch = await log.read("run", 0, 0)
        assert texts(batch) == []
        assert batch is not None
        assert not batch.closed

    async def test_a_wait_that_is_in_vain_is_an_empty_batch(self, log: StreamLog) -> None:
        await log.append("run", entries("a"))
        batch = await log.read("run", 0, 0.01)
        assert batch is not None
        assert (batch.first, list(batch.entries), batch.closed) == (1, [], False)
        await log.append("run", entries("b"))
        assert texts(await log.read("run", 0, 0.01)) == ["b"]

    async def test_an_append_wakes_who_waits(self, log: StreamLog) -> None:
        await log.append("run", entries("a"))
        waiting = asyncio.create_task(log.read("run", 0, PATIENCE))
        await _until_waiting(waiting)
        await log.append("run", entries("b", "c"))
        async with asyncio.timeout(PATIENCE / 2):
            batch = await waiting
        assert texts(batch) == ["b", "c"]

    async def test_the_end_wakes_who_waits(self, log: StreamLog) -> None:
        await log.append("run", entries("a"))
        waiting = asyncio.create_task(log.read("run", 0, PATIENCE))
        await _until_waiting(waiting)
        await log.close("run")
        async with asyncio.timeout(PATIENCE / 2):
            batch = await waiting
        assert batch is not None
        assert (list(batch.entries), batch.closed) == ([], True)

    async def test_who_gives_up_waiting_disturbs_nobody(self, log: StreamLog) -> None:
        await log.append("run", entries("a"))
        leaving, staying = (asyncio.create_task(log.read("run", 0, PATIENCE)) for _ in range(2))
        await _until_waiting(leaving)
        leaving.cancel()
        await asyncio.wait([leaving])
        await log.append("run", entries("b"))
        assert texts(await staying) == ["b"]

    async def test_many_readers_each_at_its_own_pace_get_the_same(self, log: StreamLog) -> None:
        written = [str(number) for number in range(200)]
        await log.append("run", entries(written[0]))
        readers = [asyncio.create_task(read_all(log, "run")) for _ in range(20)]
        slow = asyncio.create_task(_one_by_one(log, "run"))
        for piece in _pieces(written[1:]):
            await log.append("run", entries(*piece))
            await asyncio.sleep(0)
        await log.close("run")
        late = await read_all(log, "run")
        assert await asyncio.gather(*readers) == [written] * 20
        assert late == await slow == written

    async def test_a_batch_does_not_change_afterwards(self, log: StreamLog) -> None:
        await log.append("run", entries("a"))
        batch = await log.read("run", -1, 0)
        await log.append("run", entries("b"))
        assert texts(batch) == ["a"]

    async def test_an_ended_run_is_kept_for_a_while_and_then_forgotten(self, make: MakeLog) -> None:
        clock = Clock()
        log = make(ttl=TTL, clock=clock)
        await log.append("old", entries("a"))
        await log.close("old")
        clock.now += TTL - 1
        await log.append("next", entries("b"))
        assert texts(await log.read("old", -1, 0)) == ["a"]
        clock.now += 1
        await log.append("newest", entries("c"))
        assert await log.read("old", -1, 0) is None

    async def test_a_run_that_goes_on_is_never_forgotten(self, make: MakeLog) -> None:
        clock = Clock()
        log = make(ttl=TTL, clock=clock)
        await log.append("long", entries("a"))
        clock.now += 100 * TTL
        await log.append("other", entries("b"))
        await log.append("long", entries("c"))
        assert texts(await log.read("long", -1, 0)) == ["a", "c"]

    async def test_an_ended_run_that_nobody_follows_by_another_is_forgotten_too(self, make: MakeLog) -> None:
        clock = Clock()
        log = make(ttl=TTL, clock=clock)
        await log.append("only", entries("a"))
        await log.close("only")
        clock.now += TTL
        assert await log.read("only", -1, 0) is None


async def _until_waiting(task: "asyncio.Task[Batch | None]") -> None:
    """Let the task go as far as it can without anything to read."""
    done, _ = await asyncio.wait([task], timeout=0.02)
    assert not done


async def _one_by_one(log: StreamLog, run: str) -> list[str]:
    """A reader that acknowledges a single entry of each batch."""
    found: list[str] = []
    while True:
        batch = await log.read(run, len(found) - 1, PATIENCE)
        assert batch is not None
        if not batch.entries and batch.closed:
            return found
        found += texts(batch)[:1]
        await asyncio.sleep(0)


def _pieces(values: Sequence[str]) -> list[Sequence[str]]:
    """Cut into pieces of 1, 2, 3, ... values."""
    cut: list[Sequence[str]] = []
    at = 0
    while at < len(values):
        size = len(cut) + 1
        cut.append(values[at : at + size])
        at += size
    return cut
