"""Scenarios on `agents/gated.py`: something else happens while a call waits or runs."""

from tests.conformance.acts import (
    BEGUN,
    CUT,
    ENDED,
    REGENERATE,
    RELEASE,
    REST,
    SEND,
    STOP,
    act,
    approve,
    begin,
    deny,
    edit,
    join,
    late,
    load,
    race,
    say,
    see,
    turn,
)
from tests.conformance.expected import (
    ANY,
    STEP,
    bare,
    denied,
    every,
    failed,
    holds,
    says,
    verdict,
)
from tests.conformance.gate_expected import HELLO, PAGE, READ_ONE, TOLD, paid, sealed, spoken, unpaid, void
from tests.conformance.records import Record


def _too_late(record: Record) -> None:
    """Check that a late answer is refused with the reason, and changes nothing."""
    start, error = record.seen["late"]["chunks"]
    assert (start["type"], error["type"]) == ("start", "error")
    assert "Too late" in error["errorText"]


def _raced(record: Record) -> None:
    assert {stream["status"] for stream in record.seen["streams"]} == {200}
    assert {answer["status"] for answer in record.seen["answers"]} <= {202, 409}


def _unknown_outcome(record: Record) -> None:
    part = bare(record.page.messages[1])[1]
    assert part == {**failed("slow", {"amount": 5}), "approval": verdict(True)}
    assert "unknown" in part["errorText"]


