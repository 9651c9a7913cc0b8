"""The scenarios of live clients: those of the gate that apply to live, and those that only live has."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.conformance import gate_browser, gate_cases, gate_mixes, gate_overtaken, gate_routes
from tests.conformance.acts import (
    BEGUN,
    HANG_UP,
    INTERRUPT,
    LOSE,
    PRESS_STOP,
    RELEASE,
    REST,
    act,
    approve,
    attached,
    becomes,
    begin,
    call,
    deny,
    event,
    load,
    murmur,
    now,
    say,
    see,
    speak,
    turn,
    until_frame,
)
from tests.conformance.cases import Case
from tests.conformance.demo_cases import IMAGE, SEEN
from tests.conformance.expected import (
    ANY,
    STEP,
    Check,
    answers,
    approved,
    asked,
    every,
    holds,
    shape,
    speaks,
    text,
    tool,
    verdict,
)
from tests.conformance.gate_expected import HELLO, PAGE, READ_ONE, paid, reads, sealed, spoken, unpaid, void
from tests.conformance.records import Record, parts_of, text_of

GATE = [
    *gate_cases.CASES,
    *gate_browser.CASES,
    *gate_overtaken.CASES,
    *gate_routes.CASES,
]

NOT_IN_LIVE = {
    "regenerated after a payment": "Nothing is regenerated in live.",
    "regenerated in the approved tool": "Nothing is regenerated in live.",
    "regenerated while it waits": "Nothing is regenerated in live.",
    "edited while it waits": "Nothing is edited in live.",
    "typed over a verdict that was not executed yet": "What is approved in live is executed at once.",
    "stopped when it is half answered": "What is approved in live is executed at once.",
    "sends half an answer again and again": "What is approved in live is executed at once.",
    "a child agent cannot ask": "In live it can.",
    "ask": "In live a card has a deadline: `LIVE_CARDS`.",
    "browser call that nobody answers": "In live a card has a deadline: `LIVE_CARDS`.",
}
"""Scenarios of the gate that are none in live, and why."""


def _has_a_deadline(record: Record) -> None:
    (pending,) = record.history["pending"]
    assert pending["expiresAt"]
    assert record.page.chunks[-1]["finishReason"] == "tool-calls"


LIVE_CARDS = [
    act(
        "live: ask",
        say("pay 5"),
        check=every(answers(STEP, asked("pay", {"amount": 5}), ANY), _has_a_deadline),
        left=frozenset({"pay approval-requested"}),
    ),
    act(
        "live: a browser call that nobody answers",
        say("clock"),
        check=_has_a_deadline,
        executor={},
        left=frozenset({"clock input-available"}),
    ),
]

AFTER_A_WORD = act(
    "live: asked after a word",
    *(say("hello + pay 5"), approve("pay")),
    check=answers(STEP, text("Hello to you."), paid(5), ANY, STEP, text(READ_ONE)),
    requests=2,
    ledger=("pay 5",),
)

ANSWERING = {"say", "approve", "deny", "give", "together", "audit"}
"""What a person does in one page. In ours a verdict leaves at once: nothing is sent for it."""


SEED = 6


def mixes(hand: int, hands: int) -> list[Case]:
    """Return the share of the mixes of one of so many clients: together they have all."""
    return random.Random(SEED).sample(gate_mixes.CASES, len(gate_mixes.CASES))[hand::hands]


def column(mixes: Sequence[Case], *, stock: bool) -> list[Case]:
    """Return all cases of a client, with these mixes."""
    gate = [*GATE, *mixes]
    return [*(_stock(gate) if stock else _ours(gate)), *_switches(stock=stock)]


def _stock(gate: Sequence[Case]) -> list[Case]:
    """Change a case for a stock client on a live socket: its response ends where all calls are pending."""
    return [*(_one_run(case) for case in gate if case.name not in NOT_IN_LIVE), *LIVE_CARDS, AFTER_A_WORD]


def _one_run(case: Case) -> Case:
    """Check that a live turn is one run, which does not end at a pending call."""
    if case.drive != "act":
        return case
    acts = [{**one, "times": 1} if one.get("type") == "run-ended" else one for one in case.args["acts"]]
    return replace(case, args={**case.args, "acts": acts})


def _ours(gate: Sequence[Case]) -> list[Case]:
    """Change a case for our transport, if it has one page and only answers of a person."""
    return [*(held(case) for case in gate if _is_plain(case)), held(AFTER_A_WORD), *TALKS]


def _is_plain(case: Case) -> bool:
    if case.drive != "act" or case.name in {*NOT_IN_LIVE, *LEFT_TO_STOCK} or case.left:
        return False
    doing = {one["do"] for one in case.args["acts"]} - {"send"}
    by_hand = any(one.get("begin") for one in case.args["acts"])
    return doing <= ANSWERING and not by_hand and case.args["predicate"] != "one by one"


LEFT_TO_STOCK = {
    "approved and answered in one send": "Ours sends one answer at a time.",
    "approved and refused in one send": "Ours sends one answer at a time.",
    "always sends again": "A loop of what is sent automatically; in live nothing has to be.",
    "always sends again while it waits": "A loop of what is sent automatically; in live nothing has to be.",
    "sends an answer again that was given": "A loop of what is sent automatically; in live nothing has to be.",
}


def held(case: Case) -> Case:
    """Change a case for live: the response stays open while a call is pending, so a message is one request."""
    acts = [one for one in case.args["acts"] if one["do"] != "send"]
    return replace(case, args={**case.args, "acts": acts}, requests={"page": sum(one["do"] == "say" for one in acts)})


def _received(kind: str, times: int) -> Check:
    def check(record: Record) -> None:
        found = [frame for frame in record.page.live_frames if frame["type"] == kind]
        assert len(found) == times, record.page.live_frames

    return check


def _was_cut(times: int = 1, at: int = 0) -> Check:
    """Check that the request was resumed on exactly one other socket."""

    def check(record: Record) -> None:
        assert record.page.requests[at]["cuts"] == times

    return check


def _same(*pages: str) -> Check:
    def check(record: Record) -> None:
        histories = [record.pages[name].messages for name in pages]
        assert all(messages == histories[0] for messages in histories)

    return check


def _user_texts(*texts: str) -> Check:
    """Return a check of the user messages, typed or spoken, in the page and in history."""

    def check(record: Record) -> None:
        users = [message for message in record.page.messages if message["role"] == "user"]
        assert [text_of(message) for message in users] == list(texts)

    return check


def _sounds(record: Record) -> None:
    assert record.page.sounds > 0


def _is_silent(record: Record) -> None:
    assert not parts_of(record.page.answer, "data-pcm")


def _child_paid(record: Record) -> None:
    """Check that the child agent paid; the ledger cannot show it, because a child has a session of its own."""
    (part,) = [part for part in shape(record.page.answer) if part["type"] == "tool-pay"]
    assert part == paid(8)


def _while_it_waits(name: str, done: str, how: str = "") -> Iterator[Case]:
    """Return the cases in which the model goes on speaking while a call is pending."""
    called = approved(tool(name, {"amount": 5}, {done: 5}))
    read = f'{name} {{"{done}": 5}}'
    begun = (begin(say(f"{name} 5 + hold $CHAT")), see("One "))
    yield act(
        f"live: the model speaks while it waits{how}",
        *(*begun, becomes(name, "approval-requested"), RELEASE, see("two."), approve(name), REST),
        check=holds(STEP, called, STEP, words=f"One two.{read}"),
        ledger=(f"{name} 5",),
    )
    yield act(
        f"live: interrupted while it waits{how}",
        *(*begun, INTERRUPT, until_frame("interrupted"), approve(name), REST),
        check=every(holds(STEP, called, STEP, words=f"One {read}"), _received("interrupted", 1)),
        ledger=(f"{name} 5",),
    )


TALKS = [
    act(
        "live: sound and text",
        say("hello"),
        check=every(HELLO, _sounds, _is_silent),
    ),
    *_while_it_waits("pay", "paid"),
    *_while_it_waits("order", "ordered", ", in the background"),
    act(
        "live: interrupted at the card",
        *(say("pay 5"), INTERRUPT, approve("pay")),
        check=every(holds(STEP, paid(5), STEP), speaks),
        ledger=("pay 5",),
    ),
    act(
        "live: spoken to at the card",
        *(say("pay 5"), murmur("hello"), approve("pay")),
        check=every(holds(STEP, paid(5), STEP), speaks, _user_texts("pay 5hello")),
        ledger=("pay 5",),
    ),
    act(
        "live: interrupted, then asked again",
        *(begin(say("hold $CHAT")), see("One "), INTERRUPT, REST, say("pay 5"), approve("pay")),
        check=every(holds(STEP, paid(5), STEP, words=READ_ONE), _received("interrupted", 1)),
        requests=2,
        ledger=("pay 5",),
    ),
    act(
        "live: the second one first",
        *(say("pay 5 + pay 6"), now(approve("pay", 1)), becomes("pay", "output-available", 1)),
        *(becomes("pay", "approval-requested"), deny("pay", reason="No.")),
        check=holds(STEP, unpaid(5, "No."), paid(6), STEP),
        ledger=("pay 6",),
    ),
    act(
        "live: lost while it waits",
        *(say("pay 5"), LOSE, approve("pay")),
        check=every(holds(STEP, paid(5), STEP, words=READ_ONE), _was_cut()),
        ledger=("pay 5",),
    ),
    act(
        "live: lost in text",
        *(begin(say("hold $CHAT")), see("One "), LOSE, RELEASE, REST),
        check=every(spoken("page", "One two."), _was_cut()),
    ),
    act(
        "live: lost in the approved tool",
        *(say("slow 5"), now(approve("slow")), BEGUN, LOSE, RELEASE, REST),
        check=every(spoken("page", 'slow {"paid": 5}'), _was_cut()),
        ledger=("slow 5",),
    ),
    act(
        "live: lost while the browser is to act",
        *(say("clock"), LOSE, {"do": "give", "tool": "clock", "nth": 0, "output": {"time": "noon"}}),
        check=every(holds(STEP, tool("clock", {}, {"time": "noon"}), STEP), _was_cut()),
        executor={},
    ),
    act(
        "live: spoken",
        *(speak("hello"), speak("add 1 2")),
        check=every(_user_texts("hello", "add 1 2"), holds(STEP, tool("add", {"a": 1, "b": 2}, {"sum": 3}), STEP)),
        requests=2,
    ),
    act(
        "live: spoken and typed in one chat, and asked",
        *(speak("pay 5"), approve("pay"), say("hello"), speak("pay 6"), deny("pay", 1)),
        check=every(_user_texts("pay 5", "hello", "pay 6"), holds(STEP, unpaid(6), STEP)),
        requests=3,
        ledger=("pay 5",),
    ),
    act(
        "live: the stop button in text",
        *(begin(say("hold $CHAT")), see("One "), PRESS_STOP, REST, say("hello")),
        check=HELLO,
        requests=2,
        cut=PAGE,
    ),
    act(
        "live: the stop button while it waits",
        *(say("pay 5"), now(PRESS_STOP), event("run-ended"), say("hello")),
        check=every(HELLO, sealed(void("pay", {"amount": 5}, approval={"id": ANY}))),
        requests=2,
        cut=PAGE,
    ),
    act(
        "live: the stop button in the approved tool",
        *(say("slow 5"), now(approve("slow")), BEGUN, PRESS_STOP, event("run-ended"), say("hello")),
        check=every(HELLO, sealed(void("slow", {"amount": 5}, approval=verdict(True)))),
        requests=2,
        ledger=("slow 5",),
        cut=PAGE,
    ),
    act(
        "live: typed over in the text",
        *(begin(say("hold $CHAT")), see("One "), say("hello"), REST),
        check=HELLO,
        requests=2,
    ),
    act(
        "live: typed over in the approved tool",
        *(say("slow 5"), now(approve("slow")), BEGUN, say("hello")),
        check=every(HELLO, sealed(void("slow", {"amount": 5}, approval=verdict(True)))),
        requests=2,
        ledger=("slow 5",),
    ),
    act(
        "live: a child agent asks",
        *(begin(say("child")), approve("pay"), REST),
        check=every(reads("child"), _child_paid),
    ),
    act(
        "live: nobody answers",
        begin(say("soon 5")),
        REST,
        check=every(holds(STEP, void("soon", {"amount": 5}, approval={"id": ANY}), STEP), reads("in time")),
    ),
    act(
        "live: approved elsewhere",
        *(begin(say("pay 5")), call("pay", approved=True), REST),
        check=holds(STEP, paid(5), STEP, words=READ_ONE),
        ledger=("pay 5",),
    ),
    act(
        "live: denied elsewhere",
        *(begin(say("pay 5")), call("pay", approved=False, reason="No."), REST),
        check=holds(STEP, {**unpaid(5, "No."), "approval": ANY}, STEP),
    ),
    act(
        "live: edited elsewhere",
        *(begin(say("pay 5")), call("pay", approved=True, args={"amount": 3}), REST),
        check=holds(STEP, approved(tool("pay", {"amount": 5}, {"paid": 3, "edited_arguments": {"amount": 3}})), STEP),
        ledger=("pay 3",),
    ),
    act(
        "live: a tool that asks by itself",
        *(begin(say("haggle 9")), call("haggle", approved=True, payload={"granted": 4}), REST),
        check=holds(STEP, approved(tool("haggle", {"amount": 9}, {"paid": 4})), STEP),
        ledger=("haggle 4",),
    ),
    act(
        "live: one elsewhere, the other here",
        *(begin(say("pay 5 + pay 6")), call("pay", approved=True), approve("pay", 1), REST),
        check=holds(STEP, paid(5), paid(6), STEP),
        ledger=("pay 5", "pay 6"),
    ),
    act(
        "live: two pages, approved in the second",
        *(say("pay 5"), load("second"), approve("pay")),
        # The first page learns of the verdict from the server, when it does.
        *(turn("page"), becomes("pay", "output-available"), REST),
        check=every(holds(STEP, paid(5), STEP, words=READ_ONE), _same("page", "second")),
        requests={"page": 1, "second": 2},
        ledger=("pay 5",),
    ),
    act(
        "live: two pages, approved in the first",
        *(say("pay 5"), load("second"), turn("page"), approve("pay")),
        # The server begins the turn there, when it does.
        *(turn("second"), becomes("pay", "output-available"), REST),
        check=every(holds(STEP, paid(5), STEP, words=READ_ONE), _same("page", "second")),
        requests={"page": 1, "second": 2},
        ledger=("pay 5",),
    ),
]
"""What only our transport can do."""


def _switches(*, stock: bool) -> Iterator[Case]:
    """Return the cases of a chat that changes its mode, with one history."""
    # A page of ours that is loaded asks what runs.
    asks, joins = (1, 0) if stock else (0, 1)
    for way in ("http", "socket"):
        yield act(
            f"switch: asked live, approved over {way}",
            *(say("pay 5"), HANG_UP, load("second", over=way), approve("pay")),
            cut=PAGE,
            check=holds(STEP, paid(5), STEP, words=READ_ONE, page="second"),
            requests={"page": 1, "second": 1},
            ledger=("pay 5",),
        )
        yield act(
            f"switch: asked over {way}, approved live",
            *(load("page", over=way), say("pay 5"), HANG_UP, load("second"), approve("pay")),
            cut=PAGE,
            check=holds(STEP, paid(5), STEP, words=READ_ONE, page="second"),
            requests={"page": 1, "second": 1 + joins},
            ledger=("pay 5",),
        )
        yield act(
            f"switch: asked over {way}, denied live, then paid",
            *(load("page", over=way), say("pay 5"), HANG_UP, load("second"), deny("pay", reason="No.")),
            *(say("pay 6"), approve("pay", 1)),
            cut=PAGE,
            check=holds(STEP, paid(6), STEP, words='pay {"paid": 6}', page="second"),
            requests={"page": 1, "second": 2 + asks + joins},
            ledger=("pay 6",),
            behind=PAGE,
        )
    yield act(
        "switch: all the ways round",
        *(load("one", over="http"), say("add 1 2"), HANG_UP),
        *(load("two", over="socket"), say("add 3 4"), HANG_UP),
        *(load("three"), say("add 5 6"), HANG_UP),
        *(load("page", over="http"), say("add 7 8")),
        check=holds(STEP, tool("add", {"a": 7, "b": 8}, {"sum": 15}), STEP),
        requests={"one": 1, "two": 1, "three": 1 + joins, "page": 1},
        behind=frozenset({"one", "two", "three"}),
    )


def _draws(record: Record) -> None:
    (picture,) = parts_of(record.page.answer, "file")
    assert picture["mediaType"] == "image/png"


PICTURES = [
    act("picture in", attached("what is this?", IMAGE), check=spoken("page", SEEN)),
    act("picture out", say("draw a cat"), check=_draws),
    act("weather", say("weather in Tokyo"), check=reads("Tokyo")),
]
"""On the demo agent."""
