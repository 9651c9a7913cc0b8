"""The responses that carry one turn of a live model. Pure: parts in, responses out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adkwire.testing.steps import FinalResponse, words

OUTPUT_RATE = 24_000
"""Samples per second of audio from the model."""
INPUT_RATE = 16_000
"""Samples per second of audio from the user."""
_SAMPLE_BYTES = 2
_PIECE_BYTES = OUTPUT_RATE * _SAMPLE_BYTES * 40 // 1000
"""Bytes of audio in one response: 40 ms."""


def seconds_of_sound(sound: bytes) -> str:
    """Return the transcript of a model that does not recognise speech: the length of the audio."""
    return f"({len(sound) / (INPUT_RATE * _SAMPLE_BYTES):.1f} seconds of sound)"


def silence(_text: str) -> bytes:
    """Return 40 ms of silence for a piece of text."""
    return bytes(_PIECE_BYTES)


@dataclass(frozen=True)
class Manner:
    """How a scripted model behaves on a live connection."""

    delay: float = 0.0
    """Seconds before each piece of an answer."""
    hears: Callable[[bytes], str] = seconds_of_sound
    """Returns the transcript of the user's speech, PCM of 16 kHz. An empty transcript gets no answer."""
    speaks: Callable[[str], bytes] = silence
    """Returns the audio of a piece of text, PCM of 24 kHz. Used when the response modality is AUDIO."""
    transcript: Literal["early", "late", "last", "behind"] = "early"
    """When the user's transcript is sent: before the answer, after its first words, after its last words, or behind the
    end of the turn."""
    dialect: Literal["3.x", "2.5"] = "3.x"
    """Gemini 3.x makes calls in the middle of a turn, 2.5 at the end of a turn of their own."""
    blocking: bool = True
    """True: the model sends nothing while calls have no response. False: it answers input that comes meanwhile."""


class TurnResponses:
    """The responses of one turn on a live connection, made from the parts of the turn."""

    def __init__(self, model: str, manner: Manner, *, audio_output: bool, prompt_tokens: int = 0) -> None:
        self.answer = FinalResponse(model, prompt_tokens)
        self.called = False
        """True when the turn has made calls."""
        self._model = model
        self._manner = manner
        self._audio_output = audio_output
        self._text: types.Part | None = None
        """The text or thought so far whose final response was not sent yet."""
        self._calls: list[types.Part] = []
        """Calls that were not sent yet: they are sent together."""

    @property
    def empty(self) -> bool:
        """True while the turn has no content and no calls."""
        return self.answer.empty and not self._calls

    def add(self, part: types.Part) -> list[LlmResponse]:
        """Add a part to the turn, and return the responses to send now."""
        if part.function_call:
            self._calls.append(part)
            return []
        self.answer.add(part)
        if part.text is None:
            return [self._response(content=_content(part))]
        return [*self._finish_other_kind(part), *self._piece(part)]

    def send_calls(self) -> list[LlmResponse]:
        """Return the collected calls in one response; none in dialect 2.5, which sends them at the end of the turn."""
        return [] if self._manner.dialect == "2.5" else self._send_calls()

    def end(self) -> list[LlmResponse]:
        """Return the responses that end the turn."""
        responses = [*self._finish_text(), *self._send_calls()]
        if self.called and self._manner.dialect == "3.x":
            return responses
        if self.answer.sources and not any(response.grounding_metadata for response in responses):
            responses.append(self._response(grounding_metadata=self.answer.grounding))
        usage = self._response(usage_metadata=self.answer.usage)
        return [*responses, usage, self._response(turn_complete=True)]

    def interrupt(self) -> list[LlmResponse]:
        """Return the responses that end an interrupted turn. Collected calls are dropped."""
        self._calls = []
        responses = self._finish_text(interrupted=True)
        if not any(response.interrupted for response in responses):
            responses.append(self._response(interrupted=True))
        return [*responses, self._response(turn_complete=True, interrupted=True)]

    def _finish_other_kind(self, part: types.Part) -> list[LlmResponse]:
        """Finish the open text when a thought begins, and the open thought when text begins."""
        if self._text and self._text.thought != part.thought:
            return self._finish_text()
        return []

    def _piece(self, part: types.Part) -> list[LlmResponse]:
        piece = part.text or ""
        before = self._text.text or "" if self._text else ""
        self._text = types.Part(text=before + piece, thought=part.thought)
        if not self._is_spoken(part):
            return [self._response(content=_content(part), partial=True)]
        transcript = types.Transcription(text=piece, finished=False)
        return [self._response(output_transcription=transcript, partial=True), *self._audio(piece)]

    def _audio(self, text: str) -> list[LlmResponse]:
        sound = self._manner.speaks(text)
        blobs = [
            types.Blob(mime_type=f"audio/pcm;rate={OUTPUT_RATE}", data=sound[at : at + _PIECE_BYTES])
            for at in range(0, len(sound), _PIECE_BYTES)
        ]
        return [self._response(content=_content(types.Part(inline_data=blob))) for blob in blobs]

    def _finish_text(self, *, interrupted: bool = False) -> list[LlmResponse]:
        part, self._text = self._text, None
        if not part:
            return []
        if self._is_spoken(part):
            transcript = types.Transcription(text=part.text, finished=True)
            return [self._response(output_transcription=transcript, partial=False)]
        grounding = self.answer.grounding
        return [self._response(_content(part), partial=False, interrupted=interrupted, grounding_metadata=grounding)]

    def _send_calls(self) -> list[LlmResponse]:
        if not self._calls:
            return []
        parts, self._calls = self._calls, []
        for part in parts:
            self.answer.add(part)
        self.called = True
        return [*self._finish_text(), self._response(content=_content(*parts))]

    def _is_spoken(self, part: types.Part) -> bool:
        return self._audio_output and not part.thought

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


def transcript_responses(text: str, model: str) -> list[LlmResponse]:
    """Return the responses for the transcript of the user's speech: its pieces, then the whole."""
    pieces = [(types.Transcription(text=piece, finished=False), True) for piece in words(text)]
    whole = (types.Transcription(text=text, finished=True), False)
    return [
        LlmResponse(input_transcription=transcript, partial=partial, model_version=model)
        for transcript, partial in [*pieces, whole]
    ]


def _content(*parts: types.Part) -> types.Content:
    # Copies: ADK writes ids into calls, and the parts also belong to the conversation.
    return types.Content(role="model", parts=[part.model_copy(deep=True) for part in parts])
