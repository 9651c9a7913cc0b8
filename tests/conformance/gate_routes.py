"""More scenarios on `agents/gated.py`: rules of the owner, the calls route, pages that send too much or too little."""

from typing import Any

from tests.conformance.acts import AUDIT, EXECUTE, SEND, act, approve, call, deny, event, give, late, load, note, say
from tests.conformance.expected import ANY, STEP, Check, Part, approved, asked, denied, every, holds, says, tool
from tests.conformance.gate_expected import FOUND, PAGE, TOLD, paid, unpaid
from tests.conformance.records import Record

SECOND = {"page": 1, "second": 0}
WENT_ON = event("run-ended", 2)
"""The answer came past the page, so the server goes on by itself: wait for the end of that."""
WAITS = frozenset({"pay approval-requested"})


def _states(*states: str) -> Check:
    """Return a check of the states that the calls route returned."""

    def check(record: Record) -> None:
        assert [answer["body"].get("state") for answer in record.seen["answers"]] == list(states)
        assert {answer["status"] for answer in record.seen["answers"]} == {202}

    return check


def _refused(status: int, words: str) -> Check:
    """The calls route refused the last answer."""

    def check(record: Record) -> None:
        last = record.seen["answers"][-1]
        assert last["status"] == status, last
        assert words in last["body"]["error"]["message"]

    return check


def _cards(**more: Any) -> Check:
    """Return a check of the `data-approval` parts."""

    def check(record: Record) -> None:
        (part,) = [part for part in record.page.answer["parts"] if part["type"] == "data-approval"]
        assert {key: part["data"][key] for key in more} == more

    return check


def _audit(*verdicts: str, **last: Any) -> Check:
    """Return a check of the lines of the audit, and of the last one."""

    def check(record: Record) -> None:
        entries = record.seen["audit"]["entries"]
        assert [entry["verdict"] for entry in entries] == list(verdicts)
        assert {key: entries[-1].get(key) for key in last} == last

    return check


def _forbidden(record: Record) -> None:
    (part,) = [part for part in record.page.answer["parts"] if part["type"] == "tool-forbid"]
    assert part["state"] in ("output-denied", "output-error")
    assert "approval" not in part
    assert "Nobody may do this here." in record.page.text


def _expired(record: Record) -> None:
    """Check that the call is settled with the reason, for the model and for the page."""
    (part,) = [part for part in record.pages["second"].answer["parts"] if part["type"] == "tool-soon"]
    assert part["state"] in ("output-denied", "output-error")
    assert "in time" in record.pages["second"].text


def _too_late(record: Record) -> None:
    """Check that a late answer is refused with the reason."""
    start, error = record.seen["late"]["chunks"]
    assert (start["type"], error["type"]) == ("start", "error")
    assert "in time" in error["errorText"]


def _half_waits(record: Record) -> None:
    """Check that an answered call is not pending any more."""
    (pending,) = record.seen["half"]["pending"]
    assert pending["input"] == {"amount": 6}


def _loop_was_broken(record: Record) -> None:
    assert record.page.requests[-1]["stream"]["chunks"][-1]["type"] == "error"


RULES = [
    act(
        "a rule asks",
        *(say("erase home"), approve("erase")),
        check=every(
            holds(STEP, approved(tool("erase", {"place": "home"}, {"erased": "home"})), STEP),
            _cards(hint="This cannot be undone."),
        ),
        requests=2,
        ledger=("erase home",),
    ),
    act("a rule asks, denied", say("erase home"), deny("erase"), requests=2),
    act(
        "a rule whose condition does not hold",
        say("erase scratch"),
        check=holds(STEP, tool("erase", {"place": "scratch"}, {"erased": "scratch"}), STEP),
        ledger=("erase scratch",),
    ),
    act("a rule forbids", say("forbid"), check=_forbidden),
    act(
        "a rule allows",
        say("trust 5"),
        check=holds(STEP, tool("trust", {"amount": 5}, {"trusted": 5}), STEP),
        ledger=("trust 5",),
    ),
    act(
        "a rule of each kind at once",
        *(say("erase home + forbid + trust 5 + add 1 2"), approve("erase")),
        requests=2,
        ledger=("erase home", "trust 5"),
    ),
    act(
        "expired",
        *(say("soon 5"), event("run-ended", 2), late("soon"), load("second")),
        check=every(_expired, _too_late),
        requests=SECOND,
        cut=PAGE,
    ),
    act(
        "quick enough",
        *(say("later 5"), approve("later")),
        check=every(holds(STEP, approved(tool("later", {"amount": 5}, {"paid": 5})), STEP), _cards(expiresAt=ANY)),
        requests=2,
        ledger=("later 5",),
    ),
    act(
        "a tool that asks by itself",
        *(say("haggle 9"), call("haggle", approved=True, payload={"granted": 4}), WENT_ON, load("second")),
        check=every(
            holds(STEP, approved(tool("haggle", {"amount": 9}, {"paid": 4})), STEP, page="second"),
            _cards(hint="How much of 9?", payload={"granted": 0}),
        ),
        requests=SECOND,
        ledger=("haggle 4",),
        cut=PAGE,
    ),
    act(
        "a tool that asks by itself, denied",
        *(say("haggle 9"), deny("haggle")),
        check=holds(STEP, denied("haggle", {"amount": 9}), STEP),
        requests=2,
    ),
]


