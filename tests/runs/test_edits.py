"""Approvals with edited arguments: in the tool, the model's next request, history and the audit."""

from typing import Any

import pytest
from google.adk.tools.function_tool import FunctionTool

from adkwire import Policy, Rule
from adkwire.testing import Call
from tests.support.fixtures import Make, Open
from tests.support.gated_tools import Till, assert_history_matches, tool_responses, where
from tests.support.pages import Page, comparable_chunks, refused
from tests.support.payments import PAY, model_calling


def approval_data(page: Page) -> dict[str, Any]:
    """Return the `data-approval` part of the last message."""
    return next(part["data"] for part in page.last["parts"] if part["type"] == "data-approval")


async def test_edited_arguments_are_executed(open_page: Open) -> None:
    till, model = Till(), model_calling(PAY)
    page = open_page(model, till.pay)
    await page.say("pay 5")
    answer = await page.answer_and_follow("c1", approved=True, args={"amount": 4})
    assert till.paid == [4]
    edited = {"toolCallId": "c1", "scopes": ["once", "chat", "always"], "edited": {"amount": 4}}
    assert comparable_chunks(page, answer)[:4] == [
        {"type": "start"},
        {"type": "tool-approval-response", "approvalId": "ask c1", "approved": True},
        {"type": "data-approval", "id": "ask c1", "data": edited},
        {
            "type": "tool-output-available",
            "toolCallId": "c1",
            "output": {"paid": 4, "edited_arguments": {"amount": 4}},
        },
    ]
    assert page.part("c1")["input"] == {"amount": 5}
    await assert_history_matches(page, model)


async def test_the_model_reads_the_edited_arguments(open_page: Open) -> None:
    model = model_calling(PAY)
    page = open_page(model, Till().pay)
    await page.say("pay 5")
    await page.answer_and_follow("c1", approved=True, args={"amount": 4})
    assert tool_responses(model.requests[-1]) == {"c1": {"paid": 4, "edited_arguments": {"amount": 4}}}


async def test_edited_arguments_are_in_history(open_page: Open) -> None:
    page = open_page(model_calling(PAY), Till().pay)
    await page.say("pay 5")
    await page.answer_and_follow("c1", approved=True, args={"amount": 4})
    await page.reload()
    assert approval_data(page)["edited"] == {"amount": 4}
    assert page.part("c1")["input"] == {"amount": 5}


async def test_the_audit_has_original_and_edited_arguments(open_page: Open) -> None:
    page = open_page(model_calling(PAY), Till().pay)
    await page.say("pay 5")
    await page.answer_and_follow("c1", approved=True, args={"amount": 4})
    asked, *rest = await page.audit_entries()
    assert [(line.input, line.edited) for line in rest] == [({"amount": 5}, {"amount": 4})] * 2
    assert not asked.edited
    assert [line.outcome for line in rest] == ["waiting", "executed"]


async def test_an_edit_is_in_history_while_another_call_is_pending(open_page: Open) -> None:
    till, model = Till(), model_calling(PAY, Call("pay", {"amount": 6}, "c2"))
    page = open_page(model, till.pay)
    await page.say("pay")
    await page.answer("c1", approved=True, args={"amount": 4})
    await page.reload()
    assert page.calls == {"c1": "approval-responded", "c2": "approval-requested"}
    assert approval_data(page)["edited"] == {"amount": 4}
    await page.approve("c2").send()
    assert till.paid == [4, 6]
    await assert_history_matches(page, model)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"amount": "four"}, "'four' is not of type 'integer'"),
        ({}, "amount"),
        ({"amount": 4, "to": "eve"}, "to is not one of them"),
        ({"amount": 4.5}, "4.5"),
        ({"amount": None}, "None"),
    ],
)
async def test_edited_arguments_that_do_not_fit_are_refused_and_the_call_stays_pending(
    open_page: Open, args: Any, words: str
) -> None:
    till, model = Till(), model_calling(PAY)
    page = open_page(model, till.pay)
    await page.say("pay 5")
    status, message = await refused(page.answer("c1", approved=True, args=args))
    assert status == 422
    assert message.startswith("These arguments do not fit the tool: ")
    assert words in message
    assert (till.paid, len(await page.pending())) == ([], 1)
    await page.approve("c1").send()
    assert till.paid == [5]
    await assert_history_matches(page, model)


async def test_edited_arguments_that_the_policy_forbids_are_refused_and_the_call_stays_pending(open_page: Open) -> None:
    till = Till()
    page = open_page(model_calling(PAY), till.pay, policy=Policy([Rule("pay", "deny", when={"amount": {"gt": 100}})]))
    await page.say("pay 5")
    status, words = await refused(page.answer("c1", approved=True, args={"amount": 101}))
    assert (status, words) == (422, "The policy of this server does not allow these arguments.")
    await page.answer_and_follow("c1", approved=True, args={"amount": 100})
    assert till.paid == [100]


async def test_an_edit_cannot_set_the_tool_context(open_page: Open) -> None:
    till = Till()
    page = open_page(model_calling(Call("haggle", {"amount": 9}, "c1")), till.haggle)
    await page.say("haggle")
    status, _ = await refused(page.answer("c1", approved=True, args={"amount": 9, "tool_context": {}}))
    assert status == 422


