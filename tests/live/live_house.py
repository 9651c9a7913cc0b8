"""The former names of `tests.live.live_chat`, which `tests/runs` still uses. Remove this file with their last use."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tests.live.live_chat import CHAT, ME, LiveChat, LiveTools, Reader, RecordingListener, live_chat

__all__ = ["CHAT", "ME", "Ear", "House", "Till", "house"]

Ear = RecordingListener


class Till(LiveTools):
    """`LiveTools`."""

    def tools(self) -> list[Any]:
        return self.all()


class House(LiveChat):
    """`LiveChat`."""

    @property
    def ear(self) -> RecordingListener:
        return self.listener

    @property
    def till(self) -> LiveTools:
        return self.tools

    async def say(self, text: str) -> Reader:
        return await self.send(text)

    async def agrees_with(self, *readers: Reader) -> None:
        await self.assert_history_matches(*readers)


@asynccontextmanager
async def house(*args: Any, **options: Any) -> AsyncGenerator[House]:
    """`live_chat`."""
    async with live_chat(*args, **options) as chat:
        chat.__class__ = House
        assert isinstance(chat, House)
        yield chat
