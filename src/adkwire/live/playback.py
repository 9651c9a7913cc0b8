"""How much of a turn's sound was played, and which words were heard. Pure: sizes of sound in, lengths of text out.

The sound of a turn has one generation until it is interrupted; what follows has another one, and its positions count
from 0 again. A client reports how far it has played a generation. A turn has several speeches (before and after a tool,
of one agent and the next), and only the last can be cut: the words of those before it are stored.

    generation 7   | first speech | second speech, so far |
    bytes          0              start                   size
    played                               ^ 7, ms
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from adkwire.wire.encode.unsaved import Unsaved
from adkwire.wire.socket.audio import OUTPUT_RATE
from adkwire.wire.socket.binary_frames import is_older

SpeakerId: TypeAlias = tuple[str | None, str]
"""Branch and name of the agent that speaks."""

_BYTES_PER_MS = OUTPUT_RATE * 2 // 1000


class Played(NamedTuple):
    """How much of a generation a client has played."""

    generation: int
    ms: int


def furthest(before: Played | None, reported: Played) -> Played:
    """Return the report that is further: of several clients one may be behind."""
    if before is None or is_older(before.generation, reported.generation):
        return reported
    return before if is_older(reported.generation, before.generation) else max(before, reported)


@dataclass
class TurnSound:
    """The sound of a turn so far, and where in it the current speech starts."""

    generation: int | None = None
    """None until there is sound; the next piece begins a new generation."""
    chunks: int = 0
    """Pieces of sound in all generations."""
    speaker: SpeakerId | None = None
    """The speaker of the current speech; None between speeches."""
    start: int = 0
    """Bytes of the generation before the current speech."""
    size: int = 0
    """Bytes of the generation so far."""
    voided: int = 0
    """Bytes of the generations before, which were interrupted."""

    @property
    def position(self) -> int:
        """Milliseconds of the generation so far."""
        return self.size // _BYTES_PER_MS

    @property
    def ms(self) -> int:
        """Milliseconds of sound in all generations."""
        return (self.voided + self.size) // _BYTES_PER_MS

    def begin_speech(self, speaker: SpeakerId) -> None:
        """Begin a speech, unless the same speaker is in the middle of one."""
        if speaker != self.speaker:
            self.speaker, self.start = speaker, self.size

    def add(self, size: int) -> None:
        """Add a piece of sound to the current speech."""
        self.size += size
        self.chunks += 1

    def end_speech(self) -> None:
        """End the current speech."""
        self.speaker = None

    def interrupt(self) -> None:
        """End the speech and the generation."""
        self.end_speech()
        self.voided += self.size
        self.generation, self.size = None, 0

    def has_unheard(self, played: Played | None) -> bool:
        """Return True if clients have reported this generation and not played all of it."""
        return played is not None and played.generation == self.generation and played.ms < self.position

    def heard_text(self, unsaved: Sequence[Unsaved], played: Played | None) -> "HeardText | None":
        """Return the words of the current speech that were heard; None if that is all of them, or not known."""
        words = self._current_words(unsaved)
        if words is None or played is None or not self.has_unheard(played):
            return None
        heard = self._heard(text := text_of(words), played.ms)
        return HeardText(words.author, words.branch, words.speech, heard) if heard != text else None

    def _current_words(self, unsaved: Sequence[Unsaved]) -> Unsaved | None:
        """Return the words of the current speech: their transcript, or else the text that came with the sound."""
        own = [each for each in unsaved if (each.branch, each.author) == self.speaker and text_of(each)]
        has_sound = self.size > self.start
        return next((each for each in own if each.speech), own[0] if own and has_sound else None)

    def _heard(self, text: str, ms: int) -> str:
        """Return the share of the text that was played of its sound, up to a whole word if the language has spaces."""
        heard, size = ms * _BYTES_PER_MS - self.start, self.size - self.start
        if not size or heard <= 0:
            return ""
        at = min(round(len(text) * heard / size), len(text))
        return text if at == len(text) else text[: text.rfind(" ", 0, at + 1) + 1 or at]


class HeardText(NamedTuple):
    """The words that were heard of a speech that was interrupted; only these are stored."""

    author: str
    branch: str | None
    speech: bool
    text: str

    def apply(self, unsaved: Unsaved) -> Unsaved:
        """Return what is to be stored of unsaved words: all of them, unless they are those of this speech."""
        if (unsaved.author, unsaved.branch, unsaved.speech) != self[:3]:
            return unsaved
        left, parts = self.text, list(unsaved.parts)
        for place, (kind, part) in enumerate(unsaved.parts):
            if kind == "text" and isinstance(part, str):
                parts[place] = kind, left[: len(part)]
                left = left[len(part) :]
        return unsaved._replace(parts=parts)


def text_of(unsaved: Unsaved) -> str:
    """Return the text of unsaved words, without thoughts."""
    return "".join(part for kind, part in unsaved.parts if kind == "text" and isinstance(part, str))
