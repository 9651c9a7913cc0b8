"""JSON as JavaScript writes it."""

import pytest

from adkwire.wire.decode.decoder import decode_request
from tests.wire.decode.requests import LIMITS


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
def test_lone_surrogates_are_replaced(escaped: bytes, text: str) -> None:
    body = b'{"id":"a","message":{"role":"user","content":"' + escaped + b'"}}'
    message = decode_request(body, LIMITS).message

    assert message is not None
    assert message.parts == (text,)
