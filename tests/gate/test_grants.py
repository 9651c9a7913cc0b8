"""Expiry of calls, and which calls a standing approval covers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from adkwire.errors import Conflict, NotFound, Unprocessable
from adkwire.gate.gate import CLOCK
from adkwire.gate.grants import Grant
from adkwire.gate.judge import REFUSED
from adkwire.gate.policy import Policy, Rule
from adkwire.gate.records import Answer, CallRecord, State, UncheckedAnswer
from adkwire.stores.base import CallRow, GateStore
from adkwire.stores.memory import MemoryGateStore
from tests.gate.records import ANN, ARGS, CHAT, GateInTest, asked, asked_of_browser, offered

YES = UncheckedAnswer(approved=True)
NO = UncheckedAnswer(approved=False, reason="too much")
HERE = UncheckedAnswer(output={"city": "Paris"})


async def test_a_call_that_nobody_answers_expires(tested: GateInTest) -> None:
    await tested.open(asked(), 60)
    await tested.open(offered("c2"), 30)
    assert await tested.gate.next_expiry() == 1030.0
    tested.clock.advance(29.9)
    assert await tested.gate.expire() == []
    tested.clock.advance(0.1)
    [second] = await tested.gate.expire()
    assert (second.call, second.state) == ("c2", State.ANSWERED)
    assert second.answer == Answer(actor=CLOCK, at=1030.0, expired=True)
    tested.clock.advance(100)
    [first] = await tested.gate.expire()
    assert first.call == "c1"
    assert not first.is_claimable
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is None
    assert await tested.gate.next_expiry() is None
    assert await tested.gate.expire() == []
    assert (await tested.audit())[2:] == [(CLOCK, "expired", "waiting"), (CLOCK, "expired", "waiting")]


async def test_an_approved_browser_call_keeps_its_time(tested: GateInTest) -> None:
    await tested.open(asked_of_browser(), 60)
    await tested.gate.settle(ANN, CHAT, "c1", YES)
    tested.clock.advance(60)
    [expired] = await tested.gate.expire()
    assert expired.answer == Answer(actor=CLOCK, at=1060.0, expired=True, approved=True)


async def test_an_answer_ends_the_waiting(tested: GateInTest) -> None:
    await tested.open(asked(), 60)
    await tested.open(offered("c2"), 60)
    await tested.gate.settle(ANN, CHAT, "c1", YES)
    await tested.gate.settle(ANN, CHAT, "c2", HERE)
    tested.clock.advance(100)
    assert await tested.gate.next_expiry() is None
    assert await tested.gate.expire() == []
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is not None


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("call", [asked(), asked_of_browser(), offered()])
async def test_an_answer_after_the_time_is_late(tested: GateInTest, call: CallRecord, swept: bool) -> None:
    """Also when the clock's own answer is not written yet."""
    await tested.open(call, 60)
    tested.clock.advance(60)
    if swept:
        await tested.gate.expire()
    for given in (YES, NO, HERE):
        with pytest.raises(Conflict, match="Too late: nobody answered in time, and the call was not executed"):
            await tested.gate.settle(ANN, CHAT, "c1", given)
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is None


