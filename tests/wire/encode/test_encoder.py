"""The end of a message, and what an encoder knows of a message that goes on."""

import pytest
from google.adk.events.event import Event, NodeInfo
from google.genai import types

from adkwire.wire import chunks as c
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.tool_calls import UNFINISHED, Phase
from adkwire.wire.failures import Failure, explain_briefly, explain_fully
from adkwire.wire.folding import fold
from adkwire.wire.messages import StepStartPart
from tests.wire.adk_events import (
    MESSAGE,
    aborted,
    answered,
    asked,
    call,
    fed,
    from_browser,
    gated,
    image,
    model,
    partial,
    response,
    response_of,
    text,
    thought,
    verdict,
    wire,
)
from tests.wire.encode.expected_chunks import available, continued, failed, failed_answer, finish, text_part


class TestEnd:
    def test_usage_is_summed_over_the_steps_and_other_metadata_is_the_last_value(self) -> None:
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10,
            candidates_token_count=2,
            total_token_count=15,
            thoughts_token_count=3,
            cached_content_token_count=0,
        )
        chunks = response_of(
            model(call("c1"), usage_metadata=usage, model_version="g-1"),
            answered(response("c1", {})),
            model(text("ok"), usage_metadata=usage, model_version="g-2", finish_reason=types.FinishReason.STOP),
        )

        tokens = {"inputTokens": 20, "outputTokens": 4, "totalTokens": 30, "reasoningTokens": 6}
        assert chunks[-1] == finish(modelVersion="g-2", finishReason="STOP", usage=tokens)

    @pytest.mark.parametrize(
        ("reason", "word"),
        [
            (types.FinishReason.STOP, "stop"),
            (types.FinishReason.MAX_TOKENS, "length"),
            (types.FinishReason.SAFETY, "content-filter"),
            (types.FinishReason.RECITATION, "content-filter"),
            (types.FinishReason.LANGUAGE, "content-filter"),
            (types.FinishReason.BLOCKLIST, "content-filter"),
            (types.FinishReason.PROHIBITED_CONTENT, "content-filter"),
            (types.FinishReason.SPII, "content-filter"),
            (types.FinishReason.IMAGE_SAFETY, "content-filter"),
            (types.FinishReason.IMAGE_PROHIBITED_CONTENT, "content-filter"),
            (types.FinishReason.IMAGE_RECITATION, "content-filter"),
            (types.FinishReason.MALFORMED_FUNCTION_CALL, "error"),
            (types.FinishReason.UNEXPECTED_TOOL_CALL, "error"),
            (types.FinishReason.TOO_MANY_TOOL_CALLS, "error"),
            (types.FinishReason.OTHER, "other"),
            (types.FinishReason.FINISH_REASON_UNSPECIFIED, "other"),
        ],
    )
    def test_finish_reasons(self, reason: types.FinishReason, word: c.FinishReason) -> None:
        last = response_of(model(text("x"), finish_reason=reason))[-1]

        assert last == finish(word, finishReason=reason.name)

    def test_grounding_citations_and_cache_are_in_the_metadata(self) -> None:
        cache = {"cache_name": "c", "expire_time": 1.0, "fingerprint": "f", "invocations_used": 1, "contents_count": 2}
        event = model(
            text("x"),
            grounding_metadata=types.GroundingMetadata(web_search_queries=["q"]),
            citation_metadata=types.CitationMetadata(citations=[]),
            cache_metadata=cache,
        )

        metadata = wire(response_of(event))[-1]["messageMetadata"]
        assert metadata["grounding"] == {"webSearchQueries": ["q"]}
        assert metadata["citations"] == {"citations": []}
        assert metadata["cache"]["fingerprint"] == "f"

    def test_an_error_closes_everything_and_is_last(self) -> None:
        broken = Event(author="agent", error_code="RESOURCE_EXHAUSTED", error_message="secret project 17")
        chunks = response_of(model(call("c1")), partial(text("So f"), branch="b"), broken)

        assert chunks[2:] == [
            available("c1"),
            *text_part("text-1", "So f"),
            failed("c1", UNFINISHED),
            c.FinishStep(),
            *failed_answer(Failure("RESOURCE_EXHAUSTED", "")),
        ]
        assert "secret" not in str(chunks)

    def test_explain_fully_shows_the_whole_error(self) -> None:
        encoder = Encoder(MESSAGE, explain=explain_fully)
        fed(encoder, [Event(author="agent", error_code="ValueError", error_message="no key")])

        assert encoder.failure == Failure("ValueError", "no key")
        assert encoder.end() == failed_answer(Failure("ValueError", "no key"), None, explain_fully)
        assert explain_fully(Failure("ValueError", "no key")) == "The agent could not answer: ValueError: no key"
        assert explain_fully(Failure("X", "")) == explain_briefly(Failure("X", ""))

    def test_an_attempt_that_failed_and_then_succeeded_is_no_error(self) -> None:
        failure = Event(author="agent", error_code="TimeoutError", error_message="")

        assert response_of(failure, model(text("ok")))[-1] == finish(ended=None, error=None)
        done = Event(author="flow", output="ok", node_info=NodeInfo(output_for=["flow@1"]))
        assert response_of(failure, done)[-1] == finish(author=None, ended=None, error=None)

    def test_a_failure_is_forgotten_when_the_message_goes_on(self) -> None:
        """A client has merged that it failed, and would show it for ever."""
        failure = Event(author="agent", error_code="X", error_message="")
        events = [model(call("c1"), call("c2")), asked(gated("c2")), answered(response("c1", {})), failure]
        first = response_of(*events)
        encoder = continued(*events)
        more = [verdict(c2=True), answered(response("c2", {})), model(text("ok"))]
        rest = [encoder.start(), *fed(encoder, more), *encoder.end()]

        assert first[-2:] == failed_answer(Failure("X", ""))
        assert fold(rest, into=fold(first)).metadata == {"author": "agent", "ended": None, "error": None}
        assert fold(rest, into=fold(first)).metadata == fold(response_of(*events, *more)).metadata

    def test_a_stop_after_a_failure_is_a_stop(self) -> None:
        failure = Event(author="agent", error_code="X", error_message="")

        assert response_of(model(text("a")), failure, aborted())[-1] == finish(
            "interrupted", ended="stopped", error=None
        )

    def test_abort(self) -> None:
        chunks = response_of(partial(text("I was say")), aborted())

        assert chunks[2:] == [
            *text_part("text-1", "I was say"),
            c.FinishStep(),
            c.Abort(),
            finish("interrupted", author=None, ended="stopped"),
        ]

    def test_aborted_is_true_after_the_abort_event(self) -> None:
        encoder = Encoder(MESSAGE)
        assert not encoder.aborted
        fed(encoder, [aborted()])
        assert encoder.aborted

    def test_the_stored_rest_of_an_aborted_text_does_not_undo_the_abort(self) -> None:
        kept = model(text("I was say"), interrupted=True)
        streamed = response_of(partial(text("I was say")), aborted(), kept)

        assert streamed[-2:] == [c.Abort(), finish("interrupted", ended="stopped")]
        assert fold(streamed) == fold(response_of(aborted(), kept))

    def test_an_abort_after_settled_calls_pads_too(self) -> None:
        chunks = response_of(model(call("c1")), answered(response("c1", {})), aborted())

        stopped = finish("interrupted", ended="stopped")
        assert chunks[-5:] == [c.FinishStep(), c.StartStep(), c.FinishStep(), c.Abort(), stopped]

    def test_an_error_needs_no_padding(self) -> None:
        chunks = response_of(
            model(call("c1")), answered(response("c1", {})), Event(author="agent", error_code="X", error_message="")
        )

        assert [type(chunk) for chunk in chunks[-3:]] == [c.FinishStep, c.MessageMetadata, c.Error]
        assert sum(isinstance(part, StepStartPart) for part in fold(chunks).parts) == 1


