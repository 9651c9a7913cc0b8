"""A turn of a live conversation and the run that shows it, with what is on the way from one to the other."""

import asyncio
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from google.adk.events.event import Event

from adkwire.runs.live_turns import LiveTurn, LiveTurns
from adkwire.runs.run import Run
from adkwire.runs.speeches import Cut, Speeches


class Item(NamedTuple):
    """Something for a run to show: an event, a call for the browser, a cut in what is said, or its end."""

    event: Event | None = None
    offer: str | None = None
    hush: bool = False
    end: Literal["over", "interrupted"] | None = None
    error: Exception | None = None
    shown: "asyncio.Future[None] | None" = None


@dataclass(eq=False)
class Carried:
    """A turn and the run that shows it."""

    turn: LiveTurn
    run: Run
    inbox: "asyncio.Queue[Item]" = field(default_factory=lambda: asyncio.Queue[Item]())
    early: set[str] = field(default_factory=set[str])
    """Events that were shown before they came here, since the turn had to end."""
    awaited: frozenset[str] = frozenset()
    """The calls that somebody was asked to act on, when a response could end last."""
    speeches: Speeches = field(default_factory=Speeches)
    cut: Cut | None = None
    """What was heard of what is being said, when that is less."""

    async def show(self, item: Item) -> None:
        """Have something shown, and wait until it is."""
        done = asyncio.get_running_loop().create_future()
        self.inbox.put_nowait(item._replace(shown=done))
        ended = asyncio.ensure_future(self.run.done.wait())
        try:
            await asyncio.wait([done, ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()


@dataclass
class Floor:
    """The turns of a conversation, and those of them that are being shown, by their message."""

    turns: LiveTurns = field(default_factory=LiveTurns)
    carried: dict[str, Carried] = field(default_factory=dict[str, Carried])

    @property
    def current(self) -> Carried | None:
        """What is being shown."""
        turn = self.turns.current
        return self.carried.get(turn.message) if turn is not None else None

    def of_call(self, call: str) -> Carried | None:
        """What a call is part of."""
        turn = self.turns.of_call(call)
        return self.carried.get(turn.message) if turn is not None else None
