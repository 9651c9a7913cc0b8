"""Calls of a live conversation, as the plugin meets them: where each belongs to, and how what it says is shown."""

import asyncio
from typing import Any

from google.adk.events.event import Event
from google.genai import types

from adkwire.gate.gate import ToolGate
from adkwire.runs.adk import Adk
from adkwire.runs.audience import Audience
from adkwire.runs.carried import Carried, Floor, Offer
from adkwire.runs.gated import Place
from adkwire.runs.history import marked
from adkwire.runs.live_turns import calls_in
from adkwire.runs.own_events import inner_event
from adkwire.runs.sessions import ChatKey


class LiveCalls:
    """The `Holder` of a conversation's calls."""

    def __init__(self, key: ChatKey, adk: Adk, floor: Floor, audience: Audience) -> None:
        self.key = key
        self._audience = audience
        self._adk = adk
        self._floor = floor
        self._announced: dict[str, asyncio.Event] = {}
        self._inside: dict[str, Carried] = {}
        """Calls of agents inside tools."""
        self._untold: dict[str, dict[str, Any]] = {}
        """What came of those of them that could not be shown."""

    def shown(self, event: Event) -> None:
        """An event was shown: now its calls may be asked about."""
        for call in calls_in(event):
            self._announced.setdefault(call, asyncio.Event()).set()

    def forget(self) -> None:
        """The connection is gone, and with it all who wait here."""
        for event in self._announced.values():
            event.set()
        self._announced.clear()

    async def end_inside(self, carried: Carried, gate: ToolGate, why: str) -> list[Event]:
        """A turn ends, and an agent inside a tool cannot be gone on with: what it waits for is over."""
        ends: list[Event] = []
        for call in [call for call, of in self._inside.items() if of is carried]:
            del self._inside[call]
            given = self._untold.pop(call, None) or await carried.run.fate(gate, call, why)
            end = self._inner(carried, "", _response(call, given))
            await self._adk.append(self.key, [inner_event(end)])
            ends.append(end)
        return ends

    def now(self) -> float:
        """The time of something that is shown and not stored."""
        return self._floor.turns.now()

    def invocation(self, call: str) -> str | None:
        """The turn of a call, as an invocation of its own."""
        turn = self._floor.turns.of_call(call)
        return turn.invocation if turn is not None else None

    async def place(self, call: str) -> Place | None:
        """Where a call belongs to, once it was shown."""
        turns = self._floor.turns
        turn = turns.of_call(call) if call else turns.current
        if turn is None or turn.cut:
            return None
        if call:
            await self._announced.setdefault(call, asyncio.Event()).wait()
            self._announced.pop(call, None)
        carried = self._floor.carried.get(turn.message)
        if carried is None or turn.cut:
            return None
        return Place(self.key, turn.message, turn.invocation, None, carried.run.mark)

    async def show(self, call: str, event: Event) -> None:
        """Store an event about a call and show it."""
        if (carried := self._of(call)) is not None:
            carried.run.delivers |= {call}
        await self._adk.append(self.key, [inner_event(event) if call in self._inside else event])
        if carried is not None:
            await carried.show(event)

    async def offer(self, call: str) -> None:
        """Let the browser have a call."""
        if (carried := self._of(call)) is not None:
            carried.run.delivers |= {call}
            await carried.show(Offer(call))

    def shape(self, call: str, shape: dict[str, Any]) -> None:
        """Note what is to be stamped on the response of a call."""
        self._floor.turns.outputs[call] = shape

    @property
    def can_ask_inside(self) -> bool:
        """Whether somebody could answer an agent inside a tool: a stock client cannot, while that tool runs."""
        return any(listener.talks for listener in self._audience.listeners)

    async def inside(self, call: types.FunctionCall, author: str, *, browser: bool) -> None:
        """Show a call of an agent inside a tool, which the session does not have."""
        carried = self._floor.current
        if carried is not None and call.id is not None:
            self._inside[call.id] = carried
            event = self._inner(carried, author, types.Part(function_call=call))
            event.long_running_tool_ids = {call.id} if browser else set()
            await self.show(call.id, event)

    async def done_inside(self, call: str, response: dict[str, Any]) -> None:
        """Show what came of it."""
        carried = self._inside.get(call)
        if carried is not None:
            self._untold[call] = response
            await self.show(call, self._inner(carried, "", _response(call, response)))
            del self._untold[call]
            self._inside.pop(call, None)

    def _of(self, call: str) -> Carried | None:
        return self._inside.get(call) or self._floor.of_call(call)

    def _inner(self, carried: Carried, author: str, part: types.Part) -> Event:
        return Event(
            author=author or self._adk.agent_name,
            invocation_id=carried.turn.invocation,
            content=types.Content(role="model", parts=[part]),
            custom_metadata=marked(None, carried.run.mark),
        )


def _response(call: str, response: dict[str, Any]) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=call, name="", response=response))
