"""ADK's real `Gemini` class through the whole server, against the emulator."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from adkwire.testing import (
    Call,
    Cite,
    GeminiEmulator,
    GeminiStep,
    HttpError,
    Quote,
    RunCode,
    Say,
    Show,
    StreamCall,
    Wait,
    assert_valid_stream,
)
from tests.server.app_server import PATIENCE, body
from tests.server.gemini_server import INLINE, NEWS, PAPER, PICTURE, GeminiServer, kinds, open_gemini_server
from tests.servers import serve
from tests.support.chats import plain, text_of, tool_parts
from tests.wire.pictures import data_url


@pytest.mark.parametrize("call", [Call("get_weather", {"city": "Oslo"}), StreamCall("get_weather", {"city": "Oslo"})])
async def test_a_tool_whose_call_has_no_id(gemini_server: GeminiServer, call: GeminiStep) -> None:
    page = gemini_server.chat([Say("Let me see. "), call], [Say("Sunny.")])
    await page.say("weather?")
    [part] = tool_parts(page.last)
    second = page.requests[1]
    assert (part["input"], part["output"]) == ({"city": "Oslo"}, {"city": "Oslo", "condition": "sunny"})
    assert text_of(page.last) == "Let me see. Sunny."
    [called] = [part for part in second.contents[-2]["parts"] if "functionCall" in part]
    [response] = second.contents[-1]["parts"]
    assert called["functionCall"] == {"name": "get_weather", "args": {"city": "Oslo"}}
    answered = {"name": "get_weather", "response": {"city": "Oslo", "condition": "sunny"}}
    assert response["functionResponse"] == answered


async def test_two_tools_at_once_with_ids(gemini_server: GeminiServer) -> None:
    calls = [Call("get_weather", {"city": city}, f"srv-{city}") for city in ("Oslo", "Rome")]
    page = gemini_server.chat(calls, [Say("Both sunny.")])
    await page.say("weather?")
    second = page.requests[1]
    assert [part["toolCallId"] for part in tool_parts(page.last)] == ["srv-Oslo", "srv-Rome"]
    assert [part["functionResponse"]["id"] for part in second.contents[-1]["parts"]] == ["srv-Oslo", "srv-Rome"]


@pytest.mark.parametrize("approved", [True, False])
async def test_a_call_that_asks_and_goes_on(gemini_server: GeminiServer, approved: bool) -> None:
    page = gemini_server.chat([Say("One moment. "), Call("pay", {"amount": 5}, "c1")], [Say("Done.")], [Say("Fine.")])
    asked = await page.say("pay 5")
    assert "tool-approval-request" in kinds(asked)
    assert (gemini_server.till.paid, len(page.requests)) == ([], 1)
    await page.answer("c1", approved=approved)
    assert gemini_server.till.paid == ([5] if approved else [])
    assert text_of(page.last) == "One moment. Done."
    await page.say("thanks")
    assert text_of(page.last) == "Fine."
    response = page.requests[1].contents[-1]["parts"][0]["functionResponse"]
    assert (response["id"], response["response"].get("paid")) == ("c1", 5 if approved else None)


async def test_a_waiting_call_that_is_typed_over_leaves_a_legal_request(gemini_server: GeminiServer) -> None:
    page = gemini_server.chat([Call("pay", {"amount": 5})], [Say("Never mind then.")])
    await page.say("pay 5")
    await page.say("no, wait")
    assert text_of(page.last) == "Never mind then."
    assert gemini_server.till.paid == []


async def test_pictures_in_and_out(gemini_server: GeminiServer) -> None:
    sent = {"type": "file", "mediaType": "image/png", "url": data_url(PICTURE), "filename": "me.png"}
    page = gemini_server.chat([Say("Here: "), Show("image/png", PICTURE)], [Say("Fine.")])
    chunks = await page.say("draw me", sent)
    files = [chunk for chunk in chunks if chunk["type"] == "file"]
    await page.say("and?")
    first, second = page.requests
    assert [(chunk["mediaType"], chunk["url"]) for chunk in files] == [("image/png", data_url(PICTURE))]
    assert first.contents[0]["parts"][-1]["inlineData"] == INLINE
    assert second.contents[1]["parts"][-1]["inlineData"] == INLINE


async def test_sources_and_code(gemini_server: GeminiServer) -> None:
    steps = [RunCode("1 + 1", "2"), Say("It is so."), Cite((NEWS,)), Quote((PAPER,))]
    page = gemini_server.chat(steps)
    chunks = await page.say("is it?")
    found = [(chunk["url"], chunk.get("title")) for chunk in chunks if chunk["type"] == "source-url"]
    assert [url for url, _ in found] == [NEWS.uri, PAPER.uri]
    assert found[0] == (NEWS.uri, NEWS.title)
    data = {chunk["type"]: chunk["data"] for chunk in chunks if chunk["type"].startswith("data-")}
    assert data["data-executable-code"] == {"language": "PYTHON", "code": "1 + 1"}
    assert data["data-code-execution-result"] == {"outcome": "OUTCOME_OK", "output": "2"}


async def test_the_words_of_an_error_but_not_the_key(tmp_path: Path) -> None:
    async with open_gemini_server(tmp_path, error_detail=True) as gemini_server:
        page = gemini_server.chat([HttpError(429, "RESOURCE_EXHAUSTED", "You have used up your quota.", retry_after=2)])
        chunks = await page.say()
    key = page.requests[0].headers["x-goog-api-key"]
    assert "You have used up your quota." in chunks[-1]["errorText"]
    assert key
    assert key not in json.dumps(chunks)


async def test_stop_closes_the_connection_of_a_model_that_is_not_paced(tmp_path: Path) -> None:
    async with open_gemini_server(tmp_path, events_per_second=0) as gemini_server:
        page = gemini_server.chat([Say("It goes on"), Wait(asyncio.Event())])
        await page.say_and_stop()
        assert text_of(page.last) == "It goes on"


def test_the_demo_in_a_process_of_its_own(tmp_path: Path) -> None:
    weather = Call("get_weather", {"location": "Oslo"})
    with GeminiEmulator([[weather], [Say("It is known.")], [Say("From Gemini itself.")]]) as gemini:
        environment = {**gemini.environment, "NO_PROXY": "127.0.0.1", "ADKWIRE_MODEL": "gemini-of-choice"}
        with serve("--db", "memory:", cwd=tmp_path, env=environment) as server:
            first = httpx.post(f"{server.url}/api/chat", json=body("weather in Oslo"), timeout=PATIENCE)
            second = httpx.post(f"{server.url}/api/gemini", json=body("really?", message_id="u2"), timeout=PATIENCE)
    assert text_of(plain(assert_valid_stream(first.text))) == "It is known."
    assert text_of(plain(assert_valid_stream(second.text))) == "From Gemini itself."
    assert {request.model for request in gemini.requests} == {"gemini-of-choice"}
    assert [bool(request.tools) for request in gemini.requests] == [True, True, False]
