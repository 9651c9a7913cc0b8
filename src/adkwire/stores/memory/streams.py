"""The stream log in the memory of one process."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from adkwire.stores.base import Batch, Closed, RunHead

MAX_BATCH_BYTES = 256_000
"""Bytes that one read returns at most, unless a single entry is larger."""


@dataclass(slots=True)
class _Log:
    head: RunHead
    entries: list[bytes]
    first: int
    """The number of the first entry that is kept."""
    size: int
    """Bytes of the entries that are kept."""
    dropped: int = 0
    """Slots at the beginning of `entries` that are empty; they are removed many at a time."""
    closed_at: float | None = None
    user_message: bytes = b""
    waiting: "set[asyncio.Future[None]]" = field(default_factory=set["asyncio.Future[None]"])

    @property
    def end(self) -> int:
        """The number of the next entry."""
        return self.first + len(self.entries) - self.dropped

    def cut(self, start: int) -> Batch:
        """Return the batch that begins with a number."""
        start = max(start, self.first)
        begin = stop = self.dropped + start - self.first
        room = MAX_BATCH_BYTES
        while stop < len(self.entries) and (stop == begin or room >= len(self.entries[stop])):
            room -= len(self.entries[stop])
            stop += 1
        whole = stop >= len(self.entries)
        return Batch(start, self.entries[begin:stop], whole and self.closed_at is not None)

    def trim(self, limit: int) -> None:
        """Drop the oldest entries beyond the limit, but never the last one."""
        while self.size > limit and self.dropped < len(self.entries) - 1:
            self.size -= len(self.entries[self.dropped])
            self.entries[self.dropped] = b""
            self.dropped += 1
            self.first += 1
        if self.dropped * 2 > len(self.entries):
            del self.entries[: self.dropped]
            self.dropped = 0

    def notify(self) -> None:
        """Wake all waiting readers."""
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
        """In the order in which they were closed, so that those to drop come first."""
        self._total_bytes = 0

    async def open(self, head: RunHead, before: Sequence[bytes] = (), user_message: bytes = b"") -> None:
        """Begin the log of a run."""
        self.drop(head.run)
        log = _Log(head, list(before), first=-len(before), size=sum(map(len, before)), user_message=user_message)
        self._logs[head.run] = self._open[head.run] = log
        self._chats.setdefault((head.user, head.chat), {})[head.run] = log
        self._total_bytes += log.size
        self._sweep()

    async def append(self, run: str, entries: Sequence[bytes]) -> None:
        """Add entries after the last one."""
        log = self._open.get(run)
        if log is None:
            raise Closed
        if not entries:
            return
        before = log.size
        log.entries.extend(entries)
        log.size += sum(map(len, entries))
        log.trim(self._max_run_bytes)
        self._total_bytes += log.size - before
        log.notify()
        if self._total_bytes > self._max_bytes:
            self._sweep()

    async def close(self, run: str) -> None:
        """Close a run."""
        log = self._open.pop(run, None)
        if log is None:
            return
        log.closed_at = self._clock()
        log.user_message = b""
        self._closed[run] = log
        log.notify()

    async def read(self, run: str, after: int, wait: float) -> Batch | None:
        """Return entries after `after`, waiting up to `wait` seconds for them."""
        log = self._known(run)
        if log is None:
            return None
        start = after + 1
        if start >= log.end and log.closed_at is None and wait > 0:
            # No await between the check and the wait, so that nothing can be appended unnoticed.
            await _next_change(log, wait)
            if self._logs.get(run) is not log:
                return None
        return log.cut(start)

    async def head(self, run: str) -> RunHead | None:
        """Return the head of a run."""
        log = self._known(run)
        return log and log.head

    async def runs(self, user: str, chat: str) -> list[RunHead]:
        """Return the heads of a chat's runs that are kept."""
        return [log.head for log in self._chats.get((user, chat), {}).values() if not self._is_expired(log)]

    async def user_message(self, run: str) -> bytes:
        """Return the user message of an open run."""
        log = self._open.get(run)
        return log.user_message if log is not None else b""

    async def unclosed(self, user: str | None = None, chat: str | None = None) -> list[RunHead]:
        """Return the heads of open runs."""
        heads = [log.head for log in self._open.values()]
        return [head for head in heads if user in (None, head.user) and chat in (None, head.chat)]

    async def forget(self, user: str, chat: str) -> None:
        """Drop the runs of a chat."""
        for run in list(self._chats.get((user, chat), ())):
            self.drop(run)

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""

    def _known(self, run: str) -> _Log | None:
        log = self._logs.get(run)
        return None if log is None or self._is_expired(log) else log

    def _is_expired(self, log: _Log) -> bool:
        return log.closed_at is not None and self._clock() - log.closed_at >= self._ttl

    def _sweep(self) -> None:
        """Drop closed runs that have expired, and more of them, oldest first, while all runs together are too large."""
        while self._closed:
            run, log = next(iter(self._closed.items()))
            if not self._is_expired(log) and self._total_bytes <= self._max_bytes:
                return
            self.drop(run)

    def drop(self, run: str) -> None:
        """Drop one run."""
        log = self._logs.pop(run, None)
        if log is None:
            return
        self._total_bytes -= log.size
        self._open.pop(run, None)
        self._closed.pop(run, None)
        chat = (log.head.user, log.head.chat)
        del self._chats[chat][run]
        if not self._chats[chat]:
            del self._chats[chat]
        log.notify()


async def _next_change(log: _Log, wait: float) -> None:
    """Wait for the next `notify`, at most `wait` seconds.

    A future and a timer are cheaper than an event with a timeout, and each chunk that a reader waits for needs them.
    """
    loop = asyncio.get_running_loop()
    change: asyncio.Future[None] = loop.create_future()
    log.waiting.add(change)
    timer = loop.call_later(wait, _time_over, change)
    try:
        await change
    finally:
        timer.cancel()
        log.waiting.discard(change)


def _time_over(change: "asyncio.Future[None]") -> None:
    if not change.done():
        change.set_result(None)
