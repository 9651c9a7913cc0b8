"""The transcript of speech before a call is finished before the call."""

import pytest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adkwire.adk.live_model import Transcript

CALL = LlmResponse(content=types.Content(parts=[types.Part(function_call=types.FunctionCall(name="pay"))]))
END = LlmResponse(turn_complete=True)


def word(text: str) -> LlmResponse:
    return LlmResponse(output_transcription=types.Transcription(text=text, finished=False), partial=True)


def whole(text: str) -> LlmResponse:
    return LlmResponse(output_transcription=types.Transcription(text=text, finished=True), partial=False)


@pytest.mark.parametrize(
    ("received", "ordered"),
    [
        ([word("a "), word("b"), CALL, whole("a b"), END], [word("a "), word("b"), whole("a b"), CALL, END]),
        (
            [word("a"), CALL, word("b"), CALL, word("c"), whole("abc"), END],
            [word("a"), whole("a"), CALL, word("b"), whole("b"), CALL, word("c"), whole("c"), END],
        ),
        ([word("a"), CALL, CALL, whole("a")], [word("a"), whole("a"), CALL, CALL]),
        ([word("a"), whole("a"), CALL, END], [word("a"), whole("a"), CALL, END]),
        ([CALL, word("a"), whole("a"), END], [CALL, word("a"), whole("a"), END]),
        ([word("a"), CALL, whole("a"), word("a"), whole("a")], [word("a"), whole("a"), CALL, word("a"), whole("a")]),
    ],
)
def test_the_words_before_a_call_come_before_it(received: list[LlmResponse], ordered: list[LlmResponse]) -> None:
    transcript = Transcript()
    assert [each for response in received for each in transcript.in_order(response)] == ordered