async def test_a_tool_that_requests_confirmation_itself_gets_the_edited_arguments(open_page: Open) -> None:
    till = Till()
    model = model_calling(Call("haggle", {"amount": 9}, "c1"))
    page = open_page(model, till.haggle)
    await page.say("haggle")
    await page.answer_and_follow("c1", approved=True, args={"amount": 8}, payload={"granted": 7})
    assert till.paid == [7]
    assert tool_responses(model.requests[-1])["c1"]["edited_arguments"] == {"amount": 8}
    await assert_history_matches(page, model)


async def test_the_edit_is_added_to_a_result_that_is_no_object(open_page: Open) -> None:
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    model = model_calling(PAY)
    page = open_page(model, FunctionTool(pay, require_confirmation=True))
    await page.say("pay 5")
    await page.answer_and_follow("c1", approved=True, args={"amount": 4})
    assert tool_responses(model.requests[-1]) == {"c1": {"result": "paid 4", "edited_arguments": {"amount": 4}}}
    await assert_history_matches(page, model)


async def test_an_edited_call_that_raises_has_failed(open_page: Open) -> None:
    def pay(amount: int) -> str:
        """Pay."""
        raise RuntimeError(f"cannot pay {amount}")

    model = model_calling(PAY)
    page = open_page(model, FunctionTool(pay, require_confirmation=True), error_detail=True)
    await page.say("pay 5")
    await page.answer_and_follow("c1", approved=True, args={"amount": 4})
    assert page.calls == {"c1": "output-error"}
    assert "cannot pay 4" in page.part("c1")["errorText"]
    assert (await page.audit())[-1][2:] == ("approved", "failed")
    await assert_history_matches(page, model)


async def test_the_browser_gets_the_edited_arguments(open_page: Open) -> None:
    model = model_calling(Call("where", {"exact": True}, "c1"))
    page = open_page(model, where)
    await page.say("where?")
    async with page.chat_events() as events:
        call = await page.answer("c1", approved=True, args={"exact": False})
        assert call.state == "offered"
        await events.until("call-settled")
    await page.reload()
    assert page.part("c1")["input"] == {"exact": False}
    assert page.calls == {"c1": "input-available"}
    assert approval_data(page)["edited"] == {"exact": False}
    assert (await page.pending())[0]["input"] == {"exact": False}
    answer = await page.give("c1", {"city": "Paris"}).send()
    assert answer.text == "Done."
    assert tool_responses(model.requests[-1])["c1"]["city"] == "Paris"
    await assert_history_matches(page, model)


async def test_changed_arguments_from_a_stock_client_are_refused(open_page: Open) -> None:
    """It sends the arguments back, and they must be those of the call."""
    till = Till()
    page = open_page(model_calling(PAY), till.pay)
    await page.say("pay 5")
    tab = page.another_tab().approve("c1")
    part: Any = tab.messages[-1].parts[1]
    part.input = {"amount": 4}
    assert (await tab.send()).types == ["start", "error"]
    assert till.paid == []


async def test_after_a_restart_the_call_is_asked_again_and_the_last_edit_is_executed(make: Make) -> None:
    till, model = Till(), model_calling(PAY, Call("pay", {"amount": 6}, "c2"))
    page = Page(make(model, till.pay))
    await page.say("pay")
    await page.answer("c1", approved=True, args={"amount": 4})
    await page.bridge.close()
    page = page.after_restart(make(model, till.pay))
    await page.reload()
    # Verdicts that had not reached the agent are asked for again.
    assert page.calls == {"c1": "approval-requested", "c2": "approval-requested"}
    assert "edited" not in approval_data(page)
    await page.answer("c1", approved=True, args={"amount": 3})
    await page.answer_and_follow("c2", approved=True)
    assert till.paid == [3, 6]
    await page.reload()
    await assert_history_matches(page, model)


async def test_a_pending_call_has_what_a_form_needs(open_page: Open) -> None:
    page = open_page(model_calling(PAY, Call("where", {"exact": True}, "w1")), Till().pay, where)
    await page.say("pay 5")
    pay, place = await page.pending()
    assert (pay["toolCallId"], pay["scopes"]) == ("c1", ["once", "chat", "always"])
    assert pay["schema"]["properties"]["amount"]["type"] == "integer"
    assert pay["schema"]["required"] == ["amount"]
    schemas = {tool.name: tool.schema for tool in await page.bridge.tools()}
    assert (pay["schema"], place["schema"]) == (schemas["pay"], schemas["where"])
    assert (await page.bridge.history("ann", "chat")).retryable == [], "they wait, and may run once"


async def test_an_approved_browser_call_has_no_scopes_any_more(open_page: Open) -> None:
    page = open_page(model_calling(Call("where", {"exact": True}, "w1")), where)
    await page.say("where?")
    await page.answer("w1", approved=True)
    [place] = await page.pending()
    assert (place["kind"], "scopes" in place, "schema" in place) == ("client", False, True)
