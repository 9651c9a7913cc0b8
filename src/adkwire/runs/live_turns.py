"""Who has the floor: to which turn each event of a live run belongs, and when a turn is over.

ADK's live run is one long stream in which turns follow each other, and it stores events before it yields them. So a
turn comes along twice: it is *over* when the event that ends it is stored, and *ended* when that event was shown. What
is stored goes to the first turn that is not over, what is only shown (a partial event) to the first that has not ended;
both walk along the same list, in the same order.

| in a turn                       | on                                 | then                                          |
|---------------------------------|------------------------------------|-----------------------------------------------|
| any                             | a call                             | it is unsettled until its response            |
| any                             | a response                         | belongs to the turn of its call               |
| any                             | speech                             | belongs to the utterance's turn               |
| unsettled calls                 | turn_complete                      | goes on: the model will speak about them      |
| nothing said since the response | turn_complete                      | goes on, for a while                          |
| spoken to while calls waited    | the last response                  | goes on, for a while                          |
| something said, all settled     | turn_complete                      | is over                                       |
| cut                             | anything the model says            | left out: nobody wants to hear it             |
| cut                             | turn_complete                      | is over                                       |
| cut, interrupted                | anything the model says            | is over, that is the next turn's              |
| hushed                          | anything but calls and responses   | left out                                      |
| hushed                          | turn_complete, a response          | is heard again                                |
| none                            | anything the model says            | a turn begins that nobody has asked for       |
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Literal, TypeAlias

from google.adk.events.event import Event

from adkwire.runs.history import mark_of, marked
from adkwire.runs.ids import new_id
from adkwire.wire.parts import stamp_of

Origin: TypeAlias = Literal["typed", "voice", "server"]

_MOMENT = 2e-6
"""Seconds, of which a store keeps millionths."""


class Wanted(Enum):
    """What of a turn is to be heard: all of it; not what is being said now, but what comes of its calls; nothing."""

    ALL = auto()
    CALLS = auto()
    NOTHING = auto()


class Progress(Enum):
    """How far a turn has come: that the model was interrupted counts in one of which nothing more is wanted."""

    OPEN = auto()
    INTERRUPTED = auto()
    OVER = auto()


@dataclass(eq=False)
class LiveTurn:
    """One user input of a live run and what the model does with it."""

    message: str
    user: str
    origin: Origin
    invocation: str = field(default_factory=lambda: new_id("e"))
    calls: set[str] = field(default_factory=set[str])
    """Calls without a response, as far as it is stored."""
    began: bool = False
    """Whether anything of it was stored or shown."""
    said: bool = False
    """Whether the model has said something since the last response."""
    talking: bool = False
    """Whether the model is in the middle of saying something, as far as it is shown."""
    talked_over: bool = False
    """Whether the user spoke while calls waited: a model may take them for void, and say nothing to their responses."""
    wanted: Wanted = Wanted.ALL
    stored: Progress = Progress.OPEN
    shown: Progress = Progress.OPEN
    carried: bool = False
    """Whether a run has shown it, or does."""
    unshown: dict[str, Event] = field(default_factory=dict[str, Event])
    """What is stored of it, or just being stored, and was not shown yet, in its order."""
    spoken: list[str] = field(default_factory=list[str])
    speaking: str = ""
    """What the user has been heard to say: whole sentences, and the one that is being said."""
    ending: str | None = None
    """The event with which it was over."""

    @property
    def heard(self) -> str:
        """All that the user has been heard to say."""
        return " ".join(part for part in (*self.spoken, self.speaking) if part)

    @property
    def over(self) -> bool:
        """Whether all of it is stored."""
        return self.stored is Progress.OVER

    @property
    def ended(self) -> bool:
        """Whether all of it was shown."""
        return self.shown is Progress.OVER

    @property
    def cut(self) -> bool:
        """Whether nothing more of it is wanted."""
        return self.wanted is Wanted.NOTHING

    @property
    def mark(self) -> dict[str, Any]:
        """What its events are stamped with."""
        mark = mark_of(self.message, self.user)
        return {**mark, "spoken": True} if self.origin == "voice" else mark


Sounded: TypeAlias = Callable[[LiveTurn], dict[str, int] | None]
"""How much of a turn was sound."""


class LiveTurns:
    """The turns of a live run, in their order. It is the scribe of the session and the router of what is shown."""

    def __init__(self, sounded: "Sounded" = lambda turn: None) -> None:
        self._turns: list[LiveTurn] = []
        self._of_call: dict[str, LiveTurn] = {}
        self._utterance: LiveTurn | None = None
        self.outputs: dict[str, dict[str, Any]] = {}
        """What is to be stamped beside responses, by call."""
        self.sounded = sounded
        self._storing: Event | None = None
        """What is just being stored."""
        self._ours = False
        """Whether that is an event of ours: whoever stores it also shows it."""

    @property
    def current(self) -> LiveTurn | None:
        """The turn that is being shown."""
        return next((turn for turn in self._turns if not turn.ended), None)

    def add(self, turn: LiveTurn) -> LiveTurn:
        """A turn begins behind all others; those before it that never came to be are dropped."""
        for old in self._turns:
            if not old.began and not old.carried:
                self.give_up(old)
                # Who types while speaking says one thing.
                self._utterance = turn if old is self._utterance else self._utterance
        self._forget_ended()
        self._turns.append(turn)
        return turn

    def utter(self) -> LiveTurn:
        """The user begins to speak. While calls wait, or nothing was answered yet, it is more of the same turn."""
        last = self._turns[-1] if self._turns else None
        if last is None or last.cut or last.over or (last.said and not last.calls):
            last = self.add(LiveTurn(new_id("msg"), new_id("user"), "voice"))
        last.talked_over = last.talked_over or bool(last.calls)
        self._utterance = last
        return last

    def of_call(self, call: str) -> LiveTurn | None:
        """The turn in which a call was made; None when it was cut by then, and nobody wants to know of the call."""
        return self._of_call.get(call)

    def adopt(self, turn: LiveTurn, calls: set[str]) -> None:
        """A turn goes on that had made calls before this run."""
        turn.calls |= calls
        for call in calls:
            self._of_call[call] = turn

    def cut(self, turn: LiveTurn) -> None:
        """Nothing more of what the model says now is wanted."""
        turn.wanted = Wanted.NOTHING

    def hush(self, turn: LiveTurn) -> bool:
        """Nothing more of what is being said now is wanted, though calls of the turn go on; False when nothing is."""
        hushes = turn.talking and turn.wanted is Wanted.ALL
        if hushes:
            turn.wanted = Wanted.CALLS
        return hushes

    def give_up(self, turn: LiveTurn) -> None:
        """Nothing more comes of a turn."""
        turn.stored = turn.shown = Progress.OVER

    def shown(self, turn: LiveTurn, event: Event) -> bool:
        """An event was shown; says whether it was the last of its turn."""
        if turn.over and turn.ending == event.id:
            turn.shown = Progress.OVER
        elif event.turn_complete:
            # Whatever was shown before it was said before the last response: that is how it was stored.
            turn.said = False
        return turn.ended

    def of_shown(self, event: Event) -> LiveTurn | None:
        """The turn that an event is shown in; None when it is not shown."""
        if event.partial or _is_sound(event):
            return self._of_partial(event)
        turn = self._of_message(event)
        if turn is not None and (event.turn_complete or event.interrupted):
            turn.talking = False
        if turn is not None and stamp_of(event).get("dropped"):
            if event.interrupted and turn.cut and not turn.ended:
                turn.shown = Progress.INTERRUPTED
            self.shown(turn, event)
            return None
        return turn

    def now(self) -> float:
        """The time of something that is shown and not stored: before what is just being stored, which is shown then."""
        return time.time() if self._storing is None else self._storing.timestamp - _MOMENT

    def stamp(self, event: Event) -> bool:
        """Make an event that is about to be stored part of its turn; False leaves it out."""
        self._ours = not stamp_of(event).keys().isdisjoint({"message", "aside"})
        stays = self._ours or self._join(event)
        # Not when it was made: other things were shown since, and history has all in the order in which it was shown.
        event.timestamp = time.time()
        self._storing = event if stays else None
        return stays

    def _join(self, event: Event) -> bool:
        if event.live_session_resumption_update is not None or event.voice_activity is not None:
            return False
        turn = self._of_stored(event)
        if turn is None or (not turn.began and turn.origin != "typed" and _is_silent(event)):
            # What an agent notes down while nothing was said yet belongs to no message.
            event.custom_metadata = marked(event.custom_metadata, {"aside": True})
            return bool(event.actions.state_delta or event.actions.artifact_delta)
        if not self._learn(turn, event):
            event.custom_metadata = marked(event.custom_metadata, {**turn.mark, "dropped": True})
            return False
        event.invocation_id = turn.invocation
        turn.began = True
        more = {call: self.outputs.pop(call) for call in responses_in(event) if call in self.outputs}
        mark = {**turn.mark, "outputs": more} if more else turn.mark
        if turn.ending == event.id and (audio := self.sounded(turn)) is not None:
            mark = {**mark, "audio": audio}
        event.custom_metadata = marked(event.custom_metadata, mark)
        turn.unshown[event.id] = event
        return True

    def stored(self, event: Event, *, failed: bool = False) -> None:
        """An event is in the session, or could not be stored."""
        self._storing = None
        if failed and (turn := self._of_message(event)) is not None:
            turn.unshown.pop(event.id, None)

    def _of_message(self, event: Event) -> LiveTurn | None:
        message = stamp_of(event).get("message")
        return next((turn for turn in self._turns if turn.message == message), None)

    def _of_stored(self, event: Event) -> LiveTurn | None:
        if responses := responses_in(event):
            return next((turn for call in responses if (turn := self.of_call(call)) is not None), None)
        if event.author == "user" and event.input_transcription is None:
            # Typed words are stored by who says them to the model: this is ADK's copy, which comes when it is sent.
            return None
        if event.input_transcription is not None:
            return self._utterance or self.utter()
        return self._first(stored=True, words=says(event))

    def _of_partial(self, event: Event) -> LiveTurn | None:
        if event.input_transcription is not None:
            return self._utterance or self.utter()
        turn = self._first(stored=False, words=True)
        if turn is None or turn.wanted is not Wanted.ALL:
            return None
        turn.began = turn.said = turn.talking = True
        event.invocation_id = turn.invocation
        return turn

    def _first(self, *, stored: bool, words: bool) -> LiveTurn | None:
        """The turn that has the floor; one that nobody asked for begins when there is none and something is said."""
        for turn in self._turns:
            progress = turn.stored if stored else turn.shown
            if progress is Progress.INTERRUPTED and words:
                turn.stored = progress = Progress.OVER
                turn.shown = turn.shown if stored else progress
            if progress is not Progress.OVER:
                return turn
        return self.add(LiveTurn(new_id("msg"), new_id("user"), "server")) if words else None

    def _learn(self, turn: LiveTurn, event: Event) -> bool:
        """What an event means for its turn; says whether it is kept."""
        calls, responses = calls_in(event), responses_in(event)
        if turn.cut and (turn.ended or not responses):
            if event.turn_complete:
                turn.stored, turn.ending = Progress.OVER, event.id
            elif event.interrupted and not turn.over:
                turn.stored = Progress.INTERRUPTED
            return event.input_transcription is not None
        for call in calls:
            turn.calls.add(call)
            self._of_call[call] = turn
        if responses:
            turn.calls.difference_update(responses)
            turn.said = False
            turn.wanted = Wanted.NOTHING if turn.cut else Wanted.ALL
        hushed = turn.wanted is Wanted.CALLS and not calls and event.input_transcription is None
        if turn.wanted is Wanted.CALLS and (event.turn_complete or event.interrupted):
            turn.wanted = Wanted.ALL
        turn.said = turn.said or (says(event) and not hushed)
        if event.turn_complete and not turn.calls and turn.said and turn.began:
            turn.stored, turn.ending = Progress.OVER, event.id
        return not hushed

    def _forget_ended(self) -> None:
        """A long conversation has many turns; only the last ones can still be meant."""
        ended = [turn for turn in self._turns if turn.over and turn.ended]
        for turn in ended[:-2]:
            self._turns.remove(turn)
        known = set(map(id, self._turns))
        self._of_call = {call: turn for call, turn in self._of_call.items() if id(turn) in known}


def calls_in(event: Event) -> set[str]:
    """The calls an event makes."""
    return {call.id for call in event.get_function_calls() if call.id}


def responses_in(event: Event) -> set[str]:
    """The calls an event answers."""
    return {response.id for response in event.get_function_responses() if response.id}


def says(event: Event) -> bool:
    """Whether the model says something in an event: words, sound, a picture or a call."""
    transcript = event.output_transcription
    parts = (event.content.parts if event.content is not None else None) or ()
    return bool(transcript is not None and transcript.text) or any(part.function_response is None for part in parts)


def _is_silent(event: Event) -> bool:
    return not says(event) and event.input_transcription is None and not responses_in(event)


def _is_sound(event: Event) -> bool:
    """ADK yields what a model sounds or shows and does not store it."""
    parts = (event.content.parts if event.content is not None else None) or ()
    return bool(parts) and all(part.inline_data is not None for part in parts)
