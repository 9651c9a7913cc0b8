"""The gate: a call is opened once, settled once and claimed once, and what it gave is written down."""

import asyncio
from typing import Any

import pytest

from adkwire.errors import Conflict, NotFound
from adkwire.gate.policy import Policy, Rule
from adkwire.gate.records import Answer, Given, PendingCall, State
from adkwire.stores.base import GateStore
from tests.gate.records import ANN, ARGS, CHAT, Door, asked, asked_of_browser, echo_of, offered

YES = Given(approved=True)
NO = Given(approved=False, reason="too much")
HERE = Given(output={"city": "Paris"})
ONE_OF = 16


async def test_a_question_waits(door: Door) -> None:
    call = await door.open(asked())
    assert (call.state, call.asked_at, call.expires_at) == (State.ASKED, 1000.0, None)
    assert await door.gate.waiting(ANN) == [call]
    assert door.told == [call]
    assert await door.audit() == [("agent", "asked", "waiting")]


async def test_a_browser_call_is_offered(door: Door) -> None:
    await door.open(offered())
    assert await door.state() is State.OFFERED
    assert await door.audit() == [("agent", "offered", "waiting")]


async def test_opening_it_again_changes_nothing(door: Door) -> None:
    await door.open(asked())
    await door.gate.settle(ANN, CHAT, "c1", YES)
    await door.open(asked(args={"amount": 500}))
    await door.open(asked(args={"amount": 500}, message="m2", ask="another"))
    kept = await door.at()
    assert (kept.state, kept.input) == (State.ANSWERED, ARGS)
    assert [call.state for call in door.told] == [State.ASKED, State.ANSWERED]
    assert await door.audit() == [("agent", "asked", "waiting"), (ANN, "approved", "waiting")]


@pytest.mark.parametrize("state", [State.DONE, State.VOID, State.UNKNOWN])
async def test_an_id_that_comes_again_when_its_call_is_over_is_another_call(door: Door, state: State) -> None:
    """Some models number their calls anew in each answer."""
    old = asked(message="m0", ask="ask-0")
    await door.put(state, old, answer=Answer(actor=ANN, at=1.0, approved=True))
    await door.open(asked(args={"amount": 6}))
    again = await door.at()
    assert (again.state, again.input, again.answer) == (State.ASKED, {"amount": 6}, None)
    with pytest.raises(NotFound):
        await door.gate.settle(ANN, CHAT, "c1", YES._replace(echo=echo_of(old)))
    assert (await door.gate.settle(ANN, CHAT, "c1", YES)).executes


async def test_yes_then_the_claim_then_a_result(door: Door) -> None:
    await door.open(asked())
    door.clock.advance(3)
    settled = await door.gate.settle(ANN, CHAT, "c1", YES)
    assert settled.answer == Answer(actor=ANN, at=1003.0, approved=True)
    assert settled.executes
    claimed = await door.gate.claim(ANN, CHAT, "c1", ARGS)
    assert claimed is not None
    assert claimed.state is State.EXECUTING
    await door.gate.finish(ANN, CHAT, "c1", "executed")
    done = await door.at()
    assert (done.state, done.outcome) == (State.DONE, "executed")
    assert await door.audit() == [
        ("agent", "asked", "waiting"),
        (ANN, "approved", "waiting"),
        (ANN, "approved", "executed"),
    ]
    assert [call.state for call in door.told] == [State.ASKED, State.ANSWERED, State.DONE]


async def test_no_is_never_claimed(door: Door) -> None:
    await door.open(asked())
    settled = await door.gate.settle(ANN, CHAT, "c1", NO)
    assert settled.answer == Answer(actor=ANN, at=1000.0, approved=False, reason="too much")
    assert await door.gate.claim(ANN, CHAT, "c1", ARGS) is None
    await door.gate.finish(ANN, CHAT, "c1", "not executed")
    assert await door.state() is State.DONE
    assert (await door.audit())[1:] == [(ANN, "denied", "waiting"), (ANN, "denied", "not executed")]


