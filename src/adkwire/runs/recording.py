"""Recorder: what is sent and received in a chat, written to a file of its own, for `adkwire replay`.

Nothing waits for the disk: lines are handed to one thread that writes them in order. An error of the disk, or a disk
that does not keep up, ends the recording and nothing else.
"""

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from google.adk.events.event import Event

from adkwire.runs.recorded_lines import Body, Held, RecordedLine
from adkwire.runs.sessions import ChatKey
from adkwire.settings import Settings
from adkwire.stores.base import Batch, RunHead, StreamLog
from adkwire.stores.recordings import RecordingFiles
from adkwire.wire.breaks import is_break
from adkwire.wire.recordings import Direction, Location, Mode, encode_line
from adkwire.wire.redaction import Secrets

logger = logging.getLogger("adkwire")

_KEYS = ("ADKWIRE_TOKEN", "GOOGLE_API_KEY", "GEMINI_API_KEY")
_MAX_WAITING = 64_000_000
"""Bytes that may wait for the disk."""
_EVENT = 1_000
"""Bytes that an ADK event is counted for."""
_PATIENCE = 5.0
"""Seconds the disk gets at the end."""
_MAX_CHATS = 10_000

Source: TypeAlias = Callable[[asyncio.Event], AsyncGenerator[Event, None]]


@dataclass
class _RunLines:
    """The chunks of a run. While an older run of its chat is open they wait: runs are not mixed in a file."""

    next: int = 0
    waiting: list[RecordedLine] = field(default_factory=list[RecordedLine])
    closed: bool = False


@dataclass
class _Chat:
    """What is recorded of one chat."""

    key: ChatKey
    mode: Mode = "sse"
    counts: dict[Location, int] = field(default_factory=dict["Location", int])
    runs: dict[str, _RunLines] = field(default_factory=dict[str, _RunLines])
    """Those that are open, in their order, and those that ended while an older one was open."""
    name: str | None = None
    """Its file, once it was opened."""
    refused: bool = False
    held: Held | None = None


