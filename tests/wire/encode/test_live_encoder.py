"""Events of a live model: the whole chunk list, and the same message from the stored events."""

from typing import Any

import pytest
from google.adk.events.event import Event
from google.genai import types
from msgspec import UNSET

from adkwire.adk.events import ending_event, partial_event
from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, FinishReason
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.event_parts import shown_at
from adkwire.wire.encode.tool_calls import input_as_text
from adkwire.wire.encode.unsaved import Unsaved
from adkwire.wire.folding import fold
from tests.wire.adk_events import (
    MESSAGE,
    aborted,
    answered,
    asked,
    call,
    fed,
    gated,
    heard,
    image,
    model,
    partial,
    response,
    response_of,
    spoken,
    stamp,
    text,
    thought,
    verdict,
)

START = c.Start(message_id=MESSAGE)
BY_AGENT = {"author": "agent"}
PICTURE = c.File(url="data:image/png;base64,cG5n", media_type="image/png")
BROWSER: dict[str, Any] = {"long_running_tool_ids": {"c1"}}


def finish(reason: FinishReason = "stop", **metadata: Any) -> Chunk:
    return c.Finish(finish_reason=reason, message_metadata={**BY_AGENT, **metadata})


def text_of(part: str, *deltas: str) -> list[Chunk]:
    return [c.TextStart(id=part), *(c.TextDelta(id=part, delta=delta) for delta in deltas), c.TextEnd(id=part)]


def timed(*events: Event) -> list[Event]:
    """The events, one second after the other."""
    for second, event in enumerate(events, 1):
        event.timestamp = float(second)
    return list(events)


def streamed(*events: Event) -> list[Chunk]:
    """The chunks of these events; checks that the stored events give the same message."""
    chunks = response_of(*timed(*events))
    stored = sorted((event for event in events if not event.partial), key=shown_at)
    assert fold(response_of(*stored)) == fold(chunks)
    return chunks


def result(call_id: str = "c1") -> Chunk:
    return c.ToolOutputAvailable(tool_call_id=call_id, output={"r": 1})


