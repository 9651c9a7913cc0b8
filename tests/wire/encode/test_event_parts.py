"""Media, sources and actions of events: events in, the whole chunk list out."""

import base64

import pytest
from google.adk.events.event_actions import EventActions
from google.genai import types

from adkwire.wire import chunks as c
from adkwire.wire.folding import fold
from tests.wire.adk_events import (
    answered,
    call,
    image,
    model,
    partial,
    response,
    response_of,
    text,
)
from tests.wire.encode.expected_chunks import (
    PNG,
    START,
    finish,
    output,
    text_part,
)


class TestMedia:
    def test_an_image_of_the_model(self) -> None:
        streamed = [partial(text("A cat:")), partial(image()), model(text("A cat:"), image())]
        expected = [*text_part("text-1", "A cat:"), c.File(url=PNG, media_type="image/png")]

        assert response_of(*streamed)[2:-2] == expected
        assert response_of(streamed[-1])[2:-2] == expected

    def test_images_of_a_tool_follow_its_output(self) -> None:
        blob = types.FunctionResponseBlob(mime_type="image/png", data=b"png")
        far = types.FunctionResponseFileData(mime_type="image/gif", file_uri="gs://bucket/a.gif")
        parts = [
            types.FunctionResponsePart(inline_data=blob),
            types.FunctionResponsePart(file_data=far),
            types.FunctionResponsePart(),
        ]
        chunks = response_of(model(call("c1")), answered(response("c1", {"ok": True}, parts=parts)))

        assert chunks[3:6] == [
            output("c1", {"ok": True}),
            c.File(url=PNG, media_type="image/png"),
            c.File(url="gs://bucket/a.gif", media_type="image/gif"),
        ]

    def test_a_file_elsewhere_is_a_link(self) -> None:
        there = types.Part(file_data=types.FileData(file_uri="https://x.test/a.pdf", mime_type="application/pdf"))
        nowhere = types.Part(file_data=types.FileData(mime_type="application/pdf"))

        assert response_of(model(there, nowhere))[2:-2] == [
            c.File(url="https://x.test/a.pdf", media_type="application/pdf")
        ]

    def test_media_without_a_type_are_bytes(self) -> None:
        [file] = response_of(model(types.Part(inline_data=types.Blob(data=b"x"))))[2:-2]

        encoded = base64.b64encode(b"x").decode()
        assert file == c.File(
            url=f"data:application/octet-stream;base64,{encoded}", media_type="application/octet-stream"
        )

    def test_code_and_its_result(self) -> None:
        code = types.Part(executable_code=types.ExecutableCode(language=types.Language.PYTHON, code="1+1"))
        result = types.Part(
            code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="2")
        )

        assert response_of(model(code, result))[2:-2] == [
            c.Data(type="data-executable-code", data={"language": "PYTHON", "code": "1+1"}),
            c.Data(type="data-code-execution-result", data={"outcome": "OUTCOME_OK", "output": "2"}),
        ]

    @pytest.mark.parametrize(("media_type", "rate"), [("audio/pcm;rate=16000", 16_000), ("audio/pcm", 24_000)])
    def test_audio_is_sent_once_and_not_kept(self, media_type: str, rate: int) -> None:
        pcm = image(b"\0\0", media_type)
        data = {"chunk": "AAA=", "sampleRate": rate, "channels": 1, "bitDepth": 16}
        heard = [START, c.Data(type="data-pcm", data=data, transient=True), finish()]

        assert response_of(partial(pcm), model(pcm)) == heard
        assert response_of(model(pcm)) == heard
        assert fold(heard).parts == []


class TestSources:
    def test_grounding_and_citations_become_sources_once_each(self) -> None:
        page = types.GroundingChunk(web=types.GroundingChunkWeb(uri="https://a.test/", title="A"))
        paper = types.GroundingChunk(retrieved_context=types.GroundingChunkRetrievedContext(title="Paper"))
        place = types.GroundingChunk(maps=types.GroundingChunkMaps(uri="https://maps.test/", title="Café"))
        grounding = types.GroundingMetadata(grounding_chunks=[page, paper, page, place, types.GroundingChunk()])
        citations = types.CitationMetadata(
            citations=[
                types.Citation(uri="https://b.test/"),
                types.Citation(uri="gs://bucket/b.txt"),
                types.Citation(uri="https://a.test/", title="A again"),
                types.Citation(license="MIT"),
            ]
        )
        chunks = response_of(
            model(text("x"), grounding_metadata=grounding), model(text("y"), citation_metadata=citations)
        )

        assert [chunk for chunk in chunks if isinstance(chunk, c.SourceUrl | c.SourceDocument)] == [
            c.SourceUrl(source_id="source-1", url="https://a.test/", title="A"),
            c.SourceDocument(source_id="source-2", media_type="text/plain", title="Paper"),
            c.SourceUrl(source_id="source-3", url="https://maps.test/", title="Café"),
            c.SourceUrl(source_id="source-4", url="https://b.test/"),
            c.SourceDocument(source_id="source-5", media_type="text/plain", title="gs://bucket/b.txt"),
        ]

    def test_empty_metadata_name_no_source(self) -> None:
        bare = model(
            text("x"), grounding_metadata=types.GroundingMetadata(), citation_metadata=types.CitationMetadata()
        )

        assert not any(isinstance(chunk, c.SourceUrl | c.SourceDocument) for chunk in response_of(bare))


class TestActions:
    def test_state_artifacts_and_transfer(self) -> None:
        actions = EventActions(
            transfer_to_agent="billing",
            state_delta={"city": "Paris", "temp:x": 1, "adkwire:title": "T"},
            artifact_delta={"a.png": 3},
        )

        assert response_of(model(actions=actions))[1:-1] == [
            c.Data(type="data-transfer", data={"from": "agent", "to": "billing"}),
            c.Data(type="data-state", data={"delta": {"city": "Paris"}}),
            c.Data(type="data-artifact", data={"versions": {"a.png": 3}}),
        ]

    def test_our_own_and_temporary_state_is_not_shown(self) -> None:
        actions = EventActions(state_delta={"temp:x": 1, "adkwire:title": "T"})

        assert response_of(model(actions=actions)) == [START, finish(author=None)]
