"""A stream log that hands every entry to the recorder as it is written."""

from collections.abc import Sequence

from adkwire.recording.recorder import Recorder
from adkwire.stores.base import Batch, RunHead, StreamLog
from adkwire.wire.breaks import is_break


class RecordedLog:
    """A `StreamLog` around another one that records what is appended."""

    def __init__(self, log: StreamLog, recorder: Recorder) -> None:
        self._log = log
        self._recorder = recorder
        self._new: dict[str, RunHead] = {}
        """Runs without entries, which the recorder does not know yet: they must not delay other runs of the chat."""

    async def open(self, head: RunHead, before: Sequence[bytes] = (), user_message: bytes = b"") -> None:
        """Open the log of a run."""
        await self._log.open(head, before, user_message)
        self._new[head.run] = head

    async def append(self, run: str, entries: Sequence[bytes]) -> None:
        """Append encoded chunks, and record them."""
        known = self._recorder.has_run(run)
        head, first = (None, 0) if known else await self._head_and_next_number(run)
        await self._log.append(run, entries)
        if head is not None:
            self._recorder.run_opened(head, first)
        if known or head is not None:
            self._recorder.chunks_written(run, [entry for entry in entries if not is_break(entry)])

    async def close(self, run: str) -> None:
        """Close the log of a run."""
        try:
            await self._log.close(run)
        finally:
            self._new.pop(run, None)
            self._recorder.run_closed(run)

    async def read(self, run: str, after: int, wait: float) -> Batch | None:
        """Return the entries after the number `after`."""
        return await self._log.read(run, after, wait)

    async def head(self, run: str) -> RunHead | None:
        """Return the head of a run: its user, chat and message."""
        return await self._log.head(run)

    async def runs(self, user: str, chat: str) -> list[RunHead]:
        """Return the runs of a chat."""
        return await self._log.runs(user, chat)

    async def user_message(self, run: str) -> bytes:
        """Return the user's message that a run answers."""
        return await self._log.user_message(run)

    async def unclosed(self, user: str | None = None, chat: str | None = None) -> list[RunHead]:
        """Return the runs that were not closed."""
        return await self._log.unclosed(user, chat)

    async def forget(self, user: str, chat: str) -> None:
        """Delete the runs of a chat."""
        await self._log.forget(user, chat)

    async def aclose(self) -> None:
        """Close the log."""
        await self._log.aclose()

    async def _head_and_next_number(self, run: str) -> tuple[RunHead | None, int]:
        """Return the head of a run and the number of its next entry, also for a run that another process began."""
        if (head := self._new.pop(run, None)) is not None:
            return head, 0
        head, last = await self._log.head(run), -1
        while (batch := await self._log.read(run, last, 0)) is not None and batch.entries:
            last = batch.first + len(batch.entries) - 1
        return head, last + 1
