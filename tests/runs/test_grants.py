"""Grants: which later and which pending calls an approval covers, for once, the chat or always."""

from typing import Any

import pytest

from adkwire import Policy, Rule
from adkwire.testing import Call, Say, ScriptedModel
from tests.support.chats import Chat
from tests.support.fixtures import Open
from tests.support.gated_tools import Till, assert_history_matches, tool_responses, where
from tests.support.pages import Page, refused


def payer(*amounts: int) -> ScriptedModel:
    """Return a model that pays one amount in each turn."""
    turns: list[list[Any]] = []
    for number, amount in enumerate(amounts, 1):
        turns += [[Call("pay", {"amount": amount}, f"c{number}")], [Say(f"Paid {amount}.")]]
    return ScriptedModel(turns=turns)


def only_call(page: Page) -> str:
    """Return the id of the only call of the last message."""
    [call] = page.calls
    return call


@pytest.mark.parametrize(("scope", "asks_again"), [("once", True), ("chat", False), ("always", False)])
async def test_the_scope_decides_whether_the_next_call_in_the_chat_asks(
    open_page: Open, scope: str, asks_again: bool
) -> None:
    till, model = Till(), payer(5, 6)
    page = open_page(model, till.pay)
    await page.say("pay 5")
    await page.answer_and_follow(only_call(page), approved=True, scope=scope)
    await page.say("pay 6")
    assert page.calls == {only_call(page): "approval-requested" if asks_again else "output-available"}
    assert till.paid == ([5] if asks_again else [5, 6])
    await assert_history_matches(page, model)


@pytest.mark.parametrize(("scope", "asks_again"), [("once", True), ("chat", True), ("always", False)])
async def test_the_scope_decides_whether_a_call_in_another_chat_asks(
    open_page: Open, scope: str, asks_again: bool
) -> None:
    till = Till()
    page = open_page(payer(5), till.pay)
    await page.say("pay 5")
    await page.answer_and_follow(only_call(page), approved=True, scope=scope)
    other = Page(Chat(page.bridge, "other"))
    await other.say("pay 5")
    assert other.calls == {only_call(other): "approval-requested" if asks_again else "output-available"}


async def test_a_grant_does_not_cover_another_user(open_page: Open) -> None:
    till = Till()
    page = open_page(payer(5), till.pay)
    await page.say("pay 5")
    await page.answer_and_follow(only_call(page), approved=True, scope="always")
    eve = Page(Chat(page.bridge, user="eve"))
    await eve.say("pay 5")
    assert eve.calls == {only_call(eve): "approval-requested"}
    assert till.paid == [5]


async def test_a_granted_call_is_in_the_audit(open_page: Open) -> None:
    page = open_page(payer(5, 6), Till().pay)
    await page.say("pay 5")
    await page.answer_and_follow(only_call(page), approved=True, scope="chat")
    await page.say("pay 6")
    actor, call, verdict, outcome = (await page.audit())[-1]
    assert (actor, call, verdict, outcome) == ("policy", only_call(page), "allowed", "granted; default")
    assert (await page.audit_entries())[-1].input == {"amount": 6}
    assert [line.scope for line in await page.audit_entries()] == ["once", "chat", "chat", "once"]


async def test_a_grant_approves_the_pending_calls_of_the_step(open_page: Open) -> None:
    till = Till()
    calls = [Call("pay", {"amount": amount}, f"c{amount}") for amount in (5, 6, 7)]
    model = ScriptedModel(turns=[calls, [Say("Done.")]])
    page = open_page(model, till.pay)
    await page.say("pay")
    answer = await page.answer_and_follow("c6", approved=True, scope="chat")
    assert answer.text == "Done."
    assert till.paid == [5, 6, 7]
    assert set(page.calls.values()) == {"output-available"}
    await assert_history_matches(page, model)


async def test_a_grant_for_always_approves_the_pending_calls_of_other_chats(open_page: Open) -> None:
    till, model = Till(), payer(5)
    page = open_page(model, till.pay)
    others = [Page(Chat(page.bridge, f"other-{number}")) for number in range(2)]
    eve = Page(Chat(page.bridge, user="eve"))
    for one in (page, *others, eve):
        await one.say("pay 5")
    async with page.chat_events() as events:
        await page.answer_and_follow(only_call(page), approved=True, scope="always")
        for one in others:
            await events.until("run-ended", chat=one.chat.id)
    assert till.paid == [5, 5, 5]
    for one in others:
        assert await one.pending() == []
        await one.reload()
        assert one.last["parts"][-1]["text"] == "Paid 5."
        await assert_history_matches(one, model)
    assert len(await eve.pending()) == 1


async def test_a_grant_for_the_chat_leaves_other_chats_pending(open_page: Open) -> None:
    till = Till()
    page = open_page(payer(5), till.pay)
    other = Page(Chat(page.bridge, "other"))
    await page.say("pay 5")
    await other.say("pay 5")
    await page.answer_and_follow(only_call(page), approved=True, scope="chat")
    assert len(await other.pending()) == 1
    assert till.paid == [5]


