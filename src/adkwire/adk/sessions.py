"""ADK's session services, with stamps and times on events, and operations that a cancellation does not cut in half.

`StampedSessions` stamps the events that a turn stores. `RunConfig.custom_metadata` could do that for
request/response runs, but ADK then copies it into every partial event, and in a live run one value would have to serve
all turns. A live run writes from several tasks. Everything else that is stored meanwhile has to use its handle of the
session: with a second handle the live run would fail.

It also finishes every operation, though the task that called it may be cancelled. A read that is cut in half keeps an
old transaction open, on which no write succeeds any more; of a write it would be unknown whether it is stored.

It also gives every event its time, since history is ordered by time: see `SessionClock`.

`SqliteSessions` keeps one connection open. ADK's own opens one for every operation, thread and all, which is most of
the time to a first word, and with some dozens of chats at once ends in "database is locked".
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

import aiosqlite
from google.adk.events.event import Event
from google.adk.platform.time import set_time_provider
from google.adk.sessions import BaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from adkwire.adk.stamps import add_stamp
from adkwire.adk.writer import WRITER, Writer, check_writer
from adkwire.stores.base import ChatKey

PATIENCE = 2.0
"""Seconds that a cancelled task waits for the operation that it has begun; the operation goes on if it is slower."""
_STEP = 4e-6
"""Seconds between two events of a session, at least. Stores round times to whole microseconds."""
_T = TypeVar("_T")

_ON_OPEN = (
    "PRAGMA foreign_keys = ON",
    # A killed process loses nothing; after a power cut the last moments may be missing, the file is whole.
    "PRAGMA synchronous = NORMAL",
    "PRAGMA busy_timeout = 30000",
)


class EventStamper(Protocol):
    """Decides which events of a live run are stored, and stamps them with their turn."""

    def stamp(self, event: Event) -> bool:
        """Stamp an event that is about to be stored; False leaves it out of the session."""
        ...

    def stored(self, event: Event, *, failed: bool = False) -> None:
        """Note that an event was stored, or failed to be."""
        ...


class SessionClock:
    """The time in one session: the injected clock, but strictly later than every time before it.

    Session services and history order events by their times. A clock that was set back, or one of another worker that
    is behind, would put what happens now before what has happened.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = float("-inf")

    def now(self, after: float = float("-inf")) -> float:
        """Return a time later than `after` and than all times that were returned before."""
        self._last = max(self._clock(), max(self._last, after) + _STEP)
        return self._last


@dataclass
class _Writing:
    """A turn of a chat whose events are being stored."""

    stamp: dict[str, Any]
    """The stamp of every event of the turn."""
    user_stamp: dict[str, Any]
    """What the stamp of the user's events says besides."""
    clock: SessionClock
    writer: Writer | None = field(default_factory=WRITER.get)
    invocation: str = ""
    """ADK's id of the run."""


