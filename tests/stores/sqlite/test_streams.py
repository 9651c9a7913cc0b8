import asyncio
import contextlib
import sqlite3
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adkwire.errors import Unavailable
from adkwire.stores.base import Closed, StreamLog
from adkwire.stores.memory import MemoryStreamLog
from adkwire.stores.sqlite.streams import SqliteStreamLog
from tests.stores.contract import (
    PATIENCE,
    TTL,
    Clock,
    MakeLog,
    StreamLogContract,
    append_until_refused,
    begin,
    entries,
    head,
    read_all,
    take,
    texts,
    until_readable,
)
from tests.stores.processes import line, process, tell
from tests.stores.stream_process import RUNS, entry


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
async def make(file: Path) -> AsyncGenerator[MakeLog, None]:
    made: list[SqliteStreamLog] = []

    def make(*, ttl: float, clock: Clock, max_bytes: int = 1 << 30, max_run_bytes: int = 1 << 30) -> StreamLog:
        made.append(SqliteStreamLog(file, ttl=ttl, clock=clock, max_bytes=max_bytes, max_run_bytes=max_run_bytes))
        return made[-1]

    yield make
    for log in made:
        await log.aclose()


@pytest.fixture
def log(make: MakeLog) -> StreamLog:
    return make(ttl=TTL, clock=Clock())


@pytest.fixture
def other(make: MakeLog) -> StreamLog:
    return make(ttl=TTL, clock=Clock())


class TestSqliteStreamLog(StreamLogContract):
    pass


