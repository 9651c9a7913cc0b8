"""Requests as clients send them, and requests that are refused."""

import json
from typing import Any

import pytest

from adkwire.errors import BadRequest, RequestError, TooLarge, Unprocessable
from adkwire.wire.decode.decoder import InputLimits, TurnInput, UserMessage, check_chat_id, decode_request
from adkwire.wire.media import Media
from tests.wire.decode.requests import ANSWER, HELLO, LIMITS, asked, decoded, parts_of, saying
from tests.wire.pictures import data_url, png


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
        text = "花子に50ドル送金 👩‍👩‍👧 \u202e\x00"

        assert parts_of(saying({"type": "text", "text": text})) == (text,)
        assert decoded(asked(messages=[HELLO | {"id": "メッセージ"}])).message == UserMessage("メッセージ", ("Hello",))

    def test_of_duplicate_keys_the_last_counts(self) -> None:
        body = b'{"id":"a","id":"b","message":{"role":"system","role":"user","content":"x","content":"y"}}'

        assert decode_request(body, LIMITS) == TurnInput("b", "submit-message", UserMessage("", ("y",)), None)

    def test_huge_numbers_in_ignored_fields_are_ignored(self) -> None:
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

    def test_the_error_of_a_wrong_regenerate_says_what_to_do(self) -> None:
        with pytest.raises(Unprocessable, match="must be the user's, not the assistant's") as refused:
            decoded(asked(messages=[HELLO, ANSWER], trigger="regenerate-message", messageId="m1"))
        assert refused.value.hint

    def test_chat_ids(self) -> None:
        assert check_chat_id("a_B.9:-") == "a_B.9:-"
