"""Expiry: has the gate answer calls that nobody has answered in time."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from adkwire.errors import RequestError
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import CallRecord
from adkwire.tasks import Watchers

logger = logging.getLogger("adkwire")

_RETRY = 5.0
"""Seconds until the store is asked again after it did not answer, or after a call could not be expired."""
_LONGEST_SLEEP = 60.0
"""Seconds until the clock and the store are read again at the latest: the clock may have been set, and a worker that is
gone may have left calls of which this one was not notified."""


class Expiry:
    """A watcher that sleeps until the next call expires, and then has the gate answer it."""

    def __init__(self, gate: ToolGate, clock: Callable[[], float], watchers: Watchers) -> None:
        self._gate = gate
        self._clock = clock
        self._changed = asyncio.Event()
        self._watchers = watchers

    def start(self) -> None:
        """Watch the calls that wait; if they are watched already, look at them at once."""
        self._changed.set()
        self._watchers.start("expiry", self._watch)

    def changed(self, call: CallRecord) -> None:
        """Note that a call has moved: it may be the next to expire."""
        if call.expires_at is not None:
            self.start()

    async def _watch(self) -> None:
        while True:
            self._changed.clear()
            try:
                seconds = await self._expire()
            except RequestError as error:
                logger.warning("calls could not be expired, next try in %s s: %s", _RETRY, error.message)
                seconds = _RETRY
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(seconds, _LONGEST_SLEEP)):
                    await self._changed.wait()

    async def _expire(self) -> float:
        """Expire the calls that are due; return the seconds until the next ones are."""
        now = self._clock()
        expired = await self._gate.expire()
        at = await self._gate.next_expiry()
        if at is None:
            return _LONGEST_SLEEP
        if at <= now and not expired:
            # It was due and is still there: the gate has logged why, and asking it again at once would be a busy loop.
            return _RETRY
        return max(0.0, at - self._clock())
