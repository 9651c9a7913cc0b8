"""Transcripts of what a live model says.

A model goes on speaking while other things happen: calls, approval requests, answers, thoughts, images. So the text
part of a transcript stays open beside them until the transcript is finished. No step begins meanwhile, because the end
of a step closes all text. Stored events do not tell which part was open at a time. But they tell when a transcript
began (`at` in our stamp) and when it was finished (the event's timestamp), from which the same follows.

Each branch and author has a transcript of its own. When another author speaks or writes on the same branch, the
transcript before is over, even if ADK never finishes it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk
from adkwire.wire.encode.event_parts import shown_at
from adkwire.wire.encode.unsaved import Unsaved

if TYPE_CHECKING:
    from google.adk.events.event import Event

OpenPart: TypeAlias = Callable[[list[Chunk]], str]
"""A function that begins a text part in the right step and returns its id."""


@dataclass(slots=True)
class _Transcript:
    """A transcript that is not finished."""

    at: float
    """When it began, in seconds since 1970."""
    texts: list[str]
    part: str = ""
    """The id of its open part; empty when none is open."""


class SpokenText:
    """The transcripts of a message."""

    def __init__(self, open_part: OpenPart) -> None:
        self._open_part = open_part
        self._transcripts: dict[tuple[str | None, str], _Transcript] = {}
        self._last_finished: dict[str | None, tuple[str, float]] = {}
        """The author and the time of the last finished transcript of each branch."""

    @property
    def is_open(self) -> bool:
        """True while a part is open."""
        return any(transcript.part for transcript in self._transcripts.values())

    def goes_on(self, at: float) -> bool:
        """Return True if the model is speaking now, or was speaking at that time."""
        return self.is_open or any(end > at for _, end in self._last_finished.values())

    def unsaved(self) -> list[Unsaved]:
        """Return the transcripts that are not finished."""
        return [
            Unsaved(author, branch, [("text", "".join(transcript.texts))], transcript.at, speech=True)
            for (branch, author), transcript in self._transcripts.items()
        ]

    def add(self, event: "Event", text: str, *, finished: bool, out: list[Chunk]) -> float:
        """Add a piece of a transcript, or all of it when it is finished; return when the transcript began."""
        transcript = self._transcripts.get((event.branch, event.author))
        if transcript is None:
            transcript = self._transcripts[event.branch, event.author] = _Transcript(shown_at(event), [])
        streamed = "".join(transcript.texts) if finished else ""
        rest = text[len(streamed) :] if text.startswith(streamed) else ""
        if rest:
            transcript.texts.append(rest)
            transcript.part = transcript.part or self._open_part(out)
            out.append(c.TextDelta(id=transcript.part, delta=rest))
        if finished:
            _close(transcript, out)
            del self._transcripts[event.branch, event.author]
            self._last_finished[event.branch] = event.author, event.timestamp
        return transcript.at

    def end_others(self, event: "Event", out: list[Chunk]) -> None:
        """End the transcripts of all other authors on the branch of an event."""
        for (branch, author), transcript in self._transcripts.items():
            if branch == event.branch and author != event.author:
                _close(transcript, out)
        if self._last_finished.get(event.branch, (event.author, 0))[0] != event.author:
            del self._last_finished[event.branch]

    def close_all(self, out: list[Chunk]) -> None:
        """Close all open parts; text that comes later begins new ones."""
        for transcript in self._transcripts.values():
            _close(transcript, out)


def _close(transcript: _Transcript, out: list[Chunk]) -> None:
    if transcript.part:
        out.append(c.TextEnd(id=transcript.part))
        transcript.part = ""
