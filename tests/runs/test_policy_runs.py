"""The policy decides which calls run, ask or are refused, whatever the tools declare."""

from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool

from adkwire import Policy, Rule
from adkwire.testing import Call, Say, ScriptedModel
from tests.support.fixtures import Make, Open
from tests.support.gated_tools import Till, assert_history_matches, clock, tool_responses, where
from tests.support.pages import Page, refused
from tests.support.payments import PAY

FORBIDDEN = "The policy of this server does not allow this call; it was not executed."


def calling(*calls: Call) -> ScriptedModel:
    return ScriptedModel(turns=[list(calls), [Say("Done.")]])


async def test_ask_gates_a_plain_function(open_page: Open) -> None:
    till, model = Till(), calling(PAY)
    page = open_page(model, till.plain, policy=Policy([Rule("pay", "ask", hint="Is that much right?")]))
    await page.say("pay")
    assert (page.calls, till.paid) == ({"c1": "approval-requested"}, [])
    data = next(part["data"] for part in page.last["parts"] if part["type"] == "data-approval")
    assert data["hint"] == "Is that much right?"
    assert (await page.pending())[0]["hint"] == "Is that much right?"
    await assert_history_matches(page, model)
    await page.approve("c1").send()
    assert till.paid == [5]
    assert tool_responses(model.requests[-1]) == {"c1": {"paid": 5}}
    await assert_history_matches(page, model)


async def test_a_call_that_the_policy_asks_about_can_be_denied(open_page: Open) -> None:
    till, model = Till(), calling(PAY)
    page = open_page(model, till.plain, policy=Policy(require_approval=["pay"]))
    await page.say("pay")
    await page.deny("c1").send()
    assert (page.calls, till.paid) == ({"c1": "output-denied"}, [])
    await assert_history_matches(page, model)


@pytest.mark.parametrize("declares", [True, False])
async def test_deny_refuses_a_call_also_if_the_tool_would_ask(open_page: Open, declares: bool) -> None:
    till, model = Till(), calling(PAY)
    tool = till.pay if declares else till.plain
    page = open_page(model, tool, policy=Policy(deny=["pa*"]))
    assert (await page.say("pay")).text == "Done."
    assert (page.part("c1")["state"], page.part("c1")["errorText"]) == ("output-error", FORBIDDEN)
    assert till.paid == []
    assert tool_responses(model.requests[-1]) == {"c1": {"error": FORBIDDEN}}
    assert await page.audit() == [("policy", "c1", "forbidden", "not executed")]
    assert await page.pending() == []
    await assert_history_matches(page, model)


async def test_the_reason_of_a_deny_reaches_model_and_page(open_page: Open) -> None:
    model = calling(PAY)
    page = open_page(model, Till().plain, policy=Policy([Rule("pay", "deny", reason="the till is closed")]))
    await page.say("pay")
    error = f"{FORBIDDEN} the till is closed"
    assert tool_responses(model.requests[-1]) == {"c1": {"error": error}}
    assert page.part("c1")["errorText"] == error
    await assert_history_matches(page, model)


async def test_allow_for_a_tool_that_declares_confirmation_runs_it_unasked(open_page: Open) -> None:
    till, model = Till(), calling(PAY)
    page = open_page(model, till.pay, policy=Policy(auto_approve=["pay"]))
    assert (await page.say("pay")).text == "Done."
    assert (page.calls, till.paid) == ({"c1": "output-available"}, [5])
    assert tool_responses(model.requests[-1]) == {"c1": {"paid": 5}}
    assert "tool-approval-request" not in [part["type"] for part in page.last["parts"]]
    [(actor, call, verdict, _)] = await page.audit()
    assert (actor, call, verdict) == ("policy", "c1", "allowed")
    await assert_history_matches(page, model)


async def test_rules_about_arguments_decide_for_each_call_of_a_step(open_page: Open) -> None:
    till = Till()
    calls = [Call("pay", {"amount": amount}, f"c{amount}") for amount in (5, 50, 500)]
    rules = [
        Rule("pay", "allow", when={"amount": {"le": 10}}),
        Rule("pay", "deny", when={"amount": {"gt": 100}}),
        Rule("pay", "ask"),
    ]
    model = calling(*calls)
    page = open_page(model, till.plain, policy=Policy(rules))
    await page.say("pay")
    assert page.calls == {"c5": "output-available", "c50": "approval-requested", "c500": "output-error"}
    assert till.paid == [5]
    await assert_history_matches(page, model)
    await page.approve("c50").send()
    assert till.paid == [5, 50]
    assert tool_responses(model.requests[-1]) == {"c5": {"paid": 5}, "c50": {"paid": 50}, "c500": {"error": FORBIDDEN}}
    await assert_history_matches(page, model)


async def test_rules_can_come_from_a_file(make: Make, tmp_path: Path) -> None:
    rules = tmp_path / "policy.toml"
    rules.write_text('[[rule]]\ntool = "pay"\naction = "ask"\nhint = "From the file"\n')
    page = Page(make(calling(PAY), Till().plain, policy=Policy.load(rules)))
    await page.say("pay")
    assert (await page.pending())[0]["hint"] == "From the file"


async def test_a_rule_that_cannot_judge_asks_rather_than_allows(open_page: Open) -> None:
    def wrong(args: dict[str, Any]) -> bool:
        return args["missing"] > 5

    till = Till()
    policy = Policy([Rule("pay", "allow", when=wrong), Rule("pay", "ask", when=wrong)])
    page = open_page(calling(PAY), till.plain, policy=policy)
    await page.say("pay")
    assert (page.calls, till.paid) == ({"c1": "approval-requested"}, [])


