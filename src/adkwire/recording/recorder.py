"""Recorder: writes what is sent and received in each chat to a file of the chat, for `adkwire replay`.

Runs never wait for the disk: lines are queued for one thread, which writes them in order. An error of the disk, or a
disk that is too slow, ends the recording and nothing else.
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
from typing import Any

from google.adk.events.event import Event

from adkwire.recording.files import RecordingFiles
from adkwire.recording.redacted_lines import ClientBody, RecordedLine, SplitSecretBuffer
from adkwire.runs.run import Source
from adkwire.settings import Settings
from adkwire.stores.base import ChatKey, RunHead
from adkwire.wire.recording_lines import LineDirection, LineLocation, Mode, encode_line, is_event_line
from adkwire.wire.redaction import Secrets

logger = logging.getLogger("adkwire")

_KEYS = ("ADKWIRE_TOKEN", "GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Environment variables whose values are kept out of recordings."""
_MAX_QUEUED = 64_000_000
"""Bytes that may be queued for the disk."""
_EVENT_SIZE = 1_000
"""Bytes that an ADK event counts as in the queue."""
_CLOSE_TIMEOUT = 5.0
"""Seconds to wait on close until all queued lines are written."""
_FLUSH_TIMEOUT = 5.0
"""Seconds that a reader waits until all queued lines are written."""
_READ_SIZE = 65_536
"""Bytes of lines that are read at once; a longer line is read whole."""
_MAX_CHATS = 10_000
"""Chats whose state is kept in memory."""


@dataclass
class _RunLines:
    """The lines of a run that were not queued yet: runs are not mixed in a file, so a run waits for older ones."""

    next: int = 0
    """Number of the next chunk."""
    waiting: list[RecordedLine] = field(default_factory=list[RecordedLine])
    closed: bool = False


@dataclass
class _Chat:
    """The state of one chat's recording."""

    key: ChatKey
    mode: Mode = "sse"
    counts: dict[LineLocation, int] = field(default_factory=dict["LineLocation", int])
    runs: dict[str, _RunLines] = field(default_factory=dict[str, _RunLines])
    """Open runs in the order in which they began, and closed runs that wait for an older run to close."""
    name: str | None = None
    """Name of the chat's file, once it was claimed."""
    refused: bool = False
    """True when the chat has no file, because all names for it are taken."""
    buffer: SplitSecretBuffer | None = None


