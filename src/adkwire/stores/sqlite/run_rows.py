"""The tables of the stream log in a SQLite file, and functions that execute statements on them."""

import contextlib
import sqlite3
from typing import NamedTuple

from adkwire.stores.memory.streams import MAX_BATCH_BYTES

TABLES = (
    """
    CREATE TABLE IF NOT EXISTS adkwire_runs (
        id INTEGER PRIMARY KEY,
        run TEXT NOT NULL UNIQUE,
        user TEXT NOT NULL,
        chat TEXT NOT NULL,
        head BLOB NOT NULL,
        question BLOB,
        next INTEGER NOT NULL,
        size INTEGER NOT NULL,
        closed_at REAL
    )
    """,
    "CREATE INDEX IF NOT EXISTS adkwire_runs_of_chat ON adkwire_runs (user, chat)",
    "CREATE INDEX IF NOT EXISTS adkwire_runs_closed ON adkwire_runs (closed_at)",
    """
    CREATE TABLE IF NOT EXISTS adkwire_chunks (
        run INTEGER NOT NULL,
        number INTEGER NOT NULL,
        entry BLOB NOT NULL,
        PRIMARY KEY (run, number)
    ) WITHOUT ROWID
    """,
    # The bytes of all runs together, so that they need not be added up for every commit.
    "CREATE TABLE IF NOT EXISTS adkwire_stream_bytes (one INTEGER PRIMARY KEY, bytes INTEGER NOT NULL)",
    "INSERT INTO adkwire_stream_bytes SELECT 1, coalesce(sum(size), 0) FROM adkwire_runs WHERE true"
    " ON CONFLICT DO NOTHING",
)


class Addition(NamedTuple):
    """The entries that one commit adds to a run, and whether it closes the run."""

    id: int
    run: str
    next: int
    size: int
    entries: list[bytes]
    closes: bool


def add_to_run(connection: sqlite3.Connection, addition: Addition, now: float, max_bytes: int) -> int | None:
    """Add entries to a run and return its new size; None when another worker has written in, closed or dropped it."""
    end = addition.next + len(addition.entries)
    size = addition.size + sum(map(len, addition.entries))
    changed = connection.execute(
        "UPDATE adkwire_runs SET next = ?, size = ?, closed_at = ?"
        " WHERE id = ? AND run = ? AND next = ? AND closed_at IS NULL",
        (end, size, now if addition.closes else None, addition.id, addition.run, addition.next),
    )
    if changed.rowcount != 1:
        return None
    insert_entries(connection, addition.id, addition.next, addition.entries)
    if addition.closes:
        connection.execute("UPDATE adkwire_runs SET question = NULL WHERE id = ?", (addition.id,))
    if size > max_bytes:
        size -= _trim(connection, addition.id, end, size - max_bytes)
        connection.execute("UPDATE adkwire_runs SET size = ? WHERE id = ?", (size, addition.id))
    return size


def insert_entries(connection: sqlite3.Connection, id_: int, first: int, entries: list[bytes]) -> None:
    """Insert entries, numbered from `first` on."""
    rows = ((id_, number, entry) for number, entry in enumerate(entries, first))
    connection.executemany("INSERT INTO adkwire_chunks (run, number, entry) VALUES (?, ?, ?)", rows)


def select_entries(connection: sqlite3.Connection, id_: int, after: int, end: int) -> tuple[list[bytes], int]:
    """Return the entries after `after` that fit in one batch, and the number of the first."""
    sql = "SELECT number, entry FROM adkwire_chunks WHERE run = ? AND number > ? ORDER BY number"
    entries, first, room = list[bytes](), max(after + 1, end), MAX_BATCH_BYTES
    with contextlib.closing(connection.execute(sql, (id_, after))) as rows:
        for number, entry in rows:
            room -= len(entry)
            if entries and room < 0:
                break
            first = first if entries else number
            entries.append(entry)
    return entries, first


def _trim(connection: sqlite3.Connection, id_: int, end: int, excess: int) -> int:
    """Drop the oldest entries, but never the last one; return the bytes that were freed."""
    sql = "SELECT number, length(entry) FROM adkwire_chunks WHERE run = ? ORDER BY number"
    freed, first = 0, end - 1
    with contextlib.closing(connection.execute(sql, (id_,))) as rows:
        for number, length in rows:
            if freed >= excess or number == end - 1:
                first = number
                break
            freed += length
    connection.execute("DELETE FROM adkwire_chunks WHERE run = ? AND number < ?", (id_, first))
    return freed


def make_room(connection: sqlite3.Connection, max_bytes: int) -> None:
    """Drop closed runs, oldest first, while all runs together have more than `max_bytes`."""
    oldest = "SELECT id, size FROM adkwire_runs WHERE closed_at IS NOT NULL ORDER BY closed_at LIMIT 1"
    while connection.execute("SELECT bytes FROM adkwire_stream_bytes").fetchone()[0] > max_bytes:
        found = connection.execute(oldest).fetchone()
        if found is None:
            return
        delete(connection, *found)


def delete_chat(connection: sqlite3.Connection, user: str, chat: str) -> list[str]:
    """Drop the runs of a chat and return their ids."""
    of_chat = "SELECT id, size, run FROM adkwire_runs WHERE user = ? AND chat = ?"
    found = connection.execute(of_chat, (user, chat)).fetchall()
    for id_, size, _ in found:
        delete(connection, id_, size)
    return [run for _, _, run in found]


def delete(connection: sqlite3.Connection, id_: int, size: int) -> None:
    """Drop a run."""
    connection.execute("DELETE FROM adkwire_chunks WHERE run = ?", (id_,))
    connection.execute("DELETE FROM adkwire_runs WHERE id = ?", (id_,))
    change_total(connection, -size)


def change_total(connection: sqlite3.Connection, more: int) -> None:
    """Add a number of bytes, which may be negative, to the size of all runs together."""
    connection.execute("UPDATE adkwire_stream_bytes SET bytes = bytes + ?", (more,))
