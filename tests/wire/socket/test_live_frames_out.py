"""Frames that the server sends on a live socket."""

import json
from typing import Any, get_args

import pytest

from adkwire.wire.breaks import break_entry
from adkwire.wire.chunks import Finish, FinishStep, Start, TextDelta, TextStart, ToolInputAvailable
from adkwire.wire.profiles import Profile, encode_chunks
from adkwire.wire.socket.live_frames_out import (
    CallSettled,
    Interrupted,
    LiveChunkFrames,
    Notice,
    Pong,
    Ready,
    Refusal,
    ServerFrame,
    StateChanged,
    TurnPushed,
    UserTranscript,
    encode_live_frame,
    pcm_chunk,
)

AUDIO = {
    "input": {"rate": 16_000, "channels": 1, "bitDepth": 16},
    "output": {"rate": 24_000, "channels": 1, "bitDepth": 16},
}
SENT: list[tuple[ServerFrame, dict[str, Any]]] = [
    (
        Ready(chat="c", run=None, generation=3, resumed=True),
        {"type": "ready", "chat": "c", "run": None, "generation": 3, "audio": AUDIO, "resumed": True},
    ),
    (Pong(timestamp=1.5, server_time=7), {"type": "pong", "timestamp": 1.5, "serverTime": 7}),
    (
        TurnPushed(request_id="t", message_id="m", user_message_id="u", origin="voice"),
        {"type": "turn", "requestId": "t", "messageId": "m", "userMessageId": "u", "origin": "voice"},
    ),
    (
        UserTranscript(user_message_id="u", text="ä", final=False),
        {"type": "user-transcript", "userMessageId": "u", "text": "ä", "final": False},
    ),
    (StateChanged(state="waiting"), {"type": "state", "state": "waiting"}),
    (Interrupted(request_id="t", generation=4), {"type": "interrupted", "requestId": "t", "generation": 4}),
    (
        Interrupted(request_id="t", generation=4, kept=""),
        {"type": "interrupted", "requestId": "t", "generation": 4, "kept": ""},
    ),
    (CallSettled(tool_call_id="c", state="done"), {"type": "call-settled", "toolCallId": "c", "state": "done"}),
    (
        CallSettled(tool_call_id="c", approval_id="a", state="done"),
        {"type": "call-settled", "toolCallId": "c", "approvalId": "a", "state": "done"},
    ),
    (
        Notice(level="info", code="go-away", text="soon"),
        {"type": "notice", "level": "info", "code": "go-away", "text": "soon"},
    ),
    (Refusal(code="x", text="y"), {"type": "error", "code": "x", "text": "y"}),
    (
        Refusal(code="x", text="y", frame="tool_result", tool_call_id="c"),
        {"type": "error", "code": "x", "text": "y", "frame": "tool_result", "toolCallId": "c"},
    ),
]


@pytest.mark.parametrize(("frame", "expected"), SENT, ids=[expected["type"] for _, expected in SENT])
def test_frames_of_the_server(frame: ServerFrame, expected: dict[str, Any]) -> None:
    assert json.loads(encode_live_frame(frame)) == {**expected, "version": "1.0"}


def test_every_frame_of_the_server_has_a_test() -> None:
    assert {type(frame) for frame, _ in SENT} == set(get_args(ServerFrame))


def test_a_lone_surrogate_does_not_fail_a_frame() -> None:
    expected = encode_live_frame(UserTranscript(user_message_id="u", text="a\ud83d", final=True))
    assert json.loads(expected)["text"] == "a?"


def test_audio_for_a_client_without_binary_frames() -> None:
    assert json.loads(encode_chunks([pcm_chunk(b"\1\2\3\4")])[0]) == {
        "type": "data-pcm",
        "data": {"chunk": "AQIDBA==", "sampleRate": 24_000, "channels": 1, "bitDepth": 16},
        "transient": True,
    }


def test_a_client_that_has_executed_a_call_is_not_offered_it_again() -> None:
    offers = [ToolInputAvailable(tool_call_id=call, tool_name="where", input={}) for call in ("c1", "c2")]
    entries = [*encode_chunks([offers[0]]), break_entry([]), *encode_chunks([offers[1], TextStart(id="t")])]
    frames = LiveChunkFrames("r", Profile(), executed={"c1"}).encode(0, entries)
    expected = [(frame["sequence"], frame["chunk"]["type"]) for frame in map(json.loads, frames)]
    assert expected == [(0, "tool-input-available"), (1, "text-start")]


def test_unlogged_chunks_are_numbered_with_the_others() -> None:
    entries = encode_chunks([Start(message_id="m"), TextDelta(id="t", delta="a")])
    frames = LiveChunkFrames("r", Profile(), run="run")
    expected = [*frames.encode(0, entries[:1]), *frames.encode_unlogged(pcm_chunk(b"")), *frames.encode(1, entries[1:])]
    expected += frames.encode_unlogged(FinishStep(), Finish(finish_reason="tool-calls", message_metadata={}))
    seen = [json.loads(frame) for frame in expected]
    assert [(frame["sequence"], frame.get("id"), frame["chunk"]["type"]) for frame in seen] == [
        (0, "run:0", "start"),
        (1, None, "data-pcm"),
        (2, "run:1", "text-delta"),
        (3, None, "finish-step"),
        (4, None, "finish"),
    ]
    assert seen[-1]["chunk"] == {"type": "finish", "finishReason": "tool-calls", "messageMetadata": {}}
    assert {(frame["type"], frame["requestId"]) for frame in seen} == {("chunk", "r")}
