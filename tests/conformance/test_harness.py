"""Tests of the judge: it accepts a right stream and names what is wrong with a broken one."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.conformance.cases import say
from tests.conformance.judge import complaints
from tests.conformance.records import Chunk, Message, Record, columns, drive, thorough
from tests.conformance.stub import Script, serve_stub, sse

START: Chunk = {"type": "start", "messageId": "m1"}
STEP: Chunk = {"type": "start-step"}
STEP_END: Chunk = {"type": "finish-step"}
FINISH: Chunk = {"type": "finish", "finishReason": "stop", "messageMetadata": {}}
THOUGHT: list[Chunk] = [
    {"type": "reasoning-start", "id": "r"},
    {"type": "reasoning-delta", "id": "r", "delta": "Hm."},
    {"type": "reasoning-end", "id": "r"},
]
TEXT: list[Chunk] = [
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "Hello"},
    {"type": "text-end", "id": "t"},
]
CALL: Chunk = {"type": "tool-input-available", "toolCallId": "c", "toolName": "look", "input": {"at": 1}}
OUTPUT: Chunk = {"type": "tool-output-available", "toolCallId": "c", "output": None}
SOURCE: Chunk = {"type": "source-url", "sourceId": "s", "url": "https://example.org", "title": "Example"}
IMAGE: Chunk = {"type": "file", "url": "data:image/png;base64,AA==", "mediaType": "image/png"}
STATE: Chunk = {"type": "data-state", "data": {"key": 1}}
PASSING: Chunk = {"type": "data-pcm", "data": {"chunk": "AA=="}, "transient": True}

STEP_PART = {"type": "step-start"}
TOOL_PART = {"type": "tool-look", "toolCallId": "c", "state": "output-available", "input": {"at": 1}, "output": None}
THOUGHT_PART = {"type": "reasoning", "text": "Hm.", "state": "done"}
TEXT_PART = {"type": "text", "text": "Hello", "state": "done"}
SOURCE_PART = SOURCE
WHOLE = [STEP_PART, THOUGHT_PART, TOOL_PART, STEP_PART, TEXT_PART, SOURCE_PART, IMAGE, STATE]


def answer(*parts: Mapping[str, Any], **fields: Any) -> Message:
    return {"id": "m1", "role": "assistant", "metadata": {}, "parts": list(parts), **fields}


HELLO = answer(STEP_PART, TEXT_PART)
RIGHT = {
    "text": Script([sse(START, STEP, *TEXT, STEP_END, FINISH)], [HELLO]),
    "everything": Script(
        [
            sse(
                *(START, STEP, *THOUGHT, CALL, OUTPUT, STEP_END),
                *(STEP, *TEXT, SOURCE, IMAGE, STATE, PASSING, STEP_END, FINISH),
            )
        ],
        [answer(*WHOLE)],
    ),
    "padded tool": Script(
        [sse(START, STEP, CALL, OUTPUT, STEP_END, STEP, STEP_END, FINISH)], [answer(STEP_PART, TOOL_PART, STEP_PART)]
    ),
}
BROKEN = {
    "open text": (sse(START, STEP, *TEXT[:2], STEP_END, FINISH), "text t is still open at finish-step"),
    "open text in the message": (sse(START, STEP, *TEXT[:2], STEP_END, FINISH), "a part is left unfinished"),
    "unknown field": (sse({**START, "seed": 1}, STEP, *TEXT, STEP_END, FINISH), "v6.0.0-strict: Additional properties"),
    "unknown type": (sse(START, STEP, *TEXT, {"type": "note"}, STEP_END, FINISH), "knows no chunk"),
    "null": (sse(START, STEP, {**TEXT[0], "providerMetadata": None}, *TEXT[1:], STEP_END, FINISH), "None is not of"),
    "no output field": (
        sse(START, STEP, CALL, {"type": "tool-output-available", "toolCallId": "c"}, STEP_END, STEP, STEP_END, FINISH),
        "'output' is a required property",
    ),
    "unknown call": (sse(START, STEP, OUTPUT, STEP_END, FINISH), "tool-output-available for c, which was never"),
    "announced twice": (sse(START, STEP, CALL, CALL, OUTPUT, STEP_END, STEP, *TEXT, STEP_END, FINISH), "again"),
    "never settled": (sse(START, STEP, CALL, STEP_END, STEP, *TEXT, STEP_END, FINISH), "call c is never settled"),
    "no start": (sse(STEP, *TEXT, STEP_END, FINISH), "instead of start with a messageId"),
    "start without id": (sse({"type": "start"}, STEP, *TEXT, STEP_END, FINISH), "instead of start with a messageId"),
    "after the error": (sse(START, {"type": "error", "errorText": "no"}, FINISH), "finish after error"),
    "an error": (sse(START, {"type": "error", "errorText": "no"}), "status error instead of ready: no"),
    "no finish": (sse(START, STEP, *TEXT, STEP_END), "ends with finish-step instead of finish or error"),
    "no end mark": (sse(START, STEP, *TEXT, STEP_END, FINISH, done=False), "no [DONE] at the end"),
    "no json": (sse(START, STEP, *TEXT, STEP_END, FINISH).replace(b'"finish"', b'"finish'), "not JSON"),
    "empty": (sse(), "the stream is empty"),
    "id twice": (sse(START, STEP, *TEXT, STEP_END, FINISH).replace(b"run:3", b"run:2"), "event ids do not count up"),
    "other run": (sse(START, STEP, *TEXT, STEP_END, FINISH).replace(b"run:", b"ran:"), "do not name the run"),
    "reload": (
        sse(START, STEP, *TEXT[:1], {**TEXT[1], "delta": "Hallo"}, TEXT[2], STEP_END, FINISH),
        "reload differs from stream",
    ),
}
LOOP = Script([sse(START, STEP, CALL, OUTPUT, STEP_END, FINISH), sse(START, FINISH)], [answer(STEP_PART, TOOL_PART)])
NEW_ID = Script(
    [
        sse(START, STEP, CALL, OUTPUT, STEP_END, FINISH),
        sse({**START, "messageId": "m2"}, STEP, *TEXT, STEP_END, FINISH),
    ],
    [HELLO],
)


@pytest.fixture(scope="module", params=thorough())
def records(request: pytest.FixtureRequest) -> dict[str, Record]:
    broken = {name: Script([body], [HELLO]) for name, (body, _) in BROKEN.items()}
    scripts = {
        name.replace(" ", "-"): script for name, script in {**RIGHT, **broken, "loop": LOOP, "new id": NEW_ID}.items()
    }
    with serve_stub(scripts) as base:
        return drive(columns()[request.param], base, [say(chat, "hi").job(chat) for chat in scripts])


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_stream_passes(records: dict[str, Record], name: str) -> None:
    found = complaints(say(name, "hi"), records[name.replace(" ", "-")])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_stream_is_named(records: dict[str, Record], name: str) -> None:
    found = complaints(say(name, "hi"), records[name.replace(" ", "-")])
    assert BROKEN[name][1] in "\n".join(found)


def test_a_loop_is_named(records: dict[str, Record]) -> None:
    assert "page: the client loops: stopped after 8 requests" in complaints(say("loop", "hi"), records["loop"])


def test_a_new_id_on_a_continuation_is_named(records: dict[str, Record]) -> None:
    found = "\n".join(complaints(say("new id", "hi"), records["new-id"]))
    assert "continues m1 under the new id m2" in found
    assert "2 requests instead of 1" in found
    assert "one answer became two messages" in found


def test_the_wrong_number_of_requests_is_named(records: dict[str, Record]) -> None:
    assert complaints(say("text", "hi", "again"), records["text"]) == ["page: 1 requests instead of 2"]


def test_an_error_that_was_meant_is_looked_for(records: dict[str, Record]) -> None:
    assert "page: errors ['no'] do not say 'yes'" in complaints(say("x", "hi", error="yes"), records["an-error"])
    assert complaints(say("x", "hi", error="meant"), records["text"]) != []
