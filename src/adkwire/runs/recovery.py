"""Recovery: end the runs and correct the records of a process that died, so that stream and history agree."""

import contextlib
import logging
from collections.abc import Collection, Sequence

from adkwire.adk.events import LOST, Response, user_message_event, without_responses
from adkwire.adk.runner import content_of
from adkwire.adk.turns import Turn
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import OPEN, OVER, CallRecord, State
from adkwire.runs.chats import Chat
from adkwire.runs.ending import responses_of
from adkwire.runs.reconcile import RunEnd, last_metadata, reconcile
from adkwire.runs.run import decode_user_message, new_id
from adkwire.runs.sealing import Sealing, paused_encoder
from adkwire.runs.services import RunServices
from adkwire.runs.views import calls_without_verdict, title_for
from adkwire.stores.base import ChatKey, Closed, RunHead, StreamLog
from adkwire.wire.breaks import decode_log
from adkwire.wire.chunks import Chunk, Error, Start
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.failures import SERVER_STOPPED, Failure
from adkwire.wire.profiles import encode_chunks

logger = logging.getLogger("adkwire")


class Recovery:
    """Ends the runs whose process has died."""

    def __init__(self, services: RunServices, sealing: Sealing) -> None:
        self._services = services
        self._sealing = sealing

    async def close_crashed(self, key: ChatKey, chat: Chat, turns: Sequence[Turn]) -> bool:
        """End the runs of a chat whose process has died; return True if there was one.

        `turns` are those of the session. This worker must own the chat.
        """
        crashed = [head for head in await self._services.log.unclosed(*key) if chat.find(head.run) is None]
        stored = {turn.message_id: turn for turn in turns}
        # Undelivered messages go last: a rewind to one of them, when it is sent again, removes everything after it.
        for head in sorted(crashed, key=lambda head: head.message not in stored):
            turn = stored.get(head.message) or await self._store_undelivered(key, chat, head, turns)
            await self._close(key, head, turn)
            logger.warning("run %s in chat %s was cut off when its server ended; it is closed", head.run, key.chat)
        return bool(crashed)

    async def _close(self, key: ChatKey, head: RunHead, turn: Turn) -> None:
        calls = [call for call in await self._services.gate.calls(*key) if call.message == head.message]
        entries = await _entries_of(self._services.log, head)
        ending = self._reconcile(turn, _with_one_start(entries, head.before), calls)
        retryable = {call.call for call in calls if call.can_be_retried}
        await self._services.runner.append(key, without_responses(ending.events, retryable))
        with contextlib.suppress(Closed):
            # Its own writer may have closed it meanwhile, or another worker.
            await self._services.log.append(head.run, encode_chunks([*_missing_start(head, entries), *ending.tail]))
            await self._services.log.close(head.run)

    def _reconcile(self, turn: Turn, entries: Sequence[bytes] | None, calls: Collection[CallRecord]) -> RunEnd:
        """Return how a run ends: with an error if its stream cannot be read, so that the chat can still be used."""
        error = Error(error_text=self._services.explain(Failure(SERVER_STOPPED, "")))
        try:
            logged = decode_log(entries or ())
            responses = _known_responses(turn, calls)
            ending = reconcile(turn, logged, responses, self._services.explain, self._services.runner.agent_name)
        except Exception:
            logger.exception("message %s of a server that was killed cannot be read", turn.message_id)
            return RunEnd([], [error])
        # Without the beginning of the stream its missing chunks cannot be found.
        return ending if entries is not None else RunEnd(ending.events, [*last_metadata(ending.tail), error])

    async def _store_undelivered(self, key: ChatKey, chat: Chat, head: RunHead, turns: Sequence[Turn]) -> Turn:
        """Store a user message that did not reach the agent, so that it can be sent again; return its turn.

        Pending calls are superseded, as the run would have done. A message that the log did not keep is not stored.
        """
        turn = Turn(head.message, head.user_message, new_id("e"))
        message = decode_user_message(head, await self._services.log.user_message(head.run))
        before = [old for old in turns if old.user_id == head.user_message]
        if message is None or not all(old.never_reached_agent and old is turns[-1] for old in before):
            return turn
        for old in before:
            await self._services.runner.rewind(key, old.invocation_id)
        await self._sealing.supersede(key, chat)
        await self._services.runner.create(key, title=title_for(message), created=self._services.clock())
        turn.user_event = user_message_event(content_of(message), turn.invocation_id, turn.stamp)
        await self._services.runner.append(key, [turn.user_event])
        return turn


def _known_responses(turn: Turn, calls: Collection[CallRecord]) -> dict[str, Response]:
    """Return the responses to a turn's calls that are over, and to pending ones that are not among its records `calls`.

    Nobody can answer the latter.
    """
    at_gate = {call.call for call in calls}
    lost: dict[str, Response] = {
        call.id: {"error": LOST} for call in paused_encoder(turn).pending_calls() if call.id not in at_gate
    }
    return {**responses_of(calls), **lost}


async def _entries_of(log: StreamLog, head: RunHead) -> list[bytes] | None:
    """Return the entries of a run, with what its message held before; None when not all of them are kept."""
    first, found = -head.before, list[bytes]()
    while (batch := await log.read(head.run, first - 1, 0)) is not None and batch.entries:
        if batch.first != first:
            return None
        found += batch.entries
        first = batch.first + len(batch.entries)
    return found


def _with_one_start(entries: list[bytes] | None, before: int) -> list[bytes] | None:
    """Return the entries as one stream: without the run's own `start` behind what the message held before."""
    return entries[:before] + entries[before + 1 :] if entries is not None and before else entries


def _missing_start(head: RunHead, entries: list[bytes] | None) -> list[Chunk]:
    """Return the run's own `start` if its process died before it was written behind what the message held before."""
    return [Start(message_id=head.message)] if head.before and len(entries or ()) == head.before else []


async def recover_calls(gate: ToolGate, key: ChatKey, encoder: Encoder | None) -> None:
    """Correct the gate's records of calls that belonged to a process that died.

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
        elif call.state is State.EXECUTING or (call.is_claimable and call.call not in asked):
            await gate.abandon(*key, call.call, "interrupted")
        elif call.state is State.ANSWERED and call.call in asked and not (call.answer and call.answer.has_output):
            await gate.reopen(call)
        elif call.state is State.ANSWERED and not call.browser:
            await gate.finish(*key, call.call, "not executed")
        elif call.state in OPEN and call.call not in waiting:
            await gate.abandon(*key, call.call, "interrupted")
        elif call.state in OPEN and call.live:
            await gate.park(call)
