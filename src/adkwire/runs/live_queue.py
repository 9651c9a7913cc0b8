"""What goes to a live model: in order, and only the newest of the sound and the pictures that nobody takes in time."""

import asyncio
import time
from collections import deque

from google.adk.agents.live_request_queue import LiveRequest, LiveRequestQueue
from google.genai import types

_SECONDS_OF_SOUND = 2.0
_PIECE = 0.02
_MOST_SOUND = round(_SECONDS_OF_SOUND / _PIECE)
_MOST_PICTURES = 1
_SOUND = types.Blob(mime_type="audio/pcm;rate=16000", data=b"")


class LiveQueue(LiveRequestQueue):
    """ADK's queue with a bound, and with an eye on whether anybody takes from it."""

    def __init__(self) -> None:
        super().__init__()
        self._queue = self._waiting = _Newest()
        self._taken: float | None = None
        """When something was taken by one who has not come back for more."""

    @property
    def dropped(self) -> int:
        """How many pieces of sound and pictures were too old when their turn came."""
        return self._waiting.dropped

    async def get(self) -> LiveRequest:
        """The next request, once there is one."""
        self._taken = None
        request = await super().get()
        self._taken = time.monotonic()
        return request

    def neglected(self) -> float:
        """For how many seconds nobody has come for what waits, or for more: a send task that died does not."""
        since = self._taken if self._taken is not None else self._waiting.waits_since
        return 0.0 if since is None else time.monotonic() - since

    def send_sound(self, pcm: bytes) -> None:
        """A piece of the microphone's sound, 16 kHz."""
        # A copy is not checked, which would be two thirds of what a piece costs.
        self.send_realtime(_SOUND.model_copy(update={"data": pcm}))


class _Newest(asyncio.Queue[LiveRequest]):
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
            if self._kinds[kind] > (_MOST_SOUND if kind == "audio" else _MOST_PICTURES):
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
    """What of a request may be dropped: sound or a picture."""
    kind = (item.blob.mime_type or "").partition("/")[0] if item.blob is not None else None
    return kind if kind in ("audio", "image") else None
