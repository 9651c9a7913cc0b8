"""Outbox: the one way out of a socket.

There are two classes of delivery. Words keep their order and none is lost. Sound goes when no words wait, is void when
somebody speaks over it, and of what a slow client does not take the oldest is left out.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from starlette.websockets import WebSocket, WebSocketDisconnect

from adkwire.wire.live_binary import is_older

_SLICE = 256_000
"""Bytes for which a reader gets the patience of the settings: a large picture may take longer."""
_SLACK = 0.1
"""By how much of it a reader's patience may be cut: a timer for each piece of sound would cost more than to send it."""
_SOUND_BYTES = 2_880_000
"""How much sound waits: a minute of it. A model speaks faster than anybody can listen."""


def patience(seconds: float, size: int) -> float:
    """How long a client may take for so many bytes."""
    return seconds * (1 + size // _SLICE)


class Ending(NamedTuple):
    """Why a socket ends, as its client gets to know it."""

    code: int
    reason: str


GONE = Ending(1006, "the client is gone")
SLOW = Ending(4408, "slow reader")


_Frame: TypeAlias = str | bytes


class Sound(NamedTuple):
    """A piece of sound that waits: a frame, or what makes one when its turn comes; None when nobody wants it then."""

    generation: int
    size: int
    frame: bytes | Callable[[], _Frame | None]


_Words: TypeAlias = tuple[Sequence[_Frame], "asyncio.Future[None] | None"]
"""Frames, and what is to be told when they are sent."""


class Outbox:
    """Sends what others put into it: keeps the order, and notices when nothing is taken any more."""

    def __init__(self, socket: WebSocket, patience: float, sound_bytes: int = _SOUND_BYTES) -> None:
        self._socket = socket
        self._patience = patience
        self._sound_bytes = sound_bytes
        # Lists: an empty deque would weigh as much as all else that an idle socket needs for this.
        self._words: list[_Words] = []
        self._sound: list[Sound] = []
        self._sound_size = 0
        self._more: asyncio.Future[None] | None = None
        self._silent: asyncio.Event | None = None
        self._held = False
        self._sending = False
        self._unread = 0
        self.dropped = 0
        """Pieces of sound that the client was too slow for."""

    def put(self, *frames: str, first: bool = False) -> "asyncio.Future[None]":
        """Send frames behind all others, or before; done when they are sent. Those with much to say must await it."""
        sent = asyncio.get_running_loop().create_future()
        self._words.insert(0 if first else len(self._words), (frames, sent))
        self._wake()
        return sent

    def put_sound(self, sound: Sound) -> None:
        """Send a piece of sound, when there is time for it."""
        self._sound.append(sound)
        self._sound_size += sound.size
        while self._sound_size > self._sound_bytes and len(self._sound) > 1:
            self._pop()
            self.dropped += 1
        self._wake()

    def hush(self, generation: int) -> None:
        """Forget sound that is older than this generation."""
        self._sound = [sound for sound in self._sound if not is_older(sound.generation, generation)]
        self._sound_size = sum(sound.size for sound in self._sound)
        if not self._sound:
            self._fall_silent()

    def hold(self) -> None:
        """Send nothing for now."""
        self._held = True

    def let_go(self) -> None:
        """Send what was held, and all that comes."""
        self._held = False
        self._wake()

    async def silent(self) -> None:
        """Wait until no sound waits."""
        if self._sound:
            self._silent = self._silent or asyncio.Event()
            await self._silent.wait()

    def _fall_silent(self) -> None:
        if self._silent is not None:
            self._silent.set()
            self._silent = None

    async def run(self) -> Ending:
        """Send what there is to send; ends when that cannot be done."""
        while True:
            try:
                async with asyncio.timeout(None) as limit:
                    await self._send_on(limit)
            except TimeoutError:
                # The limit of what was sent last is not taken away when that is done.
                if self._sending:
                    return SLOW
            except (WebSocketDisconnect, RuntimeError):
                # The latter when the server has closed it by itself and we do not know yet.
                return GONE

    async def _send_on(self, limit: asyncio.Timeout) -> None:
        loop, until = asyncio.get_running_loop(), 0.0
        while True:
            while (words := self._next()) is None:
                self._more = loop.create_future()
                await self._more
            frames, sent = words
            size = sum(map(len, frames))
            # A server takes what it is given at once, and only then makes the next wait.
            seconds = patience(self._patience, self._unread + size)
            due = loop.time() + seconds
            if not 0 <= due - until <= seconds * _SLACK:
                until = due
                limit.reschedule(due)
            self._sending = True
            for frame in frames:
                await self._socket.send({"type": "websocket.send", "text" if type(frame) is str else "bytes": frame})
            self._sending = False
            self._unread = size
            if sent is not None and not sent.done():
                sent.set_result(None)

    def _next(self) -> _Words | None:
        if self._held:
            return None
        if self._words:
            return self._words.pop(0)
        while self._sound:
            made = self._pop().frame
            frame = made if isinstance(made, bytes) else made()
            if frame is not None:
                return (frame,), None
        return None

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def _pop(self) -> Sound:
        sound = self._sound.pop(0)
        self._sound_size -= sound.size
        if not self._sound:
            self._fall_silent()
        return sound
