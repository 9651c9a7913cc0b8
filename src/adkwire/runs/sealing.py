"""Sealing: give every call that nobody will answer any more a synthetic result, at the gate and in the session."""

from collections.abc import Sequence

from google.adk.events.event import Event

from adkwire.adk.events import CallsWithoutResponse, not_executed_text
from adkwire.adk.turns import Turn
from adkwire.gate.records import VoidReason
from adkwire.runs.chats import Chat
from adkwire.runs.ending import responses_at_gate, responses_of, unanswered_calls_of
from adkwire.runs.services import RunServices
from adkwire.stores.base import ChatKey
from adkwire.wire.encode.encoder import Encoder


class Sealing:
    """Seals the calls of a chat. The chat must be owned by this worker."""

    def __init__(self, services: RunServices) -> None:
        self._services = services

    async def seal(self, key: ChatKey, chat: Chat, why: VoidReason) -> bool:
        """Void the pending calls of a chat and seal all its unanswered ones; return True if a call was pending."""
        gate = self._services.gate
        voided = await gate.void(*key, why)
        for call in await gate.executing(*key):
            # No run writes in this chat any more: the gate's store was away when the call's run ended.
            await gate.abandon(*key, call.call, why)
        responses = responses_of(voided)
        chat.collect_unanswered_calls()
        events: list[Event] = []
        for unanswered in chat.unanswered:
            # The run could not store these responses when its store was away.
            responses |= await responses_at_gate(gate, key, unanswered.encoder, responses)
            events += unanswered.sealed(responses, otherwise=not_executed_text(why))
        if events:
            await self._services.runner.append(key, events)
        chat.unanswered = []
        return bool(voided)

    async def supersede(self, key: ChatKey, chat: Chat) -> None:
        """Seal a chat for a user message of a process that died, unless a run of this process writes in the chat."""
        if not chat.loaded:
            chat.unanswered = unanswered_in(await self._services.runner.turns(key))
        if not chat.active:
            await self.seal(key, chat, "superseded")


def paused_encoder(turn: Turn) -> Encoder:
    """Return an encoder that has read a stored turn to its end, as if its run had paused there."""
    encoder, _ = turn.encoder()
    encoder.pause()
    return encoder


def last_delivered(turns: Sequence[Turn]) -> Turn | None:
    """Return the last turn that reached the agent: only that one can have left calls without answers."""
    return next((turn for turn in reversed(turns) if not turn.never_reached_agent), None)


def unanswered_in(turns: Sequence[Turn]) -> list[CallsWithoutResponse]:
    """Return the calls of the last turn that reached the agent, which may have no answers."""
    last = last_delivered(turns)
    return [unanswered_calls_of(last, paused_encoder(last))] if last is not None else []
