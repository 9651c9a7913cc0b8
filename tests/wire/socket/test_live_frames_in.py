"""Frames that clients send on a live socket."""

import base64
import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from adkwire.errors import RequestError, TooLarge, Unprocessable, UnsupportedType
from adkwire.wire.decode.call_answers import CallBody
from adkwire.wire.decode.decoder import InputLimits, UserMessage
from adkwire.wire.socket.frames_in import (
    AbortFrame,
    FrameHead,
    FrameLimits,
    PingFrame,
    ResumeFrame,
    SendFrame,
    decode_head,
)
from adkwire.wire.socket.live_frames_in import (
    AudioControlFrame,
    AudioFrame,
    CloseFrame,
    InterruptFrame,
    LiveFrame,
    LiveLimits,
    MessageFrame,
    PlayedFrame,
    ToolResultFrame,
    VideoFrame,
    answered_call,
    decode_live_frame,
    is_audio,
)
from tests.wire.pictures import jpeg, png

LIMITS = LiveLimits(FrameLimits(1_000, 10_000, InputLimits(20, 5_000, 10_000)), 640, 5_000)
MESSAGE = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}


def read(frame: dict[str, Any] | bytes, *, limits: LiveLimits = LIMITS) -> LiveFrame:
    raw = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    return decode_live_frame(decode_head(raw), raw, limits, "chat")


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def sound(pcm: bytes = bytes(640), **more: Any) -> dict[str, Any]:
    audio_fields = {"chunk": in_base64(pcm), "sampleRate": 16_000, "channels": 1, "bitDepth": 16}
    return {"type": "audio_chunk", "data": {**audio_fields, **more}}


def picture(data: bytes, media_type: str) -> dict[str, Any]:
    return {"type": "video_frame", "data": {"data": in_base64(data), "mediaType": media_type}}


def result(**data: Any) -> dict[str, Any]:
    return {"type": "tool_result", "data": {"toolCallId": "c1", **data}}


FRAMES: list[tuple[dict[str, Any], LiveFrame]] = [
    ({"type": "abort", "requestId": "r"}, AbortFrame("r")),
    ({"type": "resume", "requestId": "r", "id": "c"}, ResumeFrame("r", "c", None, None, None, None)),
    ({"type": "ping", "timestamp": 5}, PingFrame(5)),
    ({"type": "interrupt"}, InterruptFrame(None)),
    ({"type": "interrupt", "reason": "user_abort"}, InterruptFrame("user_abort")),
    ({"type": "interrupt", "reason": None}, InterruptFrame(None)),
    ({"type": "audio_control", "action": "start", "source": "vad"}, AudioControlFrame("start", "vad")),
    ({"type": "audio_control", "action": "stop"}, AudioControlFrame("stop", "ptt")),
    (sound(), AudioFrame(bytes(640), 16_000)),
    (sound(b"\1\2", sampleRate=48_000), AudioFrame(b"\1\2", 48_000)),
    ({"type": "audio_chunk", "data": {"chunk": ""}}, AudioFrame(b"", 16_000)),
    ({"type": "played", "generation": 65_535, "ms": 0}, PlayedFrame(65_535, 0)),
    ({"type": "played", "generation": 0, "ms": 1_234.9}, PlayedFrame(0, 1_234)),
    ({"type": "close"}, CloseFrame()),
]


@pytest.mark.parametrize(("frame", "meant"), FRAMES, ids=[frame["type"] for frame, _ in FRAMES])
def test_frames_with_and_without_what_all_may_carry(frame: dict[str, Any], meant: LiveFrame) -> None:
    assert read(frame) == meant
    assert read({"version": "1.0", "timestamp": 1_700_000_000_000, "more": {}, **frame}) == meant


def test_every_frame_of_the_client_has_a_test() -> None:
    others = {SendFrame, MessageFrame, VideoFrame, ToolResultFrame}
    assert {type(frame) for _, frame in FRAMES} | others == set(get_args(LiveFrame))


def test_send_is_that_of_the_chat_socket() -> None:
    frame = read({"type": "send", "requestId": "r1", "id": "other", "messages": [MESSAGE]})
    assert isinstance(frame, SendFrame)
    assert (frame.request_id, frame.turn.chat) == ("r1", "other")


