"""The gate on each store that comes with it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adkwire.stores.base import GateStore
from adkwire.stores.memory import MemoryGateStore
from adkwire.stores.sqlite.gate import SqliteGateStore
from tests.gate.records import GateInTest
from tests.stores.steps import steps

__all__ = ["steps", "store", "tested"]


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[GateStore]:
    kept: Any = MemoryGateStore() if request.param == "memory" else SqliteGateStore(tmp_path / "gate.db")
    yield kept
    await kept.close()


@pytest.fixture
def tested(store: GateStore) -> GateInTest:
    return GateInTest(store)
