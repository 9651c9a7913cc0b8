"""Frames that clients send on a chat socket."""

import json
from typing import Any

import pytest

from adkwire.errors import BadRequest, RequestError, TooLarge, Unprocessable
from adkwire.wire.decode.decoder import InputLimits, UserMessage
from adkwire.wire.socket.frames_in import (
    AbortFrame,
    ClientFrame,
    FrameHead,
    FrameLimits,
    PingFrame,
    ResumeFrame,
    SendFrame,
    decode_frame,
    decode_head,
)

LIMITS = FrameLimits(1_000, 10_000, InputLimits(20, 5_000, 1_000_000))
MESSAGE = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
SEND: dict[str, Any] = {
    "type": "send",
    "requestId": "r1",
    "id": "chat",
    "trigger": "submit-message",
    "messages": [MESSAGE],
    "headers": {"x-user": "mallory"},
    "body": {},
}
RESUME: dict[str, Any] = {"type": "resume", "requestId": "r1", "id": "chat", "headers": {}, "body": {}}


def read(frame: dict[str, Any] | bytes, *, ours: bool = False, limits: FrameLimits = LIMITS) -> ClientFrame:
    raw = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    return decode_frame(decode_head(raw), raw, limits, ours=ours)


def test_send() -> None:
    frame = read(SEND)
    assert isinstance(frame, SendFrame)
    assert (frame.request_id, frame.client) == ("r1", None)
    assert frame.turn.chat == "chat"
    assert frame.turn.message == UserMessage("u1", ("hello",))
    assert (frame.turn.trigger, frame.turn.replaces, frame.turn.client) == ("submit-message", None, None)


def test_a_request_is_the_same_turn_over_http_and_in_a_frame() -> None:
    """So a message that was sent both ways is known to be one."""
    plain, declared = read(SEND), read({**SEND, "body": {"client": "ai/7.0.169"}})
    assert isinstance(plain, SendFrame)
    assert isinstance(declared, SendFrame)
    assert plain.turn == declared.turn
    assert declared.client == "ai/7.0.169"


@pytest.mark.parametrize("body", [{}, {"client": None}, {"client": 7}, {"client": {"name": "page"}}, None])
def test_a_body_that_declares_nothing(body: Any) -> None:
    for frame in (read({**SEND, "body": body}), read({**RESUME, "body": body})):
        assert isinstance(frame, SendFrame | ResumeFrame)
        assert frame.client is None


def test_regenerate_without_messages() -> None:
    frame = read({"type": "send", "requestId": "r", "id": "c", "trigger": "regenerate-message", "messageId": "m1"})
    assert isinstance(frame, SendFrame)
    assert (frame.turn.message, frame.turn.replaces) == (None, "m1")


def test_answers_to_calls() -> None:
    part = {
        "type": "tool-pay",
        "toolCallId": "c1",
        "state": "approval-responded",
        "input": {},
        "approval": {"id": "a1", "approved": True},
    }
    frame = read({**SEND, "messages": [MESSAGE, {"id": "m1", "role": "assistant", "parts": [part]}]})
    assert isinstance(frame, SendFrame)
    assert frame.turn.message is None
    assert frame.turn.answers is not None
    assert [(call.call, call.approved) for call in frame.turn.answers.calls] == [("c1", True)]


def test_resume() -> None:
    assert read(RESUME) == ResumeFrame("r1", "chat", None, None, None, None)
    assert read({**RESUME, "lastSequence": None}) == ResumeFrame("r1", "chat", None, None, None, None)
    assert read({**RESUME, "lastSequence": 0}) == ResumeFrame("r1", "chat", 0, None, None, None)
    more = {"lastSequence": 2**53 - 1, "after": "run_1:-4", "body": {"client": "ai/6.0.0", "run": "run_2"}}
    assert read({**RESUME, **more}) == ResumeFrame("r1", "chat", 2**53 - 1, "run_1:-4", "run_2", "ai/6.0.0")
    for unnamed in ("", 7, None, ["run_2"]):
        assert read({**RESUME, "body": {"run": unnamed}}) == ResumeFrame("r1", "chat", None, None, None, None)
    assert read({"type": "resume", "requestId": "r", "id": "c"}) == ResumeFrame("r", "c", None, None, None, None)


def test_abort() -> None:
    assert read({"type": "abort", "requestId": "r1"}) == AbortFrame("r1")
    assert read({"type": "abort", "requestId": "r1", "id": 5}) == AbortFrame("r1")


@pytest.mark.parametrize("timestamp", [1_700_000_000_000, 0.5, None])
def test_ping(timestamp: float | None) -> None:
    assert read({"type": "ping", "timestamp": timestamp}, ours=True) == PingFrame(timestamp)
    assert read({"type": "ping"}, ours=True) == PingFrame(None)


def test_a_ping_is_for_clients_of_ours() -> None:
    with pytest.raises(Unprocessable, match="no frame of the type 'ping'"):
        read({"type": "ping", "requestId": "-"})