@pytest.mark.parametrize("request_id", ["r1", None])
def test_message(request_id: str | None) -> None:
    frame = read({"type": "message", "requestId": request_id, "data": {"messages": [MESSAGE], "more": [1]}})
    assert isinstance(frame, MessageFrame)
    assert frame.request_id == request_id
    assert (frame.turn.chat, frame.turn.message) == ("chat", UserMessage("u1", ("hello",)))


def test_a_message_may_name_its_chat() -> None:
    frame = read({"type": "message", "data": {"id": "other", "messages": [MESSAGE]}})
    assert isinstance(frame, MessageFrame)
    assert frame.turn.chat == "other"


@pytest.mark.parametrize(
    ("data", "meant"),
    [
        ({"status": "approved"}, CallBody(approved=True)),
        ({"status": "rejected"}, CallBody(approved=False)),
        ({"status": "denied", "reason": "no"}, CallBody(approved=False, reason="no")),
        ({"result": {"a": 1}}, CallBody(output={"a": 1})),
        ({"result": None}, CallBody(output=None)),
        ({"error": "failed"}, CallBody(error="failed")),
        ({"status": "approved", "result": "x"}, CallBody(approved=True, output="x")),
        ({"status": "approved", "args": {"n": 1}}, CallBody(approved=True, args={"n": 1})),
        ({"status": "approved", "payload": 5, "scope": "chat"}, CallBody(approved=True, payload=5, scope="chat")),
        (
            {"status": "approved", "reason": None, "args": None, "payload": None, "scope": None, "error": None},
            CallBody(approved=True),
        ),
        ({"status": None, "result": 0}, CallBody(output=0)),
    ],
)
def test_answers_to_calls(data: dict[str, Any], meant: CallBody) -> None:
    assert read(result(**data)) == ToolResultFrame("c1", meant)
    assert meant.output is UNSET or "result" in data


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "says nothing: send a `status`"),
        ({"reason": "because"}, "says nothing"),
        ({"error": None}, "says nothing"),
        ({"status": "maybe"}, "status"),
        ({"status": "rejected", "result": 1}, "takes a `reason` and nothing else"),
        ({"result": 1, "error": "x"}, "not both"),
        ({"result": 1, "args": {}}, "before it runs"),
        ({"status": "approved", "args": []}, "args"),
        ({"status": "approved", "scope": "ever"}, "scope"),
        ({"error": 5}, "error"),
        ({"status": "approved", "arguments": {"n": 1}}, "unknown field `arguments`"),
        ({"output": 1}, "unknown field `output`"),
        ({"toolCallId": "", "status": "approved"}, "toolCallId"),
        ({"toolCallId": "x" * 257, "status": "approved"}, "toolCallId"),
        ({"toolCallId": None, "status": "approved"}, "toolCallId"),
    ],
)
def test_wrong_answers_to_calls(data: dict[str, Any], words: str) -> None:
    with pytest.raises(Unprocessable, match=words):
        read(result(**data))


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (
            {"type": "shout"},
            "no frame of the type 'shout'; the known types are send, .*, ping, message, interrupt",
        ),
        ({"type": "ready"}, "no frame of the type 'ready'"),
        ({"type": "x" * 500}, "no frame of the type 'x{40}';"),
        ({}, "no frame of the type ''"),
        ({"type": "abort"}, "needs a requestId"),
        ({"type": "message"}, "data"),
        ({"type": "message", "data": []}, "data"),
        ({"type": "message", "data": {}}, "no message"),
        ({"type": "message", "data": {"messages": [], "id": 5}}, "id"),
        ({"type": "message", "data": {"messages": [{**MESSAGE, "role": "system"}]}}, "must be the user's"),
        ({"type": "interrupt", "reason": "bored"}, "reason"),
        ({"type": "audio_control"}, "action"),
        ({"type": "audio_control", "action": "pause"}, "action"),
        ({"type": "audio_control", "action": "start", "source": "dog"}, "source"),
        ({"type": "audio_chunk"}, "data"),
        ({"type": "audio_chunk", "data": "AAAA"}, "data"),
        (sound(rate=48_000), "unknown field `rate`"),
        ({"type": "video_frame", "data": {"data": "", "mediaType": "image/png", "type": 1}}, "unknown field `type`"),
        (sound(chunk="no base64!"), "base64"),
        (sound(chunk=[1, 2]), "chunk"),
        (sound(sampleRate="16000"), "sampleRate"),
        ({"type": "video_frame", "data": {"data": ""}}, "mediaType"),
        ({"type": "played", "generation": 65_536, "ms": 0}, "generation"),
        ({"type": "played", "generation": -1, "ms": 0}, "generation"),
        ({"type": "played", "generation": 1, "ms": -1}, "ms"),
        ({"type": "played", "generation": 1, "ms": 2**32}, "ms"),
        ({"type": "played", "generation": 1}, "ms"),
        ({"type": "tool_result", "data": None}, "data"),
    ],
)
def test_a_wrong_frame(frame: dict[str, Any], words: str) -> None:
    with pytest.raises(Unprocessable, match=words):
        read(frame)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (sound(sampleRate=96_000), "not 96000"),
        (sound(channels=2), "one channel"),
        (sound(bitDepth=32), "16 bits"),
        (sound(b"abc"), "3 bytes"),
        (picture(png(10, 10), "image/jpeg"), "JPEG or a PNG"),
        (picture(b"GIF89a" + bytes(20), "image/gif"), "JPEG or a PNG"),
        (picture(b"hello", "image/png"), "JPEG or a PNG"),
        (picture(png(101, 100), "image/png"), "1 to 10000 pixels; this one has 101 x 100"),
        (picture(png(0, 100), "image/png"), "has 0 x 100"),
        (picture(b"\xff\xd8\xff", "image/jpeg"), "has 0 x 0"),
    ],
)
def test_audio_and_images_that_are_refused(frame: dict[str, Any], words: str) -> None:
    with pytest.raises(UnsupportedType, match=words):
        read(frame)


