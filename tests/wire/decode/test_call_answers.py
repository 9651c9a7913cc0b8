"""Answers to calls, in an assistant message and in the body of the calls route."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from adkwire.errors import BadRequest, TooLarge, Unprocessable
from adkwire.wire.decode.call_answers import CallAnswer, CallAnswers, CallBody, decode_call_answer
from adkwire.wire.decode.decoder import TurnInput, UserMessage, decode_request
from tests.wire.decode.requests import (
    ANSWER,
    HELLO,
    LIMITS,
    answering,
    answers_of,
    asked,
    decoded,
    only_refusals,
    responded,
    tool,
    typed_over,
)

VERDICT = CallAnswer("c1", "pay", {"n": 1}, "a1", True)
OUTPUT = CallAnswer("c1", "pay", {"n": 1}, output={"r": 1})


class TestAnswers:
    def test_they_are_read_from_the_last_message_and_replace_nothing(self) -> None:
        turn = decoded(answering(responded()) | {"client": "ai/7.0.169"})

        assert turn == TurnInput("chat", "submit-message", None, None, "ai/7.0.169", CallAnswers("m1", (VERDICT,)))

    def test_only_the_last_step_can_be_answered(self) -> None:
        step = {"type": "step-start"}
        earlier = tool("output-available", toolCallId="c0", output=1)

        assert decoded(answering(step, earlier, step, responded())).answers == CallAnswers("m1", (VERDICT,))
        assert decoded(answering(step, responded(), step, {"type": "text", "text": "Paid."})).answers == CallAnswers(
            "m1", ()
        )

    def test_the_single_message_may_be_one(self) -> None:
        message = answering(responded())["messages"][-1]

        assert decoded({"id": "chat", "message": message}).answers == CallAnswers("m1", (VERDICT,))

    @pytest.mark.parametrize(
        ("part", "answer"),
        [
            (responded(False), CallAnswer("c1", "pay", {"n": 1}, "a1", False)),
            (
                responded(approval={"id": "a1", "approved": False, "reason": "too much", "signature": "x"}),
                CallAnswer("c1", "pay", {"n": 1}, "a1", False, "too much"),
            ),
            (tool("output-available", output={"r": 1}), OUTPUT),
            (tool("output-available", output=None), CallAnswer("c1", "pay", {"n": 1}, output=None)),
            (tool("output-available"), CallAnswer("c1", "pay", {"n": 1}, output=None)),
            (tool("output-error", errorText="denied"), CallAnswer("c1", "pay", {"n": 1}, error="denied")),
            (
                tool("output-available", output=1, approval={"id": "a1", "approved": True, "reason": "ok"}),
                CallAnswer("c1", "pay", {"n": 1}, "a1", True, "ok", 1),
            ),
            (
                tool("output-available", output=1, approval={"id": "a1"}),
                CallAnswer("c1", "pay", {"n": 1}, "a1", output=1),
            ),
            (
                tool("output-error", errorText="x", approval={"id": "a1", "approved": False, "reason": None}),
                CallAnswer("c1", "pay", {"n": 1}, "a1", False, error="x"),
            ),
            (
                tool("output-available", type="dynamic-tool", toolName="look", output=1, providerExecuted=False),
                CallAnswer("c1", "look", {"n": 1}, output=1),
            ),
            (tool("output-available", input=..., output=1), CallAnswer("c1", "pay", None, output=1)),
            (tool("output-available", type="tool-tool-x", output=1), CallAnswer("c1", "tool-x", {"n": 1}, output=1)),
            (responded(input={"n": 2**70}), CallAnswer("c1", "pay", {"n": 2.0**70}, "a1", True)),
        ],
        ids=lambda one: str(one)[:80],
    )
    def test_what_counts(self, part: Any, answer: CallAnswer) -> None:
        assert answers_of(answering(part)) == (answer,)

    def test_an_error_without_a_text_gets_one(self) -> None:
        [answer] = answers_of(answering(tool("output-error")))

        assert answer.output is UNSET
        assert answer.error

    @pytest.mark.parametrize(
        "part",
        [
            *(
                tool(state)
                for state in ("input-streaming", "input-available", "approval-requested", "output-denied", "")
            ),
            tool("approval-responded"),
            tool("approval-responded", approval=None),
            responded(None),
            responded(approval={"id": "a1"}),
            responded("true"),
            responded(1),
            responded(approval={"approved": True}),
            responded(approval={"id": 5, "approved": True}),
            responded(approval={"id": "", "approved": True}),
            responded(approval={"id": "a" * 257, "approved": True}),
            responded(approval={"id": "a1", "approved": True, "reason": 5}),
            responded(approval=[True]),
            responded(toolCallId=5),
            responded(toolCallId=""),
            responded(toolCallId="c" * 257),
            responded(state=5),
            responded(type="tool-"),
            responded(type="tool"),
            responded(type="data-pay"),
            responded(type=5),
            responded(type="dynamic-tool"),
            responded(type="dynamic-tool", toolName=5),
            responded(providerExecuted=True),
            responded(providerExecuted="no"),
            tool("output-available", output=1, preliminary=True),
            tool("output-available", output=1, preliminary=1),
            tool("output-available", output=1, approval="yes"),
            tool("output-error", errorText=5),
            {"type": "tool-pay"},
            "tool-pay",
            None,
            5,
            ["tool-pay"],
        ],
        ids=lambda one: json.dumps(one)[:100],
    )
    def test_what_does_not_count_leaves_the_rest(self, part: Any) -> None:
        assert answers_of(answering(part)) == ()
        assert answers_of(answering(part, tool("output-available", toolCallId="c2"))) == (
            CallAnswer("c2", "pay", {"n": 1}, output=None),
        )

    def test_no_answers_are_no_refusal(self) -> None:
        assert decoded(asked(messages=[HELLO, ANSWER])).answers == CallAnswers("m1", ())
        assert decoded({"id": "chat", "message": {"id": "m1", "role": "assistant"}}).answers == CallAnswers("m1", ())

    def test_equal_duplicates_count_once_and_others_not_at_all(self) -> None:
        other = tool("output-available", toolCallId="c2", output=1)

        assert answers_of(answering(responded(), other, responded())) == (
            VERDICT,
            CallAnswer("c2", "pay", {"n": 1}, output=1),
        )
        assert answers_of(answering(responded(), responded(False), responded())) == ()
        assert answers_of(answering(tool("output-available", output=1), tool("output-available", output=True))) == ()
        assert answers_of(answering(responded(input={"n": 1}), responded(input={"n": 1.0}))) == (VERDICT,)

    def test_a_long_reason_is_cut(self) -> None:
        [answer] = answers_of(answering(responded(approval={"id": "a1", "approved": False, "reason": "é" * 1_001})))

        assert answer.reason == "é" * 1_000

    def test_half_a_character_is_replaced(self) -> None:
        body = json.dumps(answering(responded(input={"n": "HALF"}))).encode().replace(b"HALF", rb"\ud83d")

        answers = decode_request(body, LIMITS).answers
        assert answers is not None
        assert answers.calls[0].input == {"n": "\ufffd"}

    @pytest.mark.parametrize("depth", [101, 500, 900])
    def test_too_deep_a_value_does_not_count(self, depth: int) -> None:
        deep = json.loads("[" * depth + "]" * depth)

        assert answers_of(answering(tool("output-available", output=deep))) == ()
        assert answers_of(answering(responded(input={"n": deep}))) == ()

    def test_any_depth_is_a_refusal_at_most(self) -> None:
        for depth in range(950, 1_050, 5):
            deep = b"[" * depth + b"]" * depth
            only_refusals(json.dumps(answering(responded(input="DEEP"))).encode().replace(b'"DEEP"', deep))

    def test_too_many_calls(self) -> None:
        calls = [responded(toolCallId=f"c{index}") for index in range(1_001)]

        assert len(answers_of(answering(*calls[:128]))) == 128
        with pytest.raises(TooLarge, match="at most 128 calls; this one has 1001"):
            decoded(answering(*calls))

    def test_too_many_parts(self) -> None:
        parts = [{"type": "step-start"}] * 9_999

        assert answers_of(answering(*parts[1:], responded())) == (VERDICT,)
        with pytest.raises(TooLarge, match="at most 10000 parts; this one has 10001"):
            decoded(answering(*parts, responded()))

    def test_two_requests_with_the_same_answers_are_equal(self) -> None:
        parts = [responded(), tool("output-available", toolCallId="c2", output={"big": 2**64})]
        same, other = decoded(answering(*parts)), decoded(answering(parts[0]))

        assert msgspec.msgpack.encode(decoded(answering(*parts))) == msgspec.msgpack.encode(same)
        assert msgspec.msgpack.encode(other) != msgspec.msgpack.encode(same)


class TestTypedOver:
    """The user's message comes last; the answer before it may hold outputs that were not sent before."""

    def test_outputs_are_read_and_verdicts_are_not(self) -> None:
        verdict = responded(toolCallId="c2")
        failed = tool("output-error", toolCallId="c3", errorText="x", approval={"id": "a3", "approved": True})
        turn = decoded(typed_over(tool("output-available", output={"r": 1}), verdict, failed))

        assert turn.message == UserMessage("u2", ("Hello",))
        assert turn.answers == CallAnswers("m1", (OUTPUT, CallAnswer("c3", "pay", {"n": 1}, "a3", True, error="x")))
        assert turn.answers.executed == {OUTPUT.call, "c3"}
        assert not CallAnswers("m1", (VERDICT,)).executed

    @pytest.mark.parametrize(
        "request_",
        [
            typed_over(responded()),
            typed_over({"type": "text", "text": "output-available"}),
            typed_over(*[tool("output-available", toolCallId=f"c{index}") for index in range(1_001)]),
            typed_over(tool("output-available", output=1), messageId="u2"),
            typed_over(tool("output-available", output=1), trigger="regenerate-message"),
            typed_over(tool("output-available", output=1), message=HELLO),
            asked(messages=[HELLO]),
            asked(messages=["output-available", HELLO]),
            asked(messages=[{"role": 5, "id": "output-error"}, HELLO]),
            asked(messages=[{"role": "assistant", "parts": [tool("output-available")]}, HELLO]),
            asked(messages=[{"role": "user", "id": "u0", "parts": [tool("output-available")]}, HELLO]),
            asked(messages=[answering(tool("output-available"))["messages"][-1], ANSWER, HELLO]),
        ],
        ids=lambda one: json.dumps(one)[-100:],
    )
    def test_otherwise_there_are_none(self, request_: Any) -> None:
        turn = decoded(request_)

        assert turn.message is not None
        assert turn.answers is None


