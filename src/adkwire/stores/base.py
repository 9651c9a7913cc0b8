"""The Protocols of the stores, small enough for memory, SQLite, Redis and PostgreSQL, and the values they keep."""

from collections.abc import AsyncGenerator, Collection, Sequence
from typing import NamedTuple, Protocol

import msgspec


class ChatKey(NamedTuple):
    """The user and the id of a chat. Two users may use the same id for two chats."""

    user: str
    chat: str


class RunHead(msgspec.Struct, frozen=True):
    """What any worker needs to serve a run, and to close it when the worker that wrote it is gone."""

    run: str
    user: str
    chat: str
    message: str
    """The id of the assistant message that the run writes."""
    user_message: str = ""
    """The id of the user message that the run answers."""
    request: bytes = b""
    """The fingerprint of the request that started the run."""
    delivers: tuple[str, ...] = ()
    """The ids of the calls whose answers the run brings to the agent."""
    before: int = 0
    """The number of entries that earlier runs wrote in the same message."""


class Batch(msgspec.Struct, frozen=True):
    """The entries that a read returns: numbered from `first` on; `closed` is True if no more can come."""

    first: int
    entries: Sequence[bytes]
    closed: bool


class Closed(Exception):
    """Raised when an entry is appended to a run that is not open: it was never opened, or another worker closed it."""


class StreamLog(Protocol):
    """The numbered chunks of runs, with one writer per run and any number of readers.

    A run's entries have the numbers 0, 1, 2, ... The chunks that earlier runs wrote in the same message are kept with
    them, with numbers up to -1, for readers that do not have them. What is kept of one run, and of all, is bounded.
    """

    async def open(self, head: RunHead, before: Sequence[bytes] = (), user_message: bytes = b"") -> None:
        """Begin the log of a run.

        `before` has the chunks that its message holds already, `user_message` the parts of the user's message.
        """
        ...

    async def append(self, run: str, entries: Sequence[bytes]) -> None:
        """Add encoded chunks after the last one; raise `Closed` when the run is not open.

        Any worker may append: when the worker that opened a run is gone, another one ends it.
        """
        ...

    async def close(self, run: str) -> None:
        """Close a run, whose entries are kept for a while; closing it again changes nothing."""
        ...

    async def read(self, run: str, after: int, wait: float) -> Batch | None:
        """Return entries after the number `after`, waiting up to `wait` seconds for them; None when the run is unknown.

        A batch may hold fewer entries than there are. If entries after `after` are no longer kept, it begins with the
        first that is. It is `closed` only when it ends with the last entry of a closed run.
        """
        ...

    async def head(self, run: str) -> RunHead | None:
        """Return the head of a run; None when the run is unknown."""
        ...

    async def runs(self, user: str, chat: str) -> list[RunHead]:
        """Return the heads of a chat's runs that are kept, in the order in which they were opened."""
        ...

    async def user_message(self, run: str) -> bytes:
        """Return the `user_message` of an open run, in case its worker died before the agent got it; else b""."""
        ...

    async def unclosed(self, user: str | None = None, chat: str | None = None) -> list[RunHead]:
        """Return the heads of open runs, of all users, of one user or of one chat, in the order they were opened."""
        ...

    async def forget(self, user: str, chat: str) -> None:
        """Drop the runs of a chat."""
        ...

    async def aclose(self) -> None:
        """Close files and connections. The store can be used, and closed, again."""
        ...


