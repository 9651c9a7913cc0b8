"""Calls that the browser executes, and the continuations after their outputs."""

import pytest
from google.adk.events.event import Event

from adkwire.wire import chunks as c
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.event_parts import STAMP
from adkwire.wire.encode.tool_calls import UNFINISHED
from adkwire.wire.failures import Failure
from adkwire.wire.messages import ToolPart
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
    model,
    partial,
    placeholder,
    response,
    response_of,
    text,
    verdict,
)
from tests.wire.encode.expected_chunks import (
    START,
    about,
    available,
    continued,
    denied,
    failed,
    failed_answer,
    finish,
    held,
    output,
    replied,
    request,
    text_part,
    tool_of,
)


class TestBrowserCalls:
    def browser_call(self) -> Event:
        return model(call("c1", n=1), long_running_tool_ids={"c1"})

    def test_it_is_withheld_and_offered_to_the_page_at_the_pause(self) -> None:
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

        assert chunks == [output("c1", {"lat": 1}), c.StartStep(), *text_part("text-1", "Here.")]

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

    def test_stored_events_do_not_make_a_page_execute_it_again(self) -> None:
        chunks = response_of(self.browser_call(), from_browser("c1", {"r": 1}), model(text("ok")))

        assert chunks[2:6] == [*held("c1", '{"n":1}'), c.FinishStep(), output("c1", {"r": 1})]
        assert tool_of(chunks) == ToolPart(
            type="tool-tool", tool_call_id="c1", state="output-available", input={"n": 1}, output={"r": 1}
        )

    def test_an_output_that_is_not_an_object_is_not_changed(self) -> None:
        stored = from_browser("c1", {"result": "noon"})
        stored.custom_metadata = {STAMP: {"outputs": {"c1": {"bare": True}}}}

        assert fed(continued(self.browser_call()), [stored]) == [output("c1", "noon")]

    def test_edited_arguments_that_come_with_the_output_are_sent_as_text(self) -> None:
        encoder = continued(self.browser_call(), asked(gated("c1", n=1)), placeholder("c1"))
        answer = verdict(c1=True, stamps={"c1": {"answered": True, "edited": {"n": 2}}})

        assert fed(encoder, [answer, from_browser("c1", {})]) == [
            replied("c1", True),
            about("c1", edited={"n": 2}),
            *held("c1", '{"n":2}'),
            output("c1", {}),
        ]

    @pytest.mark.parametrize("bad_end", [aborted(), Event(author="agent", error_code="X", error_message="")])
    def test_a_withheld_call_is_not_offered_when_the_run_fails_or_is_aborted(self, bad_end: Event) -> None:
        chunks = response_of(self.browser_call(), bad_end)

        assert chunks[2:6] == [*held("c1", '{"n":1}'), failed("c1", UNFINISHED), c.FinishStep()]

    def test_a_bad_end_does_not_settle_a_call_that_was_asked_about(self) -> None:
        both = model(call("c1", n=1), call("c2"), long_running_tool_ids={"c1"})
        chunks = response_of(both, asked(gated("c2")), aborted())

        assert chunks[5:] == [
            request("c2"),
            failed("c1", UNFINISHED),
            c.FinishStep(),
            c.Abort(),
            finish("interrupted", ended="stopped"),
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
        assert [(one.id, one.input) for one in encoder.pending_calls()] == [("c1", {"n": 2})]
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
            *text_part("text-1", "ok"),
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
            *text_part("text-1", "Done."),
            c.FinishStep(),
            finish(),
        ]

    def test_it_waits_until_all_calls_are_answered(self) -> None:
        encoder = self.paused()

        assert [*fed(encoder, [from_browser("place", {})]), *encoder.end()] == [
            output("place", {}),
            finish("tool-calls"),
        ]

    def test_one_that_is_stopped_after_the_outputs_does_not_make_the_client_send_again(self) -> None:
        encoder = self.paused()
        answers = [from_browser("place", {}), verdict(pay=False), answered(response("pay", REJECTED)), aborted()]

        assert [*fed(encoder, answers), *encoder.end()] == [
            output("place", {}),
            replied("pay", False),
            denied("pay"),
            c.StartStep(),
            c.FinishStep(),
            c.Abort(),
            finish("interrupted", ended="stopped"),
        ]

    def test_one_that_ends_after_the_outputs_does_not_make_the_client_send_again(self) -> None:
        encoder = continued(model(call("c1"), long_running_tool_ids={"c1"}))

        assert [*fed(encoder, [from_browser("c1", {})]), *encoder.end()] == [
            output("c1", {}),
            c.StartStep(),
            c.FinishStep(),
            finish(),
        ]

    def test_one_that_fails_after_the_outputs_ends_with_the_error(self) -> None:
        encoder = continued(model(call("c1"), long_running_tool_ids={"c1"}))
        failure = Event(author="agent", error_code="X", error_message="")

        assert [*fed(encoder, [from_browser("c1", {}), failure]), *encoder.end()] == [
            output("c1", {}),
            *failed_answer(Failure("X", "")),
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
