"""The conversation of an emulated Live session, and the user's input that the model has not answered yet."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from adkwire.testing.gemini.generate_content import Json, append_part


@dataclass
class SessionConversation:
    """The contents of a session and of the sessions that it resumes. A resumption handle keeps a copy."""

    contents: list[Json] = field(default_factory=list[Json])
    calls: dict[str, str] = field(default_factory=dict[str, str])
    """The function's name of every call that the model made, by the call's id."""
    pending: dict[str, None] = field(default_factory=dict[str, None])
    """Ids of the calls whose responses the model waits for."""
    discarded: set[str] = field(default_factory=set[str])
    """Ids of the calls that an interruption cancelled."""
    _answer: Json | None = None
    """The content that the model is adding parts to."""

    @property
    def turns(self) -> int:
        """The number of the model's turns so far."""
        roles = [content.get("role", "user") for content in self.contents]
        return sum(role == "model" != before for before, role in zip(["user", *roles], roles, strict=False))

    def begin_answer(self) -> None:
        """Begin a new model content with the next part of the model."""
        self._answer = None

    def add_model_part(self, part: Json) -> None:
        """Add a part to the model's current answer, even if user contents came after its beginning."""
        if self._answer is None:
            self._answer = {"role": "model", "parts": []}
            self.contents.append(self._answer)
        append_part(self._answer["parts"], part)

    def add_user_content(self, parts: Iterable[Json]) -> None:
        """Add a content of the user."""
        self.contents.append({"role": "user", "parts": list(parts)})

    def replace_speech(self, text: str) -> None:
        """Replace the audio of the user's last speech by its transcript."""
        for content in reversed(self.contents):
            if content.get("role") == "user" and "inlineData" in content["parts"][0]:
                content["parts"] = [{"text": text}]
                return

    def respond(self, response: Json) -> None:
        """Insert a function response right behind its call, even if contents were added since."""
        self.pending.pop(response["id"], None)
        at = next(at for at, content in enumerate(self.contents) if _has(content, "functionCall", response["id"])) + 1
        if at == len(self.contents) or not _has(self.contents[at], "functionResponse"):
            self.contents.insert(at, {"role": "user", "parts": []})
        self.contents[at]["parts"].append({"functionResponse": response})

    def discard(self) -> list[str]:
        """Cancel the calls that have no response, and return their ids."""
        cancelled = list(self.pending)
        self.discarded.update(cancelled)
        self.pending.clear()
        return cancelled


def _has(content: Json, kind: str, call: str | None = None) -> bool:
    found: list[Json] = [part[kind] for part in content["parts"] if kind in part]
    return any(call is None or each.get("id") == call for each in found)


@dataclass(frozen=True)
class Frame:
    """An image of a camera or a screen."""

    media_type: str
    data: bytes


@dataclass
class UnansweredInput:
    """User input and function responses that came since the model's last turn began."""

    texts: list[str] = field(default_factory=list[str])
    responses: list[Json] = field(default_factory=list[Json])
    sound: bytearray = field(default_factory=bytearray)
    frames: list[Frame] = field(default_factory=list[Frame])

    def add(self, content: Json) -> None:
        """Add the texts and the function responses of a content."""
        self.texts += [part["text"] for part in content["parts"] if part.get("text")]
        self.responses += [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]


def speech_part(pcm: bytes) -> Json:
    """Return the part for speech of the user that has no transcript yet."""
    return {"inlineData": {"mimeType": "audio/pcm;rate=16000", "data": base64.b64encode(pcm).decode()}}


def usage(conversation: SessionConversation, pieces: int) -> dict[str, Any]:
    """Return the usage metadata of a turn with so many pieces; a word counts as a token."""
    texts = [part.get("text", "") for content in conversation.contents for part in content["parts"]]
    prompt = len(" ".join(texts).split())
    return {"promptTokenCount": prompt, "responseTokenCount": pieces, "totalTokenCount": prompt + pieces}
