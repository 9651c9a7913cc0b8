"""MediaInput: audio and pictures of one client on their way to the model, within limits and in order."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import cached_property

from adkwire.live.conversations import Link
from adkwire.server.limits import TokenBucket
from adkwire.server.sockets.connection import SocketConnection
from adkwire.server.sockets.order import OrderedWork
from adkwire.wire.socket.audio import INPUT_RATE, Resampler, milliseconds
from adkwire.wire.socket.live_frames_in import AudioFrame, VideoFrame

_PIECE_MS = 20.0
"""Milliseconds of audio in one piece; a longer one counts as several."""
_BURST_SECONDS = 5.0
"""Seconds of audio that may come at once: a slow network delays it and then delivers it together."""
_FLOOD_SECONDS = 60.0
"""Seconds in which a client may exceed the limit by one burst, before its socket is closed."""
_NEW_RATE_PIECES = 25
"""Pieces that a change of the sample rate counts for, since it takes time."""
_PICTURE_SECONDS = 1.0
"""Seconds between two pictures for the model."""
_MAX_DELAYED_AUDIO = 250
"""Pieces of audio that may wait while the conversation is opened or interrupted: 5 seconds."""


class Microphone:
    """Audio of one client: converted to the model's sample rate, and not more than can be spoken."""

    def __init__(self, pieces_per_second: int) -> None:
        self._burst = round(pieces_per_second * _BURST_SECONDS)
        self._pieces = TokenBucket(self._burst, _BURST_SECONDS)
        self._resampler = Resampler(INPUT_RATE)
        self.dropped = 0
        """Pieces that did not reach the model."""
        self.flooded = False
        """True once the client has sent far more than the limit."""

    @cached_property
    def _excess(self) -> TokenBucket:
        return TokenBucket(self._burst, _FLOOD_SECONDS)

    def admit(self) -> bool:
        """Count a piece; return False if it is too much."""
        return self._take(1)

    def begin(self) -> None:
        """Begin a new speech: what came before has no influence on its samples."""
        self._resampler = Resampler(self._resampler.rate)

    def convert(self, frame: AudioFrame) -> bytes:
        """Return an admitted piece at the model's sample rate; empty if its length or new rate exceeds the limit."""
        more = max(0.0, milliseconds(frame.pcm, frame.rate) / _PIECE_MS - 1)
        changes = frame.rate != self._resampler.rate
        if (more or changes) and not self._take(more + _NEW_RATE_PIECES if changes else more):
            return b""
        if changes:
            self._resampler = Resampler(frame.rate)
        return self._resampler.feed(frame.pcm)

    def _take(self, pieces: float) -> bool:
        if not self._pieces.take(pieces):
            return True
        self.dropped += 1
        self.flooded = self.flooded or bool(self._excess.take())
        return False


class Camera:
    """Pictures of one client: one a second, and always the newest."""

    def __init__(self, send: Callable[[VideoFrame], object]) -> None:
        self._send = send
        self._newest: VideoFrame | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.dropped = 0
        """Pictures that did not reach the model."""

    def add(self, frame: VideoFrame) -> None:
        """Send a picture, at once or a second after the last one."""
        if self._timer is None:
            self._send(frame)
            self._timer = asyncio.get_running_loop().call_later(_PICTURE_SECONDS, self._due)
            return
        if self._newest is not None:
            self.dropped += 1
        self._newest = frame

    def close(self) -> None:
        """Send no more pictures."""
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self._timer, newest, self._newest = None, self._newest, None
        if newest is not None:
            self.add(newest)


class MediaInput:
    """Audio and pictures of one live socket. Audio reaches the conversation after the commands that came before it."""

    # Made only when it is needed: there are many sockets, and most are silent.
    _delayed: deque[bytes] | None = None
    """Audio that has come after a command which is still being carried out."""

    def __init__(
        self,
        pieces_per_second: int,
        connection: SocketConnection,
        commands: OrderedWork,
        conversation: Callable[[], Link],
    ) -> None:
        self.microphone = Microphone(pieces_per_second)
        self._connection = connection
        self._commands = commands
        self._conversation = conversation

    @cached_property
    def camera(self) -> Camera:
        """The camera of the client."""
        return Camera(self._send_picture)

    @property
    def dropped(self) -> int:
        """Pieces of audio and pictures that did not reach the model."""
        return self.microphone.dropped + self.camera.dropped

    def send_audio(self, frame: AudioFrame) -> None:
        """Send an admitted piece of audio to the model, after the commands that came before it."""
        pcm = self.microphone.convert(frame)
        if not pcm:
            return
        if self._commands.is_idle:
            self._send_now(pcm)
            return
        if self._delayed is None:
            delayed = self._delayed = deque[bytes](maxlen=_MAX_DELAYED_AUDIO)
            self._commands.add(lambda: self._send_delayed(delayed))
        if len(self._delayed) == _MAX_DELAYED_AUDIO:
            self.microphone.dropped += 1
        self._delayed.append(pcm)

    def command_follows(self) -> None:
        """Note that a command is added: audio that comes now waits for it, too."""
        self._delayed = None

    def close(self) -> None:
        """Send no more pictures."""
        self.camera.close()

    async def _send_delayed(self, delayed: deque[bytes]) -> None:
        if self._delayed is delayed:
            self._delayed = None
        for pcm in () if self._connection.gone else delayed:
            self._send_now(pcm)

    def _send_now(self, pcm: bytes) -> None:
        if not self._conversation().audio(pcm):
            self.microphone.dropped += 1

    def _send_picture(self, frame: VideoFrame) -> None:
        if not self._conversation().frame(frame.data, frame.media_type):
            self.camera.dropped += 1
