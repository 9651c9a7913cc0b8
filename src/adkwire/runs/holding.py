"""Holding: how a call of a live run waits for a person or a browser while the conversation goes on.

In a live run nothing pauses. The plugin is called in the background, so it can simply wait; what it waits for is
written into the session in ADK's own words all the same, so that a lost socket, a crash or a change of mode finds a
parked call and nothing else.
"""

import asyncio
import contextlib
import logging
from collections.abc import Generator
from contextvars import ContextVar
from typing import Any, Protocol

from google.adk.events.event import Event
from google.genai import types

from adkwire.errors import RequestError
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import OPEN, PendingCall, State
from adkwire.runs.gated import Place
from adkwire.runs.sessions import ChatKey

logger = logging.getLogger("adkwire")

_RETRY, _LONGEST_RETRY = 0.1, 5.0
"""Seconds until a store that was away is asked again."""


class Holder(Protocol):
    """The live run in which a call waits."""

    @property
    def key(self) -> ChatKey:
        """Whose chat."""
        ...

    def now(self) -> float:
        """The time of something that is shown and not stored."""
        ...

    def invocation(self, call: str) -> str | None:
        """The turn of a call, as an invocation of its own."""
        ...

    async def place(self, call: str) -> Place | None:
        """Where a call belongs to, once it was shown; None when nobody wants to know of it any more. Without an id,
        where things are now."""
        ...

    @property
    def can_ask_inside(self) -> bool:
        """Whether somebody could answer an agent inside a tool."""
        ...

    async def inside(self, call: types.FunctionCall, author: str, *, browser: bool) -> None:
        """Show a call of an agent inside a tool, which the session does not have."""
        ...

    async def done_inside(self, call: str, response: dict[str, Any]) -> None:
        """Show what came of it."""
        ...

    async def show(self, call: str, event: Event) -> None:
        """Store an event about a call and show it."""
        ...

    async def offer(self, call: str) -> None:
        """Let the browser have a call."""
        ...

    def shape(self, call: str, shape: dict[str, Any]) -> None:
        """Note what is to be stamped on the response of a call."""
        ...


HOLDER: ContextVar[Holder | None] = ContextVar("adkwire_live", default=None)
"""The live run that everything below is part of, also an agent inside a tool."""


class Holds:
    """Those who wait for calls to move at the gate."""

    def __init__(self, gate: ToolGate) -> None:
        self._gate = gate
        self._waiting: dict[tuple[ChatKey, str], asyncio.Event] = {}

    def changed(self, key: ChatKey, call: str) -> None:
        """A call has moved, here or on another worker."""
        event = self._waiting.get((key, call))
        if event is not None:
            event.set()

    async def moved(self, call: PendingCall) -> PendingCall:
        """Wait until somebody has answered: a question goes on to an answer or to the browser, an offer to an output.

        A record that is gone was taken back with its chat.
        """
        key = ChatKey(call.user, call.chat)
        with self._listening(key, call.call) as event:
            while True:
                event.clear()
                now = await self._now(key, call.call)
                if now is None:
                    return call.moved(State.VOID, outcome="stopped")
                if now.state not in OPEN or (call.state is State.ASKED and now.state is State.OFFERED):
                    return now
                await event.wait()

    async def _now(self, key: ChatKey, call: str) -> PendingCall | None:
        """What the gate has of a call, however long its store is away: nobody was told anything that would be wrong."""
        wait = _RETRY
        while True:
            try:
                return await self._gate.get(*key, call)
            except RequestError as error:
                logger.warning("held call %s could not be looked at: %s", call, error.message)
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_RETRY)

    @contextlib.contextmanager
    def _listening(self, key: ChatKey, call: str) -> Generator[asyncio.Event, None, None]:
        event = self._waiting.setdefault((key, call), asyncio.Event())
        try:
            yield event
        finally:
            self._waiting.pop((key, call), None)
