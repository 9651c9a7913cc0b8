"""Fixtures that build chats and pages, close their bridges when the test ends and fail on leaked tasks."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from adkwire.adk.app import Target
from adkwire.testing import ScriptedModel
from tests.patience import PATIENCE
from tests.support.chats import Chat, chat_with, scripted
from tests.support.pages import Page

Make: TypeAlias = Callable[..., Chat]
"""The type of the fixture `make`."""
Open: TypeAlias = Callable[..., Page]
"""The type of the fixture `open_page`."""


def leaked_since(before: "set[asyncio.Task[Any]]") -> list[str]:
    """Return the names of the tasks that were started since `before` and still run, without the test runner's own."""
    alive = asyncio.all_tasks() - before - {asyncio.current_task()}
    return [task.get_name() for task in alive if "TestRunner" not in repr(task.get_coro())]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Build chats with an agent or a scripted model. All chats of a test share its database file."""
    before = asyncio.all_tasks()
    made: list[Chat] = []

    def build(target: Target | ScriptedModel, *tools: Any, **options: Any) -> Chat:
        agent = scripted(target, *tools) if isinstance(target, ScriptedModel) else target
        made.append(chat_with(agent, tmp_path, **options))
        return made[-1]

    yield build
    for chat in made:
        async with asyncio.timeout(PATIENCE):
            await chat.bridge.close()
    assert not leaked_since(before)


@pytest.fixture(params=["memory", "sqlite"])
def open_page(make: Make, request: pytest.FixtureRequest) -> Open:
    """Open pages on chats with an agent or a scripted model, once with stores in memory and once in SQLite."""
    store = {"db": "memory:"} if request.param == "memory" else {}

    def build(target: Target | ScriptedModel, *tools: Any, **options: Any) -> Page:
        return Page(make(target, *tools, **store, **options))

    return build
