"""Outbox: the one way out of a socket.

There are two classes of delivery. Text frames keep their order and none is lost. Audio is sent when no text frame
waits, is discarded when the user interrupts it, and when the client is slow the oldest of it is dropped.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from starlette.websockets import WebSocket, WebSocketDisconnect

from adkwire.server.sockets.endings import GONE, SLOW, Ending
from adkwire.wire.socket.binary_frames import is_older

_SLICE = 256_000
"""Bytes that a client may take the seconds of the settings for: a large picture may take longer."""
_TIMER_SLACK = 0.1
"""The part of a write timeout by which a write may time out early: setting a timer for each piece of audio would cost
more than sending it."""
_MAX_AUDIO_BYTES = 2_880_000
"""Bytes of audio that may wait: a minute. A model produces audio faster than it is played."""


def write_timeout(seconds: float, size: int) -> float:
    """Return the seconds that a client may take to read so many bytes."""
    return seconds * (1 + size // _SLICE)


_Frame: TypeAlias = str | bytes


class AudioPiece(NamedTuple):
    """A piece of audio that waits to be sent."""

    generation: int
    size: int
    frame: bytes | Callable[[], _Frame | None]
    """The frame, or a function that makes it when its turn comes; it returns None when the piece is not wanted then."""


_Frames: TypeAlias = tuple[Sequence[_Frame], "asyncio.Future[None] | None"]
"""Frames, and a future that is done when they are sent."""


class Outbox:
    """Sends the frames of one socket in order, and notices a client that does not read them."""

    def __init__(self, socket: WebSocket, seconds: float, audio_bytes: int = _MAX_AUDIO_BYTES) -> None:
        """Wait up to `seconds` for the client to read a write; longer for a large one."""
        self._socket = socket
        self._seconds = seconds
        self._audio_bytes = audio_bytes
        # Lists, because an empty deque takes more memory than the rest of an idle outbox.
        self._text: list[_Frames] = []
        self._audio: list[AudioPiece] = []
        self._audio_size = 0
        self._more: asyncio.Future[None] | None = None
        """Set while there is nothing to send; done when there is."""
        self._audio_sent: asyncio.Event | None = None
        self._audio_held = False
        self._paused = False
        self._writing = False
        """True while the socket is being written to."""
        self._unread = 0
        """Bytes of the last write: the server buffers one write, and makes the next one wait for the client."""
        self.dropped = 0
        """Pieces of audio that were dropped because the client was too slow."""

    def put(self, *frames: str, first: bool = False) -> "asyncio.Future[None]":
        """Send text frames after all others, or before them; the future is done when they are sent.

        A caller that sends many frames must await the future, or the outbox grows without limit.
        """
        sent = asyncio.get_running_loop().create_future()
        self._text.insert(0 if first else len(self._text), (frames, sent))
        self._wake()
        return sent

    def put_audio(self, piece: AudioPiece) -> None:
        """Send a piece of audio when no text frame waits."""
        self._audio.append(piece)
        self._audio_size += piece.size
        while self._audio_size > self._audio_bytes and len(self._audio) > 1:
            self._pop_audio()
            self.dropped += 1
        self._wake()

    def discard_audio(self, generation: int) -> None:
        """Discard waiting audio that is older than this generation."""
        self._audio = [piece for piece in self._audio if not is_older(piece.generation, generation)]
        self._audio_size = sum(piece.size for piece in self._audio)
        if not self._audio:
            self._set_audio_sent()

    def hold_audio(self) -> None:
        """Send no audio until `release_audio`."""
        self._audio_held = True

    def release_audio(self) -> None:
        """Send the audio that was held, after the text frames that wait."""
        if self._audio_held:
            self._audio_held = False
            self._wake()

    def pause(self) -> None:
        """Send nothing until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """Send what was put in during a pause, and go on."""
        self._paused = False
        self._wake()

    async def audio_sent(self) -> None:
        """Wait until no audio waits."""
        if self._audio:
            self._audio_sent = self._audio_sent or asyncio.Event()
            await self._audio_sent.wait()

    def _set_audio_sent(self) -> None:
        if self._audio_sent is not None:
            self._audio_sent.set()
            self._audio_sent = None

    async def run(self) -> Ending:
        """Send frames until the client is gone or does not read; return which."""
        while True:
            limit = asyncio.timeout(None)
            try:
                async with limit:
                    await self._send_all(limit)
            except TimeoutError:
                if not limit.expired():
                    raise
                # The timer of the last write stays set when that write is done, and may expire while nothing is sent.
                if self._writing:
                    return SLOW
            except (WebSocketDisconnect, RuntimeError):
                # A RuntimeError when uvicorn has closed the socket and has not reported it yet.
                return GONE

    async def _send_all(self, limit: asyncio.Timeout) -> None:
        loop, until = asyncio.get_running_loop(), 0.0
        while True:
            while (waiting := self._next()) is None:
                self._more = loop.create_future()
                await self._more
            frames, sent = waiting
            size = sum(map(len, frames))
            seconds = write_timeout(self._seconds, self._unread + size)
            due = loop.time() + seconds
            if not 0 <= due - until <= seconds * _TIMER_SLACK:
                until = due
                limit.reschedule(due)
            self._writing = True
            for frame in frames:
                await self._socket.send({"type": "websocket.send", "text" if type(frame) is str else "bytes": frame})
            self._writing = False
            self._unread = size
            if sent is not None and not sent.done():
                sent.set_result(None)

    def _next(self) -> _Frames | None:
        if self._paused:
            return None
        if self._text:
            return self._text.pop(0)
        while self._audio and not self._audio_held:
            made = self._pop_audio().frame
            frame = made if isinstance(made, bytes) else made()
            if frame is not None:
                return (frame,), None
        return None

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def _pop_audio(self) -> AudioPiece:
        piece = self._audio.pop(0)
        self._audio_size -= piece.size
        if not self._audio:
            self._set_audio_sent()
        return piece
