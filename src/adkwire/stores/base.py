"""What a store must do. Small Protocols, shaped so that memory, SQLite, Redis and PostgreSQL all fit."""

from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Protocol

import msgspec


class RunHead(msgspec.Struct, frozen=True):
    """Whose run it is and what it writes: enough for any worker to serve it, and to close it when its own is gone."""

    run: str
    user: str
    chat: str
    message: str
    """The assistant message it writes."""
    said: str = ""
    """The user message it answers."""
    request: bytes = b""
    """The fingerprint of the request that began it."""
    delivers: tuple[str, ...] = ()
    """The calls whose answers it brings to the agent."""
    before: int = 0
    """How many entries tell what its message held before."""


class Batch(msgspec.Struct, frozen=True):
    """What a read found: entries from number `first` on, and whether more can come."""

    first: int
    entries: Sequence[bytes]
    closed: bool


class Closed(Exception):
    """An entry for a run whose log is closed, or was never opened: somebody else has ended it."""


class StreamLog(Protocol):
    """The numbered chunks of runs. One writer per run, any number of readers.

    A run's entries have the numbers 0, 1, 2, ... What its message held before it began is kept with them, for those
    who come without it, and has the numbers up to -1. How much of one run, and of all, is kept is bounded.
    """

    async def open(self, head: RunHead, before: Sequence[bytes] = (), question: bytes = b"") -> None:
        """Begin the log of a run; `before` is what its message held, `question` what the user said."""
        ...

    async def append(self, run: str, entries: Sequence[bytes]) -> None:
        """Add encoded chunks behind the last; raises `Closed` when the run is not open.

        When the worker that began a run is gone, another one goes on with it.
        """
        ...

    async def close(self, run: str) -> None:
        """Say that nothing more comes. The log is kept for a while; closing it again changes nothing."""
        ...

    async def read(self, run: str, after: int, wait: float) -> Batch | None:
        """Return what is behind `after`, waiting up to `wait` seconds for it; None when the run is not known.

        A batch may hold less than there is; when entries behind
        `after` are no longer kept, it begins with the first that is. The end is only told with the last entries.
        """
        ...

    async def head(self, run: str) -> RunHead | None:
        """Whose run it is; None when it is not known."""
        ...

    async def runs(self, user: str, chat: str) -> list[RunHead]:
        """The runs of a chat that are kept, in the order they were opened."""
        ...

    async def question(self, run: str) -> bytes:
        """What the user said, as long as the run has no end: it may have got lost on the way to the agent."""
        ...

    async def unclosed(self, user: str | None = None, chat: str | None = None) -> list[RunHead]:
        """The runs that have no end, of everybody, of a user or of a chat, in the order they were opened."""
        ...

    async def forget(self, user: str, chat: str) -> None:
        """Drop the runs of a chat."""
        ...

    async def aclose(self) -> None:
        """Let go of what is open. The store can be used, and closed, again."""
        ...


class Signals(Protocol):
    """Who does what among workers that share the stores, and word from one to another.

    A lease belongs to a living worker. One that has given no sign of life for a while is dead, and so are its leases.
    """

    @property
    def worker(self) -> str:
        """The name of this worker, which no other ever has."""
        ...

    async def acquire(self, name: str) -> str | None:
        """Take or keep a lease: the name of who held it last ("" when nobody did); None while another has it."""
        ...

    async def release(self, name: str) -> None:
        """Give a lease back, if this worker has it."""
        ...

    async def holder(self, name: str) -> str | None:
        """The living worker that has a lease."""
        ...

    async def forget(self, name: str) -> None:
        """Give a lease back and drop who held it last."""
        ...

    async def send(self, topic: str, message: bytes) -> None:
        """Tell all who listen to a topic, on any worker. Nothing is kept for those who do not."""
        ...

    def listen(self, topic: str) -> AsyncGenerator[bytes, None]:
        """What is sent to a topic from the first step of the iteration on, in order."""
        ...

    async def close(self) -> None:
        """Give all leases back and let go of what is open."""
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
