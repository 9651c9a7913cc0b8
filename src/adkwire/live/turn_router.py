"""The router of a live run: to which turn each event belongs, and when a turn is over.

ADK's live run is one long stream of turns, and it stores events before it yields them. So each turn passes twice: it is
*over* when its last event is stored, and *ended* when that event was shown. A stored event goes to the first turn that
is not over, one that is only shown (a partial event) to the first turn that has not ended; both go through the same
list in the same order. *Words* are text, transcripts, sound and pictures of the model.

| in a turn                            | on                                 | then                                     |
|--------------------------------------|------------------------------------|------------------------------------------|
| any                                  | a call                             | it is unanswered until its response      |
| any                                  | a response                         | belongs to the turn of its call          |
| any                                  | a transcript of the user's speech  | belongs to the turn of that speech       |
| unanswered calls                     | turn_complete                      | goes on: the model will speak about them |
| no words since the last response     | turn_complete                      | goes on, for a while                     |
| the user spoke while calls were held | the last response                  | goes on, for a while                     |
| words, no unanswered calls           | turn_complete                      | is over                                  |
| cut                                  | words, a call                      | left out                                 |
| cut                                  | turn_complete                      | is over                                  |
| cut, interrupted                     | words, a call                      | is over; the event is the next turn's    |
| muted                                | words                              | left out                                 |
| muted                                | turn_complete, interrupted, a call | no longer muted                          |
| none                                 | words, a call                      | the model begins a turn by itself        |

A call ends what the model was saying: then it waits for the response, and may send no turn_complete before that.
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
"""What began a turn: a typed message, speech, or the model by itself."""


class Progress(Enum):
    """How far a turn was stored or shown. INTERRUPTED occurs only in a turn that was cut."""

    OPEN = auto()
    INTERRUPTED = auto()
    OVER = auto()


@dataclass(eq=False)
class RoutedTurn:
    """One turn of a live run: an input of the user and the model's answer."""

    message: str
    """The id of the assistant message."""
    user_message_id: str
    """The id of the user message."""
    origin: Origin
    invocation: str = field(default_factory=lambda: new_id("e"))
    calls: set[str] = field(default_factory=set[str])
    """Calls that are stored and whose response is not."""
    began: bool = False
    """True once an event of the turn was stored or shown."""
    has_spoken: bool = False
    """True once the model has sent words since the last response."""
    model_speaks: bool = False
    """True while the model is in the middle of a speech that is shown."""
    user_spoke_meanwhile: bool = False
    """True once the user spoke while calls were held: a model may then ignore their responses."""
    cut: bool = False
    """True once the turn was cut: nothing more of it is shown."""
    muted_stored: bool = False
    """True while words of the speech that the user interrupted are not stored."""
    muted_shown: bool = False
    """True while words of the speech that the user interrupted are not shown."""
    ends_unshown: int = 0
    """Number of events that end a speech and that are stored and not shown yet."""
    responses_unshown: int = 0
    """Number of events with responses that are stored and not shown yet."""
    stored: Progress = Progress.OPEN
    shown: Progress = Progress.OPEN
    streamed: bool = False
    """True once a run streams the turn."""
    unshown: dict[str, Event] = field(default_factory=dict[str, Event])
    """Events that are stored, or being stored, and were not shown yet, by id and in order."""
    transcripts: list[str] = field(default_factory=list[str])
    """The finished transcripts of the user's speech."""
    open_transcript: str = ""
    """The transcript of the user's current speech so far."""
    last_event: str | None = None
    """The id of the event with which the turn is over."""

    @property
    def transcript(self) -> str:
        """The transcript of all speech of the user in the turn."""
        return " ".join(part for part in (*self.transcripts, self.open_transcript) if part)

    @property
    def is_all_stored(self) -> bool:
        """True once all of the turn is stored."""
        return self.stored is Progress.OVER

    @property
    def is_all_shown(self) -> bool:
        """True once all of the turn was shown."""
        return self.shown is Progress.OVER

    @property
    def stamp(self) -> dict[str, Any]:
        """The stamp of the turn's events."""
        stamp = turn_stamp(self.message, self.user_message_id)
        return {**stamp, "spoken": True} if self.origin == "voice" else stamp


AudioOf: TypeAlias = Callable[[RoutedTurn], dict[str, int] | None]
"""Returns how much audio a turn had, for its stamp; None without any."""


