"""Scenarios of sockets only: a stop is a frame, a lost socket stops nothing, and a page may change to HTTP and back."""

from tests.conformance.acts import (
    BEGUN,
    ENDED,
    LOSE,
    PRESS_STOP,
    RELEASE,
    REST,
    RESUME,
    SEND,
    act,
    approve,
    begin,
    deny,
    join,
    late,
    load,
    say,
    see,
)
from tests.conformance.cases import Case
from tests.conformance.expected import STEP, every, failed, holds, shape, text, verdict, was_stopped
from tests.conformance.gate_expected import HELLO, PAGE, READ_ONE, paid, sealed, spoken, unpaid, void
from tests.conformance.records import Record, text_of

LEFT_OUT = {"heartbeat": "Comments keep an event stream alive; a socket has pings of its own below its frames."}
"""Cases that are about HTTP itself, and why."""

NETWORK = "network connection"
"""What the stock transport says of a lost socket."""


def _stopped_in_text(record: Record) -> None:
    assert text_of(record.history["messages"][1]) == "One "
    assert [request["aborts"] for request in record.page.requests] == [1, 0]


def _stopped_in_the_tool(record: Record) -> None:
    was_stopped(record)
    assert shape(record.history["messages"][1])[:3] == [STEP, text("Working. "), failed("hang", {})]


def _one_abort(record: Record) -> None:
    assert [request["aborts"] for request in record.page.requests] == [0, 1, 0]


SCRIPTED = [
    Case(
        "the stop button in a tool",
        "stop",
        {"text": "hang in a tool", "after": "tool-hang", "next": "hello"},
        _stopped_in_the_tool,
        {"page": 2},
        cut=PAGE,
    ),
    Case(
        "the stop button before a word",
        "stop",
        {"text": "hang at once", "after": "assistant", "next": "hello"},
        was_stopped,
        {"page": 2},
        cut=PAGE,
    ),
]

GATED = [
    act(
        "the stop button in text",
        *(begin(say("hold $CHAT")), see("One "), PRESS_STOP, REST, ENDED, say("hello")),
        check=every(HELLO, _stopped_in_text),
        requests=2,
        cut=PAGE,
    ),
    act(
        "the stop button in the approved tool",
        *(say("slow 5"), approve("slow"), begin(SEND), BEGUN, PRESS_STOP, REST, ENDED, late("slow"), say("hello")),
        check=every(HELLO, _one_abort, sealed(void("slow", {"amount": 5}, approval=verdict(True)))),
        requests=3,
        predicate="never",
        ledger=("slow 5",),
        cut=PAGE,
    ),
    act(
        "the stop button in the text after an approval",
        *(say("pay 5 | hold $CHAT"), approve("pay"), begin(SEND), see("One "), PRESS_STOP, REST, ENDED, say("hello")),
        check=every(HELLO, _one_abort, sealed(paid(5))),
        requests=3,
        predicate="never",
        ledger=("pay 5",),
        cut=PAGE,
    ),
    act(
        "asked on a socket, approved over HTTP",
        *(say("pay 5"), load("second", http=True), approve("pay")),
        check=holds(STEP, paid(5), STEP, words=READ_ONE, page="second"),
        requests={"page": 1, "second": 1},
        ledger=("pay 5",),
        cut=PAGE,
    ),
    act(
        "asked over HTTP, denied on a socket",
        *(load("page", http=True), say("pay 5"), load("second"), deny("pay", reason="No.")),
        check=holds(STEP, unpaid(5, "No."), STEP, page="second"),
        requests={"page": 1, "second": 1},
        cut=PAGE,
    ),
    act(
        "begun on a socket, followed over HTTP",
        *(begin(say("hold $CHAT + pay 5")), see("One "), join("second", "One ", http=True), RELEASE, REST),
        *(approve("pay"), SEND),
        check=holds(STEP, paid(5), STEP, page="second"),
        requests={"page": 1, "second": 2},
        predicate="never",
        ledger=("pay 5",),
        cut=PAGE,
    ),
]

STOCK = [
    act(
        "lost in text, resumed in the same page",
        *(begin(say("hold $CHAT")), see("One "), LOSE, REST, RESUME, RELEASE, REST),
        check=spoken("page", "One two."),
        requests=2,
        error=NETWORK,
        recovers=True,
        lost=PAGE,
    ),
    act(
        "lost in the approved tool, resumed in the same page",
        *(say("slow 5"), approve("slow"), begin(SEND), BEGUN, LOSE, REST, RESUME, RELEASE, REST),
        check=spoken("page", 'slow {"paid": 5}'),
        requests=3,
        predicate="never",
        ledger=("slow 5",),
        error=NETWORK,
        recovers=True,
        lost=PAGE,
    ),
    act(
        "lost while it waits, approved on a new socket",
        *(say("pay 5"), LOSE, approve("pay")),
        check=holds(STEP, paid(5), STEP, words=READ_ONE),
        requests=2,
        ledger=("pay 5",),
    ),
]
"""A lost socket as the stock transport shows it. Ours hides it: the tests of the npm package are about that."""
