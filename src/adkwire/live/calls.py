"""The calls of a live conversation for the gate plugin: the turn of each, and how events about it are shown."""

import asyncio
from typing import Any

from google.adk.events.event import Event
from google.genai import types

from adkwire.adk.call_records import CallOrigin
from adkwire.adk.events import inner_event
from adkwire.adk.runner import AgentRunner
from adkwire.adk.stamps import add_stamp
from adkwire.gate.gate import ToolGate
from adkwire.gate.records import VoidReason
from adkwire.live.listeners import Listeners
from adkwire.live.streamed_turn import ConversationTurns, OfferedCall, StreamedTurn
from adkwire.live.turn_router import RoutedTurn, calls_in
from adkwire.runs.ending import response_to_unfinished
from adkwire.stores.base import ChatKey


class LiveCalls:
    """The `HoldingRun` of a conversation's calls."""

    def __init__(self, key: ChatKey, adk: AgentRunner, turns: ConversationTurns, listeners: Listeners) -> None:
        self.key = key
        self._listeners = listeners
        self._adk = adk
        self._turns = turns
        self._announced: dict[RoutedTurn, dict[str, asyncio.Event]] = {}
        """By turn and call, an event that is set once the call was shown. Each turn's are dropped when it ends."""

    def shown(self, turn: RoutedTurn, event: Event) -> None:
        """Note that an event was shown: now its calls may be asked about."""
        for call in calls_in(event):
            self._announcement(turn, call).set()

    def end_turn(self, turn: RoutedTurn) -> None:
        """Drop what is kept for the calls of a turn that has ended. What waits for one of them to be shown goes on."""
        for event in self._announced.pop(turn, {}).values():
            event.set()

    def end_all_turns(self) -> None:
        """Drop what is kept for the calls of all turns: the connection is closed."""
        for turn in list(self._announced):
            self.end_turn(turn)

    async def end_inner_calls(self, streamed: StreamedTurn, gate: ToolGate, why: VoidReason) -> list[Event]:
        """End the unanswered calls of agents inside tools with their turn: no later run can continue such an agent."""
        ends: list[Event] = []
        for call in list(streamed.inner_calls):
            response = streamed.inner_calls.pop(call, None) or await response_to_unfinished(
                gate, streamed.run.key, streamed.run.message_id, call, why
            )
            end = self._inner_event(streamed, "", _response(call, response))
            await self._store(end, inner=True)
            ends.append(end)
        return ends

    def invocation(self, call: str) -> str | None:
        """Return the invocation id of the turn of a call."""
        turn = self._turns.router.of_call(call)
        return turn.invocation if turn is not None else None

    async def origin(self, call: str) -> CallOrigin | None:
        """Return where a call was made, once it was shown; None if its turn was cut or has ended."""
        router = self._turns.router
        turn = router.of_call(call) if call else router.current
        if turn is None or turn.cut:
            return None
        if call and not await self._is_shown(turn, call):
            return None
        streamed = self._turns.streamed.get(turn.message)
        if streamed is None or turn.cut:
            return None
        return CallOrigin(self.key, turn.message, turn.invocation, None, streamed.run.stamp)

    async def _is_shown(self, turn: RoutedTurn, call: str) -> bool:
        """Wait until a call was shown; return False if the run of its turn has ended already."""
        if turn.streamed and turn.message not in self._turns.streamed:
            return False
        try:
            await self._announcement(turn, call).wait()
        finally:
            self._announced.get(turn, {}).pop(call, None)
        return True

    def _announcement(self, turn: RoutedTurn, call: str) -> asyncio.Event:
        return self._announced.setdefault(turn, {}).setdefault(call, asyncio.Event())

    async def show(self, call: str, event: Event) -> None:
        """Store an event about a call and show it."""
        if (streamed := self._streamed_turn_of(call)) is not None:
            streamed.run.delivers |= {call}
        await self._store(event, inner=streamed is not None and call in streamed.inner_calls)
        if streamed is not None:
            await streamed.show(event)

    async def _store(self, event: Event, *, inner: bool) -> None:
        stored = inner_event(event) if inner else event
        await self._adk.append(self.key, [stored])
        event.timestamp = stored.timestamp

    async def offer(self, call: str) -> None:
        """Offer a call to the browser."""
        if (streamed := self._streamed_turn_of(call)) is not None:
            streamed.run.delivers |= {call}
            await streamed.show(OfferedCall(call))

    def stamp_output(self, call: str, stamp: dict[str, Any]) -> None:
        """Stamp the response of a call with `stamp` when it is stored."""
        self._turns.router.stamp_output(call, stamp)

    @property
    def can_ask_inner(self) -> bool:
        """True if a listener could answer an agent inside a tool: a stock client cannot while that tool runs."""
        return any(listener.knows_live_frames for listener in self._listeners.all)

    async def show_inner_call(self, call: types.FunctionCall, author: str, *, browser: bool) -> None:
        """Store and show a call of an agent inside a tool: ADK does not store it in this session."""
        streamed = self._turns.current
        if streamed is not None and call.id is not None:
            streamed.inner_calls[call.id] = None
            event = self._inner_event(streamed, author, types.Part(function_call=call))
            event.long_running_tool_ids = {call.id} if browser else set()
            await self.show(call.id, event)

    async def show_inner_result(self, call: str, response: dict[str, Any]) -> None:
        """Store and show the result of such a call."""
        streamed = self._streamed_turn_of(call)
        if streamed is not None and call in streamed.inner_calls:
            streamed.inner_calls[call] = response
            await self.show(call, self._inner_event(streamed, "", _response(call, response)))
            streamed.inner_calls.pop(call, None)

    def _streamed_turn_of(self, call: str) -> StreamedTurn | None:
        """Return the turn that a call is part of, also if an agent inside a tool made it."""
        turns = (streamed for streamed in self._turns.streamed.values() if call in streamed.inner_calls)
        return next(turns, None) or self._turns.of_call(call)

    def _inner_event(self, streamed: StreamedTurn, author: str, part: types.Part) -> Event:
        return Event(
            author=author or self._adk.agent_name,
            invocation_id=streamed.turn.invocation,
            content=types.Content(role="model", parts=[part]),
            custom_metadata=add_stamp(None, streamed.run.stamp),
        )


def _response(call: str, response: dict[str, Any]) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=call, name="", response=response))
