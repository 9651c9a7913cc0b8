"""The gate: a call is opened once, settled once and claimed once, and what it gave is written down."""

import asyncio
from typing import Any

import pytest

from adkwire.errors import Conflict, NotFound
from adkwire.gate.policy import Policy, Rule
from adkwire.gate.records import Answer, CallRecord, State, UncheckedAnswer
from adkwire.stores.base import GateStore
from tests.gate.records import ANN, ARGS, CHAT, GateInTest, asked, asked_of_browser, echo_of, offered

YES = UncheckedAnswer(approved=True)
NO = UncheckedAnswer(approved=False, reason="too much")
HERE = UncheckedAnswer(output={"city": "Paris"})
ONE_OF = 16


async def test_a_question_waits(tested: GateInTest) -> None:
    call = await tested.open(asked())
    assert (call.state, call.asked_at, call.expires_at) == (State.ASKED, 1000.0, None)
    assert await tested.gate.waiting(ANN) == [call]
    assert tested.heard == [call]
    assert await tested.audit() == [("agent", "asked", "waiting")]


async def test_a_browser_call_is_offered(tested: GateInTest) -> None:
    await tested.open(offered())
    assert await tested.state() is State.OFFERED
    assert await tested.audit() == [("agent", "offered", "waiting")]


async def test_opening_it_again_changes_nothing(tested: GateInTest) -> None:
    await tested.open(asked())
    await tested.gate.settle(ANN, CHAT, "c1", YES)
    await tested.open(asked(args={"amount": 500}))
    await tested.open(asked(args={"amount": 500}, message="m2", ask="another"))
    kept = await tested.at()
    assert (kept.state, kept.input) == (State.ANSWERED, ARGS)
    assert [call.state for call in tested.heard] == [State.ASKED, State.ANSWERED]
    assert await tested.audit() == [("agent", "asked", "waiting"), (ANN, "approved", "waiting")]


@pytest.mark.parametrize("state", [State.DONE, State.VOID, State.UNKNOWN])
async def test_an_id_that_comes_again_when_its_call_is_over_is_another_call(tested: GateInTest, state: State) -> None:
    """Some models number their calls anew in each answer."""
    old = asked(message="m0", ask="ask-0")
    await tested.put(state, old, answer=Answer(actor=ANN, at=1.0, approved=True))
    await tested.open(asked(args={"amount": 6}))
    again = await tested.at()
    assert (again.state, again.input, again.answer) == (State.ASKED, {"amount": 6}, None)
    with pytest.raises(NotFound):
        await tested.gate.settle(ANN, CHAT, "c1", YES._replace(echo=echo_of(old)))
    assert (await tested.gate.settle(ANN, CHAT, "c1", YES)).is_claimable


async def test_yes_then_the_claim_then_a_result(tested: GateInTest) -> None:
    await tested.open(asked())
    tested.clock.advance(3)
    settled = await tested.gate.settle(ANN, CHAT, "c1", YES)
    assert settled.answer == Answer(actor=ANN, at=1003.0, approved=True)
    assert settled.is_claimable
    claimed = await tested.gate.claim(ANN, CHAT, "c1", ARGS)
    assert claimed is not None
    assert claimed.state is State.EXECUTING
    await tested.gate.finish(ANN, CHAT, "c1", "executed")
    done = await tested.at()
    assert (done.state, done.outcome) == (State.DONE, "executed")
    assert await tested.audit() == [
        ("agent", "asked", "waiting"),
        (ANN, "approved", "waiting"),
        (ANN, "approved", "executed"),
    ]
    assert [call.state for call in tested.heard] == [State.ASKED, State.ANSWERED, State.DONE]


async def test_no_is_never_claimed(tested: GateInTest) -> None:
    await tested.open(asked())
    settled = await tested.gate.settle(ANN, CHAT, "c1", NO)
    assert settled.answer == Answer(actor=ANN, at=1000.0, approved=False, reason="too much")
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is None
    await tested.gate.finish(ANN, CHAT, "c1", "not executed")
    assert await tested.state() is State.DONE
    assert (await tested.audit())[1:] == [(ANN, "denied", "waiting"), (ANN, "denied", "not executed")]


