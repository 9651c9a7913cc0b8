"""The end of a run: the events that ADK did not store, and the last chunks of the stream."""

import contextlib
import logging
from collections.abc import Collection, Generator, Iterable
from typing import TYPE_CHECKING

from google.adk.events.event import Event

from adkwire.adk.events import (
    LOST,
    CallsWithoutResponse,
    Response,
    ending_event,
    is_released,
    not_executed_text,
    partial_event,
    response_if_over,
)
from adkwire.adk.runner import AgentRunner
from adkwire.adk.turns import Turn
from adkwire.errors import RequestError
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import OPEN, OVER, CallRecord, State, VoidReason
from adkwire.stores.base import ChatKey
from adkwire.wire.chunks import Chunk
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.tool_calls import UNFINISHED

if TYPE_CHECKING:
    from adkwire.runs.run import Run

logger = logging.getLogger("adkwire")


class RunEnding:
    """Makes session and stream agree on how a run ended."""

    def __init__(self, run: "Run", adk: AgentRunner, gate: ToolGate) -> None:
        self._run = run
        self._adk = adk
        self._gate = gate
        self._chunks: list[Chunk] = []
        """Chunks of stored events that are not in the stream yet."""

    async def store(self, cut: BaseException | None) -> None:
        """Store the events that ADK did not: text that was sent, sealed calls, and why the run ended.

        `cut` is the exception that ended the run; None when ADK had no more events.
        """
        for event in await self._last_events(cut) if self._run.invocation else ():
            await self._adk.append(self._run.key, [event])
            self._chunks += self._run.encoder.feed(event)

    def last_chunks(self, cut: BaseException | None) -> list[Chunk]:
        """Return the chunks that end the stream."""
        for event in self._reason(cut):
            self._chunks += self._run.encoder.feed(event)
        return [*self._chunks, *self._run.encoder.end()]

    async def _last_events(self, cut: BaseException | None) -> list[Event]:
        run, encoder = self._run, self._run.encoder
        is_cut = run.stopping or encoder.aborted or (cut or encoder.failure) is not None
        unsaved = encoder.unsaved()
        events = [partial_event(each, run.invocation, run.stamp, cut=is_cut) for each in unsaved]
        return events + await self._seals() + self._reason(cut)

    async def _seals(self) -> list[Event]:
        """Return responses to the calls that were executing and, when the run was stopped, to its pending calls."""
        run, encoder, gate = self._run, self._run.encoder, self._gate
        responses: dict[str, Response] = {}
        # Read once: for a stop that comes from here on, the run has ended by itself.
        stopped = run.stopping
        reason: VoidReason = run.why if stopped else "failed"
        returned: set[str] = set()
        for call, _ in encoder.running_calls():
            result = self._adk.result_of(run.invocation, call)
            if result is not None:
                returned.add(call)
            responses[call] = result or await response_to_unfinished(gate, run.key, run.message_id, call, reason)
        with _store_may_be_away():
            if stopped:
                responses |= responses_of(await gate.void(*run.key, reason))
                responses |= await responses_at_gate(gate, run.key, encoder, responses)
            for call in () if stopped else encoder.pending_calls():
                if await record_of(gate, run.key, run.message_id, call.id) is None:
                    responses[call.id] = {"error": LOST}
            for call in run.delivers - ({call for call, _ in encoder.unsettled_calls()} - returned):
                await self._close_record(call)
        return run.unanswered_calls().sealed(responses, otherwise=not_executed_text(reason) if stopped else None)

    async def _close_record(self, call: str) -> None:
        """Close the gate's record of a call that has its response in the session.

        The record is still open when the gate's store was away, when a stop came first, or when another plugin, or
        ours because a store was away, has answered the call before it began.
        """
        key, gate = self._run.key, self._gate
        record = await record_of(gate, key, self._run.message_id, call)
        if record is None or record.state in OVER:
            return
        if record.state is State.EXECUTING:
            await gate.finish(*key, call, "executed")
        elif record.state in OPEN or record.retried:
            await gate.abandon(*key, call, "interrupted")
        else:
            await gate.finish(*key, call, "answered" if is_released(record) else "not executed")

    def _reason(self, cut: BaseException | None) -> list[Event]:
        """Return the event that says what cut the run off, unless the encoder has read one already."""
        run = self._run
        if cut is None or run.encoder.failure is not None or run.encoder.aborted:
            return []
        return [ending_event(cut, run.author, run.invocation, run.stamp)]


async def record_of(gate: ToolGate, key: ChatKey, message: str, call: str) -> CallRecord | None:
    """Return the record of a message's call; None if it has none yet.

    Some models number their calls anew in each answer. Until a call has its own record, its id may find that of a call
    of an older message, which says nothing about this one.
    """
    record = await gate.get(*key, call)
    return record if record is not None and record.message == message else None


async def response_to_unfinished(gate: ToolGate, key: ChatKey, message: str, call: str, reason: VoidReason) -> Response:
    """Return the response to a call that was executing when its run ended. In doubt it may have been executed."""
    with _store_may_be_away():
        if await record_of(gate, key, message, call) is not None and not await gate.abandon(*key, call, reason):
            record = await gate.get(*key, call)
            return (response_if_over(record) if record is not None else None) or {"error": not_executed_text(reason)}
    return {"error": UNFINISHED}


async def responses_at_gate(
    gate: ToolGate, key: ChatKey, encoder: Encoder, answered: Collection[str]
) -> dict[str, Response]:
    """Return the responses to a message's calls that are over at the gate and that the agent has not got.

    Calls in `answered` have their response already.
    """
    left = [call for call, _ in encoder.unsettled_calls() if call not in answered]
    records = [await record_of(gate, key, encoder.message_id, call) for call in left]
    return responses_of(record for record in records if record is not None)


def responses_of(calls: Iterable[CallRecord]) -> dict[str, Response]:
    """Return what the agent reads about calls that are over and were not executed, with the outputs of browsers."""
    return {call.call: response for call in calls if (response := response_if_over(call)) is not None}


@contextlib.contextmanager
def _store_may_be_away() -> Generator[None, None, None]:
    """Log an error of the gate's store, so that it does not keep a run from ending."""
    try:
        yield
    except RequestError as error:
        logger.warning("the gate could not be read: %s", error.message)


def unanswered_calls_of(turn: Turn, encoder: Encoder) -> CallsWithoutResponse:
    """Return the calls of a stored turn that may have no answer: its process died, or it waits for one."""
    author = next((event.author for event in reversed(turn.events) if event.author != "user"), "")
    return CallsWithoutResponse(encoder, author, turn.invocation_id, turn.stamp)