async def test_ask_gates_a_browser_tool(open_page: Open) -> None:
    model = calling(Call("clock", {"zone": "UTC"}, "c1"))
    page = open_page(model, clock, policy=Policy(require_approval=["clock"]))
    asked = await page.say("time?")
    assert "tool-input-available" not in asked.types
    assert page.calls == {"c1": "approval-requested"}
    released = await page.approve("c1").send()
    assert released.types.count("tool-input-available") == 1
    await page.give("c1", {"time": "noon"}).send()
    assert tool_responses(model.requests[-1]) == {"c1": {"time": "noon"}}
    await assert_history_matches(page, model)


async def test_allow_offers_a_gated_browser_tool_at_once(open_page: Open) -> None:
    model = calling(Call("where", {"exact": True}, "c1"))
    page = open_page(model, where, policy=Policy(auto_approve=["*"]))
    offered = await page.say("where?")
    assert offered.types.count("tool-input-available") == 1
    assert "tool-approval-request" not in offered.types
    await page.give("c1", {"city": "Paris"}).send()
    assert tool_responses(model.requests[-1]) == {"c1": {"city": "Paris"}}
    await assert_history_matches(page, model)


async def test_deny_keeps_a_call_from_the_browser(open_page: Open) -> None:
    model = calling(Call("where", {"exact": True}, "c1"))
    page = open_page(model, where, policy=Policy(deny=["where"]))
    answer = await page.say("where?")
    assert "tool-input-available" not in answer.types
    assert (answer.text, page.calls) == ("Done.", {"c1": "output-error"})
    status, _ = await refused(page.answer("c1", output={"city": "Paris"}))
    assert status == 404
    await assert_history_matches(page, model)


async def test_a_long_running_tool_of_the_server_runs_once_it_is_approved(open_page: Open) -> None:
    """Its body begins the work, so it has to run once it is approved. ADK cannot wait for its result then."""
    begun: list[str] = []

    def export(name: str) -> None:
        """Begin an export."""
        begun.append(name)

    model = calling(Call("export", {"name": "all"}, "c1"))
    page = open_page(model, LongRunningFunctionTool(export), policy=Policy(require_approval=["export"]))
    await page.say("export")
    assert begun == []
    assert (await page.approve("c1").send()).text == "Done."
    assert begun == ["all"]
    assert tool_responses(model.requests[-1]) == {"c1": {"status": "begun"}}
    assert await page.pending() == []
    assert (await page.audit())[-1][2:] == ("approved", "executed")
    await assert_history_matches(page, model)


async def test_a_tool_that_requests_confirmation_itself_is_asked_about_once(open_page: Open) -> None:
    till, model = Till(), calling(Call("haggle", {"amount": 9}, "c1"))
    page = open_page(model, till.haggle, policy=Policy([Rule("haggle", "ask", hint="First")]))
    await page.say("haggle")
    assert (await page.pending())[0]["hint"] == "First"
    await page.answer_and_follow("c1", approved=True, payload={"granted": 3})
    assert till.paid == [3]
    assert await page.pending() == []
    await assert_history_matches(page, model)


async def test_a_second_confirmation_request_of_a_tool_is_an_error(open_page: Open) -> None:
    """ADK has no second approval request for a call: model and page get an error."""
    asked: list[Any] = []

    def wire(amount: int, tool_context: Any) -> dict[str, Any]:
        """Transfer."""
        confirmation = tool_context.tool_confirmation
        asked.append(confirmation.payload if confirmation else None)
        if confirmation is None or not confirmation.payload:
            tool_context.request_confirmation(hint="Which account?", payload={"account": ""})
            return {"status": "asked"}
        return {"sent": amount}

    model = calling(Call("wire", {"amount": 9}, "c1"))
    page = open_page(model, wire)
    await page.say("wire")
    answer = await page.approve("c1").send()
    assert asked == [None, None]
    assert "tool-approval-request" not in answer.types
    assert page.calls == {"c1": "output-error"}
    assert "asked a second time" in page.part("c1")["errorText"]
    assert await page.pending() == []
    await assert_history_matches(page, model)


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")
@pytest.mark.parametrize(("action", "paid"), [("ask", []), ("deny", []), ("allow", [5])])
async def test_the_policy_applies_inside_of_an_agent_tool(open_page: Open, action: Any, paid: list[int]) -> None:
    till = Till()
    child_model = ScriptedModel(turns=[[PAY], [Say("The child is done.")]])
    child = LlmAgent(name="child", model=child_model, tools=[till.pay], description="Pays.")
    model = calling(Call("child", {"request": "pay"}, "a1"))
    page = open_page(model, AgentTool(child), policy=Policy([Rule("pay", action)]))
    assert (await page.say("pay")).text == "Done."
    assert till.paid == paid
    assert await page.pending() == []
    await assert_history_matches(page, model)


async def test_ask_gates_a_transfer_to_another_agent(open_page: Open) -> None:
    clerk_model = ScriptedModel(script=lambda _: [Say("The clerk is here.")])
    clerk = LlmAgent(name="clerk", model=clerk_model, description="Helps.")
    boss_model = ScriptedModel(script=lambda _: [Call("transfer_to_agent", {"agent_name": "clerk"}, "t1")])
    boss = LlmAgent(name="boss", model=boss_model, sub_agents=[clerk])
    page = open_page(boss, policy=Policy(require_approval=["transfer_to_agent"]))
    await page.say("the clerk, please")
    assert clerk_model.requests == []
    assert page.calls == {"t1": "approval-requested"}
    answer = await page.approve("t1").send()
    assert answer.text == "The clerk is here."
    assert await page.stored() == page.last