class Recorder:
    """Writes recordings into a folder."""

    def __init__(
        self,
        folder: Path,
        *,
        secrets: Iterable[str | None] = (),
        clock: Callable[[], float] = time.time,
        max_waiting: int = _MAX_WAITING,
    ) -> None:
        self._files = RecordingFiles(folder)
        self._secrets = Secrets(secrets)
        self._clock = clock
        self._max_waiting = max_waiting
        self._chats: dict[ChatKey, _Chat] = {}
        self._runs: dict[str, _Chat] = {}
        self._news = threading.Condition()
        self._waiting: deque[tuple[_Chat, RecordedLine | None]] = deque()
        self._size = 0
        self._thread: threading.Thread | None = None
        self._closing = False
        self._off = False

    @classmethod
    def of(cls, settings: Settings) -> "Recorder | None":
        """The recorder that the settings ask for, if any. The server's own keys are kept out of what it writes."""
        if settings.record is None:
            return None
        token = settings.token.get_secret_value() if settings.token is not None else None
        return cls(settings.record, secrets=[token, *map(os.environ.get, _KEYS)])

    def frame(self, user: str, chat: str, mode: Mode, body: bytes) -> None:
        """What a client sent: the body of a request or a frame, never its headers."""
        state = self._chat(ChatKey(user, chat))
        state.mode = mode
        self._put(state, self._line(state, "client-frame", "in", Body(body)))

    def event(self, key: ChatKey, event: Event) -> None:
        """What ADK said, as it is now: ADK may change it later."""
        if self._off:
            return
        try:
            value = event.model_dump(exclude_none=True, by_alias=True, warnings=False)
        except Exception as error:  # noqa: BLE001 - whatever an agent keeps in it must not end its run
            logger.warning("an event of chat %s could not be recorded: %s", key.chat, type(error).__name__)
            return
        state = self._chat(key)
        self._put(state, self._line(state, "server-adk-event", "in", value))

    def tap(self, key: ChatKey, source: Source) -> Source:
        """The same events, each recorded as it passes."""

        async def tapped(abort: asyncio.Event) -> AsyncGenerator[Event, None]:
            async with aclosing(source(abort)) as events:
                async for event in events:
                    self.event(key, event)
                    yield event

        return tapped

    def opened(self, head: RunHead, first: int = 0) -> None:
        """A run begins, or is gone on with from number `first`."""
        state = self._runs[head.run] = self._chat(ChatKey(head.user, head.chat))
        state.runs[head.run] = _RunLines(first)

    def knows(self, run: str) -> bool:
        """Whether the run was opened here."""
        return run in self._runs

    def wrote(self, run: str, entries: Sequence[bytes]) -> None:
        """Chunks of a run were sent."""
        state = self._runs[run]
        lines = state.runs[run]
        lines.waiting += [
            RecordedLine(self._now(), state.mode, "server-chunk", "out", number, entry)
            for number, entry in enumerate(entries, lines.next)
        ]
        lines.next += len(entries)
        self._release(state)

    def closed(self, run: str) -> None:
        """A run has ended: those that waited for it are next."""
        state = self._runs.pop(run, None)
        if state is not None:
            state.runs[run].closed = True
            self._release(state)

    def _release(self, state: _Chat) -> None:
        """Hand on what the oldest open run of a chat has, and what those have that are over."""
        for run, lines in list(state.runs.items()):
            for line in lines.waiting:
                self._put(state, line)
            lines.waiting = []
            if not lines.closed:
                return
            self._put(state, None)
            del state.runs[run]

    async def close(self) -> None:
        """Let everything be written, as far as the disk lets it."""
        with self._news:
            self._closing = True
            self._news.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _PATIENCE)

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _chat(self, key: ChatKey) -> _Chat:
        state = self._chats.get(key)
        if state is None:
            state = self._chats[key] = _Chat(key)
            if len(self._chats) > _MAX_CHATS:
                oldest = next((key for key, chat in self._chats.items() if not chat.runs and chat is not state), None)
                self._chats.pop(oldest or key)
        return state

    def _line(
        self, state: _Chat, location: Location, direction: Direction, value: dict[str, Any] | Body
    ) -> RecordedLine:
        number = state.counts[location] = state.counts.get(location, -1) + 1
        return RecordedLine(self._now(), state.mode, location, direction, number, value)

    def _put(self, state: _Chat, line: RecordedLine | None) -> None:
        """Hand a line to the writer; None says that a run has ended."""
        with self._news:
            if self._off or self._closing:
                return
            self._waiting.append((state, line))
            self._size += _size(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="adkwire-recorder", daemon=True)
                self._thread.start()
            self._news.notify()
            full = self._size > self._max_waiting
        if full:
            self._give_up("the disk does not keep up")

    def _give_up(self, why: object) -> None:
        with self._news:
            told, self._off = self._off, True
            self._waiting.clear()
            self._size = 0
        if not told:
            logger.error("nothing more is recorded in %s: %s", self._files.folder, why)

    def _work(self) -> None:
        while batch := self._take():
            self._try_to_write(batch)
        if not self._off:
            self._try_to_write([(state, None) for state in list(self._chats.values())])

    def _try_to_write(self, batch: list[tuple[_Chat, RecordedLine | None]]) -> None:
        try:
            self._write(batch)
        except OSError as error:
            self._give_up(error.strerror or error)
        except Exception:
            logger.exception("a recording could not be written")
            self._give_up("see above")

    def _take(self) -> list[tuple[_Chat, RecordedLine | None]]:
        """All that waits, as soon as there is something; nothing when nothing more will come."""
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._closing)
            batch = list(self._waiting)
            self._waiting.clear()
            self._size = 0
            return batch

    def _write(self, batch: Iterable[tuple[_Chat, RecordedLine | None]]) -> None:
        found: dict[ChatKey, tuple[_Chat, list[bytes]]] = {}
        for state, line in batch:
            found.setdefault(state.key, (state, []))[1].extend(self._ready(state, line))
        for state, lines in found.values():
            if lines and (name := self._name(state)) is not None:
                self._files.append(name, b"".join(lines))

    def _ready(self, state: _Chat, line: RecordedLine | None) -> list[bytes]:
        """The lines that can be written now."""
        if not self._secrets:
            ready = [] if line is None else [line]
        else:
            held = state.held = state.held or Held(self._secrets)
            ready = held.flush() if line is None else held.take(line)
        return [_encode(state, line, self._secrets) for line in ready]

    def _name(self, state: _Chat) -> str | None:
        if state.name is None and not state.refused:
            state.name = self._files.claim(*state.key)
            state.refused = state.name is None
            if state.refused:
                logger.warning("chat %s is not recorded: its file is something else", state.key.chat)
        return state.name