def _route(name: str, *acts: dict[str, Any], parts: tuple[Part, ...], **expected: Any) -> Any:
    """Return a case in which a call of one page is answered by the calls route, and another page reads the rest."""
    checks = [holds(*parts, page="second"), *expected.pop("checks", ())]
    return act(name, *acts, WENT_ON, load("second"), check=every(*checks), requests=SECOND, cut=PAGE, **expected)


ROUTE = [
    _route(
        "route: approved",
        *(say("pay 5"), call("pay", approved=True), WENT_ON, AUDIT),
        parts=(STEP, paid(5), STEP),
        checks=[_states("answered"), _audit("asked", "approved", "approved", outcome="executed")],
        ledger=("pay 5",),
    ),
    _route(
        "route: denied",
        *(say("pay 5"), call("pay", approved=False, reason="Not today.")),
        parts=(STEP, unpaid(5, "Not today."), STEP),
    ),
    _route(
        "route: edited",
        *(say("pay 5"), call("pay", approved=True, args={"amount": 3}), WENT_ON, AUDIT),
        parts=(STEP, approved(tool("pay", {"amount": 5}, {"paid": 3, "edited_arguments": {"amount": 3}})), STEP),
        checks=[_audit("asked", "approved", "approved", input={"amount": 5}, edited={"amount": 3})],
        ledger=("pay 3",),
    ),
    _route(
        "route: browser call",
        *(say("clock"), call("clock", output={"time": "noon"})),
        parts=(STEP, TOLD, STEP),
        executor={},
    ),
    _route(
        "route: twice",
        *(say("pay 5"), call("pay", approved=True), call("pay", approved=False)),
        parts=(STEP, paid(5), STEP),
        checks=[_refused(409, "already answered")],
        ledger=("pay 5",),
    ),
    act(
        "route: wrong edit",
        *(say("pay 5"), call("pay", approved=True, args={"amount": "much"})),
        check=every(holds(STEP, asked("pay", {"amount": 5})), _refused(422, "do not fit")),
        left=WAITS,
    ),
    act(
        "route: wrong output",
        *(say("where"), call("where", approved=True), call("where", output={"latitude": "north"})),
        check=_refused(422, "not what where gives"),
        executor={},
        left=frozenset({"where input-available", "where approval-requested"}),
        cut=PAGE,
    ),
    act(
        "route: one of two, the page the other",
        *(say("pay 5 + pay 6"), call("pay", approved=True), approve("pay", 1), SEND),
        check=every(says('pay {"paid": 5}; pay {"paid": 6}'), _states("answered")),
        requests=2,
        predicate="never",
        ledger=("pay 5", "pay 6"),
    ),
    act(
        "route: approved, the browser does it",
        *(say("where"), call("where", approved=True), event("call-settled"), load("second"), EXECUTE),
        check=every(holds(STEP, FOUND, STEP, page="second"), _states("offered")),
        requests={"page": 1, "second": 1},
        executions=("where",),
        cut=PAGE,
    ),
    act(
        "route: for this chat",
        *(say("lend 5"), call("lend", approved=True, scope="chat"), WENT_ON, load("second"), say("lend 6")),
        check=holds(STEP, tool("lend", {"amount": 6}, {"lent": 6}), STEP, page="second"),
        requests={"page": 1, "second": 1},
        ledger=("lend 5", "lend 6"),
        cut=PAGE,
        behind=PAGE,
    ),
    _route(
        "route: for this chat, and another one waits",
        *(say("lend 5 + lend 6"), call("lend", approved=True, scope="chat")),
        parts=(
            STEP,
            *(approved(tool("lend", {"amount": amount}, {"lent": amount})) for amount in (5, 6)),
            STEP,
        ),
        ledger=("lend 5", "lend 6"),
    ),
    act(
        "route: no standing approval",
        *(say("pay 5"), call("pay", approved=True, scope="always")),
        check=_refused(422, "only once at a time"),
        left=WAITS,
    ),
]