@dataclass
class _Live:
    """A chat in which a live run writes."""

    stamper: EventStamper
    clock: SessionClock
    session: Session | None = None
    invocation: str = ""
    """ADK's id of the run; to us each of its turns is an invocation of its own."""
    storing: Event | None = None
    """The event that is being stored."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    writer: Writer | None = field(default_factory=WRITER.get)


_Registered = TypeVar("_Registered", _Writing, _Live)


def _unlocked(registered: _Registered | None) -> _Registered | None:
    """Return what writes in a chat, unless its task was abandoned."""
    if registered is None or (registered.writer is not None and registered.writer.is_locked_out):
        return None
    return registered


class StampedSessions(BaseSessionService):
    """A session service around the user's: while a turn runs, every event stored in its chat is stamped.

    Every event that is stored gets a time from `clock` that is later than that of the last event of its session.
    """

    def __init__(self, inner: BaseSessionService, clock: Callable[[], float] = time.time) -> None:
        self._inner = inner
        self._clock = clock
        self._writing: dict[ChatKey, _Writing] = {}
        self._live: dict[ChatKey, _Live] = {}

    @contextlib.contextmanager
    def stamping(
        self, key: ChatKey, stamp: dict[str, Any], user_stamp: dict[str, Any] | None = None
    ) -> Generator[None, None, None]:
        """Stamp what is stored in this chat with `stamp`, and events of the user also with `user_stamp`."""
        writing = self._writing[key] = _Writing(stamp, user_stamp or {}, SessionClock(self._clock))
        try:
            yield
        finally:
            # One that was abandoned may end when another has taken its place.
            if self._writing.get(key) is writing:
                del self._writing[key]

    def stamp(self, key: ChatKey) -> dict[str, Any] | None:
        """Return the stamp of events stored in a chat now; None when nothing runs in it."""
        writing = _unlocked(self._writing.get(key))
        return writing.stamp if writing is not None else None

    def now(self, key: ChatKey) -> float:
        """Return the time of an event that is shown in this chat and not stored.

        While an event is being stored it is a little earlier than that one, which is shown afterwards.
        """
        if (live := _unlocked(self._live.get(key))) is not None:
            return live.clock.now() if live.storing is None else live.storing.timestamp - _STEP / 2
        writing = _unlocked(self._writing.get(key))
        return writing.clock.now() if writing is not None else self._clock()

    @contextlib.contextmanager
    def live(self, key: ChatKey, stamper: EventStamper) -> "Generator[_Live, None, None]":
        """Let a live run write in a chat: `stamper` stamps what is stored meanwhile."""
        live = self._live[key] = _Live(stamper, SessionClock(self._clock))
        try:
            yield live
        finally:
            if self._live.get(key) is live:
                del self._live[key]

    def run_began(self, session: Session, invocation: str) -> None:
        """Note the invocation of a run, and of a live run its handle of the session, with which all others write."""
        key = ChatKey(session.user_id, session.id)
        if (live := _unlocked(self._live.get(key))) is not None:
            live.session, live.invocation = session, invocation
            live.clock.now(_last_time(session))
        elif key in self._writing:
            self._writing[key].invocation = invocation

    def is_running(self, key: ChatKey, invocation: str) -> bool:
        """Return whether this invocation is the run that writes in a chat now."""
        run = _unlocked(self._live.get(key)) or _unlocked(self._writing.get(key))
        return run is not None and run.invocation == invocation

    def handle(self, key: ChatKey) -> Session | None:
        """Return the session handle of the live run in a chat; None when there is none."""
        live = _unlocked(self._live.get(key))
        return live.session if live is not None else None

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event, stamped and with the time at which it is stored."""
        check_writer()
        key = ChatKey(session.user_id, session.id)
        if (live := _unlocked(self._live.get(key))) is not None:
            return await _uncancelled(self._append_live(live, session, event))
        writing = _unlocked(self._writing.get(key))
        if writing is not None:
            stamp = {**writing.stamp, **writing.user_stamp} if event.author == "user" else writing.stamp
            event.custom_metadata = add_stamp(event.custom_metadata, stamp)
        clock = writing.clock if writing is not None else SessionClock(self._clock)
        event.timestamp = clock.now(_last_time(session))
        return await _uncancelled(self._inner.append_event(session, event))

    async def _append_live(self, live: _Live, session: Session, event: Event) -> Event:
        async with live.lock:
            # Not when it was made: other events were shown since, and history has all in the order they were shown in.
            event.timestamp = live.clock.now(_last_time(session))
            if not live.stamper.stamp(event):
                return event
            failed, live.storing = True, event
            try:
                stored = await self._inner.append_event(session, event)
                failed = False
            finally:
                live.storing = None
                live.stamper.stored(event, failed=failed)
            return stored

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Create a session at the time of the injected clock."""

        async def made() -> Session:
            # In the context of this task only.
            set_time_provider(self._clock)
            return await self._inner.create_session(
                app_name=app_name, user_id=user_id, state=state, session_id=session_id
            )

        return await _uncancelled(made())

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Read a session, to the end also if the caller is cancelled."""
        found = self._inner.get_session(app_name=app_name, user_id=user_id, session_id=session_id, config=config)
        return await _uncancelled(found)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """List sessions, to the end also if the caller is cancelled."""
        return await _uncancelled(self._inner.list_sessions(app_name=app_name, user_id=user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session, to the end also if the caller is cancelled."""
        await _uncancelled(self._inner.delete_session(app_name=app_name, user_id=user_id, session_id=session_id))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Read the state of a user, to the end also if the caller is cancelled."""
        return await _uncancelled(self._inner.get_user_state(app_name=app_name, user_id=user_id))

    async def flush(self) -> None:
        """Flush the inner service."""
        await self._inner.flush()

    async def close(self) -> None:
        """Close the inner service, if it can be closed."""
        close = getattr(self._inner, "close", None)
        if close is not None:
            await close()


def _last_time(session: Session) -> float:
    """Return the time of the last event of a session, as far as a handle of it knows."""
    newest = session.events[-1].timestamp if session.events else session.last_update_time
    return max(newest, session.last_update_time)


async def _uncancelled(operation: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of an operation that is not cancelled with the task that awaits it."""
    task = asyncio.ensure_future(operation)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_discard_result)
        await asyncio.wait([task], timeout=PATIENCE)
        raise


def _discard_result(task: "asyncio.Task[Any]") -> None:
    """Discard the task's result so that asyncio does not warn."""
    if not task.cancelled():
        task.exception()


class SqliteSessions(SqliteSessionService):
    """ADK's SQLite service on one connection, used by one operation at a time."""

    def __init__(self, db_path: str) -> None:
        super().__init__(db_path)
        self._one_at_a_time = asyncio.Lock()
        self._connection: aiosqlite.Connection | None = None

    @contextlib.asynccontextmanager
    async def _get_db_connection(self) -> AsyncGenerator[aiosqlite.Connection, None]:
        async with self._one_at_a_time:
            connection = self._connection or await self._open()
            try:
                yield connection
            except BaseException:
                await connection.rollback()
                raise

    async def _open(self) -> aiosqlite.Connection:
        async with super()._get_db_connection():
            pass  # ADK makes its tables here
        opening = aiosqlite.connect(self._db_connect_path, uri=self._db_connect_uri)
        # A program that forgets to close the bridge must still be able to end.
        cast("Any", getattr(opening, "_thread", opening)).daemon = True
        connection = await opening
        try:
            connection.row_factory = aiosqlite.Row
            # Two connections that open a new file at once may not both switch it; the other one has then done so.
            with contextlib.suppress(sqlite3.OperationalError):
                await connection.execute("PRAGMA journal_mode = WAL")
            for pragma in _ON_OPEN:
                await connection.execute(pragma)
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        return connection

    async def close(self) -> None:
        """Close the connection; the next operation opens another."""
        async with self._one_at_a_time:
            if self._connection is not None:
                await self._connection.close()
                self._connection = None