def test_pictures() -> None:
    assert read(picture(png(100, 100), "image/png")) == VideoFrame(png(100, 100), "image/png")
    assert read(picture(jpeg(10, 20), "image/jpeg")) == VideoFrame(jpeg(10, 20), "image/jpeg")


def test_sizes() -> None:
    assert read(sound(bytes(640))) == AudioFrame(bytes(640), 16_000)
    with pytest.raises(TooLarge, match="at most 640 bytes"):
        read(sound(bytes(642)))
    with pytest.raises(TooLarge, match="A frame of this type may have at most 1856 bytes"):
        read(sound(bytes(2_000)))
    with pytest.raises(TooLarge, match="at most 5000 bytes"):
        read(picture(png(1, 1) + bytes(5_000), "image/png"))
    with pytest.raises(TooLarge, match="at most 10000 bytes"):
        read({"type": "message", "data": {"messages": [MESSAGE], "more": "x" * 10_000}})
    for kind in ("interrupt", "tool_result", "played", "close", "audio_control", "abort"):
        with pytest.raises(TooLarge, match="at most 1000 bytes"):
            read({"type": kind, "more": "x" * 1_000})


def test_only_audio_chunks_are_audio() -> None:
    assert is_audio(FrameHead("audio_chunk", None))
    assert not is_audio(FrameHead("audio_control", None))


@pytest.mark.parametrize(
    ("kind", "data", "call"),
    [
        ("tool_result", {"toolCallId": "c1", "status": "maybe", "more": 1}, "c1"),
        ("tool_result", {"toolCallId": "x" * 257}, None),
        ("tool_result", {"toolCallId": 5}, None),
        ("tool_result", [], None),
        ("message", {"toolCallId": "c1"}, None),
    ],
)
def test_the_call_of_an_answer_can_be_read_whatever_else_is_wrong(kind: str, data: Any, call: str | None) -> None:
    assert answered_call(FrameHead(kind, None), json.dumps({"type": kind, "data": data}).encode()) == call


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
_fields = st.sampled_from(
    ["data", "reason", "action", "source", "generation", "ms", "timestamp", "requestId", "version"]
)
_inside = st.sampled_from(
    ["chunk", "sampleRate", "data", "mediaType", "toolCallId", "status", "result", "args", "scope", "messages", "id"]
)


@given(
    kind=st.sampled_from([frame["type"] for frame, _ in FRAMES] + ["message", "video_frame", "tool_result", "send"]),
    fields=st.dictionaries(_fields, _json | st.dictionaries(_inside, _json, max_size=4), max_size=5),
)
def test_random_fields_are_decoded_or_refused(kind: str, fields: dict[str, Any]) -> None:
    try:
        frame = read({**fields, "type": kind})
    except RequestError:
        return
    assert isinstance(frame, get_args(LiveFrame))
