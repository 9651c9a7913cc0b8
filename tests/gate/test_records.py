"""The table of states: every row of it, and no other move."""

from itertools import product
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from adkwire.gate import records
from adkwire.gate.records import NOT_STARTED, OPEN, Answer, CallRecord, State, UncheckedAnswer, hash_args
from tests.gate.records import asked, asked_of_browser, offered

MOVES = {
    (State.ASKED, State.OFFERED),
    (State.ASKED, State.ANSWERED),
    (State.ASKED, State.VOID),
    (State.OFFERED, State.ANSWERED),
    (State.OFFERED, State.VOID),
    (State.ANSWERED, State.EXECUTING),
    (State.ANSWERED, State.DONE),
    (State.ANSWERED, State.VOID),
    (State.ANSWERED, State.ASKED),
    (State.ANSWERED, State.UNKNOWN),
    (State.EXECUTING, State.DONE),
    (State.EXECUTING, State.UNKNOWN),
    (State.UNKNOWN, State.ANSWERED),
}
NO_MOVES = {(before, after) for before, after in product(State, State) if before is not after} - MOVES
YES = Answer(actor="ann", at=1.0, approved=True)
NO = Answer(actor="ann", at=1.0, approved=False)


def in_state(state: State, **more: Any) -> CallRecord:
    return msgspec.structs.replace(asked(), state=state, **more)


def rows_of_the_docs() -> set[tuple[State, State]]:
    """The moves that the table in the module's docstring names."""
    rows = [line.split("|") for line in (records.__doc__ or "").splitlines() if line.startswith("| ")]
    found: set[tuple[State, State]] = set()
    for _, before, _, after, _ in rows[1:]:
        if before.strip() != "(none)":
            states = [one.strip() for one in before.split(",") if one.strip() != "retried"]
            found |= {(State[one], State[after.strip()]) for one in states}
    return found


@pytest.mark.parametrize(("before", "after"), sorted(MOVES))
def test_a_move_of_the_table(before: State, after: State) -> None:
    moved = in_state(before).moved(after, outcome="why")
    assert (moved.state, moved.outcome) == (after, "why")


@pytest.mark.parametrize(("before", "after"), sorted(NO_MOVES))
def test_no_other_move_exists(before: State, after: State) -> None:
    with pytest.raises(ValueError, match=f"a call that is {before} cannot become {after}"):
        in_state(before).moved(after)


def test_the_written_table_names_every_move_and_no_other() -> None:
    assert rows_of_the_docs() == MOVES


def test_what_is_over_stays_over() -> None:
    assert not {after for before, after in MOVES if before in (State.DONE, State.VOID)}


def test_only_the_claim_leads_to_executing() -> None:
    assert {before for before, after in MOVES if after is State.EXECUTING} == {State.ANSWERED}


def test_who_has_to_act_and_what_can_be_taken_back() -> None:
    assert {State.ASKED, State.OFFERED} == OPEN
    assert {before for before, after in MOVES if after is State.VOID} == NOT_STARTED


@pytest.mark.parametrize("state", State)
def test_only_an_approved_call_of_the_server_executes_and_only_when_answered(state: State) -> None:
    assert in_state(state, answer=YES).is_claimable is (state is State.ANSWERED)
    assert not in_state(state, answer=NO).is_claimable
    assert not in_state(state, answer=None).is_claimable
    assert not in_state(state, answer=Answer(actor="clock", at=1.0, expired=True)).is_claimable
    assert not in_state(state, answer=YES, browser=True).is_claimable


@pytest.mark.parametrize(
    ("grant", "scopes"),
    [("tool", ("once", "chat", "always")), ("same-arguments", ("once", "chat", "always")), ("never", ("once",))],
)
def test_how_far_an_approval_may_reach(grant: str, scopes: tuple[str, ...]) -> None:
    assert asked(grant=grant).scopes == scopes


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (YES, "approved"),
        (NO, "denied"),
        (Answer(actor="clock", at=1.0, expired=True), "expired"),
        (Answer(actor="clock", at=1.0, expired=True, approved=True), "expired"),
        (Answer(actor="ann", at=1.0, output=None), "answered"),
        (Answer(actor="ann", at=1.0, approved=True, output={"x": 1}), "answered"),
        (Answer(actor="ann", at=1.0, error="no"), "answered"),
    ],
)
def test_the_verdict_in_one_word(answer: Answer, verdict: str) -> None:
    assert answer.verdict == verdict


def test_null_is_an_output_and_nothing_is_none() -> None:
    assert UncheckedAnswer(output=None).has_output
    assert UncheckedAnswer(error="").has_output
    assert not UncheckedAnswer(approved=True).has_output
    assert not YES.has_output


@pytest.mark.parametrize(
    "call",
    [
        asked(),
        offered(),
        asked_of_browser(hint="Sure?", payload={"most": 3}, output={"type": "null"}, expires_at=12.5),
        in_state(State.DONE, answer=Answer(actor="ann", at=1.0, output=None), outcome="answered"),
        in_state(State.VOID, answer=Answer(actor="ann", at=1.0, approved=True, args={"amount": 7}, scope="chat")),
        in_state(State.ANSWERED, answer=Answer(actor="ann", at=1.0, error="no")),
    ],
)
def test_a_record_is_kept_whole(call: CallRecord) -> None:
    kept = msgspec.json.decode(msgspec.json.encode(call), type=CallRecord)
    assert kept == call
    assert kept.answer is None or call.answer is None or (kept.answer.output is UNSET) == (call.answer.output is UNSET)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": True}),
        ({"a": None}, {}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": {"b": 1}}, {"a": {"b": 2}}),
    ],
)
def test_other_arguments_are_bound_otherwise(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert hash_args(one) != hash_args(other)


def test_the_order_of_arguments_does_not_matter() -> None:
    assert hash_args({"a": 1, "b": {"c": 1, "d": 2}}) == hash_args({"b": {"d": 2, "c": 1}, "a": 1})
