"""Scenarios on `agents/gated.py`: a call that needs an approval, and the answers to it."""

import itertools
from typing import Any

from tests.conformance.acts import (
    SEND,
    Act,
    act,
    approve,
    deny,
    load,
    say,
    together,
    turn,
)
from tests.conformance.cases import Case
from tests.conformance.expected import (
    ANY,
    STEP,
    Check,
    answers,
    approved,
    asked,
    bare,
    every,
    failed,
    holds,
    text,
    tool,
)
from tests.conformance.gate_expected import (
    FOUND,
    HELLO,
    PAGE,
    READ_ONE,
    TOLD,
    paid,
    reads,
    sealed,
    unpaid,
    void,
)
from tests.conformance.records import Record

ODD = '{"none": null, "list": [1.0, 1e21, -0.0, 1e-7, []], "text": "\\u2028 \\ud83d\\ude00 é", "1": {"": true}}'


def _card(scopes: list[str], **more: Any) -> Check:
    """Return a check that the stream and `pending` have all details of the question."""

    def check(record: Record) -> None:
        (pending,) = record.history["pending"]
        (part,) = [part for part in record.page.answer["parts"] if part["type"] == "data-approval"]
        assert part["id"] == pending["approvalId"]
        assert part["data"] == {"toolCallId": pending["toolCallId"], "scopes": scopes, **more}
        assert pending["kind"] == "approval"
        assert record.page.chunks[-1]["finishReason"] == "tool-calls"

    return check


def _same_pages(record: Record) -> None:
    first, second = record.pages["page"], record.pages["second"]
    assert bare(first.answer) == bare(second.answer)


_WORDS = {True: "approve", False: "deny"}


def _answer(nth: int, yes: bool) -> Act:
    return approve("pay", nth) if yes else deny("pay", nth, reason="No.")


TO_THE_SHOP = (STEP, tool("transfer_to_agent", {"agent_name": "shop"}, ANY))

APPROVALS = [
    act(
        "ask",
        say("pay 5"),
        check=every(answers(STEP, asked("pay", {"amount": 5}), ANY), _card(["once"])),
        left=frozenset({"pay approval-requested"}),
    ),
    act(
        "approved",
        *(say("pay 5"), approve("pay")),
        check=every(answers(STEP, paid(5), ANY, STEP, text(READ_ONE))),
        requests=2,
        ledger=("pay 5",),
    ),
    act(
        "approved, sent by approvals only",
        *(say("pay 5"), approve("pay")),
        check=holds(STEP, paid(5), STEP, words=READ_ONE),
        requests=2,
        predicate="approvals",
        ledger=("pay 5",),
    ),
    act(
        "approved, sent by hand",
        *(say("pay 5"), approve("pay"), SEND),
        check=holds(STEP, paid(5), STEP, words=READ_ONE),
        requests=2,
        predicate="never",
        ledger=("pay 5",),
    ),
    act("denied", say("pay 5"), deny("pay"), check=holds(STEP, unpaid(5), STEP), requests=2),
    act(
        "denied with a reason",
        *(say("pay 5"), deny("pay", reason="Ann is not to be trusted.")),
        check=every(holds(STEP, unpaid(5, "Ann is not to be trusted."), STEP), reads("Ann is not to be trusted.")),
        requests=2,
    ),
    act(
        "small enough",
        say("tip 5"),
        check=holds(STEP, tool("tip", {"amount": 5}, {"tipped": 5}), STEP),
        ledger=("tip 5",),
    ),
    act(
        "too large not to ask",
        *(say("tip 500"), approve("tip")),
        check=holds(STEP, approved(tool("tip", {"amount": 500}, {"tipped": 500})), STEP),
        requests=2,
        ledger=("tip 500",),
    ),
    act(
        "approved, then broken",
        *(say("crash"), approve("crash")),
        check=every(holds(STEP, approved(failed("crash", {})), STEP), reads("crash")),
        requests=2,
        ledger=("crash",),
    ),
    act(
        "a float without a fraction",
        *(say("owe 5.0"), approve("owe")),
        check=holds(STEP, approved(tool("owe", {"amount": 5}, {"result": "owed"})), STEP),
        requests=2,
        ledger=("owe 5",),
    ),
    act(
        "more than JavaScript can count",
        *(say("owe 12345678901234567890"), approve("owe")),
        requests=2,
        ledger=("owe 1.23457e+19",),
    ),
    act(
        "in the next step",
        *(say("pay 5 | pay 7"), approve("pay"), approve("pay", 1)),
        check=holds(STEP, paid(5), STEP, paid(7), STEP, words='pay {"paid": 7}'),
        requests=3,
        ledger=("pay 5", "pay 7"),
    ),
    act(
        "denied, then asked in the next step",
        *(say("pay 5 | pay 7 | add 1 2"), deny("pay"), approve("pay", 1)),
        check=holds(
            *(STEP, unpaid(5), STEP, paid(7), STEP, tool("add", {"a": 1, "b": 2}, {"sum": 3}), STEP),
            words='add {"sum": 3}',
        ),
        requests=3,
        ledger=("pay 7",),
    ),
    act(
        "five steps that ask",
        *(say("pay 1 | pay 2 | pay 3 | pay 4 | pay 5"), *(approve("pay", nth) for nth in range(5))),
        check=holds(*(part for amount in range(1, 6) for part in (STEP, paid(amount))), STEP, words=READ_ONE),
        requests=6,
        ledger=("pay 1", "pay 2", "pay 3", "pay 4", "pay 5"),
    ),
    act(
        "the same call twice, one denied",
        *(say("pay 5 + pay 5"), deny("pay"), approve("pay", 1)),
        check=holds(STEP, unpaid(5), paid(5), STEP),
        requests=2,
        ledger=("pay 5",),
    ),
    act(
        "one payment after the other",
        *(say("pay 5"), approve("pay"), say("pay 6"), deny("pay", 1), say("pay 7"), approve("pay", 2)),
        check=holds(STEP, paid(7), STEP, words='pay {"paid": 7}'),
        requests=6,
        ledger=("pay 5", "pay 7"),
    ),
    act(
        "approved, then the model fails",
        *(say("pay 5 | fail"), approve("pay")),
        check=holds(STEP, paid(5)),
        requests=2,
        error="The agent could not answer",
        ledger=("pay 5",),
    ),
    act(
        "approved in a sub-agent",
        *(say("go cashier"), approve("pay")),
        check=holds(
            *(STEP, tool("transfer_to_agent", {"agent_name": "cashier"}, ANY)),
            *(STEP, paid(8), STEP),
            words='pay {"paid": 8}',
        ),
        requests=2,
        ledger=("pay 8",),
    ),
    act("denied in a sub-agent", say("go cashier"), deny("pay", reason="No."), check=reads("No."), requests=2),
    act(
        "approved in a sequence of agents",
        *(say("go shop"), approve("pay")),
        # ADK goes on with the rest of a sequence only where the sequence is the root.
        check=every(holds(*TO_THE_SHOP, STEP, paid(8), STEP), reads('pay {"paid": 8}')),
        requests=2,
        ledger=("pay 8",),
    ),
    act("a child agent cannot ask", say("child"), check=reads("child")),
    act(
        "odd arguments",
        *(say(f"put {ODD}"), approve("put")),
        check=reads("1e+21, -0.0, 1e-07"),
        requests=2,
        ledger=("put",),
    ),
    act("double click", say("pay 5"), together(approve("pay"), approve("pay")), requests=2, ledger=("pay 5",)),
    act(
        "two buttons at once",
        *(say("pay 5"), together(approve("pay"), deny("pay"))),
        check=holds(STEP, paid(5), STEP),
        requests=2,
        ledger=("pay 5",),
    ),
    Case(
        "the message again while it waits",
        "retry-after",
        {"text": "pay 5"},
        requests={"page": 1, "again": 1},
        left=frozenset({"pay approval-requested"}),
    ),
    act(
        "two tabs",
        say("pay 5"),
        *(load("second"), approve("pay")),
        *(turn("page"), approve("pay")),
        check=_same_pages,
        requests={"page": 2, "second": 1},
        ledger=("pay 5",),
    ),
]