class Signals(Protocol):
    """Leases and messages between the workers that share the stores.

    A lease belongs to a living worker. A worker that has given no sign of life for a while counts as dead, and its
    leases are free.
    """

    @property
    def worker(self) -> str:
        """The name of this worker; no other worker ever has the same."""
        ...

    async def acquire(self, name: str) -> str | None:
        """Take or keep a lease and return its last holder ("" if it had none); None while another worker holds it."""
        ...

    async def release(self, name: str) -> None:
        """Release a lease, if this worker holds it."""
        ...

    async def holder(self, name: str) -> str | None:
        """Return the living worker that holds a lease; None when it is free."""
        ...

    async def wait_free(self, name: str, seconds: float) -> bool:
        """Wait until no other living worker holds a lease; return False when `seconds` have passed before.

        Return True at once when the lease is free or is this worker's own. The holder's `release`, `forget` or `close`
        ends the wait; so does its death, which is noticed within a second of the time that `holder` would notice it.
        Waiting does not take the lease: another worker may acquire it first. `close` on this worker ends the wait with
        False.
        """
        ...

    async def forget(self, name: str) -> None:
        """Release a lease and forget its last holder; a lease that another living worker holds is left alone."""
        ...

    async def send(self, topic: str, message: bytes) -> None:
        """Send a message to all listeners of a topic, on all workers. It is not kept for later listeners."""
        ...

    def listen(self, topic: str) -> AsyncGenerator[bytes, None]:
        """Yield the messages that are sent to a topic from the first step of the iteration on, in order."""
        ...

    async def close(self) -> None:
        """Release all leases, end listeners and waits, and close files and connections."""
        ...


class CallRow(msgspec.Struct, frozen=True):
    """A gated call as a store keeps it. `data` is the record of the gate, which a store need not understand."""

    user: str
    chat: str
    call: str
    state: str
    data: bytes
    expires_at: float | None = None
    version: int = 0


class GrantRow(msgspec.Struct, frozen=True):
    """A standing grant as a store keeps it. `data` is the gate's, which a store need not understand."""

    id: int
    """Larger than that of every earlier grant; never used again."""
    user: str
    chat: str
    """Empty for a grant for all chats of the user."""
    what: str
    data: bytes = b""


class GateStore(Protocol):
    """Gated calls, standing grants and the audit. What a method has stored survives a power cut."""

    async def add(self, row: CallRow) -> bool:
        """Store a new call as version 0; return False when the user has that call in that chat already."""
        ...

    async def get(self, user: str, chat: str, call: str) -> CallRow | None:
        """Return one call; None when there is none."""
        ...

    async def replace(self, row: CallRow) -> bool:
        """Replace the version of a call that `row` names by `row`, as the next version; False if there is another one.

        Of any number of attempts at once, in this or another process, one succeeds.
        """
        ...

    async def calls(self, user: str, chat: str) -> list[CallRow]:
        """Return all calls of a chat, in the order they were added."""
        ...

    async def find(self, user: str, states: Collection[str], chat: str | None = None) -> list[CallRow]:
        """Return the user's calls that are in one of the states, of all chats or of one, in the order they were added.

        Calls in other states and chats must not be read for it: a chat may hold any number of calls that are over.
        """
        ...

    async def expiring(self, states: Collection[str], before: float, limit: int) -> list[CallRow]:
        """Return the calls of all users that are in one of the states and expire at `before` or earlier.

        The earliest come first, and there are at most `limit`; no others are read.
        """
        ...

    async def next_expiry(self, states: Collection[str]) -> float | None:
        """Return the earliest time at which a call in one of the states expires, of all users; None if none does.

        It must be read from an index: it is asked after every call that changes.
        """
        ...

    async def forget(self, user: str, chat: str) -> None:
        """Drop the calls and the grants of a chat. The audit stays."""
        ...

    async def grant(self, user: str, chat: str, what: str, data: bytes = b"") -> None:
        """Store a standing grant for a chat; with chat "", for all chats of the user.

        A grant that is there already keeps its id and its data.
        """
        ...

    async def granted(self, user: str, chat: str, what: Collection[str]) -> bool:
        """Return whether any of `what` is granted, for this chat or for all chats of the user."""
        ...

    async def grants(self, user: str, limit: int, before: int | None = None) -> list[GrantRow]:
        """Return the newest `limit` grants of a user, newest first; with `before` those with smaller ids.

        No others are read.
        """
        ...

    async def revoke(self, user: str, grant: int) -> GrantRow | None:
        """Drop a grant of the user and return it; None when there is none with this id.

        Of any number of attempts at once, in this or another process, one gets it.
        """
        ...

    async def add_audit_line(self, user: str, chat: str, line: bytes) -> None:
        """Add a line to the audit of a chat, where it stays when the chat is deleted."""
        ...

    async def audit_lines(self, user: str, chat: str) -> list[bytes]:
        """Return the audit of a chat, oldest line first."""
        ...

    async def close(self) -> None:
        """Close files and connections. The store can be used, and closed, again."""
        ...
