"""A payment, two browser calls and a server call in one step: every mix of verdicts, every order of answers."""

import itertools
from typing import Any

from tests.conformance.acts import HERE_IS, NOON, act, approve, deny, give, refuse, say
from tests.conformance.cases import Case
from tests.conformance.expected import STEP, Part, approved, denied, every, failed, holds, tool
from tests.conformance.gate_expected import FOUND, TOLD, paid, unpaid
from tests.conformance.records import Record

ADDED = tool("add", {"a": 1, "b": 2}, {"sum": 3})
PAY: dict[str, tuple[dict[str, Any], Part]] = {
    "paid": (approve("pay"), paid(5)),
    "not paid": (deny("pay", reason="Too much."), unpaid(5, "Too much.")),
}
WHERE: dict[str, tuple[dict[str, Any], Part]] = {
    "found": (approve("where"), FOUND),
    "lost": (approve("where"), approved(failed("where", {}, "no signal"))),
    "hidden": (deny("where", reason="Private."), denied("where", {}, "Private.")),
}
CLOCK: dict[str, tuple[dict[str, Any], Part]] = {
    "told": (give("clock", NOON), TOLD),
    "stopped": (refuse("clock", "no battery"), failed("clock", {}, "no battery")),
}
ORDERS = list(itertools.permutations(range(3)))


def _mix(pay: str, where: str, clock: str, order: tuple[int, ...]) -> Case:
    chosen = [PAY[pay], WHERE[where], CLOCK[clock]]
    executed = where != "hidden"
    place = {"error": "no signal"} if where == "lost" else {"output": HERE_IS}
    names = [("pay", "where", "clock")[index] for index in order]
    return act(
        f"{pay}, {where}, {clock}: {' '.join(names)}",
        say("pay 5 + where + clock + add 1 2"),
        *(chosen[index][0] for index in order),
        check=every(holds(STEP, *(part for _, part in chosen), ADDED, STEP), _told_all),
        # The browser may execute only after the approval has reached the server, so its output is one more request.
        requests=3 if executed else 2,
        executor={"where": place},
        ledger=("pay 5",) if pay == "paid" else (),
        executions=("where",) if executed else (),
    )


def _told_all(record: Record) -> None:
    """Check that the model got one answer to each call."""
    for name in ("pay", "where", "clock", "add"):
        assert record.page.text.count(f"{name} {{") == 1, record.page.text


CASES = [_mix(*kinds, order) for kinds in itertools.product(PAY, WHERE, CLOCK) for order in ORDERS]
