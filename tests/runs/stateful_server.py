"""A server that may crash at any write: a real bridge on a SQLite file, in an event loop of its own.

Everything that lasts goes through the four connections to the file. When the process dies before or after a write, the
file has the earlier writes and nothing else. So a server whose loop is stopped there for good has crashed.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite
from google.adk.events import Event
from google.adk.sessions.session import Session

from adkwire.adk.app import Target
from adkwire.adk.sessions import SqliteSessions
from adkwire.bridge import Bridge
from adkwire.errors import Unavailable
from adkwire.settings import Settings
from adkwire.stores.sqlite.file import SqliteFile, Work
from adkwire.stores.sqlite.gate import SqliteGateStore
from adkwire.stores.sqlite.signals import SqliteSignals
from adkwire.stores.sqlite.streams import SqliteStreamLog
from adkwire.stores.stores import Stores
from tests.patience import PATIENCE

_SOON = 0.03
"""Seconds: the server is not idle while a timer is due earlier."""

T = TypeVar("T")


class Crashed(Exception):
    """Raised when the server has crashed."""


class CrashPoint:
    """The write at which the server crashes, and what is under way at its file."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.writes_left: int | None = None
        self.after_write = False
        self.crashed = False
        self.discarded = False
        self.busy = 0
        self.writes = 0
        self._loop = loop

    def crash(self) -> None:
        self.crashed = True
        if self._loop.is_running():
            self._loop.stop()

    async def check_running(self) -> None:
        """Raise or block for ever if the server has crashed, so that its tasks do nothing more."""
        if self.discarded:
            raise Unavailable("This server is dead.")
        if self.crashed:
            await self._loop.create_future()

    @contextlib.contextmanager
    def working(self) -> Generator[None, None, None]:
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncGenerator[None, None]:
        """Count a write, and crash before or after it if it is the last one."""
        await self.check_running()
        self.writes += 1
        last = False
        if self.writes_left is not None:
            self.writes_left -= 1
            last = self.writes_left <= 0
        if last and not self.after_write:
            self.crash()
            await self.check_running()
        with self.working():
            yield
        if last:
            self.crash()
        await self.check_running()


class CrashingFile:
    """The file of a store, which does nothing more after a crash."""

    def __init__(self, inner: SqliteFile, crash_point: CrashPoint) -> None:
        self._inner = inner
        self._crash_point = crash_point

    async def read(self, work: Work[T]) -> T:
        await self._crash_point.check_running()
        with self._crash_point.working():
            result = await self._inner.read(work)
        await self._crash_point.check_running()
        return result

    async def write(self, work: Work[T]) -> T:
        async with self._crash_point.writing():
            return await self._inner.write(work)

    async def rows(self, sql: str, *values: object) -> list[Any]:
        return await self.read(lambda connection: connection.execute(sql, values).fetchall())

    async def close(self) -> None:
        await self._inner.close()


class CrashingSessions(SqliteSessions):
    """The sessions in the same file, which store nothing more after a crash."""

    def __init__(self, path: str, crash_point: CrashPoint) -> None:
        super().__init__(path)
        self._crash_point = crash_point

    @contextlib.asynccontextmanager
    async def _get_db_connection(self) -> AsyncGenerator[aiosqlite.Connection, None]:
        await self._crash_point.check_running()
        with self._crash_point.working():
            async with super()._get_db_connection() as connection:
                yield connection

    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return await super().append_event(session, event)
        async with self._crash_point.writing():
            return await super().append_event(session, event)

    async def create_session(self, **options: Any) -> Session:
        async with self._crash_point.writing():
            return await super().create_session(**options)

    async def delete_session(self, **options: Any) -> None:
        async with self._crash_point.writing():
            await super().delete_session(**options)


class Server:
    """One process: a bridge from its start to its end or crash."""

    def __init__(
        self, path: Path, make_agent: Callable[[], Target], clock: Callable[[], float], **options: Any
    ) -> None:
        self.loop = asyncio.new_event_loop()
        self.crash_point = CrashPoint(self.loop)
        self.settings = Settings.load(db=str(path), events_per_second=0, drain=0, heartbeat=3600, **options)
        self._path = path
        self._make_agent = make_agent
        self._clock = clock
        self.bridge = self._open_bridge()
        self.requests: set[asyncio.Task[Any]] = set()

    def _open_bridge(self) -> Bridge:
        settings, path = self.settings, self._path
        self.log = SqliteStreamLog(path, ttl=settings.stream_ttl, clock=self._clock)
        self.gates = SqliteGateStore(path)
        self.signals = SqliteSignals(path, clock=self._clock)
        self.sessions = CrashingSessions(str(path), self.crash_point)
        self._files: list[SqliteFile] = []
        stores: list[Any] = [self.log, self.gates, self.signals]
        for store in stores:
            self._files.append(store._file)
            store._file = CrashingFile(store._file, self.crash_point)
        return Bridge(
            self._make_agent(),
            settings=settings,
            session_service=self.sessions,
            stores=Stores(self.log, self.gates, self.signals),
            clock=self._clock,
        )

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the test in the server's loop; raise `Crashed` if the server crashes meanwhile."""
        task = self.loop.create_task(self._in_time(work), name="test")
        task.add_done_callback(self._stop)
        self.loop.run_forever()
        if self.crash_point.crashed:
            raise Crashed
        return task.result()

    def _stop(self, _: object) -> None:
        if not self.crash_point.discarded:
            self.loop.stop()

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        async with asyncio.timeout(PATIENCE):
            return await work

    def spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start a request, and do not wait for it."""
        task = self.loop.create_task(work, name="request")
        self.requests.add(task)
        task.add_done_callback(self.requests.discard)
        return task

    async def until_idle(self) -> None:
        """Wait until the server waits for the model, a tool, a person or a reader."""
        idle = 0
        while idle < 2:
            await asyncio.sleep(0)
            idle = idle + 1 if self._is_idle() else 0
            if not idle:
                await asyncio.sleep(0.001)

    def _is_idle(self) -> bool:
        loop: Any = self.loop
        soon = loop.time() + _SOON
        is_due = any(timer._when < soon and not timer._cancelled for timer in loop._scheduled)
        return not (loop._ready or self.crash_point.busy or is_due)

    def close(self) -> list[str]:
        """Close the bridge; return the names of the tasks that are left."""
        self.run(self.bridge.close())
        self.run(self._wait_for_requests())
        left = [task.get_name() for task in asyncio.all_tasks(self.loop)]
        self._end_loop()
        return left

    async def _wait_for_requests(self) -> None:
        if self.requests:
            await asyncio.wait(self.requests)

    def discard(self) -> None:
        """Free what a crashed server has. None of it reaches the file."""
        self.crash_point.crashed, self.crash_point.discarded = False, True
        self._cancel_all()
        signals: Any = self.signals
        if signals._heart is not None:
            signals._heart.stop()
        self.loop.run_until_complete(self._close_files())
        self._cancel_all()
        self._end_loop()
        with contextlib.closing(sqlite3.connect(self._path, timeout=PATIENCE)) as connection, connection:
            connection.execute("DELETE FROM adkwire_workers WHERE worker = ?", (self.signals.worker,))

    def _cancel_all(self) -> None:
        while tasks := asyncio.all_tasks(self.loop):
            for task in tasks:
                task.cancel()
            # A task that waits for another one which has ended has to be cancelled again.
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=0.1))

    async def _close_files(self) -> None:
        for file in self._files:
            await file.close()
        await self.sessions.close()

    def _end_loop(self) -> None:
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
