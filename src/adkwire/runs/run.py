"""Run: one turn = one task + one encoder + one stream log.

A run belongs to the server. Whoever asked for it may go away; it ends when the agent is done, when it is stopped, or
when it fails, and in each case everything it opened is closed, in the session as on the wire.
"""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Sequence
from contextlib import aclosing
from functools import partial
from typing import TypeAlias

import msgspec
from google.adk.events.event import Event

from adkwire.errors import RequestError
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import OPEN, OVER, State
from adkwire.runs.adk import Adk
from adkwire.runs.history import mark_of
from adkwire.runs.own_events import (
    LOST,
    LooseEnds,
    Response,
    ending_event,
    is_released,
    partial_event,
    told_of,
    why_not,
)
from adkwire.runs.parked import responses_of
from adkwire.runs.sessions import ChatKey
from adkwire.stores.base import RunHead, StreamLog
from adkwire.wire.calls import UNFINISHED
from adkwire.wire.chunks import Chunk
from adkwire.wire.decoder import TurnInput, UserMessage
from adkwire.wire.encoder import Encoder
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
        self.mark = mark_of(self.message_id, message.id)
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
        self._invocation = invocation
        self._author = author

    @classmethod
    def over(cls, head: RunHead) -> "Run":
        """A run of another process, or one that has ended there, which can only be read here."""
        said = UserMessage(head.said, ())
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
        self, adk: Adk, gate: ToolGate, log: StreamLog, source: Source, prepare: Prepare | None = None
    ) -> None:
        """Say `start` at once, then let the task do the rest."""
        try:
            await self.open(log, [self.encoder.start()])
        except BaseException:
            self.done.set()
            raise
        driving = self._drive(adk, gate, log, source, prepare)
        self._task = asyncio.create_task(driving, name=f"adkwire-run-{self.id}")

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
        """End it, and return when nothing more can come of it."""
        self._abort.set()
        if self._task is not None and not self._task.done():
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

    def loose_ends(self) -> LooseEnds:
        """Its calls, which may need answers once the user goes on without them."""
        return LooseEnds(self.encoder, self._author, self._invocation, self.mark)

    async def _drive(self, adk: Adk, gate: ToolGate, log: StreamLog, source: Source, prepare: Prepare | None) -> None:
        cut: Exception | asyncio.CancelledError | None = None
        try:
            await self._head_start()
            if prepare is not None:
                await prepare()
            async with aclosing(source(self._abort)) as events:
                async for event in events:
                    await self._take(event, log)
        except asyncio.CancelledError as error:
            cut = error
            raise
        except Exception as error:
            cut = error
            logger.warning("run %s failed: %s", self.id, type(error).__name__, exc_info=error)
        finally:
            await self._finish(adk, gate, log, cut)

    async def _head_start(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HEAD_START):
                await self.noticed.wait()

    async def _take(self, event: Event, log: StreamLog) -> None:
        if event.invocation_id:
            self._invocation, self._author = event.invocation_id, event.author
        if chunks := self.encoder.feed(event):
            await self.write(log, encode_chunks(chunks))

    async def _finish(self, adk: Adk, gate: ToolGate, log: StreamLog, cut: BaseException | None) -> None:
        """Make session and stream agree on how it ended, then close the stream whatever happens."""
        chunks: list[Chunk] = []

        async def store() -> None:
            for event in await self._last_events(adk, gate, cut) if self._invocation else ():
                await adk.append(self.key, [event])
                chunks.extend(self.encoder.feed(event))

        async def write() -> None:
            for event in self._ending(cut):
                chunks.extend(self.encoder.feed(event))
            await self.write(log, encode_chunks([*chunks, *self.encoder.end()]))

        try:
            await self._attempt(store, "its end could not be stored")
            await self._attempt(write, "the end of its stream could not be written")
        finally:
            self.keep()
            adk.forget(self._invocation)
            self.message = self.message._replace(parts=())
            self.done.set()
            if self.ended is not None:
                self.ended(self)
            # Only now: who has read the end must be able to go on, and not meet a chat that is busy.
            await self._attempt(partial(log.close, self.id), "its stream could not be closed")
            self.closed = True
            if self.released is not None:
                self.released(self)

    async def _attempt(self, step: Callable[[], Awaitable[None]], failure: str) -> None:
        """One step of the end. Neither an error nor an impatient stop keeps the next ones from being tried."""
        try:
            await step()
        except (Exception, asyncio.CancelledError):
            logger.exception("run %s: %s", self.id, failure)

    async def _last_events(self, adk: Adk, gate: ToolGate, cut: BaseException | None) -> list[Event]:
        """What ADK did not write down: text that was shown, calls nobody will answer, why it ended."""
        cut_off = self.stopping or self.encoder.aborted or (cut or self.encoder.failure) is not None
        unsaved = self.encoder.unsaved()
        events = [partial_event(each, self._invocation, self.mark, cut=cut_off) for each in unsaved]
        return events + await self._seals(adk, gate) + self._ending(cut)

    async def _seals(self, adk: Adk, gate: ToolGate) -> list[Event]:
        """Answers for the calls that were running and, when it was stopped, for those that wait for someone."""
        known: dict[str, Response] = {}
        # Whoever wants to stop it from here on finds a run that has ended by itself.
        stopped = self.stopping
        reason = self._why if stopped else "failed"
        given: set[str] = set()
        for call, _ in self.encoder.open_calls():
            result = adk.result_of(self._invocation, call)
            given |= {call} if result is not None else set()
            known[call] = result or await self.fate(gate, call, reason)
        with _store_may_be_away():
            if stopped:
                known |= responses_of(await gate.void(*self.key, reason))
                known |= await self._given(gate, known)
            for call in () if stopped else self.encoder.waiting():
                if await gate.get(*self.key, call.id) is None:
                    known[call.id] = {"error": LOST}
            for call in self.delivers - ({call for call, _ in self.encoder.unsettled_calls()} - given):
                await self._close_record(gate, call)
        return self.loose_ends().sealed(known, otherwise=why_not(reason) if stopped else None)

    async def _given(self, gate: ToolGate, known: Collection[str]) -> dict[str, Response]:
        """What was decided about calls, or given by a browser, and the agent has not got any more."""
        left = [call for call, _ in self.encoder.unsettled_calls() if call not in known]
        calls = [await gate.get(*self.key, call) for call in left]
        return responses_of(call for call in calls if call is not None)

    async def _close_record(self, gate: ToolGate, call: str) -> None:
        """A call has its answer. If its record does not know, our note of it failed or came too late for the stop, or
        it was answered without having begun: by another plugin, or by us, since a store was away."""
        record = await gate.get(*self.key, call)
        if record is None or record.state in OVER:
            return
        if record.state is State.EXECUTING:
            await gate.finish(*self.key, call, "executed")
        elif record.state in OPEN or record.retried:
            await gate.abandon(*self.key, call, "interrupted")
        else:
            await gate.finish(*self.key, call, "answered" if is_released(record) else "not executed")

    async def fate(self, gate: ToolGate, call: str, reason: str) -> Response:
        """What is to be said about a call that ran when the run ended. In doubt it may have been executed."""
        with _store_may_be_away():
            if not await gate.abandon(*self.key, call, reason):
                record = await gate.get(*self.key, call)
                return (told_of(record) if record is not None else None) or {"error": why_not(reason)}
        return {"error": UNFINISHED}

    def _ending(self, cut: BaseException | None) -> list[Event]:
        """How it was cut off, unless ADK's own events have told it."""
        if cut is None or self.encoder.failure is not None or self.encoder.aborted:
            return []
        return [ending_event(cut, self._author, self._invocation, self.mark)]


@contextlib.contextmanager
def _store_may_be_away() -> Generator[None, None, None]:
    """What cannot be asked of the gate, or told to it, does not keep a run from ending."""
    try:
        yield
    except RequestError as error:
        logger.warning("the gate could not be asked: %s", error.message)


def _in_short(message: UserMessage) -> bytes:
    """What was said, unless it is so much that it would be a burden."""
    said = msgspec.msgpack.encode(message.parts)
    return said if len(said) <= _LONGEST_QUESTION else b""


def said_before(head: RunHead, question: bytes) -> UserMessage | None:
    """What the user had said when a run began, if it was kept."""
    parts = msgspec.msgpack.decode(question, type=tuple[str | Media, ...]) if question else ()
    return UserMessage(head.said, parts) if parts else None


def fingerprint(turn: TurnInput) -> bytes:
    """What makes two requests the same, without keeping the pictures in them."""
    return hashlib.blake2b(msgspec.msgpack.encode(turn), digest_size=16).digest()
