"""Tool calls and their results: events in, the whole chunk list out."""

import datetime
from typing import Any

from google.adk.events.event import Event
from google.genai import types

from adkwire.wire import chunks as c
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.tool_calls import UNFINISHED, for_late_reader
from adkwire.wire.folding import fold
from tests.wire.adk_events import (
    MESSAGE,
    aborted,
    answered,
    asked,
    call,
    fed,
    from_browser,
    gated,
    model,
    partial,
    response,
    response_of,
    text,
    verdict,
    wire,
)
from tests.wire.encode.expected_chunks import (
    START,
    about,
    available,
    failed,
    finish,
    held,
    output,
    replied,
    request,
    text_part,
)


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
            *text_part("text-1", "Looking."),
            available("c1", "weather", city="Paris"),
            output("c1", {"sky": "blue"}),
            c.FinishStep(),
            c.StartStep(),
            *text_part("text-2", "Blue."),
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
            *text_part("text-1", "Both."),
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

    def test_generator_tools_show_preliminary_results(self) -> None:
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

    def test_a_call_without_a_result_is_sealed_at_the_end(self) -> None:
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

    def test_text_after_a_streamed_call_is_the_same_after_a_reload(self) -> None:
        whole = model(text("ab"), call("c1"), text("cd"))
        chunks = response_of(partial(text("ab")), self.arguments(), partial(text("cd")), whole)

        assert fold(chunks) == fold(response_of(whole))

    def test_the_arguments_of_a_streamed_browser_call_begin_again_for_the_approval_request(self) -> None:
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

    def test_a_crash_in_the_middle_of_arguments_leaves_a_call_to_store_and_to_seal(self) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [self.arguments(types.PartialArg(json_path="$.n", number_value=1))])

        [unsaved] = encoder.unsaved()
        assert unsaved.parts == [("call", call("c1"))]
        assert encoder.running_calls() == [("c1", "tool")]

    def test_a_call_that_was_cut_off_is_never_offered_to_a_page(self) -> None:
        begun = self.arguments(types.PartialArg(json_path="$.n", number_value=1))
        kept, sealed = model(call("c1"), interrupted=True), answered(response("c1", {"error": "cut"}))
        chunks = response_of(begun, aborted(), kept, sealed)

        assert chunks[2:7] == [*held("c1", '{"n":1.0'), *held("c1", "{}"), failed("c1", "cut")]
        assert fold(chunks) == fold(response_of(aborted(), kept, sealed))


class TestLateReader:
    def test_settled_calls_come_without_tool_input_available(self) -> None:
        browser = model(call("c1", n=1), call("c2"), long_running_tool_ids={"c1"})
        events = [browser, asked(gated("c1", n=1)), verdict(c1=True, stamps={"c1": {"edited": {"n": 2}}})]
        chunks = response_of(*events, from_browser("c1", {"r": 1}))
        joined = for_late_reader(chunks[:-4])

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
        assert fold(for_late_reader(chunks)) == fold(chunks)

    def test_a_pending_call_may_be_executed(self) -> None:
        chunks = response_of(model(call("c1"), long_running_tool_ids={"c1"}))

        assert for_late_reader(chunks) == chunks

    def test_a_tool_of_the_provider_triggers_nothing(self) -> None:
        tool = types.Part(tool_call=types.ToolCall(id="p1"))
        chunks = response_of(model(tool, types.Part(tool_response=types.ToolResponse(id="p1", response={}))))

        assert for_late_reader(chunks) == chunks


class TestProviderTools:
    def test_a_tool_the_provider_ran(self) -> None:
        tool = types.Part(tool_call=types.ToolCall(id="p1", tool_type=types.ToolType.GOOGLE_SEARCH_WEB, args={"q": 1}))
        answer = types.Part(tool_response=types.ToolResponse(id="p1", response={"hits": 2}))
        expected = [
            c.StartStep(),
            *text_part("text-1", "Let me see."),
            c.ToolInputAvailable(
                tool_call_id="p1", tool_name="GOOGLE_SEARCH_WEB", input={"q": 1}, provider_executed=True, dynamic=True
            ),
            c.ToolOutputAvailable(tool_call_id="p1", output={"hits": 2}, provider_executed=True, dynamic=True),
            *text_part("text-2", "Two."),
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
        assert encoder.running_calls() == encoder.unsettled_calls() == []
        assert encoder.end()[0] == c.ToolOutputError(
            tool_call_id="p1", error_text=UNFINISHED, provider_executed=True, dynamic=True
        )

    def test_an_answer_to_nothing_is_skipped(self) -> None:
        stray = types.Part(tool_response=types.ToolResponse(id="ghost", response={}))

        assert response_of(model(stray)) == [START, finish()]
