"""A live model that is watched: ADK reconnects by itself and says nothing of it, and people should be told.

A watched model is a copy whose class is a subclass made on the spot, as in `pacing.py`. It also mends two things: ADK
reconnects at once and without end, and forgets how to resume a conversation when a model says that just now it cannot.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, cast

from google.adk.models.base_llm import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse

M = TypeVar("M", bound=BaseLlm)

_FIRST_WAIT, _LONGEST_WAIT = 0.25, 8.0
_MOST, _WITHIN = 10, 120.0
"""How often a connection may be lost in how many seconds before it is given up."""


class Watcher(Protocol):
    """Whoever tells people about the connection to a model."""

    def reconnecting(self) -> None:
        """The connection was lost and is sought again."""
        ...

    def reconnected(self) -> None:
        """It is there again."""
        ...

    def going_away(self) -> None:
        """The model is about to end it; another one follows."""
        ...


class TooManyLostError(ConnectionError):
    """The connection to the model was lost again and again."""


class Supervision:
    """What is known of the connections of one live run. One that an agent opens for another is no loss."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.handle: str | None = None
        """The last one by which the conversation could be resumed."""
        self._lost = False
        self._times: deque[float] = deque(maxlen=_MOST)

    def lost(self) -> None:
        """The connection has ended, or is about to."""
        self._lost = True

    async def before(self) -> None:
        """A connection is about to be opened in the place of one that was lost: not too fast, and not for ever."""
        if not self._lost:
            return
        now = time.monotonic()
        if len(self._times) == _MOST and now - self._times[0] < _WITHIN:
            raise TooManyLostError("the connection to the model was lost again and again")
        self._times.append(now)
        recent = sum(now - at < _WITHIN for at in self._times)
        self.watcher.reconnecting()
        if recent > 1:
            # Full jitter, so that many conversations do not come back at the same moment.
            await asyncio.sleep(random.uniform(0, min(_LONGEST_WAIT, _FIRST_WAIT * 2**recent)))  # noqa: S311

    def opened(self) -> None:
        """It is open."""
        if self._lost:
            self._lost = False
            self.watcher.reconnected()

    def seen(self, response: LlmResponse) -> LlmResponse:
        """A response on its way to ADK."""
        if response.go_away is not None:
            self.lost()
            self.watcher.going_away()
        update = response.live_session_resumption_update
        if update is None:
            return response
        self.handle = update.new_handle or self.handle
        if update.new_handle or self.handle is None:
            return response
        kept = update.model_copy(update={"new_handle": self.handle})
        return response.model_copy(update={"live_session_resumption_update": kept})


SUPERVISION: ContextVar[Supervision | None] = ContextVar("adkwire_supervision", default=None)
"""Who supervises the live run that everything below is part of."""


def watched_model(model: M) -> M:
    """A copy of a model whose live connections are watched."""
    own = type(model)

    @asynccontextmanager
    async def connect(self: BaseLlm, llm_request: LlmRequest) -> AsyncGenerator[BaseLlmConnection, None]:
        supervision = SUPERVISION.get()
        opening = own.connect(cast("M", self), llm_request)
        if supervision is None:
            async with opening as connection:
                yield connection
            return
        await supervision.before()
        try:
            async with opening as connection:
                supervision.opened()
                cast("Any", connection).receive = _watched(connection, supervision)
                yield connection
        except Exception:
            supervision.lost()
            raise

    body = {"connect": connect, "__module__": own.__module__, "__doc__": own.__doc__}
    twin = model.model_copy()
    twin.__class__ = cast("type[M]", type(own.__name__, (own,), body))
    return twin


def _watched(connection: BaseLlmConnection, supervision: Supervision) -> Any:
    receive = connection.receive

    async def watched() -> AsyncGenerator[LlmResponse, None]:
        async with aclosing(receive()) as responses:
            async for response in responses:
                yield supervision.seen(response)

    return watched