class TestBookkeeping:
    def test_unsaved_is_what_was_streamed_since_the_last_complete_event(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [partial(text("old")), model(text("old"))])
        assert encoder.unsaved() == []

        fed(encoder, [partial(thought("hm")), partial(text("a")), partial(text("b")), partial(image())])
        fed(encoder, [partial(text("other"), author="second", branch="root.second")])

        first, second = encoder.unsaved()
        assert first[:3] == ("agent", None, [("reasoning", "hm"), ("text", "ab"), ("media", image())])
        assert second[:3] == ("second", "root.second", [("text", "other")])

    def test_the_author_of_unsaved_text_is_the_last_author_of_its_branch(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [model(text("a")), partial(text("b"), author="second")])

        assert [one.author for one in encoder.unsaved()] == ["second"]

    def test_running_and_unsettled_calls(self) -> None:
        encoder = Encoder(MESSAGE)
        calls = [call("run"), call("ask"), call("page"), call("done"), call("no")]
        fed(encoder, [model(*calls, long_running_tool_ids={"page"}), asked(gated("ask"), gated("no"))])
        fed(encoder, [answered(response("done", {})), verdict(no=False)])

        assert [one for one, _ in encoder.running_calls()] == ["run", "no"]
        assert [one for one, _ in encoder.unsettled_calls()] == ["run", "ask", "page", "no"]
        assert [(one.id, one.phase) for one in encoder.pending_calls()] == [
            ("ask", Phase.ASKED),
            ("page", Phase.WITHHELD),
        ]
        encoder.pause()
        assert [one for one, _ in encoder.running_calls()] == ["run", "no"]

    def test_pending_calls(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [model(call("c1", "pay", n=1), call("c2", "place"), long_running_tool_ids={"c2"})])
        fed(encoder, [asked(gated("c1", "pay", n=1))])
        encoder.end()

        pay, place = encoder.pending_calls()
        assert (pay.name, pay.input, pay.browser, pay.phase) == ("pay", {"n": 1}, False, Phase.ASKED)
        assert (place.name, place.browser, place.phase) == ("place", True, Phase.RUNNING)
        assert (pay.approval_id, place.approval_id) == ("ask-c1", None)
        fed(encoder, [verdict(c1=True), from_browser("c2", {})])
        assert encoder.pending_calls() == []

    def test_pause_closes_and_the_message_goes_on(self) -> None:
        encoder = Encoder(MESSAGE)
        before = [*fed(encoder, [partial(text("a"))]), *encoder.pause()]
        after = [*fed(encoder, [partial(text("b"))]), *encoder.pause()]

        assert before == [c.StartStep(), *text_part("text-1", "a"), c.FinishStep()]
        assert after == [c.StartStep(), *text_part("text-2", "b"), c.FinishStep()]
        assert encoder.pause() == []
