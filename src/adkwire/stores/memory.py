"""Stores in the memory of one process."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from adkwire.stores.base import Batch


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
        closed = {run: log for run, log in self._logs.items() if log.closed_at is not None}
        held = sum(log.size for log in closed.values())
        for run, log in closed.items():
            if self._is_expired(log) or held > self._max_bytes:
                held -= log.size
                del self._logs[run]


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
