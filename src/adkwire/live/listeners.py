"""The listeners of a live conversation, and what they get beside the chunks: sound, states, transcripts, notices."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from google.adk.events.event import Event
from google.genai import types

from adkwire.gate.records import OVER, CallRecord
from adkwire.live.playback import Played, SpeakerId, TurnSound, furthest
from adkwire.live.streamed_turn import StreamedTurn
from adkwire.live.turn_router import Origin, RoutedTurn
from adkwire.runs.run import Run
from adkwire.wire.socket.binary_frames import GENERATIONS, is_older
from adkwire.wire.socket.frames_out import NoticeLevel
from adkwire.wire.socket.live_frames_out import LiveState

logger = logging.getLogger("adkwire")

TAKEN_OVER = "taken-over"
"""Code of the notice that another window has the microphone, or another worker the conversation."""


class Listener(Protocol):
    """One client of the conversation. No method may block."""

    @property
    def knows_live_frames(self) -> bool:
        """True if the client can answer calls one by one; a stock client answers all calls of a step at once."""
        ...

    def turn(self, run: Run, origin: Origin) -> bool:
        """Take the run of a turn that begins; return False if the client knows of it, because it asked for it."""
        ...

    def transcript(self, user_message: str, text: str, *, final: bool) -> None:
        """Take the transcript of the user's speech so far."""
        ...

    def state(self, state: LiveState) -> None:
        """Take the new state of the conversation."""
        ...

    def interrupted(self, run: str, generation: int, kept: str | None) -> None:
        """Drop sound of older generations: the answer was interrupted. `kept` are the words that stay of it."""
        ...

    def settled(self, call: str, state: str, ask: str | None) -> None:
        """Take the new state of an answered call; `ask` is the id of its approval request, if there was one."""
        ...

    def notice(self, level: NoticeLevel, code: str, text: str) -> None:
        """Take a notice for the user."""
        ...

    def sound(self, pcm: bytes, generation: int, position: int, *, last: bool) -> None:
        """Take a piece of the model's audio."""
        ...

    def ended(self, *, deleted: bool) -> None:
        """End: the conversation continues on another worker, or its chat was deleted."""
        ...


