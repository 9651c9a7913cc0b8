"""Tests of the judge with pending calls: it finds a call that is left open, asked about again, or executed twice."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.conformance.acts import act, approve, deny, say
from tests.conformance.cases import Case
from tests.conformance.judge import complaints
from tests.conformance.records import Chunk, Record, columns, drive, thorough
from tests.conformance.stub import Script, serve_stub, sse
from tests.conformance.test_harness import FINISH, START, STEP, STEP_END, STEP_PART, TEXT, TEXT_PART, answer

OPEN: Chunk = {"type": "tool-input-start", "toolCallId": "c", "toolName": "where"}
ARGUMENTS: Chunk = {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "{}"}
CALL: Chunk = {"type": "tool-input-available", "toolCallId": "c", "toolName": "where", "input": {}}
ASK: Chunk = {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "c"}
OUTPUT: Chunk = {"type": "tool-output-available", "toolCallId": "c", "output": 1}
DENIED: Chunk = {"type": "tool-output-denied", "toolCallId": "c"}
SAID = (STEP, *TEXT, STEP_END, FINISH)

ASKED = sse(START, STEP, OPEN, ARGUMENTS, ASK, STEP_END, FINISH)
PENDING = {"toolCallId": "c"}
PART: dict[str, Any] = {"type": "tool-where", "toolCallId": "c", "input": {}, "approval": {"id": "a"}}
WAITING = answer(STEP_PART, {**PART, "state": "approval-requested"})
REFUSED = {**PART, "state": "output-denied", "approval": {"id": "a", "approved": False}}
NO = answer(STEP_PART, REFUSED, STEP_PART, TEXT_PART)
FOUND = {**PART, "state": "output-available", "output": 1, "approval": {"id": "a", "approved": True}}
UNSAID = answer(STEP_PART, {**REFUSED, "approval": {"id": "a"}}, STEP_PART, TEXT_PART)
YES = answer(STEP_PART, FOUND, STEP_PART, TEXT_PART)

LEFT = frozenset({"where approval-requested"})
EXECUTOR = {"where": {"output": 1}}
ACTS = {"waits": (say("hi"),), "no": (say("hi"), deny("where")), "yes": (say("hi"), approve("where"))}
RIGHT: Mapping[str, tuple[Case, Script]] = {
    "waits": (act("waits", *ACTS["waits"], left=LEFT), Script([ASKED], [WAITING], [PENDING])),
    "no": (act("no", *ACTS["no"], requests=2), Script([ASKED, sse(START, DENIED, *SAID)], [NO])),
    "yes": (
        act("yes", *ACTS["yes"], requests=3, executor=EXECUTOR, executions=("where",)),
        Script([ASKED, sse(START, CALL, FINISH), sse(START, *SAID)], [YES]),
    ),
}
BROKEN: Mapping[str, tuple[str, Script, str]] = {
    "left": ("waits", Script([ASKED], [WAITING]), "pending is []"),
    "no outcome": ("no", Script([ASKED, sse(START, *SAID)], [NO]), "call c is never settled"),
    "asked again": ("no", Script([ASKED, sse(START, ASK, DENIED, *SAID)], [NO]), "c is asked for again"),
    "denied twice": ("no", Script([ASKED, sse(START, DENIED, DENIED, *SAID)], [NO]), "which is settled"),
    "reopened": ("no", Script([ASKED, sse(START, OPEN, DENIED, *SAID)], [NO]), "tool-input-start announces c again"),
    "other call": (
        "no",
        Script([ASKED, sse(START, {**DENIED, "toolCallId": "x"}, DENIED, *SAID)], [NO]),
        "for x, which was never announced",
    ),
    "nothing comes": ("no", Script([ASKED, sse(START, FINISH)], [NO]), "the client loops"),
    "no verdict in history": (
        "no",
        Script(
            [ASKED, sse(START, DENIED, *SAID)],
            [answer(STEP_PART, {**REFUSED, "approval": {"id": "a"}}, *NO["parts"][2:])],
        ),
        "reload differs",
    ),
    "executed too early": (
        "waits",
        Script([sse(START, STEP, CALL, ASK, STEP_END, FINISH), sse(START, DENIED, *SAID)], [NO]),
        "the browser did ['where'] instead of []",
    ),
    "executed twice": (
        "yes",
        Script([ASKED, sse(START, CALL, CALL, FINISH), sse(START, *SAID)], [YES]),
        "c was executed 2 times",
    ),
    "a page that still asks": (
        "waits",
        Script([ASKED], [answer(STEP_PART, {**REFUSED})]),
        "reload differs",
    ),
}


@pytest.fixture(scope="module", params=thorough())
def records(request: pytest.FixtureRequest) -> dict[str, Record]:
    scripts = {name: script for name, (_, script) in RIGHT.items()}
    scripts |= {name: script for name, (_, script, _) in BROKEN.items()}
    kinds = {name: name for name in RIGHT} | {name: kind for name, (kind, _, _) in BROKEN.items()}
    jobs = [replace(RIGHT[kind][0], name=name).job(name) for name, kind in kinds.items()]
    jobs = [{**job, "chat": job["chat"].replace(" ", "-"), "executor": EXECUTOR} for job in jobs]
    with serve_stub({name.replace(" ", "-"): script for name, script in scripts.items()}) as base:
        return drive(columns()[request.param], base, jobs)


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(records: dict[str, Record], name: str) -> None:
    found = complaints(RIGHT[name][0], records[name])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_named(records: dict[str, Record], name: str) -> None:
    kind, _, words = BROKEN[name]
    assert words in "\n".join(complaints(RIGHT[kind][0], records[name]))


def test_a_part_that_should_not_wait_is_named(records: dict[str, Record]) -> None:
    found = complaints(replace(RIGHT["waits"][0], left=frozenset()), records["waits"])
    assert [text.partition(": message")[0] for text in found] == ["page", "history"]


def test_what_a_tool_did_is_counted(records: dict[str, Record]) -> None:
    case, record = RIGHT["no"][0], records["no"]
    line = {"chat": record.chat, "call": "c", "what": "where"}
    assert complaints(replace(case, ledger=("where",)), record) == ["tools did [] instead of ['where']"]
    assert complaints(case, replace(record, ledger=(line,))) == ["tools did ['where'] instead of []"]
    twice = complaints(replace(case, ledger=("where", "where")), replace(record, ledger=(line, line)))
    assert twice == ["c was executed 2 times"]
