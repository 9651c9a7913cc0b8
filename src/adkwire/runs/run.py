"""Run: one turn = one task + one encoder + one stream log.

A run belongs to the server. Whoever asked for it may go away; it ends when the agent is done, when it is stopped, or
when it fails, and in each case everything it opened is closed, in the session as on the wire.
"""

import asyncio
import contextlib
import hashlib
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Sequence
from contextlib import aclosing
from typing import TypeAlias

import msgspec
from google.adk.events.event import Event

from adkwire.adk.events import UnansweredCalls
from adkwire.adk.runner import AgentRunner
from adkwire.adk.stamps import turn_stamp
from adkwire.adk.writer import WRITER, Writer, check_writer
from adkwire.gate.gate import ToolGate
from adkwire.runs.ending import RunEnding
from adkwire.stores.base import ChatKey, RunHead, StreamLog
from adkwire.tasks import end
from adkwire.wire.chunks import Chunk
from adkwire.wire.decode.decoder import TurnInput, UserMessage
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.media import Media
from adkwire.wire.profiles import encode_chunks

logger = logging.getLogger("adkwire")

STOP_PATIENCE = 10.0
"""Seconds a run gets to end by ADK's own abort before its task is cancelled."""

_LONGEST_QUESTION = 256_000
_HEAD_START = 0.01
"""Seconds that the first reader has to get `start` out before ADK takes the loop for some milliseconds."""

Prepare: TypeAlias = Callable[[], Awaitable[None]]
Source: TypeAlias = Callable[[asyncio.Event], AsyncGenerator[Event, None]]
"""What drives a run: ADK's events for a turn or a continuation, until the abort signal is set."""


