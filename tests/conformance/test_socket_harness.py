"""Tests of the judge with sockets: it counts frames, and names what is wrong with them."""

import pytest

from tests.conformance.cases import say
from tests.conformance.judge import complaints
from tests.conformance.records import Record, columns, drive, newest, over_socket
from tests.conformance.socket_stub import Frame, frames, serve_socket_stub
from tests.conformance.test_harness import (
    CALL,
    FINISH,
    HELLO,
    OUTPUT,
    START,
    STEP,
    STEP_END,
    STEP_PART,
    TEXT,
    TOOL_PART,
    answer,
)

RIGHT = frames(START, STEP, *TEXT, STEP_END, FINISH)
BEGINNING, LAST, END = RIGHT[:-2], RIGHT[-2], RIGHT[-1]
LOOP = frames(START, STEP, CALL, OUTPUT, STEP_END, FINISH)
BROKEN: dict[str, tuple[list[Frame], str]] = {
    "gap": ([*BEGINNING, {**LAST, "sequence": 9}, END], "sequences do not count up from 0"),
    "more": ([*BEGINNING, {**LAST, "id": "run:6"}, END], "frames with more than they may have: ['id']"),
    "repeated": ([*BEGINNING, LAST, LAST, END], "sequences do not count up from 0"),
    "behind": ([*RIGHT, LAST], "1 events after the end"),
    "stray": ([{"type": "notice", "requestId": "nobody", "text": "hello"}, *RIGHT], "a frame that no request owns"),
    "failed": ([*BEGINNING, {"type": "error", "errorText": "no"}], "the stream ended in an error: no"),
    "refused": ([{"type": "error", "errorText": "no"}], "POST /api/chat/ws was answered with error"),
    "unfinished": (frames(START, STEP, *TEXT, STEP_END), "ends with finish-step instead of finish or error"),
}
STOCK = max(map(over_socket, newest()))


@pytest.fixture(scope="module")
def records() -> dict[str, Record]:
    scripts = {"right": RIGHT, "loop": LOOP} | {name: script for name, (script, _) in BROKEN.items()}
    stored = dict.fromkeys(scripts, HELLO) | {"loop": answer(STEP_PART, TOOL_PART)}
    with serve_socket_stub(scripts, stored) as base:
        return drive(columns()[STOCK], base, [say(chat, "hi").job(chat) for chat in scripts])


def test_right_frames_pass(records: dict[str, Record]) -> None:
    assert complaints(say("right", "hi"), records["right"]) == []
    assert [request["over"] for request in records["right"].page.requests] == ["socket"]


@pytest.mark.parametrize("name", BROKEN)
def test_broken_frames_are_named(records: dict[str, Record], name: str) -> None:
    assert BROKEN[name][1] in "\n".join(complaints(say(name, "hi"), records[name]))


def test_a_loop_is_named(records: dict[str, Record]) -> None:
    assert "page: the client loops: stopped after 8 requests" in complaints(say("loop", "hi"), records["loop"])


def test_a_refusal_that_was_meant_is_looked_for(records: dict[str, Record]) -> None:
    case = say("right", "hi", error="no")
    assert "page: errors [] do not say 'no'" in complaints(case, records["right"])
