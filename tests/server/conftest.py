"""Servers around scripted agents, closed when the test ends."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from adkwire import create_app
from adkwire.testing import Say, ScriptedModel
from tests.runs.chats import scripted, settings
from tests.runs.conftest import leaked_since
from tests.server.sites import Site, body, serving

Open: TypeAlias = Callable[..., Awaitable[Site]]


@asynccontextmanager
async def opened(
    folder: Path,
    model: ScriptedModel | None = None,
    *tools: Any,
    authenticate: Any = None,
    headers: Mapping[str, str] | None = None,
    **given: Any,
) -> AsyncGenerator[Site]:
    """A server around a scripted model."""
    agent = scripted(model or ScriptedModel(script=lambda _: [Say("ok")]), *tools)
    given = {"chats_per_minute": 0, "ui": False, **given}
    app = create_app(agent, settings=settings(folder, **given), authenticate=authenticate)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(app.state.bridge.close)
        yield await stack.enter_async_context(serving(app, headers=headers))


@pytest.fixture
async def open_site(tmp_path: Path) -> AsyncIterator[Open]:
    """Start servers; all of a test share one file."""
    before = asyncio.all_tasks()
    async with AsyncExitStack() as stack:

        async def build(*args: Any, **given: Any) -> Site:
            return await stack.enter_async_context(opened(tmp_path, *args, **given))

        yield build
    assert not leaked_since(before)


@pytest.fixture
async def site(open_site: Open) -> Site:
    """A server of the test's own."""
    return await open_site()


@pytest.fixture(scope="module")
async def shared_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """One server for all tests of a module that only ask."""
    async with opened(tmp_path_factory.mktemp("shared"), db="memory:") as site:
        assert (await site.client.post("/api/chat", json=body(chat="kept"))).status_code == 200
        yield site


@pytest.fixture
async def unchanged(shared_site: Site) -> AsyncIterator[Site]:
    """A server with one chat; whatever the test does, the chat list is the same afterwards."""
    before = await shared_site.chats()
    assert [chat["id"] for chat in before["chats"]] == ["kept"]
    yield shared_site
    assert await shared_site.chats() == before


@pytest.fixture(scope="module")
async def site_with_page(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """One server that also serves the page, if it is built."""
    async with opened(tmp_path_factory.mktemp("page"), db="memory:", ui=True) as site:
        yield site
