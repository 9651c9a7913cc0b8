"""Servers around scripted agents, closed when the test ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.server.app_server import Site, body, opened
from tests.server.gemini_server import GeminiServer, open_gemini_server
from tests.server.hostile_page import Page, Shop, assert_waits, opened_shop
from tests.server.ledger_agent import PAY
from tests.support.fixtures import leaked_since

Open: TypeAlias = Callable[..., Awaitable[Site]]


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
    """One server for all tests of a module that change nothing."""
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


@pytest.fixture(scope="module")
async def gemini_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GeminiServer]:
    """One server for a module, whose agent talks to the emulator of Gemini."""
    async with open_gemini_server(tmp_path_factory.mktemp("gemini_server")) as gemini_server:
        yield gemini_server


@pytest.fixture(scope="module")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shop]:
    """One server for a module, around a till, for any number of users."""
    async with opened_shop(tmp_path_factory.mktemp("hostile")) as shop:
        yield shop


@pytest.fixture
async def page(shop: Shop) -> Page:
    """A chat of Ann's in which a payment waits."""
    page = shop.page()
    await page.ask(PAY)
    await assert_waits(page, "pay")
    return page