async def test_yes_to_a_browser_call_offers_it_and_its_output_answers_it(door: Door) -> None:
    await door.open(asked_of_browser())
    approved = await door.gate.settle(ANN, CHAT, "c1", YES)
    assert approved.state is State.OFFERED
    assert await door.gate.claim(ANN, CHAT, "c1", ARGS) is None
    answered = await door.gate.settle(ANN, CHAT, "c1", HERE)
    assert answered.state is State.ANSWERED
    assert answered.answer == Answer(actor=ANN, at=1000.0, approved=True, output={"city": "Paris"})
    assert await door.gate.claim(ANN, CHAT, "c1", ARGS) is None
    await door.gate.finish(ANN, CHAT, "c1", "answered")
    assert await door.audit() == [
        ("agent", "asked", "waiting"),
        (ANN, "approved", "waiting"),
        (ANN, "answered", "waiting"),
        (ANN, "answered", "answered"),
    ]


@pytest.mark.parametrize("given", [HERE, HERE._replace(approved=True), Given(error="no", approved=True)])
async def test_an_output_on_an_asked_browser_call_is_its_approval_too(door: Door, given: Given) -> None:
    await door.open(asked_of_browser())
    settled = await door.gate.settle(ANN, CHAT, "c1", given)
    assert settled.state is State.ANSWERED
    assert settled.answer == Answer(actor=ANN, at=1000.0, approved=True, output=given.output, error=given.error)


async def test_a_denied_browser_call_takes_no_output(door: Door) -> None:
    await door.open(asked_of_browser())
    settled = await door.gate.settle(ANN, CHAT, "c1", HERE._replace(approved=False))
    assert settled.state is State.ANSWERED
    assert settled.answer is not None
    assert not settled.answer.has_output
    with pytest.raises(Conflict):
        await door.gate.settle(ANN, CHAT, "c1", HERE)


@pytest.mark.parametrize("state", [state for state in State if state is not State.ANSWERED])
async def test_the_claim_takes_nothing_but_an_answered_call(door: Door, state: State) -> None:
    await door.put(state, answer=Answer(actor=ANN, at=1.0, approved=True))
    assert await door.gate.claim(ANN, CHAT, "c1", ARGS) is None
    assert await door.state() is state


@pytest.mark.parametrize("args", [{}, {"amount": 6}, {"amount": "5"}, {"amount": 5, "note": ""}])
async def test_the_claim_is_bound_to_the_arguments_that_were_asked_about(door: Door, args: dict[str, Any]) -> None:
    await door.open(asked())
    await door.gate.settle(ANN, CHAT, "c1", YES)
    assert await door.gate.claim(ANN, CHAT, "c1", args) is None
    assert (await door.audit())[-1] == (ANN, "approved", "not executed")
    assert await door.gate.claim(ANN, CHAT, "c1", ARGS) is None


async def test_the_claim_asks_the_policy_again(store: GateStore) -> None:
    await Door(store).open(asked())
    door = Door(store, Policy([Rule("pay", "deny")]))
    await door.gate.settle(ANN, CHAT, "c1", YES)
    assert await door.gate.claim(ANN, CHAT, "c1", ARGS) is None
    assert (await door.audit())[-1] == (ANN, "approved", "not executed")
    assert await Door(store).gate.claim(ANN, CHAT, "c1", ARGS) is None


async def test_of_many_equal_answers_one_settles_and_nobody_is_refused(door: Door) -> None:
    await door.open(asked())
    settled = await asyncio.gather(*(door.gate.settle(ANN, CHAT, "c1", YES) for _ in range(ONE_OF)))
    assert {call.version for call in settled} == {1}
    assert await door.audit() == [("agent", "asked", "waiting"), (ANN, "approved", "waiting")]
    assert [call.state for call in door.told] == [State.ASKED, State.ANSWERED]


async def test_of_yes_and_no_at_once_one_counts_and_the_others_are_late(door: Door) -> None:
    await door.open(asked())
    given = [YES if i % 2 else NO for i in range(ONE_OF)]
    ended = await asyncio.gather(*(door.gate.settle(ANN, CHAT, "c1", one) for one in given), return_exceptions=True)
    kept = (await door.at()).answer
    assert kept is not None
    for one, result in zip(given, ended, strict=True):
        assert isinstance(result, PendingCall if one.approved is kept.approved else Conflict)
    assert [verdict for _, verdict, _ in await door.audit()].count("refused") == ONE_OF // 2


