"""Readers of runs: each at its own pace, from the beginning or from a position, to the end of the run."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import NamedTuple, TypeAlias

from adkwire.errors import NotRecovered, Unprocessable
from adkwire.runs.ownership import Ownership
from adkwire.runs.run import Run
from adkwire.runs.services import RunServices
from adkwire.stores.base import Batch, ChatKey, RunHead, StreamLog
from adkwire.wire.chunks import Error
from adkwire.wire.profiles import encode_chunks

_NOT_KEPT = "This answer is no longer kept as a stream."
_LOAD_AGAIN = "Load the chat again to see it."

OnSilence: TypeAlias = Callable[[], Awaitable[bool]]
"""Called when no entry has come for a heartbeat; returns whether a process still writes the run."""


class Position(NamedTuple):
    """The last entry that a reader has got: a run and the number of a chunk."""

    run: str
    number: int


class Reading(NamedTuple):
    """One reader of a run. An empty batch is a heartbeat."""

    run: str
    batches: AsyncGenerator[Batch, None]


class Readers:
    """Opens readers of the runs that are kept, whichever worker writes them."""

    def __init__(self, services: RunServices, ownership: Ownership) -> None:
        self._services = services
        self._ownership = ownership

    async def after(self, key: ChatKey, position: Position) -> Reading:
        """Read a run from behind a position. A run of another user or chat raises `NotRecovered`."""
        head = await self._services.log.head(position.run)
        if head is None or (head.user, head.chat) != key:
            raise not_recovered()
        if self._ownership.local_run(head) is None:
            await self._ownership.run_elsewhere(key)
        await check_position(self._services.log, position)
        return self.read(head, next_number(position.number, head.before))

    async def message_of(self, key: ChatKey, run: str) -> Reading:
        """Read the whole message that a run writes or has written; when it went on in a newer run, that run's stream.

        A run that is no longer kept, or that belongs to another user or chat, is refused as `NotRecovered`.
        """
        kept = await self._services.log.runs(*key)
        message = next((head.message for head in kept if head.run == run), None)
        if message is None:
            raise not_recovered()
        head = next(head for head in reversed(kept) if head.message == message)
        if self._ownership.local_run(head) is None:
            await self._ownership.run_elsewhere(key)
        return self.whole(head)

    def whole(self, head: RunHead) -> Reading:
        """Read a run with what its message held before."""
        return self.read(head, -head.before)

    def read(self, head: RunHead, first: int) -> Reading:
        """Read a run from the entry `first`."""
        run = self._ownership.local_run(head)
        return Reading(head.run, self._read_remote(head, first) if run is None else self._read_local(run, first))

    async def _read_local(self, run: Run, first: int) -> AsyncGenerator[Batch, None]:
        async def is_written() -> bool:
            return not run.closed

        run.readers += 1
        run.cancel_deadline()
        try:
            async with aclosing(self._read(run.id, first, is_written)) as batches:
                async for batch in batches:
                    yield batch
                    run.first_read.set()
        finally:
            run.readers -= 1
            self._ownership.stop_when_unread(run)

    def _read_remote(self, head: RunHead, first: int) -> AsyncGenerator[Batch, None]:
        async def is_written() -> bool:
            # If the run's worker is gone, this closes the run, and its end can be read.
            await self._ownership.run_elsewhere(ChatKey(head.user, head.chat))
            return True

        return self._read(head.run, first, is_written)

    def _read(self, run: str, first: int, on_silence: OnSilence) -> AsyncGenerator[Batch, None]:
        return read(self._services.log, run, first, self._services.settings.heartbeat, on_silence)


def not_recovered() -> NotRecovered:
    """Return the error for a reader whose run or position is no longer kept."""
    return NotRecovered(_NOT_KEPT, hint=_LOAD_AGAIN)


async def check_position(log: StreamLog, position: Position) -> None:
    """Raise an error for a position that the run has not reached: a reader would wait there for nothing."""
    batch = await log.read(position.run, position.number - 1, 0)
    beyond = batch is not None and position.number >= 0 and not batch.entries
    if batch is None or (beyond and batch.closed):
        # The end of a run may get lost in a power cut, so this need not be the reader's mistake.
        raise not_recovered()
    if beyond:
        raise Unprocessable("The answer has not come as far as this event id.", hint=_LOAD_AGAIN)


def first_number(run: Run, after: int | None, *, whole: bool) -> int:
    """Return the number of the first entry for a reader that has got `after`; None when it has got nothing.

    With `whole`, a reader that has got nothing begins with what the message held before the run.
    """
    if after is not None:
        return next_number(after, run.before)
    return -run.before if whole else 0


def next_number(number: int, before: int) -> int:
    """Return the number of the entry that follows `number`.

    The `before` entries with what the message held before the run have negative numbers and a `start` of their own, so
    that after them entry 0, the run's own `start`, is left out.
    """
    return 1 if number == -1 and before else number + 1


async def read(
    log: StreamLog, run: str, first: int, heartbeat: float, on_silence: OnSilence
) -> AsyncGenerator[Batch, None]:
    """Yield the entries of a run from `first` to its end; an error when the next entry is no longer kept."""
    while (batch := await log.read(run, first - 1, heartbeat)) is not None and batch.first == first:
        if not (batch.entries or batch.closed or await on_silence()):
            # The run may have ended after the log was read and before this check: then its end is in the log now.
            batch = await log.read(run, first - 1, 0)
            if batch is None or batch.first != first or not (batch.entries or batch.closed):
                break
        for piece in _with_one_start(batch):
            yield piece
        if batch.closed:
            return
        first = max(_end(batch), 1) if _reaches_run(batch) else _end(batch)
    yield Batch(first, encode_chunks([Error(error_text=f"{_NOT_KEPT} {_LOAD_AGAIN}")]), closed=True)


def _end(batch: Batch) -> int:
    return batch.first + len(batch.entries)


def _reaches_run(batch: Batch) -> bool:
    """Return True if a batch begins before the run's own entries and ends at the first of them or later."""
    return batch.first < 0 <= _end(batch)


def _with_one_start(batch: Batch) -> list[Batch]:
    """Return a batch without the run's own `start` if it begins with what the message held before, which has one."""
    if not _reaches_run(batch):
        return [batch]
    before, rest = batch.entries[: -batch.first], batch.entries[1 - batch.first :]
    if not rest:
        return [Batch(batch.first, before, batch.closed)]
    return [Batch(batch.first, before, closed=False), Batch(1, rest, batch.closed)]
