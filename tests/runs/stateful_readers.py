"""Copies of all runs, and readers of them: every reader gets the same entries, each of them once."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from adkwire.runs.readers import Position, Reading
from adkwire.stores.base import Batch, RunHead, StreamLog
from adkwire.wire.chunks import Chunk, decode_chunk

_GONE = "This answer is no longer kept as a stream."


@dataclass
class RunCopy:
    """A copy of all entries of a run."""

    head: RunHead
    last_open: float
    """When the run was last read without an end."""
    entries: dict[int, bytes] = field(default_factory=dict[int, bytes])
    closed: bool = False
    compared: bool = False
    """True once it was compared with history."""
    may_be_deleted: bool = False
    """True once its chat was to be deleted."""
    replaced: bool = False
    """True if its message, or an earlier one, may have been answered again by a server that crashed."""

    def __post_init__(self) -> None:
        self.next = -self.head.before

    @property
    def whole(self) -> list[Chunk]:
        """The chunks for a client that has nothing of the message."""
        numbers = [number for number in sorted(self.entries) if number or not self.head.before]
        return [decode_chunk(self.entries[number]) for number in numbers]

    async def read_on(self, log: StreamLog) -> bool:
        """Read the new entries; return False when the run is no longer kept."""
        while not self.closed:
            batch = await log.read(self.head.run, self.next - 1, 0)
            if batch is None:
                return False
            self.take(batch)
            if not batch.entries:
                break
        return True

    async def read_again(self, log: StreamLog) -> bool:
        """Read all entries again and assert that they are the same; return False when the run is no longer kept."""
        was_closed, last = self.closed, self.next
        self.closed, self.next = False, -self.head.before
        if not await self.read_on(log):
            self.closed, self.next = was_closed, last
            return False
        assert self.next >= last, f"{self.head.run}: {last - self.next} entries are lost"
        assert self.closed or not was_closed, f"{self.head.run} has no end any more"
        return True

    def take(self, batch: Batch) -> None:
        assert not batch.entries or batch.first == self.next, f"{batch.first} came for {self.next}"
        for number, entry in enumerate(batch.entries, batch.first):
            self.add(number, entry)
        self.next = batch.first + len(batch.entries) if batch.entries else self.next
        self.closed = batch.closed

    def add(self, number: int, entry: bytes) -> None:
        old = self.entries.setdefault(number, entry)
        assert old == entry, f"{self.head.run}:{number} was {old!r} and is {entry!r}"


@dataclass(eq=False)
class Reader:
    """A reader of a run that may be disconnected at any time."""

    chat: str
    run: str
    before: int
    """How many entries have what the message held before."""
    next: int
    """The number of the next entry."""
    batches: AsyncGenerator[Batch, None] | None
    got: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    over: bool = False
    lost: bool = False
    reading: "asyncio.Task[Batch | None] | None" = None

    @classmethod
    def of(cls, chat: str, reading: Reading, before: int, *, whole: bool) -> "Reader":
        return cls(chat, reading.run, before, -before if whole else 0, reading.batches)

    @property
    def position(self) -> Position | None:
        return Position(self.run, self.got[-1][0]) if self.got else None

    async def step(self) -> "Batch | None":
        assert self.batches is not None
        return await anext(self.batches, None)

    def take_done(self) -> bool:
        """Take the batch that has come; return False if none has."""
        if self.reading is None or not self.reading.done():
            return False
        batch, self.reading = self.reading.result(), None
        self.take(batch)
        return True

    def take(self, batch: Batch | None) -> None:
        """Check and take the next batch; None at the end."""
        assert not self.over, "something came behind the end"
        assert batch is not None, f"{self.run} ended without an end"
        if _is_gone(batch):
            self.lost = self.over = True
            return
        if batch.entries:
            assert self.next == batch.first, f"{self.run}: {batch.first} came for {self.next}"
            self.got += enumerate(batch.entries, batch.first)
            self.next = self._next_number()
        self.over = batch.closed

    def _next_number(self) -> int:
        """Return the number of the next entry; the run's own `start` is left out after what the message held before."""
        last = self.got[-1][0]
        return 1 if last == -1 and self.before else last + 1

    async def cut(self, loses: int = 0) -> None:
        """Disconnect the reader; the last `loses` entries have not arrived."""
        if self.reading is not None:
            self.reading.cancel()
            await asyncio.wait([self.reading])
            self.reading = None
        if self.batches is not None:
            await self.batches.aclose()
            self.batches = None
        if loses and not self.lost:
            del self.got[max(1, len(self.got) - loses) :]
            self.over = False

    def come_back(self, reading: Reading | None) -> None:
        """Read on after the last entry."""
        assert reading is not None
        assert reading.run == self.run
        self.batches, self.next = reading.batches, self._next_number()

    def compare(self, copy: RunCopy) -> None:
        for number, entry in self.got:
            copy.add(number, entry)
        if self.over and not self.lost:
            assert copy.closed
            assert not self.got or self.got[-1][0] == max(copy.entries), f"{self.run}: the end is missing"


def _is_gone(batch: Batch) -> bool:
    if len(batch.entries) != 1 or not batch.closed:
        return False
    chunk: Any = msgspec.json.decode(batch.entries[0])
    return chunk["type"] == "error" and chunk["errorText"].startswith(_GONE)
