"""What one user may do: messages a minute, frames a second, sockets at a time."""

import time
from collections import Counter
from collections.abc import Callable

from adkwire.errors import TooMany
from adkwire.settings import Settings
from adkwire.wire.decode.decoder import InputLimits

_MAX_BUCKETS = 10_000
"""Number of users with counters; beyond it, counters of users without a message in the last minute are dropped."""
_MINUTE = 60.0


class TokenBucket:
    """A token bucket: full at first and refilled evenly, so that an empty one is full after `seconds`."""

    def __init__(self, size: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._left = float(size)
        self.used_at = clock()

    def take(self, count: float = 1) -> float:
        """Take tokens; return 0, or the seconds until there are enough."""
        now = self._clock()
        self._left = min(self._size, self._left + (now - self.used_at) * self._size / self._seconds)
        self.used_at = now
        if self._left < count:
            return (count - self._left) * self._seconds / self._size
        self._left -= count
        return 0.0


class MessageRates:
    """The messages that each user may send in a minute; 0 sets no limit."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, user: str) -> None:
        """Count a message; raise `TooMany` when the user has sent too many."""
        if not self._per_minute:
            return
        bucket = self._buckets.setdefault(user, TokenBucket(self._per_minute, _MINUTE, self._clock))
        if wait := bucket.take():
            raise TooMany(f"Too many messages; try again in {max(1, round(wait))} s.", retry_after=wait)
        if len(self._buckets) > _MAX_BUCKETS:
            self._forget_full()

    def _forget_full(self) -> None:
        now = self._clock()
        self._buckets = {user: bucket for user, bucket in self._buckets.items() if now - bucket.used_at <= _MINUTE}


class SocketQuota:
    """The sockets that each user may have open at a time."""

    def __init__(self, per_user: int) -> None:
        self._per_user = per_user
        self._open: Counter[str] = Counter()

    def take(self, user: str) -> "SocketSlot | None":
        """Count one more socket of a user; return None when the user has too many."""
        if self._open[user] >= self._per_user:
            return None
        self._open[user] += 1
        return SocketSlot(self, user)

    def give_back(self, user: str) -> None:
        """Count one socket less."""
        self._open[user] -= 1
        if not self._open[user]:
            del self._open[user]


class SocketSlot:
    """One open socket in a user's quota."""

    def __init__(self, quota: SocketQuota, user: str) -> None:
        self._quota: SocketQuota | None = quota
        self._user = user

    def release(self) -> None:
        """Give the slot back to the quota, once however often it is called."""
        if self._quota is not None:
            self._quota.give_back(self._user)
            self._quota = None


def input_limits(settings: Settings) -> InputLimits:
    """Return what one message may carry."""
    return InputLimits(settings.max_parts, settings.max_part_bytes, settings.max_image_pixels)