class TestTranscripts:
    def test_partial_transcripts_are_written_and_the_finished_one_only_closes_the_part(self) -> None:
        chunks = streamed(spoken("Hel"), spoken("lo"), stamp(spoken("Hello", finished=True), at=1.0))

        assert chunks == [START, c.StartStep(), *text_of("text-1", "Hel", "lo"), c.FinishStep(), finish()]

    def test_the_rest_of_a_finished_transcript_is_added(self) -> None:
        chunks = streamed(spoken("Hel"), stamp(spoken("Hello", finished=True), at=1.0))

        assert chunks == [START, c.StartStep(), *text_of("text-1", "Hel", "lo"), c.FinishStep(), finish()]

    def test_a_finished_transcript_with_another_text_only_closes_the_part(self) -> None:
        chunks = response_of(spoken("Hel"), spoken("Good day", finished=True))

        assert chunks == [START, c.StartStep(), *text_of("text-1", "Hel"), c.FinishStep(), finish()]

    def test_a_finished_transcript_without_partial_ones_is_written(self) -> None:
        chunks = streamed(spoken("Hello", finished=True), spoken("", finished=True))

        assert chunks == [START, c.StartStep(), *text_of("text-1", "Hello"), c.FinishStep(), finish()]

    def test_spoken_and_written_text_of_one_agent_do_not_mix(self) -> None:
        chunks = streamed(
            spoken("a"),
            partial(thought("hm")),
            spoken("b"),
            stamp(model(thought("hm")), at=2.0),
            partial(text("x")),
            spoken("c"),
            stamp(model(text("x")), at=5.0),
            stamp(spoken("abc", finished=True), at=1.0),
        )

        assert chunks == [
            START,
            c.StartStep(),
            c.TextStart(id="text-1"),
            c.TextDelta(id="text-1", delta="a"),
            c.ReasoningStart(id="reasoning-2"),
            c.ReasoningDelta(id="reasoning-2", delta="hm"),
            c.TextDelta(id="text-1", delta="b"),
            c.ReasoningEnd(id="reasoning-2"),
            c.TextStart(id="text-3"),
            c.TextDelta(id="text-3", delta="x"),
            c.TextDelta(id="text-1", delta="c"),
            c.TextEnd(id="text-3"),
            c.TextEnd(id="text-1"),
            c.FinishStep(),
            finish(),
        ]

    def test_another_agent_on_the_branch_ends_a_transcript(self) -> None:
        encoder = Encoder(MESSAGE)
        chunks = fed(
            encoder, timed(spoken("a"), spoken("b", author="other"), spoken("b", author="other", finished=True))
        )

        assert chunks == [c.StartStep(), *text_of("text-1", "a"), *text_of("text-2", "b")]
        assert encoder.unsaved() == [Unsaved("agent", None, [("text", "a")], 1.0, speech=True)]

    def test_another_agent_on_the_branch_begins_a_step(self) -> None:
        chunks = streamed(
            model(call("c1")),
            spoken("a"),
            answered(response("c1", {"r": 1})),
            stamp(spoken("a", finished=True), at=2.0),
            model(text("b"), author="other"),
        )
        late = [spoken("a", finished=True), model(text("b"), author="other")]
        late[0].timestamp, late[1].timestamp = 9.0, 5.0

        assert [type(chunk) for chunk in chunks].count(c.StartStep) == 2
        again = response_of(model(call("c1")), stamp(late[0], at=2.0), answered(response("c1", {"r": 1})), late[1])
        assert [type(chunk) for chunk in again].count(c.StartStep) == 2

    def test_a_transcript_is_unsaved_until_it_is_finished(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, timed(partial(thought("hm")), spoken("a"), spoken("b")))

        written, spoken_text = encoder.unsaved()
        assert (written.parts, written.stamp) == ([("reasoning", "hm")], {"at": 1.0})
        assert (spoken_text.parts, spoken_text.stamp) == ([("text", "ab")], {"at": 2.0, "speech": True})
        fed(encoder, [spoken("ab", finished=True)])
        assert encoder.unsaved() == [written]

    def test_a_transcript_that_was_stored_unfinished_is_written_once(self) -> None:
        encoder = Encoder(MESSAGE)
        chunks = fed(encoder, timed(model(call("c1")), spoken("a"), answered(response("c1", {"r": 1})), spoken("b")))
        (unsaved,) = encoder.unsaved()
        saved = partial_event(unsaved, "i1", unsaved.stamp)
        saved.timestamp = 5.0
        chunks += [*encoder.feed(saved), *encoder.end()]

        assert encoder.unsaved() == []
        assert [chunk for chunk in chunks if isinstance(chunk, c.TextDelta)] == [
            c.TextDelta(id="text-1", delta="a"),
            c.TextDelta(id="text-1", delta="b"),
        ]
        again = response_of(model(call("c1")), saved, answered(response("c1", {"r": 1})))
        assert fold([START, *chunks]) == fold(again)

    def test_what_another_way_of_saving_leaves_out_is_not_stamped(self) -> None:
        assert Unsaved("agent", None, []).stamp == {}


