"""A turn of a live conversation and the run that shows it, with what is on the way from one to the other."""

import asyncio
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

from google.adk.events.event import Event

from adkwire.runs.live_turns import LiveTurn, LiveTurns
from adkwire.runs.run import Run
from adkwire.runs.speeches import Cut, Speeches


class Offer(NamedTuple):
    """A call that the browser may have."""

    call: str


class Sign(Enum):
    """What is neither an event nor a call."""

    LOOK = "somebody may be waited for now"
    HUSH = "what is being said is cut off"
    OVER = "the turn is over"
    INTERRUPTED = "the turn is over, in the middle of what was being said"

    @property
    def ends(self) -> bool:
        """Whether it is the last."""
        return self in (Sign.OVER, Sign.INTERRUPTED)


Step: TypeAlias = Event | Offer | Sign | Exception
"""Something for a run to show, or what it fails with."""
_Steps: TypeAlias = asyncio.Queue[tuple[Step, "asyncio.Future[None] | None"]]


@dataclass(eq=False)
class Carried:
    """A turn and the run that shows it."""

    turn: LiveTurn
    run: Run
    inbox: _Steps = field(default_factory=_Steps)
    """Steps to show, and what is to be told when that is done."""
    early: set[str] = field(default_factory=set[str])
    """Events that were shown before they came here, since the turn had to end."""
    awaited: frozenset[str] = frozenset()
    """The calls that somebody was asked to act on, when a response could end last."""
    left: frozenset[str] = frozenset()
    """Approved calls that it left before they began."""
    speeches: Speeches = field(default_factory=Speeches)
    cut: Cut | None = None
    """What was heard of what is being said, when that is less."""

    def put(self, step: Step) -> None:
        """Have something shown."""
        self.inbox.put_nowait((step, None))

    async def show(self, step: Step) -> None:
        """Have something shown, and wait until it is."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.inbox.put_nowait((step, done))
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
