"""The connection of a conversation to its live model: one `run_live`, and what opens, closes and supervises it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from google.adk.events.event import Event

from adkwire.adk.held_calls import HOLDING_RUN, HoldingRun
from adkwire.adk.live_model import SUPERVISION, ConnectionObserver, ModelActivity, Supervision
from adkwire.adk.live_queue import LiveQueue
from adkwire.adk.runner import AgentRunner
from adkwire.adk.writer import WRITER, Writer, check_writer
from adkwire.live.calls import LiveCalls
from adkwire.live.listeners import Listeners
from adkwire.live.streamed_turn import ConversationTurns, StreamedTurn, TurnSignal
from adkwire.live.turn_router import RoutedTurn, TurnRouter
from adkwire.stores.base import ChatKey
from adkwire.tasks import end

logger = logging.getLogger("adkwire")

_SEND_TIMEOUT = 15.0
"""Seconds in which a working connection takes a request; then the connection is closed."""
_CHECK_INTERVAL = 1.0
"""Seconds between two checks whether the connection still takes requests."""


class Connection:
    """ADK's `run_live` in a task of its own."""

    def __init__(
        self,
        key: ChatKey,
        adk: AgentRunner,
        router: TurnRouter,
        *,
        holder: HoldingRun,
        watcher: ConnectionObserver,
        on_event: Callable[[Event], Awaitable[None]],
        on_end: "Callable[[Connection, Exception | None], None]",
    ) -> None:
        self.queue = LiveQueue()
        self.user_speaks = False
        """True between the start and the end of the user's speech."""
        self.has_audio = False
        """True once audio of the current speech has arrived."""
        self._writer = Writer()
        self._key = key
        self._adk = adk
        self._router = router
        self._holder = holder
        self._watcher = watcher
        self._on_event = on_event
        self._on_end = on_end
        self._task = asyncio.create_task(self._run(), name=f"adkwire-live-{key.chat}")
        self._next_check = asyncio.get_running_loop().call_later(_CHECK_INTERVAL, self._check)

    @property
    def is_open(self) -> bool:
        """True until the connection has ended."""
        return not self._task.done()

    def begin_speech(self) -> None:
        """Tell the model that the user begins to speak."""
        self.user_speaks, self.has_audio = True, False
        self.queue.send_activity_start()

    def end_speech(self) -> None:
        """Tell the model that the user has ended to speak."""
        if self.user_speaks:
            self.queue.send_activity_end()
        self.user_speaks = False

    def stop_speaking(self) -> None:
        """Make the model stop speaking: send a start and an end of speech without audio between them."""
        self.queue.send_activity_start()
        self.queue.send_activity_end()

    async def close(self) -> None:
        """End the connection, whatever it is doing. One that swallows the cancellation is abandoned and locked out."""
        self._stop_checking()
        if not await end(self._task):
            self._writer.lock_out()

    async def _run(self) -> None:
        WRITER.set(self._writer)
        HOLDING_RUN.set(self._holder)
        supervision = Supervision(self._watcher)
        SUPERVISION.set(supervision)
        error: Exception | None = None
        try:
            async with aclosing(self._adk.live(self._key, self.queue, self._router)) as events:
                async for event in events:
                    check_writer()
                    await self._on_event(event)
                    supervision.taken(event)
        except Exception as failure:
            error = failure
            logger.warning("the live model of chat %s: %s", self._key.chat, type(failure).__name__, exc_info=failure)
        self._stop_checking()
        self._on_end(self, error)

    def _check(self) -> None:
        """Cancel `run_live` if nothing takes from the queue: ADK's task that sends to the model may die silently."""
        if not self._task.cancelling():
            if self.queue.neglected() > _SEND_TIMEOUT and self.is_open:
                self._task.add_done_callback(self._report_no_requests_taken)
                self._task.cancel()
            self._next_check = asyncio.get_running_loop().call_later(_CHECK_INTERVAL, self._check)

    def _stop_checking(self) -> None:
        self._next_check.cancel()
        self._task.remove_done_callback(self._report_no_requests_taken)

    def _report_no_requests_taken(self, _: "asyncio.Task[None]") -> None:
        self._on_end(self, ConnectionError("the connection to the model takes no more requests"))