class TestCallsDuringText:
    def test_a_call_an_approval_request_and_its_answer_leave_a_transcript_open(self) -> None:
        chunks = streamed(
            spoken("One "),
            model(call("c1", "pay")),
            spoken("moment, "),
            asked(gated("c1", "pay")),
            spoken("please."),
            stamp(verdict(c1=True), held=True),
            answered(response("c1", {"r": 1})),
            stamp(spoken("One moment, please.", finished=True), at=1.0),
            model(text("Paid.")),
        )

        assert chunks == [
            START,
            c.StartStep(),
            c.TextStart(id="text-1"),
            c.TextDelta(id="text-1", delta="One "),
            c.ToolInputAvailable(tool_call_id="c1", tool_name="pay", input={}),
            c.TextDelta(id="text-1", delta="moment, "),
            c.ToolApprovalRequest(approval_id="ask-c1", tool_call_id="c1"),
            c.TextDelta(id="text-1", delta="please."),
            c.ToolApprovalResponse(approval_id="ask-c1", approved=True),
            result(),
            c.TextEnd(id="text-1"),
            c.FinishStep(),
            c.StartStep(),
            *text_of("text-2", "Paid."),
            c.FinishStep(),
            finish(),
        ]

    def test_an_approval_request_and_a_response_leave_a_written_text_open(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [model(call("c1"), call("c2")), partial(text("a"))])

        assert [type(chunk) for chunk in fed(encoder, [asked(gated("c1"))])] == [c.ToolApprovalRequest]
        assert fed(encoder, [answered(response("c2", {"r": 1}))]) == [result("c2")]
        assert [one.parts for one in encoder.unsaved()] == [[("text", "a")]]
        assert fed(encoder, [partial(text("b")), model(text("ab"))]) == [
            c.TextDelta(id="text-1", delta="b"),
            c.TextEnd(id="text-1"),
        ]

    def test_a_call_ends_a_written_text(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [partial(text("a"))])

        assert fed(encoder, [model(call("c1"))])[0] == c.TextEnd(id="text-1")

    def test_no_step_begins_after_a_pending_approval_request(self) -> None:
        chunks = streamed(
            model(call("c1"), call("c2")),
            asked(gated("c1")),
            answered(response("c2", {"r": 1})),
            spoken("Meanwhile.", finished=True),
        )

        assert [type(chunk) for chunk in chunks].count(c.StartStep) == 1
        assert chunks[-1] == finish("tool-calls")

    def test_no_step_begins_while_the_model_speaks(self) -> None:
        chunks = streamed(
            model(call("c1")),
            spoken("a"),
            answered(response("c1", {"r": 1})),
            model(thought("hm")),
            model(call("c2")),
            spoken("b"),
            stamp(spoken("ab", finished=True), at=2.0),
            answered(response("c2", {"r": 1})),
            model(image()),
        )

        kinds = [type(chunk) for chunk in chunks]
        assert kinds.count(c.StartStep) == 2
        assert kinds.index(c.FinishStep) > kinds.index(c.TextEnd)

    def test_images_and_speech_beside_a_written_text(self) -> None:
        chunks = streamed(
            model(call("c1")),
            partial(text("a")),
            answered(response("c1", {"r": 1})),
            model(image()),
            spoken("x", finished=True),
            partial(text("b")),
            stamp(model(text("ab")), at=2.0),
        )

        assert chunks == [
            START,
            c.StartStep(),
            c.ToolInputAvailable(tool_call_id="c1", tool_name="tool", input={}),
            c.TextStart(id="text-1"),
            c.TextDelta(id="text-1", delta="a"),
            result(),
            PICTURE,
            *text_of("text-2", "x"),
            c.TextDelta(id="text-1", delta="b"),
            c.TextEnd(id="text-1"),
            c.FinishStep(),
            c.StartStep(),
            c.FinishStep(),
            finish(),
        ]

    def test_audio_beside_a_text_does_not_end_it(self) -> None:
        encoder = Encoder(MESSAGE)
        sound = types.Part(inline_data=types.Blob(mime_type="audio/pcm;rate=24000", data=b"\0\0"))
        fed(encoder, [partial(thought("hm"))])

        assert [chunk.type for chunk in fed(encoder, [model(sound)]) if isinstance(chunk, c.Data)] == ["data-pcm"]
        fed(encoder, [partial(sound)])
        assert fed(encoder, [model(sound)]) == []
        assert fed(encoder, [model(thought("hm"))]) == [c.ReasoningEnd(id="reasoning-1")]

    def test_a_verdict_that_was_waited_for_begins_another_step(self) -> None:
        events = [model(call("c1")), asked(gated("c1"))]
        encoder, held = Encoder(MESSAGE), Encoder(MESSAGE)
        fed(encoder, events)
        fed(held, events)

        assert fed(encoder, [verdict(c1=True)])[0] == c.FinishStep()
        assert fed(held, [stamp(verdict(c1=True), held=True)]) == [
            c.ToolApprovalResponse(approval_id="ask-c1", approved=True)
        ]


