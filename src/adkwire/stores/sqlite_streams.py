"""The stream log in a SQLite file."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from adkwire.errors import Unavailable
from adkwire.stores.base import Batch, Closed, RunHead
from adkwire.stores.memory import MemoryStreamLog
from adkwire.stores.sqlite_file import SqliteFile
from adkwire.stores.sqlite_runs import (
    TABLES,
    Job,
    add_to_run,
    delete,
    delete_chat,
    hold,
    insert_entries,
    make_room,
    select_entries,
)

_BETWEEN_COMMITS = 0.01
_BETWEEN_TRIES = 5.0
_BETWEEN_LOOKS = 0.05
_MAX_QUEUED_BYTES = 4_000_000
_MAX_SWEPT_RUNS = 20
_HEADS = "SELECT head FROM adkwire_runs "


@dataclass(slots=True)
class _Writer:
    """A run that this process writes, as it stands in the file, and what is on its way there."""

    id: int
    run: str
    next: int
    size: int
    is_shown: bool
    """Whether it is in the memory of this process, where readers find it without asking the file."""
    queue: list[bytes] = field(default_factory=list[bytes])
    closing: bool = False
    done: bool = False
    failure: Unavailable | None = None

    def job(self) -> Job:
        """Take what is queued."""
        entries, self.queue = self.queue, []
        return Job(self.id, self.run, self.next, self.size, entries, self.closing)

    def check(self) -> None:
        """Say once that a commit failed; say always that it is ending."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        if self.closing:
            raise Closed


