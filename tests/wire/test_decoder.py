"""Requests as clients send them, and everything else that may arrive at the door."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adkwire.errors import BadRequest, RequestError, TooLarge, Unprocessable, UnsupportedType
from adkwire.wire.decoder import InputLimits, TurnInput, UserMessage, check_chat_id, decode_request
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
            asked(messages=[HELLO, ANSWER]),
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

    def test_an_answer_as_last_message_says_what_to_do(self) -> None:
        with pytest.raises(Unprocessable, match="must be the user's, not the assistant's") as refused:
            decoded(asked(messages=[HELLO, ANSWER]))
        assert refused.value.hint

    def test_chat_ids(self) -> None:
        assert check_chat_id("a_B.9:-") == "a_B.9:-"


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
    )
]
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
        assert turn.message or turn.replaces


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

    def test_the_seeds_are_good(self) -> None:
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