class TestCallBody:
    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ({"approved": True}, CallBody(approved=True)),
            ({"approved": False, "reason": "too much"}, CallBody(approved=False, reason="too much")),
            ({"approved": True, "args": {"n": 1}, "scope": "chat"}, CallBody(True, args={"n": 1}, scope="chat")),
            ({"approved": True, "payload": [1], "scope": "always"}, CallBody(True, payload=[1], scope="always")),
            ({"output": {"r": 1}}, CallBody(output={"r": 1})),
            ({"output": None}, CallBody(output=None)),
            ({"approved": True, "output": 2**70}, CallBody(True, output=2.0**70)),
            ({"error": ""}, CallBody(error="")),
            ({"approved": True, "error": "x", "reason": "é" * 1_000}, CallBody(True, "é" * 1_000, error="x")),
        ],
        ids=str,
    )
    def test_forms(self, body: Any, expected: CallBody) -> None:
        answer = decode_call_answer(json.dumps(body).encode())

        assert answer == expected
        assert (answer.output is UNSET) == ("output" not in body)

    @pytest.mark.parametrize(
        ("body", "why"),
        [
            ({}, "says nothing"),
            ({"approved": None}, "says nothing"),
            ({"reason": "x"}, "says nothing"),
            ({"args": {}}, "says nothing"),
            ({"payload": 1, "scope": "chat"}, "says nothing"),
            ({"output": 1, "error": "x"}, "not both"),
            ({"approved": True, "output": None, "error": "x"}, "not both"),
            ({"approved": False, "args": {}}, "not approved takes a `reason` and nothing else"),
            ({"approved": False, "payload": 0}, "not approved"),
            ({"approved": False, "output": None}, "not approved"),
            ({"approved": False, "error": "x"}, "not approved"),
            ({"approved": False, "scope": "chat"}, "not approved"),
            ({"approved": True, "args": {}, "output": 1}, "before it runs"),
            ({"args": {}, "error": "x"}, "before it runs"),
            ({"approved": 1}, "Expected `bool"),
            ({"approved": "yes"}, "Expected `bool"),
            ({"approved": True, "reason": 5}, "Expected `str"),
            ({"approved": True, "reason": "x" * 1_001}, "length <= 1000"),
            ({"approved": True, "args": [1]}, "Expected `object"),
            ({"approved": True, "scope": "forever"}, "forever"),
            ({"approved": True, "scope": None}, "Expected `str"),
            ({"error": 5}, "Expected `str"),
            ({"approved": True, "aproved": True}, "unknown field `aproved`"),
            ({"approved": True, "args": {"a": json.loads("[" * 100 + "]" * 100)}}, "deeper than 100"),
            ({"output": json.loads("[" * 101 + "]" * 101)}, "deeper than 100"),
            ({"approved": True, "payload": json.loads("[" * 900 + "]" * 900)}, "deeper than 100"),
            ([], "Expected `object"),
            (None, "Expected `object"),
        ],
        ids=lambda one: json.dumps(one)[:60],
    )
    def test_refusals(self, body: Any, why: str) -> None:
        with pytest.raises(Unprocessable, match=why):
            decode_call_answer(json.dumps(body).encode())

    @pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"output":' + b"[" * 5_000 + b"]" * 5_000 + b"}"])
    def test_what_is_no_json(self, body: bytes) -> None:
        with pytest.raises(BadRequest):
            decode_call_answer(body)
