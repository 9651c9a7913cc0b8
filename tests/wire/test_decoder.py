"""Requests as clients send them, and everything else that may arrive at the door."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from adkwire.errors import BadRequest, RequestError, TooLarge, Unprocessable, UnsupportedType
from adkwire.wire.decoder import (
    Answers,
    CallAnswer,
    CallBody,
    InputLimits,
    TurnInput,
    UserMessage,
    check_chat_id,
    decode_call_answer,
    decode_request,
)
from adkwire.wire.media import Media, dimensions, sniff
from tests.wire.pictures import data_url, gif, jpeg, png, webp_extended, webp_lossless, webp_lossy

LIMITS = InputLimits(max_parts=20, max_part_bytes=5_000_000, max_image_pixels=16_000_000)
HELLO = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}
ANSWER = {"id": "m1", "role": "assistant", "parts": [{"type": "text", "text": "I never said that", "state": "done"}]}
Picture = Callable[[int, int], bytes]
PICTURES: list[tuple[Picture, str]] = [
    (png, "image/png"),
    (gif, "image/gif"),
    (jpeg, "image/jpeg"),
    (webp_lossy, "image/webp"),
    (webp_lossless, "image/webp"),
    (webp_extended, "image/webp"),
]


def decoded(request: Any, limits: InputLimits = LIMITS) -> TurnInput:
    return decode_request(json.dumps(request).encode(), limits)


def asked(**fields: Any) -> dict[str, Any]:
    return {"id": "chat", "trigger": "submit-message", "messages": [HELLO]} | fields


def saying(*parts: Any, **fields: Any) -> dict[str, Any]:
    return asked(messages=[{"id": "u1", "role": "user", "parts": list(parts)} | fields])


def with_file(url: str, media_type: str | None = None, **fields: Any) -> dict[str, Any]:
    declared = {} if media_type is None else {"mediaType": media_type}
    return saying({"type": "file", "url": url} | declared | fields)


def tool(state: str, **fields: Any) -> dict[str, Any]:
    """A part of an assistant's message, as a page holds it; a field of `...` is left out."""
    part = {"type": "tool-pay", "toolCallId": "c1", "state": state, "input": {"n": 1}} | fields
    return {name: value for name, value in part.items() if value is not ...}


def responded(approved: Any = True, **fields: Any) -> dict[str, Any]:
    return tool("approval-responded", approval={"id": "a1", "approved": approved}) | fields


def answering(*parts: Any, **fields: Any) -> dict[str, Any]:
    """What a stock client posts when calls were answered."""
    message = {"id": "m1", "role": "assistant", "parts": [{"type": "step-start"}, *parts]}
    return asked(messages=[HELLO, message | fields], messageId="m1")


def typed_over(*parts: Any, **fields: Any) -> dict[str, Any]:
    """What a stock client posts when the user types instead."""
    before = answering(*parts)["messages"]
    return asked(messages=[*before, HELLO | {"id": "u2"}]) | fields


def answers_of(request: Any) -> tuple[CallAnswer, ...]:
    turn = decoded(request)
    assert turn.answers is not None
    return turn.answers.calls


def parts_of(request: Any) -> tuple[str | Media, ...]:
    turn = decoded(request)
    assert turn.message is not None
    return turn.message.parts


class TestForms:
    def test_the_whole_history(self) -> None:
        turn = decoded(asked(messages=[HELLO, ANSWER, HELLO | {"id": "u2"}]))

        assert turn == TurnInput("chat", "submit-message", UserMessage("u2", ("Hello",)), None)

    def test_only_the_last_message(self) -> None:
        assert decoded({"id": "chat", "message": HELLO}).message == UserMessage("u1", ("Hello",))

    def test_the_single_message_wins_over_the_history(self) -> None:
        assert decoded(asked(message=HELLO | {"id": "u2"})).message == UserMessage("u2", ("Hello",))

    def test_a_message_of_null_is_none(self) -> None:
        assert decoded(asked(message=None)).message == UserMessage("u1", ("Hello",))

    def test_plain_content(self) -> None:
        assert decoded(asked(messages=[{"role": "user", "content": "Hi"}])).message == UserMessage("", ("Hi",))

    def test_parts_win_over_content(self) -> None:
        assert decoded(asked(messages=[HELLO | {"content": "no"}])).message == UserMessage("u1", ("Hello",))

    def test_text_and_files_keep_their_order(self) -> None:
        file = {"type": "file", "url": data_url(png(2, 3)), "mediaType": "image/png", "filename": "a.png"}

        assert parts_of(saying(file, {"type": "text", "text": "What is it?"})) == (
            Media("image/png", png(2, 3), "a.png"),
            "What is it?",
        )

    def test_parts_of_other_kinds_and_empty_texts_are_skipped(self) -> None:
        others: list[Any] = [{"type": "step-start"}, {"type": "data-x", "data": {}}, {"type": "text", "text": ""}]

        assert parts_of(saying(*others, {"type": "text", "text": "x"})) == ("x",)

    def test_unknown_fields_are_skipped(self) -> None:
        assert decoded(asked(model="gpt", tools=[1], messages=[HELLO | {"metadata": {"a": 1}}])).chat == "chat"

    def test_earlier_messages_are_not_even_parsed(self) -> None:
        forged = {"role": 5, "parts": "nonsense"}

        assert decoded(asked(messages=[forged, "x", None, HELLO])).message == UserMessage("u1", ("Hello",))

    def test_regenerate(self) -> None:
        turn = decoded(asked(trigger="regenerate-message", messageId="m1"))

        assert (turn.trigger, turn.replaces, turn.message) == (
            "regenerate-message",
            "m1",
            UserMessage("u1", ("Hello",)),
        )

    def test_regenerate_may_only_name_the_message(self) -> None:
        turn = decoded({"id": "chat", "trigger": "regenerate-message", "messageId": "m1"})

        assert (turn.replaces, turn.message) == ("m1", None)

    def test_edit(self) -> None:
        assert decoded(asked(messageId="u1")).replaces == "u1"

    def test_the_client_may_declare_itself(self) -> None:
        assert decoded(asked(client="ai/7.0.169")).client == "ai/7.0.169"

    def test_any_language(self) -> None:
        said = "花子に50ドル送金 👩‍👩‍👧 \u202e\x00"

        assert parts_of(saying({"type": "text", "text": said})) == (said,)
        assert decoded(asked(messages=[HELLO | {"id": "メッセージ"}])).message == UserMessage("メッセージ", ("Hello",))

    def test_of_duplicate_keys_the_last_counts(self) -> None:
        body = b'{"id":"a","id":"b","message":{"role":"system","role":"user","content":"x","content":"y"}}'

        assert decode_request(body, LIMITS) == TurnInput("b", "submit-message", UserMessage("", ("y",)), None)

    def test_huge_numbers_where_nobody_looks_do_no_harm(self) -> None:
        body = b'{"id":"a","n":1e999999,"message":{"role":"user","content":"x","n":%b}}' % (b"9" * 5000)

        assert decode_request(body, LIMITS).chat == "a"


class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "refusal"),
        [
            (b"", BadRequest),
            (b"{", BadRequest),
            (b"\xff\xfe", BadRequest),
            (b'{"id":"a","message":{"role":"user","content":"\xff"}}', BadRequest),
            (b'{"id":"a"} {"id":"b"}', BadRequest),
            (b'{"id":"a","messages":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}", BadRequest),
            (b'{"id":"a","x":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}", BadRequest),
            (b"[" * 100_000, Unprocessable),
            (b"[]", Unprocessable),
            (b"null", Unprocessable),
            (b"{}", Unprocessable),
        ],
        ids=lambda one: repr(one)[:30],
    )
    def test_bodies(self, body: bytes, refusal: type[RequestError]) -> None:
        with pytest.raises(refusal) as refused:
            decode_request(body, LIMITS)
        assert type(refused.value) is refusal

    @pytest.mark.parametrize(
        "request_",
        [
            asked(id=5),
            asked(id=""),
            asked(id="a/b"),
            asked(id=".."),
            asked(id="a" * 129),
            asked(id="chat\n"),
            asked(id="日本"),
            asked(trigger="resume"),
            asked(messages=[]),
            asked(messages=None),
            asked(messages={}),
            asked(messages=["x"]),
            asked(messages=[None]),
            asked(message=5),
            asked(message="x"),
            asked(messageId=5),
            asked(messageId="a\nb"),
            asked(messageId="a" * 129),
            asked(client=7),
            {"id": "chat", "trigger": "regenerate-message"},
            {"id": "chat", "messageId": "m1"},
            asked(messages=[HELLO, ANSWER], trigger="regenerate-message"),
            asked(messages=[HELLO, ANSWER | {"id": ""}]),
            asked(messages=[HELLO, ANSWER | {"id": "a\nb"}]),
            asked(messages=[HELLO, ANSWER | {"parts": "x"}]),
            asked(messages=[HELLO, {"role": "system", "content": "Obey."}]),
            asked(messages=[{"role": "tool", "content": "x"}]),
            asked(messages=[{"content": "x"}]),
            asked(messages=[HELLO | {"id": 5}]),
            asked(messages=[HELLO | {"id": "a" * 129}]),
            asked(messages=[HELLO | {"id": "a\x7f"}]),
            asked(messages=[{"role": "user"}]),
            asked(messages=[{"role": "user", "content": ""}]),
            asked(messages=[{"role": "user", "content": " \n"}]),
            asked(messages=[{"role": "user", "content": 5}]),
            asked(messages=[{"role": "user", "parts": "x"}]),
            saying(),
            saying("x"),
            saying({"text": "x"}),
            saying({"type": "text"}),
            saying({"type": "text", "text": 5}),
            saying({"type": "text", "text": " \t"}),
            saying({"type": "file"}),
            saying({"type": "file", "url": 5}),
        ],
        ids=lambda one: json.dumps(one)[:60],
    )
    def test_well_formed_but_wrong(self, request_: Any) -> None:
        with pytest.raises(RequestError) as refused:
            decoded(request_)
        assert type(refused.value) is Unprocessable

    def test_too_many_parts(self) -> None:
        part = {"type": "text", "text": "x"}

        assert len(parts_of(saying(*[part] * 20))) == 20
        with pytest.raises(TooLarge, match="at most 20 parts; this one has 21"):
            decoded(saying(*[part] * 21))

    def test_too_long_a_text(self) -> None:
        limits = InputLimits(20, 6, 100)

        assert decoded(saying({"type": "text", "text": "éé"}), limits)
        with pytest.raises(TooLarge):
            decoded(saying({"type": "text", "text": "éééé"}), limits)

    def test_too_long_a_plain_content(self) -> None:
        limits = InputLimits(20, 6, 100)

        assert decoded(asked(messages=[{"role": "user", "content": "123456"}]), limits)
        with pytest.raises(TooLarge):
            decoded(asked(messages=[{"role": "user", "content": "1234567"}]), limits)

    def test_an_answer_to_make_anew_says_what_to_do(self) -> None:
        with pytest.raises(Unprocessable, match="must be the user's, not the assistant's") as refused:
            decoded(asked(messages=[HELLO, ANSWER], trigger="regenerate-message", messageId="m1"))
        assert refused.value.hint

    def test_chat_ids(self) -> None:
        assert check_chat_id("a_B.9:-") == "a_B.9:-"


VERDICT = CallAnswer("c1", "pay", {"n": 1}, "a1", True)
OUTPUT = CallAnswer("c1", "pay", {"n": 1}, output={"r": 1})


class TestAnswers:
    def test_they_are_read_from_the_last_message_and_replace_nothing(self) -> None:
        turn = decoded(answering(responded()) | {"client": "ai/7.0.169"})

        assert turn == TurnInput("chat", "submit-message", None, None, "ai/7.0.169", Answers("m1", (VERDICT,)))

    def test_only_the_last_step_can_be_answered(self) -> None:
        step = {"type": "step-start"}
        earlier = tool("output-available", toolCallId="c0", output=1)

        assert decoded(answering(step, earlier, step, responded())).answers == Answers("m1", (VERDICT,))
        assert decoded(answering(step, responded(), step, {"type": "text", "text": "Paid."})).answers == Answers(
            "m1", ()
        )

    def test_the_single_message_may_be_one(self) -> None:
        message = answering(responded())["messages"][-1]

        assert decoded({"id": "chat", "message": message}).answers == Answers("m1", (VERDICT,))

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
        assert decoded(asked(messages=[HELLO, ANSWER])).answers == Answers("m1", ())
        assert decoded({"id": "chat", "message": {"id": "m1", "role": "assistant"}}).answers == Answers("m1", ())

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

    def test_two_requests_with_the_same_answers_can_be_told_to_be_so(self) -> None:
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
        assert turn.answers == Answers("m1", (OUTPUT, CallAnswer("c3", "pay", {"n": 1}, "a3", True, error="x")))
        assert turn.answers.given == {OUTPUT.call, "c3"}
        assert not Answers("m1", (VERDICT,)).given

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
        ("body", "said"),
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
    def test_forms(self, body: Any, said: CallBody) -> None:
        answer = decode_call_answer(json.dumps(body).encode())

        assert answer == said
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


class TestFiles:
    @pytest.mark.parametrize(("picture", "media_type"), PICTURES)
    def test_images_are_taken(self, picture: Picture, media_type: str) -> None:
        data = picture(300, 200)

        assert dimensions(media_type, data) == (300, 200)
        assert parts_of(with_file(data_url(data, media_type), media_type)) == (Media(media_type, data),)

    @pytest.mark.parametrize("declared", [None, "", "image", "image/jpg", "image/JPEG"])
    def test_the_declared_type_may_be_loose(self, declared: str | None) -> None:
        assert parts_of(with_file(data_url(jpeg(1, 1), "image/jpg"), declared)) == (Media("image/jpeg", jpeg(1, 1)),)

    def test_parameters_of_the_type_are_allowed(self) -> None:
        url = data_url(png(1, 1)).replace(";base64", ";name=a.png;base64")

        assert parts_of(with_file(url, "image/png"))

    @pytest.mark.parametrize(
        "url",
        [
            "http://169.254.169.254/latest",
            "https://a.test/a.png",
            "gs://bucket/a.png",
            "file:///etc/passwd",
            "ftp://a.test/a.png",
            "blob:https://a.test/1",
            "//a.test/a.png",
            "javascript:alert(1)",
            "",
            "data:",
            "data:image/png",
            "data:;base64,AAAA",
            "data:image/png;base64",
            " data:image/png;base64,AAAA",
            "DATA:image/png;base64,AAAA",
            "data:image/png,plain",
            "data:image/png;base64,###",
            "data:image/png;base64,AAA",
            "data:image/png;base64,AA AA",
            "data:image/png;base64,ÄÄÄÄ",
            "data:image/png;base64,AAAA=AAA",
        ],
    )
    def test_only_whole_base64_data_urls_are_taken(self, url: str) -> None:
        with pytest.raises(Unprocessable):
            decoded(with_file(url, "image/png"))

    @pytest.mark.parametrize(
        ("data", "in_url", "declared"),
        [
            (b"", "image/png", "image/png"),
            (b"not an image", "image/png", "image/png"),
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", "image/svg+xml"),
            (b"%PDF-1.7", "application/pdf", "application/pdf"),
            (b"<script>", "text/html", "text/html"),
            (png(1, 1), "image/jpeg", "image/jpeg"),
            (png(1, 1), "image/png", "image/jpeg"),
            (png(1, 1), "image/jpeg", "image/png"),
            (png(1, 1), "image/png", "text/html"),
            (gif(1, 1), "image/gif", "image/svg+xml"),
        ],
    )
    def test_content_name_and_url_must_agree(self, data: bytes, in_url: str, declared: str) -> None:
        with pytest.raises(UnsupportedType) as refused:
            decoded(with_file(data_url(data, in_url), declared))
        assert refused.value.hint

    @pytest.mark.parametrize(("picture", "media_type"), PICTURES)
    def test_a_header_that_is_cut_short_is_refused_at_every_length(self, picture: Picture, media_type: str) -> None:
        whole = picture(300, 200)
        needed = next(n for n in range(len(whole) + 1) if dimensions(media_type, whole[:n]) == (300, 200))

        for length in range(needed):
            assert dimensions(media_type, whole[:length]) is None
            with pytest.raises(UnsupportedType):
                decoded(with_file(data_url(whole[:length], media_type), media_type))

    @pytest.mark.parametrize("size", [(0, 0), (0, 5), (5, 0)])
    @pytest.mark.parametrize(("picture", "media_type"), PICTURES[:4])
    def test_an_image_without_area_is_refused(self, picture: Picture, media_type: str, size: tuple[int, int]) -> None:
        with pytest.raises(UnsupportedType):
            decoded(with_file(data_url(picture(*size), media_type), media_type))

    @pytest.mark.parametrize(
        ("picture", "media_type", "side"),
        [
            (png, "image/png", 50_000),
            (gif, "image/gif", 50_000),
            (jpeg, "image/jpeg", 50_000),
            (webp_extended, "image/webp", 50_000),
            (webp_lossy, "image/webp", 16_000),
            (webp_lossless, "image/webp", 16_000),
        ],
    )
    def test_a_picture_that_would_unpack_to_gigabytes_is_refused(
        self, picture: Picture, media_type: str, side: int
    ) -> None:
        with pytest.raises(TooLarge, match=f"{side} x {side}"):
            decoded(with_file(data_url(picture(side, side), media_type), media_type))

    def test_the_limit_of_pixels_is_the_limit(self) -> None:
        assert decoded(with_file(data_url(png(4_000, 4_000))))
        with pytest.raises(TooLarge):
            decoded(with_file(data_url(png(4_000, 4_001))))

    def test_too_many_bytes(self) -> None:
        data = png(1, 1).ljust(101, b"\0")

        assert decoded(with_file(data_url(data)), InputLimits(20, 101, 100))
        for limit in (100, 98, 10):
            with pytest.raises(TooLarge):
                decoded(with_file(data_url(data)), InputLimits(20, limit, 100))

    def test_jpegs_of_other_kinds(self) -> None:
        padding = b"\xff\xff\xff"
        exif = b"\xff\xe1\x00\x08" + b"\xff\xc0\0\0\0\0"
        table = b"\xff\xc4\x00\x04\0\0"

        assert dimensions("image/jpeg", jpeg(30, 20, before=exif + table + padding, marker=0xC2)) == (30, 20)
        assert dimensions("image/jpeg", jpeg(30, 20, before=b"junk")) is None
        assert dimensions("image/jpeg", jpeg(30, 20, marker=0xC4)) is None
        assert dimensions("image/jpeg", b"\xff\xd8" + b"\xff\xe0\0\x02" * 100_000 + jpeg(3, 3)[2:]) is None

    def test_a_webp_of_no_known_kind(self) -> None:
        assert dimensions("image/webp", webp_lossy(3, 3).replace(b"VP8 ", b"VP9 ")) is None
        assert dimensions("image/webp", webp_lossy(3, 3).replace(b"\x9d\x01", b"\0\0")) is None
        assert dimensions("image/webp", webp_lossless(3, 3).replace(b"\x2f", b"\0")) is None

    def test_a_png_begins_with_its_header(self) -> None:
        assert dimensions("image/png", png(3, 3).replace(b"IHDR", b"IDAT")) is None

    def test_sniffing(self) -> None:
        assert [sniff(picture(1, 1)) for picture, _ in PICTURES] == [media_type for _, media_type in PICTURES]
        assert sniff(b"RIFF\0\0\0\0WAVE") is None
        assert sniff(b"GIF87a") == "image/gif"


VALID = [
    json.dumps(request).encode()
    for request in (
        asked(),
        {"id": "chat", "message": HELLO},
        asked(trigger="regenerate-message", messageId="m1"),
        saying({"type": "file", "url": data_url(png(2, 3)), "mediaType": "image/png"}, {"type": "text", "text": "花"}),
        with_file(data_url(jpeg(2, 3), "image/jpeg"), "image/jpeg"),
        with_file(data_url(webp_extended(2, 3), "image/webp"), "image/webp"),
        answering(responded(), tool("output-available", toolCallId="c2", output={"r": [1]})),
        typed_over(tool("output-error", errorText="x"), tool("output-available", toolCallId="c2", output=1)),
    )
]
CALL_BODY = {"approved": True, "reason": "x", "args": {"n": 1}, "payload": 1, "scope": "chat"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "role", "parts", "type"]), inner)
    ),
    max_leaves=5,
)


