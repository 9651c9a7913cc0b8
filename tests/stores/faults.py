"""SQLite that fails when a test says so, below everything of ours."""

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest


class Faults:
    """Exceptions that the next statements with a text in them raise, one after the other."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, Exception]] = []

    def add(self, text: str, *errors: Exception) -> None:
        self._waiting += [(text, error) for error in errors]

    @property
    def are_over(self) -> bool:
        return not self._waiting

    def strike(self, sql: str) -> None:
        for fault in self._waiting:
            if fault[0] in sql:
                self._waiting.remove(fault)
                raise fault[1]


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """The faults of the connections that are opened from now on."""
    faults, connect = Faults(), sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", _connecting(connect, faults))
    return faults


def _connecting(connect: Callable[..., sqlite3.Connection], faults: Faults) -> Callable[..., sqlite3.Connection]:
    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            faults.strike(sql)
            return super().execute(sql, *values)

    return lambda *args, **options: connect(*args, **{"factory": Connection, **options})
