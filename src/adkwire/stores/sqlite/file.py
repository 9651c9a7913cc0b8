"""SqliteFile: transactions on a SQLite file, which may also hold ADK's sessions: our tables begin with `adkwire_`."""

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar

from adkwire.errors import Unavailable
from adkwire.stores.outages import is_outage

logger = logging.getLogger("adkwire")

_BUSY_TIMEOUT = 30.0
"""Seconds to wait for a file that other processes write: a message that waits is better than one that fails."""

_T = TypeVar("_T")
Work = Callable[[sqlite3.Connection], _T]
"""The statements of a transaction."""


class SqliteFile:
    """A connection, opened when it is first needed, with a thread that executes one transaction after the other.

    A transaction is executed wholly or not at all, also when the task that waits for it is cancelled.
    """

    def __init__(self, path: Path, tables: Sequence[str], *, name: str, synchronous: Literal["FULL", "NORMAL"]) -> None:
        self._path = path
        self._on_open = (f"PRAGMA synchronous = {synchronous}", "BEGIN IMMEDIATE", *tables, "COMMIT")
        self._name = name
        self._thread: _Thread | None = None

    async def read(self, work: Work[_T]) -> _T:
        """Execute a transaction that changes nothing; all its statements see one state of the file."""
        return await self._do("BEGIN", work)

    async def write(self, work: Work[_T]) -> _T:
        """Execute a transaction that may change something, and is committed when this returns."""
        return await self._do("BEGIN IMMEDIATE", work)

    async def rows(self, sql: str, *values: object) -> list[Any]:
        """Return all rows of a query."""
        return await self.read(lambda connection: connection.execute(sql, values).fetchall())

    async def close(self) -> None:
        """Close the connection after the transactions that were begun; the next one opens another."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.wrap_future(thread.end())

    async def _do(self, begin: str, work: Work[_T]) -> _T:
        if self._thread is None:
            self._thread = _Thread(self._path, self._on_open)
        try:
            return await asyncio.wrap_future(self._thread.submit(begin, work))
        except sqlite3.Error as error:
            if not is_outage(error):
                raise
            logger.warning("the %s failed: %s", self._name, type(error).__name__, exc_info=error)
            raise Unavailable(f"The {self._name} does not answer.", hint="Try again in a moment.") from error


class _Thread:
    """A connection and the only thread that uses it. A program that does not end the thread can still exit."""

    def __init__(self, path: Path, on_open: Sequence[str]) -> None:
        self._path = path
        self._on_open = on_open
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="adkwire-sqlite")
        self._connection: sqlite3.Connection | None = None

    def submit(self, begin: str, work: Work[_T]) -> "Future[_T]":
        return self._executor.submit(self._do, begin, work)

    def end(self) -> "Future[None]":
        ended = self._executor.submit(self._close)
        self._executor.shutdown(wait=False)
        return ended

    def _do(self, begin: str, work: Work[_T]) -> _T:
        if self._connection is None:
            self._connection = _open(self._path, self._on_open)
        connection = self._connection
        try:
            connection.execute(begin)
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _open(path: Path, on_open: Sequence[str]) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT, isolation_level=None)
    try:
        # It fails while another process is switching the file at this moment. Only speed depends on it.
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
        for statement in on_open:
            connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection
