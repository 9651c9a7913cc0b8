"""Frames that the server sends on a chat socket."""

import json

from adkwire.wire.chunks import Chunk, Error, Finish, FinishStep, Start, TextDelta, TextEnd, ToolApprovalResponse
from adkwire.wire.profiles import Profile, encode_chunks
from adkwire.wire.socket.frames_out import (
    ChunkFrames,
    end_frame,
    error_frame,
    is_last_chunk,
    no_active_frame,
    notice_frame,
    pong_frame,
    start_frame,
)


def test_frames_of_the_server() -> None:
    name = 'r"1\n%d'
    sent = [
        start_frame(name),
        end_frame(name),
        no_active_frame(name),
        error_frame(name, "no"),
        error_frame("r", "", "c"),
    ]
    sent += [notice_frame("warning", "server-restart", "soon"), pong_frame(5, 7), pong_frame(None, 7)]
    assert [json.loads(frame) for frame in sent] == [
        {"type": "start", "requestId": name},
        {"type": "end", "requestId": name},
        {"type": "no-active", "requestId": name},
        {"type": "error", "requestId": name, "errorText": "no"},
        {"type": "error", "requestId": "r", "errorText": "", "code": "c"},
        {"type": "notice", "level": "warning", "code": "server-restart", "text": "soon"},
        {"type": "pong", "timestamp": 5, "serverTime": 7},
        {"type": "pong", "timestamp": None, "serverTime": 7},
    ]


def test_a_lone_surrogate_does_not_fail_a_frame() -> None:
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
    frames = ChunkFrames('r"%d', Profile()).encode(0, raw)
    head = '{"type":"chunk","requestId":"r\\"%d","sequence":'
    assert frames == [f'{head}{number},"chunk":{chunk.decode()}}}' for number, chunk in enumerate(raw)]


def test_a_chunk_that_a_client_must_not_get_leaves_no_gap() -> None:
    strict = [json.loads(frame) for frame in ChunkFrames("r", Profile()).encode(0, encode_chunks(STREAM))]
    assert [frame["sequence"] for frame in strict] == [0, 1, 2, 3]
    assert [frame["chunk"]["type"] for frame in strict] == ["start", "text-delta", "text-end", "finish"]
    assert "citations" not in strict[2]["chunk"]
    assert strict[3]["chunk"]["finishReason"] == "other"
    newest = [json.loads(frame) for frame in ChunkFrames("r", Profile(7, 169)).encode(0, encode_chunks(STREAM))]
    assert [frame["sequence"] for frame in newest] == [0, 1, 2, 3, 4]
    assert newest[4]["chunk"]["finishReason"] == "interrupted"


def test_sequences_go_on_over_batches_and_positions_are_those_of_the_run() -> None:
    raw = encode_chunks(STREAM)
    frames = ChunkFrames("r", Profile(), run="run_1")
    sent = [
        json.loads(frame) for frame in [*frames.encode(-2, raw[:2]), *frames.encode(1, raw[2:]), *frames.encode(4, [])]
    ]
    assert [(frame["sequence"], frame["id"]) for frame in sent] == [
        (0, "run_1:-2"),
        (1, "run_1:1"),
        (2, "run_1:2"),
        (3, "run_1:3"),
    ]
    assert all(list(frame) == ["type", "requestId", "sequence", "id", "chunk"] for frame in sent)


def test_resuming_after_a_sequence_counts_the_chunks_that_the_client_has() -> None:
    frames = ChunkFrames("r", Profile(), behind=1)
    sent = [json.loads(frame) for frame in frames.encode(0, encode_chunks(STREAM))]
    assert [(frame["sequence"], frame["chunk"]["type"]) for frame in sent] == [(2, "text-end"), (3, "finish")]
    assert ChunkFrames("r", Profile(), behind=99).encode(0, encode_chunks(STREAM)) == []


def test_resuming_after_a_position_numbers_the_remaining_chunks() -> None:
    frames = ChunkFrames("r", Profile(), run="run", first=8)
    sent = [json.loads(frame) for frame in frames.encode(3, encode_chunks(STREAM[2:]))]
    assert [(frame["sequence"], frame["id"]) for frame in sent] == [(8, "run:3"), (9, "run:4"), (10, "run:5")]


def test_the_last_chunk_is_known() -> None:
    ends = encode_chunks([Error(error_text="x"), Finish(finish_reason="stop"), Finish(finish_reason="interrupted")])
    others = encode_chunks([Start(message_id="m"), FinishStep(), TextDelta(id="t", delta='{"type":"finish"')])
    assert [is_last_chunk(entry) for entry in ends + others] == [True, True, True, False, False, False]
