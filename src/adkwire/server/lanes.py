"""Lanes: what a client wants, done in the order in which it was said, without making it wait."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from adkwire.errors import TooMany

_LONGEST = 64

Job: TypeAlias = Callable[[], Awaitable[None]]


class Lane:
    """One thing after the other. What was begun is done, even when its client has gone."""

    def __init__(self, tasks: asyncio.TaskGroup, name: str) -> None:
        self._tasks = tasks
        self._name = name
        self._last: asyncio.Task[None] | None = None
        self._length = 0

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return self._length == 0

    def put(self, job: Job) -> None:
        """Do this, after all that was put here before. A job deals with its failures itself."""
        if self._length >= _LONGEST:
            raise TooMany("The server does not keep up with what it is told.", retry_after=1)
        self._length += 1
        self._last = self._tasks.create_task(self._do(self._last, job), name=f"adkwire-socket-{self._name}")

    async def settled(self) -> None:
        """Wait until all that was put here is done."""
        if self._last is not None:
            await asyncio.wait([self._last])

    async def _do(self, before: "asyncio.Task[None] | None", job: Job) -> None:
        try:
            if before is not None:
                await asyncio.wait([before])
            await job()
        finally:
            self._length -= 1
            if self.idle:
                self._last = None
