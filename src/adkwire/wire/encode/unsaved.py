"""Content that readers have been sent and that the session does not hold yet."""

from typing import TYPE_CHECKING, NamedTuple

from adkwire.wire.chunks import Json

if TYPE_CHECKING:
    from google.genai import types


class Unsaved(NamedTuple):
    """Content of one author that was streamed and not stored; a run that stops or fails in mid-text stores it."""

    author: str
    branch: str | None
    parts: "list[tuple[str, str | types.Part]]"
    """Kind and content of each part: a text for `text` and `reasoning`, ADK's part for the other kinds."""
    at: float | None = None
    """When the first of it was streamed, in seconds since 1970."""
    speech: bool = False
    """True for a transcript of a live model's speech."""

    @property
    def stamp(self) -> dict[str, Json]:
        """The fields that its event's stamp needs, so that it is shown again at the same place."""
        return ({} if self.at is None else {"at": self.at}) | ({"speech": True} if self.speech else {})
