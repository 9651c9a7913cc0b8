"""Run: the task that writes one assistant message or continues it, with its encoder and its log.

A run belongs to the server: it goes on when the client that sent the message has left. It ends when the agent is done,
when it is stopped, or when it fails; each time everything that it opened is closed, in the session and in the stream.
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

from adkwire.adk.events import CallsWithoutResponse
from adkwire.adk.runner import AgentRunner
from adkwire.adk.stamps import turn_stamp
from adkwire.adk.writer import WRITER, Writer, check_writer
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import StopReason
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

_LONGEST_USER_MESSAGE = 256_000
"""Bytes of a user message that the log keeps; a longer one is lost if the server dies before the agent gets it."""
_HEAD_START = 0.01
"""Seconds to wait for a reader to send `start` before ADK occupies the event loop for some milliseconds."""

Prepare: TypeAlias = Callable[[], Awaitable[None]]
Source: TypeAlias = Callable[[asyncio.Event], AsyncGenerator[Event, None]]
"""Yields the ADK events of a turn or a continuation, until the abort signal is set."""


class Run:
    """The task that writes one assistant message or continues it, running or ended."""

    def __init__(
        self,
        run_id: str,
        key: ChatKey,
        user_message: UserMessage,
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
        self.user_message = user_message
        self.message_id = encoder.message_id
        self.encoder = encoder
        self.request = request
        """The fingerprint of the request that began the run; empty when no user message did."""
        self._before = encode_chunks([encoder.start(), *prefix]) if prefix else []
        """Entries with what the message held before this run, for readers that do not have it."""
        self.before = len(self._before)
        """How many of these entries there are."""
        self.delivers = frozenset(delivers)
        """The calls whose answers the run brings to the agent."""
        self.breaks: list[tuple[int, frozenset[str]]] = []
        """Numbers of entries after which a response to a stock client may end while the run goes on, and the calls that
        are pending there."""
        self.waits = False
        """True while no chunk can come until a call is answered: then the run is read like one that has ended."""
        self.stamp = turn_stamp(self.message_id, user_message.id)
        self.done = asyncio.Event()
        """Set when the last chunk is written."""
        self.closed = False
        """True once the stream is closed as well."""
        self.first_read = asyncio.Event()
        """Set when a reader has got the first entries."""
        self.readers = 0
        self.written = 0
        """How many entries the stream has, without those of `before`."""
        self.on_done: Callable[[Run], None] | None = None
        self.on_closed: Callable[[Run], None] | None = None
        self._abort = asyncio.Event()
        self._why: StopReason = "stopped"
        self._task: asyncio.Task[None] | None = None
        self._queued = False
        """True while the run waits for earlier runs of its chat to end."""
        self._deadline: asyncio.TimerHandle | None = None
        self.invocation = invocation
        """The id of ADK's invocation; empty until its first event."""
        self.author = author
        """The author of the last event."""
        self._writer = Writer()
        self._abandoned: asyncio.Task[None] | None = None
        """The task that ends the run when the run's own task swallows its cancellation."""

    @classmethod
    def read_only(cls, head: RunHead) -> "Run":
        """Return a run that another process writes or has written: here it can only be read."""
        run = cls(
            head.run,
            ChatKey(head.user, head.chat),
            UserMessage(head.user_message, ()),
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
        """The description of the run that all workers share."""
        delivers = tuple(sorted(self.delivers))
        return RunHead(self.id, *self.key, self.message_id, self.user_message.id, self.request, delivers, self.before)

    @property
    def active(self) -> bool:
        """True until the last chunk is written."""
        return not self.done.is_set()

    @property
    def stopping(self) -> bool:
        """True once the run was asked to end."""
        return self._abort.is_set()

    @property
    def why(self) -> StopReason:
        """Why the run was asked to end; `stopped` until it was."""
        return self._why

    async def begin(
        self, adk: AgentRunner, gate: ToolGate, log: StreamLog, source: Source, prepare: Prepare | None = None
    ) -> None:
        """Write `start`, then start the task that does the rest."""
        try:
            await self.open(log, [self.encoder.start()])
        except BaseException:
            self.done.set()
            raise
        self._adk, self._log, self._ending = adk, log, RunEnding(self, adk, gate)
        self._task = asyncio.create_task(self._drive(source, prepare), name=f"adkwire-run-{self.id}")

    async def write_whole(self, log: StreamLog, chunks: Sequence[Chunk]) -> None:
        """Write the whole stream at once and end the run, for one that needs no task."""
        await self.open(log, chunks)
        self.user_message = self.user_message._replace(parts=())
        self.done.set()
        await log.close(self.id)
        self.closed = True

    async def open(self, log: StreamLog, chunks: Sequence[Chunk]) -> None:
        """Open the stream in the log and write its first chunks."""
        await log.open(self.head, self._before, _encode_user_message(self.user_message))
        self._before = []
        await self.write(log, encode_chunks(chunks))

    def find_breaks(self, answered: Collection[str]) -> tuple[int, int] | None:
        """Return the last break that a client has reached which has answers to these calls of its last step, and the
        last break at which one of the calls was pending; None if there is no such break."""
        breaks = [(number, pending) for number, pending in self.breaks if not pending.isdisjoint(answered)]
        step = frozenset[str]().union(*(pending for _, pending in breaks))
        reached = next((number for number, pending in reversed(breaks) if step - pending <= set(answered)), None)
        return None if reached is None else (reached, breaks[-1][0])

    async def write(self, log: StreamLog, entries: Sequence[bytes]) -> None:
        """Append entries to the stream."""
        await log.append(self.id, entries)
        self.written += len(entries)

    async def stop(self) -> None:
        """End the run, and return when its stream is closed and its task can write nothing more."""
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
        """Mark the run as waiting for earlier runs: ADK does not run yet, so that a stop has to cancel the task."""
        self._queued = True
        try:
            yield
        finally:
            self._queued = False

    def abort(self, why: StopReason = "stopped") -> None:
        """Ask the run to end, and do not wait for it. The first reason is kept."""
        if not self._abort.is_set():
            self._why = why
        self._abort.set()

    def abort_after(self, seconds: float) -> None:
        """Ask the run to end after some seconds, unless `cancel_deadline` is called before."""
        self.cancel_deadline()
        if self.active:
            self._deadline = asyncio.get_running_loop().call_later(seconds, self.abort)

    def cancel_deadline(self) -> None:
        """Take back `abort_after`."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def unanswered_calls(self) -> CallsWithoutResponse:
        """Return the calls of the run, which may need synthetic results when the user goes on without answering."""
        return CallsWithoutResponse(self.encoder, self.author, self.invocation, self.stamp)

    async def _drive(self, source: Source, prepare: Prepare | None) -> None:
        WRITER.set(self._writer)
        cut: BaseException | None = None
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_HEAD_START):
                    await self.first_read.wait()
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
            self.cancel_deadline()
            self._adk.forget(self.invocation)
            self.user_message = self.user_message._replace(parts=())
            self.done.set()
            if self.on_done is not None:
                self.on_done(self)
        # Only now: a client that has read the end may send its next message at once, and must not find the chat busy.
        await self._attempt(lambda: self._log.close(self.id), "its stream could not be closed")
        self.closed = True
        if self.on_closed is not None:
            self.on_closed(self)

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


def _encode_user_message(message: UserMessage) -> bytes:
    """Return a user message for the stream log; empty when it is too long to be kept there."""
    encoded = msgspec.msgpack.encode(message.parts)
    return encoded if len(encoded) <= _LONGEST_USER_MESSAGE else b""


def decode_user_message(head: RunHead, encoded: bytes) -> UserMessage | None:
    """Return the user message that a run answers from the stream log; None if it was not kept."""
    parts = msgspec.msgpack.decode(encoded, type=tuple[str | Media, ...]) if encoded else ()
    return UserMessage(head.user_message, parts) if parts else None


def fingerprint(turn: TurnInput) -> bytes:
    """Return a hash that is equal for equal requests, so that files in them need not be kept."""
    return hashlib.blake2b(msgspec.msgpack.encode(turn), digest_size=16).digest()


async def stop_all(runs: Sequence[Run], why: StopReason = "stopped") -> None:
    """Stop several runs of a chat. All are aborted first, so that a queued one does not begin when another ends."""
    for run in runs:
        run.abort(why)
    for run in runs:
        await run.stop()


def new_id(kind: str) -> str:
    """Return an id that cannot be guessed, such as `run-5f0c...`."""
    return f"{kind}-{secrets.token_hex(8)}"