async def test_of_many_claims_one_succeeds(door: Door) -> None:
    await door.open(asked())
    await door.gate.settle(ANN, CHAT, "c1", YES)
    claims = await asyncio.gather(*(door.gate.claim(ANN, CHAT, "c1", ARGS) for _ in range(ONE_OF)))
    assert sum(claim is not None for claim in claims) == 1


async def test_a_claim_and_a_supersede_at_once(door: Door) -> None:
    for number in range(ONE_OF):
        call = f"c{number}"
        await door.open(asked(call))
        await door.gate.settle(ANN, CHAT, call, YES)
        claimed, taken = await asyncio.gather(
            door.gate.claim(ANN, CHAT, call, ARGS), door.gate.void(ANN, CHAT, "superseded")
        )
        assert (claimed is None) == (call in {one.call for one in taken})
        assert await door.state(call) is (State.VOID if claimed is None else State.EXECUTING)


async def test_an_approval_that_was_taken_back_is_void(door: Door) -> None:
    await door.open(asked())
    await door.gate.settle(ANN, CHAT, "c1", YES)
    await door.gate.void(ANN, CHAT, "superseded")
    assert await door.gate.claim(ANN, CHAT, "c1", ARGS) is None
    with pytest.raises(Conflict, match="Too late: the conversation went on"):
        await door.gate.settle(ANN, CHAT, "c1", YES)


async def test_an_output_that_was_given_is_kept(door: Door) -> None:
    await door.open(offered())
    await door.open(asked("c2"))
    await door.gate.settle(ANN, CHAT, "c1", HERE)
    kept, taken = await door.gate.void(ANN, CHAT, "superseded")
    assert (kept.state, kept.outcome) == (State.DONE, "answered")
    assert (taken.state, taken.outcome) == (State.VOID, "superseded")


async def test_what_was_executed_or_is_over_is_not_taken_back(door: Door) -> None:
    over = [State.EXECUTING, State.DONE, State.VOID, State.UNKNOWN]
    for state in over:
        await door.put(state, asked(state))
    assert await door.gate.void(ANN, CHAT, "superseded") == []
    assert [call.state for call in await door.gate.of(ANN, CHAT)] == over


@pytest.mark.parametrize(
    ("before", "after", "may_have_run"),
    [
        (State.ASKED, State.VOID, False),
        (State.OFFERED, State.VOID, False),
        (State.ANSWERED, State.VOID, False),
        (State.EXECUTING, State.UNKNOWN, True),
        (State.DONE, State.DONE, True),
        (State.VOID, State.VOID, False),
        (State.UNKNOWN, State.UNKNOWN, True),
    ],
)
async def test_a_call_whose_run_is_over(door: Door, before: State, after: State, may_have_run: bool) -> None:
    await door.put(before)
    assert await door.gate.abandon(ANN, CHAT, "c1", "stopped") is may_have_run
    assert await door.state() is after


async def test_a_denied_call_whose_run_is_over_was_not_executed(door: Door) -> None:
    await door.open(asked())
    await door.gate.settle(ANN, CHAT, "c1", NO)
    await door.gate.finish(ANN, CHAT, "c1", "not executed")
    assert not await door.gate.abandon(ANN, CHAT, "c1", "stopped")


async def test_a_call_that_is_not_known_may_have_run(door: Door) -> None:
    assert await door.gate.abandon(ANN, CHAT, "c1", "stopped")


@pytest.mark.parametrize("state", State)
async def test_only_what_was_begun_or_answered_is_finished(door: Door, state: State) -> None:
    await door.put(state)
    await door.gate.finish(ANN, CHAT, "c1", "executed")
    ends = state in (State.EXECUTING, State.ANSWERED)
    assert await door.state() is (State.DONE if ends else state)


async def test_what_is_asked_again_keeps_its_deadline(door: Door) -> None:
    await door.open(asked(), 60)
    await door.gate.reopen(await door.gate.settle(ANN, CHAT, "c1", YES))
    assert (await door.at()).expires_at == 1060.0
    door.clock.advance(60)
    assert [call.call for call in await door.gate.expire()] == ["c1"]


