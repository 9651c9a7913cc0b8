"""OrderedWork: the work of one client, done in the order in which the client asked for it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from adkwire.errors import TooMany

_MAX_JOBS = 64
"""Jobs that may wait for one client."""

Job: TypeAlias = Callable[[], Awaitable[None]]


class OrderedWork:
    """Jobs of one client, done one after the other in tasks of their own. None is cancelled when the client leaves."""

    def __init__(self, tasks: asyncio.TaskGroup, name: str) -> None:
        self._tasks = tasks
        self._name = name
        self._last: asyncio.Task[None] | None = None
        self._length = 0

    @property
    def is_idle(self) -> bool:
        """True while no job runs or waits."""
        return self._length == 0

    def add(self, job: Job) -> None:
        """Do a job after all that were added before. The job handles its own errors."""
        if self._length >= _MAX_JOBS:
            raise TooMany("The server is still busy with earlier frames of this socket.", retry_after=1)
        self._length += 1
        self._last = self._tasks.create_task(self._do(self._last, job), name=f"adkwire-socket-{self._name}")

    async def finished(self) -> None:
        """Wait until all jobs that were added are done."""
        if self._last is not None:
            await asyncio.wait([self._last])

    async def _do(self, before: "asyncio.Task[None] | None", job: Job) -> None:
        try:
            if before is not None:
                await asyncio.wait([before])
            await job()
        finally:
            self._length -= 1
            if self.is_idle:
                self._last = None
