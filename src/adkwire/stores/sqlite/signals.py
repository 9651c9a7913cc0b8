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
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

from adkwire.errors import Unavailable
from adkwire.stores.sqlite.file import SqliteFile

logger = logging.getLogger("adkwire")

_BETWEEN_LOOKS = 0.1
"""Seconds between two looks for messages of other processes."""
_BETWEEN_HOLDER_CHECKS = 1.0
"""Seconds after which a worker that waits for a lease checks whether its holder still lives."""
_MESSAGE_TTL = 60.0
"""Seconds for which a message stays in the file, for the processes that have not read it yet."""
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
    """The number of the last message that it has received, or that was sent before it began."""
    queue: "asyncio.Queue[bytes | None]" = field(default_factory=lambda: asyncio.Queue[bytes | None]())

    def take(self, id_: int, topic: str, message: bytes) -> None:
        """Receive the next message, if it is of this topic."""
        self.after = id_
        if topic == self.topic:
            self.queue.put_nowait(message)

    async def wait(self, seconds: float) -> bool:
        """Wait for the next message, or until `seconds` have passed; return False when the worker was closed."""
        try:
            async with asyncio.timeout(seconds):
                return await self.queue.get() is not None
        except TimeoutError:
            return True


class SqliteSignals:
    """`Signals` between the processes that share a file.

    A worker writes the time into the file every `beat` seconds. It counts as dead when it has not done so for `ttl`
    seconds, and at once when its process ran on this host and is gone.
    """

    def __init__(
        self, path: Path, *, ttl: float = 15.0, beat: float = 5.0, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._file = SqliteFile(path, _TABLES, name="store of leases", synchronous="NORMAL")
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
            self._heart = _Heart(self._beat_once, self._beat)
        return last

    async def release(self, name: str) -> None:
        """Release a lease."""
        await self._file.write(lambda connection: self._give_back(connection, name))

    async def holder(self, name: str) -> str | None:
        """Return the living worker that holds a lease."""
        return await self._file.read(lambda connection: self._living_holder(connection, name))

    async def wait_free(self, name: str, seconds: float) -> bool:
        """Wait until no other living worker holds a lease; return False when `seconds` have passed before."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        # One read for both: a release after this look at the lease then also has a later number than `last`.
        is_free, last = await self._file.read(lambda one: (self._is_free(one, name), _last_message(one)))
        if is_free:
            return True
        with self._listening(_Listener(_release_topic(name), last)) as listener:
            while (left := deadline - loop.time()) > 0 and await listener.wait(min(left, _BETWEEN_HOLDER_CHECKS)):
                if await self._file.read(lambda one: self._is_free(one, name)):
                    return True
        return False

    async def forget(self, name: str) -> None:
        """Release a lease and forget its last holder."""
        await self._file.write(lambda connection: self._drop(connection, name))

    async def send(self, topic: str, message: bytes) -> None:
        """Send a message to all listeners of a topic."""
        now = self._clock()
        await self._file.write(lambda connection: _post(connection, _message_topic(topic), message, now))
        self._sent.set()

    async def listen(self, topic: str) -> AsyncGenerator[bytes, None]:
        """Yield the messages of a topic from the first step of the iteration on, until this worker is closed."""
        with self._listening(_Listener(_message_topic(topic), await self._file.read(_last_message))) as listener:
            while (message := await listener.queue.get()) is not None:
                yield message

    async def close(self) -> None:
        """Give all leases back, end what listens or waits, and close the file."""
        for listener in self._listeners:
            listener.queue.put_nowait(None)
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        if self._heart is not None:
            self._heart.stop()
            self._heart = None
            # If that fails, this worker counts as dead after a while.
            with contextlib.suppress(Unavailable):
                await self._file.write(self._sign_off)
        await self._file.close()

    def _take(self, connection: sqlite3.Connection, name: str) -> str | None:
        self._sign_on(connection)
        found = connection.execute("SELECT worker FROM adkwire_leases WHERE name = ?", (name,)).fetchone()
        if not self._is_free(connection, name):
            return None
        connection.execute(
            "INSERT INTO adkwire_leases VALUES (?, ?, 1)"
            " ON CONFLICT (name) DO UPDATE SET worker = excluded.worker, held = 1",
            (name, self._worker),
        )
        return found[0] if found else ""

    def _give_back(self, connection: sqlite3.Connection, name: str) -> None:
        released = connection.execute(
            "UPDATE adkwire_leases SET held = 0 WHERE name = ? AND worker = ? AND held", (name, self._worker)
        )
        if released.rowcount:
            _post(connection, _release_topic(name), b"", self._clock())

    def _drop(self, connection: sqlite3.Connection, name: str) -> None:
        self._give_back(connection, name)
        if self._is_free(connection, name):
            connection.execute("DELETE FROM adkwire_leases WHERE name = ?", (name,))

    def _is_free(self, connection: sqlite3.Connection, name: str) -> bool:
        """Return whether no other living worker holds a lease."""
        return self._living_holder(connection, name) in (None, self._worker)

    def _sign_on(self, connection: sqlite3.Connection) -> None:
        now = self._clock()
        # Dead workers that hold leases stay until these are taken: their names are needed until then.
        connection.execute(
            "DELETE FROM adkwire_workers AS gone WHERE beat <= ?"
            " AND NOT EXISTS (SELECT 1 FROM adkwire_leases WHERE worker = gone.worker AND held)",
            (now - self._ttl,),
        )
        pid = os.getpid()
        connection.execute(
            "INSERT INTO adkwire_workers VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (worker) DO UPDATE SET beat = excluded.beat",
            (self._worker, _host(), pid, _start_time(pid), now),
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
        beats = self._clock() - beat < self._ttl and (host != _host() or _is_running(pid, began))
        return worker if beats or worker == self._worker else None

    def _sign_off(self, connection: sqlite3.Connection) -> None:
        held = "SELECT name FROM adkwire_leases WHERE worker = ? AND held"
        for (name,) in connection.execute(held, (self._worker,)).fetchall():
            self._give_back(connection, name)
        connection.execute("DELETE FROM adkwire_workers WHERE worker = ?", (self._worker,))

    def _beat_once(self) -> None:
        """Write the time of this worker into the file; called in a thread, so with a connection of its own."""
        with contextlib.closing(sqlite3.connect(self._path, timeout=self._beat)) as connection, connection:
            connection.execute("UPDATE adkwire_workers SET beat = ? WHERE worker = ?", (self._clock(), self._worker))

    @contextlib.contextmanager
    def _listening(self, listener: _Listener) -> Generator[_Listener]:
        """Pass messages on to a listener as long as the context is open."""
        self._listeners.add(listener)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="adkwire-signals")
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    async def _look(self) -> None:
        """Read new messages again and again, as long as there are listeners."""
        while self._listeners:
            self._sent.clear()
            try:
                await self._deliver()
            except Unavailable:
                pass  # The file has logged it; the next look may succeed.
            except Exception:
                logger.exception("messages of other workers could not be read; the next look follows soon")
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
    """A thread that gives a sign of life regularly, also while a tool blocks the event loop."""

    def __init__(self, beat: Callable[[], None], every: float) -> None:
        self._beat = beat
        self._every = every
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="adkwire-heart", daemon=True).start()

    def stop(self) -> None:
        """Let the thread end before its next beat."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            try:
                self._beat()
            except Exception:
                # It must go on whatever happened: other workers would take this one for dead while it writes.
                logger.exception("this worker could not give a sign of life; it tries again in %s s", self._every)


def _post(connection: sqlite3.Connection, topic: str, message: bytes, now: float) -> None:
    connection.execute("INSERT INTO adkwire_messages (topic, message, sent) VALUES (?, ?, ?)", (topic, message, now))
    # Never the last message: the next one would get its number again.
    connection.execute(
        "DELETE FROM adkwire_messages WHERE id < (SELECT min(id) FROM adkwire_messages WHERE sent > ?)",
        (now - _MESSAGE_TTL,),
    )


def _message_topic(topic: str) -> str:
    """Return the stored name of a topic; its prefix keeps it apart from the releases of leases."""
    return f"message {topic}"


def _release_topic(lease: str) -> str:
    """Return the stored name of the topic on which workers learn that a lease was released."""
    return f"release {lease}"


def _last_message(connection: sqlite3.Connection) -> int:
    return connection.execute("SELECT coalesce(max(id), 0) FROM adkwire_messages").fetchone()[0]


@functools.cache
def _host() -> str:
    """Return a name for the set of processes with distinct pids: a machine since its start, or a container on it."""
    return f"{platform.node()} {_text('/proc/sys/kernel/random/boot_id')} {_link('/proc/self/ns/pid')}"


def _is_running(pid: int, began: str) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # A process of another user runs; when it was started may be hidden.
        return not _start_time(pid) or _start_time(pid) == began
    return _start_time(pid) == began


def _start_time(pid: int) -> str:
    """Return when a process was started, as its kernel writes it; "" if it has ended or the kernel does not say."""
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
