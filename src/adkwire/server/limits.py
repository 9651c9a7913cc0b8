"""How much one user may do: messages a minute, frames a second, sockets at a time."""

import time
from collections import Counter
from collections.abc import Callable

from adkwire.errors import TooMany

_MANY_USERS = 10_000
_REFILLED = 60.0


class Bucket:
    """Tokens to take: full at first, refilled evenly, so that it is full again after `seconds`."""

    def __init__(self, size: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._left = float(size)
        self.used_at = clock()

    def take(self, count: float = 1) -> float:
        """Use one token, or so many: 0, or in how many seconds they will be there."""
        now = self._clock()
        self._left = min(self._size, self._left + (now - self.used_at) * self._size / self._seconds)
        self.used_at = now
        if self._left < count:
            return (count - self._left) * self._seconds / self._size
        self._left -= count
        return 0.0


class Rates:
    """How many messages each user may send a minute; 0 sets no limit."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}

    def take(self, user: str) -> None:
        """Count one, or say when it may come."""
        if not self._per_minute:
            return
        bucket = self._buckets.setdefault(user, Bucket(self._per_minute, _REFILLED, self._clock))
        if wait := bucket.take():
            raise TooMany(f"Too many messages; try again in {max(1, round(wait))} s.", retry_after=wait)
        if len(self._buckets) > _MANY_USERS:
            self._forget_full()

    def _forget_full(self) -> None:
        now = self._clock()
        self._buckets = {user: bucket for user, bucket in self._buckets.items() if now - bucket.used_at <= _REFILLED}


class Seats:
    """How many sockets each user has open."""

    def __init__(self, per_user: int) -> None:
        self._per_user = per_user
        self._taken: Counter[str] = Counter()

    def take(self, user: str) -> "Seat | None":
        """Have one more; None when that is too many."""
        if self._taken[user] >= self._per_user:
            return None
        self._taken[user] += 1
        return Seat(self, user)

    def give_back(self, user: str) -> None:
        """Have one less."""
        self._taken[user] -= 1
        if not self._taken[user]:
            del self._taken[user]


class Seat:
    """The right to one open socket."""

    def __init__(self, seats: Seats, user: str) -> None:
        self._seats: Seats | None = seats
        self._user = user

    def leave(self) -> None:
        """Give it back; once is enough."""
        if self._seats is not None:
            self._seats.give_back(self._user)
            self._seats = None
