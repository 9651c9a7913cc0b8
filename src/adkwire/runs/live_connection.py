"""One connection to a live model, from its first word until it is closed or lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from google.adk.events.event import Event

from adkwire.runs.adk import Adk
from adkwire.runs.holding import HOLDER, Holder
from adkwire.runs.live_queue import LiveQueue
from adkwire.runs.live_turns import LiveTurns
from adkwire.runs.sessions import ChatKey
from adkwire.runs.watched_model import SUPERVISION, Supervision, Watcher

logger = logging.getLogger("adkwire")

_DEAF = 15.0
"""Seconds in which a living connection takes what is said to it."""
_LOOK = 1.0


class Connection:
    """ADK's `run_live` in a task of its own."""

    def __init__(
        self,
        key: ChatKey,
        adk: Adk,
        turns: LiveTurns,
        *,
        holder: Holder,
        watcher: Watcher,
        take: Callable[[Event], Awaitable[None]],
        lost: "Callable[[Connection, Exception | None], None]",
    ) -> None:
        self.queue = LiveQueue()
        self._key = key
        self._adk = adk
        self._turns = turns
        self._holder = holder
        self._watcher = watcher
        self._take = take
        self._lost = lost
        self._pump = asyncio.create_task(self._run(), name=f"adkwire-live-{key.chat}")
        self._next_look = asyncio.get_running_loop().call_later(_LOOK, self._look)

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return not self._pump.done()

    def hush(self) -> None:
        """Tell the model that nobody wants to hear the rest: a mark that somebody speaks, with nothing said."""
        self.queue.send_activity_start()
        self.queue.send_activity_end()

    async def close(self) -> None:
        """End it, whatever it is doing."""
        self._stop_looking()
        self._pump.cancel()
        await asyncio.wait([self._pump])

    async def _run(self) -> None:
        HOLDER.set(self._holder)
        supervision = Supervision(self._watcher)
        SUPERVISION.set(supervision)
        error: Exception | None = None
        try:
            async with aclosing(self._adk.live(self._key, self.queue, self._turns)) as events:
                async for event in events:
                    await self._take(event)
                    supervision.taken(event)
        except Exception as failure:
            error = failure
            logger.warning("the live model of chat %s: %s", self._key.chat, type(failure).__name__, exc_info=failure)
        self._stop_looking()
        self._lost(self, error)

    def _look(self) -> None:
        """ADK's task that sends to the model may die without a word: then nothing is taken any more."""
        if not self._pump.cancelling():
            if self.queue.neglected() > _DEAF and self.is_open:
                self._pump.add_done_callback(self._given_up)
                self._pump.cancel()
            self._next_look = asyncio.get_running_loop().call_later(_LOOK, self._look)

    def _stop_looking(self) -> None:
        self._next_look.cancel()
        self._pump.remove_done_callback(self._given_up)

    def _given_up(self, _: "asyncio.Task[None]") -> None:
        self._lost(self, ConnectionError("the connection to the model takes nothing any more"))
