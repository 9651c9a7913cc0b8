"""Stores in the memory of one process."""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from adkwire.stores.base import Batch, CallRow, Closed, RunHead

MAX_BATCH_BYTES = 256_000
"""What one read returns at most, unless a single entry is larger."""


@dataclass(slots=True)
class _Log:
    head: RunHead
    entries: list[bytes]
    first: int
    """The number of the first entry that is kept."""
    size: int
    gone: int = 0
    """How many slots at the beginning of `entries` are empty: they are cleared away many at a time."""
    closed_at: float | None = None
    question: bytes = b""
    waiting: "set[asyncio.Future[None]]" = field(default_factory=set["asyncio.Future[None]"])

    @property
    def end(self) -> int:
        """The number of the next entry."""
        return self.first + len(self.entries) - self.gone

    def cut(self, start: int) -> Batch:
        """What stands from a number on, as much as goes into one batch."""
        start = max(start, self.first)
        begin = stop = self.gone + start - self.first
        room = MAX_BATCH_BYTES
        while stop < len(self.entries) and (stop == begin or room >= len(self.entries[stop])):
            room -= len(self.entries[stop])
            stop += 1
        whole = stop >= len(self.entries)
        return Batch(start, self.entries[begin:stop], whole and self.closed_at is not None)

    def trim(self, limit: int) -> None:
        """Drop the oldest entries beyond the limit, but never the last one."""
        while self.size > limit and self.gone < len(self.entries) - 1:
            self.size -= len(self.entries[self.gone])
            self.entries[self.gone] = b""
            self.gone += 1
            self.first += 1
        if self.gone * 2 > len(self.entries):
            del self.entries[: self.gone]
            self.gone = 0

    def notify(self) -> None:
        """Wake everybody who waits."""
        waiting, self.waiting = self.waiting, set()
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


