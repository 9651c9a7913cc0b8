"""Stores in the memory of one process."""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from adkwire.stores.base import Batch, CallRow


@dataclass(slots=True)
class _Log:
    entries: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    closed_at: float | None = None
    waiting: "set[asyncio.Future[None]]" = field(default_factory=set["asyncio.Future[None]"])

    def notify(self) -> None:
        """Wake everybody who waits."""
        waiting, self.waiting = self.waiting, set()
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


class MemoryStreamLog:
    """A `StreamLog` that lives as long as the process.

    A closed run is kept for `ttl` seconds, and as long as all closed runs together hold at most `max_bytes`.
    """

    def __init__(
        self, *, ttl: float, max_bytes: int = 256_000_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ttl = ttl
        self._max_bytes = max_bytes
        self._clock = clock
        self._logs: dict[str, _Log] = {}
        self._closed: dict[str, _Log] = {}
        """In the order they were closed, so that what has to go stands first."""
        self._held = 0

    async def append(self, run: str, entries: Sequence[bytes]) -> None:
        """Add entries behind the last."""
        log = self._logs.get(run)
        if log is None:
            self._sweep()
            log = self._logs[run] = _Log()
        log.entries.extend(entries)
        log.size += sum(map(len, entries))
        log.notify()

    async def close(self, run: str) -> None:
        """Say that nothing more comes."""
        log = self._logs.setdefault(run, _Log())
        if log.closed_at is None:
            self._closed[run] = log
            self._held += log.size
        log.closed_at = self._clock()
        log.notify()

    async def read(self, run: str, after: int, wait: float) -> Batch | None:
        """Return what is behind `after`, waiting up to `wait` seconds for it."""
        log = self._logs.get(run)
        if log is None or self._is_expired(log):
            return None
        first = after + 1
        if first >= len(log.entries) and log.closed_at is None and wait > 0:
            # No await between the look and the wait: nothing can be appended unseen.
            await _any_news(log, wait)
        return Batch(first, log.entries[first:], log.closed_at is not None)

    def _is_expired(self, log: _Log) -> bool:
        return log.closed_at is not None and self._clock() - log.closed_at >= self._ttl

    def _sweep(self) -> None:
        """Drop what is too old, then the oldest of what is too much."""
        while self._closed:
            run, log = next(iter(self._closed.items()))
            if not self._is_expired(log) and self._held <= self._max_bytes:
                return
            self._held -= log.size
            del self._closed[run], self._logs[run]


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
