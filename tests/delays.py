"""Makes store calls, timers and socket reads late at random: `DELAYS=17 .venv/bin/pytest ...`, where 17 is the seed.

What is right holds however long a step takes. With delays a race that a busy machine loses once a week is lost within
minutes, so they tell whether the product or a test is wrong about an order. The servers that tests start by
`servers.serve` are late too, and so is `fetch` in the Node clients (`delays.mjs`). Without DELAYS nothing is changed.
"""

import asyncio
import functools
import inspect
import os
import random
import sys
from asyncio import selector_events
from collections.abc import Callable
from typing import Any

LATE, VERY_LATE = 0.02, 0.3
"""Seconds: what some steps take longer, and what a few take longer."""


class Delays:
    """A source of delays, the same for the same seed as far as the order of steps is the same."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def next(self) -> float:
        """Return the seconds by which the next step is late; often 0."""
        share = self._random.random()
        if share < 0.5:
            return 0.0
        return self._random.random() * (VERY_LATE if share > 0.97 else LATE)


def install(seed: str) -> None:
    """Delay the store calls, timers and socket reads of this process from now on."""
    delays = Delays(seed)
    # Its timers and reads are not written in Python.
    sys.modules["uvloop"] = None  # pyright: ignore[reportArgumentType]
    for store in _stores():
        _delay_calls(store, delays)
    _delay_timers(delays)
    _delay_reads(delays)


def install_if_wished() -> None:
    """Do so if DELAYS is set in the environment."""
    if seed := os.environ.get("DELAYS"):
        install(seed)


def _stores() -> list[type]:
    from google.adk.sessions import InMemorySessionService

    from adkwire.adk.sessions import SqliteSessions
    from adkwire.stores import memory
    from adkwire.stores.sqlite.gate import SqliteGateStore
    from adkwire.stores.sqlite.signals import SqliteSignals
    from adkwire.stores.sqlite.streams import SqliteStreamLog

    in_memory = [kind for name, kind in vars(memory).items() if name.startswith("Memory") and inspect.isclass(kind)]
    assert len(in_memory) == 3, f"the stores in memory are {in_memory}"
    return [*in_memory, SqliteGateStore, SqliteSignals, SqliteStreamLog, InMemorySessionService, SqliteSessions]


def _delay_calls(store: type, delays: Delays) -> None:
    for name, method in inspect.getmembers(store, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            setattr(store, name, _delayed(method, delays))


def _delayed(method: Callable[..., Any], delays: Delays) -> Callable[..., Any]:
    @functools.wraps(method)
    async def call(*args: Any, **options: Any) -> Any:
        await _pause(delays)
        result = await method(*args, **options)
        await _pause(delays)
        return result

    return call


async def _pause(delays: Delays) -> None:
    if seconds := delays.next():
        await asyncio.sleep(seconds)


def _delay_timers(delays: Delays) -> None:
    original = asyncio.BaseEventLoop.call_at

    def call_at(loop: Any, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return original(loop, when + delays.next(), callback, *args, context=context)

    asyncio.BaseEventLoop.call_at = call_at


def _delay_reads(delays: Delays) -> None:
    transport = selector_events._SelectorSocketTransport  # pyright: ignore[reportAttributeAccessIssue] - none is public
    read = transport._read_ready

    def read_ready(self: Any) -> None:
        seconds = delays.next()
        if not seconds:
            return read(self)
        self._loop._remove_reader(self._sock_fd)
        # Does nothing if the transport is paused or closed by then.
        self._loop.call_later(seconds, self._add_reader, self._sock_fd, self._read_ready)
        return None

    transport._read_ready = read_ready
