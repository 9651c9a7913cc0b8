"""The router of a live run: to which turn each event of a live run belongs, and when a turn is over.

ADK's live run is one long stream of turns, and it stores events before it yields them. So each turn passes twice: it is
*over* when its last event is stored, and *ended* when that event was shown. A stored event goes to the first turn that
is not over, one that is only shown (a partial event) to the first turn that has not ended; both go through the same
list in the same order.

| in a turn                       | on                                 | then                                          |
|---------------------------------|------------------------------------|-----------------------------------------------|
| any                             | a call                             | it is unsettled until its response            |
| any                             | a response                         | belongs to the turn of its call               |
| any                             | speech                             | belongs to the utterance's turn               |
| unsettled calls                 | turn_complete                      | goes on: the model will speak about them      |
| nothing said since the response | turn_complete                      | goes on, for a while                          |
| spoken to while calls waited    | the last response                  | goes on, for a while                          |
| something said, all settled     | turn_complete                      | is over                                       |
| cut                             | anything the model says            | left out                                      |
| cut                             | turn_complete                      | is over                                       |
| cut, interrupted                | anything the model says            | is over; the event is the next turn's         |
| muted                           | anything but calls and responses   | left out                                      |
| muted                           | turn_complete, interrupted         | no longer muted                               |
| none                            | anything the model says            | a turn begins that the user did not ask for   |
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Literal, TypeAlias

from google.adk.events.event import Event

from adkwire.adk.stamps import add_stamp, turn_stamp
from adkwire.runs.run import new_id
from adkwire.wire.encode.event_parts import stamp_of

Origin: TypeAlias = Literal["typed", "voice", "server"]


class Progress(Enum):
    """How far a turn has come. INTERRUPTED occurs only in a turn that was cut."""

    OPEN = auto()
    INTERRUPTED = auto()
    OVER = auto()


@dataclass(eq=False)
class RoutedTurn:
    """One turn of a live run: an input of the user and the model's answer."""

    message: str
    user: str
    origin: Origin
    invocation: str = field(default_factory=lambda: new_id("e"))
    calls: set[str] = field(default_factory=set[str])
    """Calls that are stored and whose response is not."""
    began: bool = False
    """True once an event of the turn was stored or shown."""
    said: bool = False
    """True once the model has said something since the last response."""
    talking: bool = False
    """True while the model is in the middle of saying something that is shown."""
    talked_over: bool = False
    """True once the user spoke while calls were held: a model may then ignore their responses."""
    cut: bool = False
    """True once the turn was cut: nothing more of it is shown."""
    muted_stored: bool = False
    muted_shown: bool = False
    """True while words of the answer that the user interrupted are left out, of what is stored and of what is shown."""
    ends_ahead: int = 0
    """Ends of what the model says that are stored and not shown yet."""
    stored: Progress = Progress.OPEN
    shown: Progress = Progress.OPEN
    streamed: bool = False
    """True once a run streams the turn."""
    unshown: dict[str, Event] = field(default_factory=dict[str, Event])
    """Events that are stored, or being stored, and were not shown yet, by id and in order."""
    spoken: list[str] = field(default_factory=list[str])
    speaking: str = ""
    """The transcript of the user's speech: whole sentences in `spoken`, the current one here."""
    ending: str | None = None
    """The id of the turn's last event."""

    @property
    def heard(self) -> str:
        """The transcript of all that the user has said."""
        return " ".join(part for part in (*self.spoken, self.speaking) if part)

    @property
    def over(self) -> bool:
        """True once all of the turn is stored."""
        return self.stored is Progress.OVER

    @property
    def ended(self) -> bool:
        """True once all of the turn was shown."""
        return self.shown is Progress.OVER

    @property
    def stamp(self) -> dict[str, Any]:
        """The stamp of the turn's events."""
        stamp = turn_stamp(self.message, self.user)
        return {**stamp, "spoken": True} if self.origin == "voice" else stamp


Sounded: TypeAlias = Callable[[RoutedTurn], dict[str, int] | None]
"""Returns how much sound a turn had; None without any."""