@pytest.mark.parametrize(
    ("raw", "head"),
    [
        (b"{}", FrameHead("", None)),
        (b'{"type":"send"}', FrameHead("send", None)),
        (b'{"requestId":"r"}', FrameHead("", "r")),
        (b'{"type":5,"requestId":"r"}', FrameHead("", "r")),
        (b'{"type":null,"requestId":{}}', FrameHead("", None)),
        (b'{"type":"abort","requestId":7}', FrameHead("abort", None)),
        (b'{"type":"abort","requestId":""}', FrameHead("abort", None)),
        (b'{"type":"abort","requestId":"%b"}' % (b"x" * 256), FrameHead("abort", "x" * 256)),
        (b'{"type":"abort","requestId":"%b"}' % (b"x" * 257), FrameHead("abort", None)),
        (b'{"type":"a","type":"b","requestId":"r","requestId":"s"}', FrameHead("b", "s")),
        (rb'{"type":"abort","requestId":"\ud83d"}', FrameHead("abort", "\ufffd")),
        (b'{"type":"\xff","requestId":"r"}', FrameHead("", "r")),
        (' {"type":"abort","requestId":"日本"}'.encode(), FrameHead("abort", "日本")),
    ],
)
def test_the_head(raw: bytes, head: FrameHead) -> None:
    assert decode_head(raw) == head


@pytest.mark.parametrize(
    "raw",
    [b"", b"nonsense", b"{", b'{"type":"send"', b"\xff\xfe", b'{"a":' + b"[" * 100_000, b"{} {}", b"NaN"],
)
def test_what_is_not_json(raw: bytes) -> None:
    with pytest.raises(BadRequest, match="not JSON"):
        decode_head(raw)


@pytest.mark.parametrize("raw", [b"[]", b"null", b'"send"', b"5", b"true"])
def test_what_is_not_a_frame(raw: bytes) -> None:
    with pytest.raises(Unprocessable, match="expected form"):
        decode_head(raw)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ({"requestId": "r"}, "no frame of the type ''"),
        ({"type": "Send", "requestId": "r"}, "no frame of the type 'Send'"),
        ({"type": "chunk", "requestId": "r"}, "no frame of the type 'chunk'"),
        ({"type": "x" * 500, "requestId": "r"}, "no frame of the type 'x{40}';"),
        ({"type": "abort"}, "needs a requestId"),
        ({**SEND, "requestId": None}, "needs a requestId"),
        ({**RESUME, "requestId": "x" * 257}, "needs a requestId"),
        ({"type": "resume", "requestId": "r"}, "missing required field `id`"),
        ({**RESUME, "id": 5}, "expected form"),
        ({**RESUME, "id": "../x"}, "A chat id is"),
        ({**RESUME, "lastSequence": -1}, "lastSequence"),
        ({**RESUME, "lastSequence": 2**53}, "lastSequence"),
        ({**RESUME, "lastSequence": 1.5}, "lastSequence"),
        ({**RESUME, "lastSequence": "1"}, "lastSequence"),
        ({**RESUME, "after": 5}, "after"),
        ({**RESUME, "body": []}, "body"),
        ({**SEND, "body": "x"}, "body"),
        ({**SEND, "id": None}, "expected form"),
        ({**SEND, "id": "a b"}, "A chat id is"),
        ({**SEND, "trigger": "resume-stream"}, "trigger"),
        ({**SEND, "messages": []}, "no message"),
        ({**SEND, "messages": "hello"}, "messages"),
        ({**SEND, "messages": [{**MESSAGE, "role": "system"}]}, "must be the user's"),
        ({**SEND, "messages": [{**MESSAGE, "parts": []}]}, "empty"),
    ],
)
def test_a_wrong_frame(frame: dict[str, Any], words: str) -> None:
    with pytest.raises(Unprocessable, match=words):
        read(frame)


@pytest.mark.parametrize(("ours", "known"), [(False, "resume, abort"), (True, "resume, abort, ping")])
def test_the_error_of_an_unknown_frame_names_the_known_ones(ours: bool, known: str) -> None:
    with pytest.raises(Unprocessable, match=rf"; the known types are send, {known}\."):
        read({"type": "hello", "requestId": "r"}, ours=ours)


@pytest.mark.parametrize("timestamp", ["now", [], {}, True])
def test_a_wrong_ping(timestamp: Any) -> None:
    with pytest.raises(Unprocessable, match="timestamp"):
        read({"type": "ping", "timestamp": timestamp}, ours=True)


def test_sizes() -> None:
    filled = {**SEND, "metadata": ""}
    room = LIMITS.send_bytes - len(json.dumps(filled))
    assert isinstance(read({**filled, "metadata": "x" * room}), SendFrame)
    with pytest.raises(TooLarge, match="at most 10000 bytes"):
        read({**filled, "metadata": "x" * (room + 1)})
    for control in (RESUME, {"type": "abort", "requestId": "r"}, {"type": "ping"}, {"type": "other"}):
        with pytest.raises(TooLarge, match="at most 1000 bytes"):
            read({**control, "metadata": "x" * 1_000}, ours=True)


def test_a_frame_that_goes_too_deep() -> None:
    raw = b'{"type":"send","requestId":"r","id":"c","metadata":' + b"[" * 4_000 + b"]" * 4_000 + b"}"
    with pytest.raises(RequestError):
        read(raw)
