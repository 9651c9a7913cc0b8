"""Who says something in a message, and what of it ADK has not stored yet."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from adkwire.wire.chunks import Json
from adkwire.wire.parts import kind_of

if TYPE_CHECKING:
    from google.genai import types


@dataclass(slots=True)
class Said:
    """A run of partial text, or one other part, that ADK has not stored yet."""

    kind: str
    texts: list[str]
    part: "types.Part | None" = None


@dataclass(slots=True)
class Speaker:
    """One branch of the run: its open part, and what it said since its last complete event."""

    author: str
    began: float = 0.0
    """When it said the first of that."""
    kind: str = ""
    part: str = ""
    until: float = 0.0
    """When it had said the last complete text."""
    sounded: bool = False
    """Whether it was heard since its last complete event, which repeats the sound."""
    said: list[Said] = field(default_factory=list[Said])
    calls: "list[types.Part]" = field(default_factory=list["types.Part"])


class Unsaved(NamedTuple):
    """What a speaker has shown and the session does not hold: to be kept when a run stops or fails in mid-text."""

    author: str
    branch: str | None
    parts: "list[tuple[str, str | types.Part]]"
    at: float | None = None
    """When the first of it was shown."""
    speech: bool = False
    """Whether it was said aloud."""

    @property
    def stamp(self) -> dict[str, Json]:
        """What the stamp of its event has to say, so that it is shown again where it was."""
        return ({} if self.at is None else {"at": self.at}) | ({"speech": True} if self.speech else {})


def parts_of(speaker: Speaker) -> "list[tuple[str, str | types.Part]]":
    """What a speaker has shown and ADK has not stored, by kind."""
    said: list[tuple[str, str | types.Part]] = [(said.kind, said.part or "".join(said.texts)) for said in speaker.said]
    return said + [("call", part) for part in speaker.calls]


def without_arguments(part: "types.Part", fc: "types.FunctionCall") -> "types.Part":
    """A call whose arguments never came whole: half of them would be another call than the model meant."""
    empty: dict[str, Json] = {"args": {}, "partial_args": None, "will_continue": None}
    return part.model_copy(update={"function_call": fc.model_copy(update=empty)})


def beyond(speaker: Speaker, kind: str, parts: "list[types.Part]") -> str:
    """What the complete text of a kind has beyond what was streamed of it; nothing when it is another text."""
    streamed = "".join([text for said in speaker.said if said.kind == kind for text in said.texts])
    whole = "".join([part.text or "" for part in parts if kind_of(part) == kind])
    return whole[len(streamed) :] if len(whole) > len(streamed) and whole.startswith(streamed) else ""
