import asyncio
import gc

import pytest

from adkwire.stores.base import GateStore, StreamLog
from adkwire.stores.memory import MemoryGateStore, MemoryStreamLog
from tests.stores.contract import TTL, Clock, MakeLog, StreamLogContract
from tests.stores.gate_contract import GateStoreContract


@pytest.fixture
def make() -> MakeLog:
    return MemoryStreamLog


@pytest.fixture
def log(make: MakeLog) -> StreamLog:
    return make(ttl=TTL, clock=Clock())


@pytest.fixture
def store() -> GateStore:
    return MemoryGateStore()


@pytest.fixture
def other(store: GateStore) -> GateStore:
    return store


class TestMemoryStreamLog(StreamLogContract):
    pass


class TestMemoryGateStore(GateStoreContract):
    pass


def futures() -> int:
    gc.collect()
    return sum(isinstance(thing, asyncio.Future) for thing in gc.get_objects())


async def test_waiting_in_vain_leaves_nothing_behind(log: StreamLog) -> None:
    await log.append("run", [b"a"])
    await log.read("run", 0, 0.001)
    before = futures()
    for _ in range(20):
        await log.read("run", 0, 0.001)
    assert futures() == before