class MemoryStreamLog:
    """A `StreamLog` that lives as long as the process.

    A closed run is kept for `ttl` seconds, and as long as all runs together hold at most `max_bytes`. Of one run the
    last `max_run_bytes` are kept.
    """

    def __init__(
        self,
        *,
        ttl: float,
        max_bytes: int = 256_000_000,
        max_run_bytes: int = 64_000_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ttl = ttl
        self._max_bytes = max_bytes
        self._max_run_bytes = max_run_bytes
        self._clock = clock
        self._logs: dict[str, _Log] = {}
        self._chats: dict[tuple[str, str], dict[str, _Log]] = {}
        self._open: dict[str, _Log] = {}
        self._closed: OrderedDict[str, _Log] = OrderedDict()
        """In the order they were closed, so that what has to go stands first."""
        self._held = 0

    async def open(self, head: RunHead, before: Sequence[bytes] = (), question: bytes = b"") -> None:
        """Begin the log of a run."""
        self.drop(head.run)
        log = _Log(head, list(before), first=-len(before), size=sum(map(len, before)), question=question)
        self._logs[head.run] = self._open[head.run] = log
        self._chats.setdefault((head.user, head.chat), {})[head.run] = log
        self._held += log.size
        self._sweep()

    async def append(self, run: str, entries: Sequence[bytes]) -> None:
        """Add entries behind the last."""
        log = self._open.get(run)
        if log is None:
            raise Closed
        if not entries:
            return
        before = log.size
        log.entries.extend(entries)
        log.size += sum(map(len, entries))
        log.trim(self._max_run_bytes)
        self._held += log.size - before
        log.notify()
        if self._held > self._max_bytes:
            self._sweep()

    async def close(self, run: str) -> None:
        """Say that nothing more comes."""
        log = self._open.pop(run, None)
        if log is None:
            return
        log.closed_at = self._clock()
        log.question = b""
        self._closed[run] = log
        log.notify()

    async def read(self, run: str, after: int, wait: float) -> Batch | None:
        """Return what is behind `after`, waiting up to `wait` seconds for it."""
        log = self._known(run)
        if log is None:
            return None
        start = after + 1
        if start >= log.end and log.closed_at is None and wait > 0:
            # No await between the look and the wait: nothing can be appended unseen.
            await _any_news(log, wait)
            if self._logs.get(run) is not log:
                return None
        return log.cut(start)

    async def head(self, run: str) -> RunHead | None:
        """Whose run it is."""
        log = self._known(run)
        return log and log.head

    async def runs(self, user: str, chat: str) -> list[RunHead]:
        """The runs of a chat that are kept."""
        return [log.head for log in self._chats.get((user, chat), {}).values() if not self._is_expired(log)]

    async def question(self, run: str) -> bytes:
        """What the user said."""
        log = self._open.get(run)
        return log.question if log is not None else b""

    async def unclosed(self, user: str | None = None, chat: str | None = None) -> list[RunHead]:
        """The runs that have no end."""
        heads = [log.head for log in self._open.values()]
        return [head for head in heads if user in (None, head.user) and chat in (None, head.chat)]

    async def forget(self, user: str, chat: str) -> None:
        """Drop the runs of a chat."""
        for run in list(self._chats.get((user, chat), ())):
            self.drop(run)

    async def aclose(self) -> None:
        """Nothing is open."""

    def _known(self, run: str) -> _Log | None:
        log = self._logs.get(run)
        return None if log is None or self._is_expired(log) else log

    def _is_expired(self, log: _Log) -> bool:
        return log.closed_at is not None and self._clock() - log.closed_at >= self._ttl

    def _sweep(self) -> None:
        """Drop what is too old, then the oldest of what is too much."""
        while self._closed:
            run, log = next(iter(self._closed.items()))
            if not self._is_expired(log) and self._held <= self._max_bytes:
                return
            self.drop(run)

    def drop(self, run: str) -> None:
        """Forget one run."""
        log = self._logs.pop(run, None)
        if log is None:
            return
        self._held -= log.size
        self._open.pop(run, None)
        self._closed.pop(run, None)
        chat = (log.head.user, log.head.chat)
        del self._chats[chat][run]
        if not self._chats[chat]:
            del self._chats[chat]
        log.notify()


async def _any_news(log: _Log, wait: float) -> None:
    """Wait for the next `notify`, but no longer than `wait`. Cheaper than a timeout around an event, which would be
    set up for every chunk a reader waits for."""
    loop = asyncio.get_running_loop()
    news: asyncio.Future[None] = loop.create_future()
    log.waiting.add(news)
    timer = loop.call_later(wait, _no_news, news)
    try:
        await news
    finally:
        timer.cancel()
        log.waiting.discard(news)


def _no_news(news: "asyncio.Future[None]") -> None:
    if not news.done():
        news.set_result(None)


class Board:
    """What the workers of one process share: who has which lease, and who listens to what."""

    def __init__(self) -> None:
        self.holders: dict[str, str] = {}
        self.last_holders: dict[str, str] = {}
        self.listeners: dict[str, set[asyncio.Queue[bytes | None]]] = {}


class MemorySignals:
    """`Signals` among workers that share a `Board`; without one, of a worker that is alone."""

    def __init__(self, board: Board | None = None) -> None:
        self._board = board or Board()
        self._worker = secrets.token_hex(8)
        self._listening: set[asyncio.Queue[bytes | None]] = set()

    @property
    def worker(self) -> str:
        """The name of this worker."""
        return self._worker

    async def acquire(self, name: str) -> str | None:
        """Take or keep a lease."""
        if self._board.holders.setdefault(name, self._worker) != self._worker:
            return None
        last = self._board.last_holders.get(name, "")
        self._board.last_holders[name] = self._worker
        return last

    async def release(self, name: str) -> None:
        """Give a lease back."""
        if self._board.holders.get(name) == self._worker:
            del self._board.holders[name]

    async def holder(self, name: str) -> str | None:
        """The living worker that has a lease."""
        return self._board.holders.get(name)

    async def forget(self, name: str) -> None:
        """Give a lease back and drop who held it last."""
        await self.release(name)
        if name not in self._board.holders:
            self._board.last_holders.pop(name, None)

    async def send(self, topic: str, message: bytes) -> None:
        """Tell all who listen to a topic."""
        for queue in self._board.listeners.get(topic, ()):
            queue.put_nowait(message)

    async def listen(self, topic: str) -> AsyncGenerator[bytes, None]:
        """What is sent to a topic from the first step of the iteration on, until this worker is closed."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._board.listeners.setdefault(topic, set()).add(queue)
        self._listening.add(queue)
        try:
            while (message := await queue.get()) is not None:
                yield message
        finally:
            self._listening.discard(queue)
            self._board.listeners[topic].discard(queue)
            if not self._board.listeners[topic]:
                del self._board.listeners[topic]

    async def close(self) -> None:
        """Give all leases back and end what listens."""
        for name in [name for name, holder in self._board.holders.items() if holder == self._worker]:
            del self._board.holders[name]
        for queue in self._listening:
            queue.put_nowait(None)


class MemoryGateStore:
    """A `GateStore` that lives as long as the process."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str, str], CallRow] = {}
        self._grants: set[tuple[str, str, str]] = set()
        self._audit: dict[tuple[str, str], list[bytes]] = {}

    async def add(self, row: CallRow) -> bool:
        """Keep a new call."""
        key = (row.user, row.chat, row.call)
        if key in self._calls:
            return False
        self._calls[key] = replace(row, version=0)
        return True

    async def get(self, user: str, chat: str, call: str) -> CallRow | None:
        """Return one call."""
        return self._calls.get((user, chat, call))

    async def replace(self, row: CallRow) -> bool:
        """Put `row` in the place of the same version."""
        key = (row.user, row.chat, row.call)
        stored = self._calls.get(key)
        if stored is None or stored.version != row.version:
            return False
        self._calls[key] = replace(row, version=row.version + 1)
        return True

    async def calls(self, user: str, chat: str) -> list[CallRow]:
        """All calls of a chat."""
        return [row for row in self._calls.values() if (row.user, row.chat) == (user, chat)]

    async def find(self, user: str, states: Collection[str]) -> list[CallRow]:
        """The user's calls in one of the states."""
        return [row for row in self._calls.values() if row.user == user and row.state in states]

    async def expiring(self, states: Collection[str], before: float) -> list[CallRow]:
        """Everybody's calls in one of the states whose time is over."""
        due = [
            (row.expires_at, row)
            for row in self._calls.values()
            if row.expires_at is not None and row.expires_at <= before and row.state in states
        ]
        return [row for _, row in sorted(due, key=lambda pair: pair[0])]

    async def forget(self, user: str, chat: str) -> None:
        """Drop the calls and the grants of a chat."""
        for row in await self.calls(user, chat):
            del self._calls[row.user, row.chat, row.call]
        self._grants = {grant for grant in self._grants if grant[:2] != (user, chat)}

    async def grant(self, user: str, chat: str, what: str) -> None:
        """Keep a standing grant."""
        self._grants.add((user, chat, what))

    async def granted(self, user: str, chat: str, what: Collection[str]) -> bool:
        """Whether any of `what` is granted."""
        return any((user, place, one) in self._grants for place in (chat, "") for one in what)

    async def write(self, user: str, chat: str, line: bytes) -> None:
        """Add a line to the audit."""
        self._audit.setdefault((user, chat), []).append(line)

    async def lines(self, user: str, chat: str) -> list[bytes]:
        """The audit of a chat."""
        return list(self._audit.get((user, chat), ()))

    async def close(self) -> None:
        """Nothing is open."""