class TurnRouter:
    """The turns of a live run in order. It stamps what is stored and finds the turn of what is shown."""

    def __init__(self, audio_of: AudioOf = lambda turn: None) -> None:
        self._audio_of = audio_of
        self._turns: list[RoutedTurn] = []
        self._of_call: dict[str, RoutedTurn] = {}
        """The turn of each call."""
        self._of_speech: RoutedTurn | None = None
        """The turn of the user's last speech."""
        self._output_stamps: dict[str, dict[str, Any]] = {}
        """Stamps for responses that are not stored yet, by call."""

    @property
    def current(self) -> RoutedTurn | None:
        """The first turn that has not ended."""
        return next((turn for turn in self._turns if not turn.is_all_shown), None)

    def add(self, turn: RoutedTurn) -> RoutedTurn:
        """Add a turn after all others; finish those before it that have no event."""
        for old in self._turns:
            if not old.began and not old.streamed:
                self.finish(old)
                # What is typed while the user speaks is one message with the speech.
                self._of_speech = turn if old is self._of_speech else self._of_speech
        self._forget_ended()
        self._turns.append(turn)
        return turn

    def begin_speech(self) -> RoutedTurn:
        """Return the turn of speech that begins: the last turn if it has held calls or no answer yet, or a new one."""
        last = self._turns[-1] if self._turns else None
        if last is None or last.cut or last.is_all_stored or (last.has_spoken and not last.calls):
            last = self.add(RoutedTurn(new_id("msg"), new_id("user"), "voice"))
        last.user_spoke_meanwhile = last.user_spoke_meanwhile or bool(last.calls)
        self._of_speech = last
        return last

    def of_call(self, call: str) -> RoutedTurn | None:
        """Return the turn in which a call was made; None if it had been cut by then."""
        return self._of_call.get(call)

    def adopt(self, turn: RoutedTurn, calls: set[str]) -> None:
        """Add calls to a turn that it made before this live run."""
        turn.calls |= calls
        for call in calls:
            self._of_call[call] = turn

    def stamp_output(self, call: str, stamp: dict[str, Any]) -> None:
        """Stamp the response of a call with `stamp` when it is stored."""
        if call in self._of_call:
            self._output_stamps[call] = stamp

    def cut(self, turn: RoutedTurn) -> None:
        """Show nothing more of a turn."""
        turn.cut = True

    def mute(self, turn: RoutedTurn) -> bool:
        """Leave out the rest of the model's speech; calls of the turn go on. Return False if the model is not speaking.

        The turn stays muted until the speech has ended, even if a call is answered before.
        """
        if not turn.model_speaks or turn.cut or turn.muted_shown:
            return False
        turn.muted_shown = True
        turn.muted_stored = not turn.ends_unshown
        return True

    def unmute(self) -> None:
        """Show all turns again: the connection was lost, and with it the rest of the model's speech."""
        for turn in self._turns:
            turn.model_speaks = turn.muted_stored = turn.muted_shown = False

    def finish(self, turn: RoutedTurn) -> None:
        """Mark a turn as over and ended: nothing more comes of it."""
        turn.stored = turn.shown = Progress.OVER

    def note_shown(self, turn: RoutedTurn, event: Event) -> bool:
        """Note that an event was shown; return True if its turn has ended."""
        if turn.is_all_stored and turn.last_event == event.id:
            turn.shown = Progress.OVER
        return turn.is_all_shown

    def route_shown(self, event: Event) -> RoutedTurn | None:
        """Return the turn in which an event is shown; None if it is not shown."""
        if event.partial or _is_sound(event):
            return self._route_partial(event)
        turn = self._of_message(event)
        if turn is None:
            return None
        self._count_as_shown(turn, event)
        if _ends_speech(event):
            turn.model_speaks = turn.muted_shown = False
        if stamp_of(event).get("dropped"):
            if event.interrupted and turn.cut and not turn.is_all_shown:
                turn.shown = Progress.INTERRUPTED
            self.note_shown(turn, event)
            return None
        if says(event) and not _ends_speech(event):
            turn.model_speaks = True
        return turn

    def _count_as_shown(self, turn: RoutedTurn, event: Event) -> None:
        turn.ends_unshown -= _ends_speech(event)
        turn.responses_unshown -= bool(responses_in(event))

    def stamp(self, event: Event) -> bool:
        """Stamp an event that is about to be stored with its turn; return False to leave it out."""
        # Our own events are stamped already, and shown by what stores them.
        return not stamp_of(event).keys().isdisjoint({"message", "aside"}) or self._assign(event)

    def _assign(self, event: Event) -> bool:
        """Find the turn of an event and stamp the event; return False to leave it out."""
        if event.live_session_resumption_update is not None or event.voice_activity is not None:
            return False
        turn = self._of_stored(event)
        if turn is None or (not turn.began and turn.origin != "typed" and _is_silent(event)):
            # State and artifacts that change before the first words belong to no message.
            event.custom_metadata = add_stamp(event.custom_metadata, {"aside": True})
            return bool(event.actions.state_delta or event.actions.artifact_delta)
        if not self._apply(turn, event):
            event.custom_metadata = add_stamp(event.custom_metadata, {**turn.stamp, "dropped": True})
            return False
        event.invocation_id = turn.invocation
        turn.began = True
        outputs = {
            call: stamp for call in responses_in(event) if (stamp := self._output_stamps.pop(call, None)) is not None
        }
        stamp = {**turn.stamp, "outputs": outputs} if outputs else turn.stamp
        if turn.last_event == event.id and (audio := self._audio_of(turn)) is not None:
            stamp = {**stamp, "audio": audio}
        event.custom_metadata = add_stamp(event.custom_metadata, stamp)
        turn.unshown[event.id] = event
        return True

    def stored(self, event: Event, *, failed: bool = False) -> None:
        """Note that an event is stored, or that this failed: then it is not shown."""
        if failed and (turn := self._of_message(event)) is not None and turn.unshown.pop(event.id, None) is not None:
            self._count_as_shown(turn, event)

    def _of_message(self, event: Event) -> RoutedTurn | None:
        """Return the turn whose stamp an event has."""
        message = stamp_of(event).get("message")
        return next((turn for turn in self._turns if turn.message == message), None)

    def _of_stored(self, event: Event) -> RoutedTurn | None:
        """Return the turn of an event that is about to be stored."""
        if responses := responses_in(event):
            return next((turn for call in responses if (turn := self.of_call(call)) is not None), None)
        if event.author == "user" and event.input_transcription is None:
            # The conversation stores typed messages itself: this is ADK's copy.
            return None
        if event.input_transcription is not None:
            return self._of_speech or self.begin_speech()
        return self._first_or_new(stored=True, says_something=says(event))

    def _route_partial(self, event: Event) -> RoutedTurn | None:
        """Return the turn of an event that is shown and not stored; None if it is not shown."""
        if event.input_transcription is not None:
            return self._of_speech or self.begin_speech()
        turn = self._first_or_new(stored=False, says_something=True)
        if turn is None or turn.cut or turn.muted_shown:
            return None
        turn.began = turn.model_speaks = True
        # Words that are shown behind a stored response may have been sent before it.
        turn.has_spoken = turn.has_spoken or not turn.responses_unshown
        event.invocation_id = turn.invocation
        return turn

    def _first_or_new(self, *, stored: bool, says_something: bool) -> RoutedTurn | None:
        """Return the first turn that goes on; without one, a new one begins if the model says something."""
        for turn in self._turns:
            progress = turn.stored if stored else turn.shown
            if progress is Progress.INTERRUPTED and says_something:
                turn.stored = progress = Progress.OVER
                turn.shown = turn.shown if stored else progress
            if progress is not Progress.OVER:
                return turn
        return self.add(RoutedTurn(new_id("msg"), new_id("user"), "server")) if says_something else None

    def _apply(self, turn: RoutedTurn, event: Event) -> bool:
        """Apply an event to its turn as the table says; return False to leave it out."""
        calls, responses = calls_in(event), responses_in(event)
        turn.ends_unshown += _ends_speech(event)
        turn.responses_unshown += bool(responses)
        if turn.cut and (turn.is_all_shown or not responses):
            if event.turn_complete:
                turn.stored, turn.last_event = Progress.OVER, event.id
            elif event.interrupted and not turn.is_all_stored:
                turn.stored = Progress.INTERRUPTED
            return event.input_transcription is not None
        for call in calls:
            turn.calls.add(call)
            self._of_call[call] = turn
        if responses:
            turn.calls.difference_update(responses)
            turn.has_spoken = False
        left_out = turn.muted_stored and says(event) and not calls
        if _ends_speech(event):
            turn.muted_stored = False
        turn.has_spoken = turn.has_spoken or (says(event) and not left_out)
        if event.turn_complete and not turn.calls and turn.has_spoken and turn.began:
            turn.stored, turn.last_event = Progress.OVER, event.id
        return not left_out

    def _forget_ended(self) -> None:
        """Drop old turns of a long conversation, with their calls; only the last ones can still get events."""
        ended = [turn for turn in self._turns if turn.is_all_stored and turn.is_all_shown]
        for turn in ended[:-2]:
            self._turns.remove(turn)
        kept = set(map(id, self._turns))
        self._of_call = {call: turn for call, turn in self._of_call.items() if id(turn) in kept}
        self._output_stamps = {call: stamp for call, stamp in self._output_stamps.items() if call in self._of_call}


def calls_in(event: Event) -> set[str]:
    """Return the ids of the calls in an event."""
    return {call.id for call in event.get_function_calls() if call.id}


def responses_in(event: Event) -> set[str]:
    """Return the ids of the calls that an event has responses to."""
    return {response.id for response in event.get_function_responses() if response.id}


def says(event: Event) -> bool:
    """Return True if the model says something in an event: words or a call."""
    transcript = event.output_transcription
    parts = (event.content.parts if event.content is not None else None) or ()
    return bool(transcript is not None and transcript.text) or any(part.function_response is None for part in parts)


def _ends_speech(event: Event) -> bool:
    """Return True if the model has ended a speech: by itself, because it was interrupted, or to wait for a call."""
    return bool(event.turn_complete or event.interrupted or calls_in(event))


def _is_silent(event: Event) -> bool:
    return not says(event) and event.input_transcription is None and not responses_in(event)


def _is_sound(event: Event) -> bool:
    """Return True for sound and pictures alone, which ADK yields and does not store."""
    parts = (event.content.parts if event.content is not None else None) or ()
    return bool(parts) and all(part.inline_data is not None for part in parts)
