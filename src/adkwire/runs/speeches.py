"""What is said aloud in a turn, and how much of it was heard. Pure: sizes of sound in, lengths of text out.

The sound of a turn is one, in one generation, until it is interrupted; what comes then is of another generation, and
its places count from 0 again. A client says how far it has played a generation. A turn has several speeches (before and
behind a tool, of one agent and the next), and only the last can be cut: the words to those before it are stored.

    generation 7   | first speech | second speech, so far |
    bytes          0              begin                   sounded
    played                               ^ 7, ms
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from adkwire.wire.live_binary import is_older
from adkwire.wire.sound import SPEECH_RATE
from adkwire.wire.speakers import Unsaved

Who: TypeAlias = tuple[str | None, str]
"""A speaker: an agent on a branch."""

_BYTES_PER_MS = SPEECH_RATE * 2 // 1000


class Played(NamedTuple):
    """How much of a generation somebody has heard."""

    generation: int
    ms: int


def furthest(known: Played | None, told: Played) -> Played:
    """What was heard by whoever has heard most: of several clients one may be behind."""
    if known is None or is_older(known.generation, told.generation):
        return told
    return known if is_older(told.generation, known.generation) else max(known, told)


@dataclass
class Speeches:
    """The sound of a turn, and which of it belongs to what is being said."""

    generation: int | None = None
    """None: what comes next begins another one."""
    chunks: int = 0
    who: Who | None = None
    """Who is saying something; None when that is over."""
    begin: int = 0
    """Where in the generation the sound of it begins."""
    sounded: int = 0
    """Bytes of the generation so far."""
    void: int = 0
    """Bytes of the generations before."""

    @property
    def position(self) -> int:
        """Where in the generation the next sound begins, in milliseconds."""
        return self.sounded // _BYTES_PER_MS

    @property
    def ms(self) -> int:
        """Milliseconds of sound in all."""
        return (self.void + self.sounded) // _BYTES_PER_MS

    def speaks(self, who: Who) -> None:
        """Somebody says something: more of the same, unless that was over or another one has said it."""
        if who != self.who:
            self.who, self.begin = who, self.sounded

    def sound(self, size: int) -> None:
        """A piece of sound of what is being said."""
        self.sounded += size
        self.chunks += 1

    def over(self) -> None:
        """All of it was said."""
        self.who = None

    def interrupt(self) -> None:
        """What was said so far is all of this generation."""
        self.over()
        self.void += self.sounded
        self.generation, self.sounded = None, 0

    def is_behind(self, played: Played | None) -> bool:
        """Whether there is sound that nobody has heard yet; without a word about this generation it is not known."""
        return played is not None and played.generation == self.generation and played.ms < self.position

    def cut(self, unsaved: Sequence[Unsaved], played: Played | None) -> "Cut | None":
        """What is to be kept of what is being said and not stored; None when that is all, or nobody knows."""
        said = self._being_said(unsaved)
        if said is None or played is None or not self.is_behind(played):
            return None
        heard = self._heard(text := text_of(said), played.ms)
        return Cut(said.author, said.branch, said.speech, heard) if heard != text else None

    def _being_said(self, unsaved: Sequence[Unsaved]) -> Unsaved | None:
        """The words to the sound: their transcript, or else what the model writes while it sounds."""
        own = [each for each in unsaved if (each.branch, each.author) == self.who and text_of(each)]
        is_heard = self.sounded > self.begin
        return next((each for each in own if each.speech), own[0] if own and is_heard else None)

    def _heard(self, text: str, ms: int) -> str:
        """The same share of a text as of its sound, to the last whole word; it may be of a language without spaces."""
        heard, size = ms * _BYTES_PER_MS - self.begin, self.sounded - self.begin
        if not size or heard <= 0:
            return ""
        at = min(round(len(text) * heard / size), len(text))
        return text if at == len(text) else text[: text.rfind(" ", 0, at + 1) + 1 or at]


class Cut(NamedTuple):
    """What of somebody's unsaved words is kept: those that were heard."""

    author: str
    branch: str | None
    speech: bool
    text: str

    def of(self, unsaved: Unsaved) -> Unsaved:
        """What is kept of something unsaved: all of it, unless it is this that was cut."""
        if (unsaved.author, unsaved.branch, unsaved.speech) != self[:3]:
            return unsaved
        left, parts = self.text, list(unsaved.parts)
        for place, (kind, part) in enumerate(unsaved.parts):
            if kind == "text" and isinstance(part, str):
                parts[place] = kind, left[: len(part)]
                left = left[len(part) :]
        return unsaved._replace(parts=parts)


def text_of(unsaved: Unsaved) -> str:
    """The words in something unsaved. Thoughts are none."""
    return "".join(part for kind, part in unsaved.parts if kind == "text" and isinstance(part, str))
