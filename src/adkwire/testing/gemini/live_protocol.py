"""The Live API as data: steps of the emulated model, the server messages they become, and checks of client messages."""

import base64
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from adkwire.testing.gemini.generate_content import Json, Send
from adkwire.testing.steps import Call, Cite, Drop, GoAway, Resumption, Say, Show, Think, Wait, words


@dataclass(frozen=True)
class Hear:
    """The input transcript: what the model understood of the user's speech.

    A 3.x model sends it in one message, a 2.5 model in pieces; with `finished` a message behind them says so.
    """

    text: str
    chunk: int | None = None
    finished: bool = False


@dataclass(frozen=True)
class Sound:
    """Speech as PCM (24 kHz, 16 bit, mono) with its transcript. A session with text output gets the transcript."""

    pcm: bytes
    transcript: str = ""


@dataclass(frozen=True)
class Generated:
    """`generationComplete`: the answer is generated, and the turn goes on until its audio has been played."""


@dataclass(frozen=True)
class Interrupt:
    """An interruption: the model detects that the user speaks, and ends its turn. Later steps are not played."""


GeminiLiveStep: TypeAlias = (
    Say | Think | Call | Show | Cite | Wait | Hear | Sound | Generated | Interrupt | Resumption | GoAway | Drop | Send
)
"""A step of a turn in a Live session."""


class Refused(Exception):
    """A client message that the API refuses: the connection is closed with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


_SETUP_FIELDS = {
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
_CLIENT_FIELDS = {"setup", "clientContent", "realtimeInput", "toolResponse"}
_REALTIME_FIELDS = {"text", "audio", "video", "mediaChunks", "activityStart", "activityEnd", "audioStreamEnd"}


class Setup:
    """The first message of a session with the client's settings, checked as the API checks it."""

    def __init__(self, message: Json, models: Collection[str] | None) -> None:
        if set(message) != {"setup"}:
            raise Refused(1007, "setup must be the first message and only the first")
        self.data: Json = message["setup"]
        check_fields(self.data, _SETUP_FIELDS, "setup")
        self.model = str(self.data.get("model", "")).rpartition("/")[2]
        self.is_3x = bool(re.match(r"gemini-3\..*-live(?!-translate)", self.model))
        """True for a 3.x model, False for a 2.5 model."""
        self._check_model(models)
        self.audio_output = self._audio_output()
        """True when the model answers with audio, False when with text."""
        self.input_transcripts = "inputAudioTranscription" in self.data
        self.output_transcripts = "outputAudioTranscription" in self.data
        self.initial_history = bool(self._at("historyConfig").get("initialHistoryInClientContent"))
        """True when the first client content is history, which gets no answer by itself."""
        self.resumable = "sessionResumption" in self.data
        """True when the client wants handles to resume the session by."""
        self.handle: str | None = self._at("sessionResumption").get("handle")
        self.manual_activity = bool(self._at("realtimeInputConfig", "automaticActivityDetection").get("disabled"))
        """True when the client marks where speech begins and ends."""
        self.interruptible = self._at("realtimeInputConfig").get("activityHandling") != "NO_INTERRUPTION"

    @property
    def functions(self) -> dict[str, Json]:
        """The declarations of the functions that the model may call."""
        tools: list[Json] = self.data.get("tools") or []
        return {each["name"]: each for tool in tools for each in tool.get("functionDeclarations", ())}

    def blocking(self, name: str) -> bool:
        """Return whether the model waits for the response of this function."""
        return self.functions.get(name, {}).get("behavior") != "NON_BLOCKING"

    def _at(self, *names: str) -> Json:
        found = self.data
        for name in names:
            found: Json = found.get(name) or {}
        return found

    def _audio_output(self) -> bool:
        modalities: list[str] = self._at("generationConfig").get("responseModalities") or ["AUDIO"]
        if modalities not in (["AUDIO"], ["TEXT"]):
            raise Refused(1007, "Request contains an invalid argument.")
        return modalities == ["AUDIO"]

    def _check_model(self, models: Collection[str] | None) -> None:
        live = self.model.startswith("gemini-") and ("live" in self.model or "native-audio" in self.model)
        if not (self.model in models if models is not None else live):
            problem = "is not found for API version v1alpha, or is not supported for bidiGenerateContent."
            raise Refused(1008, f"models/{self.model} {problem}")


