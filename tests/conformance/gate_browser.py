"""Scenarios on `agents/gated.py`: calls that the page executes, asked for or not."""

from tests.conformance.acts import (
    EXECUTE,
    HERE_IS,
    NOON,
    SEND,
    act,
    approve,
    deny,
    give,
    load,
    refuse,
    say,
)
from tests.conformance.expected import (
    ANY,
    STEP,
    approved,
    denied,
    every,
    failed,
    holds,
    says,
    tool,
)
from tests.conformance.gate_expected import FOUND, PAGE, READ_CLOCK, READ_WHERE, TOLD, reads, sealed
from tests.conformance.records import Record


def _offered(record: Record) -> None:
    (pending,) = record.history["pending"]
    assert pending == {"toolCallId": ANY, "tool": "clock", "input": {}, "kind": "client", "schema": ANY}


CASES = [
    act(
        "browser call",
        say("clock"),
        check=holds(STEP, TOLD, STEP, words=READ_CLOCK),
        requests=2,
        executions=("clock",),
    ),
    act(
        "browser call that nobody answers",
        say("clock"),
        check=_offered,
        executor={},
        left=frozenset({"clock input-available"}),
    ),
    act(
        "browser call refused",
        say("clock"),
        check=every(holds(STEP, failed("clock", {}, "no clock here"), STEP), reads("no clock here")),
        requests=2,
        executor={"clock": {"error": "no clock here"}},
        executions=("clock",),
    ),
    act(
        "gated browser call approved",
        *(say("where"), approve("where")),
        check=holds(STEP, FOUND, STEP, words=READ_WHERE),
        requests=3,
        executions=("where",),
    ),
    act(
        "gated browser call denied",
        *(say("where"), deny("where", reason="Private.")),
        check=every(holds(STEP, denied("where", {}, "Private."), STEP), reads("Private.")),
        requests=2,
    ),
    act(
        "gated browser call refused by the browser",
        *(say("where"), approve("where")),
        check=every(holds(STEP, approved(failed("where", {}, "User denied Geolocation")), STEP), reads("User denied")),
        requests=3,
        executor={"where": {"error": "User denied Geolocation"}},
        executions=("where",),
    ),
    act(
        "approved and answered in one send",
        *(say("where"), approve("where"), give("where", HERE_IS), SEND),
        check=holds(STEP, FOUND, STEP, words=READ_WHERE),
        requests=2,
        predicate="never",
    ),
    act(
        "approved and refused in one send",
        *(say("where"), approve("where"), refuse("where", "no signal"), SEND),
        check=every(holds(STEP, approved(failed("where", {}, "no signal")), STEP), reads("no signal")),
        requests=2,
        predicate="never",
    ),
    act(
        "answered without a word about the question",
        *(say("where"), give("where", HERE_IS)),
        check=every(says(READ_WHERE), sealed(FOUND)),
        requests=2,
    ),
    act(
        "a browser call that asks only sometimes",
        *(say("music 0"), say("music 1"), approve("music", 1)),
        check=holds(STEP, approved(tool("music", {"track": 1}, {"track": 1})), STEP),
        requests=5,
        executions=("music", "music"),
    ),
    act(
        "browser calls in every step",
        *(say("clock | where | clock"), approve("where")),
        check=holds(STEP, TOLD, STEP, FOUND, STEP, TOLD, STEP, words=READ_CLOCK),
        requests=5,
        executions=("clock", "where", "clock"),
    ),
    act(
        "two browser calls at once",
        *(say("clock + clock"),),
        check=holds(STEP, TOLD, TOLD, STEP, words=f"{READ_CLOCK}; {READ_CLOCK}"),
        requests=2,
        executions=("clock", "clock"),
    ),
    act(
        "an output that is none",
        *(say("where"), approve("where"), give("where", {"latitude": "north"})),
        *(load("second", executor={"where": {"output": HERE_IS}}), EXECUTE),
        check=holds(STEP, FOUND, STEP, words=READ_WHERE, page="second"),
        requests={"page": 3, "second": 1},
        error="not what where gives",
        error_in=PAGE,
        executor={},
        executions=("where",),
        cut=PAGE,
    ),
    act(
        "reload with a browser call that waits",
        *(say("clock"), load("second", executor={"clock": {"output": NOON}}), EXECUTE),
        check=holds(STEP, TOLD, STEP, words=READ_CLOCK, page="second"),
        requests={"page": 1, "second": 1},
        executor={},
        executions=("clock",),
        cut=PAGE,
    ),
    act(
        "reload between the approval and the browser",
        *(say("where"), approve("where")),
        *(load("second", executor={"where": {"output": HERE_IS}}), EXECUTE),
        check=holds(STEP, FOUND, STEP, words=READ_WHERE, page="second"),
        requests={"page": 2, "second": 1},
        executor={},
        executions=("where",),
        cut=PAGE,
    ),
]
