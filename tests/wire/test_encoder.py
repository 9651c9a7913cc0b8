"""ADK events in, the whole chunk list out: this file reads as the protocol does."""

import base64
import datetime
from typing import Any

import pytest
from google.adk.events.event import Event, NodeInfo
from google.adk.events.event_actions import EventActions
from google.genai import types

from adkwire.wire import chunks as c
from adkwire.wire.calls import ASK, UNFINISHED, Phase
from adkwire.wire.chunks import Chunk
from adkwire.wire.encoder import Encoder
from adkwire.wire.failures import Failure, explain_briefly, explain_fully
from adkwire.wire.folding import fold
from adkwire.wire.latecomers import for_latecomers
from adkwire.wire.messages import Approval, StepStartPart, TextPart, ToolPart
from adkwire.wire.parts import STAMP
from tests.wire.adk_events import (
    MESSAGE,
    REJECTED,
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
    placeholder,
    response,
    response_of,
    text,
    thought,
    verdict,
    wire,
)

START = c.Start(message_id=MESSAGE)
PNG = "data:image/png;base64,cG5n"


def finish(reason: c.FinishReason = "stop", author: str | None = "agent", **metadata: Any) -> c.Finish:
    """The end every response has; `finishReason` in the metadata is ADK's own word and only there if it said one."""
    said = {"author": author} if author else {}
    return c.Finish(finish_reason=reason, message_metadata=said | metadata)


def said(part: str, *deltas: str) -> list[Chunk]:
    return [c.TextStart(id=part), *(c.TextDelta(id=part, delta=delta) for delta in deltas), c.TextEnd(id=part)]


def thought_of(part: str, *deltas: str) -> list[Chunk]:
    pieces = [c.ReasoningDelta(id=part, delta=delta) for delta in deltas]
    return [c.ReasoningStart(id=part), *pieces, c.ReasoningEnd(id=part)]


def available(call_id: str, name: str = "tool", **args: Any) -> c.ToolInputAvailable:
    return c.ToolInputAvailable(tool_call_id=call_id, tool_name=name, input=args)


def held(call_id: str, arguments: str, name: str = "tool") -> list[Chunk]:
    return [
        c.ToolInputStart(tool_call_id=call_id, tool_name=name),
        c.ToolInputDelta(tool_call_id=call_id, input_text_delta=arguments),
    ]


def output(call_id: str, value: Any) -> c.ToolOutputAvailable:
    return c.ToolOutputAvailable(tool_call_id=call_id, output=value)


def failed(call_id: str, why: str) -> c.ToolOutputError:
    return c.ToolOutputError(tool_call_id=call_id, error_text=why)


def request(call_id: str) -> c.ToolApprovalRequest:
    return c.ToolApprovalRequest(approval_id=f"ask-{call_id}", tool_call_id=call_id)


def replied(call_id: str, approved: bool, **more: Any) -> c.ToolApprovalResponse:
    return c.ToolApprovalResponse(approval_id=f"ask-{call_id}", approved=approved, **more)


def about(call_id: str, **data: Any) -> c.Data:
    return c.Data(type="data-approval", id=f"ask-{call_id}", data={"toolCallId": call_id, **data})


def denied(call_id: str) -> c.ToolOutputDenied:
    return c.ToolOutputDenied(tool_call_id=call_id)


def continued(*stored: Event) -> Encoder:
    """An encoder that has read what a message was made of so far, as a continuation finds it."""
    encoder = Encoder(MESSAGE)
    fed(encoder, stored)
    encoder.pause()
    return encoder


def tool_of(chunks: list[Chunk]) -> ToolPart:
    [part] = [part for part in fold(chunks).parts if isinstance(part, ToolPart)]
    return part


class TestText:
    def test_partials_are_spoken_and_the_complete_copy_only_closes(self) -> None:
        chunks = response_of(partial(text("Hel")), partial(text("lo")), model(text("Hello")))

        assert chunks == [START, c.StartStep(), *said("text-1", "Hel", "lo"), c.FinishStep(), finish()]

    def test_a_model_that_does_not_stream_is_spoken_whole(self) -> None:
        assert response_of(model(text("Hello"))) == [
            START,
            c.StartStep(),
            *said("text-1", "Hello"),
            c.FinishStep(),
            finish(),
        ]

    def test_what_the_complete_text_has_beyond_the_partials_is_added(self) -> None:
        chunks = response_of(partial(thought("a")), partial(text("b")), model(thought("a"), text("bcd")))

        assert chunks[2:-2] == [*thought_of("reasoning-1", "a"), *said("text-2", "b", "cd")]

    def test_another_text_than_the_streamed_one_is_not_said_as_well(self) -> None:
        chunks = response_of(partial(text("draft")), model(text("Clean copy")))

        assert chunks[2:-2] == said("text-1", "draft")

    def test_thoughts_come_as_reasoning(self) -> None:
        chunks = response_of(partial(thought("hm")), partial(text("ok")), model(thought("hm"), text("ok")))

        assert chunks[2:-2] == [*thought_of("reasoning-1", "hm"), *said("text-2", "ok")]

    def test_thoughts_and_text_in_turn_each_get_a_part(self) -> None:
        streamed = [thought("a"), text("b"), thought("c"), text("d")]
        expected = [
            *thought_of("reasoning-1", "a"),
            *said("text-2", "b"),
            *thought_of("reasoning-3", "c"),
            *said("text-4", "d"),
        ]

        assert response_of(*map(partial, streamed), model(*streamed))[2:-2] == expected
        assert response_of(model(*streamed))[2:-2] == expected

    def test_empty_pieces_say_nothing(self) -> None:
        assert response_of(partial(text("")), partial(), model(text(""))) == [START, finish()]

    def test_an_empty_answer_is_no_error(self) -> None:
        empty = Event(author="agent", error_code="MODEL_RETURNED_NO_CONTENT")

        assert response_of(empty) == [START, finish(author=None)]

    def test_what_a_user_says_is_not_part_of_the_answer(self) -> None:
        asked_for = Event(author="user", content=types.Content(role="user", parts=[text("Hi")]))

        assert response_of(asked_for) == [START, finish(author=None)]

    def test_two_complete_texts_share_a_step_while_no_tool_was_used(self) -> None:
        chunks = response_of(model(text("a")), model(text("b"), author="second"))

        assert chunks[1:-1] == [c.StartStep(), *said("text-1", "a"), *said("text-2", "b"), c.FinishStep()]

    def test_parallel_agents_do_not_mix_their_texts(self) -> None:
        chunks = response_of(
            partial(text("red "), author="a", branch="a"),
            partial(text("blue "), author="b", branch="b"),
            partial(text("rose"), author="a", branch="a"),
            model(text("red rose"), author="a", branch="a"),
            partial(text("sky"), author="b", branch="b"),
            model(text("blue sky"), author="b", branch="b"),
        )

        texts = [part.text for part in fold(chunks).parts if isinstance(part, TextPart)]
        assert texts == ["red rose", "blue sky"]
        assert chunks[-1] == finish(author="b")

    def test_a_workflow_says_the_output_of_the_whole_graph_only(self) -> None:
        inner = Event(author="flow", output="half", node_info=NodeInfo(output_for=["flow@1/upper@1"]))
        whole = Event(author="flow", output="DONE", node_info=NodeInfo(output_for=["flow@1"]))
        as_data = Event(author="flow", output={"n": 1}, node_info=NodeInfo(output_for=["flow@1"]))

        assert response_of(inner, whole)[1:-2] == [c.StartStep(), *said("text-1", "DONE")]
        assert response_of(as_data)[1:-2] == [c.StartStep(), *said("text-1", '{"n":1}')]