class SqliteStreamLog:
    """A `StreamLog` that outlives the process. What a reader has seen is in the file, whenever the process is killed.

    `append` queues. What all runs have queued is committed together, at once or 10 ms after the last commit, and then
    goes to the readers by way of the memory. What other processes write is looked for in the file.
    """

    def __init__(
        self,
        path: Path,
        *,
        ttl: float,
        max_bytes: int = 256_000_000,
        max_run_bytes: int = 64_000_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file = SqliteFile(path, TABLES, name="stream log", synchronous="NORMAL")
        self._shown = MemoryStreamLog(ttl=ttl, max_bytes=max_bytes, max_run_bytes=max_run_bytes, clock=clock)
        self._ttl = ttl
        self._limits = (max_bytes, max_run_bytes)
        self._clock = clock
        self._writers: dict[str, _Writer] = {}
        self._dirty: dict[str, _Writer] = {}
        self._queued = 0
        self._committed = asyncio.Event()
        """Set by the next commit, whether it succeeds or not; then there is another."""
        self._committer: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._last_commit = float("-inf")

    async def open(self, head: RunHead, before: Sequence[bytes] = (), question: bytes = b"") -> None:
        """Begin the log of a run."""
        entries, size = list(before), sum(map(len, before))
        id_ = await self._file.write(lambda connection: self._insert(connection, head, entries, size, question))
        await self._shown.open(head, entries)
        self._writers[head.run] = _Writer(id_, head.run, next=0, size=size, is_shown=True)

    async def append(self, run: str, entries: Sequence[bytes]) -> None:
        """Add entries behind the last."""
        writer = await self._writer(run)
        while writer and self._queued > _MAX_QUEUED_BYTES and not (writer.failure or writer.done):
            await self._committed.wait()
        if writer is None or writer.done:
            # Whoever goes on with it after this has decided to: it is read from the file how far it has come.
            self._writers.pop(run, None)
            raise Closed
        if not writer.closing:
            # Also when an earlier commit has failed, which is told here: who goes on leaves no gap.
            writer.queue.extend(entries)
            self._queued += sum(map(len, entries))
            self._commit_soon(writer)
        writer.check()

    async def close(self, run: str) -> None:
        """Say that nothing more comes, and wait until it is kept."""
        writer = await self._writer(run)
        if writer is None:
            return
        writer.closing, writer.failure = True, None
        self._commit_soon(writer)
        while not writer.done:
            await self._committed.wait()
            if writer.failure is not None and not writer.done:
                # It is still to be closed, and will be when the file can be written again.
                raise writer.failure
        self._writers.pop(run, None)

    async def read(self, run: str, after: int, wait: float) -> Batch | None:
        """Return what is behind `after`, waiting up to `wait` seconds for it."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        batch = await self._shown.read(run, after, wait)
        while batch is None:
            found = await self._file.read(lambda connection: self._select(connection, run, after))
            left = until - loop.time()
            if found is None or found.entries or found.closed or left <= 0:
                return found
            await asyncio.sleep(min(left, _BETWEEN_LOOKS))
        return batch

    async def head(self, run: str) -> RunHead | None:
        """Whose run it is."""
        shown = await self._shown.head(run)
        if shown is not None:
            return shown
        found = await self._heads("WHERE run = ? AND (closed_at IS NULL OR closed_at > ?)", run, self._oldest())
        return found[0] if found else None

    async def runs(self, user: str, chat: str) -> list[RunHead]:
        """The runs of a chat that are kept."""
        kept = "WHERE user = ? AND chat = ? AND (closed_at IS NULL OR closed_at > ?) ORDER BY id"
        return await self._heads(kept, user, chat, self._oldest())

    async def question(self, run: str) -> bytes:
        """What the user said."""
        found = await self._file.rows("SELECT question FROM adkwire_runs WHERE run = ?", run)
        return (found[0][0] or b"") if found else b""

    async def unclosed(self, user: str | None = None, chat: str | None = None) -> list[RunHead]:
        """The runs that have no end."""
        of = {"user": user, "chat": chat}
        whose = "".join(f" AND {name} = ?" for name, value in of.items() if value is not None)
        named = [value for value in of.values() if value is not None]
        return await self._heads(f"WHERE closed_at IS NULL{whose} ORDER BY id", *named)

    async def forget(self, user: str, chat: str) -> None:
        """Drop the runs of a chat."""
        for run in await self._file.write(lambda connection: delete_chat(connection, user, chat)):
            if run in self._writers:
                self._let_go(self._writers.pop(run))
        await self._shown.forget(user, chat)

    async def aclose(self) -> None:
        """Commit what is queued and close the file."""
        if self._dirty or self._is_committing():
            await asyncio.wait([self._start_committing()])
        if self._retry is not None:
            self._retry.cancel()
        await self._file.close()

    async def _writer(self, run: str) -> _Writer | None:
        """The writer of a run that is open; of one that somebody else opened, a new one."""
        if run not in self._writers:
            found = await self._file.rows(
                "SELECT id, run, next, size FROM adkwire_runs WHERE run = ? AND closed_at IS NULL", run
            )
            for row in found:
                self._writers.setdefault(run, _Writer(*row, is_shown=False))
        return self._writers.get(run)

    async def _heads(self, where: str, *values: object) -> list[RunHead]:
        found = await self._file.rows(_HEADS + where, *values)
        return [msgspec.msgpack.decode(head, type=RunHead) for (head,) in found]

    def _oldest(self) -> float:
        """What was closed then, or before, is no longer kept."""
        return self._clock() - self._ttl

    def _commit_soon(self, writer: _Writer) -> None:
        self._dirty[writer.run] = writer
        self._start_committing()

    def _start_committing(self) -> "asyncio.Task[None]":
        if self._committer is None or self._committer.done():
            self._committer = asyncio.create_task(self._commit_all(), name="adkwire-stream-log")
        return self._committer

    def _is_committing(self) -> bool:
        return self._committer is not None and not self._committer.done()

    async def _commit_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._dirty:
            await asyncio.sleep(self._last_commit + _BETWEEN_COMMITS - loop.time())
            self._last_commit = loop.time()
            try:
                await self._commit()
            except Unavailable:
                self._retry = loop.call_later(_BETWEEN_TRIES, self._start_committing)
                return
            finally:
                committed, self._committed = self._committed, asyncio.Event()
                committed.set()

    async def _commit(self) -> None:
        """Commit what is queued now. What could not be committed stays queued."""
        dirty, self._dirty = self._dirty, {}
        jobs = [writer.job() for writer in dirty.values()]
        now = self._clock()
        try:
            sizes = await self._file.write(lambda connection: self._add(connection, jobs, now))
        except BaseException as error:
            self._dirty = dirty | self._dirty
            for writer, job in zip(dirty.values(), jobs, strict=True):
                writer.queue[:0] = job.entries
                writer.failure = error if isinstance(error, Unavailable) else None
            raise
        for writer, job, size in zip(dirty.values(), jobs, sizes, strict=True):
            self._queued -= sum(map(len, job.entries))
            await self._show(writer, job, size)

    async def _show(self, writer: _Writer, job: Job, size: int | None) -> None:
        """Pass on to the readers what was committed; without a size, the run was taken from us."""
        if size is None or writer.done:
            self._let_go(writer)
            self._shown.drop(writer.run)
            return
        writer.next += len(job.entries)
        writer.size = size
        writer.failure = None
        if writer.is_shown:
            await self._shown.append(writer.run, job.entries)
        if job.closes:
            self._let_go(self._writers.pop(writer.run))
            await self._shown.close(writer.run)

    def _let_go(self, writer: _Writer) -> None:
        writer.done = True
        self._dirty.pop(writer.run, None)
        self._queued -= sum(map(len, writer.queue))
        writer.queue.clear()

    def _insert(
        self, connection: sqlite3.Connection, head: RunHead, before: list[bytes], size: int, question: bytes
    ) -> int:
        self._sweep(connection)
        cursor = connection.execute(
            "INSERT INTO adkwire_runs (run, user, chat, head, question, next, size) VALUES (?, ?, ?, ?, ?, 0, ?)",
            (head.run, head.user, head.chat, msgspec.msgpack.encode(head), question, size),
        )
        id_ = cursor.lastrowid or 0
        insert_entries(connection, id_, -len(before), before)
        hold(connection, size)
        return id_

    def _add(self, connection: sqlite3.Connection, jobs: list[Job], now: float) -> list[int | None]:
        """How much each run holds now; None for those that somebody else has written in, ended or dropped."""
        max_bytes, max_run_bytes = self._limits
        sizes = [add_to_run(connection, job, now, max_run_bytes) for job in jobs]
        hold(connection, sum(size - job.size for job, size in zip(jobs, sizes, strict=True) if size is not None))
        make_room(connection, max_bytes)
        return sizes

    def _select(self, connection: sqlite3.Connection, run: str, after: int) -> Batch | None:
        found = connection.execute("SELECT id, next, closed_at FROM adkwire_runs WHERE run = ?", (run,)).fetchone()
        if found is None or (found[2] is not None and found[2] <= self._oldest()):
            return None
        id_, end, closed_at = found
        entries, first = select_entries(connection, id_, after, end)
        return Batch(first, entries, closed_at is not None and first + len(entries) >= end)

    def _sweep(self, connection: sqlite3.Connection) -> None:
        """Drop what is too old, a little at a time: nobody should wait for a long clearing up."""
        expired = connection.execute(
            "SELECT id, size FROM adkwire_runs WHERE closed_at <= ? ORDER BY closed_at LIMIT ?",
            (self._oldest(), _MAX_SWEPT_RUNS),
        ).fetchall()
        for id_, size in expired:
            delete(connection, id_, size)
