"""Supervised connections to a live model: ADK reconnects without a notice, and clients should get one.

When a connection is lost ADK opens another at once, again and again, and forgets the handle to resume by when the model
has none for the moment. Without a handle ADK sends the first message of the connection again, and the model answers it
twice. With one it resumes behind an answer that was cut off, and waits for the end of that answer for ever. So the
supervision decides what ADK gets to know:

| the model is  | by a handle | says that it goes away              | drops the connection                            |
|---------------|-------------|-------------------------------------|-------------------------------------------------|
| idle          | yes         | resumed now                         | resumed                                         |
| idle          | no          | kept from ADK until the drop comes  | lost: the next input begins with the history    |
| answering     | yes         | resumed when the next handle has it | lost: the answer fails, and is kept as it is    |
| answering     | no          | kept from ADK until the drop comes  | lost: the answer fails, and is kept as it is    |
| awaits calls  | yes         | resumed when it is silent           | resumed: their results go to the new connection |
| awaits calls  | no          | kept from ADK until the drop comes  | lost: calls that wait for somebody are parked   |

An answer is under way from the message to the model until the whole answer is stored. A model that waits for results of
calls may speak meanwhile: that text is kept as far as it came, and the turn fails unless one of its calls is pending.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from contextvars import ContextVar
from enum import Enum, auto
from typing import Any, Protocol, cast

from google.adk.models.base_llm import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import errors, types
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

_FIRST_WAIT, _LONGEST_WAIT = 0.25, 8.0
"""Seconds to wait before a lost connection is opened again: the base of the doubling, and the limit."""
_MAX_LOSSES, _LOSS_WINDOW = 10, 120.0
"""Lost connections, and the seconds within which so many of them end the conversation."""
_STORE_TIMEOUT = 5.0
"""Seconds to wait until ADK has stored what was received."""
_NORMAL_CLOSURE = 1000
_RESUMED_CODES = (_NORMAL_CLOSURE, 1006, 1011)
"""Close codes after which ADK resumes a connection."""


class ModelActivity(Enum):
    """What the model is doing: nothing, answering, or waiting for the results of its calls."""

    IDLE = auto()
    ANSWERING = auto()
    HELD = auto()


class ConnectionObserver(Protocol):
    """Learns what happens to the connection of a live run, and knows what the model is doing."""

    def activity(self) -> ModelActivity:
        """Return what the model is doing, and what a lost connection would cut off."""
        ...

    def reconnecting(self) -> None:
        """Note that the connection was lost and is being opened again."""
        ...

    def reconnected(self) -> None:
        """Note that the connection is open again."""
        ...

    def going_away(self) -> None:
        """Note that the model will end the connection soon, and another will follow."""
        ...


class TooManyLostError(ConnectionError):
    """The connection to the model was lost again and again."""


class ConnectionLostError(ConnectionError):
    """The connection to the model was lost, and nothing can go on by resuming it."""


class Supervision:
    """The state of the connections of one live run. A connection that is opened for another agent is no loss."""

    def __init__(self, observer: ConnectionObserver) -> None:
        self.observer = observer
        self.handle: str | None = None
        """The last handle by which the conversation can be resumed."""
        self.losses = 0
        """How many connections were lost and opened again: texts that had begun on earlier ones are over."""
        self._lost = False
        """True from the loss of a connection until another is open."""
        self._times: list[float] = []
        """When the last connections were lost."""
        self._go_away: LlmResponse | None = None
        """The model's go-away, while ADK must not resume yet."""
        self._speaking = False
        """True while the model is in the middle of a speech."""
        self._handle_is_current = False
        """True when the handle is newer than everything the model has said."""
        self._unstored_ends = 0
        """Number of ends of speeches that were received and that ADK has not stored."""
        self._caught_up = asyncio.Event()

    def lost(self) -> None:
        """Note that the connection has ended, or is about to."""
        self._lost = True

    async def before(self) -> None:
        """Wait before a lost connection is opened again; raise `TooManyLostError` when too many were lost."""
        if not self._lost:
            # Another agent's connection, or a new one: the last handle does not resume it.
            self.handle = None
            return
        now = time.monotonic()
        if len(self._times) == _MAX_LOSSES and now - self._times[0] < _LOSS_WINDOW:
            raise TooManyLostError("the connection to the model was lost again and again")
        self._times = [*self._times[1 - _MAX_LOSSES :], now]
        recent = sum(now - at < _LOSS_WINDOW for at in self._times)
        self.observer.reconnecting()
        if recent > 1:
            # Full jitter, so that many conversations do not come back at the same moment.
            await asyncio.sleep(random.uniform(0, min(_LONGEST_WAIT, _FIRST_WAIT * 2**recent)))  # noqa: S311

    def opened(self) -> None:
        """Note that a connection is open."""
        self._go_away, self._speaking = None, False
        if self._lost:
            self._lost = False
            self.losses += 1
            self.observer.reconnected()

    def seen(self, response: LlmResponse) -> LlmResponse:
        """Learn from a response on its way to ADK; return it as ADK is to see it."""
        if _ends_speech(response):
            self._speaking = False
            self._unstored_ends += 1
        elif response.content is not None or response.output_transcription is not None:
            self._speaking, self._handle_is_current = True, False
        if response.go_away is not None:
            self.observer.going_away()
            self._go_away = response
            return self.departure() or response.model_copy(update={"go_away": None})
        return self._with_handle(response)

    def taken(self, response: LlmResponse) -> None:
        """Note that ADK has stored what it made of a response."""
        if _ends_speech(response):
            self._unstored_ends = max(0, self._unstored_ends - 1)
            self._caught_up.set()

    def departure(self) -> LlmResponse | None:
        """Return the model's go-away if ADK may resume now, which it does at once."""
        go_away = self._go_away
        if go_away is None or self._speaking or not self._resumes():
            return None
        self._go_away = None
        self.lost()
        return go_away

    async def departure_after(self, response: LlmResponse) -> LlmResponse | None:
        """Return the go-away after a response that may end an answer, once a handle exists that includes the answer."""
        is_due = _ends_speech(response) or response.live_session_resumption_update is not None
        if self._go_away is None or not is_due or not self._handle_is_current:
            return None
        await self._catch_up()
        return self.departure()

    async def dropped(self, error: Exception) -> None:
        """Note that an error has ended the connection; raise `ConnectionLostError` when ADK must not resume."""
        if not _is_drop(error):
            return
        await self._catch_up()
        is_clean_end = _code(error) == _NORMAL_CLOSURE and self.observer.activity() is not ModelActivity.ANSWERING
        if not self._resumes() and not is_clean_end:
            raise ConnectionLostError("the connection to the model was lost") from error

    def _resumes(self) -> bool:
        return self.handle is not None and self.observer.activity() is not ModelActivity.ANSWERING

    async def _catch_up(self) -> None:
        """Wait until ADK has stored what was received: only then it is known whether an answer is under way."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_STORE_TIMEOUT):
                while self._unstored_ends > 0:
                    self._caught_up.clear()
                    await self._caught_up.wait()
        self._unstored_ends = 0

    def _with_handle(self, response: LlmResponse) -> LlmResponse:
        update = response.live_session_resumption_update
        if update is None:
            return response
        self.handle = update.new_handle or self.handle
        self._handle_is_current = bool(update.new_handle)
        if update.new_handle or self.handle is None:
            return response
        kept = update.model_copy(update={"new_handle": self.handle})
        return response.model_copy(update={"live_session_resumption_update": kept})


def _ends_speech(response: LlmResponse) -> bool:
    """Return whether the model stops speaking: its turn is over, or it waits for the result of a call."""
    return bool(response.turn_complete or response.get_function_calls())


def _is_drop(error: Exception) -> bool:
    return isinstance(error, ConnectionClosed) or _code(error) in _RESUMED_CODES


def _code(error: Exception) -> int | None:
    if isinstance(error, errors.APIError):
        return error.code
    return _NORMAL_CLOSURE if isinstance(error, ConnectionClosedOK) else None


SUPERVISION: ContextVar[Supervision | None] = ContextVar("adkwire_supervision", default=None)
"""The supervision of the live run that the current task is part of."""


def watched_connect(own: type[BaseLlm]) -> Callable[..., AbstractAsyncContextManager[BaseLlmConnection]]:
    """Return a `connect` for a copy of a model of class `own`: its live connections are supervised."""

    @asynccontextmanager
    async def connect(self: BaseLlm, llm_request: LlmRequest) -> AsyncGenerator[BaseLlmConnection, None]:
        supervision = SUPERVISION.get()
        opening = own.connect(self, llm_request)
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

    return connect


def _watched(connection: BaseLlmConnection, supervision: Supervision) -> Any:
    receive = connection.receive
    transcript = Transcript()

    async def watched() -> AsyncGenerator[LlmResponse, None]:
        async with aclosing(receive()) as responses:
            async for response in responses:
                for each in transcript.in_order(response):
                    yield supervision.seen(each)
                if (go_away := await supervision.departure_after(response)) is not None:
                    yield go_away

    return watched


class Transcript:
    """The transcript of the model's speech on one connection, finished where a call follows.

    ADK finishes it when the model has generated all. Gemini 3.x calls tools before that, and generates the rest when it
    has their responses: the text before a call would stay open for as long as the call is pending, and be stored behind
    the call.
    """

    def __init__(self) -> None:
        self._text = ""
        """Text that ADK has not finished yet."""
        self._finished = ""
        """The part of that text that was finished here."""

    def in_order(self, response: LlmResponse) -> Iterator[LlmResponse]:
        """Yield the response, behind a transcript that has to be finished first, and without text that was finished."""
        spoken = response.output_transcription
        if spoken is not None and spoken.finished:
            yield from self._finish(response, spoken)
            return
        if spoken is not None:
            self._text += spoken.text or ""
        elif response.get_function_calls() and (words := self._text.removeprefix(self._finished)):
            self._finished = self._text
            finished = types.Transcription(text=words, finished=True)
            yield LlmResponse(output_transcription=finished, partial=False, model_version=response.model_version)
        yield response

    def _finish(self, response: LlmResponse, spoken: types.Transcription) -> Iterator[LlmResponse]:
        finished, self._text, self._finished = self._finished, "", ""
        words = (spoken.text or "").removeprefix(finished)
        if not finished:
            yield response
        elif words:
            rest = spoken.model_copy(update={"text": words})
            yield response.model_copy(update={"output_transcription": rest})
