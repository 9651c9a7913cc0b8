"""What a store must do. Small Protocols, shaped so that memory, SQLite, Redis and PostgreSQL all fit."""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

UNNUMBERED = -1
"""The `first` of a batch whose entries are not in the log."""


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


class CallRow(msgspec.Struct, frozen=True):
    """A gated call as a store sees it: whose it is, its state, until when. What it means is the gate's business."""

    user: str
    chat: str
    call: str
    state: str
    data: bytes
    expires_at: float | None = None
    version: int = 0


class GateStore(Protocol):
    """Gated calls, standing grants and the audit. What a method did is kept, also through a power cut."""

    async def add(self, row: CallRow) -> bool:
        """Keep a new call, as version 0; False when the user has that call in that chat already."""
        ...

    async def get(self, user: str, chat: str, call: str) -> CallRow | None:
        """Return one call."""
        ...

    async def replace(self, row: CallRow) -> bool:
        """Put `row` in the place of the same version, as the next one; False when that version is no longer there.

        Of any number who try at once, in this or another process, one succeeds.
        """
        ...

    async def calls(self, user: str, chat: str) -> list[CallRow]:
        """All calls of a chat, in the order they were added."""
        ...

    async def find(self, user: str, states: Collection[str]) -> list[CallRow]:
        """The calls of all the user's chats that are in one of the states, in the order they were added."""
        ...

    async def expiring(self, states: Collection[str], before: float) -> list[CallRow]:
        """The calls of all users that are in one of the states and expire at `before` or earlier, earliest first."""
        ...

    async def forget(self, user: str, chat: str) -> None:
        """Drop the calls and the grants of a chat. The audit stays."""
        ...

    async def grant(self, user: str, chat: str, what: str) -> None:
        """Keep a standing grant for a chat; with chat "", for all chats of the user."""
        ...

    async def granted(self, user: str, chat: str, what: Collection[str]) -> bool:
        """Whether any of `what` is granted, for this chat or for all."""
        ...

    async def write(self, user: str, chat: str, line: bytes) -> None:
        """Add a line to the audit of a chat; nothing takes it away again."""
        ...

    async def lines(self, user: str, chat: str) -> list[bytes]:
        """The audit of a chat, oldest first."""
        ...

    async def close(self) -> None:
        """Let go of what is open. The store can be used, and closed, again."""
        ...