_BOTH = {True: "approve", False: "deny"}


def _pair(first: bool, second: bool) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    verdicts = ((5, first), (6, second))
    parts = tuple(paid(amount) if yes else unpaid(amount) for amount, yes in verdicts)
    return (STEP, *parts, STEP), tuple(f"pay {amount}" for amount, yes in verdicts if yes)


def _answer(nth: int, yes: bool) -> dict[str, Any]:
    return approve("pay", nth) if yes else deny("pay", nth)


def _pairs() -> list[Any]:
    """Two payments, every pair of verdicts: sent together, one by one, and by the route."""
    cases: list[Any] = []
    for first, second in ((True, True), (True, False), (False, True), (False, False)):
        parts, ledger = _pair(first, second)
        name = f"{_BOTH[first]}, {_BOTH[second]}"
        ask, one, two = say("pay 5 + pay 6"), _answer(0, first), _answer(1, second)
        cases += [
            act(f"two: {name}", ask, one, two, check=holds(*parts), requests=2, ledger=ledger),
            act(f"two: {name}, backwards", ask, two, one, check=holds(*parts), requests=2, ledger=ledger),
            act(
                f"two: {name}, one by one",
                *(ask, one, two),
                check=holds(*parts),
                requests=3,
                predicate="one by one",
                ledger=ledger,
            ),
            _route(
                f"two: {name}, by the route",
                *(ask, call("pay", 0, approved=first), call("pay", 1, approved=second)),
                parts=parts,
                ledger=ledger,
            ),
        ]
    return cases


def _halves() -> list[Any]:
    """Return the cases of a page that sends only some of its answers; none is lost or executed too early."""
    cases: list[Any] = []
    for yes in (True, False):
        one = _answer(0, yes)
        part = paid(5) if yes else unpaid(5)
        paid_five = ("pay 5",) if yes else ()
        cases += [
            act(
                f"incomplete: {_BOTH[yes]}",
                *(say("pay 5 + pay 6"), one),
                left=WAITS | {"pay approval-responded"},
                cut=PAGE,
            ),
            act(
                f"incomplete, sent by hand: {_BOTH[yes]}",
                *(say("pay 5 + pay 6"), one, SEND, note("half"), load("second"), approve("pay", 1), SEND),
                check=every(_half_waits, holds(STEP, part, paid(6), STEP, page="second")),
                requests={"page": 2, "second": 1},
                predicate="never",
                ledger=(*paid_five, "pay 6"),
                cut=PAGE,
            ),
            act(
                f"mixed: {_BOTH[yes]}",
                *(say("pay 5 + clock"), one),
                check=holds(STEP, part, TOLD, STEP),
                requests=2,
                ledger=paid_five,
                executions=("clock",),
            ),
            act(
                f"mixed, output last: {_BOTH[yes]}",
                *(say("clock + pay 5"), one, give("clock", {"time": "noon"})),
                check=holds(STEP, TOLD, part, STEP),
                requests=2,
                executor={},
                ledger=paid_five,
            ),
            act(
                f"mixed, output first, one by one: {_BOTH[yes]}",
                *(say("clock + pay 5"), one),
                check=holds(STEP, TOLD, part, STEP),
                requests=3,
                predicate="one by one",
                ledger=paid_five,
                executions=("clock",),
            ),
        ]
    return cases


LOOPS = [
    act(
        "always sends again",
        say("hello"),
        check=every(says("Hello to you."), _loop_was_broken),
        requests=2,
        predicate="always",
        error="No call is waiting for this answer.",
    ),
    act(
        "always sends again while it waits",
        say("pay 5"),
        check=_loop_was_broken,
        requests=2,
        predicate="always",
        error="No call is waiting for this answer.",
        left=WAITS,
    ),
    act(
        "sends half an answer again and again",
        *(say("pay 5 + pay 6"), approve("pay"), *[SEND] * 5),
        check=_loop_was_broken,
        requests=6,
        predicate="never",
        error="again and again",
        left=WAITS | {"pay approval-responded"},
        cut=PAGE,
    ),
    act(
        "sends an answer again that was given",
        *(say("pay 5"), approve("pay"), SEND, SEND),
        check=_loop_was_broken,
        requests=3,
        predicate="never",
        error="No call is waiting for this answer.",
        ledger=("pay 5",),
    ),
]

CASES = [*RULES, *ROUTE, *_pairs(), *_halves(), *LOOPS]
