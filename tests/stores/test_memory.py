import asyncio
import gc

import pytest

from adkwire.stores.base import StreamLog
from adkwire.stores.memory import MemoryStreamLog
from tests.stores.contract import TTL, Clock, MakeLog, StreamLogContract


@pytest.fixture
def make() -> MakeLog:
    return MemoryStreamLog


@pytest.fixture
def log(make: MakeLog) -> StreamLog:
    return make(ttl=TTL, clock=Clock())


class TestMemoryStreamLog(StreamLogContract):
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