class TestTools:
    def test_a_call_its_result_and_the_answer_are_two_steps(self) -> None:
        chunks = response_of(
            partial(text("Looking.")),
            partial(call("c1", "weather", city="Paris")),
            model(text("Looking."), call("c1", "weather", city="Paris")),
            answered(response("c1", {"sky": "blue"})),
            partial(text("Blue.")),
            model(text("Blue.")),
        )

        assert chunks == [
            START,
            c.StartStep(),
            *said("text-1", "Looking."),
            available("c1", "weather", city="Paris"),
            output("c1", {"sky": "blue"}),
            c.FinishStep(),
            c.StartStep(),
            *said("text-2", "Blue."),
            c.FinishStep(),
            finish(),
        ]

    def test_parallel_calls_are_one_step_with_a_merged_response(self) -> None:
        chunks = response_of(
            model(call("c1", n=1), call("c2", n=2)),
            answered(response("c1", {"r": 1}), response("c2", {"r": 2})),
            model(text("Both.")),
        )

        assert chunks[1:-1] == [
            c.StartStep(),
            available("c1", n=1),
            available("c2", n=2),
            output("c1", {"r": 1}),
            output("c2", {"r": 2}),
            c.FinishStep(),
            c.StartStep(),
            *said("text-1", "Both."),
            c.FinishStep(),
        ]

    def test_text_between_two_results_stays_in_the_step_of_the_open_call(self) -> None:
        chunks = response_of(
            model(call("c1"), call("c2")),
            answered(response("c1", {})),
            model(text("One is in.")),
            answered(response("c2", {})),
            model(text("Both.")),
        )

        assert [type(chunk) for chunk in chunks].count(c.StartStep) == 2
        assert chunks.index(c.FinishStep()) > chunks.index(output("c2", {}))

    def test_an_error_alone_is_a_failed_call(self) -> None:
        chunks = response_of(model(call("c1"), call("c2"), call("c3")), answered(
            response("c1", {"error": "no such city"}),
            response("c2", {"error": "seen", "result": 1}),
            response("c3", {"error": {"code": 5}}),
        ))  # fmt: skip

        assert chunks[5:8] == [
            failed("c1", "no such city"),
            output("c2", {"error": "seen", "result": 1}),
            output("c3", {"error": {"code": 5}}),
        ]

    def test_a_result_of_none_is_kept_as_null(self) -> None:
        chunks = response_of(model(call("c1")), answered(response("c1", None)), model(text("ok")))

        assert {"type": "tool-output-available", "toolCallId": "c1", "output": None} in wire(chunks)

    def test_a_result_goes_out_as_the_session_will_hold_it(self) -> None:
        at = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
        loop: dict[str, Any] = {}
        loop["me"] = loop
        results = [{"at": [at]}, {"plain": [1, {"a": None}]}, {"odd": object}, loop]
        calls = [call(f"c{index}") for index in range(4)]
        chunks = response_of(model(*calls), answered(*(response(f"c{n}", one) for n, one in enumerate(results))))

        dated, plain, odd, endless = [chunk for chunk in wire(chunks) if chunk["type"] == "tool-output-available"]
        assert (dated["output"], plain["output"]) == ({"at": ["2026-01-02T00:00:00Z"]}, {"plain": [1, {"a": None}]})
        assert odd["output"] == {"odd": "<class 'object'>"}
        assert endless["output"]["me"]

    def test_a_call_without_arguments_has_an_empty_object(self) -> None:
        bare = types.Part(function_call=types.FunctionCall(id="c1", name="tool"))

        assert available("c1") in response_of(model(bare))

    def test_nothing_answers_a_call_that_was_not_announced_or_is_settled(self) -> None:
        chunks = response_of(
            model(call("c1")),
            answered(response("c1", {"r": 1}), response("c1", {"r": 2}), response("ghost", {"r": 3})),
            answered(response("c1", {"error": "late"})),
            partial(response("c1", {"r": 4}), response("ghost", {"r": 5})),
            verdict(c1=True),
            model(text("ok")),
        )

        assert [chunk for chunk in chunks if "output" in str(chunk) or "pproval" in str(chunk)] == [
            output("c1", {"r": 1})
        ]

    def test_a_call_is_announced_once(self) -> None:
        chunks = response_of(model(call("c1")), model(call("c1")), answered(response("c1", {})), model(call("c1")))

        assert chunks.count(available("c1")) == 1

    def test_calls_without_id_or_name_are_skipped(self) -> None:
        nameless = types.Part(function_call=types.FunctionCall(id="c1"))
        without_id = types.Part(function_call=types.FunctionCall(name="tool"))

        assert response_of(model(nameless, without_id)) == [START, finish()]

    def test_generator_tools_show_first_looks(self) -> None:
        chunks = response_of(
            model(call("c1")),
            partial(response("c1", {"percent": 50})),
            answered(response("c1", {"percent": 80}, will_continue=True)),
            answered(response("c1", {"percent": 100})),
            model(text("ok")),
        )

        assert chunks[3:6] == [
            c.ToolOutputAvailable(tool_call_id="c1", output={"percent": 50}, preliminary=True),
            c.ToolOutputAvailable(tool_call_id="c1", output={"percent": 80}, preliminary=True),
            output("c1", {"percent": 100}),
        ]

    def test_the_padding_step_keeps_clients_from_sending_again(self) -> None:
        chunks = response_of(model(call("c1")), answered(response("c1", {})))

        assert chunks[3:] == [output("c1", {}), c.FinishStep(), c.StartStep(), c.FinishStep(), finish()]

    def test_a_call_nobody_finished_is_sealed_at_the_end(self) -> None:
        chunks = response_of(model(call("c1")))

        assert chunks[2:] == [
            available("c1"),
            failed("c1", UNFINISHED),
            c.FinishStep(),
            c.StartStep(),
            c.FinishStep(),
            finish(),
        ]