async def test_who_ended_a_call_is_in_the_audit(door: Door) -> None:
    for call in ("c1", "c2", "c3"):
        await door.open(asked(call))
    await door.gate.settle(ANN, CHAT, "c3", YES)
    await door.gate.claim(ANN, CHAT, "c3", ARGS)
    await door.gate.abandon(ANN, CHAT, "c1", "superseded")
    await door.gate.abandon(ANN, CHAT, "c2", "interrupted")
    await door.gate.abandon(ANN, CHAT, "c3", "stopped")
    assert (await door.audit())[-3:] == [
        (ANN, "superseded", "superseded"),
        ("server", "interrupted", "interrupted"),
        ("server", "approved", "unknown"),
    ]


async def test_asked_again_after_a_restart(door: Door) -> None:
    await door.open(asked())
    settled = await door.gate.settle(ANN, CHAT, "c1", YES)
    await door.gate.reopen(settled)
    again = await door.at()
    assert (again.state, again.answer) == (State.ASKED, None)
    assert (await door.gate.settle(ANN, CHAT, "c1", NO)).answer == Answer(
        actor=ANN, at=1000.0, approved=False, reason="too much"
    )


UNSURE = "This call was cut off while it ran; whether it was executed is not known."


@pytest.mark.parametrize("given", [YES, NO, HERE, YES._replace(args={"amount": 7})])
async def test_a_call_whose_fate_is_unknown_is_not_run_again(door: Door, given: Given) -> None:
    await door.put(State.UNKNOWN, outcome="unknown", answer=Answer(actor=ANN, at=1.0, approved=True))
    with pytest.raises(Conflict) as told:
        await door.gate.settle(ANN, CHAT, "c1", given)
    assert told.value.message == UNSURE
    assert await door.gate.claim(ANN, CHAT, "c1", ARGS) is None


async def test_unless_its_rule_and_the_one_who_asks_say_that_it_may(door: Door) -> None:
    answer = Answer(actor=ANN, at=1.0, approved=True)
    await door.put(State.UNKNOWN, outcome="unknown", answer=answer, retry=True)
    for other in (NO, HERE, YES._replace(args={"amount": 7})):
        with pytest.raises(Conflict, match="not known"):
            await door.gate.settle(ANN, CHAT, "c1", other, retry=True)
    with pytest.raises(Conflict, match="not known"):
        await door.gate.settle(ANN, CHAT, "c1", YES)
    settled = await door.gate.settle(ANN, CHAT, "c1", YES, retry=True)
    assert (settled.state, settled.outcome) == (State.ANSWERED, "")
    claims = await asyncio.gather(*(door.gate.claim(ANN, CHAT, "c1", ARGS) for _ in range(ONE_OF)))
    assert sum(claim is not None for claim in claims) == 1


async def test_a_second_try_that_is_taken_back_leaves_the_fate_unknown(door: Door) -> None:
    """The first one may have done it."""
    await door.put(State.UNKNOWN, outcome="unknown", answer=Answer(actor=ANN, at=1.0, approved=True), retry=True)
    await door.gate.settle(ANN, CHAT, "c1", YES, retry=True)
    [taken] = await door.gate.void(ANN, CHAT, "superseded")
    assert (taken.state, taken.outcome) == (State.UNKNOWN, "unknown")
    await door.gate.settle(ANN, CHAT, "c1", YES, retry=True)
    assert await door.gate.abandon(ANN, CHAT, "c1", "interrupted")
    assert await door.state() is State.UNKNOWN


async def test_a_retry_that_the_rule_does_not_allow(door: Door) -> None:
    await door.put(State.UNKNOWN, outcome="unknown", answer=Answer(actor=ANN, at=1.0, approved=True))
    with pytest.raises(Conflict, match="not known"):
        await door.gate.settle(ANN, CHAT, "c1", YES, retry=True)


async def test_every_line_of_the_audit_says_what_it_is_about(door: Door) -> None:
    await door.open(asked())
    door.clock.advance(60)
    await door.gate.settle(ANN, CHAT, "c1", YES)
    [first, second] = await door.lines()
    assert (first.at, second.at) == ("1970-01-01T00:16:40.000Z", "1970-01-01T00:17:40.000Z")
    assert (first.call, first.tool, first.input, first.scope) == ("c1", "pay", ARGS, "once")
