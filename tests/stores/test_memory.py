import asyncio
import gc
from collections import deque
from typing import Any

import pytest

from adkwire.stores.base import GateStore, Signals, StreamLog
from adkwire.stores.memory import MemoryGateStore, MemorySignals, MemoryStreamLog, SharedSignals
from tests.stores.contract import TTL, Clock, MakeLog, StreamLogContract, begin
from tests.stores.gate_contract import GateStoreContract, names, row
from tests.stores.signals_contract import SignalsContract


@pytest.fixture
def make() -> MakeLog:
    made: list[MemoryStreamLog] = []

    def make(*, ttl: float, clock: Clock, max_bytes: int = 1 << 30, max_run_bytes: int = 1 << 30) -> StreamLog:
        if not made:
            made.append(MemoryStreamLog(ttl=ttl, clock=clock, max_bytes=max_bytes, max_run_bytes=max_run_bytes))
        return made[0]

    return make


@pytest.fixture
def log(make: MakeLog) -> StreamLog:
    return make(ttl=TTL, clock=Clock())


@pytest.fixture
def store() -> GateStore:
    return MemoryGateStore()


@pytest.fixture
def shared() -> SharedSignals:
    return SharedSignals()


@pytest.fixture
def signals(shared: SharedSignals) -> Signals:
    return MemorySignals(shared)


class TestMemoryStreamLog(StreamLogContract):
    @pytest.fixture
    def other(self, log: StreamLog) -> StreamLog:
        return log


class TestMemoryGateStore(GateStoreContract):
    @pytest.fixture
    def other(self, store: GateStore) -> GateStore:
        return store


class TestMemorySignals(SignalsContract):
    @pytest.fixture
    def other(self, shared: SharedSignals) -> Signals:
        return MemorySignals(shared)


def futures() -> int:
    gc.collect()
    return sum(isinstance(thing, asyncio.Future) for thing in gc.get_objects())


async def test_waiting_in_vain_leaves_nothing_behind(log: StreamLog) -> None:
    await begin(log, "run", "a")
    await log.read("run", 0, 0.001)
    before = futures()
    for _ in range(20):
        await log.read("run", 0, 0.001)
    # Those that other tests have left may be gone meanwhile.
    assert futures() <= before


async def test_workers_without_shared_signals_are_alone() -> None:
    one, other = MemorySignals(), MemorySignals()
    assert await one.acquire("chat") == await other.acquire("chat") == ""


async def test_who_no_longer_listens_leaves_nothing_behind(shared: SharedSignals, signals: Signals) -> None:
    messages = signals.listen("topic")
    waiting = asyncio.ensure_future(anext(messages))
    await asyncio.wait([waiting], timeout=0.01)
    await signals.send("topic", b"message")
    assert await waiting == b"message"
    await messages.aclose()
    assert shared.listeners == {}


async def test_a_wait_that_is_over_leaves_nothing_behind(shared: SharedSignals, signals: Signals) -> None:
    await MemorySignals(shared).acquire("chat")
    assert not await signals.wait_free("chat", 0.01)
    assert shared.waiting == {}


async def test_calls_that_are_over_are_kept_as_long_as_there_is_room() -> None:
    store = MemoryGateStore(max_over_bytes=20 * (1000 + len("data of 000") + 500))
    for number in range(200):
        call = f"{number:03}"
        await store.add(row(call, chat=f"chat {number % 7}", expires_at=1.0))
        data = b"data of " + call.encode() + b"x" * 1000
        assert await store.replace(row(call, "done", chat=f"chat {number % 7}", data=data, expires_at=1.0))
    kept = sorted(names(await store.find("user", ["done"])))
    assert kept == [f"{number:03}" for number in range(180, 200)]
    assert len(await store.expiring(["done"], 1.0, 1000)) == 20
    assert sum([len(await store.calls("user", f"chat {number}")) for number in range(7)]) == 20
    assert await store.get("user", "chat 0", "000") is None


async def test_calls_that_somebody_has_to_act_on_are_never_dropped() -> None:
    store = MemoryGateStore(max_over_bytes=1)
    states = ("asked", "offered", "answered", "executing")
    for state in states:
        await store.add(row(state, state))
    await store.add(row("again", "unknown"))
    assert await store.replace(row("again", "answered"))
    for number in range(20):
        await store.add(row(f"{number}", "void"))
    assert names(await store.calls("user", "chat")) == [*states, "again", "19"]


async def test_a_dropped_or_forgotten_call_leaves_nothing_behind() -> None:
    store = MemoryGateStore(max_over_bytes=1, max_audit_bytes=1, max_grants=1)
    empty = size_of(store)
    for number in range(50):
        user, chat = f"user {number % 3}", f"chat {number}"
        await store.add(row("call", user=user, chat=chat, expires_at=1.0))
        await store.replace(row("call", "done", user=user, chat=chat))
        await store.add(row("waiting", user=user, chat=chat))
        await store.grant(user, chat, "tool")
        await store.grant(user, "", chat)
        await store.add_audit_line(user, chat, b"line")
        await store.forget(user, chat)
    await store.forget("user 2", "")
    await store.forget("user 1", "")
    assert size_of(store) == empty


def size_of(store: MemoryGateStore) -> int:
    """Return the number of entries in all maps and lists of an object."""
    return sum(sized(value) for value in vars(store).values())


def sized(value: Any) -> int:
    if isinstance(value, dict):
        # The names of the states stay: there are only so many.
        return sum(1 + sized(each) for each in value.values() if each != [])
    if isinstance(value, set | list | deque):
        return len(value)
    return sum(map(sized, vars(value).values())) if hasattr(value, "__dict__") else 0


async def test_of_the_audit_the_newest_lines_are_kept() -> None:
    store = MemoryGateStore(max_audit_bytes=10 * (100 + 500))
    for number in range(25):
        await store.add_audit_line("user", f"chat {number % 2}", b"%099d" % number + b".")
    kept = [int(line[:-1]) for chat in ("chat 0", "chat 1") for line in await store.audit_lines("user", chat)]
    assert kept == [16, 18, 20, 22, 24, 15, 17, 19, 21, 23]


async def test_of_the_grants_the_newest_are_kept() -> None:
    store = MemoryGateStore(max_grants=3)
    for what in ("a", "b", "c", "a", "d"):
        await store.grant("user", "chat", what)
    assert [what for what in "abcd" if await store.granted("user", "chat", [what])] == ["a", "c", "d"]
    assert [row.what for row in await store.grants("user", 10)] == ["d", "c", "a"]
    await store.forget("user", "chat")
    assert not await store.granted("user", "chat", list("abcd"))


async def test_leases_that_were_released_long_ago_have_no_last_holder(
    shared: SharedSignals, signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adkwire.stores.memory.signals.MAX_LAST_HOLDERS", 3)
    await signals.acquire("held")
    for number in range(10):
        await signals.acquire(f"chat {number}")
        await signals.release(f"chat {number}")
    assert len(shared.last_holders) == 3
    assert await signals.acquire("held") == await signals.acquire("chat 9") == signals.worker
    assert await signals.acquire("chat 0") == ""
