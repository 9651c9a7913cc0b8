"""Expiry: the clock that answers calls nobody answers in time."""

import asyncio
import contextvars
import logging
from collections.abc import Callable

from adkwire.errors import RequestError
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import PendingCall

logger = logging.getLogger("adkwire")

_RETRY = 5.0
"""Seconds until a store that was away is asked again."""


class Expiry:
    """Sleeps until the next call expires, if any does; what waits already is looked up when it starts."""

    def __init__(self, gate: ToolGate, clock: Callable[[], float]) -> None:
        self._gate = gate
        self._clock = clock
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look after the calls that wait."""
        self._news.set()
        if self._task is None or self._task.done():
            # In a context of its own: the one of the call that has begun it would be kept with it.
            nobodys = contextvars.Context()
            self._task = asyncio.create_task(self._watch(), name="adkwire-expiry", context=nobodys)

    def changed(self, call: PendingCall) -> None:
        """A call has moved; it may be the next to expire."""
        if call.expires_at is not None:
            self.start()

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        while True:
            self._news.clear()
            try:
                await self._gate.expire()
                at = await self._gate.next_expiry()
            except RequestError as error:
                logger.warning("calls could not be expired: %s", error.message)
                at = self._clock() + _RETRY
            if at is None:
                return
            try:
                async with asyncio.timeout(max(0.0, at - self._clock())):
                    await self._news.wait()
            except TimeoutError:
                pass
