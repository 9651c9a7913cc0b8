"""Those who listen to a live conversation, and what they are told beside the chunks: sound, states, what was heard."""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from google.adk.events.event import Event
from google.genai import types

from adkwire.gate.records import OVER, PendingCall
from adkwire.runs.carried import Carried
from adkwire.runs.live_turns import LiveTurn, Origin
from adkwire.runs.run import Run
from adkwire.runs.speeches import Played, Speeches, Who, furthest
from adkwire.wire.frames import Level
from adkwire.wire.live_binary import GENERATIONS, is_older

LiveState: TypeAlias = Literal["listening", "thinking", "speaking", "waiting"]


class Listener(Protocol):
    """One client of the conversation. Nothing here waits."""

    @property
    def talks(self) -> bool:
        """Whether it can answer a single call at any time; a stock client answers all calls of a step at once."""
        ...

    def turn(self, run: Run, origin: Origin) -> bool:
        """A turn begins; whether that is news to it: it may have asked for it, too."""
        ...

    def transcript(self, user_message: str, text: str, *, final: bool) -> None:
        """What the user has been heard to say."""
        ...

    def state(self, state: LiveState) -> None:
        """What the model does now."""
        ...

    def interrupted(self, run: str, generation: int, kept: str | None) -> None:
        """What was being said is over; sound of older generations is void."""
        ...

    def settled(self, call: str, state: str, ask: str | None) -> None:
        """A call has its answer, from wherever it came; `ask` is the question, when it was asked about."""
        ...

    def notice(self, level: Level, code: str, text: str) -> None:
        """Something a person should know."""
        ...

    def sound(self, pcm: bytes, generation: int, position: int, *, last: bool) -> None:
        """A piece of what the model says."""
        ...

    def ended(self, *, deleted: bool) -> None:
        """The conversation is over: it goes on elsewhere, or its chat is gone."""
        ...


class Audience:
    """All who listen."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.generation = 0
        self.state: LiveState = "listening"
        self._settled: dict[str, str] = {}
        """What was told last of the calls that are not over."""
        self._played: Played | None = None
        self._last: tuple[str, Speeches] | None = None
        """The run whose sound came last, and what was said in it."""

    def turn(self, run: Run, origin: Origin, *, besides: Listener | None = None) -> None:
        """A turn begins; who has asked for it knows. The others get to know what was typed, too."""
        said = " ".join(part for part in run.message.parts if isinstance(part, str))
        for listener in self.listeners:
            if listener is not besides and listener.turn(run, origin) and origin == "typed":
                listener.transcript(run.message.id, said, final=True)

    def enter(self, state: LiveState) -> None:
        """The model does something else now."""
        if state != self.state:
            self.state = state
            for listener in self.listeners:
                listener.state(state)

    def notice(self, level: Level, code: str, text: str) -> None:
        """Tell everybody."""
        for listener in self.listeners:
            listener.notice(level, code, text)

    def settled(self, call: PendingCall) -> None:
        """A call has moved at the gate, which need not change what there is to tell: it was parked, or its answer has
        reached the agent."""
        state = call.outcome or call.state
        if (call.answer is not None or call.outcome) and self._settled.get(call.call) != state:
            self._settled[call.call] = state
            for listener in self.listeners:
                listener.settled(call.call, state, call.ask)
            if call.answer is not None and call.answer.expired and not call.outcome:
                self.notice("warning", "expired", f"Nobody answered in time; {call.tool} was not executed.")
        if call.answer is None or call.state in OVER:
            self._settled.pop(call.call, None)

    def heard(self, turn: LiveTurn, event: Event) -> None:
        """The user was heard to say something."""
        said = (event.input_transcription.text if event.input_transcription is not None else None) or ""
        if event.partial:
            turn.speaking += said
        else:
            turn.spoken.append(said)
            turn.speaking = ""
        for listener in self.listeners:
            listener.transcript(turn.user, turn.heard, final=event.partial is not True)

    def play(self, carried: Carried, event: Event) -> Event | None:
        """Hand on the sound of an event; what else is in it, if anything."""
        sounds: list[bytes] = []
        rest: list[types.Part] = []
        for part in _parts(event):
            if (pcm := _sound_of(part)) is None:
                rest.append(part)
            else:
                sounds.append(pcm)
        has_words = _has_words(event, rest)
        if sounds or has_words:
            carried.speeches.speaks(_speaker(event))
        for pcm in sounds:
            self._sound(carried, pcm)
        if has_words and not event.partial:
            carried.speeches.over()
        if not sounds:
            return event
        return event.model_copy(update={"content": types.Content(role="model", parts=rest)}) if rest else None

    def _sound(self, carried: Carried, pcm: bytes) -> None:
        speeches = carried.speeches
        if speeches.generation is None:
            self.generation = speeches.generation = (self.generation + 1) % GENERATIONS
            self._last = carried.run.id, speeches
        for listener in self.listeners:
            listener.sound(pcm, speeches.generation, speeches.position, last=False)
        speeches.sound(len(pcm))

    def silent(self, carried: Carried) -> None:
        """No more sound of a turn."""
        speeches = carried.speeches
        if speeches.generation is not None:
            for listener in self.listeners:
                listener.sound(b"", speeches.generation, speeches.position, last=True)

    def played(self, generation: int, ms: int) -> None:
        """How much of a generation's sound was really heard. One that is yet to come was not."""
        if not is_older(self.generation, generation):
            self._played = furthest(self._played, Played(generation, ms))

    def interrupt(self, carried: Carried) -> None:
        """What is being said is over; sound that was not heard yet is void, and so are the words to it."""
        stored = {_speaker(event) for event in carried.turn.unshown.values() if _has_words(event, _parts(event))}
        unsaved = [each for each in carried.run.encoder.unsaved() if (each.branch, each.author) not in stored]
        carried.cut = carried.speeches.cut(unsaved, self._played)
        self._void(carried.run.id, carried.speeches, carried.cut.text if carried.cut is not None else None)

    def interrupt_rest(self) -> None:
        """Nothing is being said any more; what is still to be heard of it is void. The words to it are stored."""
        if self._last is not None and self._last[1].is_behind(self._played):
            self._void(*self._last, None)

    def _void(self, run: str, speeches: Speeches, kept: str | None) -> None:
        self.generation = (self.generation + 1) % GENERATIONS
        speeches.interrupt()
        for listener in self.listeners:
            listener.interrupted(run, self.generation, kept)

    def dismiss(self, *, deleted: bool) -> None:
        """Everybody has to go."""
        for listener in self.listeners:
            listener.ended(deleted=deleted)
        self.listeners.clear()

    def not_recovered(self) -> None:
        """The connection to the model is lost for good; the next thing that is said opens another."""
        self.notice("error", "not-recovered", "The connection to the model was lost. Speak or write to go on.")


def _parts(event: Event) -> list[types.Part]:
    return (event.content.parts if event.content is not None else None) or []


def _sound_of(part: types.Part) -> bytes | None:
    blob = part.inline_data
    return (blob.data or b"") if blob is not None and (blob.mime_type or "").startswith("audio/pcm") else None


def _has_words(event: Event, parts: Sequence[types.Part]) -> bool:
    """Whether the model says something in an event, aloud or in these parts of it; thoughts are not said."""
    if event.author == "user":
        return False
    return event.output_transcription is not None or any(part.text and not part.thought for part in parts)


def _speaker(event: Event) -> Who:
    return event.branch, event.author
