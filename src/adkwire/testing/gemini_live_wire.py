"""Gemini's Live wire as data: what an emulated voice does, the JSON that it becomes, and what a client may ask for."""

import base64
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from adkwire.testing.gemini_wire import Json, Send
from adkwire.testing.steps import Call, Cite, Drop, GoAway, Resumption, Say, Show, Think, Wait, words


@dataclass(frozen=True)
class Hear:
    """What the model understood of the user's speech: the input transcript.

    A 3.x model sends it as one, a 2.5 model in pieces, and says only if `finished` that it was the last one.
    """

    text: str
    chunk: int | None = None
    finished: bool = False


@dataclass(frozen=True)
class Sound:
    """Speech of your own: PCM of 24 kHz, 16 bit, mono, with its transcript. A session of text gets the transcript."""

    pcm: bytes
    transcript: str = ""


@dataclass(frozen=True)
class Generated:
    """Everything is generated, and the turn not yet over: the model waits here until its sound is played."""


@dataclass(frozen=True)
class Interrupt:
    """The model hears by itself that the user speaks, and ends its turn. Nothing follows it."""


GeminiLiveStep: TypeAlias = (
    Say | Think | Call | Show | Cite | Wait | Hear | Sound | Generated | Interrupt | Resumption | GoAway | Drop | Send
)
"""What the emulated model can do in a Live session."""


class Refused(Exception):
    """What the client sent is not taken: the connection is closed with this code and these words."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


_SETUP = {
    "model",
    "generationConfig",
    "systemInstruction",
    "tools",
    "realtimeInputConfig",
    "sessionResumption",
    "contextWindowCompression",
    "inputAudioTranscription",
    "outputAudioTranscription",
    "proactivity",
    "historyConfig",
    "safetySettings",
    "labels",
    "explicitVadSignal",
    "avatarConfig",
}
_CLIENT = {"setup", "clientContent", "realtimeInput", "toolResponse"}
_REALTIME = {"text", "audio", "video", "mediaChunks", "activityStart", "activityEnd", "audioStreamEnd"}


class Setup:
    """The first message of a session: what the client wants, checked as the API checks it."""

    def __init__(self, message: Json, models: Collection[str] | None) -> None:
        if set(message) != {"setup"}:
            raise Refused(1007, "setup must be the first message and only the first")
        self.data: Json = message["setup"]
        only(self.data, _SETUP, "setup")
        self.model = str(self.data.get("model", "")).rpartition("/")[2]
        self.third = bool(re.match(r"gemini-3\..*-live(?!-translate)", self.model))
        self._check_model(models)
        self.sounds = self._sounds()
        self.hears = "inputAudioTranscription" in self.data
        self.transcribes = "outputAudioTranscription" in self.data
        self.history = bool(self._at("historyConfig").get("initialHistoryInClientContent"))
        self.resumes = "sessionResumption" in self.data
        self.handle: str | None = self._at("sessionResumption").get("handle")
        self.manual = bool(self._at("realtimeInputConfig", "automaticActivityDetection").get("disabled"))
        self.interruptible = self._at("realtimeInputConfig").get("activityHandling") != "NO_INTERRUPTION"

    @property
    def functions(self) -> dict[str, Json]:
        """The declarations of the functions that the model may call."""
        tools: list[Json] = self.data.get("tools") or []
        return {each["name"]: each for tool in tools for each in tool.get("functionDeclarations", ())}

    def blocking(self, name: str) -> bool:
        """Whether the model waits for the response of this function."""
        return self.functions.get(name, {}).get("behavior") != "NON_BLOCKING"

    def _at(self, *names: str) -> Json:
        found = self.data
        for name in names:
            found: Json = found.get(name) or {}
        return found

    def _sounds(self) -> bool:
        modalities: list[str] = self._at("generationConfig").get("responseModalities") or ["AUDIO"]
        if modalities not in (["AUDIO"], ["TEXT"]):
            raise Refused(1007, "Request contains an invalid argument.")
        return modalities == ["AUDIO"]

    def _check_model(self, models: Collection[str] | None) -> None:
        live = self.model.startswith("gemini-") and ("live" in self.model or "native-audio" in self.model)
        if not (self.model in models if models is not None else live):
            words = "is not found for API version v1alpha, or is not supported for bidiGenerateContent."
            raise Refused(1008, f"models/{self.model} {words}")


def only(message: Json, names: Collection[str], where: str = "") -> None:
    """Refuse fields that the API does not have."""
    for name in message:
        if name not in names:
            place = f" at '{where}'" if where else ""
            raise Refused(1007, f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.')


def checked(message: Json, setup: Setup) -> Json:
    """A message behind the setup, refused where the API would."""
    only(message, _CLIENT)
    if "setup" in message:
        raise Refused(1007, "setup must be the first message and only the first")
    realtime: Json = message.get("realtimeInput") or {}
    only(realtime, _REALTIME, "realtime_input")
    if not setup.manual and ("activityStart" in realtime or "activityEnd" in realtime):
        raise Refused(1007, "Explicit activity control is not supported when automatic activity detection is enabled.")
    if setup.third and "mediaChunks" in realtime:
        raise Refused(1007, "realtime_input.media_chunks is deprecated. Use audio, video, or text instead.")
    return message


Spoken: TypeAlias = tuple[Json, Json | None]
"""A message of the server, and the part that it adds to what the model has said."""

_OUT = "audio/pcm;rate=24000"
_WORD = b"\x00\x08\x00\xf8" * 480
"""How a word sounds that has no sound of its own: 40 ms of a soft buzz."""


def spoken(step: GeminiLiveStep, setup: Setup) -> Iterator[Spoken]:
    """What a step says; nothing for one that is not about content."""
    match step:
        case Say(text, size) if setup.sounds:
            for word in words(text, size):
                yield from _sounding(_WORD, [word], setup)
        case Say(text, size):
            yield from (_said({"text": word}) for word in words(text, size))
        case Sound(pcm, transcript) if setup.sounds:
            yield from _sounding(pcm, words(transcript), setup)
        case Sound(_, transcript):
            yield from (_said({"text": word}) for word in words(transcript))
        case Think(text, size):
            yield from (_said({"text": word, "thought": True}) for word in words(text, size))
        case Show(media_type, data):
            yield _said(_inline(media_type, data))
        case Cite(sources):
            found = [{"web": {"uri": source.uri, "title": source.title}} for source in sources]
            yield content({"groundingMetadata": {"groundingChunks": found}}), None
        case Hear() if setup.hears:
            yield from ((content({"inputTranscription": piece}), None) for piece in _heard(step, setup))
        case _:
            pass


def _sounding(pcm: bytes, transcript: Sequence[str], setup: Setup) -> Iterator[Spoken]:
    message, _ = _said(_inline(_OUT, pcm))
    if not setup.transcribes:
        yield message, {"text": "".join(transcript)}
        return
    yield message, None
    for piece in transcript:
        yield content({"outputTranscription": {"text": piece}}), {"text": piece}


def _heard(step: Hear, setup: Setup) -> Iterator[Json]:
    if setup.third:
        yield {"text": step.text}
        return
    yield from ({"text": piece} for piece in words(step.text, step.chunk))
    if step.finished:
        yield {"finished": True}


def _said(part: Json) -> Spoken:
    return content({"modelTurn": {"role": "model", "parts": [part]}}), part


def _inline(media_type: str, data: bytes) -> Json:
    return {"inlineData": {"mimeType": media_type, "data": base64.b64encode(data).decode()}}


def content(data: dict[str, Any]) -> Json:
    """A message about what the model says."""
    return {"serverContent": data}