async def test_yes_to_a_browser_call_offers_it_and_its_output_answers_it(tested: GateInTest) -> None:
    await tested.open(asked_of_browser())
    approved = await tested.gate.settle(ANN, CHAT, "c1", YES)
    assert approved.state is State.OFFERED
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is None
    answered = await tested.gate.settle(ANN, CHAT, "c1", HERE)
    assert answered.state is State.ANSWERED
    assert answered.answer == Answer(actor=ANN, at=1000.0, approved=True, output={"city": "Paris"})
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is None
    await tested.gate.finish(ANN, CHAT, "c1", "answered")
    assert await tested.audit() == [
        ("agent", "asked", "waiting"),
        (ANN, "approved", "waiting"),
        (ANN, "answered", "waiting"),
        (ANN, "answered", "answered"),
    ]


@pytest.mark.parametrize("given", [HERE, HERE._replace(approved=True), UncheckedAnswer(error="no", approved=True)])
async def test_an_output_on_an_asked_browser_call_is_its_approval_too(
    tested: GateInTest, given: UncheckedAnswer
) -> None:
    await tested.open(asked_of_browser())
    settled = await tested.gate.settle(ANN, CHAT, "c1", given)
    assert settled.state is State.ANSWERED
    assert settled.answer == Answer(actor=ANN, at=1000.0, approved=True, output=given.output, error=given.error)


async def test_a_denied_browser_call_takes_no_output(tested: GateInTest) -> None:
    await tested.open(asked_of_browser())
    settled = await tested.gate.settle(ANN, CHAT, "c1", HERE._replace(approved=False))
    assert settled.state is State.ANSWERED
    assert settled.answer is not None
    assert not settled.answer.has_output
    with pytest.raises(Conflict):
        await tested.gate.settle(ANN, CHAT, "c1", HERE)


@pytest.mark.parametrize("state", [state for state in State if state is not State.ANSWERED])
async def test_the_claim_takes_nothing_but_an_answered_call(tested: GateInTest, state: State) -> None:
    await tested.put(state, answer=Answer(actor=ANN, at=1.0, approved=True))
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is None
    assert await tested.state() is state


@pytest.mark.parametrize("args", [{}, {"amount": 6}, {"amount": "5"}, {"amount": 5, "note": ""}])
async def test_the_claim_is_bound_to_the_arguments_that_were_asked_about(
    tested: GateInTest, args: dict[str, Any]
) -> None:
    await tested.open(asked())
    await tested.gate.settle(ANN, CHAT, "c1", YES)
    assert await tested.gate.claim(ANN, CHAT, "c1", args) is None
    assert (await tested.audit())[-1] == (ANN, "approved", "not executed")
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is None


async def test_the_claim_asks_the_policy_again(store: GateStore) -> None:
    await GateInTest(store).open(asked())
    tested = GateInTest(store, Policy([Rule("pay", "deny")]))
    await tested.gate.settle(ANN, CHAT, "c1", YES)
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is None
    assert (await tested.audit())[-1] == (ANN, "approved", "not executed")
    assert await GateInTest(store).gate.claim(ANN, CHAT, "c1", ARGS) is None


async def test_of_many_equal_answers_one_settles_and_nobody_is_refused(tested: GateInTest) -> None:
    await tested.open(asked())
    settled = await asyncio.gather(*(tested.gate.settle(ANN, CHAT, "c1", YES) for _ in range(ONE_OF)))
    assert {call.version for call in settled} == {1}
    assert await tested.audit() == [("agent", "asked", "waiting"), (ANN, "approved", "waiting")]
    assert [call.state for call in tested.heard] == [State.ASKED, State.ANSWERED]


async def test_of_yes_and_no_at_once_one_counts_and_the_others_are_late(tested: GateInTest) -> None:
    await tested.open(asked())
    given = [YES if i % 2 else NO for i in range(ONE_OF)]
    ended = await asyncio.gather(*(tested.gate.settle(ANN, CHAT, "c1", one) for one in given), return_exceptions=True)
    kept = (await tested.at()).answer
    assert kept is not None
    for one, result in zip(given, ended, strict=True):
        assert isinstance(result, CallRecord if one.approved is kept.approved else Conflict)
    assert [verdict for _, verdict, _ in await tested.audit()].count("refused") == ONE_OF // 2