def check_fields(message: Json, names: Collection[str], where: str = "") -> None:
    """Refuse a message with a field that the API does not have."""
    for name in message:
        if name not in names:
            location = f" at '{where}'" if where else ""
            raise Refused(1007, f'Invalid JSON payload received. Unknown name "{name}"{location}: Cannot find field.')


def checked(message: Json, setup: Setup) -> Json:
    """Return a client message after the setup; raise `Refused` where the API would refuse it."""
    check_fields(message, _CLIENT_FIELDS)
    if "setup" in message:
        raise Refused(1007, "setup must be the first message and only the first")
    realtime: Json = message.get("realtimeInput") or {}
    check_fields(realtime, _REALTIME_FIELDS, "realtime_input")
    if not setup.manual_activity and ("activityStart" in realtime or "activityEnd" in realtime):
        raise Refused(1007, "Explicit activity control is not supported when automatic activity detection is enabled.")
    if setup.is_3x and "mediaChunks" in realtime:
        raise Refused(1007, "realtime_input.media_chunks is deprecated. Use audio, video, or text instead.")
    return message


ServerContent: TypeAlias = tuple[Json, Json | None]
"""A server message, and the part that it adds to the model's answer, if any."""

_OUTPUT_AUDIO = "audio/pcm;rate=24000"
_WORD_AUDIO = b"\x00\x08\x00\xf8" * 480
"""The audio of a word of `Say`: 40 ms of a soft buzz."""


def server_contents(step: GeminiLiveStep, setup: Setup) -> Iterator[ServerContent]:
    """Yield the server messages of a step; a step without content has none."""
    match step:
        case Say(text, size) if setup.audio_output:
            for word in words(text, size):
                yield from _audio(_WORD_AUDIO, [word], setup)
        case Say(text, size):
            yield from (_model_turn({"text": word}) for word in words(text, size))
        case Sound(pcm, transcript) if setup.audio_output:
            yield from _audio(pcm, words(transcript), setup)
        case Sound(_, transcript):
            yield from (_model_turn({"text": word}) for word in words(transcript))
        case Think(text, size):
            yield from (_model_turn({"text": word, "thought": True}) for word in words(text, size))
        case Show(media_type, data):
            yield _model_turn(_inline(media_type, data))
        case Cite(sources):
            found = [{"web": {"uri": source.uri, "title": source.title}} for source in sources]
            yield server_content({"groundingMetadata": {"groundingChunks": found}}), None
        case Hear() if setup.input_transcripts:
            pieces = _input_transcript(step, setup)
            yield from ((server_content({"inputTranscription": piece}), None) for piece in pieces)
        case _:
            pass


def _audio(pcm: bytes, transcript: Sequence[str], setup: Setup) -> Iterator[ServerContent]:
    message, _ = _model_turn(_inline(_OUTPUT_AUDIO, pcm))
    if not setup.output_transcripts:
        yield message, {"text": "".join(transcript)}
        return
    yield message, None
    for piece in transcript:
        yield server_content({"outputTranscription": {"text": piece}}), {"text": piece}


def _input_transcript(step: Hear, setup: Setup) -> Iterator[Json]:
    if setup.is_3x:
        yield {"text": step.text}
        return
    yield from ({"text": piece} for piece in words(step.text, step.chunk))
    if step.finished:
        yield {"finished": True}


def _model_turn(part: Json) -> ServerContent:
    return server_content({"modelTurn": {"role": "model", "parts": [part]}}), part


def _inline(media_type: str, data: bytes) -> Json:
    return {"inlineData": {"mimeType": media_type, "data": base64.b64encode(data).decode()}}


def server_content(data: dict[str, Any]) -> Json:
    """Return a server message about the model's answer."""
    return {"serverContent": data}
