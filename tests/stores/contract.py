"""The contract tests of every `StreamLog`. The test module of a store inherits them and has a fixture for the store."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import pytest

from adkwire.stores.base import Batch, Closed, RunHead, StreamLog
from tests.patience import PATIENCE

TTL = 60.0
MEGABYTE = 1_000_000
BATCH = 256_000


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class MakeLog(Protocol):
    """Makes a store that keeps closed runs for `ttl` seconds of `clock`. Those of one test share data."""

    def __call__(
        self, *, ttl: float, clock: Clock, max_bytes: int = 256 * MEGABYTE, max_run_bytes: int = 64 * MEGABYTE
    ) -> StreamLog: ...


def head(run: str = "run", *, user: str = "user", chat: str = "chat") -> RunHead:
    return RunHead(run, user, chat, f"message of {run}", f"said before {run}", b"\x00\xff", ("call", "other"))


def entries(*texts: str) -> list[bytes]:
    return [text.encode() for text in texts]


def texts(batch: Batch | None) -> list[str]:
    assert batch is not None
    return [entry.decode() for entry in batch.entries]


async def begin(log: StreamLog, run: str = "run", *first: str, before: Sequence[str] = ()) -> None:
    """Open a run and append something."""
    await log.open(head(run), entries(*before))
    await log.append(run, entries(*first))
    await until_readable(log, run, len(first) - 1)


async def until_readable(log: StreamLog, run: str, last: int) -> None:
    """Wait until an entry, and so all before it, can be read."""
    if last >= 0:
        assert texts(await log.read(run, last - 1, PATIENCE))


async def read_all(log: StreamLog, run: str, after: int = -1) -> list[str]:
    """Read a run to its end."""
    found: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while True:
            batch = await log.read(run, after, PATIENCE)
            found += texts(batch)
            assert batch is not None
            assert batch.first == after + 1
            after = batch.first + len(batch.entries) - 1
            if batch.closed:
                return found


async def take(log: StreamLog, run: str, count: int, after: int = -1) -> list[str]:
    """Read that many entries."""
    found: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            batch = await log.read(run, after, PATIENCE)
            found += texts(batch)
            assert batch is not None
            assert not batch.closed
            after = batch.first + len(batch.entries) - 1
    return found


class StreamLogContract:
    """The tests; `make`, `log` and `other` are fixtures of the module that inherits. `other` is a second one, as
    another worker on the same data has it."""

    async def test_entries_are_numbered_from_zero_in_order(self, log: StreamLog) -> None:
        await begin(log, "run", "a", "b")
        await log.append("run", entries("c"))
        await until_readable(log, "run", 2)
        batch = await log.read("run", -1, 0)
        assert texts(batch) == ["a", "b", "c"]
        assert batch is not None
        assert (batch.first, batch.closed) == (0, False)

    async def test_what_the_message_held_before_has_the_numbers_up_to_minus_one(self, log: StreamLog) -> None:
        await begin(log, "run", "a", before=["x", "y", "z"])
        batch = await log.read("run", -4, 0)
        assert texts(batch) == ["x", "y", "z", "a"]
        assert batch is not None
        assert batch.first == -3
        assert texts(await log.read("run", -1, 0)) == ["a"]
        assert texts(await log.read("run", -3, 0)) == ["y", "z", "a"]

    async def test_what_was_before_can_be_read_as_soon_as_the_run_is_open(self, log: StreamLog) -> None:
        await log.open(head(), entries("x", "y"))
        assert texts(await log.read("run", -3, PATIENCE)) == ["x", "y"]
        assert texts(await log.read("run", -1, 0)) == []

    async def test_a_run_may_be_read_before_it_has_an_entry(self, log: StreamLog) -> None:
        await log.open(head())
        batch = await log.read("run", -1, 0)
        assert batch is not None
        assert (batch.first, list(batch.entries), batch.closed) == (0, [], False)
        waiting = asyncio.create_task(log.read("run", -1, PATIENCE))
        await _until_waiting(waiting)
        await log.append("run", entries("a"))
        assert texts(await waiting) == ["a"]

    async def test_what_was_stored_comes_back_whole(self, log: StreamLog, other: StreamLog) -> None:
        kept = [b"plain", '{"ü": "\\n\u2028"}'.encode(), b"x" * MEGABYTE, b"", b"\x00\xff\r\n"]
        await log.open(head(), kept)
        await log.append("run", kept)
        await log.close("run")
        for one in (log, other):
            assert await _collect(one, "run", len(kept)) == kept * 2

    async def test_a_read_goes_on_behind_a_number(self, log: StreamLog) -> None:
        await begin(log, "run", "a", "b", "c")
        batch = await log.read("run", 1, 0)
        assert texts(batch) == ["c"]
        assert batch is not None
        assert batch.first == 2

    async def test_an_unknown_run_is_none(self, log: StreamLog) -> None:
        assert await log.read("run", -1, PATIENCE) is None
        assert await log.head("run") is None
        await begin(log, "other", "a")
        assert await log.read("run", -1, PATIENCE) is None
        assert await log.head("run") is None

    async def test_runs_do_not_mix(self, log: StreamLog) -> None:
        await begin(log, "one", "a")
        await begin(log, "two", "b")
        await log.close("one")
        assert texts(await log.read("one", -1, 0)) == ["a"]
        second = await log.read("two", -1, 0)
        assert texts(second) == ["b"]
        assert second is not None
        assert not second.closed

    async def test_the_end_comes_with_the_last_entries_or_alone(self, log: StreamLog, other: StreamLog) -> None:
        await begin(log, "run", "a")
        await log.close("run")
        for one in (log, other):
            for after, rest in ((-1, ["a"]), (0, list[str]()), (7, list[str]())):
                batch = await one.read("run", after, PATIENCE)
                assert texts(batch) == rest
                assert batch is not None
                assert batch.closed
                assert batch.first == after + 1

    async def test_a_run_may_end_without_an_entry(self, log: StreamLog) -> None:
        await log.open(head())
        await log.close("run")
        batch = await log.read("run", -1, PATIENCE)
        assert batch is not None
        assert (list(batch.entries), batch.closed) == ([], True)

    async def test_nothing_comes_behind_the_end(self, log: StreamLog, other: StreamLog) -> None:
        await begin(log, "run", "a")
        await log.close("run")
        for one in (log, other):
            with pytest.raises(Closed):
                await one.append("run", entries("b"))
        assert await read_all(log, "run") == await read_all(other, "run") == ["a"]

    async def test_nothing_comes_to_a_run_that_was_never_opened(self, log: StreamLog) -> None:
        with pytest.raises(Closed):
            await log.append("run", entries("a"))
        await log.close("run")
        assert await log.read("run", -1, 0) is None

    async def test_a_second_end_changes_nothing(self, make: MakeLog) -> None:
        clock = Clock()
        log = make(ttl=TTL, clock=clock)
        await begin(log, "run", "a")
        await log.close("run")
        clock.now += TTL - 1
        await log.close("run")
        assert await read_all(log, "run") == ["a"]
        clock.now += 1
        assert await log.read("run", -1, 0) is None

    async def test_a_read_that_must_not_wait_returns_at_once(self, log: StreamLog) -> None:
        await begin(log, "run", "a")
        async with asyncio.timeout(PATIENCE):
            batch = await log.read("run", 0, 0)
        assert texts(batch) == []
        assert batch is not None
        assert not batch.closed

    async def test_a_wait_that_is_in_vain_is_an_empty_batch(self, log: StreamLog, other: StreamLog) -> None:
        await begin(log, "run", "a")
        for one in (log, other):
            batch = await one.read("run", 0, 0.01)
            assert batch is not None
            assert (batch.first, list(batch.entries), batch.closed) == (1, [], False)
        await log.append("run", entries("b"))
        assert texts(await log.read("run", 0, PATIENCE)) == ["b"]

    async def test_an_append_wakes_waiting_readers(self, log: StreamLog, other: StreamLog) -> None:
        await begin(log, "run", "a")
        waiting = [asyncio.create_task(one.read("run", 0, PATIENCE)) for one in (log, other)]
        await _until_waiting(*waiting)
        await log.append("run", entries("b", "c"))
        async with asyncio.timeout(PATIENCE / 2):
            assert [texts(await one) for one in waiting] == [["b", "c"]] * 2

    async def test_the_end_wakes_waiting_readers(self, log: StreamLog, other: StreamLog) -> None:
        await begin(log, "run", "a")
        waiting = [asyncio.create_task(one.read("run", 0, PATIENCE)) for one in (log, other)]
        await _until_waiting(*waiting)
        await log.close("run")
        async with asyncio.timeout(PATIENCE / 2):
            for one in waiting:
                batch = await one
                assert batch is not None
                assert (list(batch.entries), batch.closed) == ([], True)

    async def test_a_cancelled_wait_disturbs_no_other_reader(self, log: StreamLog) -> None:
        await begin(log, "run", "a")
        leaving, staying = (asyncio.create_task(log.read("run", 0, PATIENCE)) for _ in range(2))
        await _until_waiting(leaving)
        leaving.cancel()
        await asyncio.wait([leaving])
        await log.append("run", entries("b"))
        assert texts(await staying) == ["b"]

    async def test_many_readers_each_at_its_own_pace_get_the_same(self, log: StreamLog, other: StreamLog) -> None:
        written = [str(number) for number in range(200)]
        await begin(log, "run", written[0])
        readers = [asyncio.create_task(read_all(log, "run")) for _ in range(20)]
        readers += [asyncio.create_task(read_all(other, "run")) for _ in range(5)]
        slow = asyncio.create_task(_one_by_one(log, "run"))
        for piece in _pieces(written[1:]):
            await log.append("run", entries(*piece))
            await asyncio.sleep(0)
        await log.close("run")
        late = await read_all(log, "run")
        assert await asyncio.gather(*readers) == [written] * 25
        assert late == await slow == written

    async def test_many_runs_at_once_get_each_its_own(self, log: StreamLog, other: StreamLog) -> None:
        async def write(run: str) -> None:
            await log.open(head(run))
            for number in range(20):
                await log.append(run, entries(f"{run} {number}"))
                await asyncio.sleep(0)
            await log.close(run)

        runs = [f"run {number}" for number in range(10)]
        await asyncio.gather(*(write(run) for run in runs))
        for run in runs:
            written = [f"{run} {number}" for number in range(20)]
            assert await read_all(log, run) == await read_all(other, run) == written

    async def test_a_batch_does_not_change_afterwards(self, log: StreamLog) -> None:
        await begin(log, "run", "a")
        batch = await log.read("run", -1, 0)
        await log.append("run", entries("b"))
        await until_readable(log, "run", 1)
        assert texts(batch) == ["a"]

    async def test_a_list_of_entries_may_be_changed_after_it_was_appended(self, log: StreamLog) -> None:
        before, given = entries("x"), entries("a")
        await log.open(head(), before)
        await log.append("run", given)
        before.append(b"y")
        given.append(b"b")
        await log.close("run")
        assert await read_all(log, "run", -2) == ["x", "a"]

    async def test_nothing_appended_wakes_nobody(self, log: StreamLog) -> None:
        await begin(log, "run", "a")
        await log.append("run", [])
        batch = await log.read("run", 0, 0.03)
        assert batch is not None
        assert (list(batch.entries), batch.closed) == ([], False)

    async def test_much_is_read_in_several_batches_and_the_end_comes_with_the_last(
        self, log: StreamLog, other: StreamLog
    ) -> None:
        sizes = [100_000, 100_000, 56_000, 1, BATCH + 1, 5, 5]
        await log.open(head())
        await log.append("run", [b"x" * size for size in sizes])
        await log.close("run")
        for one in (log, other):
            assert await _batches(one, "run") == [[100_000, 100_000, 56_000], [1], [BATCH + 1], [5, 5]]

    async def test_of_a_long_run_the_oldest_entries_go(self, make: MakeLog) -> None:
        logs = [make(ttl=TTL, clock=Clock(), max_run_bytes=10) for _ in range(2)]
        await begin(logs[0], "run", *"abcdefgh")
        await logs[0].append("run", entries("ijk", "l"))
        await logs[0].close("run")
        for log in logs:
            for after in (-1, 0, 1):
                batch = await log.read("run", after, 0)
                assert batch is not None
                assert (batch.first, "".join(texts(batch)), batch.closed) == (2, "cdefghijkl", True)
            assert texts(await log.read("run", 7, 0)) == ["ijk", "l"]

    async def test_a_waiting_reader_of_a_long_run_misses_nothing(self, make: MakeLog) -> None:
        log = make(ttl=TTL, clock=Clock(), max_run_bytes=20)
        await log.open(head())
        reader = asyncio.create_task(read_all(log, "run"))
        for number in range(60):
            await log.append("run", entries(str(number)))
            await until_readable(log, "run", number)
            await asyncio.sleep(0)
        await log.close("run")
        assert await reader == [str(number) for number in range(60)]

    async def test_what_was_before_goes_first(self, make: MakeLog) -> None:
        logs = [make(ttl=TTL, clock=Clock(), max_run_bytes=10) for _ in range(2)]
        await begin(logs[0], "run", "a", before=["xxx", "yyy", "zzz"])
        for log in logs:
            assert texts(await log.read("run", -4, 0)) == ["xxx", "yyy", "zzz", "a"]
        await logs[0].append("run", entries("b"))
        await until_readable(logs[0], "run", 1)
        for log in logs:
            batch = await log.read("run", -4, 0)
            assert batch is not None
            assert (batch.first, texts(batch)) == (-2, ["yyy", "zzz", "a", "b"])

    async def test_the_last_entry_is_kept_however_large(self, make: MakeLog) -> None:
        logs = [make(ttl=TTL, clock=Clock(), max_run_bytes=10) for _ in range(2)]
        await begin(logs[0], "run", "a" * 50, before=["x" * 50])
        for log in logs:
            assert texts(await log.read("run", -2, 0)) == ["a" * 50]
        await logs[0].append("run", entries("b", "c" * 50))
        await until_readable(logs[0], "run", 2)
        for log in logs:
            batch = await log.read("run", -2, 0)
            assert batch is not None
            assert (batch.first, texts(batch)) == (2, ["c" * 50])

    async def test_an_ended_run_is_kept_for_a_while_and_then_forgotten(self, make: MakeLog) -> None:
        clock = Clock()
        log = make(ttl=TTL, clock=clock)
        await begin(log, "old", "a")
        await log.close("old")
        clock.now += TTL - 1
        await begin(log, "next", "b")
        assert texts(await log.read("old", -1, 0)) == ["a"]
        clock.now += 1
        await begin(log, "newest", "c")
        assert await log.read("old", -1, 0) is None
        assert await log.head("old") is None
        assert await log.runs("user", "chat") == [head("next"), head("newest")]

    async def test_a_run_that_goes_on_is_never_forgotten(self, make: MakeLog) -> None:
        clock = Clock()
        log = make(ttl=TTL, clock=clock, max_bytes=10)
        await begin(log, "long", "a")
        clock.now += 100 * TTL
        await begin(log, "other", "b" * 100)
        await log.append("long", entries("c"))
        assert await take(log, "long", 2) == ["a", "c"]
        assert await log.head("long") == head("long")

    async def test_an_ended_run_that_nobody_follows_by_another_is_forgotten_too(self, make: MakeLog) -> None:
        clock = Clock()
        log = make(ttl=TTL, clock=clock)
        await begin(log, "only", "a")
        await log.close("only")
        clock.now += TTL
        assert await log.read("only", -1, 0) is None
        assert await log.head("only") is None
        assert await log.runs("user", "chat") == []

    async def test_of_too_much_the_oldest_ended_runs_go(self, make: MakeLog) -> None:
        clock = Clock()
        logs = [make(ttl=TTL, clock=clock, max_bytes=100) for _ in range(2)]
        for run in ("second", "first", "third"):
            await begin(logs[0], run, run[0] * 30)
        for run in ("first", "second"):
            await logs[0].close(run)
            clock.now += 1
        await logs[0].append("third", entries("x" * 30))
        await until_readable(logs[0], "third", 1)
        for log in logs:
            assert await log.read("first", -1, 0) is None
            assert await log.runs("user", "chat") == [head("second"), head("third")]
            assert texts(await log.read("second", -1, 0)) == ["s" * 30]

    async def test_heads_come_back_as_they_were_given(self, log: StreamLog, other: StreamLog) -> None:
        heads = [head("one"), RunHead("two", "user", "other", "message"), head("three", user="other"), head("four")]
        for one in heads:
            await log.open(one)
        for one in (log, other):
            assert [await one.head(given.run) for given in heads] == heads
            assert await one.runs("user", "chat") == [heads[0], heads[3]]
            assert await one.runs("user", "other") == [heads[1]]
            assert await one.runs("nobody", "chat") == []

    async def test_unclosed_are_everybodys_runs_that_have_no_end(self, log: StreamLog, other: StreamLog) -> None:
        assert await log.unclosed() == []
        heads = [head("one"), head("two", user="other"), head("three", chat="other")]
        for one in heads:
            await log.open(one)
        await log.close("one")
        assert await log.unclosed() == await other.unclosed() == heads[1:]

    async def test_forget_drops_the_runs_of_the_chat_and_nothing_else(self, log: StreamLog, other: StreamLog) -> None:
        for run, user, chat in (("a", "user", "chat"), ("b", "user", "chat"), ("c", "user", "x"), ("d", "x", "chat")):
            await log.open(head(run, user=user, chat=chat))
            await log.append(run, entries(run))
            await until_readable(log, run, 0)
        await log.close("a")
        await log.forget("user", "chat")
        for one in (log, other):
            assert await one.runs("user", "chat") == []
            assert [await one.read(run, -1, 0) for run in "ab"] == [None, None]
            assert [texts(await one.read(run, -1, 0)) for run in "cd"] == [["c"], ["d"]]
            assert [left.run for left in await one.unclosed()] == ["c", "d"]
        with pytest.raises(Closed):
            await log.append("b", entries("late"))
        await log.forget("user", "chat")

    async def test_a_wait_for_a_forgotten_run_ends(self, log: StreamLog, other: StreamLog) -> None:
        await begin(log, "run", "a")
        waiting = [asyncio.create_task(one.read("run", 0, PATIENCE)) for one in (log, other)]
        await _until_waiting(*waiting)
        await log.forget("user", "chat")
        async with asyncio.timeout(PATIENCE / 2):
            assert [await one for one in waiting] == [None, None]

    async def test_another_worker_can_go_on_with_a_run_and_end_it(self, log: StreamLog, other: StreamLog) -> None:
        await begin(log, "run", "a", before=["x"])
        reader = asyncio.create_task(read_all(other, "run"))
        await other.append("run", entries("b"))
        await other.append("run", entries("c"))
        await other.close("run")
        with pytest.raises(Closed):
            await append_until_refused(log, "run")
        for one in (log, other):
            assert await read_all(one, "run", -2) == ["x", "a", "b", "c"]
        assert await reader == ["a", "b", "c"]

    async def test_a_run_that_another_worker_forgot_is_over(self, log: StreamLog, other: StreamLog) -> None:
        await begin(log, "run", "a")
        await other.forget("user", "chat")
        with pytest.raises(Closed):
            await append_until_refused(log, "run")
        await log.close("run")
        assert await log.read("run", -1, 0) is None

    async def test_a_closed_store_opens_again_and_closes_twice(self, log: StreamLog) -> None:
        await log.aclose()
        await begin(log, "run", "a")
        await log.append("run", entries("b"))
        await log.aclose()
        await log.aclose()
        await log.append("run", entries("c"))
        await log.close("run")
        assert await read_all(log, "run") == ["a", "b", "c"]

    async def test_a_cancelled_append_loses_and_doubles_nothing(self, log: StreamLog, other: StreamLog) -> None:
        """Whenever the task is cancelled, the entry is there once or not at all, and the next one follows it."""
        await log.open(head())
        sure: list[str] = []
        for turns_of_the_loop in range(12):
            task = asyncio.ensure_future(log.append("run", entries(f"maybe {turns_of_the_loop}")))
            opening = asyncio.ensure_future(log.open(head(f"run {turns_of_the_loop}")))
            for _ in range(turns_of_the_loop):
                await asyncio.sleep(0)
            for one in (task, opening):
                one.cancel()
            await asyncio.wait([task, opening])
            sure.append(f"sure {turns_of_the_loop}")
            await log.append("run", entries(sure[-1]))
        closing = asyncio.ensure_future(log.close("run"))
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        await log.close("run")
        found = await read_all(log, "run")
        assert found == await read_all(other, "run")
        assert [text for text in found if text.startswith("sure")] == sure
        assert len(set(found)) == len(found)


async def append_until_refused(log: StreamLog, run: str) -> None:
    """Append until the log refuses it: a writer may learn a little late that another worker has closed its run."""
    async with asyncio.timeout(PATIENCE):
        while True:
            await log.append(run, entries("late"))
            await asyncio.sleep(0.001)


async def _until_waiting(*tasks: "asyncio.Task[Batch | None]") -> None:
    """Let the tasks run until they wait for entries."""
    done, _ = await asyncio.wait(tasks, timeout=0.02)
    assert not done


async def _collect(log: StreamLog, run: str, before: int) -> list[bytes]:
    found: list[bytes] = []
    after = -1 - before
    while True:
        batch = await log.read(run, after, PATIENCE)
        assert batch is not None
        found += batch.entries
        after = batch.first + len(batch.entries) - 1
        if batch.closed:
            return found


async def _batches(log: StreamLog, run: str) -> list[list[int]]:
    """The sizes of the entries of each batch, to the end."""
    found: list[list[int]] = []
    after = -1
    while True:
        batch = await log.read(run, after, 0)
        assert batch is not None
        found.append([len(entry) for entry in batch.entries])
        after += len(batch.entries)
        if batch.closed:
            return found


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
