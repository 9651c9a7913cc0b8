"""What comes in through microphone and camera of one socket: not more than anybody can hear or see."""

import asyncio
from collections.abc import Callable
from functools import cached_property

from adkwire.server.limits import Bucket
from adkwire.wire.live_frames import AudioFrame, VideoFrame
from adkwire.wire.sound import RATE, Resampler, milliseconds

_PIECE = 20.0
"""Milliseconds of sound in one piece; longer ones count as several."""
_BURST = 5.0
"""Seconds of sound that may come at once: those that a slow network has held back."""
_ANNOYING = 60.0
"""Seconds in which a client may send too much for so long, before somebody is up to something."""
_NEW_RATE = 25
"""As how many pieces it counts when the rate changes, since that takes time."""
_BETWEEN_PICTURES = 1.0


class Microphone:
    """Sound on its way to the model: at one rate, and not faster than it can be spoken."""

    def __init__(self, pieces_per_second: int) -> None:
        self._burst = round(pieces_per_second * _BURST)
        self._pace = Bucket(self._burst, _BURST)
        self._resampler = Resampler(RATE)
        self.dropped = 0
        """Pieces that were left out."""
        self.abused = False
        """Whether far too much has come."""

    @cached_property
    def _patience(self) -> Bucket:
        return Bucket(self._burst, _ANNOYING)

    def admits(self) -> bool:
        """Whether one more piece is listened to."""
        return self._afford(1)

    def begin(self) -> None:
        """Somebody begins to speak: what was heard before has nothing to do with it."""
        self._resampler = Resampler(self._resampler.rate)

    def hear(self, frame: AudioFrame) -> bytes:
        """An admitted piece as models hear it; nothing of it when it is too much."""
        more = max(0.0, milliseconds(frame.pcm, frame.rate) / _PIECE - 1)
        changes = frame.rate != self._resampler.rate
        if (more or changes) and not self._afford(more + _NEW_RATE if changes else more):
            return b""
        if changes:
            self._resampler = Resampler(frame.rate)
        return self._resampler.feed(frame.pcm)

    def drop(self) -> None:
        """Count a piece that nobody could take."""
        self.dropped += 1

    def _afford(self, pieces: float) -> bool:
        if not self._pace.take(pieces):
            return True
        self.drop()
        self.abused = self.abused or bool(self._patience.take())
        return False


class Camera:
    """Pictures on their way to the model: one a second, and always the newest."""

    def __init__(self, show: Callable[[VideoFrame], object]) -> None:
        self._show = show
        self._newest: VideoFrame | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.dropped = 0

    def see(self, frame: VideoFrame) -> None:
        """Show a picture, at once or when its time has come."""
        if self._timer is None:
            self._show(frame)
            self._timer = asyncio.get_running_loop().call_later(_BETWEEN_PICTURES, self._due)
            return
        if self._newest is not None:
            self.dropped += 1
        self._newest = frame

    def close(self) -> None:
        """Show nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self._timer, newest, self._newest = None, self._newest, None
        if newest is not None:
            self.see(newest)