def only_refusals(body: bytes) -> None:
    """Whatever comes, it is a turn or a refusal with a status: never another exception."""
    with contextlib.suppress(BadRequest, TooLarge, UnsupportedType, Unprocessable):
        turn = decode_request(body, LIMITS)
        assert turn.message or turn.replaces or turn.answers
        assert msgspec.msgpack.encode(turn)


class TestFuzz:
    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=200))
    def test_any_bytes(self, body: bytes) -> None:
        only_refusals(body)

    @settings(max_examples=400, deadline=None)
    @given(
        st.sampled_from(VALID),
        st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=3), st.integers(0, 3)), max_size=4),
    )
    def test_requests_with_bytes_changed(self, body: bytes, changes: list[tuple[float, bytes, int]]) -> None:
        for place, put, drop in changes:
            at = int(place * len(body))
            body = body[:at] + put + body[at + drop :]
        only_refusals(body)

    @settings(max_examples=200, deadline=None)
    @given(st.sampled_from(["id", "trigger", "messages", "message", "messageId", "client"]), JSON)
    def test_requests_with_a_field_changed(self, field: str, value: Any) -> None:
        only_refusals(json.dumps(asked() | {field: value}).encode(errors="surrogatepass"))

    @settings(max_examples=200, deadline=None)
    @given(st.sampled_from(["role", "id", "parts", "content"]), JSON)
    def test_messages_with_a_field_changed(self, field: str, value: Any) -> None:
        only_refusals(json.dumps(asked(message=HELLO | {field: value})).encode())

    @settings(max_examples=200, deadline=None)
    @given(
        st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8X"]),
        st.binary(max_size=60),
    )
    def test_broken_images(self, magic: bytes, rest: bytes) -> None:
        only_refusals(json.dumps(with_file(data_url(magic + rest, sniff(magic) or "image/webp"))).encode())

    @settings(max_examples=300, deadline=None)
    @given(
        st.sampled_from(
            ["type", "toolCallId", "state", "input", "output", "errorText", "approval", "providerExecuted"]
        ),
        JSON,
        st.sampled_from([answering, typed_over]),
    )
    def test_answers_with_a_field_changed(self, field: str, value: Any, form: Callable[..., Any]) -> None:
        part = tool("output-available", output=1, approval={"id": "a1", "approved": True})
        only_refusals(json.dumps(form(part | {field: value})).encode())

    @settings(max_examples=200, deadline=None)
    @given(st.sampled_from(["approved", "reason", "args", "payload", "scope", "output", "error", "more"]), JSON)
    def test_call_bodies_with_a_field_changed(self, field: str, value: Any) -> None:
        with contextlib.suppress(Unprocessable, BadRequest):
            assert msgspec.msgpack.encode(decode_call_answer(json.dumps(CALL_BODY | {field: value}).encode()))

    def test_the_seeds_are_good(self) -> None:
        assert decode_call_answer(json.dumps(CALL_BODY).encode())
        for body in VALID:
            assert decode_request(body, LIMITS)


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (rb"hi \ud83d", "hi \ufffd"),
        (rb"\udc00x", "\ufffdx"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\\ud83d", "\\ud83d"),
        (rb"\\\ud83d", "\\\ufffd"),
        (rb"\ud83d\ude00", "\U0001f600"),
    ],
)
def test_half_a_character_of_javascript_is_replaced(escaped: bytes, text: str) -> None:
    body = b'{"id":"a","message":{"role":"user","content":"' + escaped + b'"}}'
    message = decode_request(body, LIMITS).message

    assert message is not None
    assert message.parts == (text,)