CASES = [
    act(
        "reload while it waits",
        *(say("pay 5"), load("second"), approve("pay")),
        check=holds(STEP, paid(5), STEP, words=READ_ONE, page="second"),
        requests={"page": 1, "second": 1},
        ledger=("pay 5",),
        cut=PAGE,
    ),
    act(
        "reload while it waits, denied",
        *(say("pay 5"), load("second"), deny("pay", reason="Too much.")),
        check=holds(STEP, unpaid(5, "Too much."), STEP, page="second"),
        requests={"page": 1, "second": 1},
        cut=PAGE,
    ),
    act(
        "typed over",
        *(say("pay 5"), say("hello"), late("pay")),
        check=every(HELLO, sealed(void("pay", {"amount": 5}, approval={"id": ANY})), _too_late),
        requests=2,
        cut=PAGE,
    ),
    act(
        "typed over a browser call",
        *(say("where + clock"), say("hello")),
        check=every(HELLO, sealed(void("where", {}, approval={"id": ANY}), void("clock", {}))),
        requests=2,
        executor={},
        cut=PAGE,
    ),
    act(
        "typed over, but the browser has answered",
        *(say("pay 5 + clock"), say("hello")),
        check=every(HELLO, sealed(void("pay", {"amount": 5}, approval={"id": ANY}), TOLD)),
        requests=2,
        executions=("clock",),
        cut=PAGE,
    ),
    act(
        "typed over a verdict that was not executed yet",
        *(say("pay 5 + pay 6"), approve("pay"), SEND, say("hello"), late("pay")),
        check=every(HELLO, _too_late),
        requests=3,
        predicate="never",
        cut=PAGE,
    ),
    act(
        "stopped while it waits",
        *(say("pay 5"), STOP, late("pay"), say("hello")),
        check=every(HELLO, sealed(void("pay", {"amount": 5}, approval={"id": ANY})), _too_late),
        requests=2,
        cut=PAGE,
    ),
    act(
        "stopped in the approved tool",
        *(say("slow 5"), begin(approve("slow")), BEGUN, STOP, REST, late("slow"), say("hello")),
        check=every(HELLO, _unknown_outcome),
        requests=3,
        ledger=("slow 5",),
    ),
    act(
        "stopped in the text after an approval",
        *(say("pay 5 | hold $CHAT"), begin(approve("pay")), see("One "), STOP, REST, say("hello")),
        check=every(HELLO, sealed(paid(5))),
        requests=3,
        ledger=("pay 5",),
    ),
    act(
        "typed over in the approved tool",
        *(say("slow 5"), approve("slow"), begin(SEND), BEGUN, CUT, say("hello")),
        check=every(HELLO, sealed(void("slow", {"amount": 5}, approval=verdict(True)))),
        requests=3,
        predicate="never",
        ledger=("slow 5",),
        cut=PAGE,
    ),
    act(
        "cut before the question",
        *(
            begin(say("hold $CHAT + pay 5")),
            see("One "),
            CUT,
            join("second", "One "),
            RELEASE,
            REST,
            approve("pay"),
            SEND,
        ),
        check=holds(STEP, paid(5), STEP, page="second"),
        requests={"page": 1, "second": 2},
        predicate="never",
        ledger=("pay 5",),
        cut=PAGE,
    ),
    act(
        "two tabs follow",
        *(say("slow 5"), begin(approve("slow")), BEGUN, join("second", "tool-slow"), RELEASE, REST, turn("page")),
        check=every(spoken("second", 'slow {"paid": 5}'), spoken("page", 'slow {"paid": 5}')),
        requests={"page": 2, "second": 1},
        ledger=("slow 5",),
    ),
    act(
        "regenerated after a payment",
        *(say("pay 5"), approve("pay"), REGENERATE, approve("pay")),
        check=holds(STEP, paid(5), STEP, words=READ_ONE),
        requests=4,
        ledger=("pay 5", "pay 5"),
    ),
    act(
        "regenerated in the approved tool",
        *(say("slow 5"), approve("slow"), begin(SEND), BEGUN, CUT, REGENERATE, deny("slow"), SEND),
        check=holds(STEP, denied("slow", {"amount": 5}), STEP),
        requests=4,
        predicate="never",
        ledger=("slow 5",),
    ),
    act(
        "stopped when it is half answered",
        *(say("pay 5 + pay 6"), approve("pay"), SEND, STOP, late("pay"), say("hello")),
        check=every(HELLO, _too_late),
        requests=3,
        predicate="never",
        cut=PAGE,
    ),
    act(
        "regenerated while it waits",
        *(say("pay 5"), REGENERATE, approve("pay")),
        check=holds(STEP, paid(5), STEP, words=READ_ONE),
        requests=3,
        ledger=("pay 5",),
    ),
    act(
        "edited while it waits",
        *(say("pay 5"), edit(0, "pay 6"), approve("pay")),
        check=holds(STEP, paid(6), STEP, words='pay {"paid": 6}'),
        requests=3,
        ledger=("pay 6",),
    ),
    act(
        "cut in the approved tool, sent again",
        *(say("slow 5"), approve("slow"), begin(SEND), BEGUN, CUT, begin(SEND), RELEASE, REST),
        check=says('slow {"paid": 5}'),
        requests=3,
        predicate="never",
        ledger=("slow 5",),
    ),
    act(
        "cut in the approved tool, sent again after its end",
        *(say("slow 5"), approve("slow"), begin(SEND), BEGUN, CUT, RELEASE, ENDED, SEND),
        check=says('slow {"paid": 5}'),
        requests=3,
        predicate="never",
        ledger=("slow 5",),
    ),
    act(
        "cut in the approved tool, loaded again",
        *(say("slow 5"), approve("slow"), begin(SEND), BEGUN, CUT, join("second", "tool-slow"), RELEASE, REST),
        check=spoken("second", 'slow {"paid": 5}'),
        requests={"page": 2, "second": 1},
        predicate="never",
        ledger=("slow 5",),
        cut=PAGE,
    ),
    act(
        "cut in the text after an approval",
        *(say("pay 5 | hold $CHAT"), approve("pay"), begin(SEND), see("One "), CUT),
        *(join("second", "One "), RELEASE, REST),
        check=every(spoken("second", "One two."), sealed(paid(5))),
        requests={"page": 2, "second": 1},
        predicate="never",
        ledger=("pay 5",),
        cut=PAGE,
    ),
    act(
        "sixteen at once",
        *(say("pay 5"), approve("pay"), race("pay", 8, *[{"approved": True}] * 8), load("second")),
        check=every(_raced, holds(STEP, paid(5), STEP, words=READ_ONE, page="second")),
        requests={"page": 1, "second": 0},
        predicate="never",
        ledger=("pay 5",),
        cut=PAGE,
    ),
]