class TestInterruptions:
    @pytest.mark.parametrize(
        "events",
        [
            [partial(text("a")), model(text("a"), interrupted=True), model(turn_complete=True)],
            [spoken("a"), stamp(spoken("a", finished=True), at=1.0), model(interrupted=True)],
            [spoken("a"), model(interrupted=True), stamp(spoken("a", finished=True), at=1.0)],
            [model(call("c1")), model(interrupted=True), asked(gated("c1")), answered(response("c1", {"r": 1}))],
        ],
        ids=["written", "said", "finished late", "a question is no answer"],
    )
    def test_the_reason_is_that_it_was_interrupted(self, events: list[Event]) -> None:
        chunks = streamed(*events)

        assert chunks[-1] == finish("interrupted", ended="interrupted")
        assert c.Abort() not in chunks

    @pytest.mark.parametrize("more", [model(text("b")), spoken("b", finished=True), model(image())])
    def test_unless_it_went_on(self, more: Event) -> None:
        assert streamed(partial(text("a")), model(text("a"), interrupted=True), more)[-1] == finish()

    def test_unless_somebody_has_to_act(self) -> None:
        assert streamed(model(call("c1")), asked(gated("c1")), model(interrupted=True))[-1] == finish("tool-calls")

    def test_a_stop_is_a_stop(self) -> None:
        chunks = streamed(model(text("a"), interrupted=True), aborted())

        assert chunks[-2:] == [c.Abort(), finish("interrupted", ended="stopped")]

    def test_a_failure_is_a_failure(self) -> None:
        failed = ending_event(RuntimeError("x"), "agent", "i1", {})

        assert isinstance(streamed(model(text("a"), interrupted=True), failed)[-1], c.Error)


class TestBrowserCalls:
    def test_one_is_offered_when_it_may_be_executed(self) -> None:
        encoder = Encoder(MESSAGE)
        assert fed(encoder, [model(call("c1"), **BROWSER)]) == [c.StartStep(), *input_as_text("c1", "tool", {})]
        assert not encoder.is_waiting

        assert encoder.offer("c1") == [c.ToolInputAvailable(tool_call_id="c1", tool_name="tool", input={})]
        assert encoder.is_waiting
        assert encoder.offer("c1") == []
        assert encoder.offer("unknown") == []

    def test_one_that_was_asked_about_is_not(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [model(call("c1"), **BROWSER), asked(gated("c1"))])

        assert encoder.offer("c1") == []


class TestIsWaiting:
    def test_it_waits_for_an_answer_and_not_after_a_yes(self) -> None:
        encoder = Encoder(MESSAGE)
        assert not encoder.is_waiting
        fed(encoder, [model(call("c1"))])
        assert not encoder.is_waiting
        fed(encoder, [asked(gated("c1"))])
        assert encoder.is_waiting
        fed(encoder, [stamp(verdict(c1=True), held=True)])
        assert not encoder.is_waiting
        fed(encoder, [answered(response("c1", {}))])
        assert not encoder.is_waiting

    def test_it_waits_for_an_approved_browser_call(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [model(call("c1"), **BROWSER), asked(gated("c1")), stamp(verdict(c1=True), held=True)])

        assert encoder.is_waiting

    def test_not_while_a_sibling_runs(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [model(call("c1"), call("c2")), asked(gated("c1"))])
        assert not encoder.is_waiting

        fed(encoder, [answered(response("c2", {}))])
        assert encoder.is_waiting

    def test_a_tool_of_the_provider_does_not_count(self) -> None:
        encoder = Encoder(MESSAGE)
        search = types.Part(tool_call=types.ToolCall(id="p1"))
        fed(encoder, [model(search), model(call("c1")), asked(gated("c1"))])

        assert encoder.is_waiting

    def test_a_denial_is_sent_when_no_call_of_the_step_is_pending(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [model(call("c1"), call("c2")), asked(gated("c1")), asked(gated("c2"))])
        refused = [stamp(verdict(c1=False), held=True), answered(response("c1", {"error": "no"}))]

        assert fed(encoder, refused) == [c.ToolApprovalResponse(approval_id="ask-c1", approved=False)]
        assert encoder.is_waiting
        assert [call.id for call in encoder.pending_calls()] == ["c2"]
        allowed = [stamp(verdict(c2=True), held=True), answered(response("c2", {"r": 1}))]
        assert fed(encoder, allowed)[1:] == [result("c2"), c.ToolOutputDenied(tool_call_id="c1")]

    def test_a_denial_beside_a_parked_call_is_not_sent(self) -> None:
        chunks = streamed(
            model(call("c1"), call("c2")),
            asked(gated("c1")),
            asked(gated("c2")),
            stamp(verdict(c1=False), held=True),
            answered(response("c1", {"error": "no"})),
        )

        assert c.ToolOutputDenied(tool_call_id="c1") not in chunks
        assert chunks[-1] == finish("tool-calls")

    @pytest.mark.parametrize(
        ("piece", "whole"),
        [(partial(text("a")), model(text("a"))), (spoken("a"), spoken("a", finished=True))],
        ids=["written", "said"],
    )
    def test_not_in_mid_text(self, piece: Event, whole: Event) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [model(call("c1")), asked(gated("c1")), piece])
        assert not encoder.is_waiting

        fed(encoder, [whole])
        assert encoder.is_waiting

    def test_break_chunks_end_a_response_and_nothing_else(self) -> None:
        encoder = Encoder(MESSAGE)
        pause = c.Finish(finish_reason="tool-calls", message_metadata={})
        assert encoder.break_chunks() == [pause]

        fed(encoder, [model(call("c1")), asked(gated("c1"))])
        finish_chunk = c.Finish(finish_reason="tool-calls", message_metadata=BY_AGENT)
        assert encoder.break_chunks() == encoder.break_chunks() == [c.FinishStep(), finish_chunk]
        assert encoder.end()[0] == c.FinishStep()


