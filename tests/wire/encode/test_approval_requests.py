"""Approval requests and their answers: events in, the whole chunk list out."""

from typing import Any

import pytest
from google.adk.events.event import Event
from google.genai import types

from adkwire.wire import chunks as c
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.event_parts import STAMP
from adkwire.wire.encode.tool_calls import REQUEST_CONFIRMATION, UNFINISHED
from adkwire.wire.folding import fold
from adkwire.wire.messages import Approval, StepStartPart, ToolPart
from tests.wire.adk_events import (
    MESSAGE,
    REJECTED,
    answered,
    asked,
    call,
    fed,
    gated,
    model,
    placeholder,
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
    continued,
    denied,
    failed,
    finish,
    output,
    replied,
    request,
    text_part,
    tool_of,
)


class TestApproval:
    def test_the_approval_request_is_for_the_original_call_and_the_placeholder_is_never_shown(self) -> None:
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

    def test_hint_and_payload_are_in_the_approval_data(self) -> None:
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
            *text_part("text-1", "Paid."),
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
            *text_part("text-1", "As you wish."),
        ]

    def test_a_denied_call_without_a_response_is_still_denied_at_the_end(self) -> None:
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

    def test_the_step_waits_until_both_calls_are_answered(self) -> None:
        chunks = response_of(
            model(call("c1"), call("c2")),
            asked(gated("c1"), gated("c2")),
            verdict(c1=True),
            answered(response("c1", {})),
        )

        assert chunks[-4:] == [c.FinishStep(), replied("c1", True), output("c1", {}), finish("tool-calls")]

    @pytest.mark.parametrize(
        ("answer", "approved"),
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
    def test_only_a_clear_yes_approves_in_both_forms(self, answer: dict[str, Any] | None, approved: bool) -> None:
        user = Event(
            author="user",
            content=types.Content(role="user", parts=[response("ask-c1", answer, REQUEST_CONFIRMATION)]),
        )

        assert replied("c1", approved) in response_of(model(call("c1")), asked(gated("c1")), user)

    def test_an_approval_request_for_an_unknown_call_is_skipped(self) -> None:
        settled = [model(call("c1")), answered(response("c1", {}))]
        headless = model(types.Part(function_call=types.FunctionCall(id="x", name="adk_request_confirmation")))

        chunks = response_of(*settled, asked(gated("c1")), asked(gated("ghost")), headless, verdict(ghost=True))

        assert not any(isinstance(chunk, c.ToolApprovalRequest | c.ToolApprovalResponse) for chunk in chunks)

    def test_the_answer_of_adk_to_its_own_request_is_no_verdict(self) -> None:
        encoder = Encoder("m1")
        fed(encoder, [model(call("c1")), asked(gated("c1"))])
        sealed = verdict(c1=False).model_copy(update={"author": "agent"})

        assert encoder.feed(sealed) == []
        assert [call.id for call in encoder.pending_calls()] == ["c1"]

    def test_a_verdict_counts_once(self) -> None:
        chunks = response_of(model(call("c1")), asked(gated("c1")), verdict(c1=False), verdict(c1=True))

        assert [chunk for chunk in chunks if isinstance(chunk, c.ToolApprovalResponse)] == [replied("c1", False)]

    @pytest.mark.parametrize("approved", [True, False])
    def test_an_approved_call_that_was_not_started_takes_its_verdict_again(self, approved: bool) -> None:
        encoder = Encoder(MESSAGE)
        fed(encoder, [model(call("c1")), asked(gated("c1")), verdict(c1=approved), placeholder("c1")])

        assert [call.id for call in encoder.pending_calls()] == (["c1"] if approved else [])
        assert fed(encoder, [verdict(c1=approved)]) == ([replied("c1", True)] if approved else [])

    def test_our_stamp_on_an_approval_request_is_in_the_approval_data(self) -> None:
        stamp = {"scopes": ["once", "chat"], "expiresAt": "2026-01-02T03:04:05Z"}
        chunks = response_of(model(call("c1"), call("c2")), asked(gated("c1"), gated("c2"), c1=stamp, c2={}))

        assert chunks[4:8] == [request("c1"), about("c1", **stamp), request("c2"), c.FinishStep()]

    def test_our_hint_replaces_that_of_adk_and_a_stamp_cannot_name_another_call(self) -> None:
        stamp = {"hint": "Pay Ann?", "scopes": ["once"], "toolCallId": "c2"}
        chunks = response_of(model(call("c1")), asked(gated("c1"), hint="Please approve", payload=[1], c1=stamp))

        assert chunks[4] == about("c1", hint="Pay Ann?", payload=[1], scopes=["once"])

    @pytest.mark.parametrize(
        "metadata",
        [{}, {STAMP: None}, {STAMP: {"asks": []}}, {STAMP: {"asks": {"ask-c1": "x"}}}, {STAMP: {"asks": {}}}],
    )
    def test_a_stamp_of_another_form_is_ignored(self, metadata: dict[str, Any]) -> None:
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
        answer = verdict(c1=True, stamps={"c1": {"reason": reason, "edited": "nonsense", "expired": "yes"}})

        assert fed(continued(model(call("c1")), asked(gated("c1"))), [answer]) == [replied("c1", True)]

    def test_edited_arguments_are_in_the_approval_data_and_the_call_keeps_its_own(self) -> None:
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

    def test_edited_arguments_are_sent_even_without_earlier_approval_data(self) -> None:
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
            *text_part("text-1", "So be it."),
        ]
        part = tool_of(response_of(*stored, *events))
        assert (part.state, part.approval) == ("output-error", Approval(id="ask-c1"))

    def test_an_expired_call_is_not_pending_and_takes_no_verdict(self) -> None:
        expired = verdict(c1=True, stamps={"c1": {"expired": True}})
        encoder = continued(model(call("c1")), asked(gated("c1")))

        assert fed(encoder, [expired, verdict(c1=True)]) == []
        assert (encoder.pending_calls(), encoder.running_calls()) == ([], [("c1", "tool")])
        assert encoder.end() == [failed("c1", UNFINISHED), c.StartStep(), c.FinishStep(), finish()]

    def test_a_superseded_question_shows_why(self) -> None:
        chunks = response_of(model(call("c1")), asked(gated("c1")), answered(response("c1", {"error": "went on"})))

        assert failed("c1", "went on") in chunks
