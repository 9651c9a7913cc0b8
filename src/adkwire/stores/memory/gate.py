"""The gate's store in the memory of one process."""

from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable
from itertools import islice
from typing import TypeVar

from msgspec.structs import replace

from adkwire.stores.base import CallRow, GrantRow

OVER_STATES = frozenset({"done", "void", "unknown"})
"""The states of calls that nobody has to act on any more."""
_OVERHEAD = 500
"""Bytes that a call or a line of the audit takes besides its data, roughly."""

_K = TypeVar("_K")
_V = TypeVar("_V")
_CallKey = tuple[str, str, str]
"""User, chat and call."""


class MemoryGateStore:
    """A `GateStore` that lives as long as the process.

    Its size is bounded. Every call that still needs somebody is kept. Of the calls that are over, those that ended last
    are kept, up to `max_over_bytes`; of the audit the newest lines, up to `max_audit_bytes`; of the grants the newest
    `max_grants`. A call that is dropped is unknown to a late answer, and a grant that is dropped is asked for again.
    """

    def __init__(
        self, *, max_over_bytes: int = 16_000_000, max_audit_bytes: int = 16_000_000, max_grants: int = 10_000
    ) -> None:
        self._calls = _Calls()
        self._over: OrderedDict[_CallKey, int] = OrderedDict()
        """The sizes of the calls that are over, in the order in which they ended."""
        self._over_bytes = 0
        self._max_over_bytes = max_over_bytes
        self._grants: OrderedDict[tuple[str, str, str], GrantRow] = OrderedDict()
        """By user, chat and what was granted; those that were granted last, or again, come last."""
        self._granted: dict[tuple[str, str], set[str]] = {}
        self._grants_of: dict[str, list[GrantRow]] = {}
        """The grants of each user, sorted by id."""
        self._last_grant = 0
        self._max_grants = max_grants
        self._audit: dict[tuple[str, str], deque[bytes]] = {}
        self._audit_order: deque[tuple[str, str]] = deque()
        """The chat of every line of the audit, oldest first."""
        self._audit_bytes = 0
        self._max_audit_bytes = max_audit_bytes

    async def add(self, row: CallRow) -> bool:
        """Store a new call."""
        if self._calls.get(_key(row)) is not None:
            return False
        self._put(replace(row, version=0))
        return True

    async def get(self, user: str, chat: str, call: str) -> CallRow | None:
        """Return one call."""
        return self._calls.get((user, chat, call))

    async def replace(self, row: CallRow) -> bool:
        """Replace the version of a call that `row` names."""
        stored = self._calls.get(_key(row))
        if stored is None or stored.version != row.version:
            return False
        self._put(replace(row, version=row.version + 1))
        return True

    async def calls(self, user: str, chat: str) -> list[CallRow]:
        """Return all calls of a chat."""
        return self._calls.of_chat(user, chat)

    async def find(self, user: str, states: Collection[str], chat: str | None = None) -> list[CallRow]:
        """Return the user's calls that are in one of the states, of all chats or of one."""
        return self._calls.in_states(user, states, chat)

    async def expiring(self, states: Collection[str], before: float, limit: int) -> list[CallRow]:
        """Return everybody's calls that are in one of the states and expire at `before` or earlier."""
        return [row for row in self._calls.first_to_expire(states, limit) if (row.expires_at or 0.0) <= before]

    async def next_expiry(self, states: Collection[str]) -> float | None:
        """Return the earliest time at which a call in one of the states expires."""
        return next((row.expires_at for row in self._calls.first_to_expire(states, 1)), None)

    async def forget(self, user: str, chat: str) -> None:
        """Drop the calls and the grants of a chat."""
        for what in list(self._granted.get((user, chat), ())):
            self._drop_grant((user, chat, what))
        for row in self._calls.of_chat(user, chat):
            self._drop(_key(row))

    async def grant(self, user: str, chat: str, what: str, data: bytes = b"") -> None:
        """Store a standing grant."""
        if (user, chat, what) not in self._grants:
            self._last_grant += 1
            row = self._grants[user, chat, what] = GrantRow(self._last_grant, user, chat, what, data)
            self._grants_of.setdefault(user, []).append(row)
            self._granted.setdefault((user, chat), set()).add(what)
        self._grants.move_to_end((user, chat, what))
        if len(self._grants) > self._max_grants:
            self._drop_grant(next(iter(self._grants)))

    async def granted(self, user: str, chat: str, what: Collection[str]) -> bool:
        """Return whether any of `what` is granted."""
        return any((user, place, one) in self._grants for place in (chat, "") for one in what)

    async def grants(self, user: str, limit: int, before: int | None = None) -> list[GrantRow]:
        """Return the newest grants of a user."""
        rows = self._grants_of.get(user, [])
        end = len(rows) if before is None else _place(rows, before)
        return rows[max(0, end - limit) : end][::-1]

    async def revoke(self, user: str, grant: int) -> GrantRow | None:
        """Drop a grant of the user."""
        rows = self._grants_of.get(user, [])
        at = _place(rows, grant)
        found = rows[at] if at < len(rows) and rows[at].id == grant else None
        if found is not None:
            self._drop_grant((found.user, found.chat, found.what))
        return found

    async def add_audit_line(self, user: str, chat: str, line: bytes) -> None:
        """Add a line to the audit."""
        self._audit.setdefault((user, chat), deque()).append(line)
        self._audit_order.append((user, chat))
        self._audit_bytes += len(line) + _OVERHEAD
        while self._audit_bytes > self._max_audit_bytes:
            oldest = self._audit_order.popleft()
            self._audit_bytes -= len(self._audit[oldest].popleft()) + _OVERHEAD
            if not self._audit[oldest]:
                del self._audit[oldest]

    async def audit_lines(self, user: str, chat: str) -> list[bytes]:
        """Return the audit of a chat."""
        return list(self._audit.get((user, chat), ()))

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    def _put(self, row: CallRow) -> None:
        """Keep a call as it is now, and make room if it is over."""
        key = _key(row)
        self._over_bytes -= self._over.pop(key, 0)
        self._calls.put(row)
        if row.state in OVER_STATES:
            self._over[key] = len(row.data) + _OVERHEAD
            self._over_bytes += self._over[key]
            while self._over_bytes > self._max_over_bytes and len(self._over) > 1:
                self._drop(next(iter(self._over)))

    def _drop_grant(self, key: tuple[str, str, str]) -> None:
        row = self._grants.pop(key)
        _discard(self._granted, (row.user, row.chat), row.what)
        of_user = self._grants_of[row.user]
        del of_user[_place(of_user, row.id)]
        if not of_user:
            del self._grants_of[row.user]

    def _drop(self, key: _CallKey) -> None:
        self._over_bytes -= self._over.pop(key, 0)
        self._calls.drop(key)