class TestStreamedArguments:
    def arguments(self, *pieces: types.PartialArg, more: bool = True, name: str | None = "tool") -> Event:
        streamed = types.FunctionCall(id="c1", name=name, partial_args=list(pieces), will_continue=more)
        return partial(types.Part(function_call=streamed))

    def test_arguments_arrive_as_text_and_then_whole(self) -> None:
        chunks = response_of(
            self.arguments(),
            self.arguments(types.PartialArg(json_path="$.city", string_value="Par")),
            self.arguments(types.PartialArg(json_path="$.city", string_value="is"), more=False),
            model(call("c1", city="Paris")),
            answered(response("c1", {})),
        )

        assert chunks[1:7] == [
            c.StartStep(),
            *held("c1", '{"city":"Par'),
            c.ToolInputDelta(tool_call_id="c1", input_text_delta="is"),
            available("c1", city="Paris"),
            output("c1", {}),
        ]

    def test_text_goes_on_behind_a_streamed_call_as_it_does_after_a_reload(self) -> None:
        whole = model(text("ab"), call("c1"), text("cd"))
        chunks = response_of(partial(text("ab")), self.arguments(), partial(text("cd")), whole)

        assert fold(chunks) == fold(response_of(whole))

    def test_a_streamed_browser_call_is_begun_anew_so_that_a_question_shows_all_of_it(self) -> None:
        chunks = response_of(
            self.arguments(types.PartialArg(json_path="$.n", number_value=1)),
            model(call("c1", n=1), long_running_tool_ids={"c1"}),
        )

        assert chunks[2:7] == [*held("c1", '{"n":1.0'), *held("c1", '{"n":1}'), available("c1", n=1)]

    def test_a_streamed_call_needs_a_name_and_comes_once(self) -> None:
        chunks = response_of(
            self.arguments(name=None),
            model(call("c1")),
            self.arguments(types.PartialArg(json_path="$.n", number_value=1)),
        )

        assert chunks[1:3] == [c.StartStep(), available("c1")]
        assert not any(isinstance(chunk, c.ToolInputStart | c.ToolInputDelta) for chunk in chunks)

    def test_a_crash_in_mid_arguments_leaves_a_call_to_store_and_to_seal(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [self.arguments(types.PartialArg(json_path="$.n", number_value=1))])

        [unsaved] = encoder.unsaved()
        assert unsaved.parts == [("call", call("c1"))]
        assert encoder.open_calls() == [("c1", "tool")]

    def test_a_call_that_was_cut_off_is_never_given_to_a_page(self) -> None:
        begun = self.arguments(types.PartialArg(json_path="$.n", number_value=1))
        kept, sealed = model(call("c1"), interrupted=True), answered(response("c1", {"error": "cut"}))
        chunks = response_of(begun, aborted(), kept, sealed)

        assert chunks[2:7] == [*held("c1", '{"n":1.0'), *held("c1", "{}"), failed("c1", "cut")]
        assert fold(chunks) == fold(response_of(aborted(), kept, sealed))


