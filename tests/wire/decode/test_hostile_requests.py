"""Random and changed requests: each is a turn or a refusal, never another exception."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from adkwire.errors import BadRequest, Unprocessable
from adkwire.wire.decode.call_answers import decode_call_answer
from adkwire.wire.decode.decoder import decode_request
from adkwire.wire.media import sniff
from tests.wire.decode.requests import (
    HELLO,
    LIMITS,
    answering,
    asked,
    only_refusals,
    responded,
    saying,
    tool,
    typed_over,
    with_file,
)
from tests.wire.pictures import data_url, jpeg, png, webp_extended

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
