"""Chat events: notifications of changes in a user's chats, for pages (`/api/events`) and inside of a bridge."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from adkwire.gate.records import CallRecord

logger = logging.getLogger("adkwire")

_WAITING = 1000
"""Events that a listener may leave unread before it is disconnected; it comes back and loads the chats again."""

CallListener: TypeAlias = Callable[[CallRecord], None]


class ChatEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One change in a chat, as `/api/events` sends it."""

    type: Literal["run-started", "run-ended", "call-asked", "call-settled", "chat-updated"]
    chat: str
    run: str | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET
    state: str | UnsetType = UNSET


def call_event(call: CallRecord) -> ChatEvent:
    """Return the event for a call whose record at the gate has changed."""
    asked = call.answer is None and not call.outcome
    return ChatEvent(
        type="call-asked" if asked else "call-settled",
        chat=call.chat,
        tool_call_id=call.call,
        state=call.outcome or call.state,
    )


class ChatEvents:
    """Hands every event to all listeners of its user. Nothing is kept for a user without listeners."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[asyncio.Queue[ChatEvent | None]]] = {}

    def publish(self, user: str, item: ChatEvent) -> None:
        """Hand an event to the user's listeners; one that does not keep up is disconnected."""
        for queue in list(self._listeners.get(user, ())):
            if queue.qsize() >= _WAITING:
                self._leave(user, queue)
                queue.put_nowait(None)
            else:
                queue.put_nowait(item)

    def close(self) -> None:
        """Disconnect all listeners: the server goes down."""
        for user in list(self._listeners):
            for queue in list(self._listeners[user]):
                self._leave(user, queue)
                queue.put_nowait(None)

    async def listen(self, user: str, heartbeat: float) -> AsyncGenerator[ChatEvent | None, None]:
        """Yield the user's events from now on; None when nothing happened for `heartbeat` seconds."""
        queue: asyncio.Queue[ChatEvent | None] = asyncio.Queue()
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

    def _leave(self, user: str, queue: "asyncio.Queue[ChatEvent | None]") -> None:
        listeners = self._listeners.get(user)
        if listeners is not None:
            listeners.discard(queue)
            if not listeners:
                del self._listeners[user]


class CallListeners:
    """Passes a changed call on to each listener. An exception of one is logged and does not affect the others."""

    def __init__(self) -> None:
        self._listeners: list[CallListener] = []

    def add(self, *listeners: CallListener) -> None:
        """Add listeners, which are called in the order in which they were added."""
        self._listeners += listeners

    def __call__(self, call: CallRecord) -> None:
        """Pass a call that was asked, answered or ended on to all listeners."""
        for listener in self._listeners:
            try:
                listener(call)
            except Exception:
                logger.exception("a listener failed for call %s in chat %s", call.call, call.chat)