class TestApproval:
    def test_the_question_stands_on_the_call_and_the_placeholder_is_never_shown(self) -> None:
        chunks = response_of(model(call("c1", n=1)), asked(gated("c1", n=1)), placeholder("c1"))

        assert chunks == [
            START,
            c.StartStep(),
            available("c1", n=1),
            request("c1"),
            c.FinishStep(),
            finish("tool-calls"),
        ]

    def test_the_placeholder_may_come_first_and_beside_a_real_result(self) -> None:
        chunks = response_of(
            model(call("c1"), call("c2")),
            placeholder("c1", others=[response("c2", {"r": 2})]),
            asked(gated("c1")),
        )

        assert chunks[4:-2] == [output("c2", {"r": 2}), request("c1")]

    def test_hint_and_payload_travel_beside_the_question(self) -> None:
        question = asked(gated("c1"), hint="Sure?", payload={"limit": 5})
        chunks = response_of(model(call("c1")), question)

        data = {"toolCallId": "c1", "hint": "Sure?", "payload": {"limit": 5}}
        assert chunks[4] == c.Data(type="data-approval", id="ask-c1", data=data)

    def test_approved(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [model(call("c1")), asked(gated("c1")), placeholder("c1")])
        encoder.pause()

        chunks = fed(encoder, [verdict(c1=True), answered(response("c1", {"paid": 5})), model(text("Paid."))])

        assert chunks == [
            replied("c1", True),
            output("c1", {"paid": 5}),
            c.StartStep(),
            *said("text-1", "Paid."),
        ]

    def test_denied(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [model(call("c1")), asked(gated("c1")), placeholder("c1")])
        encoder.pause()

        chunks = fed(encoder, [verdict(c1=False), answered(response("c1", REJECTED)), model(text("As you wish."))])

        assert chunks == [
            replied("c1", False),
            c.ToolOutputDenied(tool_call_id="c1"),
            c.StartStep(),
            *said("text-1", "As you wish."),
        ]

    def test_a_denial_that_adk_did_not_get_to_is_still_a_denial(self) -> None:
        chunks = response_of(model(call("c1")), asked(gated("c1")), verdict(c1=False))

        assert chunks[-6:] == [
            c.FinishStep(),
            replied("c1", False),
            c.ToolOutputDenied(tool_call_id="c1"),
            c.StartStep(),
            c.FinishStep(),
            finish(),
        ]

    def test_two_at_once_with_mixed_verdicts(self) -> None:
        chunks = response_of(
            model(call("c1"), call("c2")),
            asked(gated("c1"), gated("c2")),
            placeholder("c1", "c2"),
            verdict(c1=True, c2=False),
            answered(response("c1", {"paid": 1}), response("c2", REJECTED)),
            model(text("One.")),
        )

        assert chunks[4:11] == [
            request("c1"),
            request("c2"),
            c.FinishStep(),
            replied("c1", True),
            replied("c2", False),
            output("c1", {"paid": 1}),
            c.ToolOutputDenied(tool_call_id="c2"),
        ]

    def test_one_of_two_answered_keeps_the_step_waiting(self) -> None:
        chunks = response_of(
            model(call("c1"), call("c2")),
            asked(gated("c1"), gated("c2")),
            verdict(c1=True),
            answered(response("c1", {})),
        )

        assert chunks[-4:] == [c.FinishStep(), replied("c1", True), output("c1", {}), finish("tool-calls")]

    @pytest.mark.parametrize(
        ("said", "approved"),
        [
            ({"confirmed": True}, True),
            ({"confirmed": True, "payload": {"n": 1}}, True),
            ({"response": '{"confirmed": true}'}, True),
            ({"response": '{"confirmed": true, "payload": {"n": 1}}'}, True),
            (None, False),
            ({}, False),
            ({"confirmed": "true"}, False),
            ({"confirmed": 1}, False),
            ({"response": '{"confirmed": false}'}, False),
            ({"response": '{"confirmed": 1}'}, False),
            ({"response": '{"confirmed": tr'}, False),
            ({"response": "{}"}, False),
            ({"response": "true"}, False),
            ({"response": {"confirmed": True}}, False),
            ({"response": None}, False),
            ({"response": '{"confirmed": true, "x": ' + "[" * 5_000 + "]" * 5_000 + "}"}, False),
            ({"response": '{"confirmed": true}', "confirmed": False}, False),
        ],
        ids=lambda one: str(one)[:50],
    )
    def test_only_a_clear_yes_approves_in_both_forms(self, said: dict[str, Any] | None, approved: bool) -> None:
        user = Event(author="user", content=types.Content(role="user", parts=[response("ask-c1", said, ASK)]))

        assert replied("c1", approved) in response_of(model(call("c1")), asked(gated("c1")), user)

    def test_a_question_about_nothing_is_not_asked(self) -> None:
        settled = [model(call("c1")), answered(response("c1", {}))]
        headless = model(types.Part(function_call=types.FunctionCall(id="x", name="adk_request_confirmation")))

        chunks = response_of(*settled, asked(gated("c1")), asked(gated("ghost")), headless, verdict(ghost=True))

        assert not any(isinstance(chunk, c.ToolApprovalRequest | c.ToolApprovalResponse) for chunk in chunks)

    def test_what_adk_says_to_its_own_question_is_no_verdict(self) -> None:
        encoder = Encoder("m1")
        fed(encoder, [model(call("c1")), asked(gated("c1"))])
        sealed = verdict(c1=False).model_copy(update={"author": "agent"})

        assert encoder.feed(sealed) == []
        assert [call.id for call in encoder.waiting()] == ["c1"]

    def test_a_verdict_counts_once(self) -> None:
        chunks = response_of(model(call("c1")), asked(gated("c1")), verdict(c1=False), verdict(c1=True))

        assert [chunk for chunk in chunks if isinstance(chunk, c.ToolApprovalResponse)] == [replied("c1", False)]

    @pytest.mark.parametrize("approved", [True, False])
    def test_an_approved_call_that_was_left_before_it_began_takes_its_verdict_again(self, approved: bool) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [model(call("c1")), asked(gated("c1")), verdict(c1=approved), placeholder("c1")])

        assert [call.id for call in encoder.waiting()] == (["c1"] if approved else [])
        assert fed(encoder, [verdict(c1=approved)]) == ([replied("c1", True)] if approved else [])

    def test_what_our_stamp_says_of_a_question_travels_beside_it(self) -> None:
        stamp = {"scopes": ["once", "chat"], "expiresAt": "2026-01-02T03:04:05Z"}
        chunks = response_of(model(call("c1"), call("c2")), asked(gated("c1"), gated("c2"), c1=stamp, c2={}))

        assert chunks[4:8] == [request("c1"), about("c1", **stamp), request("c2"), c.FinishStep()]

    def test_our_hint_goes_before_that_of_adk_and_a_stamp_cannot_name_another_call(self) -> None:
        stamp = {"hint": "Pay Ann?", "scopes": ["once"], "toolCallId": "c2"}
        chunks = response_of(model(call("c1")), asked(gated("c1"), hint="Please approve", payload=[1], c1=stamp))

        assert chunks[4] == about("c1", hint="Pay Ann?", payload=[1], scopes=["once"])

    @pytest.mark.parametrize(
        "metadata",
        [{}, {STAMP: None}, {STAMP: {"asks": []}}, {STAMP: {"asks": {"ask-c1": "x"}}}, {STAMP: {"asks": {}}}],
    )
    def test_a_stamp_that_is_none_says_nothing(self, metadata: dict[str, Any]) -> None:
        question = asked(gated("c1")).model_copy(update={"custom_metadata": metadata})

        assert response_of(model(call("c1")), question)[3:5] == [request("c1"), c.FinishStep()]

    def test_a_denial_keeps_its_reason(self) -> None:
        events = [model(call("c1")), asked(gated("c1")), verdict(c1=False, stamps={"c1": {"reason": "too much"}})]
        chunks = response_of(*events, answered(response("c1", REJECTED)))

        assert chunks[4:7] == [c.FinishStep(), replied("c1", False, reason="too much"), denied("c1")]
        part = tool_of(chunks)
        assert (part.state, part.approval) == (
            "output-denied",
            Approval(id="ask-c1", approved=False, reason="too much"),
        )

    @pytest.mark.parametrize("reason", ["", None, 5, ["x"]])
    def test_a_reason_is_a_text(self, reason: Any) -> None:
        said = verdict(c1=True, stamps={"c1": {"reason": reason, "edited": "nonsense", "expired": "yes"}})

        assert fed(continued(model(call("c1")), asked(gated("c1"))), [said]) == [replied("c1", True)]

    def test_edited_arguments_are_told_beside_the_question_which_stays_as_it_was(self) -> None:
        stamp = {"scopes": ["once"]}
        stored = [model(call("c1", n=50)), asked(gated("c1", n=50), hint="Sure?", c1=stamp), placeholder("c1")]
        edited = verdict(c1=True, stamps={"c1": {"edited": {"n": 5}, "reason": "less"}})
        events = [edited, answered(response("c1", {"paid": 5}))]

        assert fed(continued(*stored), events) == [
            replied("c1", True, reason="less"),
            about("c1", hint="Sure?", scopes=["once"], edited={"n": 5}),
            output("c1", {"paid": 5}),
        ]
        chunks = response_of(*stored, *events)
        assert tool_of(chunks).input == {"n": 50}
        assert [part for part in wire(chunks) if part["type"] == "data-approval"][-1]["data"]["edited"] == {"n": 5}
        assert len([part for part in fold(chunks).parts if not isinstance(part, ToolPart | StepStartPart)]) == 1

    def test_edited_arguments_are_told_even_if_nothing_was_before(self) -> None:
        encoder = continued(model(call("c1")), asked(gated("c1")))

        assert fed(encoder, [verdict(c1=True, stamps={"c1": {"edited": {}}})]) == [
            replied("c1", True),
            about("c1", edited={}),
        ]

    def test_a_no_changes_no_arguments(self) -> None:
        encoder = continued(model(call("c1")), asked(gated("c1")))

        assert fed(encoder, [verdict(c1=False, stamps={"c1": {"edited": {"n": 5}}})]) == [replied("c1", False)]

    def test_a_question_that_expired_got_no_verdict(self) -> None:
        stored = [model(call("c1")), asked(gated("c1")), placeholder("c1")]
        late = verdict(c1=False, stamps={"c1": {"expired": True, "reason": "nobody came"}})
        events = [late, answered(response("c1", {"error": "Nobody answered in time."})), model(text("So be it."))]

        assert fed(continued(*stored), events) == [
            failed("c1", "Nobody answered in time."),
            c.StartStep(),
            *said("text-1", "So be it."),
        ]
        part = tool_of(response_of(*stored, *events))
        assert (part.state, part.approval) == ("output-error", Approval(id="ask-c1"))

    def test_an_expired_question_waits_for_nobody_and_takes_no_verdict(self) -> None:
        expired = verdict(c1=True, stamps={"c1": {"expired": True}})
        encoder = continued(model(call("c1")), asked(gated("c1")))

        assert fed(encoder, [expired, verdict(c1=True)]) == []
        assert (encoder.waiting(), encoder.open_calls()) == ([], [("c1", "tool")])
        assert encoder.end() == [failed("c1", UNFINISHED), c.StartStep(), c.FinishStep(), finish()]

    def test_a_superseded_question_shows_why(self) -> None:
        chunks = response_of(model(call("c1")), asked(gated("c1")), answered(response("c1", {"error": "went on"})))

        assert failed("c1", "went on") in chunks


