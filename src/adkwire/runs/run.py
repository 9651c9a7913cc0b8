"""Run: one turn = one task + one encoder + one stream log.

A run belongs to the server. Whoever asked for it may go away; it ends when the agent is done, when it is stopped, or
when it fails, and in each case everything it opened is closed, in the session as on the wire.
"""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing

import msgspec
from google.adk.events.event import Event

from adkwire.runs.adk import Adk, ending_event, partial_event, seal_event, seal_leftovers
from adkwire.runs.history import mark_of
from adkwire.runs.sessions import ChatKey
from adkwire.stores.base import Batch, StreamLog
from adkwire.wire.calls import UNFINISHED
from adkwire.wire.chunks import Chunk, Error
from adkwire.wire.decoder import TurnInput, UserMessage
from adkwire.wire.encoder import Encoder, Explain
from adkwire.wire.profiles import encode_chunks

logger = logging.getLogger("adkwire")

STOP_PATIENCE = 10.0
"""Seconds a run gets to end by ADK's own abort before its task is cancelled."""

_HEAD_START = 0.01
"""Seconds that the first reader has to get `start` out before ADK takes the loop for some milliseconds."""


class Run:
    """One answer in the making, or made."""

    def __init__(
        self, run_id: str, key: ChatKey, message_id: str, turn: TurnInput, message: UserMessage, *, explain: Explain
    ) -> None:
        self.id = run_id
        self.key = key
        self.request = fingerprint(turn)
        self.trigger = turn.trigger
        self.replaces = turn.replaces
        self.message = message
        self.message_id = message_id
        self.encoder = Encoder(message_id, explain=explain)
        self.mark = mark_of(message_id, message.id)
        self.done = asyncio.Event()
        self.noticed = asyncio.Event()
        """Set when somebody has read the first of it."""
        self.readers = 0
        self._abort = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._queued = False
        self._deadline: asyncio.TimerHandle | None = None
        self._invocation = ""
        self._author = ""

    @property
    def active(self) -> bool:
        """Whether it still writes."""
        return not self.done.is_set()

    @property
    def stopping(self) -> bool:
        """Whether it was told to end."""
        return self._abort.is_set()

    async def begin(self, adk: Adk, log: StreamLog, prepare: Callable[[], Awaitable[None]]) -> None:
        """Say `start` at once, then let the task do the rest."""
        try:
            await log.append(self.id, encode_chunks([self.encoder.start()]))
        except BaseException:
            self.done.set()
            raise
        self._task = asyncio.create_task(self._drive(adk, log, prepare), name=f"adkwire-run-{self.id}")

    async def stop(self) -> None:
        """End it, and return when nothing more can come of it."""
        self._abort.set()
        if self._task is not None and not self.done.is_set():
            if self._queued:
                self._task.cancel()
            await asyncio.wait([self._task], timeout=STOP_PATIENCE)
            if not self._task.done():
                logger.warning("run %s does not end by itself; cancelled", self.id)
                self._task.cancel()
                await asyncio.wait([self._task])

    @contextlib.contextmanager
    def queueing(self) -> Generator[None, None, None]:
        """While it waits for others to end there is nothing of ADK's that would notice a stop."""
        self._queued = True
        try:
            yield
        finally:
            self._queued = False

    def abort(self) -> None:
        """Ask it to end, without waiting."""
        self._abort.set()

    def abort_after(self, seconds: float) -> None:
        """Ask it to end in a while, unless somebody comes back and keeps it."""
        self.keep()
        if self.active:
            self._deadline = asyncio.get_running_loop().call_later(seconds, self.abort)

    def keep(self) -> None:
        """Take that back."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def leftovers(self) -> list[Event]:
        """The answers its calls still need once the user goes on without them."""
        return seal_leftovers(self.encoder, self._author, self._invocation, self.mark)

    async def _drive(self, adk: Adk, log: StreamLog, prepare: Callable[[], Awaitable[None]]) -> None:
        cut: Exception | asyncio.CancelledError | None = None
        try:
            await self._head_start()
            await prepare()
            async with aclosing(adk.turn(self.key, self.message, self.mark, self._abort)) as events:
                async for event in events:
                    await self._take(event, log)
        except asyncio.CancelledError as error:
            cut = error
            raise
        except Exception as error:
            cut = error
            logger.warning("run %s failed: %s", self.id, type(error).__name__, exc_info=error)
        finally:
            await self._finish(adk, log, cut)

    async def _head_start(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HEAD_START):
                await self.noticed.wait()

    async def _take(self, event: Event, log: StreamLog) -> None:
        if event.invocation_id:
            self._invocation, self._author = event.invocation_id, event.author
        if chunks := self.encoder.feed(event):
            await log.append(self.id, encode_chunks(chunks))

    async def _finish(self, adk: Adk, log: StreamLog, cut: BaseException | None) -> None:
        """Make session and stream agree on how it ended, then close the stream whatever happens."""
        chunks: list[Chunk] = []
        try:
            for event in self._last_events(cut) if self._invocation else ():
                await adk.append(self.key, [event])
                chunks += self.encoder.feed(event)
        except Exception:
            logger.exception("run %s: its end could not be stored", self.id)
        for event in self._ending(cut):
            chunks += self.encoder.feed(event)
        try:
            await log.append(self.id, encode_chunks([*chunks, *self.encoder.end()]))
        except Exception:
            logger.exception("run %s: the end of its stream could not be written", self.id)
        try:
            await log.close(self.id)
        except Exception:
            logger.exception("run %s: its stream could not be closed", self.id)
        finally:
            self.keep()
            self.message = self.message._replace(parts=())
            self.done.set()

    def _last_events(self, cut: BaseException | None) -> list[Event]:
        """What ADK did not write down: text that was shown, calls nobody will answer, why it ended."""
        events = [partial_event(unsaved, self._invocation, self.mark) for unsaved in self.encoder.unsaved()]
        if calls := self.encoder.open_calls():
            events.append(seal_event(calls, UNFINISHED, self._author, self._invocation, self.mark))
        return events + self._ending(cut)

    def _ending(self, cut: BaseException | None) -> list[Event]:
        """How it was cut off, unless ADK's own events have told it."""
        if cut is None or self.encoder.failure is not None or self.encoder.aborted:
            return []
        return [ending_event(cut, self._author, self._invocation, self.mark)]


def fingerprint(turn: TurnInput) -> bytes:
    """What makes two requests the same, without keeping the pictures in them."""
    return hashlib.blake2b(msgspec.msgpack.encode(turn), digest_size=16).digest()


async def read(log: StreamLog, run: Run, after: int, heartbeat: float) -> AsyncGenerator[Batch, None]:
    """Everything behind `after` until the run ends; an empty batch is a heartbeat."""
    while (batch := await log.read(run.id, after, heartbeat)) is not None:
        if not (batch.entries or batch.closed or run.active):
            break
        yield batch
        after = batch.first + len(batch.entries) - 1
        if batch.closed:
            return
    gone = Error(error_text="This answer is no longer kept as a stream. Load the chat again to see it.")
    yield Batch(after + 1, encode_chunks([gone]), closed=True)