class Listeners:
    """All listeners of one conversation, and how far its sound has got."""

    def __init__(self) -> None:
        self.all: list[Listener] = []
        self.generation = 0
        """The newest generation. Older audio must not be played; the next speech gets a higher one."""
        self.state: LiveState = "listening"
        self._settled: dict[str, str] = {}
        """The state that the listeners have of each call that is not over."""
        self._played: Played | None = None
        """The furthest report of playback."""
        self._last: tuple[str, TurnSound] | None = None
        """The run whose sound came last, and that sound."""

    def _notify(self, notify: Callable[[Listener], object]) -> None:
        """Call `notify` with each listener. One that raises does not keep the others from being notified."""
        for listener in list(self.all):
            try:
                notify(listener)
            except Exception as error:
                logger.error("a listener of a live conversation failed: %s", type(error).__name__, exc_info=error)

    def turn(self, run: Run, origin: Origin, *, besides: Listener | None = None) -> None:
        """Announce a turn to all listeners but the one that asked for it; those also get the typed text."""
        text = " ".join(part for part in run.user_message.parts if isinstance(part, str))

        def announce(listener: Listener) -> None:
            if listener is not besides and listener.turn(run, origin) and origin == "typed":
                listener.transcript(run.user_message.id, text, final=True)

        self._notify(announce)

    def set_state(self, state: LiveState) -> None:
        """Set the state and notify the listeners if it has changed."""
        if state != self.state:
            self.state = state
            self._notify(lambda listener: listener.state(state))

    def notice(self, level: NoticeLevel, code: str, text: str) -> None:
        """Send a notice to all listeners."""
        self._notify(lambda listener: listener.notice(level, code, text))

    def settled(self, call: CallRecord) -> None:
        """Notify the listeners of a call's new state at the gate, unless it means the same to them: the call was
        parked, or its answer has reached the agent."""
        state = call.outcome or call.state
        if (call.answer is not None or call.outcome) and self._settled.get(call.call) != state:
            self._settled[call.call] = state
            self._notify(lambda listener: listener.settled(call.call, state, call.ask))
            if call.answer is not None and call.answer.expired and not call.outcome:
                self.notice("warning", "expired", f"Nobody answered in time; {call.tool} was not executed.")
        if call.answer is None or call.state in OVER:
            self._settled.pop(call.call, None)

    def transcribe(self, turn: RoutedTurn, event: Event) -> None:
        """Add a transcript to the user's message and send the listeners all of it."""
        text = (event.input_transcription.text if event.input_transcription is not None else None) or ""
        if event.partial:
            turn.open_transcript += text
        else:
            turn.transcripts.append(text)
            turn.open_transcript = ""
        self._notify(
            lambda listener: listener.transcript(turn.user_message_id, turn.transcript, final=event.partial is not True)
        )

    def play(self, streamed: StreamedTurn, event: Event) -> Event | None:
        """Send the sound of an event to the listeners; return the event without it, None if nothing else is left."""
        sounds: list[bytes] = []
        rest: list[types.Part] = []
        for part in _parts(event):
            if (pcm := _sound_of(part)) is None:
                rest.append(part)
            else:
                sounds.append(pcm)
        has_words = _has_words(event, rest)
        if sounds or has_words:
            streamed.sound.begin_speech(_speaker(event))
        for pcm in sounds:
            self._sound(streamed, pcm)
        if has_words and not event.partial:
            streamed.sound.end_speech()
        if not sounds:
            return event
        return event.model_copy(update={"content": types.Content(role="model", parts=rest)}) if rest else None

    def _sound(self, streamed: StreamedTurn, pcm: bytes) -> None:
        sound = streamed.sound
        if sound.generation is None:
            self.generation = sound.generation = (self.generation + 1) % GENERATIONS
            self._last = streamed.run.id, sound
        generation = sound.generation
        self._notify(lambda listener: listener.sound(pcm, generation, sound.position, last=False))
        sound.add(len(pcm))

    def end_sound(self, streamed: StreamedTurn) -> None:
        """Tell the listeners that a turn has no more sound."""
        sound = streamed.sound
        if (generation := sound.generation) is not None:
            self._notify(lambda listener: listener.sound(b"", generation, sound.position, last=True))

    def played(self, generation: int, ms: int) -> None:
        """Note how much of a generation's sound a client has played; a generation that is yet to come is ignored."""
        if not is_older(self.generation, generation):
            self._played = furthest(self._played, Played(generation, ms))

    def interrupt(self, streamed: StreamedTurn) -> None:
        """Make the listeners drop sound that was not played yet, and keep of the speech the words that were heard."""
        stored = {_speaker(event) for event in streamed.turn.unshown.values() if _has_words(event, _parts(event))}
        unsaved = [each for each in streamed.run.encoder.unsaved() if (each.branch, each.author) not in stored]
        streamed.heard_text = streamed.sound.heard_text(unsaved, self._played)
        self._void_sound(
            streamed.run.id, streamed.sound, streamed.heard_text.text if streamed.heard_text is not None else None
        )

    def stop_playback(self) -> None:
        """Make the listeners drop the rest of an answer that has ended; its words are stored already."""
        if self._last is not None and self._last[1].has_unheard(self._played):
            self._void_sound(*self._last, None)

    def _void_sound(self, run: str, sound: TurnSound, kept: str | None) -> None:
        self.generation = (self.generation + 1) % GENERATIONS
        sound.interrupt()
        self._notify(lambda listener: listener.interrupted(run, self.generation, kept))

    def end(self, *, deleted: bool) -> None:
        """End and remove all listeners."""
        self._notify(lambda listener: listener.ended(deleted=deleted))
        self.all.clear()


def _parts(event: Event) -> list[types.Part]:
    return (event.content.parts if event.content is not None else None) or []


def _sound_of(part: types.Part) -> bytes | None:
    blob = part.inline_data
    return (blob.data or b"") if blob is not None and (blob.mime_type or "").startswith("audio/pcm") else None


def _has_words(event: Event, parts: Sequence[types.Part]) -> bool:
    """Return True if an event has words of the model, in a transcript or in `parts`; thoughts do not count."""
    if event.author == "user":
        return False
    return event.output_transcription is not None or any(part.text and not part.thought for part in parts)


def _speaker(event: Event) -> SpeakerId:
    return event.branch, event.author
