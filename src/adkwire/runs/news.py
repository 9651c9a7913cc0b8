"""What happens in a user's chats, for pages that are looking elsewhere."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

_WAITING = 1000
"""How much a reader may leave unread before it is let go: it comes back and reads the chats anew."""


class Item(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One piece of news."""

    type: Literal["run-started", "run-ended", "call-asked", "call-settled", "chat-updated"]
    chat: str
    run: str | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET
    state: str | UnsetType = UNSET


class News:
    """Hands every item to all who listen for that user. Nothing is kept for those who do not."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[asyncio.Queue[Item | None]]] = {}

    def publish(self, user: str, item: Item) -> None:
        """Tell those who listen; one who does not keep up is let go."""
        for queue in list(self._listeners.get(user, ())):
            if queue.qsize() >= _WAITING:
                self._leave(user, queue)
                queue.put_nowait(None)
            else:
                queue.put_nowait(item)

    def close(self) -> None:
        """The server goes down: everybody is let go."""
        for user in list(self._listeners):
            for queue in list(self._listeners[user]):
                self._leave(user, queue)
                queue.put_nowait(None)

    async def listen(self, user: str, heartbeat: float) -> AsyncGenerator[Item | None, None]:
        """The user's news from now on; None when nothing happened for `heartbeat` seconds."""
        queue: asyncio.Queue[Item | None] = asyncio.Queue()
        self._listeners.setdefault(user, set()).add(queue)
        try:
            yield None
            while True:
                try:
                    async with asyncio.timeout(heartbeat):
                        item = await queue.get()
                except TimeoutError:
                    yield None
                    continue
                if item is None:
                    return
                yield item
        finally:
            self._leave(user, queue)

    def _leave(self, user: str, queue: "asyncio.Queue[Item | None]") -> None:
        listeners = self._listeners.get(user)
        if listeners is not None:
            listeners.discard(queue)
            if not listeners:
                del self._listeners[user]