class TestBrowserCalls:
    def browser_call(self) -> Event:
        return model(call("c1", n=1), long_running_tool_ids={"c1"})

    def test_it_is_held_and_given_to_the_page_at_the_pause(self) -> None:
        encoder = Encoder(MESSAGE)

        assert encoder.feed(self.browser_call()) == [c.StartStep(), *held("c1", '{"n":1}')]
        assert encoder.pause() == [available("c1", n=1), c.FinishStep()]

    def test_the_response_ends_waiting(self) -> None:
        assert response_of(self.browser_call())[-3:] == [available("c1", n=1), c.FinishStep(), finish("tool-calls")]

    def test_the_continuation_settles_before_its_first_step(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [self.browser_call()])
        encoder.pause()

        chunks = fed(encoder, [from_browser("c1", {"lat": 1}), partial(text("Here.")), model(text("Here."))])

        assert chunks == [output("c1", {"lat": 1}), c.StartStep(), *said("text-1", "Here.")]

    def test_a_server_call_beside_it_is_available_at_once(self) -> None:
        both = model(call("c1", n=1), call("c2"), long_running_tool_ids={"c1"})
        chunks = response_of(both, answered(response("c2", {})))

        assert chunks[2:] == [
            *held("c1", '{"n":1}'),
            available("c2"),
            output("c2", {}),
            available("c1", n=1),
            c.FinishStep(),
            finish("tool-calls"),
        ]

    def test_a_gated_one_reaches_the_page_once_and_only_after_the_yes(self) -> None:
        first = response_of(self.browser_call(), asked(gated("c1", n=1)), placeholder("c1"))
        encoder = Encoder(MESSAGE)
        fed(encoder, [self.browser_call(), asked(gated("c1", n=1)), placeholder("c1")])
        encoder.pause()

        assert first[1:] == [c.StartStep(), *held("c1", '{"n":1}'), request("c1"), c.FinishStep(), finish("tool-calls")]
        assert fed(encoder, [verdict(c1=True)]) == [replied("c1", True), available("c1", n=1)]
        assert encoder.end() == [finish("tool-calls")]
        assert fed(encoder, [from_browser("c1", {})]) == [output("c1", {})]

    def test_one_that_comes_with_its_output_is_not_executed_again(self) -> None:
        encoder = continued(self.browser_call(), asked(gated("c1", n=1)), placeholder("c1"))
        answers = [verdict(c1=True, stamps={"c1": {"answered": True}}), from_browser("c1", {"r": 1})]

        assert fed(encoder, answers) == [replied("c1", True), output("c1", {"r": 1})]

    def test_a_denied_one_never_reaches_the_page(self) -> None:
        chunks = response_of(
            self.browser_call(), asked(gated("c1", n=1)), verdict(c1=False), answered(response("c1", REJECTED))
        )

        assert available("c1", n=1) not in chunks
        assert c.ToolOutputDenied(tool_call_id="c1") in chunks

    def test_one_that_a_policy_refuses_never_reaches_the_page(self) -> None:
        refused = answered(response("c1", {"error": "Not allowed."}))
        chunks = response_of(self.browser_call(), refused, model(text("ok")))

        assert chunks[2:6] == [*held("c1", '{"n":1}'), failed("c1", "Not allowed."), c.FinishStep()]
        assert tool_of(chunks) == ToolPart(
            type="tool-tool", tool_call_id="c1", state="output-error", input={"n": 1}, error_text="Not allowed."
        )

    def test_stored_events_read_again_do_not_make_a_page_execute_it(self) -> None:
        chunks = response_of(self.browser_call(), from_browser("c1", {"r": 1}), model(text("ok")))

        assert chunks[2:6] == [*held("c1", '{"n":1}'), c.FinishStep(), output("c1", {"r": 1})]
        assert tool_of(chunks) == ToolPart(
            type="tool-tool", tool_call_id="c1", state="output-available", input={"n": 1}, output={"r": 1}
        )

    def test_what_is_no_object_stays_what_it_is(self) -> None:
        stored = from_browser("c1", {"result": "noon"})
        stored.custom_metadata = {STAMP: {"outputs": {"c1": {"bare": True}}}}

        assert fed(continued(self.browser_call()), [stored]) == [output("c1", "noon")]

    def test_edited_arguments_that_come_with_the_output_are_told_as_text(self) -> None:
        encoder = continued(self.browser_call(), asked(gated("c1", n=1)), placeholder("c1"))
        said = verdict(c1=True, stamps={"c1": {"answered": True, "edited": {"n": 2}}})

        assert fed(encoder, [said, from_browser("c1", {})]) == [
            replied("c1", True),
            about("c1", edited={"n": 2}),
            *held("c1", '{"n":2}'),
            output("c1", {}),
        ]

    @pytest.mark.parametrize("bad_end", [aborted(), Event(author="agent", error_code="X", error_message="")])
    def test_one_held_when_the_run_ends_badly_is_not_given_to_the_page(self, bad_end: Event) -> None:
        chunks = response_of(self.browser_call(), bad_end)

        assert chunks[2:6] == [*held("c1", '{"n":1}'), failed("c1", UNFINISHED), c.FinishStep()]

    def test_a_bad_end_leaves_a_question_to_whoever_keeps_it(self) -> None:
        both = model(call("c1", n=1), call("c2"), long_running_tool_ids={"c1"})
        chunks = response_of(both, asked(gated("c2")), aborted())

        assert chunks[5:] == [
            request("c2"),
            failed("c1", UNFINISHED),
            c.FinishStep(),
            c.Abort(),
            finish("interrupted"),
        ]

    def test_the_error_of_a_browser_is_an_error(self) -> None:
        encoder = continued(self.browser_call())

        assert fed(encoder, [from_browser("c1", {"error": "User denied Geolocation"})]) == [
            failed("c1", "User denied Geolocation")
        ]

    def test_a_gated_one_is_executed_as_it_was_edited(self) -> None:
        stored = [self.browser_call(), asked(gated("c1", n=1)), placeholder("c1")]
        edited = verdict(c1=True, stamps={"c1": {"edited": {"n": 2}}})
        encoder = continued(*stored)

        assert fed(encoder, [edited]) == [replied("c1", True), about("c1", edited={"n": 2}), available("c1", n=2)]
        assert [(one.id, one.input) for one in encoder.waiting()] == [("c1", {"n": 2})]
        assert fed(encoder, [from_browser("c1", {})]) == [output("c1", {})]

    def test_a_gated_one_that_expired_never_reaches_the_page(self) -> None:
        encoder = continued(self.browser_call(), asked(gated("c1", n=1)))
        late = verdict(c1=False, stamps={"c1": {"expired": True}})

        assert fed(encoder, [late, answered(response("c1", {"error": "Too late."}))]) == [failed("c1", "Too late.")]

    def test_a_gated_one_approved_and_answered_in_one_send(self) -> None:
        encoder = continued(self.browser_call(), asked(gated("c1", n=1)))

        assert fed(encoder, [verdict(c1=True), from_browser("c1", {"r": 1}), model(text("ok"))]) == [
            replied("c1", True),
            available("c1", n=1),
            output("c1", {"r": 1}),
            c.StartStep(),
            *said("text-1", "ok"),
        ]


