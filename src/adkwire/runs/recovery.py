"""What is left of a server that was killed: its runs are ended honestly, so that stream and history say the same."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from adkwire.gate.gate import ToolGate
from adkwire.gate.records import PendingCall
from adkwire.runs.adk import Adk, content_of
from adkwire.runs.chats import Chat
from adkwire.runs.crashed import Closing, closing_of
from adkwire.runs.history import Turn
from adkwire.runs.ids import new_id
from adkwire.runs.own_events import LOST, Response, question_event, without_answers
from adkwire.runs.parked import responses_of
from adkwire.runs.run import said_before
from adkwire.runs.sessions import ChatKey
from adkwire.runs.views import title_for
from adkwire.stores.base import Closed, RunHead, StreamLog
from adkwire.wire.breaks import chunks_in
from adkwire.wire.chunks import Chunk, Error, Start
from adkwire.wire.encoder import Encoder
from adkwire.wire.failures import SERVER_STOPPED, Explain, Failure
from adkwire.wire.profiles import encode_chunks

logger = logging.getLogger("adkwire")


@dataclass
class Recovery:
    """Ends the runs that nobody writes any more."""

    adk: Adk
    gate: ToolGate
    log: StreamLog
    explain: Explain
    clock: Callable[[], float]
    supersede: Callable[[ChatKey, Chat], Awaitable[None]]
    """Answers the calls that the turns of a chat have left."""

    async def close_crashed(self, key: ChatKey, chat: Chat, told: Sequence[Turn]) -> bool:
        """End the runs of a chat whose process is gone; says whether there was one. The chat must be ours."""
        crashed = [head for head in await self.log.unclosed(*key) if chat.find(head.run) is None]
        stored = {turn.message_id: turn for turn in told}
        # What was not heard goes last: if it is said again, all that stands behind it is taken back with it.
        for head in sorted(crashed, key=lambda head: head.message not in stored):
            turn = stored.get(head.message) or await self._unheard(key, chat, head, told)
            await self._close(key, head, turn)
            logger.warning("run %s in chat %s was cut off when its server ended; it is closed", head.run, key.chat)
        return bool(crashed)

    async def _close(self, key: ChatKey, head: RunHead, turn: Turn) -> None:
        calls = {call.call: call for call in await self.gate.of(*key)}
        entries = await _all_of(self.log, head)
        closing = self._closing(turn, _as_one(entries, head.before), calls.values())
        retryable = {call.call for call in calls.values() if call.can_be_retried}
        await self.adk.append(key, without_answers(closing.events, retryable))
        with contextlib.suppress(Closed):
            # Unless somebody has ended it meanwhile, or its own writer is about to.
            await self.log.append(head.run, encode_chunks([*_start_of(head, entries), *closing.tail]))
            await self.log.close(head.run)

    def _closing(self, turn: Turn, entries: Sequence[bytes] | None, calls: Collection[PendingCall]) -> Closing:
        """How it ends. What cannot be understood must not keep the chat from being used."""
        error = Error(error_text=self.explain(Failure(SERVER_STOPPED, "")))
        try:
            shown = chunks_in(entries or ())
            closing = closing_of(turn, shown, _known(turn, calls), self.explain, self.adk.agent_name)
        except Exception:
            logger.exception("what a server that was killed has left of message %s cannot be read", turn.message_id)
            return Closing([], [error])
        # Of a stream whose beginning is no longer kept nobody can say what is missing.
        return closing if entries is not None else Closing(closing.events, [error])

    async def _unheard(self, key: ChatKey, chat: Chat, head: RunHead, told: Sequence[Turn]) -> Turn:
        """The turn of a message that did not reach the agent: it is not lost, and can be sent again.

        It takes back what waits, as its own run was about to.
        """
        turn, message = Turn(head.message, head.said, new_id("e")), said_before(head, await self.log.question(head.run))
        before = [old for old in told if old.user_id == head.said]
        if message is None or not all(old.is_unheard and old is told[-1] for old in before):
            return turn
        for old in before:
            await self.adk.rewind(key, old.invocation_id)
        await self.supersede(key, chat)
        await self.adk.create(key, title=title_for(message), created=self.clock())
        turn.asked = question_event(content_of(message), turn.invocation_id, turn.mark)
        await self.adk.append(key, [turn.asked])
        return turn


def paused(turn: Turn) -> Encoder:
    """An encoder that has read a turn that nobody writes any more."""
    encoder, _ = turn.encoder()
    encoder.pause()
    return encoder


def _known(turn: Turn, calls: Collection[PendingCall]) -> dict[str, Response]:
    """What is known of a turn's calls; one that seems to wait and is not at the gate can never be answered."""
    at_gate = {call.call for call in calls}
    lost: dict[str, Response] = {call.id: {"error": LOST} for call in paused(turn).waiting() if call.id not in at_gate}
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