async def test_a_grant_approves_a_pending_browser_call(open_page: Open) -> None:
    calls = [Call("where", {"exact": True}, "w1"), Call("where", {"exact": False}, "w2")]
    model = ScriptedModel(turns=[calls, [Say("Done.")], [Call("where", {"exact": True}, "w3")], [Say("Again.")]])
    page = open_page(model, where)
    await page.say("where?")
    async with page.chat_events() as events:
        await page.answer("w1", approved=True, scope="chat")
        await events.until("call-settled", times=2)
    assert [(one["toolCallId"], one["kind"]) for one in await page.pending()] == [("w1", "client"), ("w2", "client")]
    await page.reload()
    assert page.calls == {"w1": "input-available", "w2": "input-available"}
    await page.give("w1", {"city": "Paris"}).give("w2", {"city": "France"}).send()
    assert tool_responses(model.requests[-1]) == {"w1": {"city": "Paris"}, "w2": {"city": "France"}}
    await assert_history_matches(page, model)
    await page.say("and now?")
    assert page.calls == {"w3": "input-available"}
    await assert_history_matches(page, model)


async def test_a_grant_for_the_same_arguments_does_not_cover_others(open_page: Open) -> None:
    till, model = Till(), payer(5, 5, 6)
    policy = Policy([Rule("pay", "ask", grant="same-arguments")])
    page = open_page(model, till.plain, policy=policy)
    await page.say("pay 5")
    await page.answer_and_follow(only_call(page), approved=True, scope="always")
    await page.say("pay 5")
    assert till.paid == [5, 5]
    await page.say("pay 6")
    assert page.calls == {only_call(page): "approval-requested"}
    assert till.paid == [5, 5]
    await assert_history_matches(page, model)


async def test_a_grant_for_the_same_arguments_does_not_cover_the_arguments_before_an_edit(open_page: Open) -> None:
    """A person who changed 5 into 4 has not approved payments of 5."""
    till, model = Till(), payer(5, 5)
    page = open_page(model, till.plain, policy=Policy([Rule("pay", "ask", grant="same-arguments")]))
    await page.say("pay 5")
    await page.answer_and_follow(only_call(page), approved=True, scope="always", args={"amount": 4})
    await page.say("pay 5")
    assert till.paid == [4]
    assert page.calls == {only_call(page): "approval-requested"}


async def test_a_rule_without_grants_allows_one_call_at_a_time(open_page: Open) -> None:
    till = Till()
    page = open_page(payer(5, 6), till.plain, policy=Policy([Rule("pay", "ask", grant="never")]))
    await page.say("pay 5")
    data = next(part["data"] for part in page.last["parts"] if part["type"] == "data-approval")
    assert data["scopes"] == ["once"]
    for scope in ("chat", "always"):
        status, words = await refused(page.answer(only_call(page), approved=True, scope=scope))
        assert (status, "only once at a time" in words) == (422, True)
    await page.answer_and_follow(only_call(page), approved=True)
    await page.say("pay 6")
    assert page.calls == {only_call(page): "approval-requested"}
    assert till.paid == [5]


async def test_a_grant_never_lifts_a_deny(open_page: Open) -> None:
    till, model = Till(), payer(5, 500)
    policy = Policy([Rule("pay", "deny", when={"amount": {"gt": 100}}, reason="too much"), Rule("pay", "ask")])
    page = open_page(model, till.plain, policy=policy)
    await page.say("pay 5")
    await page.answer_and_follow(only_call(page), approved=True, scope="always")
    await page.say("pay 500")
    assert (page.calls, till.paid) == ({"c2": "output-error"}, [5])
    assert tool_responses(model.requests[-1])["c2"]["error"].endswith("it was not executed. too much")
    await assert_history_matches(page, model)


async def test_a_deleted_chat_takes_its_grants_with_it(open_page: Open) -> None:
    till = Till()
    page = open_page(payer(5), till.pay)
    await page.say("pay 5")
    await page.answer_and_follow(only_call(page), approved=True, scope="chat")
    await page.bridge.delete("ann", "chat")
    again = Page(Chat(page.bridge))
    await again.say("pay 5")
    assert again.calls == {only_call(again): "approval-requested"}
    assert till.paid == [5]


async def test_a_grant_for_always_outlives_the_chat(open_page: Open) -> None:
    till = Till()
    page = open_page(payer(5), till.pay)
    await page.say("pay 5")
    await page.answer_and_follow(only_call(page), approved=True, scope="always")
    await page.bridge.delete("ann", "chat")
    await Page(Chat(page.bridge)).say("pay 5")
    assert till.paid == [5, 5]


@pytest.mark.parametrize("scope", ["chat", "always"])
async def test_a_grant_that_was_taken_back_asks_again(open_page: Open, scope: str) -> None:
    till = Till()
    page = open_page(payer(5, 6, 7), till.pay)
    await page.say("pay 5")
    await page.answer_and_follow(only_call(page), approved=True, scope=scope)
    await page.say("pay 6")
    [grant] = (await page.bridge.grants("ann", limit=10, before=None)).grants
    await page.bridge.revoke("ann", int(grant.id))
    await page.say("pay 7")
    assert page.calls == {only_call(page): "approval-requested"}
    assert till.paid == [5, 6]