def query(file: Path, sql: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        return connection.execute(sql).fetchall()


async def test_what_a_reader_has_seen_is_in_the_file(log: StreamLog, file: Path) -> None:
    await log.open(head())
    for number in range(50):
        await log.append("run", entries(str(number)))
        await until_readable(log, "run", number)
        assert query(file, "SELECT entry FROM adkwire_chunks ORDER BY number DESC LIMIT 1") == [(b"%d" % number,)]


async def test_the_end_is_in_the_file_when_close_returns(log: StreamLog, file: Path) -> None:
    await log.open(head())
    await log.append("run", entries("a"))
    await log.close("run")
    assert query(file, "SELECT next, closed_at IS NOT NULL FROM adkwire_runs") == [(1, 1)]


async def test_what_is_queued_at_once_is_committed_together(log: StreamLog, file: Path) -> None:
    """A reader of the file sees all of it or nothing."""
    for run in RUNS:
        await log.open(head(run))
    for run in RUNS:
        for number in range(5):
            await log.append(run, entries(str(number)))
    counts = set[int]()
    while counts != {0, 15}:
        (count,) = query(file, "SELECT count(*) FROM adkwire_chunks")[0]
        counts.add(count)
        assert counts <= {0, 15}
        await asyncio.sleep(0)


async def seen_before_the_end(child: Process, lines: int) -> dict[str, int]:
    """Kill a process that tells what it has seen, after some lines; the last it told of each run."""
    printed = [await line(child) for _ in range(lines)]
    child.kill()
    assert child.stdout is not None
    rest = (await child.stdout.read()).decode()
    printed += [one for one in rest.splitlines(keepends=True) if one.endswith("\n")]
    await child.wait()
    return {run: int(seen) for run, seen in (one.split() for one in printed)}


@pytest.mark.parametrize("lines", [3, 60])
async def test_a_killed_process_leaves_a_whole_beginning_with_all_that_was_seen(
    log: StreamLog, file: Path, lines: int
) -> None:
    async with process("stream_process", "work", file) as child:
        seen = await seen_before_the_end(child, lines)
        assert sum(seen.values()) > 0
    assert sorted(one.run for one in await log.unclosed()) == sorted(RUNS)
    for run in RUNS:
        await log.append(run, entries("the end"))
        await log.close(run)
        before, *written, end = await read_all(log, run, -2)
        assert (before, end) == ("before", "the end")
        assert written == [entry(run, number) for number in range(len(written))]
        assert len(written) >= seen.get(run, 0)
    assert await log.unclosed() == []


async def test_a_run_is_followed_while_another_process_writes_it(log: StreamLog, file: Path) -> None:
    async with process("stream_process", "finish", file) as child:
        readers = [asyncio.create_task(read_all(log, "run", after)) for after in (-2, -1, 50)]
        tell(child)
        whole = ["before", *(entry("run", number) for number in range(100))]
        assert await asyncio.gather(*readers) == [whole, whole[1:], whole[52:]]
        async with asyncio.timeout(PATIENCE):
            assert await child.wait() == 0, "it never closed its store and can end"


async def test_a_run_of_an_earlier_life_is_as_it_was(make: MakeLog) -> None:
    first = make(ttl=TTL, clock=Clock())
    await begin(first, "run", "a", before=["x"])
    await first.append("run", entries("b"))
    await first.aclose()
    second = make(ttl=TTL, clock=Clock())
    assert await second.unclosed() == [head("run")]
    assert await take(second, "run", 3, after=-2) == ["x", "a", "b"]


async def test_nothing_comes_behind_an_end_that_another_worker_made(log: StreamLog, other: StreamLog) -> None:
    await begin(log, "run", "a")
    await other.close("run")
    await log.append("run", entries("late"))
    await log.close("run")
    assert await read_all(log, "run") == await read_all(other, "run") == ["a"]


async def test_of_two_who_write_the_one_that_came_later_goes_on(log: StreamLog, other: StreamLog) -> None:
    await begin(log, "run", "a")
    await other.append("run", entries("b"))
    await until_readable(other, "run", 1)
    with pytest.raises(Closed):
        await append_until_refused(log, "run")
    await other.append("run", entries("c"))
    await other.close("run")
    assert await read_all(log, "run") == await read_all(other, "run") == ["a", "b", "c"]


async def test_expired_runs_leave_the_file(make: MakeLog, file: Path) -> None:
    clock = Clock()
    log = make(ttl=TTL, clock=clock)
    for number in range(30):
        await begin(log, f"run {number}", "a", before=["x"])
        await log.close(f"run {number}")
    clock.now += TTL
    for run in ("next", "last"):
        await begin(log, run, "b")
    assert query(file, "SELECT run FROM adkwire_runs ORDER BY id") == [("next",), ("last",)]
    assert query(file, "SELECT entry FROM adkwire_chunks") == [(b"b",), (b"b",)]
    assert query(file, "SELECT bytes FROM adkwire_stream_bytes") == [(2,)]


async def test_what_is_held_is_counted_whatever_happens(make: MakeLog, file: Path) -> None:
    log = make(ttl=TTL, clock=Clock(), max_bytes=60, max_run_bytes=25)
    for number in range(8):
        await begin(log, f"run {number}", *("y" * 7 for _ in range(number)), before=["x" * number])
        if number % 2:
            await log.close(f"run {number}")
        held, kept = (
            query(file, f"SELECT coalesce(sum({size}), 0) FROM {table}")
            for size, table in (("bytes", "adkwire_stream_bytes"), ("length(entry)", "adkwire_chunks"))
        )
        assert held == kept == query(file, "SELECT sum(size) FROM adkwire_runs")
    await log.forget("user", "chat")
    assert query(file, "SELECT bytes FROM adkwire_stream_bytes") == [(0,)]
    assert query(file, "SELECT * FROM adkwire_chunks") == []


async def test_a_writer_that_is_faster_than_the_file_waits(log: StreamLog, file: Path) -> None:
    """With the file locked, no more than a bounded amount is queued."""
    large = [b"x" * 1_000_000]
    await log.open(head())
    with locked(file):
        written = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                while written < 50:
                    await log.append("run", large)
                    written += 1
    assert 0 < written < 10
    await log.append("run", entries("the last"))
    await log.close("run")
    assert texts(await log.read("run", written - 1, 0)) == ["the last"]


@contextlib.contextmanager
def locked(file: Path) -> Generator[None, None, None]:
    """Lock the file for other writers until the block ends."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


async def append_nothing(log: StreamLog, run: str) -> None:
    """Until it is told that something failed."""
    async with asyncio.timeout(PATIENCE):
        while True:
            await log.append(run, [])
            await asyncio.sleep(0.001)


async def test_a_store_that_fails_says_so_and_loses_nothing_when_it_works_again(log: StreamLog, file: Path) -> None:
    await begin(log, "run", "a")
    query(file, "ALTER TABLE adkwire_chunks RENAME TO adkwire_away")
    await log.append("run", entries("b"))
    with pytest.raises(Unavailable, match=r"The stream log does not answer\."):
        await append_nothing(log, "run")
    for _ in range(2):
        with pytest.raises(Unavailable):
            await log.close("run")
    assert texts(await log.read("run", -1, 0)) == ["a"], "nothing is shown that is not kept"
    query(file, "ALTER TABLE adkwire_away RENAME TO adkwire_chunks")
    await log.close("run")
    assert await read_all(log, "run") == ["a", "b"]


async def test_entries_whose_append_reports_an_earlier_failure_are_kept(log: StreamLog, file: Path) -> None:
    await begin(log, "run", "a")
    query(file, "ALTER TABLE adkwire_chunks RENAME TO adkwire_away")
    written = ["a"]

    async def write_until_it_fails() -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                written.append(str(len(written)))
                await log.append("run", entries(written[-1]))
                await asyncio.sleep(0.001)

    with pytest.raises(Unavailable):
        await write_until_it_fails()
    query(file, "ALTER TABLE adkwire_away RENAME TO adkwire_chunks")
    await log.append("run", entries("z"))
    await log.close("run")
    assert await read_all(log, "run") == [*written, "z"], "who goes on leaves no gap"


async def test_a_file_that_cannot_be_opened_is_unavailable_until_it_can(tmp_path: Path) -> None:
    log = SqliteStreamLog(tmp_path / "missing" / "state.db", ttl=TTL)
    try:
        for work in (log.open(head()), log.append("run", []), log.read("run", -1, 0), log.runs("user", "chat")):
            with pytest.raises(Unavailable):
                await work
        (tmp_path / "missing").mkdir()
        await begin(log, "run", "a")
    finally:
        await log.aclose()


async def test_all_that_it_makes_in_the_file_bears_its_name(log: StreamLog, file: Path) -> None:
    await begin(log, "run", "a")
    made = [name for (name,) in query(file, "SELECT tbl_name FROM sqlite_master")]
    assert made
    assert all(name.startswith("adkwire_") for name in made)


class Model:
    """A run as a list that forgets nothing; what a store keeps of it is worked out when it is asked."""

    def __init__(self, before: list[bytes]) -> None:
        self.entries = list(before)
        self.first = -len(before)
        self.closed_at: float | None = None

    def kept_from(self, limit: int) -> int:
        """The number of the first entry that is kept once something was appended."""
        size = 0
        for index in range(len(self.entries) - 1, -1, -1):
            size += len(self.entries[index])
            if size > limit and index < len(self.entries) - 1:
                return self.first + index + 1
        return self.first

    def behind(self, number: int) -> list[bytes]:
        return self.entries[max(0, number + 1 - self.first) :]


LIMIT = 40
RUN = st.sampled_from("abc")
CHUNKS = st.lists(st.binary(max_size=15), max_size=5)
STEPS = st.one_of(
    st.tuples(st.just("open"), RUN, CHUNKS),
    st.tuples(st.just("append"), RUN, CHUNKS),
    st.tuples(st.just("close"), RUN, st.none()),
    st.tuples(st.just("read"), RUN, st.integers(-6, 20)),
    st.tuples(st.just("wait"), RUN, st.sampled_from([1.0, TTL / 2, TTL])),
    st.tuples(st.just("reopen"), RUN, st.none()),
    st.tuples(st.just("forget"), RUN, st.none()),
)


class Checked:
    """A log and its models: every step is done to both, and what a reader gets is compared."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.clock = Clock()
        self.models: dict[str, Model] = {}
        self.names: dict[str, str] = {}
        self.opened = 0
        self.log = self.make()

    def make(self) -> StreamLog:
        if self.file is None:
            return MemoryStreamLog(ttl=TTL, max_run_bytes=LIMIT, clock=self.clock)
        return SqliteStreamLog(self.file, ttl=TTL, max_run_bytes=LIMIT, clock=self.clock)

    def model(self, run: str) -> Model | None:
        model = self.models.get(run)
        expired = model and model.closed_at is not None and self.clock.now - model.closed_at >= TTL
        return None if expired else model

    async def step(self, what: str, letter: str, value: Any) -> None:
        run = self.names.get(letter, letter)
        await getattr(self, what)(letter, run, value)

    async def open(self, letter: str, _: str, before: list[bytes]) -> None:
        self.opened += 1
        run = self.names[letter] = f"{letter} {self.opened}"
        await self.log.open(head(run, chat=letter), before)
        self.models[run] = Model(before)

    async def append(self, _: str, run: str, chunks: list[bytes]) -> None:
        model = self.model(run)
        if model is None or model.closed_at is not None:
            with pytest.raises(Closed):
                await self.log.append(run, chunks)
            return
        await self.log.append(run, chunks)
        model.entries += chunks
        if chunks:
            model.first, kept = model.kept_from(LIMIT), model.behind(model.kept_from(LIMIT) - 1)
            model.entries = kept
            await self.log.read(run, model.first + len(kept) - 2, PATIENCE)

    async def close(self, _: str, run: str, __: None) -> None:
        await self.log.close(run)
        model = self.model(run)
        if model is not None and model.closed_at is None:
            model.closed_at = self.clock.now

    async def read(self, _: str, run: str, after: int) -> None:
        model = self.model(run)
        batch = await self.log.read(run, after, 0)
        if model is None:
            assert batch is None
            return
        assert batch is not None
        assert list(batch.entries) == model.behind(after)
        assert batch.first == max(after + 1, model.first)
        assert batch.closed == (model.closed_at is not None)

    async def wait(self, _: str, __: str, seconds: float) -> None:
        self.clock.now += seconds

    async def reopen(self, _: str, __: str, ___: None) -> None:
        if self.file is not None:
            await self.log.aclose()
            self.log = self.make()

    async def forget(self, letter: str, _: str, __: None) -> None:
        await self.log.forget("user", letter)
        self.models = {run: model for run, model in self.models.items() if run[0] != letter}

    async def check(self) -> None:
        known = {run for run in self.models if self.model(run)}
        for letter in "abc":
            kept = [one.run for one in await self.log.runs("user", letter)]
            assert kept == [run for run in self.models if run in known and run[0] == letter]
        unclosed = [one.run for one in await self.log.unclosed()]
        assert unclosed == [run for run in self.models if self.models[run].closed_at is None]
        for run in self.models:
            await self.read("", run, -7)


async def follow_the_model(file: Path | None, steps: list[tuple[str, str, Any]]) -> None:
    checked = Checked(file)
    try:
        for step in steps:
            await checked.step(*step)
        await checked.check()
    finally:
        await checked.log.aclose()


@given(st.lists(STEPS, max_size=30))
@settings(max_examples=100, deadline=None)
def test_memory_does_what_a_list_does(steps: list[tuple[str, str, Any]]) -> None:
    asyncio.run(follow_the_model(None, steps))


@given(st.lists(STEPS, max_size=30))
@settings(max_examples=25, deadline=None)
def test_the_file_does_what_a_list_does(steps: list[tuple[str, str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(follow_the_model(Path(folder) / "state.db", steps))
