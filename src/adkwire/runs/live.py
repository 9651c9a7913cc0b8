"""LiveRun: one chat's conversation with a live model.

Every turn of it is a `Run` like any other, with an encoder, a stream log and an end of its own; what differs is that
its events come out of one long `run_live`, from which `LiveTurns` deals them out. The connection to the model is opened
when there is something to say and closed when a turn has to be broken off in the middle of a call; the next one then
begins with the history. So the session is the only truth here, too.

Sound passes by: it is handed to those who listen, counted, and never stored.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing, contextmanager
from typing import Any

from google.adk.events.event import Event
from google.genai import types

from adkwire.errors import RequestError
from adkwire.gate.records import OPEN, PendingCall
from adkwire.runs.adk import content_of
from adkwire.runs.audience import Audience, Listener
from adkwire.runs.carried import Carried, Floor, Sign
from adkwire.runs.chats import Chat
from adkwire.runs.history import marked
from adkwire.runs.ids import new_id
from adkwire.runs.keeper import Keeper
from adkwire.runs.live_calls import LiveCalls
from adkwire.runs.live_connection import Connection
from adkwire.runs.live_turns import LiveTurn, LiveTurns, calls_in, responses_in, says
from adkwire.runs.news import Item
from adkwire.runs.own_events import is_released, question_event
from adkwire.runs.run import Run
from adkwire.runs.sessions import ChatKey
from adkwire.runs.showing import Showing
from adkwire.runs.views import title_for
from adkwire.runs.watching import Watch
from adkwire.wire.decoder import UserMessage
from adkwire.wire.encoder import Encoder

logger = logging.getLogger("adkwire")

_CUT_PATIENCE = 5.0
"""Seconds for a model to say that it has heard that nobody listens."""
_EMPTY_PATIENCE = 5.0
"""Seconds after which an answer in which nothing is said is over."""
_NOISE_PATIENCE = 10.0
"""Seconds after which nobody expects an answer any more to what was a noise."""
_LISTENING = "I am listening."


class LiveRun:
    """The live side of one chat, as long as somebody is there or may come back.

    Whoever needs both takes the chat (`keeper.owned`) before the lock. Who has the lock waits for no run, but to park.
    """

    def __init__(self, key: ChatKey, keeper: Keeper, parked: "Callable[[LiveRun], None]") -> None:
        self.key = key
        self.audience = Audience()
        self._parked = parked
        self._keeper = keeper
        self._floor = Floor()
        self._calls = LiveCalls(key, keeper.adk, self._floor, self.audience)
        self._connection: Connection | None = None
        self._speaking = False
        self._sound = False
        """Whether there was sound of who speaks."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()
        self._showing = Showing(key, keeper, self._floor, self._calls, self.audience, self._silence)
        self._untitled = False
        self._over = False
        """Whether it was parked: then nothing more is said to it."""

    @property
    def attached(self) -> bool:
        """Whether somebody listens."""
        return bool(self.audience.listeners)

    @property
    def _open(self) -> Connection | None:
        """The connection to the model, if there is one."""
        return self._connection if self._connection is not None and self._connection.is_open else None

    @property
    def is_speaking(self) -> bool:
        """Whether an answer is being given, and not held up by somebody."""
        run = self.running()
        return run is not None and not run.encoder.is_held

    def running(self) -> Run | None:
        """The run of the turn that is being shown."""
        return next((carried.run for carried in self._floor.carried.values() if carried.run.active), None)

    def carries(self, message: str) -> bool:
        """Whether this conversation writes a message."""
        return message in self._floor.carried

    # What drives a run, in place of ADK's `run_async`.

    async def turn(
        self, key: ChatKey, message: UserMessage, mark: dict[str, Any], abort: asyncio.Event
    ) -> AsyncGenerator[Event, None]:
        """Say a typed message to the model and yield what comes of it."""
        turn = LiveTurn(mark["message"], mark["user"], "typed")
        with ExitStack() as shown:
            async with self._lock:
                source = self._keeper.adk.turn(key, message, mark, abort)
                # Carried by now, not before: whoever parks has the lock, and waits for all that is carried.
                if not self._over:
                    source = self._showing.events(shown.enter_context(self._carrying(self._carry(turn))), abort)
                    yield Event(author=self._keeper.adk.agent_name, invocation_id=turn.invocation)
                    await self._say(turn, content_of(message), mark)
            async with aclosing(source) as events:
                async for event in events:
                    yield event

    async def _say(self, turn: LiveTurn, content: types.Content, mark: dict[str, Any]) -> None:
        """Say something to the model: on the connection there is, or in the history that a new one begins with."""
        connection = self._open
        if connection is not None:
            self._floor.turns.add(turn)
        await self._keeper.adk.append(self.key, [question_event(content, turn.invocation, mark)])
        turn.began = True
        if connection is not None and connection is self._open:
            connection.queue.send_content(content)
        else:
            self._connect(turn)
        self.audience.enter("thinking")

    async def go_on(
        self,
        key: ChatKey,
        calls: Sequence[PendingCall],
        told: Collection[str],
        mark: dict[str, Any],
        abort: asyncio.Event,
    ) -> AsyncGenerator[Event, None]:
        """Give the agent the answers to parked calls and yield what it does with them."""
        turn = LiveTurn(mark["message"], mark["user"], "typed", invocation=calls[0].invocation, began=True)
        with ExitStack() as shown:
            async with self._lock:
                source = self._keeper.adk.go_on(key, calls, told, mark, abort)
                if not self._over:
                    source = self._showing.events(shown.enter_context(self._carrying(self._carry(turn))), abort)
                    await self._disconnect()
                    for event in await self._keeper.adk.hand_over(key, calls, told, mark):
                        yield event
                    self._connect(turn, {call.call for call in calls if not is_released(call)})
                    self.audience.enter("thinking")
            async with aclosing(source) as events:
                async for event in events:
                    yield event

    @contextmanager
    def _carrying(self, carried: Carried) -> Generator[Carried, None, None]:
        """While a run shows a turn. However that ends, nothing more of the turn is shown."""
        turn = carried.turn
        turn.carried = turn.began = True
        self._floor.carried[turn.message] = carried
        try:
            yield carried
        finally:
            self._floor.carried.pop(turn.message, None)
            if not self._over and not turn.over and not turn.cut:
                self._floor.turns.cut(turn)
                ends = self._disconnect(self._connection) if turn.calls else self._give_up(turn)
                self._spawn(ends, "cut")
            if not self._floor.carried and not self._speaking:
                self.audience.enter("listening")

    def begun(self, run: Run) -> None:
        """A message goes on that somebody has answered the calls of: all are told."""
        self.audience.turn(run, "server")

    async def _silence(self, carried: Carried) -> None:
        turn = carried.turn
        connection = self._open
        if turn.calls or not turn.said or connection is None:
            await self._disconnect()
        else:
            self._floor.turns.cut(turn)
            self._hurry(turn)
            if carried.run.why == "stopped":
                connection.hush()

    def answering(self, listener: Listener) -> AbstractContextManager[None]:
        """While answers are taken that belong together."""
        return self._showing.answering(listener)

    # What the user does.

    async def activity(self, *, start: bool) -> None:
        """The user begins to speak, which ends what is being said, or has spoken."""
        if not start:
            if self._speaking and self._sound:
                self.audience.enter("thinking")
                self._spawn(self._listen_again(), "heard-nothing")
            self.unplug()
            return
        await self.interrupt(by_speech=True)
        if self._open is None:
            async with self._keeper.owned(self.key) as chat:
                await self._open_for_speech(chat)
        if (connection := self._open) is not None:
            # Somebody else may be speaking, who is not heard any more.
            self.unplug()
            self._floor.turns.utter()
            self._speaking, self._sound = True, False
            connection.queue.send_activity_start()
            self.audience.enter("listening")

    async def _listen_again(self) -> None:
        """A model that has understood nothing says nothing."""
        await asyncio.sleep(_NOISE_PATIENCE)
        if self.audience.state == "thinking" and not self._floor.carried and not self._speaking:
            self.audience.enter("listening")

    async def _open_for_speech(self, chat: Chat) -> None:
        """Speaking is going on without what is being written, and without what waits, as typing is."""
        for run in chat.active:
            run.abort("superseded")
        for run in chat.active:
            await run.stop()
        async with self._lock:
            if not self._over and self._open is None:
                await self._prepare(chat)
                self._connect(None)

    def hear(self, pcm: bytes) -> bool:
        """A piece of the microphone's sound, 16 kHz; only of one who has begun to speak."""
        if not self._speaking or self._connection is None:
            return False
        self._connection.queue.send_sound(pcm)
        self._sound = True
        return True

    def unplug(self) -> None:
        """Who was speaking is gone."""
        if self._speaking and self._connection is not None:
            self._connection.queue.send_activity_end()
        self._speaking = False

    def see(self, data: bytes, media_type: str) -> bool:
        """A picture of the camera or the screen; only a conversation that goes on looks at it."""
        connection = self._open
        if connection is not None:
            connection.queue.send_realtime(types.Blob(data=data, mime_type=media_type))
        return connection is not None

    async def interrupt(self, *, by_speech: bool = False) -> None:
        """End what is being said. What waits for somebody goes on waiting."""
        carried = self._floor.current
        if carried is None or carried.turn.over:
            self.audience.interrupt_rest()
            return
        if not carried.run.active or (by_speech and not carried.turn.said):
            return
        if carried.turn.calls:
            if self._floor.turns.hush(carried.turn):
                self.audience.interrupt(carried)
                await carried.show(Sign.HUSH)
                self._hush(by_speech=by_speech)
        else:
            self.audience.interrupt(carried)
            if carried.turn.said and self._open is not None:
                self._floor.turns.cut(carried.turn)
                self._hurry(carried.turn)
            else:
                async with self._lock:
                    await self._disconnect()
            carried.put(Sign.INTERRUPTED)
            await carried.run.done.wait()
            self._hush(by_speech=by_speech)

    def _hush(self, *, by_speech: bool) -> None:
        """Tell the model that nobody listens; who speaks tells it so."""
        if not by_speech and (connection := self._open) is not None:
            connection.hush()

    # The connection to the model.

    def _connect(self, turn: LiveTurn | None, calls: set[str] | None = None) -> Connection:
        """Begin a connection; what the model has to know it reads in the session."""
        turns = self._floor.turns = LiveTurns(self._sounded)
        if turn is not None:
            turns.add(turn)
            turns.adopt(turn, calls or set())
        self._connection = Connection(
            self.key,
            self._keeper.adk,
            turns,
            holder=self._calls,
            watcher=Watch(self.audience, self._floor),
            take=self._take,
            lost=self._lost,
        )
        return self._connection

    def _sounded(self, turn: LiveTurn) -> dict[str, int] | None:
        carried = self._floor.carried.get(turn.message)
        speeches = carried.speeches if carried is not None else None
        return {"chunks": speeches.chunks, "ms": speeches.ms} if speeches is not None and speeches.chunks else None

    async def _disconnect(self, connection: Connection | None = None) -> None:
        """End the connection, whatever it is doing; or that one, though there may be another by now."""
        connection = connection or self._connection
        if connection is self._connection:
            self._connection = None
            self._speaking = False
        if connection is not None:
            await connection.close()
        self._calls.forget()

    def _lost(self, connection: Connection, error: Exception | None) -> None:
        """The connection has ended by itself: the turn at hand fails or is parked, and the next one opens another."""
        if connection is not self._connection:
            # It was closed, and failed over that.
            return
        if error is not None:
            self.audience.not_recovered()
        self._connection = None
        self._speaking = False
        for carried in list(self._floor.carried.values()):
            carried.put(error or Sign.OVER)
            self._spawn(self._showing.park(carried), "lost")
        self.audience.enter("listening")

    async def _prepare(self, chat: Chat) -> None:
        """Make the session ready to be spoken to: it exists, no call is left hanging, and it does not end with words
        that wait for an answer."""
        adk = self._keeper.adk
        await self._keeper.seal(self.key, chat, "superseded")
        session = await adk.load(self.key)
        if session is None:
            await adk.create(self.key, title="", created=self._keeper.clock())
            self._untitled = True
            return
        last = next((event for event in reversed(session.events) if _speaks(event)), None)
        if last is not None and (last.content.role if last.content is not None else last.author) == "user":
            content = types.Content(role="model", parts=[types.Part(text=_LISTENING)])
            aside = marked(None, {"aside": True})
            await adk.append(self.key, [Event(author=adk.agent_name, content=content, custom_metadata=aside)])

    async def _take(self, event: Event) -> None:
        """Deal out one event of the model."""
        turn = self._floor.turns.of_shown(event)
        if turn is None:
            return
        carried = self._floor.carried.get(turn.message)
        if carried is None and (says(event) or event.input_transcription is not None):
            carried = await self._begin(turn)
        if event.input_transcription is not None:
            # It may come when the answer has ended.
            self.audience.heard(turn, event)
            await self._entitle(turn)
        if carried is None:
            return
        rest = self.audience.play(carried, event)
        if rest is not None:
            if _is_picture(rest):
                rest.custom_metadata = marked(rest.custom_metadata, turn.mark)
                rest.invocation_id, rest.partial = turn.invocation, None
                await self._keeper.adk.append(self.key, [rest])
            carried.put(rest)
        if says(event):
            self.audience.enter("thinking" if calls_in(event) else "speaking")
        if self._floor.turns.shown(turn, event):
            self.audience.silent(carried)
            carried.put(Sign.OVER)
        elif not turn.calls and (event.turn_complete or (turn.talked_over and responses_in(event))):
            self._hurry(turn)

    async def _begin(self, turn: LiveTurn) -> Carried | None:
        """A turn that nobody has typed: its run begins with the first thing there is to show."""
        if turn.ended or turn.cut or turn.carried:
            return None
        message = UserMessage(turn.user, ())
        run = Run(
            new_id("run"),
            self.key,
            message,
            Encoder(turn.message, explain=self._keeper.explain),
            invocation=turn.invocation,
            author=self._keeper.adk.agent_name,
        )
        run.mark = turn.mark
        carried = Carried(turn, run)
        try:
            async with self._keeper.owned(self.key) as chat:
                await self._keeper.seal(self.key, chat, "superseded")
                await self._keeper.begin(run, chat, lambda abort: self._spoken(carried, abort))
                # Not before: whoever parks waits for the runs of what is carried.
                self._floor.carried[turn.message] = carried
        except RequestError as error:
            logger.warning("a spoken turn in chat %s cannot begin: %s", self.key.chat, error.message)
            self._floor.turns.cut(turn)
            self.audience.notice("error", error.code, error.message)
            return None
        self.audience.turn(run, turn.origin)
        return carried

    async def _spoken(self, carried: Carried, abort: asyncio.Event) -> AsyncGenerator[Event, None]:
        with self._carrying(carried):
            async with aclosing(self._showing.events(carried, abort)) as events:
                async for event in events:
                    yield event

    def _carry(self, turn: LiveTurn) -> Carried:
        chat = self._keeper.chats.get(self.key)
        run = chat.writing(turn.message) if chat is not None else None
        if run is None:
            raise RuntimeError("a turn is carried that no run shows")
        return Carried(turn, run)

    def _hurry(self, turn: LiveTurn) -> None:
        """A turn in which nothing more is said, or nobody listens, does not last for ever."""
        self._spawn(self._give_up(turn), "hurry")

    async def _give_up(self, turn: LiveTurn) -> None:
        await asyncio.sleep(_CUT_PATIENCE if turn.cut else _EMPTY_PATIENCE)
        carried = self._floor.carried.get(turn.message)
        if turn.cut:
            self._floor.turns.give_up(turn)
        elif carried is not None and not (turn.ended or turn.calls or turn.said):
            self._floor.turns.give_up(turn)
            carried.put(Sign.OVER)

    async def _entitle(self, turn: LiveTurn) -> None:
        """A chat that begins with speech gets its title from the first sentence."""
        if self._untitled and turn.spoken:
            self._untitled = False
            await self._keeper.adk.rename(self.key, title_for(UserMessage("", (turn.spoken[0],))))
            self._keeper.news.publish(self.key.user, Item(type="chat-updated", chat=self.key.chat))

    # The end.

    async def park(self) -> None:
        """End the connection. What waits for somebody becomes a parked call, and can be answered in any way."""
        async with self._lock:
            self._over = True
            await self._disconnect()
            carried = list(self._floor.carried.values())
            for each in carried:
                each.put(Sign.OVER)
            for each in carried:
                await self._showing.park(each)
            await self._showing.attempt(self._lengthen())
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._parked(self)

    async def _lengthen(self) -> None:
        """What waits has all the time that parked calls have."""
        for call in await self._keeper.gate.undecided(*self.key):
            if call.live and call.state in OPEN:
                await self._keeper.gate.park(call)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, name=f"adkwire-live-{name}-{self.key.chat}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _speaks(event: Event) -> bool:
    return any(said is not None for said in (event.content, event.input_transcription, event.output_transcription))


def _is_picture(event: Event) -> bool:
    parts = (event.content.parts if event.content is not None else None) or ()
    return event.author != "user" and any(part.inline_data is not None for part in parts)
