"""LiveQueue: the requests to a live model in order; old sound and pictures that were not sent in time are dropped."""

import asyncio
import time
from collections import deque

from google.adk.agents.live_request_queue import LiveRequest, LiveRequestQueue
from google.genai import types

_SECONDS_OF_SOUND = 2.0
"""Seconds of sound that wait at most."""
_PIECE = 0.02
"""Seconds of sound in one request."""
_MAX_SOUND = round(_SECONDS_OF_SOUND / _PIECE)
_MAX_PICTURES = 1
_SOUND = types.Blob(mime_type="audio/pcm;rate=16000", data=b"")


class LiveQueue(LiveRequestQueue):
    """ADK's request queue with bounds for sound and pictures, that notices when ADK no longer reads it."""

    def __init__(self) -> None:
        super().__init__()
        self._queue = self._waiting = _Newest()
        self._taken: float | None = None
        """When ADK took the last request, while it has not asked for the next one."""

    @property
    def dropped(self) -> int:
        """How many pieces of sound and pictures were dropped."""
        return self._waiting.dropped

    async def get(self) -> LiveRequest:
        """Wait for the next request and return it."""
        self._taken = None
        request = await super().get()
        self._taken = time.monotonic()
        return request

    def neglected(self) -> float:
        """Return for how many seconds ADK has not asked for the next request: its send task may have died."""
        since = self._taken if self._taken is not None else self._waiting.waits_since
        return 0.0 if since is None else time.monotonic() - since

    def send_sound(self, pcm: bytes) -> None:
        """Send a piece of the microphone's sound, PCM at 16 kHz."""
        # A copy skips pydantic's validation, which is two thirds of the time for a piece.
        self.send_realtime(_SOUND.model_copy(update={"data": pcm}))


class _Newest(asyncio.Queue[LiveRequest]):
    """A queue that drops the oldest sound or picture when too many of them wait."""

    def _init(self, maxsize: int) -> None:
        self._queue: deque[LiveRequest] = deque()
        self._kinds = {"audio": 0, "image": 0}
        self.dropped = 0
        self.waits_since: float | None = None

    def _put(self, item: LiveRequest) -> None:
        if not self._queue:
            self.waits_since = time.monotonic()
        self._queue.append(item)
        if (kind := _kind(item)) is not None:
            self._kinds[kind] += 1
            if self._kinds[kind] > (_MAX_SOUND if kind == "audio" else _MAX_PICTURES):
                self._drop(kind)

    def _get(self) -> LiveRequest:
        item = self._queue.popleft()
        if (kind := _kind(item)) is not None:
            self._kinds[kind] -= 1
        self.waits_since = time.monotonic() if self._queue else None
        return item

    def _drop(self, kind: str) -> None:
        del self._queue[next(i for i, item in enumerate(self._queue) if _kind(item) == kind)]
        self._kinds[kind] -= 1
        self.dropped += 1


def _kind(item: LiveRequest) -> str | None:
    """Return which kind of droppable request this is: sound or a picture; None for others."""
    kind = (item.blob.mime_type or "").partition("/")[0] if item.blob is not None else None
    return kind if kind in ("audio", "image") else None