class TestContinuations:
    def paused(self) -> Encoder:
        """A gated call, one of the browser and one of the server, as the page has them when the run pauses."""
        calls = model(call("pay"), call("place"), call("sky"), long_running_tool_ids={"place"})
        return continued(calls, placeholder("pay", others=[response("sky", {})]), asked(gated("pay")))

    def test_all_answers_come_before_the_first_step(self) -> None:
        encoder = self.paused()
        answers = [from_browser("place", {"lat": 1}), verdict(pay=True), answered(response("pay", {"paid": 5}))]

        assert [encoder.start(), *fed(encoder, [*answers, partial(text("Done."))]), *encoder.end()] == [
            START,
            output("place", {"lat": 1}),
            replied("pay", True),
            output("pay", {"paid": 5}),
            c.StartStep(),
            *said("text-1", "Done."),
            c.FinishStep(),
            finish(),
        ]

    def test_a_part_of_the_answers_keeps_it_waiting(self) -> None:
        encoder = self.paused()

        assert [*fed(encoder, [from_browser("place", {})]), *encoder.end()] == [
            output("place", {}),
            finish("tool-calls"),
        ]

    def test_one_that_is_stopped_behind_the_outputs_does_not_make_the_client_send_again(self) -> None:
        encoder = self.paused()
        answers = [from_browser("place", {}), verdict(pay=False), answered(response("pay", REJECTED)), aborted()]

        assert [*fed(encoder, answers), *encoder.end()] == [
            output("place", {}),
            replied("pay", False),
            denied("pay"),
            c.StartStep(),
            c.FinishStep(),
            c.Abort(),
            finish("interrupted"),
        ]

    def test_one_that_ends_behind_the_outputs_does_not_make_the_client_send_again(self) -> None:
        encoder = continued(model(call("c1"), long_running_tool_ids={"c1"}))

        assert [*fed(encoder, [from_browser("c1", {})]), *encoder.end()] == [
            output("c1", {}),
            c.StartStep(),
            c.FinishStep(),
            finish(),
        ]

    def test_one_that_fails_behind_the_outputs_ends_with_the_error(self) -> None:
        encoder = continued(model(call("c1"), long_running_tool_ids={"c1"}))
        failure = Event(author="agent", error_code="X", error_message="")

        assert [*fed(encoder, [from_browser("c1", {}), failure]), *encoder.end()] == [
            output("c1", {}),
            c.MessageMetadata(message_metadata={"author": "agent"}),
            c.Error(error_text=explain_briefly(Failure("X", ""))),
        ]

    def test_a_question_in_a_later_step(self) -> None:
        encoder = continued(model(call("c1")), asked(gated("c1")), verdict(c1=True), answered(response("c1", {})))

        assert [*fed(encoder, [model(call("c2")), asked(gated("c2"))]), *encoder.end()] == [
            c.StartStep(),
            available("c2"),
            request("c2"),
            c.FinishStep(),
            finish("tool-calls"),
        ]


