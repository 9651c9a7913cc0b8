"""The lines of a recording: written and read back, and the errors of files that are no recordings."""

import json
from typing import Any

import pytest

from adkwire.wire.chunks import Finish, Start, TextDelta, ToolApprovalResponse, encode_chunk
from adkwire.wire.profiles import encode_chunks
from adkwire.wire.recording_lines import (
    LOCATIONS,
    MODES,
    LineLocation,
    NotARecording,
    belongs_to,
    encode_line,
    is_event_line,
    read_lines,
    read_recording,
)


def line(sequence: int, chunk: bytes, *, at: int = 1000, location: LineLocation = "server-chunk") -> bytes:
    return encode_line(at, "chat", "sse", location, "out", sequence, chunk)


def run(message: str, *texts: str, at: int = 1000) -> bytes:
    chunks = [Start(message_id=message), *(TextDelta(id="1", delta=text) for text in texts), Finish()]
    return b"".join(line(n, entry, at=at + n) for n, entry in enumerate(encode_chunks(chunks)))


def test_a_line_is_json_with_these_keys() -> None:
    raw = encode_line(1_700_000_000_123, "a.b:c", "websocket", "client-frame", "in", 7, b'{"type":"send"}')
    assert raw.endswith(b"\n")
    assert json.loads(raw) == {
        "timestamp": 1_700_000_000_123,
        "chat": "a.b:c",
        "mode": "websocket",
        "location": "client-frame",
        "direction": "in",
        "sequence": 7,
        "chunk": {"type": "send"},
    }


def test_the_lists_are_closed() -> None:
    assert MODES == ("sse", "websocket", "gemini", "live")
    assert LOCATIONS == ("server-adk-event", "server-chunk", "client-frame", "client-chunk", "client-usechat")


def test_runs_come_back_as_they_were_encoded() -> None:
    approval = ToolApprovalResponse(approval_id="a", approved=True)
    entries = encode_chunks([Start(message_id="m2"), approval])
    data = run("m1", "Hello") + b"".join(line(n, entry, at=2000 + n) for n, entry in enumerate(entries))
    recording = read_recording(data)
    assert recording.chat == "chat"
    assert [found.message for found in recording.runs] == ["m1", "m2"]
    assert recording.runs[0].times == [1000, 1001, 1002]
    # With the mark of a chunk that not every client takes.
    assert recording.runs[1].entries == entries


def test_other_lines_are_skipped() -> None:
    others = b"".join(line(0, b'{"any": "thing"}', location=name) for name in LOCATIONS if name != "server-chunk")
    assert len(read_recording(others + run("m1") + others).runs) == 1


def test_the_end_of_an_answer_that_began_before() -> None:
    end = line(4, encode_chunk(TextDelta(id="1", delta="end")))
    assert [found.message for found in read_recording(end + run("m1")).runs] == ["m1"]


def test_what_a_killed_server_has_not_written_is_missing() -> None:
    data = run("m1", "one") + line(9, encode_chunk(TextDelta(id="1", delta="later")))
    assert read_recording(data).runs[0].last == 9


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_half_a_last_line_is_left_out(cut: int) -> None:
    whole = run("m1", "one", "two")
    assert len(read_lines(whole[:-cut])) == 3
    assert read_recording(whole[:-cut]).runs[0].entries == read_recording(whole).runs[0].entries[:-1]


START = encode_chunk(Start(message_id="m"))


@pytest.mark.parametrize(
    ("data", "number", "reason"),
    [
        (b"", 1, "without an answer"),
        (b"hello", 1, "not JSON"),
        (b"hello\n", 1, "not JSON"),
        (b"\xff\xfe\n", 1, "not JSON"),
        (b'{"type": "start"}\n', 1, "missing required field"),
        (line(0, START) + b"{}\n", 2, "missing required field"),
        (line(0, START) + line(1, START).replace(b"server-chunk", b"elsewhere"), 2, "elsewhere"),
        (line(0, START) + line(1, START).replace(b'"sse"', b'"smoke"'), 2, "smoke"),
        (line(0, START) + line(1, START).replace(b'"sequence":1', b'"sequence":-1'), 2, ">= 0"),
        (line(0, START) + line(1, START).replace(b'"chat"', b'"cats"'), 2, "`chat`"),
        (line(0, START) + line(1, b'{"type":"unheard-of"}'), 2, "is not a chunk"),
        (line(0, START) + line(1, b"[" * 5000 + b"]" * 5000), 2, "is no"),
        (line(0, encode_chunk(Finish())), 1, "begins with a `start`"),
        (line(0, encode_chunk(Start())), 1, "begins with a `start`"),
        (line(0, START) + line(2, START) + b"\n" + line(1, START), 4, "chunk 1 comes after chunk 2"),
    ],
)
def test_no_recording(data: bytes, number: int, reason: str) -> None:
    with pytest.raises(NotARecording) as error:
        read_recording(data)
    assert error.value.number == number
    assert reason in error.value.reason
    assert str(error.value).startswith(f"line {number}: ")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (line(0, START), True),
        (line(0, START)[:40], True),
        (b'{"timestamp":1', False),
        (b"", False),
        (b"hello", False),
        (line(0, START).replace(b'"chat":"chat"', b'"chat":"CHAT"'), False),
        (line(0, START).replace(b'"chat":"chat"', b'"chat":"chat2"'), False),
    ],
)
def test_a_file_belongs_to_the_chat_of_its_first_line(head: bytes, expected: Any) -> None:
    assert belongs_to(head, "chat") is expected


def test_an_event_is_told_by_the_head_of_its_line() -> None:
    assert is_event_line(line(0, b"{}", location="server-adk-event"))
    hidden = line(0, line(0, b"{}", location="server-adk-event").strip(), location="client-frame")
    assert not is_event_line(hidden)
