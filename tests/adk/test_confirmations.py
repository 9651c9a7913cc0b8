"""Calls that ask for approval: by their declaration, a condition or the body of the tool; in agents of all places."""

from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext

from adkwire.testing import Call, Say, ScriptedModel
from tests.support.fixtures import Open
from tests.support.gated_tools import Till, assert_history_matches, tool_responses
from tests.support.pages import Page
from tests.support.payments import PAY


def paying() -> ScriptedModel:
    return ScriptedModel(turns=[[Say("Paying. "), PAY], [Say("Done.")], [Say("Bye.")]])


async def test_a_tool_that_requests_its_own_confirmation_gets_the_payload(open_page: Open) -> None:
    till = Till()
    model = ScriptedModel(turns=[[Call("haggle", {"amount": 9}, "c1")], [Say("Done.")]])
    page = open_page(model, till.haggle)
    await page.say("haggle")
    data = next(part["data"] for part in page.last["parts"] if part["type"] == "data-approval")
    about = {"hint": "How much of 9?", "payload": {"granted": 0}}
    assert data == {**about, "toolCallId": "c1", "scopes": ["once"]}
    [pending] = await page.pending()
    assert (pending["hint"], pending["payload"], pending["kind"]) == (*about.values(), "approval")
    await assert_history_matches(page, model)
    await page.answer_and_follow("c1", approved=True, payload={"granted": 7})
    assert (till.payloads, till.paid) == ([{"granted": 7}], [7])
    assert page.part("c1")["output"] == {"paid": 7}
    await assert_history_matches(page, model)
    assert (await page.audit())[-1] == ("ann", "c1", "approved", "executed")


@pytest.mark.parametrize("approved", [True, False])
async def test_a_tool_that_requests_its_own_confirmation_and_a_stock_client(open_page: Open, approved: bool) -> None:
    till = Till()
    model = ScriptedModel(turns=[[Call("haggle", {"amount": 9}, "c1")], [Say("Done.")]])
    page = open_page(model, till.haggle)
    await page.say("haggle")
    await page.approve("c1", approved=approved).send()
    assert till.payloads == ([None] if approved else [])
    assert page.calls == {"c1": "output-available" if approved else "output-denied"}
    await assert_history_matches(page, model)


async def test_a_payload_reaches_a_tool_that_is_gated_from_outside(open_page: Open) -> None:
    seen: list[Any] = []

    def pay(amount: int, tool_context: ToolContext) -> str:
        """Pay."""
        seen.append(tool_context.tool_confirmation and tool_context.tool_confirmation.payload)
        return "paid"

    page = open_page(paying(), FunctionTool(pay, require_confirmation=True))
    await page.say("pay 5")
    await page.answer_and_follow("c1", approved=True, payload=[1, {"two": None}])
    assert seen == [[1, {"two": None}]]


def is_much(amount: int) -> bool:
    return amount > 100


@pytest.mark.parametrize(("amount", "asks"), [(5, False), (500, True)])
async def test_a_condition_decides_whether_a_call_asks(open_page: Open, amount: int, asks: bool) -> None:
    till = Till()
    tool = FunctionTool(till.plain, require_confirmation=is_much)
    model = ScriptedModel(turns=[[Call("pay", {"amount": amount}, "c1")], [Say("Done.")]])
    page = open_page(model, tool)
    await page.say("pay")
    assert page.calls == {"c1": "approval-requested" if asks else "output-available"}
    assert till.paid == ([] if asks else [amount])
    await assert_history_matches(page, model)


def broken(amount: int) -> bool:
    raise RuntimeError(f"no idea about {amount}")


async def test_a_condition_that_raises_lets_nothing_run(open_page: Open) -> None:
    """Nor does it ask: ADK calls it again before it lets an approved call run, so an approval could not help."""
    till, model = Till(), paying()
    page = open_page(model, FunctionTool(till.plain, require_confirmation=broken))
    assert (await page.say("pay 5")).text == "Paying. Done."
    assert (page.calls, till.paid) == ({"c1": "output-error"}, [])
    assert "could not be determined; it was not executed" in page.part("c1")["errorText"]
    await assert_history_matches(page, model)


async def test_a_gated_call_of_a_sub_agent_is_continued_by_the_sub_agent(open_page: Open) -> None:
    till = Till()
    clerk_model = ScriptedModel(script=lambda request: [Say("Done.")] if _has_response(request) else [PAY])
    clerk = LlmAgent(name="clerk", model=clerk_model, tools=[till.pay], description="Pays.")
    boss_model = ScriptedModel(script=lambda _: [Call("transfer_to_agent", {"agent_name": "clerk"}, "t1")])
    page = open_page(LlmAgent(name="boss", model=boss_model, sub_agents=[clerk]))
    await page.say("pay 5")
    assert page.calls["c1"] == "approval-requested"
    answer = await page.approve("c1").send()
    assert (answer.text, till.paid) == ("Done.", [5])
    await assert_history_matches(page, clerk_model)
    assert len(boss_model.requests) == 1


def _has_response(request: Any) -> bool:
    parts = [part for content in request.contents for part in content.parts or ()]
    return any(part.function_response and part.function_response.name == "pay" for part in parts)


# AgentTool passes plugins to its Runner in a way that ADK itself has deprecated.
child_runs = pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")


async def _in_a_child(open_page: Open, *tools: Any, calls: Call) -> tuple[Page, ScriptedModel]:
    child_model = ScriptedModel(turns=[[calls], [Say("The child is done.")]])
    child = LlmAgent(name="child", model=child_model, tools=list(tools), description="Works.")
    model = ScriptedModel(turns=[[Call("child", {"request": "pay"}, "a1")], [Say("Done.")]])
    page = open_page(model, AgentTool(child))
    await page.say("pay")
    assert page.last["parts"][-1]["text"] == "Done."
    await assert_history_matches(page, model)
    assert await page.pending() == []
    return page, child_model


@child_runs
async def test_a_gated_tool_inside_an_agent_tool_is_refused(open_page: Open) -> None:
    till = Till()
    _, child = await _in_a_child(open_page, till.pay, calls=PAY)
    assert till.paid == []
    [response] = tool_responses(child.requests[-1]).values()
    assert "an agent inside a tool cannot do; it was not executed" in response["error"]


@child_runs
async def test_an_inner_tool_that_requests_its_own_confirmation_executes_nothing(open_page: Open) -> None:
    till = Till()
    await _in_a_child(open_page, till.haggle, calls=Call("haggle", {"amount": 9}, "c1"))
    assert till.paid == []


@child_runs
async def test_a_plain_tool_inside_an_agent_tool_runs(open_page: Open) -> None:
    till = Till()
    await _in_a_child(open_page, till.plain, calls=PAY)
    assert till.paid == [5]
