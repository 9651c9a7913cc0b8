import asyncio
import gc

import pytest

from adkwire.stores.base import GateStore, Signals, StreamLog
from adkwire.stores.memory import Board, MemoryGateStore, MemorySignals, MemoryStreamLog
from tests.stores.contract import TTL, Clock, MakeLog, StreamLogContract, begin
from tests.stores.gate_contract import GateStoreContract
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
def board() -> Board:
    return Board()


@pytest.fixture
def signals(board: Board) -> Signals:
    return MemorySignals(board)


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
    def other(self, board: Board) -> Signals:
        return MemorySignals(board)


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


async def test_workers_without_a_board_are_alone() -> None:
    one, other = MemorySignals(), MemorySignals()
    assert await one.acquire("chat") == await other.acquire("chat") == ""


async def test_who_no_longer_listens_leaves_nothing_behind(board: Board, signals: Signals) -> None:
    messages = signals.listen("topic")
    waiting = asyncio.ensure_future(anext(messages))
    await asyncio.wait([waiting], timeout=0.01)
    await signals.send("topic", b"message")
    assert await waiting == b"message"
    await messages.aclose()
    assert board.listeners == {}
