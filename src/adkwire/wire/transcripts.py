"""What a live model says aloud, as far as it was written down.

Speech goes on while other things happen: calls, questions, answers, thoughts, pictures. So its text part stays open
beside them until the transcript is finished, and no step begins meanwhile, since the end of a step closes all text.
Stored events do not tell what was open when. They tell when a transcript began (`at` in our stamp) and when it was
finished (its timestamp), which is the same.

A speaker is an agent on a branch. When another one takes the floor, what the first was saying is over, although ADK may
never finish it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk
from adkwire.wire.parts import shown_at

if TYPE_CHECKING:
    from google.adk.events.event import Event

OpenPart: TypeAlias = Callable[[list[Chunk]], str]
"""Begins a text part in the right step and says its id."""


@dataclass(slots=True)
class _Speech:
    """A transcript that is not finished."""

    at: float
    texts: list[str]
    part: str = ""


class Transcript(NamedTuple):
    """What was shown of a speech and is not stored."""

    author: str
    branch: str | None
    text: str
    at: float


class Transcripts:
    """The speeches of a message."""

    def __init__(self, open_part: OpenPart) -> None:
        self._open_part = open_part
        self._speeches: dict[tuple[str | None, str], _Speech] = {}
        self._ended: dict[str | None, tuple[str, float]] = {}

    @property
    def is_open(self) -> bool:
        """Whether a text part is open."""
        return any(speech.part for speech in self._speeches.values())

    def goes_on(self, at: float) -> bool:
        """Whether somebody is, or was, speaking at that time."""
        return self.is_open or any(end > at for _, end in self._ended.values())

    def unsaved(self) -> list[Transcript]:
        """What was shown and is not finished."""
        return [
            Transcript(author, branch, "".join(speech.texts), speech.at)
            for (branch, author), speech in self._speeches.items()
        ]

    def take(self, event: "Event", text: str, *, finished: bool, out: list[Chunk]) -> float:
        """A piece of a transcript, or all of it; says when it began."""
        speech = self._speeches.get((event.branch, event.author))
        if speech is None:
            speech = self._speeches[event.branch, event.author] = _Speech(shown_at(event), [])
        said = "".join(speech.texts) if finished else ""
        rest = text[len(said) :] if text.startswith(said) else ""
        if rest:
            speech.texts.append(rest)
            speech.part = speech.part or self._open_part(out)
            out.append(c.TextDelta(id=speech.part, delta=rest))
        if finished:
            _close(speech, out)
            del self._speeches[event.branch, event.author]
            self._ended[event.branch] = event.author, event.timestamp
        return speech.at

    def end_others(self, event: "Event", out: list[Chunk]) -> None:
        """Somebody has the floor: whoever else had it on this branch has it no more."""
        for (branch, author), speech in self._speeches.items():
            if branch == event.branch and author != event.author:
                _close(speech, out)
        if self._ended.get(event.branch, (event.author, 0))[0] != event.author:
            del self._ended[event.branch]

    def close(self, out: list[Chunk]) -> None:
        """End the open parts; what is said later begins others."""
        for speech in self._speeches.values():
            _close(speech, out)


def _close(speech: _Speech, out: list[Chunk]) -> None:
    if speech.part:
        out.append(c.TextEnd(id=speech.part))
        speech.part = ""
