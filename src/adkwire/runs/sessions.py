"""ADK's session services, with what adkwire needs of them beside keeping events.

`MarkedSessions` stamps what is stored in a chat with the turn at hand. `RunConfig.custom_metadata` could do that for
request/response runs, but ADK then copies it into every partial event, and in a live run one value would have to serve
all turns. A live run also writes from several tasks, and whoever else has something to write has to use its handle of
the session: a second one would make it fail.

It also lets every operation come to its end, though whoever wanted it may be cancelled. Half of one is worse than
nothing: what was being read keeps an old view of the file open, on which no write succeeds any more, and nobody knows
whether an event that was being written is in the session.

`SqliteSessions` keeps one connection open. ADK's own opens one for every operation, thread and all, which is most of
the time to a first word, and with some dozens of chats at once ends in "database is locked".
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncGenerator, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import aiosqlite
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from adkwire.runs.history import marked

PATIENCE = 2.0
"""Seconds that somebody who is cancelled waits for what it had begun; that ends by itself, sooner or later."""
_T = TypeVar("_T")

_ON_OPEN = (
    "PRAGMA foreign_keys = ON",
    # A killed process loses nothing; after a power cut the last moments may be missing, the file is whole.
    "PRAGMA synchronous = NORMAL",
    "PRAGMA busy_timeout = 30000",
)


class ChatKey(NamedTuple):
    """Whose chat, and which. Two users may use the same id without ever meeting."""

    user: str
    chat: str


class Scribe(Protocol):
    """Says what is stored of a live run, and as part of what."""

    def stamp(self, event: Event) -> bool:
        """Stamp an event that is about to be stored; False leaves it out of the session."""
        ...

    def stored(self, event: Event, *, failed: bool = False) -> None:
        """It is stored, or could not be."""
        ...


@dataclass
class _Live:
    """A chat in which a live run writes."""

    scribe: Scribe
    session: Session | None = None
    invocation: str = ""
    """What ADK calls the run; to us each of its turns is an invocation of its own."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class MarkedSessions(BaseSessionService):
    """Somebody's session service; while a turn runs, every event stored in its chat is stamped."""

    def __init__(self, inner: BaseSessionService) -> None:
        self._inner = inner
        self._marks: dict[ChatKey, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._live: dict[ChatKey, _Live] = {}

    @contextlib.contextmanager
    def marking(
        self, key: ChatKey, mark: dict[str, Any], said: dict[str, Any] | None = None
    ) -> Generator[None, None, None]:
        """Stamp what is stored in this chat with `mark`, and what the user says also with `said`."""
        self._marks[key] = mark, said or {}
        try:
            yield
        finally:
            del self._marks[key]

    def mark(self, key: ChatKey) -> dict[str, Any] | None:
        """What the events of a chat are stamped with now; None when nothing runs."""
        return self._marks[key][0] if key in self._marks else None

    @contextlib.contextmanager
    def live(self, key: ChatKey, scribe: Scribe) -> "Generator[_Live, None, None]":
        """While a live run has this chat, its scribe stamps what is stored."""
        live = self._live[key] = _Live(scribe)
        try:
            yield live
        finally:
            del self._live[key]

    def opened(self, session: Session, invocation: str) -> None:
        """A live run writes with this handle, and so must everybody else."""
        live = self._live.get(ChatKey(session.user_id, session.id))
        if live is not None:
            live.session, live.invocation = session, invocation

    def handle(self, key: ChatKey) -> Session | None:
        """The handle of the live run that has this chat."""
        live = self._live.get(key)
        return live.session if live is not None else None

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event, stamped."""
        live = self._live.get(ChatKey(session.user_id, session.id))
        if live is not None:
            return await _whole(self._append_live(live, session, event))
        marks = self._marks.get(ChatKey(session.user_id, session.id))
        if marks is not None:
            mark, said = marks
            event.custom_metadata = marked(event.custom_metadata, {**mark, **said} if event.author == "user" else mark)
        return await _whole(self._inner.append_event(session, event))

    async def _append_live(self, live: _Live, session: Session, event: Event) -> Event:
        async with live.lock:
            if not live.scribe.stamp(event):
                return event
            failed = True
            try:
                stored = await self._inner.append_event(session, event)
                failed = False
            finally:
                live.scribe.stored(event, failed=failed)
            return stored

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """As the service inside does."""
        made = self._inner.create_session(app_name=app_name, user_id=user_id, state=state, session_id=session_id)
        return await _whole(made)

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """As the service inside does."""
        found = self._inner.get_session(app_name=app_name, user_id=user_id, session_id=session_id, config=config)
        return await _whole(found)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """As the service inside does."""
        return await _whole(self._inner.list_sessions(app_name=app_name, user_id=user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """As the service inside does."""
        await _whole(self._inner.delete_session(app_name=app_name, user_id=user_id, session_id=session_id))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """As the service inside does."""
        return await _whole(self._inner.get_user_state(app_name=app_name, user_id=user_id))

    async def flush(self) -> None:
        """As the service inside does."""
        await self._inner.flush()

    async def close(self) -> None:
        """Let go of the store, if the service inside has something to let go of."""
        close = getattr(self._inner, "close", None)
        if close is not None:
            await close()


async def _whole(operation: Coroutine[Any, Any, _T]) -> _T:
    """What comes of an operation, which is not cancelled with the one who waits for it."""
    task = asyncio.ensure_future(operation)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_let_go)
        await asyncio.wait([task], timeout=PATIENCE)
        raise


def _let_go(task: "asyncio.Task[Any]") -> None:
    """How it ended is nobody's business any more."""
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
