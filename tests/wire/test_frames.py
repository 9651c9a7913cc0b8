"""Frames of a chat socket: what a client may send, and what it is sent."""

import json
from typing import Any

import pytest

from adkwire.errors import BadRequest, RequestError, TooLarge, Unprocessable
from adkwire.wire.chunks import Chunk, Error, Finish, FinishStep, Start, TextDelta, TextEnd, ToolApprovalResponse
from adkwire.wire.decoder import InputLimits, UserMessage
from adkwire.wire.frames import (
    AbortFrame,
    ChunkFrames,
    ClientFrame,
    FrameLimits,
    Head,
    PingFrame,
    ResumeFrame,
    SendFrame,
    decode_frame,
    decode_head,
    end_frame,
    error_frame,
    is_last,
    no_active_frame,
    notice_frame,
    pong_frame,
    start_frame,
)
from adkwire.wire.profiles import Profile, encode_chunks

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
    assert read(RESUME) == ResumeFrame("r1", "chat", None, None, None)
    assert read({**RESUME, "lastSequence": None}) == ResumeFrame("r1", "chat", None, None, None)
    assert read({**RESUME, "lastSequence": 0}) == ResumeFrame("r1", "chat", 0, None, None)
    more = {"lastSequence": 2**53 - 1, "after": "run_1:-4", "body": {"client": "ai/6.0.0"}}
    assert read({**RESUME, **more}) == ResumeFrame("r1", "chat", 2**53 - 1, "run_1:-4", "ai/6.0.0")
    assert read({"type": "resume", "requestId": "r", "id": "c"}) == ResumeFrame("r", "c", None, None, None)


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
        (b"{}", Head("", None)),
        (b'{"type":"send"}', Head("send", None)),
        (b'{"requestId":"r"}', Head("", "r")),
        (b'{"type":5,"requestId":"r"}', Head("", "r")),
        (b'{"type":null,"requestId":{}}', Head("", None)),
        (b'{"type":"abort","requestId":7}', Head("abort", None)),
        (b'{"type":"abort","requestId":""}', Head("abort", None)),
        (b'{"type":"abort","requestId":"%b"}' % (b"x" * 256), Head("abort", "x" * 256)),
        (b'{"type":"abort","requestId":"%b"}' % (b"x" * 257), Head("abort", None)),
        (b'{"type":"a","type":"b","requestId":"r","requestId":"s"}', Head("b", "s")),
        (rb'{"type":"abort","requestId":"\ud83d"}', Head("abort", "\ufffd")),
        (b'{"type":"\xff","requestId":"r"}', Head("", "r")),
        (' {"type":"abort","requestId":"日本"}'.encode(), Head("abort", "日本")),
    ],
)
def test_the_head(raw: bytes, head: Head) -> None:
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


@pytest.mark.parametrize(("ours", "taken"), [(False, "resume and abort"), (True, "resume, abort and ping")])
def test_an_unknown_frame_is_told_what_is_known(ours: bool, taken: str) -> None:
    with pytest.raises(Unprocessable, match=f"; send, {taken} are taken"):
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


def test_frames_of_the_server() -> None:
    name = 'r"1\n%d'
    told = [
        start_frame(name),
        end_frame(name),
        no_active_frame(name),
        error_frame(name, "no"),
        error_frame("r", "", "c"),
    ]
    told += [notice_frame("warning", "server-restart", "soon"), pong_frame(5, 7), pong_frame(None, 7)]
    assert [json.loads(frame) for frame in told] == [
        {"type": "start", "requestId": name},
        {"type": "end", "requestId": name},
        {"type": "no-active", "requestId": name},
        {"type": "error", "requestId": name, "errorText": "no"},
        {"type": "error", "requestId": "r", "errorText": "", "code": "c"},
        {"type": "notice", "level": "warning", "code": "server-restart", "text": "soon"},
        {"type": "pong", "timestamp": 5, "serverTime": 7},
        {"type": "pong", "timestamp": None, "serverTime": 7},
    ]


def test_half_a_character_does_not_fail_a_frame() -> None:
    assert json.loads(error_frame("r", "a\ud83d"))["errorText"] == "a?"


STREAM: list[Chunk] = [
    Start(message_id="m"),
    ToolApprovalResponse(approval_id="a", approved=True),
    TextDelta(id="t", delta="50 %d {ä}"),
    TextEnd(id="t", citations=[]),
    Finish(finish_reason="interrupted"),
]


def test_chunks() -> None:
    raw = encode_chunks([Start(message_id="m"), TextDelta(id="t", delta="50 %d {ä}")])
    frames = ChunkFrames('r"%d', Profile()).of(0, raw)
    head = '{"type":"chunk","requestId":"r\\"%d","sequence":'
    assert frames == [f'{head}{number},"chunk":{chunk.decode()}}}' for number, chunk in enumerate(raw)]


def test_a_chunk_that_a_client_may_not_see_leaves_no_gap() -> None:
    strict = [json.loads(frame) for frame in ChunkFrames("r", Profile()).of(0, encode_chunks(STREAM))]
    assert [frame["sequence"] for frame in strict] == [0, 1, 2, 3]
    assert [frame["chunk"]["type"] for frame in strict] == ["start", "text-delta", "text-end", "finish"]
    assert "citations" not in strict[2]["chunk"]
    assert strict[3]["chunk"]["finishReason"] == "other"
    newest = [json.loads(frame) for frame in ChunkFrames("r", Profile(7, 169)).of(0, encode_chunks(STREAM))]
    assert [frame["sequence"] for frame in newest] == [0, 1, 2, 3, 4]
    assert newest[4]["chunk"]["finishReason"] == "interrupted"


def test_numbers_go_on_over_batches_and_places_are_those_of_the_run() -> None:
    raw = encode_chunks(STREAM)
    frames = ChunkFrames("r", Profile(), run="run_1")
    told = [json.loads(frame) for frame in [*frames.of(-2, raw[:2]), *frames.of(1, raw[2:]), *frames.of(4, [])]]
    assert [(frame["sequence"], frame["id"]) for frame in told] == [
        (0, "run_1:-2"),
        (1, "run_1:1"),
        (2, "run_1:2"),
        (3, "run_1:3"),
    ]
    assert all(list(frame) == ["type", "requestId", "sequence", "id", "chunk"] for frame in told)


def test_going_on_behind_a_sequence_counts_what_the_client_has() -> None:
    frames = ChunkFrames("r", Profile(), behind=1)
    told = [json.loads(frame) for frame in frames.of(0, encode_chunks(STREAM))]
    assert [(frame["sequence"], frame["chunk"]["type"]) for frame in told] == [(2, "text-end"), (3, "finish")]
    assert ChunkFrames("r", Profile(), behind=99).of(0, encode_chunks(STREAM)) == []


def test_going_on_behind_a_place_numbers_what_is_left() -> None:
    frames = ChunkFrames("r", Profile(), run="run", first=8)
    told = [json.loads(frame) for frame in frames.of(3, encode_chunks(STREAM[2:]))]
    assert [(frame["sequence"], frame["id"]) for frame in told] == [(8, "run:3"), (9, "run:4"), (10, "run:5")]


def test_the_last_chunk_is_known() -> None:
    ends = encode_chunks([Error(error_text="x"), Finish(finish_reason="stop"), Finish(finish_reason="interrupted")])
    others = encode_chunks([Start(message_id="m"), FinishStep(), TextDelta(id="t", delta='{"type":"finish"')])
    assert [is_last(entry) for entry in ends + others] == [True, True, True, False, False, False]
