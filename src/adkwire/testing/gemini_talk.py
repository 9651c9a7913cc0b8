"""What an emulated Live model knows: the conversation so far, and what is new in it."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from adkwire.testing.gemini_wire import Json, joined


@dataclass
class Conversation:
    """Everything that was said in a session and in those that it resumes; a handle keeps a copy of it."""

    contents: list[Json] = field(default_factory=list[Json])
    calls: dict[str, str] = field(default_factory=dict[str, str])
    """Every call that was made, by its id: the function's name."""
    pending: dict[str, None] = field(default_factory=dict[str, None])
    """Calls that the model waits for."""
    discarded: set[str] = field(default_factory=set[str])
    """Calls that an interruption has made void."""
    _said: Json | None = None

    @property
    def turns(self) -> int:
        """How often the model has spoken."""
        roles = [content.get("role", "user") for content in self.contents]
        return sum(role == "model" != before for before, role in zip(["user", *roles], roles, strict=False))

    def take_the_word(self) -> None:
        """What the model says from now on is an answer of its own."""
        self._said = None

    def say(self, part: Json) -> None:
        """Another part of the model's answer, whatever the user said meanwhile."""
        if self._said is None:
            self._said = {"role": "model", "parts": []}
            self.contents.append(self._said)
        joined(self._said["parts"], part)

    def hear(self, parts: Iterable[Json]) -> None:
        """What the user says."""
        self.contents.append({"role": "user", "parts": list(parts)})

    def understand(self, text: str) -> None:
        """The last speech of the user, as text."""
        for content in reversed(self.contents):
            if content.get("role") == "user" and "inlineData" in content["parts"][0]:
                content["parts"] = [{"text": text}]
                return

    def respond(self, response: Json) -> None:
        """The response of a function, which belongs right behind its call, whatever was said since."""
        self.pending.pop(response["id"], None)
        at = next(at for at, content in enumerate(self.contents) if _has(content, "functionCall", response["id"])) + 1
        if at == len(self.contents) or not _has(self.contents[at], "functionResponse"):
            self.contents.insert(at, {"role": "user", "parts": []})
        self.contents[at]["parts"].append({"functionResponse": response})

    def discard(self) -> list[str]:
        """Forget the calls that have no response; their ids."""
        void = list(self.pending)
        self.discarded.update(void)
        self.pending.clear()
        return void


def _has(content: Json, kind: str, call: str | None = None) -> bool:
    found: list[Json] = [part[kind] for part in content["parts"] if kind in part]
    return any(call is None or each.get("id") == call for each in found)


@dataclass(frozen=True)
class Frame:
    """A picture of camera or screen."""

    media_type: str
    data: bytes


@dataclass
class News:
    """What the model has not answered yet."""

    texts: list[str] = field(default_factory=list[str])
    responses: list[Json] = field(default_factory=list[Json])
    sound: bytearray = field(default_factory=bytearray)
    frames: list[Frame] = field(default_factory=list[Frame])

    def read(self, content: Json) -> None:
        """What the user wrote, or the functions responded."""
        self.texts += [part["text"] for part in content["parts"] if part.get("text")]
        self.responses += [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]


def speech(pcm: bytes) -> Json:
    """Speech as a part of a content, until it is understood."""
    return {"inlineData": {"mimeType": "audio/pcm;rate=16000", "data": base64.b64encode(pcm).decode()}}


def usage(conversation: Conversation, pieces: int) -> dict[str, Any]:
    """What the turn is said to have cost."""
    texts = [part.get("text", "") for content in conversation.contents for part in content["parts"]]
    prompt = len(" ".join(texts).split())
    return {"promptTokenCount": prompt, "responseTokenCount": pieces, "totalTokenCount": prompt + pieces}
