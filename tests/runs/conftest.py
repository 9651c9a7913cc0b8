"""Bridges that are closed when the test ends, with nothing left running behind them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from adkwire.runs.adk import Target
from adkwire.testing import ScriptedModel
from tests.patience import PATIENCE
from tests.runs.chats import Chat, chat_with, scripted
from tests.runs.pages import Page

Make: TypeAlias = Callable[..., Chat]
Open: TypeAlias = Callable[..., Page]


def leaked_since(before: "set[asyncio.Task[Any]]") -> list[str]:
    """Names of the tasks that were started since and still live; the test runner's own is not ours to end."""
    alive = asyncio.all_tasks() - before - {asyncio.current_task()}
    return [task.get_name() for task in alive if "TestRunner" not in repr(task.get_coro())]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Build a chat with an agent or a scripted model; more than one share the file of the test."""
    before = asyncio.all_tasks()
    made: list[Chat] = []

    def build(target: Target | ScriptedModel, *tools: Any, **given: Any) -> Chat:
        agent = scripted(target, *tools) if isinstance(target, ScriptedModel) else target
        made.append(chat_with(agent, tmp_path, **given))
        return made[-1]

    yield build
    for chat in made:
        async with asyncio.timeout(PATIENCE):
            await chat.bridge.close()
    assert not leaked_since(before)


@pytest.fixture(params=["memory", "sqlite"])
def open_page(make: Make, request: pytest.FixtureRequest) -> Open:
    """Open a page on a chat with an agent or a scripted model; everything is kept in memory, or in a file."""
    kept = {"db": "memory:"} if request.param == "memory" else {}

    def build(target: Target | ScriptedModel, *tools: Any, **given: Any) -> Page:
        return Page(make(target, *tools, **kept, **given))

    return build