async def test_of_many_claims_one_succeeds(tested: GateInTest) -> None:
    await tested.open(asked())
    await tested.gate.settle(ANN, CHAT, "c1", YES)
    claims = await asyncio.gather(*(tested.gate.claim(ANN, CHAT, "c1", ARGS) for _ in range(ONE_OF)))
    assert sum(claim is not None for claim in claims) == 1


async def test_a_claim_and_a_supersede_at_once(tested: GateInTest) -> None:
    for number in range(ONE_OF):
        call = f"c{number}"
        await tested.open(asked(call))
        await tested.gate.settle(ANN, CHAT, call, YES)
        claimed, taken = await asyncio.gather(
            tested.gate.claim(ANN, CHAT, call, ARGS), tested.gate.void(ANN, CHAT, "superseded")
        )
        assert (claimed is None) == (call in {one.call for one in taken})
        assert await tested.state(call) is (State.VOID if claimed is None else State.EXECUTING)


async def test_an_approval_that_was_taken_back_is_void(tested: GateInTest) -> None:
    await tested.open(asked())
    await tested.gate.settle(ANN, CHAT, "c1", YES)
    await tested.gate.void(ANN, CHAT, "superseded")
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is None
    with pytest.raises(Conflict, match="Too late: the conversation went on"):
        await tested.gate.settle(ANN, CHAT, "c1", YES)


async def test_an_output_that_was_given_is_kept(tested: GateInTest) -> None:
    await tested.open(offered())
    await tested.open(asked("c2"))
    await tested.gate.settle(ANN, CHAT, "c1", HERE)
    kept, taken = await tested.gate.void(ANN, CHAT, "superseded")
    assert (kept.state, kept.outcome) == (State.DONE, "answered")
    assert (taken.state, taken.outcome) == (State.VOID, "superseded")


async def test_what_was_executed_or_is_over_is_not_taken_back(tested: GateInTest) -> None:
    over = [State.EXECUTING, State.DONE, State.VOID, State.UNKNOWN]
    for state in over:
        await tested.put(state, asked(state))
    assert await tested.gate.void(ANN, CHAT, "superseded") == []
    assert [call.state for call in await tested.gate.calls(ANN, CHAT)] == over


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
async def test_a_call_whose_run_is_over(tested: GateInTest, before: State, after: State, may_have_run: bool) -> None:
    await tested.put(before)
    assert await tested.gate.abandon(ANN, CHAT, "c1", "stopped") is may_have_run
    assert await tested.state() is after


async def test_a_denied_call_whose_run_is_over_was_not_executed(tested: GateInTest) -> None:
    await tested.open(asked())
    await tested.gate.settle(ANN, CHAT, "c1", NO)
    await tested.gate.finish(ANN, CHAT, "c1", "not executed")
    assert not await tested.gate.abandon(ANN, CHAT, "c1", "stopped")


async def test_a_call_that_is_not_known_may_have_run(tested: GateInTest) -> None:
    assert await tested.gate.abandon(ANN, CHAT, "c1", "stopped")


@pytest.mark.parametrize("state", State)
async def test_only_what_was_begun_or_answered_is_finished(tested: GateInTest, state: State) -> None:
    await tested.put(state)
    await tested.gate.finish(ANN, CHAT, "c1", "executed")
    ends = state in (State.EXECUTING, State.ANSWERED)
    assert await tested.state() is (State.DONE if ends else state)


async def test_what_is_asked_again_keeps_its_deadline(tested: GateInTest) -> None:
    await tested.open(asked(), 60)
    await tested.gate.reopen(await tested.gate.settle(ANN, CHAT, "c1", YES))
    assert (await tested.at()).expires_at == 1060.0
    tested.clock.advance(60)
    assert [call.call for call in await tested.gate.expire()] == ["c1"]


