"""What a store must do. Small Protocols, shaped so that memory, SQLite, Redis and PostgreSQL all fit."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Batch(msgspec.Struct, frozen=True):
    """What a read found: entries from number `first` on, and whether more can come."""

    first: int
    entries: Sequence[bytes]
    closed: bool


class StreamLog(Protocol):
    """The numbered chunks of runs. One writer per run, any number of readers."""

    async def append(self, run: str, entries: Sequence[bytes]) -> None:
        """Add encoded chunks behind the last; the first of a run has number 0."""
        ...

    async def close(self, run: str) -> None:
        """Say that nothing more comes. The log is kept for a while."""
        ...

    async def read(self, run: str, after: int, wait: float) -> Batch | None:
        """Return what is behind `after`, waiting up to `wait` seconds for it; None when the run is not known."""
        ...
