"""The gate's store in a SQLite file."""

from collections.abc import Collection
from pathlib import Path

from adkwire.stores.base import CallRow, GrantRow
from adkwire.stores.sqlite.file import SqliteFile

_TABLES = (
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
    "CREATE INDEX IF NOT EXISTS adkwire_calls_of_chat ON adkwire_calls (user, chat, state)",
    # By state first, so that calls that expired long ago and are over are not read again.
    "CREATE INDEX IF NOT EXISTS adkwire_calls_expiring ON adkwire_calls (state, expires_at)",
    """
    CREATE TABLE IF NOT EXISTS adkwire_grants (
        user TEXT NOT NULL,
        chat TEXT NOT NULL,
        what TEXT NOT NULL,
        PRIMARY KEY (user, chat, what)
    )
    """,
    # AUTOINCREMENT: the id of a grant that was taken back must never name another one.
    """
    CREATE TABLE IF NOT EXISTS adkwire_standing_grants (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        user TEXT NOT NULL,
        chat TEXT NOT NULL,
        what TEXT NOT NULL,
        data BLOB NOT NULL,
        UNIQUE (user, chat, what)
    )
    """,
    "CREATE INDEX IF NOT EXISTS adkwire_grants_of_user ON adkwire_standing_grants (user, id)",
    # Earlier releases keep grants without ids in `adkwire_grants`. They are moved, so that one that is taken back
    # does not come back when the file is opened again.
    "INSERT INTO adkwire_standing_grants (user, chat, what, data)"
    " SELECT user, chat, what, x'' FROM adkwire_grants WHERE TRUE ORDER BY rowid ON CONFLICT DO NOTHING",
    "DELETE FROM adkwire_grants",
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
# For one state: with several, SQLite would read all calls that expire in order to sort them.
_DUE = (
    "SELECT user, chat, call, state, data, expires_at, version, id FROM adkwire_calls"
    " WHERE state = ? AND expires_at <= ? ORDER BY expires_at, id LIMIT ?"
)
_NEXT_EXPIRY = (
    "SELECT expires_at FROM adkwire_calls WHERE state = ? AND expires_at IS NOT NULL ORDER BY expires_at LIMIT 1"
)
_GRANTS = "SELECT 1 FROM adkwire_standing_grants "
_LARGEST_ID = 2**63 - 1


class SqliteGateStore:
    """A `GateStore` that outlives the process."""

    def __init__(self, path: Path) -> None:
        # If a power cut could undo a claim, an approved call could be executed twice.
        self._file = SqliteFile(path, _TABLES, name="gate's store", synchronous="FULL")

    async def add(self, row: CallRow) -> bool:
        """Store a new call."""
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
        """Replace the version of a call that `row` names."""
        replaced = await self._change(
            "UPDATE adkwire_calls SET state = ?, data = ?, expires_at = ?, version = version + 1"
            " WHERE user = ? AND chat = ? AND call = ? AND version = ?",
            *(row.state, row.data, row.expires_at),
            *(row.user, row.chat, row.call, row.version),
        )
        return replaced == 1

    async def calls(self, user: str, chat: str) -> list[CallRow]:
        """Return all calls of a chat."""
        return await self._calls("WHERE user = ? AND chat = ? ORDER BY id", user, chat)

    async def find(self, user: str, states: Collection[str], chat: str | None = None) -> list[CallRow]:
        """Return the user's calls that are in one of the states, of all chats or of one."""
        in_states = f"state IN ({_marks(states)}) ORDER BY id"
        if chat is None:
            return await self._calls(f"WHERE user = ? AND {in_states}", user, *states)
        return await self._calls(f"WHERE user = ? AND chat = ? AND {in_states}", user, chat, *states)

    async def expiring(self, states: Collection[str], before: float, limit: int) -> list[CallRow]:
        """Return everybody's calls that are in one of the states and expire at `before` or earlier."""
        found = await self._file.read(
            lambda connection: [row for state in states for row in connection.execute(_DUE, (state, before, limit))]
        )
        earliest = sorted(found, key=lambda row: (row[5], row[7]))  # by expires_at and id
        return [CallRow(*row[:7]) for row in earliest[:limit]]

    async def next_expiry(self, states: Collection[str]) -> float | None:
        """Return the earliest time at which a call in one of the states expires."""
        found = await self._file.read(
            lambda connection: [row for state in states for row in connection.execute(_NEXT_EXPIRY, (state,))]
        )
        return min((expires_at for (expires_at,) in found), default=None)

    async def forget(self, user: str, chat: str) -> None:
        """Drop the calls and the grants of a chat."""
        # Grants first: if the second statement fails, nothing stays allowed.
        await self._change("DELETE FROM adkwire_standing_grants WHERE user = ? AND chat = ?", user, chat)
        await self._change("DELETE FROM adkwire_calls WHERE user = ? AND chat = ?", user, chat)

    async def grant(self, user: str, chat: str, what: str, data: bytes = b"") -> None:
        """Store a standing grant."""
        await self._change(
            "INSERT INTO adkwire_standing_grants (user, chat, what, data) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            *(user, chat, what, data),
        )

    async def granted(self, user: str, chat: str, what: Collection[str]) -> bool:
        """Return whether any of `what` is granted."""
        any_of_what = f"WHERE user = ? AND chat IN (?, '') AND what IN ({_marks(what)}) LIMIT 1"
        return bool(await self._file.rows(_GRANTS + any_of_what, user, chat, *what))

    async def grants(self, user: str, limit: int, before: int | None = None) -> list[GrantRow]:
        """Return the newest grants of a user."""
        found = await self._file.rows(
            "SELECT id, user, chat, what, data FROM adkwire_standing_grants WHERE user = ? AND id < ?"
            " ORDER BY id DESC LIMIT ?",
            *(user, _LARGEST_ID if before is None else before, limit),
        )
        return [GrantRow(*row) for row in found]

    async def revoke(self, user: str, grant: int) -> GrantRow | None:
        """Drop a grant of the user."""
        found = await self._file.write(
            lambda connection: connection.execute(
                "DELETE FROM adkwire_standing_grants WHERE user = ? AND id = ? RETURNING id, user, chat, what, data",
                (user, grant),
            ).fetchall()
        )
        return GrantRow(*found[0]) if found else None

    async def add_audit_line(self, user: str, chat: str, line: bytes) -> None:
        """Add a line to the audit."""
        await self._change("INSERT INTO adkwire_audit (user, chat, line) VALUES (?, ?, ?)", user, chat, line)

    async def audit_lines(self, user: str, chat: str) -> list[bytes]:
        """Return the audit of a chat."""
        found = await self._file.rows(
            "SELECT line FROM adkwire_audit WHERE user = ? AND chat = ? ORDER BY id", user, chat
        )
        return [line for (line,) in found]

    async def close(self) -> None:
        """Close the connection; the next operation opens another."""
        await self._file.close()

    async def _calls(self, where: str, *values: object) -> list[CallRow]:
        return [CallRow(*row) for row in await self._file.rows(_CALLS + where, *values)]

    async def _change(self, sql: str, *values: object) -> int:
        """Execute a statement and return the number of changed rows."""
        return await self._file.write(lambda connection: connection.execute(sql, values).rowcount)


def _marks(values: Collection[str]) -> str:
    """Return as many placeholders as there are values."""
    return ", ".join("?" * len(values))
