"""The turns of a live conversation that are being written, each with its run and what the run is still to show."""

import asyncio
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from google.adk.events.event import Event

from adkwire.live.playback import HeardText, TurnSound
from adkwire.live.turn_router import RoutedTurn, TurnRouter
from adkwire.runs.run import Run
from adkwire.tasks import Tasks

_CUT_TIMEOUT = 5.0
"""Seconds for a model to end a turn that was cut."""
_SILENCE_TIMEOUT = 5.0
"""Seconds after which a turn ends in which the model says nothing more."""


class OfferedCall(NamedTuple):
    """A call that the browser may execute now."""

    call: str


class TurnSignal(Enum):
    """A step of a turn that is neither an event nor a call."""

    CHECK_PENDING = "all calls may be pending now"
    MUTE = "the model's speech is cut off; calls go on"
    OVER = "the turn is over"
    INTERRUPTED = "the turn is over, and the model's speech is cut off"

    @property
    def ends(self) -> bool:
        """True for the last step of a turn."""
        return self in (TurnSignal.OVER, TurnSignal.INTERRUPTED)


Step: TypeAlias = Event | OfferedCall | TurnSignal | Exception
"""What a run does next in a turn: show something, end, or fail with an error."""
_Steps: TypeAlias = asyncio.Queue[tuple[Step, "asyncio.Future[None] | None"]]


@dataclass(eq=False)
class StreamedTurn:
    """A turn and the run that streams it."""

    turn: RoutedTurn
    run: Run
    inbox: _Steps = field(default_factory=_Steps)
    """Steps to show, each with a future that is resolved when it was shown, if a task waits for that."""
    shown_early: set[str] = field(default_factory=set[str])
    """Ids of events that were shown before they came out of the inbox, because the turn was cut off or muted."""
    pending_at_break: frozenset[str] = frozenset()
    """The calls that were pending at the last break, where the response of a stock client ends."""
    inner_calls: dict[str, dict[str, Any] | None] = field(default_factory=dict[str, dict[str, Any] | None])
    """Unanswered calls of agents inside tools, each with its response if that is known and was not shown yet."""
    parked_approved: frozenset[str] = frozenset()
    """Approved calls that were parked before they were executed."""
    sound: TurnSound = field(default_factory=TurnSound)
    heard_text: HeardText | None = None
    """The words that were heard of an interrupted speech; None if that is all of them."""

    def put(self, step: Step) -> None:
        """Have the run show a step."""
        self.inbox.put_nowait((step, None))

    async def show(self, step: Step) -> None:
        """Have the run show a step and wait until it did, or has ended."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.inbox.put_nowait((step, done))
        ended = asyncio.ensure_future(self.run.done.wait())
        try:
            await asyncio.wait([done, ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()


@dataclass
class ConversationTurns:
    """The turns of a conversation: the router of the current connection, and the turns that runs are streaming."""

    tasks: Tasks = field(default_factory=Tasks)
    router: TurnRouter = field(default_factory=TurnRouter)
    streamed: dict[str, StreamedTurn] = field(default_factory=dict[str, StreamedTurn])
    """By message id."""

    @property
    def current(self) -> StreamedTurn | None:
        """The turn that is being streamed, if its run has begun."""
        turn = self.router.current
        return self.streamed.get(turn.message) if turn is not None else None

    def of_call(self, call: str) -> StreamedTurn | None:
        """Return the turn that a call is part of, if it is being streamed."""
        turn = self.router.of_call(call)
        return self.streamed.get(turn.message) if turn is not None else None

    def end_after_timeout(self, turn: RoutedTurn) -> None:
        """End a turn that was cut, or in which the model says nothing, unless the model ends it in time."""
        self.tasks.start(self._end_after_timeout(turn), f"live-end-turn-{turn.message}")

    async def _end_after_timeout(self, turn: RoutedTurn) -> None:
        await asyncio.sleep(_CUT_TIMEOUT if turn.cut else _SILENCE_TIMEOUT)
        streamed = self.streamed.get(turn.message)
        if turn.cut:
            self.router.finish(turn)
        elif streamed is not None and not (turn.is_all_shown or turn.calls or turn.has_spoken):
            self.router.finish(turn)
            streamed.put(TurnSignal.OVER)
