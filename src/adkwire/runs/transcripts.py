"""What a model says before it calls a tool is said when it calls.

ADK finishes the transcript of a model's speech when the model has generated all. Gemini 3.x calls tools before that,
and generates the rest when it has their responses: what it said would stay open for as long as somebody is asked, and
be stored behind the call.
"""

from collections.abc import Iterator

from google.adk.models.llm_response import LlmResponse
from google.genai import types


class Transcript:
    """The transcript of what is said on one connection, finished where a call follows."""

    def __init__(self) -> None:
        self._said = ""
        """All that ADK has not finished yet."""
        self._told = ""
        """As much of it as was finished here."""

    def in_order(self, response: LlmResponse) -> Iterator[LlmResponse]:
        """The response, with what has to come before it, and without what came already."""
        spoken = response.output_transcription
        if spoken is not None and spoken.finished:
            yield from self._finish(response, spoken)
            return
        if spoken is not None:
            self._said += spoken.text or ""
        elif response.get_function_calls() and (words := self._said.removeprefix(self._told)):
            self._told = self._said
            finished = types.Transcription(text=words, finished=True)
            yield LlmResponse(output_transcription=finished, partial=False, model_version=response.model_version)
        yield response

    def _finish(self, response: LlmResponse, spoken: types.Transcription) -> Iterator[LlmResponse]:
        told, self._said, self._told = self._told, "", ""
        words = (spoken.text or "").removeprefix(told)
        if not told:
            yield response
        elif words:
            rest = spoken.model_copy(update={"text": words})
            yield response.model_copy(update={"output_transcription": rest})
