"""LiveRun: one chat's conversation with a live model.

Every turn of it is a `Run` like any other, with an encoder, a stream log and an end of its own; what differs is that
its events come out of one long `run_live`, from which `LiveTurns` deals them out. The connection to the model is opened
when there is something to say and closed when a turn has to be broken off in the middle of a call; the next one then
begins with the history. So the session is the only truth here, too.

Sound passes by: it is handed to those who listen, counted, and never stored.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from google.adk.events.event import Event
from google.genai import types

from adkwire.gate.records import OPEN, PendingCall
from adkwire.runs.adk import content_of
from adkwire.runs.gated import Place
from adkwire.runs.history import marked
from adkwire.runs.holding import HOLDER
from adkwire.runs.ids import new_id
from adkwire.runs.keeper import Keeper
from adkwire.runs.live_queue import LiveQueue
from adkwire.runs.live_turns import LiveTurn, LiveTurns, Origin, calls_in, says
from adkwire.runs.news import Item
from adkwire.runs.own_events import INTERRUPTED, inner_event, partial_event, placeholder_event, question_event
from adkwire.runs.run import Run
from adkwire.runs.sessions import ChatKey
from adkwire.runs.views import title_for
from adkwire.runs.watched_model import SUPERVISION, Supervision
from adkwire.wire.breaks import BREAK
from adkwire.wire.decoder import UserMessage
from adkwire.wire.encoder import ABORTED, Encoder
from adkwire.wire.frames import Level
from adkwire.wire.profiles import encode_chunks

logger = logging.getLogger("adkwire")

LiveState: TypeAlias = Literal["listening", "thinking", "speaking", "waiting"]

RATE = 24_000
"""Samples a second of what a live model sounds."""
_BYTES_PER_MS = RATE * 2 // 1000
_CUT_PATIENCE = 5.0
"""Seconds for a model to say that it has heard that nobody listens."""
_EMPTY_PATIENCE = 5.0
"""Seconds after which an answer in which nothing is said is over."""
_DEAF = 15.0
"""Seconds in which a living connection takes what is said to it."""
_LOOK = 1.0
_LISTENING = "I am listening."


class Listener(Protocol):
    """One client of the conversation. Nothing here waits."""

    def turn(self, run: Run, origin: Origin) -> None:
        """A turn begins that it has not asked for."""
        ...

    def transcript(self, user_message: str, text: str, *, final: bool) -> None:
        """What the user has been heard to say."""
        ...

    def state(self, state: LiveState) -> None:
        """What the model does now."""
        ...

    def interrupted(self, run: str, generation: int, kept: str | None) -> None:
        """What was being said is over; sound of older generations is void."""
        ...

    def settled(self, call: str, state: str) -> None:
        """A call has its answer, from wherever it came."""
        ...

    def notice(self, level: Level, code: str, text: str) -> None:
        """Something a person should know."""
        ...

    def sound(self, pcm: bytes, generation: int, position: int, *, last: bool) -> None:
        """A piece of what the model says."""
        ...

    def ended(self, *, deleted: bool) -> None:
        """The conversation is over: it goes on elsewhere, or its chat is gone."""
        ...


ASKER: ContextVar[Listener | None] = ContextVar("adkwire_asker", default=None)
"""The client whose request is being served, which need not be told what comes of it."""


class _Carried:
    """A turn and the run that shows it."""

    def __init__(self, turn: LiveTurn, run: Run) -> None:
        self.turn = turn
        self.run = run
        self.inbox: asyncio.Queue[_Item] = asyncio.Queue()
        self.broken = -1
        """The number of the last break in its stream."""
        self.generation: int | None = None
        self.chunks = 0
        self.sounded = 0
        """Bytes of sound so far."""
        self.kept: str | None = None
        """What was heard of what is being said, when that is less."""
        self.spoken: list[str] = []
        self.speaking = ""
        """What the user has been heard to say: whole sentences, and the one that is being said."""

    @property
    def ms(self) -> int:
        """Milliseconds of sound so far."""
        return self.sounded // _BYTES_PER_MS


class _Item(NamedTuple):
    """Something for a run to show: an event, a call for the browser, a cut in what is said, or its end."""

    event: Event | None = None
    offer: str | None = None
    hush: bool = False
    end: Literal["over", "interrupted"] | None = None
    error: Exception | None = None
    shown: "asyncio.Future[None] | None" = None


class LiveRun:
    """The live side of one chat, as long as somebody is there or may come back."""

    def __init__(self, key: ChatKey, keeper: Keeper, parked: "Callable[[LiveRun], None]") -> None:
        self.key = key
        self._parked = parked
        self.generation = 0
        self.listeners: list[Listener] = []
        self._keeper = keeper
        self._turns = LiveTurns()
        self._carried: dict[str, _Carried] = {}
        self._announced: dict[str, asyncio.Event] = {}
        self._inside: dict[str, _Carried] = {}
        self._queue: LiveQueue | None = None
        self._pump: asyncio.Task[None] | None = None
        self._invocation = ""
        self._state: LiveState = "listening"
        self._speaking = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()
        self._played = (-1, 0)
        self._untitled = False
        self._over = False
        """Whether it was parked: then nothing more is said to it."""

    @property
    def attached(self) -> bool:
        """Whether somebody listens."""
        return bool(self.listeners)

    @property
    def open(self) -> bool:
        """Whether there is a connection to the model."""
        return self._pump is not None and not self._pump.done()

    @property
    def state(self) -> LiveState:
        """What the model does now."""
        return self._state

    @property
    def is_speaking(self) -> bool:
        """Whether an answer is being given, and not held up by somebody."""
        run = self.running()
        return run is not None and not run.encoder.is_held

    def running(self) -> Run | None:
        """The run of the turn that is being shown."""
        return next((carried.run for carried in self._carried.values() if carried.run.active), None)

    def last_break(self, message: str) -> int:
        """Where a stock reader of a message stopped reading last."""
        carried = self._carried.get(message)
        return carried.broken if carried is not None else -1

    def carries(self, message: str) -> bool:
        """Whether this conversation writes a message."""
        return message in self._carried

    # What drives a run, in place of ADK's `run_async`.

    async def turn(
        self, key: ChatKey, message: UserMessage, mark: dict[str, Any], abort: asyncio.Event
    ) -> AsyncGenerator[Event, None]:
        """Say a typed message to the model and yield what comes of it."""
        turn = LiveTurn(mark["message"], mark["user"], "typed")
        async with self._lock:
            source = self._keeper.adk.turn(key, message, mark, abort)
            if not self._over:
                source = self._events(self._carry(turn), abort)
                yield Event(author=self._keeper.adk.agent_name, invocation_id=turn.invocation)
                await self._say(turn, content_of(message), mark)
        async with aclosing(source) as events:
            async for event in events:
                yield event

    async def _say(self, turn: LiveTurn, content: types.Content, mark: dict[str, Any]) -> None:
        """Say something to the model: on the connection there is, or in the history that a new one begins with."""
        if self.open and self._queue is not None:
            self._turns.add(turn, typed=True)
            self._queue.send_content(content)
        else:
            await self._keeper.adk.append(self.key, [question_event(content, turn.invocation, mark)])
            turn.began = True
            self._connect(turn)
        self._enter("thinking")

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
        async with self._lock:
            source = self._keeper.adk.go_on(key, calls, told, mark, abort)
            if not self._over:
                source = self._events(self._carry(turn), abort)
                await self._disconnect()
                for event in await self._keeper.adk.hand_over(key, calls, told, mark):
                    yield event
                self._connect(turn, {call.call for call in calls if not call.browser})
                self._enter("thinking")
        async with aclosing(source) as events:
            async for event in events:
                yield event

    def begun(self, run: Run) -> None:
        """A message goes on that somebody has answered the calls of: all but that one are told."""
        asker = ASKER.get()
        for listener in self.listeners:
            if listener is not asker:
                listener.turn(run, "server")

    async def _events(self, carried: _Carried, abort: asyncio.Event) -> AsyncGenerator[Event, None]:
        """What is shown of one turn, until it is over, cut or stopped."""
        watch = self._spawn(_tell_of(abort, carried.inbox), "stop")
        try:
            while True:
                item = await carried.inbox.get()
                if abort.is_set():
                    async for event in self._stopped(carried):
                        yield event
                    return
                async for event in self._shown(carried, item):
                    yield event
                if item.shown is not None and not item.shown.done():
                    item.shown.set_result(None)
                if item.error is not None:
                    raise item.error
                if item.end is not None:
                    return
                await self._pause(carried)
        finally:
            watch.cancel()
            self._carried.pop(carried.turn.message, None)
            self._rest()

    async def _shown(self, carried: _Carried, item: _Item) -> AsyncGenerator[Event, None]:
        encoder = carried.run.encoder
        if item.hush or item.end == "interrupted":
            async for event in self._saved(carried):
                yield event
        if item.end == "interrupted":
            event = self._own(carried, interrupted=True)
            await self._keeper.adk.append(self.key, [event])
            yield event
        if item.event is not None:
            yield item.event
            for call in calls_in(item.event):
                self._announced.setdefault(call, asyncio.Event()).set()
        if item.offer is not None and (chunks := encoder.release(item.offer)):
            await carried.run.write(self._keeper.log, encode_chunks(chunks))

    async def _saved(self, carried: _Carried) -> AsyncGenerator[Event, None]:
        """Store what was shown and ADK will not store any more, as far as it was heard."""
        for unsaved in carried.run.encoder.unsaved():
            event = partial_event(unsaved, carried.turn.invocation, carried.run.mark)
            if carried.kept is not None and event.content is not None:
                event.content.parts = [types.Part(text=carried.kept)]
            await self._keeper.adk.append(self.key, [event])
            yield event
        carried.kept = None

    async def _pause(self, carried: _Carried) -> None:
        """Where everything waits for somebody, a stock client's response may end."""
        if carried.inbox.empty() and carried.run.encoder.is_held and carried.broken != carried.run.written - 1:
            carried.broken = carried.run.written
            await carried.run.write(self._keeper.log, [BREAK])
            self._enter("waiting")

    async def _stopped(self, carried: _Carried) -> AsyncGenerator[Event, None]:
        """Somebody wants it to end: what it says is cut off, and a call in it is broken off with the connection."""
        kept = self._kept(carried)
        await self._silence(carried)
        self._void(carried, kept)
        async for event in self._saved(carried):
            yield event
        event = self._own(carried, error_code=ABORTED)
        await self._keeper.adk.append(self.key, [event])
        yield event

    async def _silence(self, carried: _Carried) -> None:
        turn = carried.turn
        if turn.calls or not turn.said or not self.open:
            await self._disconnect()
        else:
            self._turns.cut(turn)
            self._hurry(turn)
            if carried.run.why == "stopped" and self._queue is not None:
                self._queue.send_activity_start()
                self._queue.send_activity_end()

    def _own(self, carried: _Carried, **what: Any) -> Event:
        """An event of ours that ends a turn."""
        return Event(
            author=self._keeper.adk.agent_name,
            invocation_id=carried.turn.invocation,
            custom_metadata=marked(None, carried.run.mark),
            **what,
        )

    # What the user does.

    async def activity(self, *, start: bool) -> None:
        """The user begins to speak, which ends what is being said, or has spoken."""
        if not start:
            if self._speaking and self._queue is not None:
                self._queue.send_activity_end()
                self._enter("thinking")
            self._speaking = False
            return
        await self.interrupt(by_speech=True)
        async with self._lock:
            if self._over:
                return
            if not self.open:
                await self._prepare()
                self._connect(None)
            self._turns.utter()
            self._speaking = True
            if self._queue is not None:
                self._queue.send_activity_start()
        self._enter("listening")

    def hear(self, pcm: bytes) -> bool:
        """A piece of the microphone's sound, 16 kHz; only of one who has begun to speak."""
        if not self._speaking or self._queue is None:
            return False
        self._queue.send_sound(pcm)
        return True

    def unplug(self) -> None:
        """Who was speaking is gone."""
        if self._speaking and self._queue is not None:
            self._queue.send_activity_end()
        self._speaking = False

    def see(self, data: bytes, media_type: str) -> bool:
        """A picture of the camera or the screen; only a conversation that goes on looks at it."""
        if self._queue is None or not self.open:
            return False
        self._queue.send_realtime(types.Blob(data=data, mime_type=media_type))
        return True

    def played(self, generation: int, ms: int) -> None:
        """How much of a generation's sound was really heard."""
        self._played = generation, ms

    async def interrupt(self, *, by_speech: bool = False) -> None:
        """End what is being said. What waits for somebody goes on waiting."""
        current = self._turns.current
        carried = self._carried.get(current.message) if current is not None else None
        if current is None or carried is None or not carried.run.active or (by_speech and not current.said):
            return
        if current.calls:
            if current.talking and not current.hushed:
                current.hushed = True
                self._void(carried, self._kept(carried))
                await self._put(carried, _Item(hush=True))
                self._signal(by_speech=by_speech)
            return
        kept = self._kept(carried)
        if current.said and self.open:
            self._turns.cut(current)
            self._hurry(current)
        else:
            async with self._lock:
                await self._disconnect()
        self._void(carried, kept)
        carried.inbox.put_nowait(_Item(end="interrupted"))
        await carried.run.done.wait()
        self._signal(by_speech=by_speech)

    def _signal(self, *, by_speech: bool) -> None:
        if not by_speech and self._queue is not None:
            self._queue.send_activity_start()
            self._queue.send_activity_end()

    def _void(self, carried: _Carried, kept: str | None) -> None:
        """Sound that was not heard yet is void."""
        self.generation = (self.generation + 1) % 65536
        carried.generation = None
        for listener in self.listeners:
            listener.interrupted(carried.run.id, self.generation, kept)

    def _kept(self, carried: _Carried) -> str | None:
        """What was heard of what is being said, by its share of the sound; None when that is all, or nobody knows."""
        generation, ms = self._played
        if carried.generation != generation or ms >= carried.ms:
            return None
        parts = [part for unsaved in carried.run.encoder.unsaved() for _, part in unsaved.parts]
        said = "".join(part for part in parts if isinstance(part, str))
        at = round(len(said) * ms / carried.ms)
        carried.kept = said[: said.rfind(" ", 0, at) + 1] if " " in said[:at] else said[:at]
        return carried.kept

    # The connection to the model.

    def _connect(self, turn: LiveTurn | None, calls: set[str] | None = None) -> None:
        """Begin a connection; what the model has to know it reads in the session."""
        self._turns = LiveTurns()
        self._turns.sounded = self._sounded
        if turn is not None:
            self._turns.add(turn, typed=False)
            self._turns.adopt(turn, calls or set())
        self._queue = queue = LiveQueue()
        self._pump = pump = self._spawn(self._run(queue, self._turns), "pump")
        self._spawn(self._listen_for_deafness(queue, pump), "watch")

    async def _disconnect(self) -> None:
        """End the connection, whatever it is doing."""
        pump, self._pump, self._queue = self._pump, None, None
        self._speaking = False
        if pump is not None and not pump.done() and pump is not asyncio.current_task():
            pump.cancel()
            await asyncio.wait([pump])
        for event in self._announced.values():
            event.set()
        self._announced.clear()
        self._keeper.adk.forget(self._invocation)

    async def _run(self, queue: LiveQueue, turns: LiveTurns) -> None:
        HOLDER.set(self)
        SUPERVISION.set(Supervision(self))
        error: Exception | None = None
        try:
            async with aclosing(self._keeper.adk.live(self.key, queue, turns)) as events:
                async for event in events:
                    await self._take(event)
        except Exception as failure:
            error = failure
            logger.warning("the live model of chat %s: %s", self.key.chat, type(failure).__name__, exc_info=failure)
        self._lost(error)

    async def _listen_for_deafness(self, queue: LiveQueue, pump: "asyncio.Task[None]") -> None:
        """ADK's task that sends to the model may die without a word: then nothing is taken any more."""
        while not pump.done():
            await asyncio.wait([pump], timeout=_LOOK)
            if queue.neglected() > _DEAF and not pump.done():
                pump.cancel()
                await asyncio.wait([pump])
                self._lost(ConnectionError("the connection to the model takes nothing any more"))

    def reconnecting(self) -> None:
        """The connection to the model was lost and is sought again."""
        self.notice("warning", "reconnecting", "The connection to the model was lost; trying again.")

    def reconnected(self) -> None:
        """It is there again."""
        self.notice("info", "reconnected", "The connection to the model is back.")

    def going_away(self) -> None:
        """The model is about to end it; another one follows."""
        self.notice("info", "go-away", "The model ends this connection soon; another one is opened.")

    def _lost(self, error: Exception | None) -> None:
        """The connection has ended by itself: the turn at hand fails, and the next one opens another."""
        if error is not None:
            self.notice("error", "not-recovered", "The connection to the model was lost. Speak or write to go on.")
        self._pump = self._queue = None
        self._speaking = False
        for carried in list(self._carried.values()):
            carried.inbox.put_nowait(_Item(end="over") if error is None else _Item(error=error))
        self._enter("listening")

    async def _prepare(self) -> None:
        """Make the session ready to be spoken to: it exists, and does not end with words that wait for an answer."""
        adk = self._keeper.adk
        session = await adk.load(self.key)
        if session is None:
            await adk.create(self.key, title="", created=self._keeper.clock())
            self._untitled = True
            return
        last = next((event for event in reversed(session.events) if event.content is not None), None)
        if last is not None and last.content is not None and last.content.role == "user":
            content = types.Content(role="model", parts=[types.Part(text=_LISTENING)])
            aside = marked(None, {"aside": True})
            await adk.append(self.key, [Event(author=adk.agent_name, content=content, custom_metadata=aside)])

    async def _take(self, event: Event) -> None:
        """Deal out one event of the model."""
        self._invocation = self._invocation or event.invocation_id
        turn = self._turns.of_shown(event)
        if turn is None:
            return
        carried = self._carried.get(turn.message) or await self._begin(turn)
        if carried is None:
            return
        if event.input_transcription is not None:
            self._tell_heard(carried, event)
            await self._entitle(carried)
        rest = self._play(carried, event)
        if rest is not None:
            if _is_picture(rest):
                rest.custom_metadata = marked(rest.custom_metadata, turn.mark)
                rest.invocation_id, rest.partial = turn.invocation, None
                await self._keeper.adk.append(self.key, [rest])
            carried.inbox.put_nowait(_Item(rest))
        if says(event):
            self._enter("thinking" if calls_in(event) else "speaking")
        if self._turns.shown(turn, event):
            self._sound_over(carried)
            carried.inbox.put_nowait(_Item(end="over"))
        elif event.turn_complete and not turn.calls:
            self._hurry(turn)

    async def _begin(self, turn: LiveTurn) -> _Carried | None:
        """A turn that nobody has typed: its run begins with the first thing there is to show."""
        if turn.ended:
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
        carried = self._carry(turn, run)
        async with self._keeper.owned(self.key) as chat:
            await self._keeper.begin(run, chat, lambda abort: self._events(carried, abort))
        for listener in self.listeners:
            listener.turn(run, turn.origin)
        return carried

    def _carry(self, turn: LiveTurn, run: Run | None = None) -> _Carried:
        chat = self._keeper.chats.get(self.key)
        run = run or (chat.writing(turn.message) if chat is not None else None)
        if run is None:
            raise RuntimeError("a turn is carried that no run shows")
        carried = self._carried[turn.message] = _Carried(turn, run)
        return carried

    def _hurry(self, turn: LiveTurn) -> None:
        """A turn in which nothing more is said, or nobody listens, does not last for ever."""

        async def give_up() -> None:
            await asyncio.sleep(_CUT_PATIENCE if turn.cut else _EMPTY_PATIENCE)
            if turn.cut:
                self._turns.give_up(turn)
            elif not turn.ended and not turn.calls and not turn.said and (carried := self._carried.get(turn.message)):
                self._turns.give_up(turn)
                carried.inbox.put_nowait(_Item(end="over"))

        self._spawn(give_up(), "hurry")

    # Sound and what is told beside the chunks.

    def _play(self, carried: _Carried, event: Event) -> Event | None:
        """Hand on the sound of an event; what else is in it, if anything."""
        parts = (event.content.parts if event.content is not None else None) or []
        sounds = [part for part in parts if _is_sound(part)]
        if not sounds:
            return event
        if carried.generation is None:
            self.generation = carried.generation = (self.generation + 1) % 65536
        for part in sounds:
            pcm = (part.inline_data.data if part.inline_data is not None else None) or b""
            for listener in self.listeners:
                listener.sound(pcm, carried.generation, carried.ms, last=False)
            carried.sounded += len(pcm)
            carried.chunks += 1
        rest = [part for part in parts if not _is_sound(part)]
        return event.model_copy(update={"content": types.Content(role="model", parts=rest)}) if rest else None

    def _sound_over(self, carried: _Carried) -> None:
        if carried.generation is not None:
            for listener in self.listeners:
                listener.sound(b"", carried.generation, carried.ms, last=True)

    def _sounded(self, turn: LiveTurn) -> dict[str, int] | None:
        carried = self._carried.get(turn.message)
        return {"chunks": carried.chunks, "ms": carried.ms} if carried is not None and carried.chunks else None

    def _tell_heard(self, carried: _Carried, event: Event) -> None:
        heard = (event.input_transcription.text if event.input_transcription is not None else None) or ""
        if event.partial:
            carried.speaking += heard
        else:
            carried.spoken.append(heard)
            carried.speaking = ""
        text = " ".join(part for part in (*carried.spoken, carried.speaking) if part)
        for listener in self.listeners:
            listener.transcript(carried.turn.user, text, final=event.partial is not True)

    async def _entitle(self, carried: _Carried) -> None:
        """A chat that begins with speech gets its title from the first sentence."""
        if self._untitled and carried.spoken:
            self._untitled = False
            await self._keeper.adk.rename(self.key, title_for(UserMessage("", (carried.spoken[0],))))
            self._keeper.news.publish(self.key.user, Item(type="chat-updated", chat=self.key.chat))

    def _enter(self, state: LiveState) -> None:
        if state != self._state:
            self._state = state
            for listener in self.listeners:
                listener.state(state)

    def _rest(self) -> None:
        if not self._carried and not self._speaking:
            self._enter("listening")

    def notice(self, level: Level, code: str, text: str) -> None:
        """Tell everybody who listens."""
        for listener in self.listeners:
            listener.notice(level, code, text)

    def changed(self, call: PendingCall) -> None:
        """A call has moved at the gate."""
        if call.answer is not None or call.outcome:
            for listener in self.listeners:
                listener.settled(call.call, call.outcome or call.state)

    # What the plugin asks of the run a call is part of.

    def invocation(self, call: str) -> str | None:
        """The turn of a call, as an invocation of its own."""
        turn = self._turns.of_call(call)
        return turn.invocation if turn is not None else None

    async def place(self, call: str) -> Place | None:
        """Where a call belongs to, once it was shown."""
        turn = self._turns.of_call(call) if call else self._turns.current
        if turn is None or turn.cut:
            return None
        if call:
            await self._announced.setdefault(call, asyncio.Event()).wait()
        carried = self._carried.get(turn.message)
        if carried is None or turn.cut:
            return None
        return Place(self.key, turn.message, turn.invocation, None, carried.run.mark)

    async def show(self, call: str, event: Event) -> None:
        """Store an event about a call and show it."""
        carried = self._inside.get(call) or self._of(call)
        stored = event if call not in self._inside else inner_event(event)
        await self._keeper.adk.append(self.key, [stored])
        if carried is not None:
            await self._put(carried, _Item(event))

    async def offer(self, call: str) -> None:
        """Let the browser have a call."""
        carried = self._inside.get(call) or self._of(call)
        if carried is not None:
            await self._put(carried, _Item(offer=call))

    def shape(self, call: str, shape: dict[str, Any]) -> None:
        """Note what is to be stamped on the response of a call."""
        self._turns.outputs[call] = shape

    async def inside(self, call: types.FunctionCall, author: str, *, browser: bool) -> None:
        """Show a call of an agent inside a tool, which the session does not have."""
        current = self._turns.current
        carried = self._carried.get(current.message) if current is not None else None
        if carried is None or call.id is None:
            return
        self._inside[call.id] = carried
        event = self._inner(carried, author, types.Part(function_call=call))
        event.long_running_tool_ids = {call.id} if browser else set()
        await self.show(call.id, event)

    async def done_inside(self, call: str, response: dict[str, Any]) -> None:
        """Show what came of it."""
        carried = self._inside.get(call)
        if carried is not None:
            answer = types.FunctionResponse(id=call, name="", response=response)
            await self.show(call, self._inner(carried, "", types.Part(function_response=answer)))
            del self._inside[call]

    def _inner(self, carried: _Carried, author: str, part: types.Part) -> Event:
        return Event(
            author=author or self._keeper.adk.agent_name,
            invocation_id=carried.turn.invocation,
            content=types.Content(role="model", parts=[part]),
            custom_metadata=marked(None, carried.run.mark),
        )

    def _of(self, call: str) -> _Carried | None:
        turn = self._turns.of_call(call)
        return self._carried.get(turn.message) if turn is not None else None

    async def _put(self, carried: _Carried, item: _Item) -> None:
        """Have something shown, and wait until it is."""
        done = asyncio.get_running_loop().create_future()
        carried.inbox.put_nowait(item._replace(shown=done))
        ended = asyncio.ensure_future(carried.run.done.wait())
        try:
            await asyncio.wait([done, ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()

    # The end.

    async def park(self) -> None:
        """End the connection. What waits for somebody becomes a parked call, and can be answered in any way."""
        async with self._lock:
            self._over = True
            await self._disconnect()
            for call in list(self._inside):
                await self._keeper.gate.abandon(*self.key, call, "interrupted")
                await self.done_inside(call, {"error": INTERRUPTED})
            carried = list(self._carried.values())
            for each in carried:
                each.inbox.put_nowait(_Item(end="over"))
            for each in carried:
                await each.run.done.wait()
                await self._leave_placeholders(each)
            for call in await self._keeper.gate.undecided(*self.key):
                if call.live and call.state in OPEN:
                    await self._keeper.gate.park(call)
            # Those of a run that ends are ended by it.
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._parked(self)

    async def _leave_placeholders(self, carried: _Carried) -> None:
        """The model's context is never a call without an answer."""
        asked = [call for call in carried.run.encoder.waiting() if call.ask is not None]
        if asked:
            author, mark = self._keeper.adk.agent_name, carried.run.mark
            await self._keeper.adk.append(self.key, [placeholder_event(asked, author, carried.turn.invocation, mark)])

    def dismiss(self, *, deleted: bool = False) -> None:
        """Everybody has to go."""
        for listener in self.listeners:
            listener.ended(deleted=deleted)
        self.listeners.clear()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, name=f"adkwire-live-{name}-{self.key.chat}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _tell_of(abort: asyncio.Event, inbox: "asyncio.Queue[_Item]") -> None:
    await abort.wait()
    inbox.put_nowait(_Item())


def _is_sound(part: types.Part) -> bool:
    return part.inline_data is not None and (part.inline_data.mime_type or "").startswith("audio/pcm")


def _is_picture(event: Event) -> bool:
    parts = (event.content.parts if event.content is not None else None) or ()
    return event.author != "user" and any(part.inline_data is not None for part in parts)
