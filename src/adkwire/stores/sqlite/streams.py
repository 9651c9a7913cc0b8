"""The stream log in a SQLite file."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from adkwire.errors import Unavailable
from adkwire.stores.base import Batch, Closed, RunHead
from adkwire.stores.memory.streams import MemoryStreamLog
from adkwire.stores.sqlite.file import SqliteFile
from adkwire.stores.sqlite.run_rows import (
    TABLES,
    Addition,
    add_to_run,
    change_total,
    delete,
    delete_chat,
    insert_entries,
    make_room,
    select_entries,
)

logger = logging.getLogger("adkwire")

_BETWEEN_COMMITS = 0.01
"""Seconds between two commits."""
_BETWEEN_TRIES = 5.0
"""Seconds until a failed commit is tried again."""
_BETWEEN_LOOKS = 0.05
"""Seconds between two looks for entries that another process writes."""
_MAX_QUEUED_BYTES = 4_000_000
"""Bytes that wait for a commit at most; then `append` waits."""
_MAX_SWEPT_RUNS = 20
"""Expired runs that are dropped at once at most, so that no message waits for a long cleaning."""
_HEADS = "SELECT head FROM adkwire_runs "


@dataclass(slots=True)
class _Writer:
    """A run that this process writes: its state in the file, and the entries that wait for a commit."""

    id: int
    run: str
    next: int
    size: int
    in_memory: bool
    """True if the run is also in the memory of this process, for readers."""
    queue: list[bytes] = field(default_factory=list[bytes])
    closing: bool = False
    done: bool = False
    failure: Exception | None = None

    def take_queue(self) -> Addition:
        """Return the queued entries for a commit, and empty the queue."""
        entries, self.queue = self.queue, []
        return Addition(self.id, self.run, self.next, self.size, entries, self.closing)

    def check(self) -> None:
        """Raise the error of a failed commit, once; raise `Closed` when the run is closing."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        if self.closing:
            raise Closed


