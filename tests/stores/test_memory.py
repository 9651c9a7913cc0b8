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
