"""What a page had done and not sent when the user typed: it stands in the post of the next message."""

from adkwire.adk.events import SUPERSEDED
from adkwire.testing import Call, Say, ScriptedModel
from tests.support.fixtures import Open
from tests.support.gated_tools import assert_history_matches, tool_responses, where


async def test_an_output_for_a_call_that_nobody_has_approved_is_not_kept(open_page: Open) -> None:
    """It would be the approval too, and who types over a yes that was not sent has not given it."""
    model = ScriptedModel(turns=[[Call("where", {"exact": True}, "w1")], [Say("Never mind.")]])
    page = open_page(model, where)
    await page.say("go")
    page.give("w1", {"city": "Paris"})
    assert (await page.say("forget it")).text == "Never mind."
    assert tool_responses(model.requests[-1]) == {"w1": {"error": SUPERSEDED}}
    assert [line[2] for line in await page.audit()] == ["asked", "superseded"]
    await assert_history_matches(page, model)