class _Calls:
    """Calls with indexes, so that no question looks at calls that do not belong to its answer."""

    def __init__(self) -> None:
        self._rows: dict[int, CallRow] = {}
        """By numbers, which say in which order the calls were added."""
        self._last = 0
        self._numbers: dict[tuple[str, str], dict[str, int]] = {}
        """The numbers of a chat's calls, by user and chat and then by call."""
        self._in_state: dict[tuple[str, ...], set[int]] = {}
        """By user and state, and by user, state and chat."""
        self._expiring: dict[str, list[tuple[float, int]]] = {}
        """When the calls in a state expire, and their numbers: sorted."""

    def get(self, key: _CallKey) -> CallRow | None:
        user, chat, call = key
        number = self._numbers.get((user, chat), {}).get(call)
        return self._rows[number] if number is not None else None

    def of_chat(self, user: str, chat: str) -> list[CallRow]:
        return [self._rows[number] for number in self._numbers.get((user, chat), {}).values()]

    def in_states(self, user: str, states: Collection[str], chat: str | None) -> list[CallRow]:
        where = () if chat is None else (chat,)
        numbers = [number for state in states for number in self._in_state.get((user, state, *where), ())]
        return [self._rows[number] for number in sorted(numbers)]

    def first_to_expire(self, states: Collection[str], limit: int) -> list[CallRow]:
        first: Iterable[tuple[float, int]] = (
            one for state in states for one in islice(self._expiring.get(state, ()), limit)
        )
        return [self._rows[number] for _, number in sorted(first)[:limit]]

    def put(self, row: CallRow) -> None:
        """Add a call, or put it in the place of the one with the same key."""
        of_chat = self._numbers.setdefault((row.user, row.chat), {})
        number = of_chat.get(row.call)
        if number is None:
            number = of_chat[row.call] = self._last = self._last + 1
        else:
            self._unlist(number)
        self._rows[number] = row
        for key in _state_keys(row):
            self._in_state.setdefault(key, set()).add(number)
        if row.expires_at is not None:
            insort(self._expiring.setdefault(row.state, []), (row.expires_at, number))

    def drop(self, key: _CallKey) -> None:
        user, chat, call = key
        of_chat = self._numbers[user, chat]
        number = of_chat.pop(call)
        if not of_chat:
            del self._numbers[user, chat]
        self._unlist(number)
        del self._rows[number]

    def _unlist(self, number: int) -> None:
        """Take a call out of the indexes of its state and its time."""
        row = self._rows[number]
        for key in _state_keys(row):
            _discard(self._in_state, key, number)
        if row.expires_at is not None:
            expiring = self._expiring[row.state]
            del expiring[bisect_left(expiring, (row.expires_at, number))]


def _place(rows: list[GrantRow], grant: int) -> int:
    """Return the index of a grant's id in rows that are sorted by it, or where it would be."""
    return bisect_left(rows, grant, key=lambda row: row.id)


def _key(row: CallRow) -> _CallKey:
    return row.user, row.chat, row.call


def _state_keys(row: CallRow) -> tuple[tuple[str, ...], ...]:
    return (row.user, row.state), (row.user, row.state, row.chat)


def _discard(sets: dict[_K, set[_V]], key: _K, value: _V) -> None:
    """Take a value out of one of the sets, and the set away when it is empty."""
    sets[key].discard(value)
    if not sets[key]:
        del sets[key]