async def test_who_ended_a_call_is_in_the_audit(tested: GateInTest) -> None:
    for call in ("c1", "c2", "c3"):
        await tested.open(asked(call))
    await tested.gate.settle(ANN, CHAT, "c3", YES)
    await tested.gate.claim(ANN, CHAT, "c3", ARGS)
    await tested.gate.abandon(ANN, CHAT, "c1", "superseded")
    await tested.gate.abandon(ANN, CHAT, "c2", "interrupted")
    await tested.gate.abandon(ANN, CHAT, "c3", "stopped")
    assert (await tested.audit())[-3:] == [
        (ANN, "superseded", "superseded"),
        ("server", "interrupted", "interrupted"),
        ("server", "approved", "unknown"),
    ]


async def test_asked_again_after_a_restart(tested: GateInTest) -> None:
    await tested.open(asked())
    settled = await tested.gate.settle(ANN, CHAT, "c1", YES)
    await tested.gate.reopen(settled)
    again = await tested.at()
    assert (again.state, again.answer) == (State.ASKED, None)
    assert (await tested.gate.settle(ANN, CHAT, "c1", NO)).answer == Answer(
        actor=ANN, at=1000.0, approved=False, reason="too much"
    )


UNSURE = "This call was cut off while it ran; whether it was executed is not known."


@pytest.mark.parametrize("given", [YES, NO, HERE, YES._replace(args={"amount": 7})])
async def test_a_call_with_an_unknown_outcome_is_not_run_again(tested: GateInTest, given: UncheckedAnswer) -> None:
    await tested.put(State.UNKNOWN, outcome="unknown", answer=Answer(actor=ANN, at=1.0, approved=True))
    with pytest.raises(Conflict) as refusal:
        await tested.gate.settle(ANN, CHAT, "c1", given)
    assert refusal.value.message == UNSURE
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is None


async def test_an_unknown_call_is_run_again_if_its_rule_and_the_person_want_it(tested: GateInTest) -> None:
    answer = Answer(actor=ANN, at=1.0, approved=True)
    await tested.put(State.UNKNOWN, outcome="unknown", answer=answer, retry=True)
    for other in (NO, HERE, YES._replace(args={"amount": 7})):
        with pytest.raises(Conflict, match="not known"):
            await tested.gate.settle(ANN, CHAT, "c1", other, retry=True)
    with pytest.raises(Conflict, match="not known"):
        await tested.gate.settle(ANN, CHAT, "c1", YES)
    settled = await tested.gate.settle(ANN, CHAT, "c1", YES, retry=True)
    assert (settled.state, settled.outcome) == (State.ANSWERED, "")
    claims = await asyncio.gather(*(tested.gate.claim(ANN, CHAT, "c1", ARGS) for _ in range(ONE_OF)))
    assert sum(claim is not None for claim in claims) == 1


async def test_a_retry_that_is_withdrawn_leaves_the_outcome_unknown(tested: GateInTest) -> None:
    """The first one may have done it."""
    await tested.put(State.UNKNOWN, outcome="unknown", answer=Answer(actor=ANN, at=1.0, approved=True), retry=True)
    await tested.gate.settle(ANN, CHAT, "c1", YES, retry=True)
    [taken] = await tested.gate.void(ANN, CHAT, "superseded")
    assert (taken.state, taken.outcome) == (State.UNKNOWN, "unknown")
    await tested.gate.settle(ANN, CHAT, "c1", YES, retry=True)
    assert await tested.gate.abandon(ANN, CHAT, "c1", "interrupted")
    assert await tested.state() is State.UNKNOWN


async def test_a_retry_that_the_rule_does_not_allow(tested: GateInTest) -> None:
    await tested.put(State.UNKNOWN, outcome="unknown", answer=Answer(actor=ANN, at=1.0, approved=True))
    with pytest.raises(Conflict, match="not known"):
        await tested.gate.settle(ANN, CHAT, "c1", YES, retry=True)


async def test_every_line_of_the_audit_says_what_it_is_about(tested: GateInTest) -> None:
    await tested.open(asked())
    tested.clock.advance(60)
    await tested.gate.settle(ANN, CHAT, "c1", YES)
    [first, second] = await tested.lines()
    assert (first.at, second.at) == ("1970-01-01T00:16:40.000Z", "1970-01-01T00:17:40.000Z")
    assert (first.call, first.tool, first.input, first.scope) == ("c1", "pay", ARGS, "once")
