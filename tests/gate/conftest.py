"""The gate on each store that comes with it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adkwire.stores.base import GateStore
from adkwire.stores.memory import MemoryGateStore
from adkwire.stores.sqlite import SqliteGateStore
from tests.gate.records import Door


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[GateStore]:
    kept: Any = MemoryGateStore() if request.param == "memory" else SqliteGateStore(tmp_path / "gate.db")
    yield kept
    await kept.close()


@pytest.fixture
def door(store: GateStore) -> Door:
    return Door(store)
