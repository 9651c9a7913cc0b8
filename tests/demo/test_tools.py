"""The tools of the demo agent through ADK, and what the offline model says after each outcome."""

from collections.abc import Sequence
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

from adkwire.demo import agent as demo
from adkwire.demo.offline_model import OfflineModel
from adkwire.demo.tools import change_bgm, get_location, get_timezone
from adkwire.gate.client_tool import ClientTool
from adkwire.gate.schemas import problem
from adkwire.testing import Call, Say, ScriptedModel
from tests.testing.agent_session import AgentSession, calls, results, texts

LOCATION = {"latitude": 35.681236789, "longitude": 139.767125, "accuracy": 18.4}
CLOCK = {"timezone": "Asia/Tokyo", "local_time": "2026-01-31T12:34:56+09:00"}
REFUSED = {"error": "The user refused this call.", "reason": "too much."}
EXPIRED = {"error": "Nobody answered in time; this call was not executed."}
WENT_ON = {"error": "The user went on before this call ran; it was not executed."}
SUPERSEDED = {"error": "The user went on without answering; this call was not executed."}
UNKNOWN = {"error": "This call did not finish; its outcome is unknown."}
DENIED = {"error": "User denied Geolocation"}


def demo_agent(outcome: dict[str, Any] | None = None) -> LlmAgent:
    """The demo agent without delays; with an outcome, every call ends with it."""
    agent = demo.build_agent({})
    assert isinstance(agent.model, OfflineModel)
    agent.model.delay = 0
    if outcome is not None:
        agent.before_tool_callback = lambda tool, args, tool_context: outcome
    return agent


def session(outcome: dict[str, Any] | None = None) -> AgentSession:
    return AgentSession(demo_agent(outcome), resumable=True)


def called(events: Sequence[Event]) -> list[tuple[str | None, dict[str, Any] | None]]:
    return [(call.name, call.args) for call in calls(events) if call.name != "adk_request_confirmation"]


def waiting(events: Sequence[Event]) -> list[types.FunctionCall]:
    ids = {call for event in events if not event.partial for call in event.long_running_tool_ids or ()}
    return [call for call in calls(events) if call.id in ids]


def response(call: types.FunctionCall, value: dict[str, Any]) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response=value))


def pay(amount: float, recipient: str) -> tuple[str, dict[str, Any]]:
    return "process_payment", {"amount": amount, "recipient": recipient}


SENTENCES: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
    ("weather in Tokyo", [("get_weather", {"location": "Tokyo"})]),
    ("東京の天気", [("get_weather", {"location": "Tokyo"})]),
    ("pay 50 to Hanako", [pay(50, "Hanako")]),
    ("花子に50ドル送金", [pay(50, "Hanako")]),
    ("pay 10 to Ann and 20 to Bob", [pay(10, "Ann"), pay(20, "Bob")]),
    ("where am I", [("get_location", {})]),
    ("今どこ", [("get_location", {})]),
    ("what time is it", [("get_timezone", {})]),
    ("何時", [("get_timezone", {})]),
    ("play track 1", [("change_bgm", {"track": 1})]),
    ("BGMを1に", [("change_bgm", {"track": 1})]),
    (
        "pay 5 to Eve, what time is it and weather in Paris",
        [pay(5, "Eve"), ("get_timezone", {}), ("get_weather", {"location": "Paris"})],
    ),
    ("draw a cat", [("draw", {"subject": "cat"})]),
]


@pytest.mark.parametrize(("sentence", "expected"), SENTENCES)
async def test_a_sentence_becomes_calls(sentence: str, expected: list[tuple[str, dict[str, Any]]]) -> None:
    assert called(await session().say(sentence)) == expected


@pytest.mark.parametrize("sentence", ["think about X", "count to 3", "cite", "anything else"])
async def test_a_sentence_that_needs_no_tool_calls_none(sentence: str) -> None:
    events = await session().say(sentence)
    assert called(events) == []
    assert texts(events)


async def test_the_agent_has_the_tools_and_asks_where_it_should() -> None:
    tools = {tool.name: tool for tool in await demo_agent().canonical_tools()}
    assert list(tools) == ["get_weather", "process_payment", "get_location", "change_bgm", "get_timezone", "draw"]
    assert isinstance(payment := tools["process_payment"], FunctionTool)
    context: Any = None  # these conditions look at nothing
    assert await payment.check_require_confirmation({}, context)
    in_browser = {name: await tool.asks({}, context) for name, tool in tools.items() if isinstance(tool, ClientTool)}
    assert in_browser == {"get_location": True, "change_bgm": True, "get_timezone": False}


def test_a_payment_is_never_granted_for_longer_than_once() -> None:
    decision = demo.POLICY.decide("process_payment", {"amount": 5, "recipient": "Eve"}, asks=True)
    assert (decision.action, decision.grant, decision.retry) == ("ask", "never", True)
    assert demo.POLICY.decide("get_location", {}, asks=True).grant == "tool"
    assert demo.POLICY.decide("get_weather", {"location": "Rome"}, asks=False).action == "allow"


def test_the_browser_tools_say_what_they_take_and_give() -> None:
    assert change_bgm.parameters["properties"]["track"] == {
        "enum": [0, 1],
        "type": "integer",
        "description": "Which of the two tracks to play.",
    }
    assert problem({"track": 2}, change_bgm.parameters)
    assert problem({"success": True, "track": 1}, change_bgm.output) is None
    assert problem(LOCATION, get_location.output) is None
    assert problem({"latitude": 1, "longitude": 2}, get_location.output) == "'accuracy' is a required property"
    assert problem(CLOCK, get_timezone.output) is None
    assert problem("noon", get_timezone.output)


