"""Expected outcomes of gated calls, shared by the scenarios on `agents/gated.py`."""

from typing import Any

from tests.conformance.acts import (
    HERE_IS,
    NOON,
)
from tests.conformance.expected import (
    STEP,
    Check,
    Part,
    approved,
    bare,
    denied,
    failed,
    says,
    tool,
)
from tests.conformance.records import Record

PAGE = frozenset({"page"})
READ_ONE = 'pay {"paid": 5}'
READ_WHERE = 'where {"latitude": 35.5, "longitude": 139.5}'
READ_CLOCK = 'clock {"time": "noon"}'
FOUND = approved(tool("where", {}, HERE_IS))
TOLD = tool("clock", {}, NOON)
HELLO = says("Hello to you.")


def paid(amount: int) -> Part:
    """A payment that was approved and made."""
    return approved(tool("pay", {"amount": amount}, {"paid": amount}))


def unpaid(amount: int, reason: str | None = None) -> Part:
    """A payment that was denied."""
    return denied("pay", {"amount": amount}, reason)


def reads(*words: str) -> Check:
    """Return a check that the model got this result, which it repeats."""

    def check(record: Record) -> None:
        for word in words:
            assert word in record.page.text

    return check


def sealed(*parts: Part, at: int = 1) -> Check:
    """Return a check that history has sealed the call, as a stock page shows it after a reload."""

    def check(record: Record) -> None:
        assert bare(record.history["messages"][at])[: len(parts) + 1] == [STEP, *parts]

    return check


def void(name: str, arguments: Any, **more: Any) -> Part:
    """A call that was sealed."""
    return {**failed(name, arguments), **more}


def spoken(page: str, words: str) -> Check:
    """The visible text of a page's last answer is this."""

    def check(record: Record) -> None:
        assert record.pages[page].text == words

    return check
