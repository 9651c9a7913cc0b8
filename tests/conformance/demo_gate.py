"""Scenarios on the demo agent's tools that wait: payments, and what only the browser can do."""

from typing import Any

from tests.conformance.acts import act, approve, deny, say
from tests.conformance.expected import ANY, STEP, Check, Part, approved, denied, every, failed, holds, tool
from tests.conformance.records import Record

LOCATION = {"latitude": 35.5, "longitude": 139.5, "accuracy": 10}
TIME = {"timezone": "Asia/Tokyo", "local_time": "2026-01-02T12:34:00+09:00"}
PLAYING = {"success": True, "track": 1}
EXECUTOR: dict[str, Any] = {
    "get_location": {"output": LOCATION},
    "get_timezone": {"output": TIME},
    "change_bgm": {"output": PLAYING},
}
FOUND = approved(tool("get_location", {}, LOCATION))
TOLD = tool("get_timezone", {}, TIME)
PLAYED = approved(tool("change_bgm", {"track": 1}, PLAYING))


def _paid(amount: int, recipient: str) -> Part:
    output = {"success": True, "amount": amount, "recipient": recipient, "currency": "USD", "transaction_id": ANY}
    return approved(tool("process_payment", {"amount": amount, "recipient": recipient}, output))


def _unpaid(amount: int, recipient: str, reason: str | None = None) -> Part:
    return denied("process_payment", {"amount": amount, "recipient": recipient}, reason)


def _says(*words: str) -> Check:
    def check(record: Record) -> None:
        for word in words:
            assert word in record.page.text

    return check


PAY = "process_payment"

CASES = [
    act(
        "pay",
        *(say("pay 50 to Hanako"), approve(PAY)),
        check=every(holds(STEP, _paid(50, "Hanako"), STEP), _says("50", "Hanako")),
        requests=2,
    ),
    act("pay in Japanese", say("花子に50ドル送金"), approve(PAY), check=_says("Hanakoさんに50 USD"), requests=2),
    act(
        "pay, denied with a reason",
        *(say("pay 50 to Hanako"), deny(PAY, reason="She paid already")),
        check=every(holds(STEP, _unpaid(50, "Hanako", "She paid already"), STEP), _says("refused", "She paid already")),
        requests=2,
    ),
    act(
        "pay two",
        *(say("pay 10 to Ann and 20 to Bob"), approve(PAY), deny(PAY, 1)),
        check=every(holds(STEP, _paid(10, "Ann"), _unpaid(20, "Bob"), STEP), _says("Ann", "refused")),
        requests=2,
    ),
    act(
        "pay one after the other",
        *(say("pay 10 to Ann then pay 20 to Bob"), approve(PAY), approve(PAY, 1)),
        check=holds(STEP, _paid(10, "Ann"), STEP, _paid(20, "Bob"), STEP),
        requests=3,
    ),
    act(
        "where",
        *(say("where am I"), approve("get_location")),
        check=every(holds(STEP, FOUND, STEP), _says("35.5", "139.5")),
        requests=3,
        executor=EXECUTOR,
        executions=("get_location",),
    ),
    act(
        "where in Japanese",
        *(say("今どこ"), approve("get_location")),
        check=_says("35.5", "139.5"),
        requests=3,
        executor=EXECUTOR,
        executions=("get_location",),
    ),
    act(
        "where, denied",
        *(say("where am I"), deny("get_location")),
        check=every(holds(STEP, denied("get_location", {}), STEP), _says("refused")),
        requests=2,
        executor=EXECUTOR,
    ),
    act(
        "where, refused by the browser",
        *(say("where am I"), approve("get_location")),
        check=every(holds(STEP, approved(failed("get_location", {}, "User denied Geolocation")), STEP), _says("Sorry")),
        requests=3,
        executor={"get_location": {"error": "User denied Geolocation"}},
        executions=("get_location",),
    ),
    act(
        "time",
        say("what time is it"),
        check=every(holds(STEP, TOLD, STEP), _says("12:34")),
        requests=2,
        executor=EXECUTOR,
        executions=("get_timezone",),
    ),
    act(
        "time in Japanese",
        say("何時"),
        check=_says("12:34"),
        requests=2,
        executor=EXECUTOR,
        executions=("get_timezone",),
    ),
    act(
        "music",
        *(say("play track 1"), approve("change_bgm")),
        check=every(holds(STEP, PLAYED, STEP), _says("1")),
        requests=3,
        executor=EXECUTOR,
        executions=("change_bgm",),
    ),
    act(
        "music in Japanese",
        *(say("BGMを1に"), approve("change_bgm")),
        check=holds(STEP, PLAYED, STEP),
        requests=3,
        executor=EXECUTOR,
        executions=("change_bgm",),
    ),
    act(
        "three kinds at once",
        *(say("pay 5 to Eve, what time is it and weather in Paris"), approve(PAY)),
        check=every(
            holds(STEP, _paid(5, "Eve"), TOLD, tool("get_weather", {"location": "Paris"}, ANY), STEP),
            _says("Eve", "12:34", "Paris"),
        ),
        requests=2,
        executor=EXECUTOR,
        executions=("get_timezone",),
    ),
]