class TestLatecomers:
    def test_what_is_over_is_told_without_the_trigger(self) -> None:
        browser = model(call("c1", n=1), call("c2"), long_running_tool_ids={"c1"})
        events = [browser, asked(gated("c1", n=1)), verdict(c1=True, stamps={"c1": {"edited": {"n": 2}}})]
        chunks = response_of(*events, from_browser("c1", {"r": 1}))
        joined = for_latecomers(chunks[:-4])

        assert joined[2:] == [
            *held("c1", '{"n":1}'),
            available("c2"),
            request("c1"),
            c.FinishStep(),
            replied("c1", True),
            about("c1", edited={"n": 2}),
            *held("c1", '{"n":2}'),
            output("c1", {"r": 1}),
        ]
        assert fold(for_latecomers(chunks)) == fold(chunks)

    def test_what_still_waits_may_be_executed(self) -> None:
        chunks = response_of(model(call("c1"), long_running_tool_ids={"c1"}))

        assert for_latecomers(chunks) == chunks

    def test_a_tool_of_the_provider_triggers_nothing(self) -> None:
        tool = types.Part(tool_call=types.ToolCall(id="p1"))
        chunks = response_of(model(tool, types.Part(tool_response=types.ToolResponse(id="p1", response={}))))

        assert for_latecomers(chunks) == chunks


class TestProviderTools:
    def test_a_tool_the_provider_ran(self) -> None:
        tool = types.Part(tool_call=types.ToolCall(id="p1", tool_type=types.ToolType.GOOGLE_SEARCH_WEB, args={"q": 1}))
        answer = types.Part(tool_response=types.ToolResponse(id="p1", response={"hits": 2}))
        expected = [
            c.StartStep(),
            *said("text-1", "Let me see."),
            c.ToolInputAvailable(
                tool_call_id="p1", tool_name="GOOGLE_SEARCH_WEB", input={"q": 1}, provider_executed=True, dynamic=True
            ),
            c.ToolOutputAvailable(tool_call_id="p1", output={"hits": 2}, provider_executed=True, dynamic=True),
            *said("text-2", "Two."),
            c.FinishStep(),
            finish(),
        ]
        pieces = [text("Let me see."), tool, answer, text("Two.")]

        assert response_of(model(*pieces))[1:] == expected
        assert response_of(*map(partial, pieces), model(*pieces))[1:] == expected

    def test_one_without_an_answer_is_closed_and_not_left_for_the_session_to_answer(self) -> None:
        encoder = Encoder(MESSAGE)
        tool = types.Part(tool_call=types.ToolCall(id="p1"))
        fed(encoder, [partial(tool)])

        assert [one.parts for one in encoder.unsaved()] == [[("tool", tool)]]
        assert encoder.open_calls() == encoder.unsettled_calls() == []
        assert encoder.end()[0] == c.ToolOutputError(
            tool_call_id="p1", error_text=UNFINISHED, provider_executed=True, dynamic=True
        )

    def test_an_answer_to_nothing_is_skipped(self) -> None:
        stray = types.Part(tool_response=types.ToolResponse(id="ghost", response={}))

        assert response_of(model(stray)) == [START, finish()]