class SqliteStreamLog:
    """A `StreamLog` in a file: what a reader has seen is in the file, whenever the process is killed.

    `append` queues entries. The queued entries of all runs are committed together, at once or 10 ms after the last
    commit, and then go to readers through the memory. Entries of other processes are read from the file.
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
        self._memory = MemoryStreamLog(ttl=ttl, max_bytes=max_bytes, max_run_bytes=max_run_bytes, clock=clock)
        self._ttl = ttl
        self._limits = (max_bytes, max_run_bytes)
        self._clock = clock
        self._writers: dict[str, _Writer] = {}
        self._dirty: dict[str, _Writer] = {}
        self._queued = 0
        self._committed = asyncio.Event()
        """Set by the next commit, whether it succeeds or not, and then replaced by a new event."""
        self._committer: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._last_commit = float("-inf")

    async def open(self, head: RunHead, before: Sequence[bytes] = (), user_message: bytes = b"") -> None:
        """Begin the log of a run."""
        entries, size = list(before), sum(map(len, before))
        id_ = await self._file.write(lambda connection: self._insert(connection, head, entries, size, user_message))
        await self._memory.open(head, entries)
        self._writers[head.run] = _Writer(id_, head.run, next=0, size=size, in_memory=True)

    async def append(self, run: str, entries: Sequence[bytes]) -> None:
        """Add entries after the last one."""
        writer = await self._writer(run)
        while writer and self._queued > _MAX_QUEUED_BYTES and not (writer.failure or writer.done):
            await self._committed.wait()
        if writer is None or writer.done:
            # Another worker has closed or dropped the run. If this worker appends again, it starts from the file.
            self._writers.pop(run, None)
            raise Closed
        if not writer.closing:
            # Also when an earlier commit has failed, which `check` raises: if the caller goes on, nothing is missing.
            writer.queue.extend(entries)
            self._queued += sum(map(len, entries))
            self._commit_soon(writer)
        writer.check()

    async def close(self, run: str) -> None:
        """Close a run, and wait until that is in the file."""
        writer = await self._writer(run)
        if writer is None:
            return
        writer.closing, writer.failure = True, None
        self._commit_soon(writer)
        while not writer.done:
            await self._committed.wait()
            if writer.failure is not None and not writer.done:
                # The run will be closed when the file can be written again.
                raise writer.failure
        self._writers.pop(run, None)

    async def read(self, run: str, after: int, wait: float) -> Batch | None:
        """Return entries after `after`, waiting up to `wait` seconds for them."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        batch = await self._memory.read(run, after, wait)
        while batch is None:
            found = await self._file.read(lambda connection: self._select(connection, run, after))
            left = until - loop.time()
            if found is None or found.entries or found.closed or left <= 0:
                return found
            await asyncio.sleep(min(left, _BETWEEN_LOOKS))
        return batch

    async def head(self, run: str) -> RunHead | None:
        """Return the head of a run."""
        in_memory = await self._memory.head(run)
        if in_memory is not None:
            return in_memory
        found = await self._heads("WHERE run = ? AND (closed_at IS NULL OR closed_at > ?)", run, self._oldest())
        return found[0] if found else None

    async def runs(self, user: str, chat: str) -> list[RunHead]:
        """Return the heads of a chat's runs that are kept."""
        kept = "WHERE user = ? AND chat = ? AND (closed_at IS NULL OR closed_at > ?) ORDER BY id"
        return await self._heads(kept, user, chat, self._oldest())

    async def user_message(self, run: str) -> bytes:
        """Return the user message of an open run."""
        found = await self._file.rows("SELECT question FROM adkwire_runs WHERE run = ?", run)
        return (found[0][0] or b"") if found else b""

    async def unclosed(self, user: str | None = None, chat: str | None = None) -> list[RunHead]:
        """Return the heads of open runs."""
        of = {"user": user, "chat": chat}
        whose = "".join(f" AND {name} = ?" for name, value in of.items() if value is not None)
        named = [value for value in of.values() if value is not None]
        return await self._heads(f"WHERE closed_at IS NULL{whose} ORDER BY id", *named)

    async def forget(self, user: str, chat: str) -> None:
        """Drop the runs of a chat."""
        for run in await self._file.write(lambda connection: delete_chat(connection, user, chat)):
            if run in self._writers:
                self._let_go(self._writers.pop(run))
        await self._memory.forget(user, chat)

    async def aclose(self) -> None:
        """Commit what is queued and close the file."""
        if self._dirty or self._is_committing():
            await asyncio.wait([self._start_committing()])
        if self._retry is not None:
            self._retry.cancel()
        await self._file.close()

    async def _writer(self, run: str) -> _Writer | None:
        """Return the writer of an open run; a new one if another worker opened the run; None if it is not open."""
        if run not in self._writers:
            found = await self._file.rows(
                "SELECT id, run, next, size FROM adkwire_runs WHERE run = ? AND closed_at IS NULL", run
            )
            for row in found:
                self._writers.setdefault(run, _Writer(*row, in_memory=False))
        return self._writers.get(run)

    async def _heads(self, where: str, *values: object) -> list[RunHead]:
        found = await self._file.rows(_HEADS + where, *values)
        return [msgspec.msgpack.decode(head, type=RunHead) for (head,) in found]

    def _oldest(self) -> float:
        """Return the time before which closed runs are no longer kept."""
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
            except Exception as error:
                if not isinstance(error, Unavailable):
                    logger.exception("chunks could not be committed because of a bug")
                self._retry = loop.call_later(_BETWEEN_TRIES, self._start_committing)
                return
            finally:
                committed, self._committed = self._committed, asyncio.Event()
                committed.set()

    async def _commit(self) -> None:
        """Commit the queued entries; they stay queued if that fails."""
        dirty, self._dirty = self._dirty, {}
        additions = [writer.take_queue() for writer in dirty.values()]
        now = self._clock()
        try:
            sizes = await self._file.write(lambda connection: self._add(connection, additions, now))
        except BaseException as error:
            self._dirty = dirty | self._dirty
            for writer, addition in zip(dirty.values(), additions, strict=True):
                writer.queue[:0] = addition.entries
                writer.failure = error if isinstance(error, Exception) else None
            raise
        for writer, addition, size in zip(dirty.values(), additions, sizes, strict=True):
            self._queued -= sum(map(len, addition.entries))
            await self._show(writer, addition, size)

    async def _show(self, writer: _Writer, addition: Addition, size: int | None) -> None:
        """Pass committed entries on to readers; without a size, another worker has taken over the run."""
        if size is None or writer.done:
            self._let_go(writer)
            self._memory.drop(writer.run)
            return
        writer.next += len(addition.entries)
        writer.size = size
        writer.failure = None
        if writer.in_memory:
            await self._memory.append(writer.run, addition.entries)
        if addition.closes:
            self._let_go(self._writers.pop(writer.run))
            await self._memory.close(writer.run)

    def _let_go(self, writer: _Writer) -> None:
        writer.done = True
        self._dirty.pop(writer.run, None)
        self._queued -= sum(map(len, writer.queue))
        writer.queue.clear()

    def _insert(
        self, connection: sqlite3.Connection, head: RunHead, before: list[bytes], size: int, user_message: bytes
    ) -> int:
        self._sweep(connection)
        cursor = connection.execute(
            "INSERT INTO adkwire_runs (run, user, chat, head, question, next, size) VALUES (?, ?, ?, ?, ?, 0, ?)",
            (head.run, head.user, head.chat, msgspec.msgpack.encode(head), user_message, size),
        )
        id_ = cursor.lastrowid or 0
        insert_entries(connection, id_, -len(before), before)
        change_total(connection, size)
        return id_

    def _add(self, connection: sqlite3.Connection, additions: list[Addition], now: float) -> list[int | None]:
        """Return the new size of each run; None for a run that another worker has written in, closed or dropped."""
        max_bytes, max_run_bytes = self._limits
        sizes = [add_to_run(connection, addition, now, max_run_bytes) for addition in additions]
        change_total(
            connection,
            sum(size - addition.size for addition, size in zip(additions, sizes, strict=True) if size is not None),
        )
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
        """Drop some of the runs that have expired."""
        expired = connection.execute(
            "SELECT id, size FROM adkwire_runs WHERE closed_at <= ? ORDER BY closed_at LIMIT ?",
            (self._oldest(), _MAX_SWEPT_RUNS),
        ).fetchall()
        for id_, size in expired:
            delete(connection, id_, size)
