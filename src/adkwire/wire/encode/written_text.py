"""The text that a model writes, as partial events and then once more as a complete event.

Each branch of a run has a part of its own, so the texts of parallel agents do not mix. The transcripts
of a live model's speech are in `spoken_text.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, Json
from adkwire.wire.encode.event_parts import kind_of, media_chunks
from adkwire.wire.encode.unsaved import Unsaved

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.genai import types


class OpenStep(Protocol):
    """A function that begins a new step where one is due; never `within` an open step."""

    def __call__(self, out: list[Chunk], *, within: bool = False) -> None:
        """Add the chunks that end the open step and begin the new one."""


@dataclass(slots=True)
class _Streamed:
    """Neighbouring partial texts of one kind, or one other part, that ADK has not stored yet."""

    kind: str
    texts: list[str]
    part: "types.Part | None" = None


@dataclass(slots=True)
class Branch:
    """One branch of a run: its open part, and what it has streamed since its last complete event."""

    author: str
    kind: str = ""
    """The kind of the open part, `text` or `reasoning`; empty when none is open."""
    part: str = ""
    """The id of the open part."""
    began: float = 0.0
    """When the first of `streamed` and `calls` came, in seconds since 1970."""
    until: float = 0.0
    """When its last complete text was stored, in seconds since 1970."""
    has_audio: bool = False
    """True when audio was streamed since the last complete event, which repeats that audio."""
    streamed: list[_Streamed] = field(default_factory=list[_Streamed])
    calls: "list[types.Part]" = field(default_factory=list["types.Part"])

    @property
    def is_unsaved(self) -> bool:
        """True when something was streamed that ADK has not stored yet."""
        return bool(self.streamed or self.calls)

    def streamed_kinds(self) -> set[str]:
        """Return the kinds of what was streamed and not stored."""
        return {streamed.kind for streamed in self.streamed}

    def unsaved_parts(self) -> "list[tuple[str, str | types.Part]]":
        """Return what was streamed and not stored, with the kind of each."""
        parts: list[tuple[str, str | types.Part]] = []
        parts += [(one.kind, one.part or "".join(one.texts)) for one in self.streamed]
        return parts + [("call", part) for part in self.calls]

    def missing_text(self, kind: str, parts: "list[types.Part]") -> str:
        """Return the end of a complete text that was not streamed; empty when it is not the text that was streamed."""
        streamed = "".join([text for one in self.streamed if one.kind == kind for text in one.texts])
        complete = "".join([part.text or "" for part in parts if kind_of(part) == kind])
        is_longer = len(complete) > len(streamed) and complete.startswith(streamed)
        return complete[len(streamed) :] if is_longer else ""


class WrittenText:
    """The text and reasoning parts of a message, one open part for each branch."""

    def __init__(self, open_step: OpenStep, numbers: Iterator[int]) -> None:
        self._open_step = open_step
        self._numbers = numbers
        self._branches: dict[str | None, Branch] = {}

    @property
    def is_open(self) -> bool:
        """True while a part is open."""
        return any(branch.kind for branch in self._branches.values())

    def goes_on(self, at: float) -> bool:
        """Return True if a branch is writing now, or was writing at that time."""
        return any(branch.kind != "" or branch.until > at for branch in self._branches.values())

    def unsaved(self) -> list[Unsaved]:
        """Return what was streamed since the last complete event of each branch."""
        return [
            Unsaved(branch.author, name, branch.unsaved_parts(), branch.began)
            for name, branch in self._branches.items()
            if branch.is_unsaved
        ]

    def branch_of(self, event: "Event") -> Branch:
        """Return the branch of an event."""
        branch = self._branches.get(event.branch)
        if branch is None:
            branch = self._branches[event.branch] = Branch(event.author)
        branch.author = event.author
        return branch

    def add_delta(self, event: "Event", kind: str, text: str, out: list[Chunk]) -> bool:
        """Add a partial text to the open part of its kind; return False if there is none."""
        branch = self._branches.get(event.branch)
        if branch is None or branch.kind != kind:
            return False
        branch.streamed[-1].texts.append(text)
        out.append(c.TextDelta(branch.part, text) if kind == "text" else c.ReasoningDelta(branch.part, text))
        return True

    def stream_text(self, event: "Event", kind: str, text: str, out: list[Chunk]) -> None:
        """Begin a new part with a partial text."""
        branch = self._unsaved_branch(event)
        branch.streamed.append(_Streamed(kind, [text]))
        self.write(branch, kind, text, out)

    def stream_media(self, event: "Event", kind: str, part: "types.Part", now: float, out: list[Chunk]) -> None:
        """Show the media of a partial event."""
        branch = self._unsaved_branch(event)
        self.show(branch, part, now, out)
        branch.streamed.append(_Streamed(kind, [], part))

    def keep_tool_part(self, event: "Event", part: "types.Part") -> None:
        """Remember a partial part of a tool that the model's provider runs, until ADK has stored it."""
        self._unsaved_branch(event).streamed.append(_Streamed("tool", [], part))

    def keep_call(self, event: "Event", part: "types.Part", call: "types.FunctionCall") -> None:
        """Remember a streamed call until ADK has stored it. Its arguments are left out.

        Half of the arguments would be another call than the model meant.
        """
        no_arguments: dict[str, Json] = {"args": {}, "partial_args": None, "will_continue": None}
        kept = part.model_copy(update={"function_call": call.model_copy(update=no_arguments)})
        self._unsaved_branch(event).calls.append(kept)

    def complete(self, branch: Branch, at: float, out: list[Chunk]) -> None:
        """Close the part of a branch whose complete event is stored."""
        branch.has_audio = False
        branch.streamed.clear()
        branch.calls.clear()
        self.close(branch, out)
        branch.until = max(branch.until, at)

    def write(self, branch: Branch, kind: str, text: str, out: list[Chunk]) -> None:
        """Write a text to the open part of its kind, or to a new one."""
        if branch.kind != kind:
            self.close(branch, out)
            self._open_step(out)
            branch.kind, branch.part = kind, f"{kind}-{next(self._numbers)}"
            out.append(c.TextStart(id=branch.part) if kind == "text" else c.ReasoningStart(id=branch.part))
        if kind == "text":
            out.append(c.TextDelta(id=branch.part, delta=text))
        else:
            out.append(c.ReasoningDelta(id=branch.part, delta=text))

    def show(self, branch: Branch, part: "types.Part", now: float, out: list[Chunk]) -> None:
        """Show media between the texts of a branch."""
        self.close(branch, out)
        self._open_step(out, within=branch.until > now)
        out += media_chunks(part)

    def close(self, branch: Branch, out: list[Chunk]) -> None:
        """Close the open part of a branch."""
        if branch.kind:
            out.append(c.TextEnd(id=branch.part) if branch.kind == "text" else c.ReasoningEnd(id=branch.part))
            branch.kind = ""

    def close_all(self, out: list[Chunk]) -> None:
        """Close the open parts of all branches."""
        for branch in self._branches.values():
            self.close(branch, out)

    def _unsaved_branch(self, event: "Event") -> Branch:
        """Return the branch of an event whose content ADK has not stored."""
        branch = self.branch_of(event)
        if not branch.is_unsaved:
            branch.began = event.timestamp
        return branch
