"""What a live model says in one turn, and the responses that carry it. Pure: parts in, responses out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adkwire.testing.steps import Answer, words

OUTPUT_RATE = 24_000
INPUT_RATE = 16_000
_SAMPLE = 2
_PIECE = OUTPUT_RATE * _SAMPLE * 40 // 1000


def seconds_of_sound(sound: bytes) -> str:
    """What a model without ears makes of 16 kHz sound."""
    return f"({len(sound) / (INPUT_RATE * _SAMPLE):.1f} seconds of sound)"


def silence(_text: str) -> bytes:
    """40 ms of nothing for each piece of text."""
    return bytes(_PIECE)


@dataclass(frozen=True)
class Manner:
    """How a scripted model behaves on a live connection."""

    delay: float = 0.0
    """Seconds before each piece."""
    hears: Callable[[bytes], str] = seconds_of_sound
    """The transcript of what was said, from 16 kHz sound. Nothing: nothing was understood, there is no answer."""
    speaks: Callable[[str], bytes] = silence
    """The 24 kHz sound of each piece of text, when the modality is AUDIO."""
    transcript: Literal["early", "late", "last", "behind"] = "early"
    """When the user's transcript comes: before the answer, after its first words, when it has been said, or behind its
    end."""
    dialect: Literal["3.x", "2.5"] = "3.x"
    """Gemini 3.x calls a tool in mid-turn, 2.5 at the end of a turn of its own."""
    blocking: bool = True
    """While calls have no response the model says nothing more. Else it answers what is said meanwhile."""


class Speech:
    """One turn on a live connection, so far."""

    def __init__(self, model: str, manner: Manner, *, aloud: bool, prompt_tokens: int = 0) -> None:
        self.answer = Answer(model, prompt_tokens)
        self.called = False
        self._model = model
        self._manner = manner
        self._aloud = aloud
        self._open: types.Part | None = None
        self._calls: list[types.Part] = []

    @property
    def empty(self) -> bool:
        """Whether nothing has been said, shown or called."""
        return self.answer.empty and not self._calls

    def add(self, part: types.Part) -> list[LlmResponse]:
        """The model says, shows or calls this."""
        if part.function_call:
            self._calls.append(part)
            return []
        self.answer.add(part)
        if part.text is None:
            return [self._response(content=_content(part))]
        return [*self._switch(part), *self._piece(part)]

    def release(self) -> list[LlmResponse]:
        """The calls gathered so far, together, unless they have to wait for the end of the turn."""
        return [] if self._manner.dialect == "2.5" else self._release()

    def end(self) -> list[LlmResponse]:
        """All of it has been said."""
        responses = [*self._close(), *self._release()]
        if self.called and self._manner.dialect == "3.x":
            return responses
        if self.answer.sources and not any(response.grounding_metadata for response in responses):
            responses.append(self._response(grounding_metadata=self.answer.grounding))
        usage = self._response(usage_metadata=self.answer.usage)
        return [*responses, usage, self._response(turn_complete=True)]

    def cut(self) -> list[LlmResponse]:
        """The user broke in: what was said so far is all there is. Calls that were not made are not made."""
        self._calls = []
        responses = self._close(interrupted=True)
        if not any(response.interrupted for response in responses):
            responses.append(self._response(interrupted=True))
        return [*responses, self._response(turn_complete=True, interrupted=True)]

    def _switch(self, part: types.Part) -> list[LlmResponse]:
        if self._open and self._open.thought != part.thought:
            return self._close()
        return []

    def _piece(self, part: types.Part) -> list[LlmResponse]:
        text = part.text or ""
        said = self._open.text or "" if self._open else ""
        self._open = types.Part(text=said + text, thought=part.thought)
        if not self._is_sound(part):
            return [self._response(content=_content(part), partial=True)]
        transcript = types.Transcription(text=text, finished=False)
        return [self._response(output_transcription=transcript, partial=True), *self._sound(text)]

    def _sound(self, text: str) -> list[LlmResponse]:
        sound = self._manner.speaks(text)
        blobs = [
            types.Blob(mime_type=f"audio/pcm;rate={OUTPUT_RATE}", data=sound[at : at + _PIECE])
            for at in range(0, len(sound), _PIECE)
        ]
        return [self._response(content=_content(types.Part(inline_data=blob))) for blob in blobs]

    def _close(self, *, interrupted: bool = False) -> list[LlmResponse]:
        part, self._open = self._open, None
        if not part:
            return []
        if self._is_sound(part):
            transcript = types.Transcription(text=part.text, finished=True)
            return [self._response(output_transcription=transcript, partial=False)]
        grounding = self.answer.grounding
        return [self._response(_content(part), partial=False, interrupted=interrupted, grounding_metadata=grounding)]

    def _release(self) -> list[LlmResponse]:
        if not self._calls:
            return []
        parts, self._calls = self._calls, []
        for part in parts:
            self.answer.add(part)
        self.called = True
        return [*self._close(), self._response(content=_content(*parts))]

    def _is_sound(self, part: types.Part) -> bool:
        return self._aloud and not part.thought

    def _response(
        self,
        content: types.Content | None = None,
        *,
        partial: bool | None = None,
        interrupted: bool | None = None,
        turn_complete: bool | None = None,
        output_transcription: types.Transcription | None = None,
        usage_metadata: types.GenerateContentResponseUsageMetadata | None = None,
        grounding_metadata: types.GroundingMetadata | None = None,
    ) -> LlmResponse:
        return LlmResponse(
            content=content,
            partial=partial,
            interrupted=interrupted,
            turn_complete=turn_complete,
            output_transcription=output_transcription,
            usage_metadata=usage_metadata,
            grounding_metadata=grounding_metadata,
            model_version=self._model,
        )


def transcribed(text: str, model: str) -> list[LlmResponse]:
    """The transcript of what the user said: its pieces, then the whole."""
    pieces = [(types.Transcription(text=piece, finished=False), True) for piece in words(text)]
    whole = (types.Transcription(text=text, finished=True), False)
    return [
        LlmResponse(input_transcription=transcript, partial=partial, model_version=model)
        for transcript, partial in [*pieces, whole]
    ]


def _content(*parts: types.Part) -> types.Content:
    # Copies: ADK writes ids into calls, and the parts are the model's own memory of what it said.
    return types.Content(role="model", parts=[part.model_copy(deep=True) for part in parts])