def _size(line: RecordedLine | None) -> int:
    if line is None:
        return 0
    if isinstance(line.value, dict):
        return _EVENT
    return len(line.value.raw if isinstance(line.value, Body) else line.value)


def _encode(state: _Chat, line: RecordedLine, secrets: Secrets) -> bytes:
    chunk = secrets.cover(line.encoded())
    return encode_line(line.timestamp, state.key.chat, line.mode, line.location, line.direction, line.sequence, chunk)


class RecordedLog:
    """A `StreamLog` that records what is written to it."""

    def __init__(self, log: StreamLog, recorder: Recorder) -> None:
        self._log = log
        self._recorder = recorder
        self._new: dict[str, RunHead] = {}
        """Runs that have no entry yet. Only the first one makes others wait for their end."""

    async def open(self, head: RunHead, before: Sequence[bytes] = (), question: bytes = b"") -> None:
        """Begin the log of a run."""
        await self._log.open(head, before, question)
        self._new[head.run] = head

    async def append(self, run: str, entries: Sequence[bytes]) -> None:
        """Add encoded chunks behind the last."""
        known = self._recorder.knows(run)
        head, first = (None, 0) if known else await self._place_of(run)
        await self._log.append(run, entries)
        if head is not None:
            self._recorder.opened(head, first)
        if known or head is not None:
            self._recorder.wrote(run, [entry for entry in entries if not is_break(entry)])

    async def close(self, run: str) -> None:
        """Say that nothing more comes."""
        try:
            await self._log.close(run)
        finally:
            self._new.pop(run, None)
            self._recorder.closed(run)

    async def read(self, run: str, after: int, wait: float) -> Batch | None:
        """Return what is behind `after`."""
        return await self._log.read(run, after, wait)

    async def head(self, run: str) -> RunHead | None:
        """Whose run it is."""
        return await self._log.head(run)

    async def runs(self, user: str, chat: str) -> list[RunHead]:
        """The runs of a chat."""
        return await self._log.runs(user, chat)

    async def question(self, run: str) -> bytes:
        """What the user said."""
        return await self._log.question(run)

    async def unclosed(self, user: str | None = None, chat: str | None = None) -> list[RunHead]:
        """The runs that have no end."""
        return await self._log.unclosed(user, chat)

    async def forget(self, user: str, chat: str) -> None:
        """Drop the runs of a chat."""
        await self._log.forget(user, chat)

    async def aclose(self) -> None:
        """Let go of what is open."""
        await self._log.aclose()

    async def _place_of(self, run: str) -> tuple[RunHead | None, int]:
        """Whose run it is and what number is next, also of one that another process began and that is ended here."""
        if (head := self._new.pop(run, None)) is not None:
            return head, 0
        head, last = await self._log.head(run), -1
        while (batch := await self._log.read(run, last, 0)) is not None and batch.entries:
            last = batch.first + len(batch.entries) - 1
        return head, last + 1
