"""Tools that the page executes: released once, answered once, and never run by the server."""

from typing import Any

import pytest
from google.adk.tools.long_running_tool import LongRunningFunctionTool

from adkwire import client_tool
from adkwire.adk.events import DENIED
from adkwire.gate.judge import REFUSED
from adkwire.testing import Call, Say, ScriptedModel
from tests.support.fixtures import Open
from tests.support.gated_tools import assert_history_matches, clock, tool_responses, where
from tests.support.pages import (
    FINISH_PENDING,
    FINISH_STEP,
    START,
    START_STEP,
    comparable_chunks,
    last_step,
    refusal,
    refused,
)

CLOCK = Call("clock", {"zone": "UTC"}, "c1")
WHERE = Call("where", {"exact": True}, "c1")
NOON = {"time": "noon"}
PARIS = {"city": "Paris"}


def withheld_chunks(tool: str, text: str) -> list[dict[str, Any]]:
    """Return the chunks of a browser call that is not offered to the browser yet."""
    return [
        {"type": "tool-input-start", "toolCallId": "c1", "toolName": tool},
        {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": text},
    ]


def offered_chunk(tool: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool-input-available", "toolCallId": "c1", "toolName": tool, "input": args}


def calling(call: Call) -> ScriptedModel:
    return ScriptedModel(turns=[[call], [Say("Done.")], [Say("Bye.")]])


async def test_a_call_without_approval_is_offered_to_the_browser_at_once(open_page: Open) -> None:
    model = calling(CLOCK)
    page = open_page(model, clock)
    offered = await page.say("what time is it?")
    assert comparable_chunks(page, offered) == [
        START,
        START_STEP,
        *withheld_chunks("clock", '{"zone":"UTC"}'),
        offered_chunk("clock", {"zone": "UTC"}),
        FINISH_STEP,
        FINISH_PENDING,
    ]
    [pending] = await page.pending()
    assert set(pending.pop("schema")["properties"]) == {"zone"}
    assert pending == {"toolCallId": "c1", "tool": "clock", "input": {"zone": "UTC"}, "kind": "client"}
    await assert_history_matches(page, model)
    answer = await page.give("c1", NOON).send()
    assert answer.text == "Done."
    assert answer.types.count("tool-input-available") == 0
    assert tool_responses(model.requests[-1]) == {"c1": NOON}
    await assert_history_matches(page, model)
    assert await page.audit() == [
        ("agent", "c1", "offered", "waiting"),
        ("ann", "c1", "answered", "waiting"),
        ("ann", "c1", "answered", "answered"),
    ]


async def test_a_gated_call_is_offered_to_the_browser_when_it_is_approved(open_page: Open) -> None:
    model = calling(WHERE)
    page = open_page(model, where)
    asked = await page.say("where am I?")
    assert comparable_chunks(page, asked) == [
        START,
        START_STEP,
        *withheld_chunks("where", '{"exact":true}'),
        {"type": "tool-approval-request", "approvalId": "ask c1", "toolCallId": "c1"},
        {"type": "data-approval", "id": "ask c1", "data": {"toolCallId": "c1", "scopes": ["once", "chat", "always"]}},
        FINISH_STEP,
        FINISH_PENDING,
    ]
    await assert_history_matches(page, model)
    approved = await page.approve("c1").send()
    assert comparable_chunks(page, approved) == [
        START,
        {"type": "tool-approval-response", "approvalId": "ask c1", "approved": True},
        offered_chunk("where", {"exact": True}),
        FINISH_PENDING,
    ]
    assert page.calls == {"c1": "input-available"}
    assert [pending["kind"] for pending in await page.pending()] == ["client"]
    assert len(model.requests) == 1
    await assert_history_matches(page, model)
    answer = await page.give("c1", PARIS).send()
    assert comparable_chunks(page, answer)[-6:] == last_step(1, "Done.")
    assert "tool-input-available" not in answer.types
    assert page.part("c1")["approval"]["approved"] is True
    assert tool_responses(model.requests[-1]) == {"c1": PARIS}
    await assert_history_matches(page, model)


async def test_approval_and_output_may_come_in_one_request(open_page: Open) -> None:
    model = calling(WHERE)
    page = open_page(model, where)
    await page.say("where am I?")
    answer = await page.approve("c1").give("c1", PARIS).send()
    assert answer.text == "Done."
    assert page.calls == {"c1": "output-available"}
    assert tool_responses(model.requests[-1]) == {"c1": PARIS}
    assert page.part("c1")["approval"]["approved"] is True
    await assert_history_matches(page, model)


async def test_an_output_without_a_verdict_counts_as_approval(open_page: Open) -> None:
    model = calling(WHERE)
    page = open_page(model, where)
    await page.say("where am I?")
    assert (await page.give("c1", PARIS).send()).text == "Done."
    assert tool_responses(model.requests[-1]) == {"c1": PARIS}
    await assert_history_matches(page, model)


async def test_a_gated_call_that_is_denied_never_reaches_the_browser(open_page: Open) -> None:
    model = calling(WHERE)
    page = open_page(model, where)
    await page.say("where am I?")
    answer = await page.deny("c1", reason="private").send()
    assert comparable_chunks(page, answer) == [
        START,
        {"type": "tool-approval-response", "approvalId": "ask c1", "approved": False, "reason": "private"},
        {"type": "tool-output-denied", "toolCallId": "c1"},
        *last_step(1, "Done."),
    ]
    assert tool_responses(model.requests[-1]) == {"c1": {"error": DENIED, "reason": "private"}}
    assert await refused(page.answer("c1", output=PARIS)) == (409, "This call was already answered.")
    await assert_history_matches(page, model)


@pytest.mark.parametrize("call", [CLOCK, WHERE])
async def test_outputs_and_approvals_are_taken_by_the_calls_route(open_page: Open, call: Call) -> None:
    model = calling(call)
    page = open_page(model, clock, where)
    await page.say("go")
    if call is WHERE:
        assert (await page.answer("c1", approved=True)).state == "offered"
        await page.reload()
        assert page.calls == {"c1": "input-available"}
    output = NOON if call is CLOCK else PARIS
    assert (await page.answer_and_follow("c1", output=output)).text == "Done."
    assert page.part("c1")["output"] == output
    assert tool_responses(model.requests[-1]) == {"c1": output}
    await assert_history_matches(page, model)


@pytest.mark.parametrize("approve", [False, True])
async def test_an_error_of_the_browser_reaches_the_model(open_page: Open, approve: bool) -> None:
    model = calling(WHERE if approve else CLOCK)
    page = open_page(model, clock, where)
    await page.say("go")
    if approve:
        await page.approve("c1").send()
    await page.fail("c1", "no GPS").send()
    assert (page.calls, page.part("c1")["errorText"]) == ({"c1": "output-error"}, "no GPS")
    assert tool_responses(model.requests[-1]) == {"c1": {"error": "no GPS"}}
    await assert_history_matches(page, model)


@pytest.mark.parametrize(
    ("output", "response"),
    [
        (None, {"result": None}),
        ("", {"result": ""}),
        (0, {"result": 0}),
        ([1, None], {"result": [1, None]}),
        ({}, {}),
        ({"error": "x", "more": 1}, {"error": "x", "more": 1}),
        ("日本 🗼", {"result": "日本 🗼"}),
    ],
)
async def test_any_output_reaches_model_and_history(open_page: Open, output: Any, response: Any) -> None:
    model = calling(Call("look", {}, "c1"))
    page = open_page(model, LongRunningFunctionTool(look))
    await page.say("go")
    assert (await page.give("c1", output).send()).text == "Done."
    assert tool_responses(model.requests[-1]) == {"c1": response}
    assert page.calls == {"c1": "output-available"}
    await assert_history_matches(page, model)


@pytest.mark.parametrize("output", ["noon", 12, None, [1, 2], {"result": "noon"}])
async def test_the_page_keeps_the_output_that_it_sent(open_page: Open, output: Any) -> None:
    """Neither the stream nor a reload changes the value that the page's own types describe."""
    model = calling(Call("look", {}, "c1"))
    page = open_page(model, LongRunningFunctionTool(look))
    await page.say("go")
    await page.give("c1", output).send()
    assert page.part("c1")["output"] == output
    await assert_history_matches(page, model)


async def look() -> None:
    """Look outside."""


async def test_a_plain_long_running_tool_of_adk_is_answered_by_an_output(open_page: Open) -> None:
    model = calling(Call("look", {}, "c1"))
    page = open_page(model, LongRunningFunctionTool(look))
    await page.say("go")
    assert (await page.pending())[0]["kind"] == "client"
    await page.answer_and_follow("c1", output={"sky": "blue"})
    assert tool_responses(model.requests[-1]) == {"c1": {"sky": "blue"}}
    await assert_history_matches(page, model)


async def test_an_output_of_the_wrong_type_is_refused_and_the_call_stays_pending(open_page: Open) -> None:
    model = calling(WHERE)
    page = open_page(model, where)
    await page.say("where am I?")
    await page.approve("c1").send()
    status, words = await refused(page.answer("c1", output={"city": 5}))
    assert status == 422
    assert words.startswith("This is not what where gives: ")
    tab = page.another_tab()
    assert refusal(await tab.give("c1", {"town": "Paris"}).send()).startswith("This is not what where gives: ")
    assert len(model.requests) == 1
    await assert_history_matches(page, model)
    assert (await page.give("c1", PARIS).send()).text == "Done."
    await assert_history_matches(page, model)


async def test_an_output_that_is_too_large_is_refused_and_the_call_stays_pending(open_page: Open) -> None:
    model = calling(CLOCK)
    page = open_page(model, clock, max_output_bytes=40)
    await page.say("what time is it?")
    assert await refused(page.answer("c1", output={"time": "x" * 40})) == (
        413,
        "The output of a browser tool may have at most 40 bytes.",
    )
    assert "at most 40 bytes" in refusal(await page.another_tab().give("c1", {"time": "x" * 40}).send())
    assert (await page.give("c1", NOON).send()).text == "Done."
    await assert_history_matches(page, model)


async def test_a_second_output_is_refused(open_page: Open) -> None:
    model = calling(CLOCK)
    page = open_page(model, clock)
    await page.say("what time is it?")
    tab = page.another_tab()
    await page.give("c1", NOON).send()
    assert await refused(page.answer("c1", output={"time": "midnight"})) == (409, "This call was already answered.")
    assert (await tab.give("c1", {"time": "midnight"}).send()).text == "Done."
    assert tool_responses(model.requests[-1]) == {"c1": NOON}
    await assert_history_matches(page, model)


async def test_an_output_with_a_forged_approval_id_is_refused(
    open_page: Open,
) -> None:
    model = calling(WHERE)
    page = open_page(model, where)
    await page.say("where am I?")
    tab = page.another_tab().give("c1", PARIS)
    part: Any = tab.messages[-1].parts[1]
    part.approval.id = "adk-forged"
    assert refusal(await tab.send()) == REFUSED
    assert [pending["kind"] for pending in await page.pending()] == ["approval"]
    assert len(model.requests) == 1


async def test_an_output_for_a_server_tool_is_refused(open_page: Open) -> None:
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    page = open_page(calling(Call("pay", {"amount": 1}, "c1")), pay)
    await page.say("pay")
    assert await refused(page.answer("c1", output="free")) == (404, REFUSED)
    assert page.part("c1")["output"] == {"result": "paid"}


def is_exact(exact: bool) -> bool:
    return exact


async def test_a_condition_decides_whether_a_browser_call_needs_approval(open_page: Open) -> None:
    @client_tool(require_confirmation=is_exact)
    def spot(exact: bool) -> Any:
        """Find the device."""

    model = ScriptedModel(turns=[[Call("spot", {"exact": False}, "c1"), Call("spot", {"exact": True}, "c2")]])
    page = open_page(model, spot)
    await page.say("go")
    assert page.calls == {"c1": "input-available", "c2": "approval-requested"}
    assert [(one["toolCallId"], one["kind"]) for one in await page.pending()] == [("c1", "client"), ("c2", "approval")]


async def test_an_approved_call_is_still_offered_after_a_reload(open_page: Open) -> None:
    model = calling(WHERE)
    page = open_page(model, where)
    await page.say("where am I?")
    await page.approve("c1").send()
    await page.reload()
    assert page.calls == {"c1": "input-available"}
    assert page.part("c1")["approval"]["approved"] is True
    await page.give("c1", PARIS).send()
    assert tool_responses(model.requests[-1]) == {"c1": PARIS}
    await assert_history_matches(page, model)