class TurnRouter:
    """The turns of a live run in order. It stamps what is stored and finds the turn of what is shown."""

    def __init__(self, sounded: "Sounded" = lambda turn: None) -> None:
        self._turns: list[RoutedTurn] = []
        self._of_call: dict[str, RoutedTurn] = {}
        self._utterance: RoutedTurn | None = None
        self.outputs: dict[str, dict[str, Any]] = {}
        """Stamps for responses that are yet to come, by call."""
        self.sounded = sounded

    @property
    def current(self) -> RoutedTurn | None:
        """The first turn that has not ended."""
        return next((turn for turn in self._turns if not turn.ended), None)

    def add(self, turn: RoutedTurn) -> RoutedTurn:
        """Add a turn after all others; those before it of which nothing came are finished."""
        for old in self._turns:
            if not old.began and not old.streamed:
                self.finish(old)
                # What is typed while the user speaks is one message with the speech.
                self._utterance = turn if old is self._utterance else self._utterance
        self._forget_ended()
        self._turns.append(turn)
        return turn

    def begin_speech(self) -> RoutedTurn:
        """Return the turn of speech that begins: the last turn if it has held calls or no answer yet, or a new one."""
        last = self._turns[-1] if self._turns else None
        if last is None or last.cut or last.over or (last.said and not last.calls):
            last = self.add(RoutedTurn(new_id("msg"), new_id("user"), "voice"))
        last.talked_over = last.talked_over or bool(last.calls)
        self._utterance = last
        return last

    def of_call(self, call: str) -> RoutedTurn | None:
        """Return the turn in which a call was made; None if it had been cut by then."""
        return self._of_call.get(call)

    def adopt(self, turn: RoutedTurn, calls: set[str]) -> None:
        """Note calls that a turn made before this live run."""
        turn.calls |= calls
        for call in calls:
            self._of_call[call] = turn

    def cut(self, turn: RoutedTurn) -> None:
        """Show nothing more of a turn."""
        turn.cut = True

    def mute(self, turn: RoutedTurn) -> bool:
        """Show nothing more of what the model is saying; calls of the turn go on. Return False if it says nothing.

        It lasts until the model has ended what it was saying, even if a call is answered before.
        """
        if not turn.talking or turn.cut or turn.muted_shown:
            return False
        turn.muted_shown = True
        turn.muted_stored = not turn.ends_ahead
        return True

    def unmute(self) -> None:
        """Show all turns again: the connection was lost, and with it what the model was saying."""
        for turn in self._turns:
            turn.talking = turn.muted_stored = turn.muted_shown = False

    def finish(self, turn: RoutedTurn) -> None:
        """Mark a turn as over and ended: nothing more comes of it."""
        turn.stored = turn.shown = Progress.OVER

    def shown(self, turn: RoutedTurn, event: Event) -> bool:
        """Note that an event was shown; return True if its turn has ended."""
        if turn.over and turn.ending == event.id:
            turn.shown = Progress.OVER
        elif event.turn_complete:
            # In the stored order, what was shown before this event came before the last response.
            turn.said = False
        return turn.ended

    def of_shown(self, event: Event) -> RoutedTurn | None:
        """Return the turn in which an event is shown; None if it is not shown."""
        if event.partial or _is_sound(event):
            return self._of_partial(event)
        turn = self._of_message(event)
        if turn is not None and _ends_speech(event):
            turn.talking = turn.muted_shown = False
            turn.ends_ahead -= 1
        if turn is not None and stamp_of(event).get("dropped"):
            if event.interrupted and turn.cut and not turn.ended:
                turn.shown = Progress.INTERRUPTED
            self.shown(turn, event)
            return None
        return turn

    def stamp(self, event: Event) -> bool:
        """Stamp an event that is about to be stored with its turn; return False to leave it out."""
        # Our own events are stamped already, and shown by what stores them.
        return not stamp_of(event).keys().isdisjoint({"message", "aside"}) or self._assign(event)

    def _assign(self, event: Event) -> bool:
        if event.live_session_resumption_update is not None or event.voice_activity is not None:
            return False
        turn = self._of_stored(event)
        if turn is None or (not turn.began and turn.origin != "typed" and _is_silent(event)):
            # State and artifacts that change before anything was said belong to no message.
            event.custom_metadata = add_stamp(event.custom_metadata, {"aside": True})
            return bool(event.actions.state_delta or event.actions.artifact_delta)
        if not self._apply(turn, event):
            event.custom_metadata = add_stamp(event.custom_metadata, {**turn.stamp, "dropped": True})
            return False
        event.invocation_id = turn.invocation
        turn.began = True
        more = {call: self.outputs.pop(call) for call in responses_in(event) if call in self.outputs}
        stamp = {**turn.stamp, "outputs": more} if more else turn.stamp
        if turn.ending == event.id and (audio := self.sounded(turn)) is not None:
            stamp = {**stamp, "audio": audio}
        event.custom_metadata = add_stamp(event.custom_metadata, stamp)
        turn.unshown[event.id] = event
        return True

    def stored(self, event: Event, *, failed: bool = False) -> None:
        """Note that an event is stored, or that this failed."""
        if failed and (turn := self._of_message(event)) is not None:
            turn.unshown.pop(event.id, None)

    def _of_message(self, event: Event) -> RoutedTurn | None:
        message = stamp_of(event).get("message")
        return next((turn for turn in self._turns if turn.message == message), None)

    def _of_stored(self, event: Event) -> RoutedTurn | None:
        if responses := responses_in(event):
            return next((turn for call in responses if (turn := self.of_call(call)) is not None), None)
        if event.author == "user" and event.input_transcription is None:
            # The conversation stores typed messages itself: this is ADK's copy.
            return None
        if event.input_transcription is not None:
            return self._utterance or self.begin_speech()
        return self._first(stored=True, words=says(event))

    def _of_partial(self, event: Event) -> RoutedTurn | None:
        if event.input_transcription is not None:
            return self._utterance or self.begin_speech()
        turn = self._first(stored=False, words=True)
        if turn is None or turn.cut or turn.muted_shown:
            return None
        turn.began = turn.said = turn.talking = True
        event.invocation_id = turn.invocation
        return turn

    def _first(self, *, stored: bool, words: bool) -> RoutedTurn | None:
        """Return the first turn that goes on; without one, a new one begins if the event has words."""
        for turn in self._turns:
            progress = turn.stored if stored else turn.shown
            if progress is Progress.INTERRUPTED and words:
                turn.stored = progress = Progress.OVER
                turn.shown = turn.shown if stored else progress
            if progress is not Progress.OVER:
                return turn
        return self.add(RoutedTurn(new_id("msg"), new_id("user"), "server")) if words else None

    def _apply(self, turn: RoutedTurn, event: Event) -> bool:
        """Apply an event to its turn as the table says; return False to leave it out."""
        calls, responses = calls_in(event), responses_in(event)
        turn.ends_ahead += _ends_speech(event)
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
        muted = turn.muted_stored and not calls and not responses and event.input_transcription is None
        if _ends_speech(event):
            turn.muted_stored = False
        turn.said = turn.said or (says(event) and not muted)
        if event.turn_complete and not turn.calls and turn.said and turn.began:
            turn.stored, turn.ending = Progress.OVER, event.id
        return not muted

    def _forget_ended(self) -> None:
        """Drop old turns of a long conversation; only the last ones can still get events."""
        ended = [turn for turn in self._turns if turn.over and turn.ended]
        for turn in ended[:-2]:
            self._turns.remove(turn)
        known = set(map(id, self._turns))
        self._of_call = {call: turn for call, turn in self._of_call.items() if id(turn) in known}


def calls_in(event: Event) -> set[str]:
    """Return the ids of the calls in an event."""
    return {call.id for call in event.get_function_calls() if call.id}


def responses_in(event: Event) -> set[str]:
    """Return the ids of the calls that an event has responses to."""
    return {response.id for response in event.get_function_responses() if response.id}


def _ends_speech(event: Event) -> bool:
    """Return True if the model has ended what it was saying, by itself or because it was interrupted."""
    return bool(event.turn_complete or event.interrupted)


def says(event: Event) -> bool:
    """Return True if the model says something in an event: words, sound, a picture or a call."""
    transcript = event.output_transcription
    parts = (event.content.parts if event.content is not None else None) or ()
    return bool(transcript is not None and transcript.text) or any(part.function_response is None for part in parts)


def _is_silent(event: Event) -> bool:
    return not says(event) and event.input_transcription is None and not responses_in(event)


def _is_sound(event: Event) -> bool:
    """Return True for sound and pictures alone, which ADK yields and does not store."""
    parts = (event.content.parts if event.content is not None else None) or ()
    return bool(parts) and all(part.inline_data is not None for part in parts)
