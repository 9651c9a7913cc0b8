"""Stores in a SQLite file. It may be the one that holds ADK's sessions: our tables have a prefix of their own."""

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import AsyncGenerator, Collection
from pathlib import Path
from typing import Any, cast

import aiosqlite

from adkwire.errors import Unavailable
from adkwire.stores.base import CallRow

logger = logging.getLogger("adkwire")

_BUSY_TIMEOUT = 10.0
_ON_OPEN = (
    # A claim that a power cut takes back would let an approved call run twice.
    "PRAGMA synchronous = FULL",
    """
    CREATE TABLE IF NOT EXISTS adkwire_calls (
        id INTEGER PRIMARY KEY,
        user TEXT NOT NULL,
        chat TEXT NOT NULL,
        call TEXT NOT NULL,
        state TEXT NOT NULL,
        data BLOB NOT NULL,
        expires_at REAL,
        version INTEGER NOT NULL,
        UNIQUE (user, chat, call)
    )
    """,
    "CREATE INDEX IF NOT EXISTS adkwire_calls_of_user ON adkwire_calls (user, state)",
    # By state first: what expired long ago and is settled is not looked at again.
    "CREATE INDEX IF NOT EXISTS adkwire_calls_expiring ON adkwire_calls (state, expires_at)",
    """
    CREATE TABLE IF NOT EXISTS adkwire_grants (
        user TEXT NOT NULL,
        chat TEXT NOT NULL,
        what TEXT NOT NULL,
        PRIMARY KEY (user, chat, what)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS adkwire_audit (
        id INTEGER PRIMARY KEY,
        user TEXT NOT NULL,
        chat TEXT NOT NULL,
        line BLOB NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS adkwire_audit_of_chat ON adkwire_audit (user, chat)",
)
_CALLS = "SELECT user, chat, call, state, data, expires_at, version FROM adkwire_calls "
_GRANTS = "SELECT 1 FROM adkwire_grants "


class SqliteGateStore:
    """A `GateStore` on one connection, opened when it is needed first and used by one operation at a time.

    Every statement is a transaction of its own: whoever is cancelled leaves none open.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._one_at_a_time = asyncio.Lock()
        self._connection: aiosqlite.Connection | None = None

    async def add(self, row: CallRow) -> bool:
        """Keep a new call."""
        added = await self._change(
            "INSERT INTO adkwire_calls (user, chat, call, state, data, expires_at, version)"
            " VALUES (?, ?, ?, ?, ?, ?, 0) ON CONFLICT (user, chat, call) DO NOTHING",
            *(row.user, row.chat, row.call, row.state, row.data, row.expires_at),
        )
        return added == 1

    async def get(self, user: str, chat: str, call: str) -> CallRow | None:
        """Return one call."""
        found = await self._calls("WHERE user = ? AND chat = ? AND call = ?", user, chat, call)
        return found[0] if found else None

    async def replace(self, row: CallRow) -> bool:
        """Put `row` in the place of the same version."""
        replaced = await self._change(
            "UPDATE adkwire_calls SET state = ?, data = ?, expires_at = ?, version = version + 1"
            " WHERE user = ? AND chat = ? AND call = ? AND version = ?",
            *(row.state, row.data, row.expires_at),
            *(row.user, row.chat, row.call, row.version),
        )
        return replaced == 1

    async def calls(self, user: str, chat: str) -> list[CallRow]:
        """All calls of a chat."""
        return await self._calls("WHERE user = ? AND chat = ? ORDER BY id", user, chat)

    async def find(self, user: str, states: Collection[str]) -> list[CallRow]:
        """The user's calls in one of the states."""
        return await self._calls(f"WHERE user = ? AND state IN ({_marks(states)}) ORDER BY id", user, *states)

    async def expiring(self, states: Collection[str], before: float) -> list[CallRow]:
        """Everybody's calls in one of the states whose time is over."""
        due = f"WHERE state IN ({_marks(states)}) AND expires_at <= ? ORDER BY expires_at, id"
        return await self._calls(due, *states, before)

    async def forget(self, user: str, chat: str) -> None:
        """Drop the calls and the grants of a chat."""
        # What allows something goes first: the rest may have to be tried again.
        await self._change("DELETE FROM adkwire_grants WHERE user = ? AND chat = ?", user, chat)
        await self._change("DELETE FROM adkwire_calls WHERE user = ? AND chat = ?", user, chat)

    async def grant(self, user: str, chat: str, what: str) -> None:
        """Keep a standing grant."""
        await self._change(
            "INSERT INTO adkwire_grants (user, chat, what) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", user, chat, what
        )

    async def granted(self, user: str, chat: str, what: Collection[str]) -> bool:
        """Whether any of `what` is granted."""
        any_of_them = f"WHERE user = ? AND chat IN (?, '') AND what IN ({_marks(what)}) LIMIT 1"
        return bool(await self._rows(_GRANTS + any_of_them, user, chat, *what))

    async def write(self, user: str, chat: str, line: bytes) -> None:
        """Add a line to the audit."""
        await self._change("INSERT INTO adkwire_audit (user, chat, line) VALUES (?, ?, ?)", user, chat, line)

    async def lines(self, user: str, chat: str) -> list[bytes]:
        """The audit of a chat."""
        found = await self._rows("SELECT line FROM adkwire_audit WHERE user = ? AND chat = ? ORDER BY id", user, chat)
        return [line for (line,) in found]

    async def close(self) -> None:
        """Close the connection; the next operation opens another."""
        async with self._one_at_a_time:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()

    async def _calls(self, where: str, *values: object) -> list[CallRow]:
        return [CallRow(*row) for row in await self._rows(_CALLS + where, *values)]

    async def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows in one go: a cursor that is left half read would hold on to an old state of the file."""
        async with self._connected() as connection:
            return [tuple(row) for row in await connection.execute_fetchall(sql, values)]

    async def _change(self, sql: str, *values: object) -> int:
        """How many rows it was."""
        async with self._connected() as connection, connection.execute(sql, values) as cursor:
            return cursor.rowcount

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncGenerator[aiosqlite.Connection, None]:
        async with self._one_at_a_time:
            try:
                if self._connection is None:
                    self._connection = await _open(self._path)
                yield self._connection
            except sqlite3.Error as error:
                logger.warning("the gate's store failed: %s", type(error).__name__, exc_info=error)
                raise Unavailable("The gate's store does not answer.", hint="Try again in a moment.") from error


async def _open(path: Path) -> aiosqlite.Connection:
    opening = aiosqlite.connect(path, timeout=_BUSY_TIMEOUT, isolation_level=None)
    # A program that forgets to close the store must still be able to end.
    cast("Any", getattr(opening, "_thread", opening)).daemon = True
    connection = await opening
    try:
        # It fails at once while somebody else is just switching; nothing but speed depends on it.
        with contextlib.suppress(sqlite3.OperationalError):
            await connection.execute_fetchall("PRAGMA journal_mode = WAL")
        for statement in _ON_OPEN:
            await connection.execute_fetchall(statement)
    except BaseException:
        await connection.close()
        raise
    return connection


def _marks(values: Collection[str]) -> str:
    """As many placeholders as there are values."""
    return ", ".join("?" * len(values))
