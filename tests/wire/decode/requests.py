"""Requests as clients send them, in few words."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import msgspec

from adkwire.errors import BadRequest, TooLarge, Unprocessable, UnsupportedType
from adkwire.wire.decode.call_answers import CallAnswer
from adkwire.wire.decode.decoder import InputLimits, TurnInput, decode_request
from adkwire.wire.media import Media
from tests.wire.pictures import gif, jpeg, png, webp_extended, webp_lossless, webp_lossy

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
    """Return the body that a stock client posts when calls were answered."""
    message = {"id": "m1", "role": "assistant", "parts": [{"type": "step-start"}, *parts]}
    return asked(messages=[HELLO, message | fields], messageId="m1")


def typed_over(*parts: Any, **fields: Any) -> dict[str, Any]:
    """Return the body that a stock client posts when the user types instead."""
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


def only_refusals(body: bytes) -> None:
    """Check that a body is decoded or refused with a status, and never fails otherwise."""
    with contextlib.suppress(BadRequest, TooLarge, UnsupportedType, Unprocessable):
        turn = decode_request(body, LIMITS)
        assert turn.message or turn.replaces or turn.answers
        assert msgspec.msgpack.encode(turn)