class ConnectionWatcher:
    """The `ConnectionObserver` of a conversation: it notifies the listeners when the connection is lost and found."""

    def __init__(self, listeners: Listeners, turns: ConversationTurns) -> None:
        self._listeners = listeners
        self._turns = turns

    def activity(self) -> ModelActivity:
        """Return what a lost connection would cut off, also in a turn without a run, whose speech has just begun."""
        turns = [self._turns.router.current, *(streamed.turn for streamed in self._turns.streamed.values())]
        under_way = [turn for turn in turns if turn is not None and not turn.is_all_stored]
        if not under_way:
            return ModelActivity.IDLE
        return ModelActivity.HELD if all(turn.calls for turn in under_way) else ModelActivity.ANSWERING

    def reconnecting(self) -> None:
        """Notify that ADK connects again. Speech of the model beside held calls is not continued."""
        for streamed in self._turns.streamed.values():
            streamed.put(TurnSignal.MUTE)
        self._listeners.notice("warning", "reconnecting", "The connection to the model was lost; trying again.")

    def reconnected(self) -> None:
        """Notify that the connection is back, and show again what the model says."""
        self._turns.router.unmute()
        self._listeners.notice("info", "reconnected", "The connection to the model is back.")

    def going_away(self) -> None:
        """Notify that the model ends the connection soon."""
        self._listeners.notice("info", "go-away", "The model ends this connection soon; another one is opened.")


class Connector:
    """Opens and closes the connections of a conversation, one at a time, each with a turn router of its own.

    `on_event` is called with every event, and `on_lost` when the current connection has ended by itself, with the error
    if there was one.
    """

    def __init__(
        self,
        key: ChatKey,
        adk: AgentRunner,
        turns: ConversationTurns,
        calls: LiveCalls,
        listeners: Listeners,
        *,
        on_event: Callable[[Event], Awaitable[None]],
        on_lost: Callable[[Exception | None], None],
    ) -> None:
        self.current: Connection | None = None
        """The last connection until it is closed or lost."""
        self._key = key
        self._adk = adk
        self._turns = turns
        self._calls = calls
        self._listeners = listeners
        self._on_event = on_event
        self._on_lost = on_lost

    @property
    def open(self) -> Connection | None:
        """The current connection, if it has not ended."""
        return self.current if self.current is not None and self.current.is_open else None

    @property
    def user_speaks(self) -> bool:
        """True between the start and the end of the user's speech."""
        return self.current is not None and self.current.user_speaks

    def connect(self, turn: RoutedTurn | None, calls: set[str] | None = None) -> Connection:
        """Open a connection that begins with `turn`, of which `calls` wait; the model reads the session first."""
        router = self._turns.router = TurnRouter(self._audio_of)
        if turn is not None:
            router.add(turn)
            router.adopt(turn, calls or set())
        self.current = Connection(
            self._key,
            self._adk,
            router,
            holder=self._calls,
            watcher=ConnectionWatcher(self._listeners, self._turns),
            on_event=self._on_event,
            on_end=self._ended,
        )
        return self.current

    def _audio_of(self, turn: RoutedTurn) -> dict[str, int] | None:
        """Return how much audio a turn had, for its stamp; None without any."""
        streamed = self._turns.streamed.get(turn.message)
        sound = streamed.sound if streamed is not None else None
        return {"chunks": sound.chunks, "ms": sound.ms} if sound is not None and sound.chunks else None

    async def disconnect(self, connection: Connection | None = None) -> None:
        """Close the current connection, or `connection`, which another one may have followed."""
        connection = connection or self.current
        if connection is self.current:
            self.current = None
        if connection is not None:
            await connection.close()
        self._calls.end_all_turns()

    async def stop_turn(self, streamed: StreamedTurn) -> None:
        """End the speech and the calls of a turn whose run is being stopped."""
        turn, connection = streamed.turn, self.open
        if turn.calls or not turn.has_spoken or connection is None:
            await self.disconnect()
        else:
            self._turns.router.cut(turn)
            self._turns.end_after_timeout(turn)
            if streamed.run.why == "stopped":
                connection.stop_speaking()

    def _ended(self, connection: Connection, error: Exception | None) -> None:
        if connection is not self.current:
            # It was closed on purpose, and failed while it was closed.
            return
        if error is not None:
            text = "The connection to the model was lost. Speak or write to go on."
            self._listeners.notice("error", "not-recovered", text)
        self.current = None
        self._on_lost(error)
