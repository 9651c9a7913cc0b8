"""What is shown of a turn of a live conversation, so that session and stream agree wherever it ends."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any
from weakref import WeakSet

from google.adk.events.event import Event

from adkwire.errors import RequestError
from adkwire.gate.records import State
from adkwire.runs.audience import Audience, Listener
from adkwire.runs.carried import Carried, Floor, Offer, Sign, Step
from adkwire.runs.history import marked
from adkwire.runs.keeper import Keeper
from adkwire.runs.live_calls import LiveCalls
from adkwire.runs.own_events import partial_event, placeholder_event
from adkwire.runs.sessions import ChatKey
from adkwire.wire.breaks import break_entry
from adkwire.wire.calls import Phase
from adkwire.wire.encoder import ABORTED
from adkwire.wire.profiles import encode_chunks

logger = logging.getLogger("adkwire")

_LOOK_AGAIN = 0.5
"""Seconds until a gate that was away is asked again what waits."""


class Showing:
    """Shows the turns of one conversation; `silence` ends what a model is saying or doing in one of them."""

    def __init__(
        self,
        key: ChatKey,
        keeper: Keeper,
        floor: Floor,
        calls: LiveCalls,
        audience: Audience,
        silence: Callable[[Carried], Awaitable[None]],
    ) -> None:
        self.key = key
        self._keeper = keeper
        self._floor = floor
        self._calls = calls
        self._audience = audience
        self._silence = silence
        self._answering = 0
        self._answered = 0
        """How often answers were taken."""
        self._sender: Listener | None = None
        """Who sent the last answers with a message, and reads what comes of them."""
        self._parking = asyncio.Lock()
        self._parked = WeakSet[Carried]()

    async def events(self, carried: Carried, abort: asyncio.Event) -> AsyncGenerator[Event, None]:
        """What is shown of one turn, until it is over, cut or stopped."""
        watch = asyncio.create_task(_tell_of(abort, carried), name=f"adkwire-live-stop-{self.key.chat}")
        try:
            while True:
                step, shown = await carried.inbox.get()
                ends = isinstance(step, Exception) or (isinstance(step, Sign) and step.ends) or abort.is_set()
                showing = self._ending(carried, step, abort) if ends else self._shown(carried, step)
                async with aclosing(showing) as events:
                    async for event in events:
                        yield event
                if shown is not None and not shown.done():
                    shown.set_result(None)
                if ends:
                    return
                if not isinstance(step, Event) or step.input_transcription is None:
                    await self._pause(carried)
        finally:
            watch.cancel()
            await self._catch_up(carried)

    async def _catch_up(self, carried: Carried) -> None:
        """When its stream has failed, what the session has of a turn must not be stored once more."""
        missed = [chunk for event in carried.turn.unshown.values() for chunk in carried.run.encoder.feed(event)]
        carried.turn.unshown.clear()
        if missed:
            await self.attempt(carried.run.write(self._keeper.log, encode_chunks(missed)))

    async def _shown(self, carried: Carried, step: Step) -> AsyncGenerator[Event, None]:
        match step:
            case Sign.HUSH:
                async for event in self._saved(carried):
                    yield event
            case Event() if step.id not in carried.early:
                yield step
                carried.turn.unshown.pop(step.id, None)
                self._calls.shown(step)
            case Offer(call) if chunks := carried.run.encoder.release(call):
                await carried.run.write(self._keeper.log, encode_chunks(chunks))
            case _:
                pass

    async def _ending(self, carried: Carried, step: Step, abort: asyncio.Event) -> AsyncGenerator[Event, None]:
        """The last of a turn: what was stored and not shown, what was shown and not stored, and how it ended."""
        stopped, turn = abort.is_set(), carried.turn
        if stopped and not turn.over:
            self._audience.interrupt(carried)
            await self._silence(carried)
        if stopped or step is Sign.INTERRUPTED:
            async for event in self._saved(carried):
                yield event
        why = carried.run.why if stopped else "failed" if isinstance(step, Exception) else "interrupted"
        for event in await self._calls.end_inside(carried, self._keeper.gate, why):
            yield event
        for event in await self._leave_approved(carried) if not stopped else ():
            yield event
        if (stopped or step is Sign.INTERRUPTED) and not turn.over:
            event = self._own(carried, **({"error_code": ABORTED} if stopped else {"interrupted": True}))
            await self._keeper.adk.append(self.key, [event])
            yield event
        if isinstance(step, Exception) and not stopped and not _is_parked(carried):
            raise step

    async def _leave_approved(self, carried: Carried) -> list[Event]:
        """An approved call that has not begun is parked, too: who goes on with the message executes it."""
        left = [call for call in carried.run.encoder.open_calls() if await self._is_unbegun(call[0])]
        if not left:
            return []
        carried.left = frozenset(call for call, _ in left)
        return [await self._leave_placeholders(carried, left)]

    async def _is_unbegun(self, call: str) -> bool:
        """Whether nobody has begun to execute an approved call, nor does who was just about to."""
        gate = self._keeper.gate
        try:
            record = await gate.get(*self.key, call)
            if record is None or not record.executes:
                return False
            # It moves, so that a claim that is on its way comes too late; or that one was faster.
            await gate.park(record)
            record = await gate.get(*self.key, call)
        except RequestError as error:
            logger.warning("whether call %s has begun could not be looked at: %s", call, error.message)
            return False
        return record is not None and record.executes

    async def _saved(self, carried: Carried) -> AsyncGenerator[Event, None]:
        """Make session and stream agree on what was said: the session may be ahead, and what it will not get any more
        is stored as far as it was heard."""
        for event in list(carried.turn.unshown.values()):
            carried.early.add(event.id)
            yield event
            self._calls.shown(event)
        carried.turn.unshown.clear()
        for unsaved in carried.run.encoder.unsaved():
            kept = carried.cut.of(unsaved) if carried.cut is not None else unsaved
            event = partial_event(kept, carried.turn.invocation, carried.run.mark)
            await self._keeper.adk.append(self.key, [event])
            yield event
        carried.cut = None

    async def _pause(self, carried: Carried) -> None:
        """Where everything waits for somebody, a stock client's response may end."""
        run, answered = carried.run, self._answered
        held = carried.inbox.empty() and not self._answering and run.encoder.is_held
        # Whoever sends answers while the gate is asked reads on behind the break before: here must be no other one.
        run.waits = held and await self._is_awaited(carried) and answered == self._answered
        waiting = frozenset(call.id for call in run.encoder.waiting())
        if carried.awaited - waiting:
            # Something was answered, and who has loaded the chat meanwhile has the message and does not read it.
            carried.awaited = waiting
            self._audience.enter("thinking")
            self._audience.turn(run, "server", besides=self._sender)
            self._sender = None
        if run.waits and (not run.breaks or run.breaks[-1][0] != run.written - 1):
            carried.awaited = waiting
            run.breaks.append((run.written, waiting))
            await run.write(self._keeper.log, [break_entry(run.encoder.interlude())])
            self._audience.enter("waiting")

    async def _is_awaited(self, carried: Carried) -> bool:
        """Whether each call waits for what it seems to: none has an answer that is yet to be shown."""
        try:
            state = {call.call: call.state for call in await self._keeper.gate.undecided(*self.key)}
        except RequestError as error:
            logger.warning("what waits in chat %s could not be looked at: %s", self.key.chat, error.message)
            asyncio.get_running_loop().call_later(_LOOK_AGAIN, carried.put, Sign.LOOK)
            return False
        return all(
            state.get(call.id) is (State.ASKED if call.phase is Phase.ASKED else State.OFFERED)
            for call in carried.run.encoder.waiting()
        )

    @contextmanager
    def answering(self, listener: Listener) -> Generator[None, None, None]:
        """While answers are taken that belong together nobody is told that something waits."""
        self._answering += 1
        self._answered += 1
        self._sender = listener
        try:
            yield
        finally:
            self._answering -= 1
            for carried in self._floor.carried.values():
                carried.put(Sign.LOOK)

    def _own(self, carried: Carried, **what: Any) -> Event:
        """An event of ours that ends a turn."""
        return Event(
            author=self._keeper.adk.agent_name,
            invocation_id=carried.turn.invocation,
            custom_metadata=marked(None, carried.run.mark),
            **what,
        )

    async def attempt(self, step: Coroutine[Any, Any, None]) -> None:
        """One step of the end. A store that is away does not keep the conversation from ending."""
        try:
            await step
        except RequestError as error:
            logger.warning("the end of the conversation in chat %s: %s", self.key.chat, error.message)

    async def park(self, carried: Carried) -> None:
        """A turn ends while calls of it wait: they are as they would be if ADK had paused."""
        await carried.run.done.wait()
        async with self._parking:
            # A connection that is lost and a conversation that ends may come together.
            if carried not in self._parked:
                await self.attempt(self._leave_asked(carried))
                self._parked.add(carried)

    async def _leave_asked(self, carried: Carried) -> None:
        """The model's context is never a call without an answer."""
        waiting = carried.run.encoder.waiting()
        asked = [(call.id, call.name) for call in waiting if call.ask is not None and call.id not in carried.left]
        if asked:
            await self._leave_placeholders(carried, asked)

    async def _leave_placeholders(self, carried: Carried, calls: Sequence[tuple[str, str]]) -> Event:
        event = placeholder_event(calls, carried.turn.invocation, carried.run.mark)
        await self._keeper.adk.append(self.key, [event])
        return event


def _is_parked(carried: Carried) -> bool:
    """Whether a turn that cannot go on now does so when somebody acts: then it has not failed."""
    return any(call.is_offered for call in carried.run.encoder.waiting())


async def _tell_of(abort: asyncio.Event, carried: Carried) -> None:
    await abort.wait()
    carried.put(Sign.LOOK)
