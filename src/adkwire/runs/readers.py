"""Readers of runs: each at its own pace, from the beginning or from a place, to the end. Going away stops nothing."""

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

_GONE = "This answer is no longer kept as a stream."
_LOAD = "Load the chat again to see it."

Writes: TypeAlias = Callable[[], Awaitable[bool]]
"""Whether somebody still writes a run; asked when nothing has come for a while."""


class Position(NamedTuple):
    """What a reader has got last: a run and the number of an entry."""

    run: str
    number: int


class Reading(NamedTuple):
    """One reader of a run. An empty batch is a heartbeat."""

    run: str
    batches: AsyncGenerator[Batch, None]


class Readers:
    """Lets anybody read any run that is kept, whichever worker writes it."""

    def __init__(self, services: RunServices, ownership: Ownership) -> None:
        self._services = services
        self._ownership = ownership

    async def behind(self, key: ChatKey, place: Position) -> Reading:
        """What comes behind a place."""
        head = await self._services.log.head(place.run)
        if head is None or (head.user, head.chat) != key:
            raise not_recovered()
        if self._ownership.local_run(head) is None:
            await self._ownership.run_elsewhere(key)
        await check_position(self._services.log, place)
        return self.read(head, behind(place.number, head.before))

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
        """A run with what its message held before."""
        return self.read(head, -head.before)

    def read(self, head: RunHead, first: int) -> Reading:
        """A run from an entry on."""
        run = self._ownership.local_run(head)
        return Reading(head.run, self._elsewhere(head, first) if run is None else self._here(run, first))

    async def _here(self, run: Run, first: int) -> AsyncGenerator[Batch, None]:
        async def writes() -> bool:
            return not run.closed

        run.readers += 1
        run.keep()
        try:
            async with aclosing(self._read(run.id, first, writes)) as batches:
                async for batch in batches:
                    yield batch
                    run.noticed.set()
        finally:
            run.readers -= 1
            self._ownership.stop_when_unread(run)

    def _elsewhere(self, head: RunHead, first: int) -> AsyncGenerator[Batch, None]:
        async def writes() -> bool:
            await self._ownership.run_elsewhere(ChatKey(head.user, head.chat))
            return True

        return self._read(head.run, first, writes)

    def _read(self, run: str, first: int, writes: Writes) -> AsyncGenerator[Batch, None]:
        return read(self._services.log, run, first, self._services.settings.heartbeat, writes)


def not_recovered() -> NotRecovered:
    """What somebody is told who comes back too late."""
    return NotRecovered(_GONE, hint=_LOAD)


async def check_position(log: StreamLog, place: Position) -> None:
    """Refuse to go on behind what a run has never written, where a reader would wait for nothing."""
    there = await log.read(place.run, place.number - 1, 0)
    beyond = there is not None and place.number >= 0 and not there.entries
    if there is None or (beyond and there.closed):
        # The end of a run may get lost in a power cut, so this need not be the reader's mistake.
        raise not_recovered()
    if beyond:
        raise Unprocessable("The answer has not come as far as this event id.", hint=_LOAD)


def first_of(run: Run, after: int | None, *, whole: bool) -> int:
    """The first entry for a reader: behind what it has, or the beginning; for the `whole`, what was before, too."""
    if after is not None:
        return behind(after, run.before)
    return -run.before if whole else 0


def behind(number: int, before: int) -> int:
    """The number to go on with. Behind what the message held before comes 1: it has a `start` of its own."""
    return 1 if number == -1 and before else number + 1


async def read(log: StreamLog, run: str, first: int, heartbeat: float, writes: Writes) -> AsyncGenerator[Batch, None]:
    """Everything from `first` on until the run ends; who has fallen out of what is kept is told so."""
    while (batch := await log.read(run, first - 1, heartbeat)) is not None and batch.first == first:
        if not (batch.entries or batch.closed or await writes()):
            # The run may have ended between the two looks: then its end is there now.
            batch = await log.read(run, first - 1, 0)
            if batch is None or batch.first != first or not (batch.entries or batch.closed):
                break
        for piece in _with_one_start(batch):
            yield piece
        if batch.closed:
            return
        first = max(_end(batch), 1) if _joins(batch) else _end(batch)
    yield Batch(first, encode_chunks([Error(error_text=f"{_GONE} {_LOAD}")]), closed=True)


def _end(batch: Batch) -> int:
    return batch.first + len(batch.entries)


def _joins(batch: Batch) -> bool:
    return batch.first < 0 <= _end(batch)


def _with_one_start(batch: Batch) -> list[Batch]:
    """What goes from before a run into the run itself would say `start` twice."""
    if not _joins(batch):
        return [batch]
    before, rest = batch.entries[: -batch.first], batch.entries[1 - batch.first :]
    if not rest:
        return [Batch(batch.first, before, batch.closed)]
    return [Batch(batch.first, before, closed=False), Batch(1, rest, batch.closed)]
