"""What is left of a server that was killed: its runs are ended honestly, so that stream and history say the same."""

import contextlib
import logging
from collections.abc import Collection, Sequence

from adkwire.adk.events import LOST, Response, question_event, without_answers
from adkwire.adk.runner import content_of
from adkwire.adk.turns import Turn
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import OPEN, OVER, PendingCall, State
from adkwire.runs.chats import Chat
from adkwire.runs.ending import responses_of
from adkwire.runs.parts import Parts
from adkwire.runs.reconcile import RunEnd, last_metadata, reconcile
from adkwire.runs.run import new_id, said_before
from adkwire.runs.sealing import Sealing, paused
from adkwire.runs.views import calls_without_verdict, title_for
from adkwire.stores.base import ChatKey, Closed, RunHead, StreamLog
from adkwire.wire.breaks import decode_log
from adkwire.wire.chunks import Chunk, Error, Start
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.failures import SERVER_STOPPED, Failure
from adkwire.wire.profiles import encode_chunks

logger = logging.getLogger("adkwire")


class Recovery:
    """Ends the runs whose process is gone."""

    def __init__(self, parts: Parts, sealing: Sealing) -> None:
        self._parts = parts
        self._sealing = sealing

    async def close_crashed(self, key: ChatKey, chat: Chat, told: Sequence[Turn]) -> bool:
        """End the runs of a chat whose process is gone; says whether there was one. The chat must be ours."""
        crashed = [head for head in await self._parts.log.unclosed(*key) if chat.find(head.run) is None]
        stored = {turn.message_id: turn for turn in told}
        # What was not heard goes last: if it is said again, all that stands behind it is taken back with it.
        for head in sorted(crashed, key=lambda head: head.message not in stored):
            turn = stored.get(head.message) or await self._unheard(key, chat, head, told)
            await self._close(key, head, turn)
            logger.warning("run %s in chat %s was cut off when its server ended; it is closed", head.run, key.chat)
        return bool(crashed)

    async def _close(self, key: ChatKey, head: RunHead, turn: Turn) -> None:
        calls = {call.call: call for call in await self._parts.gate.calls(*key)}
        entries = await _all_of(self._parts.log, head)
        closing = self._closing(turn, _as_one(entries, head.before), calls.values())
        retryable = {call.call for call in calls.values() if call.can_be_retried}
        await self._parts.runner.append(key, without_answers(closing.events, retryable))
        with contextlib.suppress(Closed):
            # Unless somebody has ended it meanwhile, or its own writer is about to.
            await self._parts.log.append(head.run, encode_chunks([*_start_of(head, entries), *closing.tail]))
            await self._parts.log.close(head.run)

    def _closing(self, turn: Turn, entries: Sequence[bytes] | None, calls: Collection[PendingCall]) -> RunEnd:
        """How it ends. What cannot be understood must not keep the chat from being used."""
        error = Error(error_text=self._parts.explain(Failure(SERVER_STOPPED, "")))
        try:
            shown = decode_log(entries or ())
            closing = reconcile(turn, shown, _known(turn, calls), self._parts.explain, self._parts.runner.agent_name)
        except Exception:
            logger.exception("what a server that was killed has left of message %s cannot be read", turn.message_id)
            return RunEnd([], [error])
        # Of a stream whose beginning is no longer kept nobody can say what is missing.
        return closing if entries is not None else RunEnd(closing.events, [*last_metadata(closing.tail), error])

    async def _unheard(self, key: ChatKey, chat: Chat, head: RunHead, told: Sequence[Turn]) -> Turn:
        """The turn of a message that did not reach the agent: it is not lost, and can be sent again.

        It takes back what waits, as its own run was about to.
        """
        turn, message = (
            Turn(head.message, head.user_message, new_id("e")),
            said_before(head, await self._parts.log.question(head.run)),
        )
        before = [old for old in told if old.user_id == head.user_message]
        if message is None or not all(old.never_reached_agent and old is told[-1] for old in before):
            return turn
        for old in before:
            await self._parts.runner.rewind(key, old.invocation_id)
        await self._sealing.supersede(key, chat)
        await self._parts.runner.create(key, title=title_for(message), created=self._parts.clock())
        turn.user_event = question_event(content_of(message), turn.invocation_id, turn.stamp)
        await self._parts.runner.append(key, [turn.user_event])
        return turn


def _known(turn: Turn, calls: Collection[PendingCall]) -> dict[str, Response]:
    """What is known of a turn's calls; one that seems to wait and is not at the gate can never be answered."""
    at_gate = {call.call for call in calls}
    lost: dict[str, Response] = {
        call.id: {"error": LOST} for call in paused(turn).pending_calls() if call.id not in at_gate
    }
    return {**responses_of(calls), **lost}


async def _all_of(log: StreamLog, head: RunHead) -> list[bytes] | None:
    """The entries of a run, with what its message held before; None when not all of them are kept."""
    first, found = -head.before, list[bytes]()
    while (batch := await log.read(head.run, first - 1, 0)) is not None and batch.entries:
        if batch.first != first:
            return None
        found += batch.entries
        first = batch.first + len(batch.entries)
    return found


def _as_one(entries: list[bytes] | None, before: int) -> list[bytes] | None:
    """What somebody who comes with nothing is shown: the run's own `start` is left out behind what was before."""
    return entries[:before] + entries[before + 1 :] if entries is not None and before else entries


def _start_of(head: RunHead, entries: list[bytes] | None) -> list[Chunk]:
    """The run's own `start`, where it did not come to write it and nothing else would."""
    return [Start(message_id=head.message)] if head.before and len(entries or ()) == head.before else []


async def recover_calls(gate: ToolGate, key: ChatKey, encoder: Encoder | None) -> None:
    """Bring the records of calls that a dead process left into a state that is true now.

    `encoder` has read the last turn of the chat; None when there is none.
    """
    waiting = {call.id for call in encoder.pending_calls()} if encoder is not None else set[str]()
    unsettled = {call for call, _ in encoder.unsettled_calls()} if encoder is not None else set[str]()
    asked = calls_without_verdict(encoder) if encoder is not None else set[str]()
    for call in await gate.calls(*key):
        if call.worker == gate.worker or call.state in OVER:
            continue
        if call.state not in OPEN and call.call not in unsettled:
            ran = "executed" if call.state is State.EXECUTING else "not executed"
            await gate.finish(*key, call.call, "answered" if call.browser else ran)
        elif call.state is State.EXECUTING or (call.executes and call.call not in asked):
            await gate.abandon(*key, call.call, "interrupted")
        elif call.state is State.ANSWERED and call.call in asked and not (call.answer and call.answer.has_output):
            await gate.reopen(call)
        elif call.state is State.ANSWERED and not call.browser:
            await gate.finish(*key, call.call, "not executed")
        elif call.state in OPEN and call.call not in waiting:
            await gate.abandon(*key, call.call, "interrupted")
        elif call.state in OPEN and call.live:
            await gate.park(call)
