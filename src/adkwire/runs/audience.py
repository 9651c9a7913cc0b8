"""Those who listen to a live conversation, and what they are told beside the chunks: sound, states, what was heard."""

from typing import Literal, Protocol, TypeAlias

from google.adk.events.event import Event
from google.genai import types

from adkwire.gate.records import PendingCall
from adkwire.runs.carried import Carried
from adkwire.runs.live_turns import Origin
from adkwire.runs.run import Run
from adkwire.wire.frames import Level

LiveState: TypeAlias = Literal["listening", "thinking", "speaking", "waiting"]
_GENERATIONS = 65536


class Listener(Protocol):
    """One client of the conversation. Nothing here waits."""

    @property
    def talks(self) -> bool:
        """Whether it can answer a single call at any time; a stock client answers all calls of a step at once."""
        ...

    def turn(self, run: Run, origin: Origin) -> None:
        """A turn begins that it has not asked for."""
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

    def settled(self, call: str, state: str) -> None:
        """A call has its answer, from wherever it came."""
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
        self._played = (-1, 0)
        self._last: Carried | None = None
        """Whose sound came last."""

    def turn(self, run: Run, origin: Origin, *, besides: Listener | None = None) -> None:
        """A turn begins; who has asked for it knows. The others get to know what was typed, too."""
        said = " ".join(part for part in run.message.parts if isinstance(part, str))
        for listener in self.listeners:
            if listener is not besides:
                listener.turn(run, origin)
                if origin == "typed":
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
        """A call has moved at the gate."""
        if call.answer is not None or call.outcome:
            for listener in self.listeners:
                listener.settled(call.call, call.outcome or call.state)

    def heard(self, carried: Carried, event: Event) -> None:
        """The user was heard to say something."""
        said = (event.input_transcription.text if event.input_transcription is not None else None) or ""
        if event.partial:
            carried.speaking += said
        else:
            carried.spoken.append(said)
            carried.speaking = ""
        for listener in self.listeners:
            listener.transcript(carried.turn.user, carried.heard, final=event.partial is not True)

    def play(self, carried: Carried, event: Event) -> Event | None:
        """Hand on the sound of an event; what else is in it, if anything."""
        parts = (event.content.parts if event.content is not None else None) or []
        sounds = [part for part in parts if _is_sound(part)]
        if not sounds:
            return event
        if carried.generation is None:
            self.generation = carried.generation = (self.generation + 1) % _GENERATIONS
            self._last = carried
        for part in sounds:
            pcm = (part.inline_data.data if part.inline_data is not None else None) or b""
            for listener in self.listeners:
                listener.sound(pcm, carried.generation, carried.ms, last=False)
            carried.sounded += len(pcm)
            carried.chunks += 1
        rest = [part for part in parts if not _is_sound(part)]
        return event.model_copy(update={"content": types.Content(role="model", parts=rest)}) if rest else None

    def silent(self, carried: Carried) -> None:
        """No more sound of a turn."""
        if carried.generation is not None:
            for listener in self.listeners:
                listener.sound(b"", carried.generation, carried.ms, last=True)

    def played(self, generation: int, ms: int) -> None:
        """How much of a generation's sound was really heard."""
        self._played = generation, ms

    def interrupt(self, carried: Carried) -> None:
        """What is being said is over; sound that was not heard yet is void, and so are the words to it."""
        carried.kept = self._kept(carried)
        self.generation = (self.generation + 1) % _GENERATIONS
        carried.generation = None
        for listener in self.listeners:
            listener.interrupted(carried.run.id, self.generation, carried.kept)

    def interrupt_rest(self) -> None:
        """Nothing is being said any more; what is still to be heard of it is void."""
        last, (generation, ms) = self._last, self._played
        if last is not None and last.generation == generation and ms < last.ms:
            self.interrupt(last)

    def _kept(self, carried: Carried) -> str | None:
        """What was heard of what is being said, by its share of the sound; None when that is all, or nobody knows."""
        generation, ms = self._played
        if carried.generation != generation or ms >= carried.ms:
            return None
        parts = [part for unsaved in carried.run.encoder.unsaved() for _, part in unsaved.parts]
        said = "".join(part for part in parts if isinstance(part, str))
        if not said:
            return None
        at = round(len(said) * ms / carried.ms)
        return said[: said.rfind(" ", 0, at) + 1] if " " in said[:at] else said[:at]

    def dismiss(self, *, deleted: bool) -> None:
        """Everybody has to go."""
        for listener in self.listeners:
            listener.ended(deleted=deleted)
        self.listeners.clear()

    def reconnecting(self) -> None:
        """The connection to the model was lost and is sought again."""
        self.notice("warning", "reconnecting", "The connection to the model was lost; trying again.")

    def reconnected(self) -> None:
        """It is there again."""
        self.notice("info", "reconnected", "The connection to the model is back.")

    def going_away(self) -> None:
        """The model is about to end it; another one follows."""
        self.notice("info", "go-away", "The model ends this connection soon; another one is opened.")

    def not_recovered(self) -> None:
        """It is lost for good; the next thing that is said opens another."""
        self.notice("error", "not-recovered", "The connection to the model was lost. Speak or write to go on.")


def _is_sound(part: types.Part) -> bool:
    return part.inline_data is not None and (part.inline_data.mime_type or "").startswith("audio/pcm")
