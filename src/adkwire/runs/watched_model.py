"""A live model that is watched: ADK reconnects by itself and says nothing of it, and people should be told.

A watched model is a copy whose class is a subclass made on the spot, as in `pacing.py`. It also mends what ADK does
when a connection is lost. It opens another at once and without end, and forgets the handle to resume by when a model
says that just now there is none. Without a handle it repeats what was said when the first connection began, and the
model does it once more. With one it goes on behind an answer that was lost half-way, and waits for its end for ever.

| the model is  | by a handle | says that it goes away              | drops the connection                            |
|---------------|-------------|-------------------------------------|-------------------------------------------------|
| idle          | yes         | resumed now                         | resumed                                         |
| idle          | no          | ADK is not told, and the drop comes | lost: what is said next begins with the history |
| answering     | yes         | resumed when the next handle has it | lost: the answer fails, and is kept as it is    |
| answering     | no          | ADK is not told, and the drop comes | lost: the answer fails, and is kept as it is    |
| held by calls | yes         | resumed when it is silent           | resumed: their results go to the new connection |
| held by calls | no          | ADK is not told, and the drop comes | lost: calls that wait for somebody are parked   |

An answer is under way from when something is said to the model until all that it says to that is stored. While it
is held by calls a model may speak: that is kept as far as it came, and without a call that waits for somebody its turn
fails.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from contextvars import ContextVar
from enum import Enum, auto
from typing import Any, Protocol, TypeVar, cast

from google.adk.models.base_llm import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import errors
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

from adkwire.runs.transcripts import Transcript

M = TypeVar("M", bound=BaseLlm)

_FIRST_WAIT, _LONGEST_WAIT = 0.25, 8.0
_MOST, _WITHIN = 10, 120.0
"""How often a connection may be lost in how many seconds before it is given up."""
_CATCHING_UP = 5.0
"""Seconds for what was received to be stored."""
_CLEAN = 1000
_DROPS = (_CLEAN, 1006, 1011)
"""Codes with which a connection ends that ADK resumes."""


class Doing(Enum):
    """What a connection is in the middle of: nothing, an answer, or calls of which the model awaits the results."""

    IDLE = auto()
    ANSWERING = auto()
    HELD = auto()


class Watcher(Protocol):
    """Whoever tells people about the connection to a model, and knows what it is used for."""

    def doing(self) -> Doing:
        """What would be lost with the connection."""
        ...

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


class ConnectionLostError(ConnectionError):
    """The connection to the model was lost, and nothing can go on by resuming it."""


class Supervision:
    """What is known of the connections of one live run. One that an agent opens for another is no loss."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.handle: str | None = None
        """The last one by which the conversation could be resumed."""
        self.losses = 0
        """How many connections were lost and found again: what was being said on those before is over."""
        self._lost = False
        self._times: list[float] = []
        self._away: LlmResponse | None = None
        """That the model goes away, as long as ADK is not to know."""
        self._speaking = False
        self._is_fresh = False
        """Whether the handle came after all that was said."""
        self._ahead = 0
        self._caught_up = asyncio.Event()

    def lost(self) -> None:
        """The connection has ended, or is about to."""
        self._lost = True

    async def before(self) -> None:
        """A connection is about to be opened in the place of one that was lost: not too fast, and not for ever."""
        if not self._lost:
            # Another agent's, or another beginning: what the last one could be resumed by is not for this one.
            self.handle = None
            return
        now = time.monotonic()
        if len(self._times) == _MOST and now - self._times[0] < _WITHIN:
            raise TooManyLostError("the connection to the model was lost again and again")
        self._times = [*self._times[1 - _MOST :], now]
        recent = sum(now - at < _WITHIN for at in self._times)
        self.watcher.reconnecting()
        if recent > 1:
            # Full jitter, so that many conversations do not come back at the same moment.
            await asyncio.sleep(random.uniform(0, min(_LONGEST_WAIT, _FIRST_WAIT * 2**recent)))  # noqa: S311

    def opened(self) -> None:
        """It is open."""
        self._away, self._speaking = None, False
        if self._lost:
            self._lost = False
            self.losses += 1
            self.watcher.reconnected()

    def seen(self, response: LlmResponse) -> LlmResponse:
        """A response on its way to ADK."""
        if _ends_speech(response):
            self._speaking = False
            self._ahead += 1
        elif response.content is not None or response.output_transcription is not None:
            self._speaking, self._is_fresh = True, False
        if response.go_away is not None:
            self.watcher.going_away()
            self._away = response
            return self.departure() or response.model_copy(update={"go_away": None})
        return self._with_handle(response)

    def taken(self, response: LlmResponse) -> None:
        """What ADK made of a response was stored and dealt with."""
        if _ends_speech(response):
            self._ahead = max(0, self._ahead - 1)
            self._caught_up.set()

    def departure(self) -> LlmResponse | None:
        """That the model goes away, if ADK may know by now; it then resumes at once."""
        away = self._away
        if away is None or self._speaking or not self._resumes():
            return None
        self._away = None
        self.lost()
        return away

    async def departure_after(self, response: LlmResponse) -> LlmResponse | None:
        """The same, when a response was handed on with which an answer may be over, and a handle there that has it."""
        is_due = _ends_speech(response) or response.live_session_resumption_update is not None
        if self._away is None or not is_due or not self._is_fresh:
            return None
        await self._catch_up()
        return self.departure()

    async def dropped(self, error: Exception) -> None:
        """The connection was lost by an error; raises another when ADK must not resume."""
        if not _is_drop(error):
            return
        await self._catch_up()
        is_clean_end = _code(error) == _CLEAN and self.watcher.doing() is not Doing.ANSWERING
        if not self._resumes() and not is_clean_end:
            raise ConnectionLostError("the connection to the model was lost") from error

    def _resumes(self) -> bool:
        return self.handle is not None and self.watcher.doing() is not Doing.ANSWERING

    async def _catch_up(self) -> None:
        """ADK stores what was received a little later. Only then it is known what is still under way."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CATCHING_UP):
                while self._ahead > 0:
                    self._caught_up.clear()
                    await self._caught_up.wait()
        self._ahead = 0

    def _with_handle(self, response: LlmResponse) -> LlmResponse:
        update = response.live_session_resumption_update
        if update is None:
            return response
        self.handle = update.new_handle or self.handle
        self._is_fresh = bool(update.new_handle)
        if update.new_handle or self.handle is None:
            return response
        kept = update.model_copy(update={"new_handle": self.handle})
        return response.model_copy(update={"live_session_resumption_update": kept})


def _ends_speech(response: LlmResponse) -> bool:
    """Whether the model stops speaking: its turn is over, or it waits for what comes of a call."""
    return bool(response.turn_complete or response.get_function_calls())


def _is_drop(error: Exception) -> bool:
    return isinstance(error, ConnectionClosed) or _code(error) in _DROPS


def _code(error: Exception) -> int | None:
    if isinstance(error, errors.APIError):
        return error.code
    return _CLEAN if isinstance(error, ConnectionClosedOK) else None


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
                try:
                    yield connection
                except Exception as error:
                    await supervision.dropped(error)
                    raise
        except Exception:
            supervision.lost()
            raise

    body = {"connect": connect, "__module__": own.__module__, "__doc__": own.__doc__}
    twin = model.model_copy()
    twin.__class__ = cast("type[M]", type(own.__name__, (own,), body))
    return twin


def _watched(connection: BaseLlmConnection, supervision: Supervision) -> Any:
    receive = connection.receive
    transcript = Transcript()

    async def watched() -> AsyncGenerator[LlmResponse, None]:
        async with aclosing(receive()) as responses:
            async for response in responses:
                for each in transcript.in_order(response):
                    yield supervision.seen(each)
                if (away := await supervision.departure_after(response)) is not None:
                    yield away

    return watched
