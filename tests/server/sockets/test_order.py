"""Ordered work of one client."""

import asyncio

import pytest

from adkwire.errors import TooMany
from adkwire.server.sockets.order import OrderedWork


async def test_ordered_work_keeps_the_order_and_has_a_limit() -> None:
    done: list[int] = []
    gate = asyncio.Event()

    async def job(number: int) -> None:
        await gate.wait()
        done.append(number)

    async with asyncio.TaskGroup() as tasks:
        work = OrderedWork(tasks, "test")
        await work.finished()
        assert work.is_idle
        for number in range(64):
            work.add(lambda number=number: job(number))
        with pytest.raises(TooMany):
            work.add(lambda: job(99))
        assert not work.is_idle
        gate.set()
        await work.finished()
        assert work.is_idle
    assert done == list(range(64))
