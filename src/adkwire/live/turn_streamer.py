"""The events of a live turn for its run, such that session and stream agree wherever the turn ends."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Generator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any
from weakref import WeakSet

from google.adk.events.event import Event

from adkwire.adk.events import partial_event, placeholder_event
from adkwire.adk.stamps import add_stamp
from adkwire.errors import RequestError
from adkwire.gate.records import State, VoidReason
from adkwire.live.calls import LiveCalls
from adkwire.live.connection import Connector
from adkwire.live.listeners import Listener, Listeners
from adkwire.live.streamed_turn import ConversationTurns, OfferedCall, Step, StreamedTurn, TurnSignal
from adkwire.runs.services import RunServices
from adkwire.stores.base import ChatKey
from adkwire.wire.breaks import break_entry
from adkwire.wire.encode.outcome import ABORTED
from adkwire.wire.encode.tool_calls import Phase
from adkwire.wire.profiles import encode_chunks

logger = logging.getLogger("adkwire")

_RETRY = 0.5
"""Seconds until a gate that did not answer is asked again which calls are pending."""


class TurnStreamer:
    """Writes the turns of one conversation into their runs."""

    def __init__(
        self,
        key: ChatKey,
        services: RunServices,
        turns: ConversationTurns,
        calls: LiveCalls,
        listeners: Listeners,
        connector: Connector,
    ) -> None:
        self.key = key
        self._services = services
        self._turns = turns
        self._calls = calls
        self._listeners = listeners
        self._connector = connector
        self._answering = 0
        """Number of requests with answers that are being handled."""
        self._answered = 0
        """Number of requests with answers that have come."""
        self._sender: Listener | None = None
        """The client that sent the last answers in a message, and reads on by itself."""
        self._parking = asyncio.Lock()
        self._parked = WeakSet[StreamedTurn]()

    async def events(self, streamed: StreamedTurn, abort: asyncio.Event) -> AsyncGenerator[Event, None]:
        """Yield the events of one turn until it is over, interrupted or stopped."""
        watch = asyncio.create_task(_wake_on_abort(abort, streamed), name=f"adkwire-live-stop-{self.key.chat}")
        try:
            while True:
                step, done = await streamed.inbox.get()
                ends = isinstance(step, Exception) or (isinstance(step, TurnSignal) and step.ends) or abort.is_set()
                showing = self._end(streamed, step, abort) if ends else self._show(streamed, step)
                async with aclosing(showing) as events:
                    async for event in events:
                        yield event
                if done is not None and not done.done():
                    done.set_result(None)
                if ends:
                    return
                if not isinstance(step, Event) or step.input_transcription is None:
                    await self._write_break(streamed)
        finally:
            watch.cancel()
            await self._catch_up(streamed)

    async def _catch_up(self, streamed: StreamedTurn) -> None:
        """Feed the encoder the stored events that were not shown, so that a failed run does not store them again."""
        missed = [chunk for event in streamed.turn.unshown.values() for chunk in streamed.run.encoder.feed(event)]
        streamed.turn.unshown.clear()
        if missed:
            await self.attempt(streamed.run.write(self._services.log, encode_chunks(missed)))

    async def _show(self, streamed: StreamedTurn, step: Step) -> AsyncGenerator[Event, None]:
        """Yield the events of a step that does not end its turn."""
        match step:
            case TurnSignal.MUTE:
                async for event in self._save_words(streamed):
                    yield event
            case Event() if step.id not in streamed.shown_early:
                yield step
                streamed.turn.unshown.pop(step.id, None)
                self._calls.shown(streamed.turn, step)
            case OfferedCall(call) if chunks := streamed.run.encoder.offer(call):
                await streamed.run.write(self._services.log, encode_chunks(chunks))
            case _:
                pass

    async def _end(self, streamed: StreamedTurn, step: Step, abort: asyncio.Event) -> AsyncGenerator[Event, None]:
        """Yield the last events of a turn: stored and not shown ones, shown and not stored ones, and how it ended."""
        stopped, turn = abort.is_set(), streamed.turn
        if stopped and not turn.is_all_stored:
            self._listeners.interrupt(streamed)
            await self._connector.stop_turn(streamed)
        if stopped or step is TurnSignal.INTERRUPTED:
            async for event in self._save_words(streamed):
                yield event
        why: VoidReason = streamed.run.why if stopped else "failed" if isinstance(step, Exception) else "interrupted"
        for event in await self._calls.end_inner_calls(streamed, self._services.gate, why):
            yield event
        for event in await self._park_approved(streamed) if not stopped else ():
            yield event
        if (stopped or step is TurnSignal.INTERRUPTED) and not turn.is_all_stored:
            event = self._end_event(streamed, **({"error_code": ABORTED} if stopped else {"interrupted": True}))
            await self._services.runner.append(self.key, [event])
            yield event
        if isinstance(step, Exception) and not stopped and not _is_answerable(streamed):
            raise step

    async def _park_approved(self, streamed: StreamedTurn) -> list[Event]:
        """Park approved calls that were not executed yet: the run that continues the message executes them."""
        left = [call for call in streamed.run.encoder.running_calls() if await self._is_unexecuted(call[0])]
        if not left:
            return []
        streamed.parked_approved = frozenset(call for call, _ in left)
        return [await self._store_placeholders(streamed, left)]

    async def _is_unexecuted(self, call: str) -> bool:
        """Return True if an approved call was not executed yet and can be executed only by a later run."""
        gate = self._services.gate
        try:
            record = await gate.get(*self.key, call)
            if record is None or not record.is_claimable:
                return False
            # This changes the record, so that a claim on its way fails; or the claim was faster.
            await gate.park(record)
            record = await gate.get(*self.key, call)
        except RequestError as error:
            logger.warning("the gate could not be asked whether call %s is being executed: %s", call, error.message)
            return False
        return record is not None and record.is_claimable

    async def _save_words(self, streamed: StreamedTurn) -> AsyncGenerator[Event, None]:
        """Make session and stream agree: yield events that are stored and not shown, and store words that are shown and
        not stored, as far as they were heard."""
        for event in list(streamed.turn.unshown.values()):
            streamed.shown_early.add(event.id)
            yield event
            self._calls.shown(streamed.turn, event)
        streamed.turn.unshown.clear()
        for unsaved in streamed.run.encoder.unsaved():
            kept = streamed.heard_text.apply(unsaved) if streamed.heard_text is not None else unsaved
            event = partial_event(kept, streamed.turn.invocation, streamed.run.stamp)
            await self._services.runner.append(self.key, [event])
            yield event
        streamed.heard_text = None

    async def _write_break(self, streamed: StreamedTurn) -> None:
        """Write a break if all calls are pending: there the response of a stock client may end."""
        run, answered = streamed.run, self._answered
        held = streamed.inbox.empty() and not self._answering and run.encoder.is_waiting
        # A client that sends answers while the gate is asked reads on after the last break: add no other one.
        run.waits = held and await self._are_unanswered(streamed) and answered == self._answered
        waiting = frozenset(call.id for call in run.encoder.pending_calls())
        if streamed.pending_at_break - waiting:
            # A call was answered: a client that loaded the chat meanwhile has the message and does not read its run.
            streamed.pending_at_break = waiting
            self._listeners.set_state("thinking")
            self._listeners.turn(run, "server", besides=self._sender)
            self._sender = None
        if run.waits and (not run.breaks or run.breaks[-1][0] != run.written - 1):
            streamed.pending_at_break = waiting
            run.breaks.append((run.written, waiting))
            await run.write(self._services.log, [break_entry(run.encoder.break_chunks())])
            self._listeners.set_state("waiting")

    async def _are_unanswered(self, streamed: StreamedTurn) -> bool:
        """Return True if no pending call has an answer at the gate that is yet to be shown."""
        try:
            state = {call.call: call.state for call in await self._services.gate.not_started(*self.key)}
        except RequestError as error:
            logger.warning("the pending calls of chat %s could not be read: %s", self.key.chat, error.message)
            asyncio.get_running_loop().call_later(_RETRY, streamed.put, TurnSignal.CHECK_PENDING)
            return False
        return all(
            state.get(call.id) is (State.ASKED if call.phase is Phase.ASKED else State.OFFERED)
            for call in streamed.run.encoder.pending_calls()
        )

    @contextmanager
    def answering(self, listener: Listener) -> Generator[None, None, None]:
        """Write no breaks while the answers of one request are handled, which `listener` has sent."""
        self._answering += 1
        self._answered += 1
        self._sender = listener
        try:
            yield
        finally:
            self._answering -= 1
            for streamed in self._turns.streamed.values():
                streamed.put(TurnSignal.CHECK_PENDING)

    def _end_event(self, streamed: StreamedTurn, **what: Any) -> Event:
        """Return an event of our own that ends a turn."""
        return Event(
            author=self._services.runner.agent_name,
            invocation_id=streamed.turn.invocation,
            custom_metadata=add_stamp(None, streamed.run.stamp),
            **what,
        )

    async def attempt(self, step: Coroutine[Any, Any, None]) -> None:
        """Await one step of the end; a store that does not answer does not keep the conversation from ending."""
        try:
            await step
        except RequestError as error:
            logger.warning("the end of the conversation in chat %s: %s", self.key.chat, error.message)

    async def park(self, streamed: StreamedTurn) -> None:
        """Park the held calls of a turn once its run has ended: the session is as if ADK had paused."""
        await streamed.run.done.wait()
        async with self._parking:
            # The connection may be lost while the conversation ends.
            if streamed not in self._parked:
                await self.attempt(self._park_asked(streamed))
                self._parked.add(streamed)

    async def _park_asked(self, streamed: StreamedTurn) -> None:
        """Store a placeholder response for each call that waits for approval: the model reads no unanswered call."""
        waiting = streamed.run.encoder.pending_calls()
        asked = [
            (call.id, call.name) for call in waiting if call.approval_id and call.id not in streamed.parked_approved
        ]
        if asked:
            await self._store_placeholders(streamed, asked)

    async def _store_placeholders(self, streamed: StreamedTurn, calls: Sequence[tuple[str, str]]) -> Event:
        event = placeholder_event(calls, streamed.turn.invocation, streamed.run.stamp)
        await self._services.runner.append(self.key, [event])
        return event


def _is_answerable(streamed: StreamedTurn) -> bool:
    """Return True if answers can continue the turn later: then it has not failed."""
    return any(call.is_answerable for call in streamed.run.encoder.pending_calls())


async def _wake_on_abort(abort: asyncio.Event, streamed: StreamedTurn) -> None:
    await abort.wait()
    streamed.put(TurnSignal.CHECK_PENDING)