class Recorder:
    """Writes recordings into a folder."""

    def __init__(
        self,
        folder: Path,
        *,
        secrets: Iterable[str | None] = (),
        clock: Callable[[], float] = time.time,
        max_queued: int = _MAX_QUEUED,
    ) -> None:
        self._files = RecordingFiles(folder)
        self._secrets = Secrets(secrets)
        self._clock = clock
        self._max_queued = max_queued
        self._chats: dict[ChatKey, _Chat] = {}
        self._runs: dict[str, _Chat] = {}
        self._lines_added = threading.Condition()
        """Guards the queue; notified when a line was queued, a batch was written or the recorder closes."""
        self._queue: deque[tuple[_Chat, RecordedLine | None]] = deque()
        """Lines for the writing thread; None in the place of a line marks the end of a run."""
        self._queued_bytes = 0
        self._thread: threading.Thread | None = None
        self._closing = False
        self._writing = False
        """True while the thread writes lines that it has taken from the queue."""
        self._off = False
        """True when the recording has ended because of the disk."""

    @classmethod
    def of(cls, settings: Settings) -> "Recorder | None":
        """Return the recorder for the settings, or None. It keeps the server's own token and keys out of recordings."""
        if settings.record is None:
            return None
        token = settings.token.get_secret_value() if settings.token is not None else None
        return cls(settings.record, secrets=[token, *map(os.environ.get, _KEYS)])

    def frame(self, user: str, chat: str, mode: Mode, body: bytes) -> None:
        """Record what a client sent: the body of a request or a frame of a socket, without headers."""
        state = self._chat(ChatKey(user, chat))
        state.mode = mode
        self._put(state, self._line(state, "client-frame", "in", ClientBody(body)))

    def event(self, key: ChatKey, event: Event) -> None:
        """Record an ADK event. It is dumped now, because ADK may change it later."""
        if self._off:
            return
        try:
            value = event.model_dump(exclude_none=True, by_alias=True, warnings=False)
        except Exception as error:  # noqa: BLE001 - a value of the agent that cannot be dumped must not end its run
            logger.warning("an event of chat %s could not be recorded: %s", key.chat, type(error).__name__)
            return
        state = self._chat(key)
        self._put(state, self._line(state, "server-adk-event", "in", value))

    def tap(self, key: ChatKey, source: Source) -> Source:
        """Return a source of the same events that records each of them."""

        async def tapped(abort: asyncio.Event) -> AsyncGenerator[Event, None]:
            async with aclosing(source(abort)) as events:
                async for event in events:
                    self.event(key, event)
                    yield event

        return tapped

    def run_opened(self, head: RunHead, first: int = 0) -> None:
        """Begin to record a run. `first` is the number of its next chunk, if another process began it."""
        state = self._runs[head.run] = self._chat(ChatKey(head.user, head.chat))
        state.runs[head.run] = _RunLines(first)

    def has_run(self, run: str) -> bool:
        """Return whether the run is being recorded."""
        return run in self._runs

    def chunks_written(self, run: str, entries: Sequence[bytes]) -> None:
        """Record chunks of a run."""
        state = self._runs[run]
        lines = state.runs[run]
        lines.waiting += [
            RecordedLine(self._now(), state.mode, "server-chunk", "out", number, entry)
            for number, entry in enumerate(entries, lines.next)
        ]
        lines.next += len(entries)
        self._queue_runs(state)

    def run_closed(self, run: str) -> None:
        """End the recording of a run, and queue the lines of the runs that waited for it."""
        state = self._runs.pop(run, None)
        if state is not None:
            state.runs[run].closed = True
            self._queue_runs(state)

    def _queue_runs(self, state: _Chat) -> None:
        """Queue the lines of a chat's runs, up to and with the oldest run that is still open."""
        for run, lines in list(state.runs.items()):
            for line in lines.waiting:
                self._put(state, line)
            lines.waiting = []
            if not lines.closed:
                return
            self._put(state, None)
            del state.runs[run]

    async def lines(self, key: ChatKey, *, events: bool) -> AsyncGenerator[bytes, None] | None:
        """Return what is recorded of a chat in blocks of whole lines, with or without ADK's events; None if nothing is.

        Lines that are queued are written first. Of a run that goes on, lines may be missing.
        """
        name = await asyncio.to_thread(self._flush_and_find, key)
        return None if name is None else self._blocks(name, events=events)

    def _flush_and_find(self, key: ChatKey) -> str | None:
        with self._lines_added:
            self._lines_added.wait_for(lambda: not (self._queue or self._writing), _FLUSH_TIMEOUT)
        return self._files.find(*key)

    async def _blocks(self, name: str, *, events: bool) -> AsyncGenerator[bytes, None]:
        with await asyncio.to_thread(self._files.open_to_read, name) as file:
            while lines := await asyncio.to_thread(file.readlines, _READ_SIZE):
                # A last line without its end is being written.
                shown = [line for line in lines if line.endswith(b"\n") and (events or not is_event_line(line))]
                if shown:
                    yield b"".join(shown)

    async def close(self) -> None:
        """Wait until all queued lines are written, at most `_CLOSE_TIMEOUT` seconds."""
        with self._lines_added:
            self._closing = True
            self._lines_added.notify_all()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _CLOSE_TIMEOUT)

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
        self, state: _Chat, location: LineLocation, direction: LineDirection, value: dict[str, Any] | ClientBody
    ) -> RecordedLine:
        number = state.counts[location] = state.counts.get(location, -1) + 1
        return RecordedLine(self._now(), state.mode, location, direction, number, value)

    def _put(self, state: _Chat, line: RecordedLine | None) -> None:
        """Queue a line for the writing thread; None marks the end of a run."""
        with self._lines_added:
            if self._off or self._closing:
                return
            self._queue.append((state, line))
            self._queued_bytes += _size(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_queue, name="adkwire-recorder", daemon=True)
                self._thread.start()
            self._lines_added.notify_all()
            full = self._queued_bytes > self._max_queued
        if full:
            self._give_up("the disk does not keep up")

    def _give_up(self, reason: object) -> None:
        with self._lines_added:
            was_off, self._off = self._off, True
            self._queue.clear()
            self._queued_bytes = 0
        if not was_off:
            logger.error("nothing more is recorded in %s: %s", self._files.folder, reason)

    def _write_queue(self) -> None:
        """Write batches until the recorder closes, then the lines that buffers still have. Runs in a thread."""
        while batch := self._next_batch():
            self._try_to_write(batch)
            with self._lines_added:
                self._writing = False
                self._lines_added.notify_all()
        if not self._off:
            self._try_to_write([(state, None) for state in list(self._chats.values())])

    def _try_to_write(self, batch: list[tuple[_Chat, RecordedLine | None]]) -> None:
        try:
            self._write(batch)
        except OSError as error:
            self._give_up(error.strerror or error)
        except Exception:
            logger.exception("a recording could not be written")
            self._give_up("an unexpected error, logged above")

    def _next_batch(self) -> list[tuple[_Chat, RecordedLine | None]]:
        """Wait for queued lines and return them all; return none when the recorder closes."""
        with self._lines_added:
            self._lines_added.wait_for(lambda: self._queue or self._closing)
            batch = list(self._queue)
            self._queue.clear()
            self._queued_bytes = 0
            self._writing = bool(batch)
            return batch

    def _write(self, batch: Iterable[tuple[_Chat, RecordedLine | None]]) -> None:
        by_chat: dict[ChatKey, tuple[_Chat, list[bytes]]] = {}
        for state, line in batch:
            by_chat.setdefault(state.key, (state, []))[1].extend(self._encoded(state, line))
        for state, lines in by_chat.values():
            if lines and (name := self._claimed_name(state)) is not None:
                self._files.append(name, b"".join(lines))

    def _encoded(self, state: _Chat, line: RecordedLine | None) -> list[bytes]:
        """Return the encoded lines that can be written after this one, or after the end of a run."""
        if not self._secrets:
            lines = [] if line is None else [line]
        else:
            buffer = state.buffer = state.buffer or SplitSecretBuffer(self._secrets)
            lines = buffer.flush() if line is None else buffer.add(line)
        return [_encode(state, line, self._secrets) for line in lines]

    def _claimed_name(self, state: _Chat) -> str | None:
        if state.name is None and not state.refused:
            state.name = self._files.claim(*state.key)
            state.refused = state.name is None
            if state.refused:
                logger.warning(
                    "chat %s is not recorded: the names for its file are taken by something else", state.key.chat
                )
        return state.name


def _size(line: RecordedLine | None) -> int:
    if line is None:
        return 0
    if isinstance(line.value, dict):
        return _EVENT_SIZE
    return len(line.value.raw if isinstance(line.value, ClientBody) else line.value)


def _encode(state: _Chat, line: RecordedLine, secrets: Secrets) -> bytes:
    chunk = secrets.cover(line.encoded())
    return encode_line(line.timestamp, state.key.chat, line.mode, line.location, line.direction, line.sequence, chunk)