LAST_ONLY = [
    act(
        "last message only: approved",
        *(say("hello"), say("pay 5"), approve("pay")),
        check=holds(STEP, paid(5), STEP, words=READ_ONE),
        requests=3,
        last_only=True,
        ledger=("pay 5",),
    ),
    act(
        "last message only: browser call",
        *(say("clock + where"), approve("where")),
        check=holds(STEP, TOLD, FOUND, STEP),
        requests=3,
        last_only=True,
        executions=("clock", "where"),
    ),
    act(
        "last message only: typed over",
        *(say("pay 5 + clock"), say("hello")),
        check=every(HELLO, sealed(void("pay", {"amount": 5}, approval={"id": ANY}))),
        requests=2,
        executor={},
        last_only=True,
        cut=PAGE,
    ),
]

CASES = [*APPROVALS, *LAST_ONLY]

STREET = [
    act(
        "approved, and the next agent goes on",
        *(say("hi"), approve("pay")),
        check=holds(STEP, paid(8), STEP, words='pay {"paid": 8}We are closed.'),
        requests=2,
        ledger=("pay 8",),
    ),
    act(
        "denied, and the next agent goes on",
        *(say("hi"), deny("pay", reason="No.")),
        check=every(holds(STEP, unpaid(8, "No."), STEP), reads("No.", "We are closed.")),
        requests=2,
    ),
    act(
        "approved in a new page, and the next agent goes on",
        *(say("hi"), load("second"), approve("pay")),
        check=holds(STEP, paid(8), STEP, words='pay {"paid": 8}We are closed.', page="second"),
        requests={"page": 1, "second": 1},
        ledger=("pay 8",),
        cut=PAGE,
    ),
]
"""The same on the root `street`, a sequence of agents."""

SQUARE = [
    act(
        f"side by side: {_WORDS[left]}, {_WORDS[right]}",
        *(say("hi"), _answer(0, left), _answer(1, right)),
        check=every(
            holds(STEP, *(paid(8) if yes else unpaid(8, "No.") for yes in (left, right)), STEP, STEP),
            reads(*(['pay {"paid": 8}'] * (left or right)), *(["No."] * (not left or not right))),
        ),
        requests=2,
        ledger=("pay 8",) * (left + right),
    )
    for left, right in itertools.product((True, False), repeat=2)
]
"""The same on the root `square`, agents side by side that both ask."""