class Overtaken(MemoryGateStore):
    """Lets something else happen once, between what somebody read and what they write."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def replace(self, row: CallRow) -> bool:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await super().replace(row)


async def test_the_clock_is_faster_than_an_answer_that_came_in_time() -> None:
    store = Overtaken()
    tested = GateInTest(store)
    await tested.open(asked(), 60)
    tested.clock.advance(59)

    async def expire() -> None:
        tested.clock.advance(1)
        assert [call.call for call in await tested.gate.expire()] == ["c1"]

    store.meanwhile = expire
    with pytest.raises(Conflict, match="nobody answered in time"):
        await tested.gate.settle(ANN, CHAT, "c1", YES)
    assert (await tested.at()).answer == Answer(actor=CLOCK, at=1060.0, expired=True)
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is None


async def test_an_answer_is_faster_than_the_clock() -> None:
    store = Overtaken()
    tested = GateInTest(store)
    await tested.open(asked(), 60)
    tested.clock.advance(60)

    async def answer() -> None:
        tested.clock.advance(-1)
        await tested.gate.settle(ANN, CHAT, "c1", YES)

    store.meanwhile = answer
    assert await tested.gate.expire() == []
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is not None


async def test_a_no_is_faster_than_a_yes_that_had_read_the_question() -> None:
    store = Overtaken()
    tested = GateInTest(store)
    await tested.open(asked())
    store.meanwhile = lambda: tested.gate.settle(ANN, CHAT, "c1", NO)
    with pytest.raises(Conflict, match="already answered"):
        await tested.gate.settle(ANN, CHAT, "c1", YES)
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is None


async def test_a_claim_that_is_overtaken_gets_nothing() -> None:
    store = Overtaken()
    tested = GateInTest(store)
    await tested.open(asked())
    await tested.gate.settle(ANN, CHAT, "c1", YES)
    store.meanwhile = lambda: tested.gate.claim(ANN, CHAT, "c1", ARGS)
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is None
    assert await tested.state() is State.EXECUTING


async def test_the_timeout_of_the_settings_and_that_of_a_rule(store: GateStore) -> None:
    tested = GateInTest(store, timeout=300)
    assert (await tested.open(asked())).expires_at == 1300.0
    assert (await tested.open(asked("c2"), 5)).expires_at == 1005.0
    assert (await tested.open(asked("c3"), 0)).expires_at is None


@pytest.mark.parametrize(("scope", "elsewhere"), [("once", "ask"), ("chat", "ask"), ("always", "allow")])
async def test_which_later_calls_an_approval_covers(tested: GateInTest, scope: Any, elsewhere: str) -> None:
    await tested.open(asked())
    await tested.gate.settle(ANN, CHAT, "c1", YES._replace(scope=scope))
    here = await tested.gate.decide(ANN, CHAT, "pay", {"amount": 900}, asks=True)
    assert here.action == ("ask" if scope == "once" else "allow")
    assert here.rule == ("default" if scope == "once" else "granted; default")
    assert (await tested.gate.decide(ANN, "other", "pay", ARGS, asks=True)).action == elsewhere
    assert (await tested.gate.decide(ANN, CHAT, "transfer", ARGS, asks=True)).action == "ask"
    assert (await tested.gate.decide("eve", CHAT, "pay", ARGS, asks=True)).action == "ask"
    assert (await tested.lines())[-1].scope == scope


async def test_a_no_grants_nothing(tested: GateInTest) -> None:
    await tested.open(asked())
    settled = await tested.gate.settle(ANN, CHAT, "c1", NO._replace(scope="always"))
    assert settled.answer is not None
    assert settled.answer.scope == "once"
    assert (await tested.gate.decide(ANN, CHAT, "pay", ARGS, asks=True)).action == "ask"


async def test_a_grant_for_the_same_arguments(store: GateStore) -> None:
    tested = GateInTest(store, Policy([Rule("pay", "ask", grant="same-arguments")]))
    await tested.open(asked(grant="same-arguments"))
    await tested.gate.settle(ANN, CHAT, "c1", YES._replace(scope="always"))
    assert (await tested.gate.decide(ANN, "other", "pay", ARGS, asks=True)).action == "allow"
    assert (await tested.gate.decide(ANN, CHAT, "pay", {"amount": 6}, asks=True)).action == "ask"


async def test_a_grant_for_any_arguments_does_not_serve_a_rule_that_wants_the_same(store: GateStore) -> None:
    rules = [Rule("pay", "ask", when={"amount": {"gt": 100}}, grant="same-arguments"), Rule("pay", "ask")]
    tested = GateInTest(store, Policy(rules))
    await tested.open(asked())
    await tested.gate.settle(ANN, CHAT, "c1", YES._replace(scope="always"))
    assert (await tested.gate.decide(ANN, CHAT, "pay", {"amount": 99}, asks=True)).action == "allow"
    assert (await tested.gate.decide(ANN, CHAT, "pay", {"amount": 101}, asks=True)).action == "ask"


@pytest.mark.parametrize("scope", ["chat", "always"])
async def test_a_tool_that_is_approved_only_once_at_a_time(tested: GateInTest, scope: Any) -> None:
    await tested.open(asked(grant="never"))
    with pytest.raises(Unprocessable, match="only once at a time"):
        await tested.gate.settle(ANN, CHAT, "c1", YES._replace(scope=scope))
    assert await tested.state() is State.ASKED


async def test_a_rule_that_grants_never_ignores_old_grants(store: GateStore) -> None:
    await store.grant(ANN, "", "pay")
    tested = GateInTest(store, Policy([Rule("pay", "ask", grant="never")]))
    assert (await tested.gate.decide(ANN, CHAT, "pay", ARGS, asks=True)).action == "ask"


async def test_a_grant_never_lifts_a_deny(store: GateStore) -> None:
    tested = GateInTest(store, Policy([Rule("pay", "deny", when={"amount": {"gt": 100}})]))
    await tested.open(asked())
    await tested.open(asked("c2", {"amount": 101}))
    await tested.gate.settle(ANN, CHAT, "c1", YES._replace(scope="always"))
    assert (await tested.gate.decide(ANN, CHAT, "pay", {"amount": 101}, asks=True)).action == "deny"
    assert await tested.gate.claim(ANN, CHAT, "c2", {"amount": 101}) is None


async def test_a_grant_releases_the_equal_calls_of_this_chat(tested: GateInTest) -> None:
    for call in (asked(), asked("c2", {"amount": 6}), asked("c3", tool="transfer"), asked("c4", chat="other")):
        await tested.open(call)
    await tested.open(asked("c5", grant="never"))
    await tested.gate.settle(ANN, CHAT, "c1", YES._replace(scope="chat"))
    states = [(call.call, call.state) for call in await tested.gate.calls(ANN, CHAT)]
    assert states == [
        ("c1", State.ANSWERED),
        ("c2", State.ANSWERED),
        ("c3", State.ASKED),
        ("c5", State.ASKED),
    ]
    assert await tested.state("c4", "other") is State.ASKED
    assert (await tested.at("c2")).answer == Answer(actor=ANN, at=1000.0, approved=True)


async def test_a_grant_for_always_releases_them_in_all_chats_of_the_user(tested: GateInTest) -> None:
    for call in (asked(), asked("c2", chat="other"), asked("c3", user="eve"), asked_of_browser("c4", tool="pay")):
        await tested.open(call)
    await tested.gate.settle(ANN, CHAT, "c1", YES._replace(scope="always"))
    assert await tested.state("c2", "other") is State.ANSWERED
    assert await tested.state("c4") is State.OFFERED
    assert [call.call for call in await tested.gate.waiting("eve")] == ["c3"]


@pytest.mark.parametrize("grants", [("same-arguments", "same-arguments"), ("tool", "same-arguments")])
async def test_only_the_same_arguments_are_released_where_one_side_wants_that(
    tested: GateInTest, grants: tuple[str, str]
) -> None:
    await tested.open(asked(grant=grants[0]))
    await tested.open(asked("c2", grant=grants[1]))
    await tested.open(asked("c3", {"amount": 6}, grant=grants[1]))
    await tested.gate.settle(ANN, CHAT, "c1", YES._replace(scope="chat"))
    assert [await tested.state(call) for call in ("c2", "c3")] == [State.ANSWERED, State.ASKED]


async def test_a_grant_does_not_fail_for_a_call_it_comes_too_late_for(tested: GateInTest) -> None:
    """The equal call has expired, only the clock has not come by yet."""
    await tested.open(asked())
    await tested.open(asked("c2"), 60)
    tested.clock.advance(60)
    settled = await tested.gate.settle(ANN, CHAT, "c1", YES._replace(scope="chat"))
    assert settled.state is State.ANSWERED
    assert "refused" not in {verdict for _, verdict, _ in await tested.audit()}
    assert await tested.gate.claim(ANN, CHAT, "c2", ARGS) is None


async def test_two_grants_at_once(tested: GateInTest) -> None:
    calls = [f"c{number}" for number in range(6)]
    for call in calls:
        await tested.open(asked(call))
    given = YES._replace(scope="always")
    settled = await asyncio.gather(*(tested.gate.settle(ANN, CHAT, call, given) for call in calls))
    assert {call.state for call in settled} == {State.ANSWERED}
    for call in calls:
        assert await tested.gate.claim(ANN, CHAT, call, ARGS) is not None


async def test_forgetting_a_chat_takes_its_calls_and_grants_and_leaves_the_audit(tested: GateInTest) -> None:
    await tested.open(asked())
    await tested.gate.settle(ANN, CHAT, "c1", YES._replace(scope="chat"))
    before = await tested.audit()
    await tested.gate.forget(ANN, CHAT)
    assert await tested.gate.calls(ANN, CHAT) == []
    assert (await tested.gate.decide(ANN, CHAT, "pay", ARGS, asks=True)).action == "ask"
    assert await tested.audit() == before
    with pytest.raises(NotFound, match=REFUSED):
        await tested.gate.settle(ANN, CHAT, "c1", YES)


@pytest.mark.parametrize(("asks", "action"), [(True, "ask"), (False, "allow")])
async def test_without_a_rule_the_tool_decides(tested: GateInTest, asks: bool, action: str) -> None:
    assert (await tested.gate.decide(ANN, CHAT, "pay", ARGS, asks=asks)).action == action


async def test_a_grant_is_listed_with_what_it_covers(tested: GateInTest) -> None:
    await tested.open(asked())
    await tested.gate.settle(ANN, CHAT, "c1", YES._replace(scope="chat"))
    tested.clock.advance(5)
    await tested.open(asked("c2", {"amount": 7}, tool="sell", grant="same-arguments"))
    await tested.gate.settle(ANN, CHAT, "c2", YES._replace(scope="always", args={"amount": 6}))
    second, first = await tested.gate.grants(ANN, 10)
    assert first == Grant(id=first.id, tool="pay", scope="chat", chat=CHAT, call="c1", at=1000.0)
    assert second == Grant(
        id=second.id,
        tool="sell",
        scope="always",
        chat=CHAT,
        same_arguments=True,
        input={"amount": 6},
        call="c2",
        at=1005.0,
    )
    assert await tested.gate.grants(ANN, 10, second.id) == [first]
    assert await tested.gate.grants("eve", 10) == []


async def test_a_grant_that_is_taken_back_is_asked_for_again(tested: GateInTest) -> None:
    await tested.open(asked())
    await tested.gate.settle(ANN, CHAT, "c1", YES._replace(scope="always"))
    [grant] = await tested.gate.grants(ANN, 10)
    with pytest.raises(NotFound, match="There is no such grant"):
        await tested.gate.revoke("eve", grant.id)
    assert (await tested.gate.decide(ANN, "other", "pay", ARGS, asks=True)).action == "allow"
    tested.clock.advance(60)
    await tested.gate.revoke(ANN, grant.id)
    assert (await tested.gate.decide(ANN, "other", "pay", ARGS, asks=True)).action == "ask"
    line = (await tested.lines())[-1]
    assert (line.at, line.actor, line.call, line.tool) == ("1970-01-01T00:17:40.000Z", ANN, "c1", "pay")
    assert (line.verdict, line.scope, line.outcome, line.input) == ("revoked", "always", "asks again", None)
    with pytest.raises(NotFound, match="There is no such grant"):
        await tested.gate.revoke(ANN, grant.id)
    assert len(await tested.gate.audit("eve", CHAT)) == 0


@pytest.mark.parametrize(
    ("chat", "what", "grant"),
    [
        (CHAT, "pay", Grant(tool="pay", scope="chat", chat=CHAT)),
        ("", "pay 0a1b", Grant(tool="pay", scope="always", same_arguments=True)),
    ],
)
async def test_a_grant_of_an_earlier_release(store: GateStore, chat: str, what: str, grant: Grant) -> None:
    tested = GateInTest(store)
    await store.grant(ANN, chat, what)
    [found] = await tested.gate.grants(ANN, 10)
    assert found == msgspec.structs.replace(grant, id=found.id)
    await tested.gate.revoke(ANN, found.id)
    assert (await tested.lines(chat))[-1].verdict == "revoked"