class TestMediaBesideText:
    def test_the_transcript_of_the_user_is_transient(self) -> None:
        encoder = Encoder(MESSAGE)
        chunks = fed(encoder, [spoken("a"), heard("pay"), heard("pay it", finished=True), heard("", finished=True)])

        first, last = [chunk for chunk in chunks if isinstance(chunk, c.Data)]
        assert (first.type, first.id, first.transient) == ("data-transcript", UNSET, True)
        assert first.data == {"role": "user", "text": "pay", "final": False}
        assert last.data == {"role": "user", "text": "pay it", "final": True}
        assert encoder.end()[0] == c.TextEnd(id="text-1")

    def test_an_event_with_aside_in_its_stamp_is_not_shown(self) -> None:
        hidden = [stamp(model(text("a")), aside=True), stamp(model(interrupted=True), aside=True)]

        assert response_of(*hidden) == [START, c.Finish(finish_reason="stop", message_metadata={})]

    def test_audio_is_counted(self) -> None:
        chunks = streamed(
            stamp(spoken("a", finished=True), audio={"chunks": 2, "ms": 40}),
            stamp(model(turn_complete=True), audio={"chunks": 1, "ms": 20, "other": 1}),
            stamp(model(turn_complete=True), audio="broken"),
        )

        assert chunks[-1] == finish(audio={"chunks": 3, "ms": 60})

    def test_events_that_only_control_show_nothing(self) -> None:
        usage = types.GenerateContentResponseUsageMetadata(total_token_count=2)
        chunks = streamed(
            model(live_session_resumption_update=types.LiveServerSessionResumptionUpdate(new_handle="h")),
            model(voice_activity=types.VoiceActivity()),
            model(usage_metadata=usage, model_version="live"),
            model(usage_metadata=usage, live_session_id="s"),
            model(turn_complete=True, grounding_metadata=types.GroundingMetadata()),
        )

        metadata = {"modelVersion": "live", "usage": {"totalTokens": 4}}
        assert chunks == [START, c.Finish(finish_reason="stop", message_metadata=metadata)]

    def test_the_last_metadata_during_speech_counts(self) -> None:
        first = types.GroundingMetadata(web_search_queries=["first"])
        second = types.GroundingMetadata(web_search_queries=["second"])
        chunks = streamed(
            spoken("a"),
            model(grounding_metadata=first),
            model(grounding_metadata=second),
            stamp(spoken("a", finished=True), at=1.0),
        )

        assert chunks[-1] == finish(grounding={"webSearchQueries": ["second"]})