class TestMedia:
    def test_an_image_of_the_model(self) -> None:
        streamed = [partial(text("A cat:")), partial(image()), model(text("A cat:"), image())]
        expected = [*said("text-1", "A cat:"), c.File(url=PNG, media_type="image/png")]

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
    def test_sound_is_played_once_and_not_kept(self, media_type: str, rate: int) -> None:
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

    def test_state_that_is_ours_or_passing_is_not_shown(self) -> None:
        actions = EventActions(state_delta={"temp:x": 1, "adkwire:title": "T"})

        assert response_of(model(actions=actions)) == [START, finish(author=None)]


class TestEnd:
    def test_usage_is_summed_over_the_steps_and_the_rest_is_the_last_word(self) -> None:
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
            *said("text-1", "So f"),
            failed("c1", UNFINISHED),
            c.FinishStep(),
            c.MessageMetadata(message_metadata={"author": "agent"}),
            c.Error(error_text=explain_briefly(Failure("RESOURCE_EXHAUSTED", ""))),
        ]
        assert "secret" not in str(chunks)

    def test_the_developer_may_read_the_whole_error(self) -> None:
        encoder = Encoder(MESSAGE, explain=explain_fully)
        fed(encoder, [Event(author="agent", error_code="ValueError", error_message="no key")])

        assert encoder.failure == Failure("ValueError", "no key")
        assert encoder.end() == [c.Error(error_text="The agent could not answer: ValueError: no key")]
        assert explain_fully(Failure("X", "")) == explain_briefly(Failure("X", ""))

    def test_an_attempt_that_failed_and_then_succeeded_is_no_error(self) -> None:
        failure = Event(author="agent", error_code="TimeoutError", error_message="")

        assert response_of(failure, model(text("ok")))[-1] == finish()
        done = Event(author="flow", output="ok", node_info=NodeInfo(output_for=["flow@1"]))
        assert response_of(failure, done)[-1] == finish(author=None)

    def test_abort(self) -> None:
        chunks = response_of(partial(text("I was say")), aborted())

        assert chunks[2:] == [
            *said("text-1", "I was say"),
            c.FinishStep(),
            c.Abort(),
            finish("interrupted", author=None),
        ]

    def test_an_abort_is_known_once_it_was_told(self) -> None:
        encoder = Encoder(MESSAGE)
        assert not encoder.aborted
        fed(encoder, [aborted()])
        assert encoder.aborted

    def test_what_is_kept_of_an_aborted_text_does_not_undo_the_abort(self) -> None:
        kept = model(text("I was say"), interrupted=True)
        streamed = response_of(partial(text("I was say")), aborted(), kept)

        assert streamed[-2:] == [c.Abort(), finish("interrupted")]
        assert fold(streamed) == fold(response_of(aborted(), kept))

    def test_an_abort_after_settled_calls_pads_too(self) -> None:
        chunks = response_of(model(call("c1")), answered(response("c1", {})), aborted())

        assert chunks[-5:] == [c.FinishStep(), c.StartStep(), c.FinishStep(), c.Abort(), finish("interrupted")]

    def test_an_error_needs_no_padding(self) -> None:
        chunks = response_of(
            model(call("c1")), answered(response("c1", {})), Event(author="agent", error_code="X", error_message="")
        )

        assert [type(chunk) for chunk in chunks[-3:]] == [c.FinishStep, c.MessageMetadata, c.Error]
        assert sum(isinstance(part, StepStartPart) for part in fold(chunks).parts) == 1


class TestBookkeeping:
    def test_unsaved_is_what_was_shown_since_the_last_complete_event(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [partial(text("old")), model(text("old"))])
        assert encoder.unsaved() == []

        fed(encoder, [partial(thought("hm")), partial(text("a")), partial(text("b")), partial(image())])
        fed(encoder, [partial(text("other"), author="second", branch="root.second")])

        first, second = encoder.unsaved()
        assert first[:3] == ("agent", None, [("reasoning", "hm"), ("text", "ab"), ("media", image())])
        assert second[:3] == ("second", "root.second", [("text", "other")])

    def test_the_speaker_of_unsaved_text_is_the_last_author_of_its_branch(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [model(text("a")), partial(text("b"), author="second")])

        assert [one.author for one in encoder.unsaved()] == ["second"]

    def test_open_and_unsettled_calls(self) -> None:
        encoder = Encoder(MESSAGE)
        calls = [call("run"), call("ask"), call("page"), call("done"), call("no")]
        fed(encoder, [model(*calls, long_running_tool_ids={"page"}), asked(gated("ask"), gated("no"))])
        fed(encoder, [answered(response("done", {})), verdict(no=False)])

        assert [one for one, _ in encoder.open_calls()] == ["run", "no"]
        assert [one for one, _ in encoder.unsettled_calls()] == ["run", "ask", "page", "no"]
        assert [(one.id, one.phase) for one in encoder.waiting()] == [("ask", Phase.ASKED), ("page", Phase.HELD)]
        encoder.pause()
        assert [one for one, _ in encoder.open_calls()] == ["run", "no"]

    def test_who_waits_and_for_what(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [model(call("c1", "pay", n=1), call("c2", "place"), long_running_tool_ids={"c2"})])
        fed(encoder, [asked(gated("c1", "pay", n=1))])
        encoder.end()

        pay, place = encoder.waiting()
        assert (pay.name, pay.input, pay.ask, pay.browser, pay.phase) == ("pay", {"n": 1}, "ask-c1", False, Phase.ASKED)
        assert (place.name, place.ask, place.browser, place.phase) == ("place", None, True, Phase.RUNNING)
        fed(encoder, [verdict(c1=True), from_browser("c2", {})])
        assert encoder.waiting() == []

    def test_pause_closes_and_the_message_goes_on(self) -> None:
        encoder = Encoder(MESSAGE)
        before = [*fed(encoder, [partial(text("a"))]), *encoder.pause()]
        after = [*fed(encoder, [partial(text("b"))]), *encoder.pause()]

        assert before == [c.StartStep(), *said("text-1", "a"), c.FinishStep()]
        assert after == [c.StartStep(), *said("text-2", "b"), c.FinishStep()]
        assert encoder.pause() == []
