"""One chat's conversation with a live model.

Each turn is a `Run` like any other, with an encoder, a stream log and an end of its own; but its events come out of one
long `run_live`, and `TurnRouter` finds the turn of each. The connection to the model is opened when there is something
to send, and closed when a turn must be stopped in the middle of a call; the next connection begins with the session's
history. So the session is the only truth here, too.

Audio is handed to the listeners, counted, and never stored.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from typing import Any

from google.adk.events.event import Event
from google.genai import types

from adkwire.adk.events import is_released, user_message_event
from adkwire.adk.runner import content_of
from adkwire.adk.stamps import add_stamp
from adkwire.errors import RequestError
from adkwire.gate.records import OPEN, CallRecord
from adkwire.live.calls import LiveCalls
from adkwire.live.connection import Connector
from adkwire.live.listeners import Listener, Listeners
from adkwire.live.streamed_turn import ConversationTurns, StreamedTurn, TurnSignal
from adkwire.live.turn_router import RoutedTurn, calls_in, responses_in, says
from adkwire.live.turn_streamer import TurnStreamer
from adkwire.live.user_input import UserInput
from adkwire.runs.chat_events import ChatEvent
from adkwire.runs.chats import Chat
from adkwire.runs.ownership import Ownership
from adkwire.runs.run import Run, new_id, stop_all
from adkwire.runs.sealing import Sealing
from adkwire.runs.services import RunServices
from adkwire.runs.views import title_for
from adkwire.stores.base import ChatKey
from adkwire.tasks import Tasks
from adkwire.wire.decode.decoder import UserMessage
from adkwire.wire.encode.encoder import Encoder

logger = logging.getLogger("adkwire")

_LISTENING = "I am listening."


class Conversation:
    """The live conversation of one chat, from the first listener until some time after the last has left.

    Take the chat (`ownership.owned`) before the lock, never after it. Never await a run under the lock, except to park.
    """

    def __init__(
        self,
        key: ChatKey,
        services: RunServices,
        ownership: Ownership,
        sealing: Sealing,
        on_parked: "Callable[[Conversation], None]",
    ) -> None:
        self.key = key
        self.listeners = Listeners()
        self._on_parked = on_parked
        self._services = services
        self._ownership = ownership
        self._sealing = sealing
        self._tasks = Tasks()
        self._turns = ConversationTurns(self._tasks)
        self._calls = LiveCalls(key, services.runner, self._turns, self.listeners)
        self._connector = Connector(
            key, services.runner, self._turns, self._calls, self.listeners, on_event=self._take, on_lost=self._end_turns
        )
        self.streamer = TurnStreamer(key, services, self._turns, self._calls, self.listeners, self._connector)
        self._lock = asyncio.Lock()
        self.user = UserInput(
            self._connector, self._turns, self.listeners, self._tasks, self._lock, self._connect_for_speech
        )
        self._untitled = False
        """True until the chat, which began with speech, has a title."""
        self._is_parked = False
        """True once the conversation is parked: nothing more is sent to the model."""

    @property
    def attached(self) -> bool:
        """True while a listener is connected."""
        return bool(self.listeners.all)

    @property
    def is_speaking(self) -> bool:
        """True while the model is producing an answer and not all its calls are pending."""
        run = self.running()
        return run is not None and not run.encoder.is_waiting

    def running(self) -> Run | None:
        """Return the run of the turn that is being streamed."""
        return next((streamed.run for streamed in self._turns.streamed.values() if streamed.run.active), None)

    def leave(self, listener: Listener) -> None:
        """Remove a listener, which may have the microphone."""
        if listener in self.listeners.all:
            self.listeners.all.remove(listener)
        self.user.leave(listener)

    def writes(self, message: str) -> bool:
        """Return True if a turn of this conversation writes the message."""
        return message in self._turns.streamed

    # The two sources of events of a run, in place of ADK's `run_async`.

    async def turn(
        self, key: ChatKey, message: UserMessage, stamp: dict[str, Any], abort: asyncio.Event
    ) -> AsyncGenerator[Event, None]:
        """Send a typed message to the model and yield the events of its turn."""
        turn = RoutedTurn(stamp["message"], stamp["user"], "typed")
        with ExitStack() as streaming:
            async with self._lock:
                source = self._services.runner.turn(key, message, stamp, abort)
                # Under the lock, not before: `park` holds it and awaits the runs of all that is streamed.
                if not self._is_parked:
                    source = self.streamer.events(
                        streaming.enter_context(self._streaming(self._streamed_turn(turn))), abort
                    )
                    yield Event(author=self._services.runner.agent_name, invocation_id=turn.invocation)
                    await self._send(turn, content_of(message), stamp)
            async with aclosing(source) as events:
                async for event in events:
                    yield event

    async def _send(self, turn: RoutedTurn, content: types.Content, stamp: dict[str, Any]) -> None:
        """Send content to the model: on the open connection, or in the history that a new one begins with."""
        connection = self._connector.open
        if connection is not None:
            self._turns.router.add(turn)
        await self._services.runner.append(self.key, [user_message_event(content, turn.invocation, stamp)])
        turn.began = True
        if connection is not None and connection is self._connector.open:
            connection.queue.send_content(content)
        else:
            self._connector.connect(turn)
        self.listeners.set_state("thinking")

    async def go_on(
        self,
        key: ChatKey,
        calls: Sequence[CallRecord],
        with_verdict: Collection[str],
        stamp: dict[str, Any],
        abort: asyncio.Event,
    ) -> AsyncGenerator[Event, None]:
        """Bring the answers to parked calls to the agent and yield the events that follow."""
        turn = RoutedTurn(stamp["message"], stamp["user"], "typed", invocation=calls[0].invocation, began=True)
        with ExitStack() as streaming:
            async with self._lock:
                source = self._services.runner.go_on(key, calls, with_verdict, stamp, abort)
                if not self._is_parked:
                    source = self.streamer.events(
                        streaming.enter_context(self._streaming(self._streamed_turn(turn))), abort
                    )
                    await self._connector.disconnect()
                    for event in await self._services.runner.hand_over(key, calls, with_verdict, stamp):
                        yield event
                    self._connector.connect(turn, {call.call for call in calls if not is_released(call)})
                    self.listeners.set_state("thinking")
            async with aclosing(source) as events:
                async for event in events:
                    yield event

    @contextmanager
    def _streaming(self, streamed: StreamedTurn) -> Generator[StreamedTurn, None, None]:
        """Register a turn while its run streams it. However that ends, nothing more of the turn is shown."""
        turn = streamed.turn
        turn.streamed = turn.began = True
        self._turns.streamed[turn.message] = streamed
        try:
            yield streamed
        finally:
            self._turns.streamed.pop(turn.message, None)
            self._calls.end_turn(turn)
            if not self._is_parked and not turn.is_all_stored and not turn.cut:
                self._turns.router.cut(turn)
                if turn.calls:
                    closed = self._connector.disconnect(self._connector.current)
                    self._tasks.start(closed, f"live-cut-{self.key.chat}")
                else:
                    self._turns.end_after_timeout(turn)
            if not self._turns.streamed and not self._connector.user_speaks:
                self.listeners.set_state("listening")

    def announce(self, run: Run) -> None:
        """Notify all listeners that a message continues whose calls were answered."""
        self.listeners.turn(run, "server")

    # The connection to the model.

    async def _connect_for_speech(self) -> None:
        """Open a connection without a message. Like typing, speech supersedes running answers and pending calls."""
        async with self._ownership.owned(self.key) as chat:
            await stop_all(chat.active, "superseded")
            async with self._lock:
                if not self._is_parked and self._connector.open is None:
                    await self._prepare(chat)
                    self._connector.connect(None)

    def _end_turns(self, error: Exception | None) -> None:
        """Let the current turns fail or be parked: the connection has ended by itself. The next turn opens another."""
        for streamed in list(self._turns.streamed.values()):
            streamed.put(error or TurnSignal.OVER)
            self._tasks.start(self.streamer.park(streamed), f"live-lost-{self.key.chat}")
        self.listeners.set_state("listening")

    async def _prepare(self, chat: Chat) -> None:
        """Make the session ready for speech: it exists, no call is unanswered, and it does not end with a message of
        the user, which the model would answer."""
        adk = self._services.runner
        await self._sealing.seal(self.key, chat, "superseded")
        session = await adk.load(self.key)
        if session is None:
            await adk.create(self.key, title="", created=self._services.clock())
            self._untitled = True
            return
        last = next((event for event in reversed(session.events) if _is_spoken_or_written(event)), None)
        if last is not None and (last.content.role if last.content is not None else last.author) == "user":
            content = types.Content(role="model", parts=[types.Part(text=_LISTENING)])
            aside = add_stamp(None, {"aside": True})
            await adk.append(self.key, [Event(author=adk.agent_name, content=content, custom_metadata=aside)])

    async def _take(self, event: Event) -> None:
        """Give an event of `run_live` to the run of its turn, and its sound and transcript to the listeners."""
        turn = self._turns.router.route_shown(event)
        if turn is None:
            return
        streamed = self._turns.streamed.get(turn.message)
        if streamed is None and (says(event) or event.input_transcription is not None):
            streamed = await self._begin(turn)
        if event.input_transcription is not None:
            # The transcript of speech may come when the answer has ended.
            self.listeners.transcribe(turn, event)
            await self._set_title(turn)
        if streamed is None:
            return
        rest = self.listeners.play(streamed, event)
        if rest is not None:
            if _is_picture(rest):
                rest.custom_metadata = add_stamp(rest.custom_metadata, turn.stamp)
                rest.invocation_id, rest.partial = turn.invocation, None
                await self._services.runner.append(self.key, [rest])
            streamed.put(rest)
        if says(event):
            self.listeners.set_state("thinking" if calls_in(event) else "speaking")
        if self._turns.router.note_shown(turn, event):
            self.listeners.end_sound(streamed)
            streamed.put(TurnSignal.OVER)
        elif not turn.calls and (event.turn_complete or (turn.user_spoke_meanwhile and responses_in(event))):
            self._turns.end_after_timeout(turn)

    async def _begin(self, turn: RoutedTurn) -> StreamedTurn | None:
        """Begin the run of a turn that was not typed; return None if it cannot or must not begin."""
        if turn.is_all_shown or turn.cut or turn.streamed:
            return None
        message = UserMessage(turn.user_message_id, ())
        run = Run(
            new_id("run"),
            self.key,
            message,
            Encoder(turn.message, explain=self._services.explain),
            invocation=turn.invocation,
            author=self._services.runner.agent_name,
        )
        run.stamp = turn.stamp
        streamed = StreamedTurn(turn, run)
        try:
            async with self._ownership.owned(self.key) as chat:
                await self._sealing.seal(self.key, chat, "superseded")
                await self._ownership.begin(run, chat, lambda abort: self._events(streamed, abort))
                # Not before the run has begun: `park` awaits the runs of all that is streamed.
                self._turns.streamed[turn.message] = streamed
        except RequestError as error:
            logger.warning("a spoken turn in chat %s cannot begin: %s", self.key.chat, error.message)
            self._turns.router.cut(turn)
            self.listeners.notice("error", error.code, error.message)
            return None
        self.listeners.turn(run, turn.origin)
        return streamed

    async def _events(self, streamed: StreamedTurn, abort: asyncio.Event) -> AsyncGenerator[Event, None]:
        """Yield the events of a turn that was not typed."""
        with self._streaming(streamed):
            async with aclosing(self.streamer.events(streamed, abort)) as events:
                async for event in events:
                    yield event

    def _streamed_turn(self, turn: RoutedTurn) -> StreamedTurn:
        """Return a turn with the run that writes its message."""
        chat = self._services.chats.get(self.key)
        run = chat.run_of_message(turn.message) if chat is not None else None
        if run is None:
            raise RuntimeError("a turn has no run that writes its message")
        return StreamedTurn(turn, run)

    async def _set_title(self, turn: RoutedTurn) -> None:
        """Make the first sentence the title of a chat that began with speech."""
        if self._untitled and turn.transcripts:
            self._untitled = False
            await self._services.runner.rename(self.key, title_for(UserMessage("", (turn.transcripts[0],))))
            self._services.events.publish(self.key.user, ChatEvent(type="chat-updated", chat=self.key.chat))

    # The end.

    async def park(self) -> None:
        """End the conversation. Its held calls are parked and can be answered in any mode."""
        async with self._lock:
            self._is_parked = True
            await self._connector.disconnect()
            streamed = list(self._turns.streamed.values())
            for each in streamed:
                each.put(TurnSignal.OVER)
            for each in streamed:
                await self.streamer.park(each)
            await self.streamer.attempt(self._extend_deadlines())
            await self._tasks.close()
        self._on_parked(self)

    async def _extend_deadlines(self) -> None:
        """Give the pending calls the time to live of parked calls."""
        for call in await self._services.gate.not_started(*self.key):
            if call.live and call.state in OPEN:
                await self._services.gate.park(call)


def _is_spoken_or_written(event: Event) -> bool:
    return any(part is not None for part in (event.content, event.input_transcription, event.output_transcription))


def _is_picture(event: Event) -> bool:
    parts = (event.content.parts if event.content is not None else None) or ()
    return event.author != "user" and any(part.inline_data is not None for part in parts)
