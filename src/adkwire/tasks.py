"""Background tasks: each has an owner that ends it, and every wait for a cancelled task has a limit."""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from adkwire.errors import RequestError

logger = logging.getLogger("adkwire")

CANCEL_SECONDS = 5.0
"""Seconds that a cancelled task has to end before it is abandoned."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a watcher that failed is started again: at first, and after many failures in a row."""

_abandoned: set[asyncio.Task[Any]] = set()
"""Cancelled tasks that still run. They are kept here because asyncio has only weak references to tasks."""


async def end(*tasks: asyncio.Task[Any], seconds: float | None = None) -> bool:
    """Cancel tasks and wait for their end; return False if one still runs after `seconds`.

    A tool or a library may swallow the cancellation. Such a task is abandoned: it is logged once, and not
    waited for any more. Exceptions of the tasks are dropped; the calling task itself is left alone.
    """
    for task in tasks:
        task.add_done_callback(_drop_exception)
    running = [task for task in tasks if not task.done() and task is not asyncio.current_task()]
    if not running:
        return True
    for task in running:
        task.cancel()
    _, late = await asyncio.wait(running, timeout=CANCEL_SECONDS if seconds is None else seconds)
    for task in late - _abandoned:
        logger.warning("task %s was cancelled and does not end; it is abandoned", task.get_name())
        _abandoned.add(task)
        task.add_done_callback(_abandoned.discard)
    return not late


class Tasks:
    """The background tasks of one owner, which ends them all when it closes."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` in the background; if it raises an exception, that is logged."""
        task = asyncio.create_task(work, name=f"adkwire-{name}")
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("task %s failed", task.get_name(), exc_info=error)

    async def close(self, seconds: float | None = None) -> bool:
        """Cancel all tasks and wait for their end; return False if one still runs after `seconds`."""
        return await end(*self._running, seconds=seconds)


class Watchers:
    """Background tasks that run as long as the server does. One that fails is logged and started again."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._paused: set[str] = set()

    @property
    def gone(self) -> list[str]:
        """The names of the watchers that do not run: they failed and wait for their next start, or have ended."""
        return [name for name, task in self._tasks.items() if name in self._paused or task.done()]

    def start(self, name: str, watch: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `watch` in the background, unless it runs already; it returns only when the server closes."""
        task = self._tasks.get(name)
        if task is None or task.done():
            # An empty context: that of a request would be kept for as long as the watcher runs.
            empty = contextvars.Context()
            self._tasks[name] = asyncio.create_task(self._keep(name, watch), name=f"adkwire-{name}", context=empty)

    async def _keep(self, name: str, watch: Callable[[], Coroutine[Any, Any, None]]) -> None:
        pause, clock = _SHORTEST_PAUSE, asyncio.get_running_loop().time
        while True:
            started = clock()
            try:
                await watch()
            except RequestError as error:
                logger.warning("watcher %s failed; it starts again soon: %s", name, error.message)
            except Exception:
                logger.exception("watcher %s failed; it starts again soon", name)
            else:
                logger.error("watcher %s has ended; it starts again soon", name)
            pause = _SHORTEST_PAUSE if clock() - started > _LONGEST_PAUSE else pause
            self._paused.add(name)
            await asyncio.sleep(pause)
            self._paused.discard(name)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def close(self) -> None:
        """End all watchers."""
        await end(*self._tasks.values())
        self._tasks.clear()


def _drop_exception(task: asyncio.Task[Any]) -> None:
    """Retrieve a task's exception, so that asyncio does not warn that nobody did."""
    if not task.cancelled():
        task.exception()