async def approve(conversation: AgentSession, sentence: str) -> list[Event]:
    asks = waiting(await conversation.say(sentence))
    return await conversation.say(*(response(ask, {"confirmed": True}) for ask in asks))


async def test_a_payment_is_paid_after_the_approval() -> None:
    events = await approve(session(), "pay 50 to Hanako")
    [result] = results(events)
    assert result.response is not None
    transaction = result.response["transaction_id"]
    assert result.response == {
        "success": True,
        "amount": 50,
        "recipient": "Hanako",
        "currency": "USD",
        "transaction_id": transaction,
    }
    assert texts(events) == [f"I paid 50 USD to Hanako (transaction {transaction})."]


async def test_equal_payments_are_different_transactions() -> None:
    events = await approve(session(), "pay 5 to Eve and pay 5 to Eve")
    ids = {result.response["transaction_id"] for result in results(events) if result.response}
    assert len(ids) == 2


async def test_the_same_call_is_the_same_transaction() -> None:
    first, second = [await approve(_one_call(), "pay") for _ in range(2)]
    assert results(first)[0].response == results(second)[0].response


def _one_call() -> AgentSession:
    agent = demo_agent()
    payment = Call("process_payment", {"amount": 2.5, "recipient": "Eve"}, id="call-1")
    agent.model = ScriptedModel(turns=[[payment], [Say("Done.")]])
    return AgentSession(agent, resumable=True)


async def test_nothing_is_paid_for_no_money() -> None:
    events = await approve(session(), "pay 0 to Eve")
    assert results(events)[0].response == {
        "success": False,
        "error": "The amount must be more than 0, not 0. Nothing was paid.",
    }
    assert texts(events) == [
        "Sorry, I could not make the payment: The amount must be more than 0, not 0. Nothing was paid."
    ]


@pytest.mark.parametrize(
    ("sentence", "output", "expected"),
    [
        ("where am I", LOCATION, "You are at latitude 35.68124, longitude 139.76712, within 18 m."),
        ("今どこ", LOCATION, "現在地は緯度35.68124、経度139.76712です(誤差18 m)。"),
        ("where am I", DENIED, "Sorry, I could not find your location: User denied Geolocation."),
        ("今どこ", DENIED, "申し訳ありません、現在地の取得はできませんでした(User denied Geolocation)。"),
        ("where am I", {"error": "Timeout expired"}, "Sorry, I could not find your location: Timeout expired."),
        ("what time is it", CLOCK, "It is 12:34 where you are (Asia/Tokyo)."),
        ("何時", {**CLOCK, "local_time": "noon"}, "現在の時刻はnoonです(Asia/Tokyo)。"),
        ("play track 1", {"success": True, "track": 1}, "Track 1 is playing now."),
        ("BGMを0に", {"success": True, "track": 0}, "トラック0を再生しています。"),
        ("BGMを1に", {"success": False, "track": 1}, "申し訳ありません、BGMの変更はできませんでした。"),
    ],
)
async def test_the_browser_gives_the_result(sentence: str, output: dict[str, Any], expected: str) -> None:
    conversation = session()
    paused = await conversation.say(sentence)
    assert not results(paused)
    [call] = waiting(paused)
    assert texts(await conversation.say(response(call, output))) == [expected]


@pytest.mark.parametrize(
    ("sentence", "outcome", "expected"),
    [
        ("pay 5 to Eve", REFUSED, "You refused, so I did not make the payment (too much)."),
        ("花子に5ドル送金", REFUSED, "許可されなかったため、送金は行いませんでした(理由: too much)。"),
        ("where am I", {"error": REFUSED["error"]}, "You refused, so I did not find your location."),
        ("pay 5 to Eve", EXPIRED, "Nobody answered in time, so I did not make the payment."),
        ("花子に5ドル送金", EXPIRED, "時間内に回答がなかったため、送金は行いませんでした。"),
        ("play track 1", SUPERSEDED, "You went on without answering, so I did not change the music."),
        ("play track 1", WENT_ON, "You went on before it ran, so I did not change the music."),
        ("BGMを1に", WENT_ON, "実行前に会話が進んだため、BGMの変更は行いませんでした。"),
        ("BGMを1に", SUPERSEDED, "回答がないまま会話が進んだため、BGMの変更は行いませんでした。"),
        (
            "pay 5 to Eve",
            UNKNOWN,
            "I do not know whether I could make the payment: please check before you try again.",
        ),
        ("花子に5ドル送金", UNKNOWN, "送金が完了したかどうか分かりません。もう一度行う前に確認してください。"),
        ("pay 5 to Eve", {"error": "Not by this policy."}, "Sorry, I could not make the payment: Not by this policy."),
    ],
)
async def test_the_outcome_of_a_call_is_answered_in_one_sentence(
    sentence: str, outcome: dict[str, Any], expected: str
) -> None:
    assert texts(await session(outcome).say(sentence)) == [expected]


async def test_two_payments_may_end_differently() -> None:
    conversation = session()
    first, second = waiting(await conversation.say("pay 10 to Ann and 20 to Bob"))
    events = await conversation.say(response(first, {"confirmed": True}), response(second, {"confirmed": False}))
    [answer] = texts(events)
    assert answer.startswith("I paid 10 USD to Ann (transaction TX-")
    assert answer.endswith("). You refused, so I did not make the payment.")