class Run:
    """One answer in the making, or made."""

    def __init__(
        self,
        run_id: str,
        key: ChatKey,
        message: UserMessage,
        encoder: Encoder,
        *,
        request: bytes = b"",
        prefix: Sequence[Chunk] = (),
        delivers: Collection[str] = (),
        invocation: str = "",
        author: str = "",
    ) -> None:
        self.id = run_id
        self.key = key
        self.message = message
        self.message_id = encoder.message_id
        self.encoder = encoder
        self.request = request
        """The fingerprint of the request that began it."""
        self._before = encode_chunks([encoder.start(), *prefix]) if prefix else []
        """What its message held before, for those who come without it."""
        self.before = len(self._before)
        self.delivers = frozenset(delivers)
        """The calls whose answers it brings to the agent."""
        self.breaks: list[tuple[int, frozenset[str]]] = []
        """Where the response of a stock client may end while it goes on, and the calls that wait there."""
        self.waits = False
        """Whether nothing comes before somebody acts: then it can be read like one that has ended."""
        self.stamp = turn_stamp(self.message_id, message.id)
        self.done = asyncio.Event()
        self.closed = False
        """Whether its stream will get no more, not even its end."""
        self.noticed = asyncio.Event()
        """Set when somebody has read the first of it."""
        self.readers = 0
        self.written = 0
        """How many entries its stream has, without what was before."""
        self.ended: Callable[[Run], None] | None = None
        """Called when it is done."""
        self.released: Callable[[Run], None] | None = None
        """Called when its stream is closed, too."""
        self._abort = asyncio.Event()
        self._why = "stopped"
        self._task: asyncio.Task[None] | None = None
        self._queued = False
        self._deadline: asyncio.TimerHandle | None = None
        self.invocation = invocation
        """The id of ADK's invocation; empty until its first event."""
        self.author = author
        """The author of the last event."""
        self._writer = Writer()
        self._abandoned: asyncio.Task[None] | None = None
        """The task that ends the run when the run's own task swallows its cancellation."""

    @classmethod
    def over(cls, head: RunHead) -> "Run":
        """A run of another process, or one that has ended there, which can only be read here."""
        said = UserMessage(head.user_message, ())
        run = cls(
            head.run,
            ChatKey(head.user, head.chat),
            said,
            Encoder(head.message),
            request=head.request,
            delivers=head.delivers,
        )
        run.before = head.before
        run.closed = True
        run.done.set()
        return run

    @property
    def head(self) -> RunHead:
        """What any worker must know of it."""
        delivers = tuple(sorted(self.delivers))
        return RunHead(self.id, *self.key, self.message_id, self.message.id, self.request, delivers, self.before)

    @property
    def active(self) -> bool:
        """Whether it still writes."""
        return not self.done.is_set()

    @property
    def stopping(self) -> bool:
        """Whether it was told to end."""
        return self._abort.is_set()

    @property
    def why(self) -> str:
        """Why it was told to end."""
        return self._why

    async def begin(
        self, adk: AgentRunner, gate: ToolGate, log: StreamLog, source: Source, prepare: Prepare | None = None
    ) -> None:
        """Say `start` at once, then let the task do the rest."""
        try:
            await self.open(log, [self.encoder.start()])
        except BaseException:
            self.done.set()
            raise
        self._adk, self._log, self._ending = adk, log, RunEnding(self, adk, gate)
        self._task = asyncio.create_task(self._drive(source, prepare), name=f"adkwire-run-{self.id}")

    async def tell(self, log: StreamLog, chunks: Sequence[Chunk]) -> None:
        """Be over before it began: it only has something to say."""
        await self.open(log, chunks)
        self.message = self.message._replace(parts=())
        self.done.set()
        await log.close(self.id)
        self.closed = True

    async def open(self, log: StreamLog, chunks: Sequence[Chunk]) -> None:
        """Begin its stream."""
        await log.open(self.head, self._before, _in_short(self.message))
        self._before = []
        await self.write(log, encode_chunks(chunks))

    def place_of(self, known: Collection[str]) -> tuple[int, int] | None:
        """The last break that a client has come to which knows what became of these calls of its last step; and the
        last one at which one of them had no answer yet."""
        meant = [(number, waiting) for number, waiting in self.breaks if not waiting.isdisjoint(known)]
        asked = frozenset[str]().union(*(waiting for _, waiting in meant))
        come = next((number for number, waiting in reversed(meant) if asked - waiting <= set(known)), None)
        return None if come is None else (come, meant[-1][0])

    async def write(self, log: StreamLog, entries: Sequence[bytes]) -> None:
        """Go on with its stream."""
        await log.append(self.id, entries)
        self.written += len(entries)

    async def stop(self) -> None:
        """End the run, and return when its stream is closed and nothing more can come of it."""
        self._abort.set()
        if self._task is None or self._task.done() or self.closed:
            return
        if self._queued:
            self._task.cancel()
        await asyncio.wait([self._task], timeout=STOP_PATIENCE)
        if not self._task.done():
            logger.warning("run %s does not end by itself; it is cancelled", self.id)
            if not await end(self._task):
                await self._abandon()

    @contextlib.contextmanager
    def queueing(self) -> Generator[None, None, None]:
        """While it waits for others to end there is nothing of ADK's that would notice a stop."""
        self._queued = True
        try:
            yield
        finally:
            self._queued = False

    def abort(self, why: str = "stopped") -> None:
        """Ask it to end, without waiting."""
        if not self._abort.is_set():
            self._why = why
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

    def unanswered_calls(self) -> UnansweredCalls:
        """Its calls, which may need answers once the user goes on without them."""
        return UnansweredCalls(self.encoder, self.author, self.invocation, self.stamp)

    async def _drive(self, source: Source, prepare: Prepare | None) -> None:
        WRITER.set(self._writer)
        cut: BaseException | None = None
        try:
            await self._head_start()
            if prepare is not None:
                await prepare()
            async with aclosing(source(self._abort)) as events:
                async for event in events:
                    check_writer()
                    await self._take(event)
        except BaseException as error:
            cut = error
            if not isinstance(error, Exception):
                raise
            if not self._writer.is_locked_out:
                logger.warning("run %s failed: %s", self.id, type(error).__name__, exc_info=error)
        finally:
            if not self._writer.is_locked_out:
                await self._finish(cut)

    async def _head_start(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HEAD_START):
                await self.noticed.wait()

    async def _take(self, event: Event) -> None:
        if event.invocation_id:
            self.invocation, self.author = event.invocation_id, event.author
        if chunks := self.encoder.feed(event):
            await self.write(self._log, encode_chunks(chunks))

    async def _finish(self, cut: BaseException | None) -> None:
        """End the run in session and stream, then close the stream, whatever fails on the way."""
        if self.active:
            await self._attempt(lambda: self._ending.store(cut), "its end could not be stored")
            await self._attempt(lambda: self._write_end(cut), "the end of its stream could not be written")
            self.keep()
            self._adk.forget(self.invocation)
            self.message = self.message._replace(parts=())
            self.done.set()
            if self.ended is not None:
                self.ended(self)
        # Only now: a client that has read the end may send its next message at once, and must not find the chat busy.
        await self._attempt(lambda: self._log.close(self.id), "its stream could not be closed")
        self.closed = True
        if self.released is not None:
            self.released(self)

    async def _write_end(self, cut: BaseException | None) -> None:
        await self.write(self._log, encode_chunks(self._ending.last_chunks(cut)))

    async def _attempt(self, step: Callable[[], Awaitable[None]], failure: str) -> None:
        """Take one step of the end. Neither an error nor a cancellation keeps the next steps from being taken."""
        check_writer()
        try:
            await step()
        except (Exception, asyncio.CancelledError):
            check_writer()
            logger.exception("run %s: %s", self.id, failure)
        check_writer()

    async def _abandon(self) -> None:
        """End the run without its task, which swallows its cancellation. The task is locked out of the chat."""
        if self._abandoned is None:
            self._writer.lock_out()
            self._abandoned = asyncio.create_task(self._finish_alone(), name=f"adkwire-run-end-{self.id}")
        await asyncio.shield(self._abandoned)

    async def _finish_alone(self) -> None:
        # The stop may come from a tool of this very run, whose context is locked out.
        WRITER.set(None)
        await self._finish(asyncio.CancelledError())


def _in_short(message: UserMessage) -> bytes:
    """What was said, unless it is so much that it would be a burden."""
    said = msgspec.msgpack.encode(message.parts)
    return said if len(said) <= _LONGEST_QUESTION else b""


def said_before(head: RunHead, question: bytes) -> UserMessage | None:
    """What the user had said when a run began, if it was kept."""
    parts = msgspec.msgpack.decode(question, type=tuple[str | Media, ...]) if question else ()
    return UserMessage(head.user_message, parts) if parts else None


def fingerprint(turn: TurnInput) -> bytes:
    """What makes two requests the same, without keeping the pictures in them."""
    return hashlib.blake2b(msgspec.msgpack.encode(turn), digest_size=16).digest()


async def stop_all(runs: Sequence[Run], why: str = "stopped") -> None:
    """Stop several runs of a chat. All are aborted first, so that a queued one does not begin when another ends."""
    for run in runs:
        run.abort(why)
    for run in runs:
        await run.stop()


def new_id(kind: str) -> str:
    """Return an id that cannot be guessed, such as `run-5f0c...`."""
    return f"{kind}-{secrets.token_hex(8)}"
