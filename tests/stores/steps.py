"""Counts the work of a query: steps of SQLite's virtual machine, and of Python in the store.

A question that reads what is not part of its answer takes more steps when there is more of that.
"""

import sqlite3
import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

import pytest

_COUNTED = ("/adkwire/stores/", "/adkwire/gate/")

Steps = Callable[[Awaitable[object]], Awaitable[int]]


class _Counter:
    def __init__(self) -> None:
        self.steps = 0

    def connected(self, *args: Any, **options: Any) -> sqlite3.Connection:
        """Open a connection whose steps are counted."""
        connection = sqlite3.Connection(*args, **options)
        connection.set_progress_handler(self.step, 1)
        return connection

    def step(self) -> int:
        self.steps += 1
        return 0

    def trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if not any(part in frame.f_code.co_filename for part in _COUNTED):
            return None
        frame.f_trace_opcodes = True
        self.steps += event == "opcode"
        return self.trace

    async def of(self, work: Awaitable[object]) -> int:
        before, tracing = self.steps, sys.gettrace()
        sys.settrace(self.trace)
        try:
            await work
        finally:
            sys.settrace(tracing)
        return self.steps - before


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Counts the steps of one question; to be asked for before the store is used."""
    counter = _Counter()
    monkeypatch.setattr(sqlite3, "connect", counter.connected)
    return counter.of
