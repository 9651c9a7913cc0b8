"""Leases and messages between workers that share a SQLite file."""

import asyncio
import contextlib
import functools
import logging
import os
import platform
import secrets
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from adkwire.errors import Unavailable
from adkwire.stores.sqlite_file import SqliteFile

logger = logging.getLogger("adkwire")

_BETWEEN_LOOKS = 0.1
_MESSAGE_TTL = 60.0
_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS adkwire_workers (
        worker TEXT PRIMARY KEY,
        host TEXT NOT NULL,
        pid INTEGER NOT NULL,
        began TEXT NOT NULL,
        beat REAL NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS adkwire_leases (
        name TEXT PRIMARY KEY,
        worker TEXT NOT NULL,
        held INTEGER NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS adkwire_leases_of_worker ON adkwire_leases (worker, held)",
    """
    CREATE TABLE IF NOT EXISTS adkwire_messages (
        id INTEGER PRIMARY KEY,
        topic TEXT NOT NULL,
        message BLOB NOT NULL,
        sent REAL NOT NULL
    )
    """,
)


@dataclass(slots=True, eq=False)
class _Listener:
    topic: str
    after: int
    """The last message that it has heard, or that was there before it."""
    queue: "asyncio.Queue[bytes | None]" = field(default_factory=lambda: asyncio.Queue[bytes | None]())

    def take(self, id_: int, topic: str, message: bytes) -> None:
        """Hear the next message, if it is for this topic."""
        self.after = id_
        if topic == self.topic:
            self.queue.put_nowait(message)


class SqliteSignals:
    """`Signals` among the processes that share a file.

    A worker is dead when it has not beaten for `ttl` seconds. One that is seen to be gone, because its process ran on
    this host, is dead at once.
    """

    def __init__(
        self, path: Path, *, ttl: float = 15.0, beat: float = 5.0, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._file = SqliteFile(path, _TABLES, name="workers' store", synchronous="NORMAL")
        self._ttl = ttl
        self._beat = beat
        self._clock = clock
        self._worker = secrets.token_hex(8)
        self._heart: _Heart | None = None
        self._listeners: set[_Listener] = set()
        self._looking: asyncio.Task[None] | None = None
        self._sent = asyncio.Event()

    @property
    def worker(self) -> str:
        """The name of this worker."""
        return self._worker

    async def acquire(self, name: str) -> str | None:
        """Take or keep a lease."""
        last = await self._file.write(lambda connection: self._take(connection, name))
        if last is not None and self._heart is None:
            self._heart = _Heart(self._give_sign, self._beat)
        return last

    async def release(self, name: str) -> None:
        """Give a lease back."""
        given_back = "UPDATE adkwire_leases SET held = 0 WHERE name = ? AND worker = ?"
        await self._file.write(lambda connection: connection.execute(given_back, (name, self._worker)))

    async def holder(self, name: str) -> str | None:
        """The living worker that has a lease."""
        return await self._file.read(lambda connection: self._living_holder(connection, name))

    async def forget(self, name: str) -> None:
        """Give a lease back and drop who held it last."""
        await self._file.write(lambda connection: self._drop(connection, name))

    async def send(self, topic: str, message: bytes) -> None:
        """Tell all who listen to a topic."""
        now = self._clock()
        await self._file.write(lambda connection: _post(connection, topic, message, now))
        self._sent.set()

    async def listen(self, topic: str) -> AsyncGenerator[bytes, None]:
        """What is sent to a topic from the first step of the iteration on, until this worker is closed."""
        listener = _Listener(topic, await self._file.read(_last_message))
        self._listeners.add(listener)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="adkwire-signals")
        try:
            while (message := await listener.queue.get()) is not None:
                yield message
        finally:
            self._listeners.discard(listener)

    async def close(self) -> None:
        """Give all leases back, end what listens and close the file."""
        for listener in self._listeners:
            listener.queue.put_nowait(None)
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        if self._heart is not None:
            self._heart.stop()
            self._heart = None
            # Whoever cannot be told now will see that this worker no longer beats.
            with contextlib.suppress(Unavailable):
                await self._file.write(self._resign)
        await self._file.close()

    def _take(self, connection: sqlite3.Connection, name: str) -> str | None:
        self._enrol(connection)
        found = connection.execute("SELECT worker FROM adkwire_leases WHERE name = ?", (name,)).fetchone()
        if not self._is_free(connection, name):
            return None
        connection.execute(
            "INSERT INTO adkwire_leases VALUES (?, ?, 1)"
            " ON CONFLICT (name) DO UPDATE SET worker = excluded.worker, held = 1",
            (name, self._worker),
        )
        return found[0] if found else ""

    def _drop(self, connection: sqlite3.Connection, name: str) -> None:
        if self._is_free(connection, name):
            connection.execute("DELETE FROM adkwire_leases WHERE name = ?", (name,))

    def _is_free(self, connection: sqlite3.Connection, name: str) -> bool:
        """Whether no other living worker has it."""
        return self._living_holder(connection, name) in (None, self._worker)

    def _enrol(self, connection: sqlite3.Connection) -> None:
        now = self._clock()
        # A row that bears no lease says nothing; the others go when their leases are taken.
        connection.execute(
            "DELETE FROM adkwire_workers AS gone WHERE beat <= ?"
            " AND NOT EXISTS (SELECT 1 FROM adkwire_leases WHERE worker = gone.worker AND held)",
            (now - self._ttl,),
        )
        pid = os.getpid()
        connection.execute(
            "INSERT INTO adkwire_workers VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (worker) DO UPDATE SET beat = excluded.beat",
            (self._worker, _host(), pid, _began(pid), now),
        )

    def _living_holder(self, connection: sqlite3.Connection, name: str) -> str | None:
        found = connection.execute(
            "SELECT worker, host, pid, began, beat FROM adkwire_leases JOIN adkwire_workers USING (worker)"
            " WHERE name = ? AND held",
            (name,),
        ).fetchone()
        if found is None:
            return None
        worker, host, pid, began, beat = found
        beats = self._clock() - beat < self._ttl and (host != _host() or _still_runs(pid, began))
        return worker if beats or worker == self._worker else None

    def _resign(self, connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE adkwire_leases SET held = 0 WHERE worker = ? AND held", (self._worker,))
        connection.execute("DELETE FROM adkwire_workers WHERE worker = ?", (self._worker,))

    def _give_sign(self) -> None:
        """Called in a thread of its own, so with a connection of its own."""
        with contextlib.closing(sqlite3.connect(self._path, timeout=self._beat)) as connection, connection:
            connection.execute("UPDATE adkwire_workers SET beat = ? WHERE worker = ?", (self._clock(), self._worker))

    async def _look(self) -> None:
        """Look for messages as long as somebody listens."""
        while self._listeners:
            self._sent.clear()
            with contextlib.suppress(Unavailable):
                await self._deliver()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_BETWEEN_LOOKS):
                    await self._sent.wait()

    async def _deliver(self) -> None:
        after = min(listener.after for listener in self._listeners)
        found = await self._file.rows("SELECT id, topic, message FROM adkwire_messages WHERE id > ? ORDER BY id", after)
        for id_, topic, message in found:
            for listener in self._listeners:
                if id_ > listener.after:
                    listener.take(id_, topic, message)


class _Heart:
    """Gives a sign of life now and then, also while the event loop is held up by a tool that blocks it."""

    def __init__(self, beat: Callable[[], None], every: float) -> None:
        self._beat = beat
        self._every = every
        self._stopped = threading.Event()
        threading.Thread(target=self._go_on, name="adkwire-heart", daemon=True).start()

    def stop(self) -> None:
        """Do not begin another beat."""
        self._stopped.set()

    def _go_on(self) -> None:
        while not self._stopped.wait(self._every):
            try:
                self._beat()
            except sqlite3.Error as error:
                logger.warning("this worker could not say that it lives: %s", type(error).__name__)


def _post(connection: sqlite3.Connection, topic: str, message: bytes, now: float) -> None:
    connection.execute("INSERT INTO adkwire_messages (topic, message, sent) VALUES (?, ?, ?)", (topic, message, now))
    # In the order of their numbers, and never the last: the next would get a number that was there before.
    connection.execute(
        "DELETE FROM adkwire_messages WHERE id < (SELECT min(id) FROM adkwire_messages WHERE sent > ?)",
        (now - _MESSAGE_TTL,),
    )


def _last_message(connection: sqlite3.Connection) -> int:
    return connection.execute("SELECT coalesce(max(id), 0) FROM adkwire_messages").fetchone()[0]


@functools.cache
def _host() -> str:
    """Where process numbers mean the same: a machine since it was started, or a container on it."""
    return f"{platform.node()} {_text('/proc/sys/kernel/random/boot_id')} {_link('/proc/self/ns/pid')}"


def _still_runs(pid: int, began: str) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # Another user's: it runs, and it may be hidden from us what it is.
        return not _began(pid) or _began(pid) == began
    return _began(pid) == began


def _began(pid: int) -> str:
    """When a process was started, in the words of its kernel; "" where that is not told, and of one that has ended."""
    _, _, fields = _text(f"/proc/{pid}/stat").rpartition(")")
    state, *others = fields.split() or [""]
    return others[18] if state not in ("", "Z", "X") else ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
