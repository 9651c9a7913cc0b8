"""ADK's real `Gemini` class through the whole server, against the emulator."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from adkwire.testing import (
    Block,
    Call,
    Cite,
    Cut,
    Finish,
    GeminiEmulator,
    GeminiStep,
    HttpError,
    Quote,
    RunCode,
    Say,
    Send,
    Show,
    Source,
    StreamCall,
    Think,
    Wait,
    assert_valid_stream,
)
from tests.runs.chats import plain, text_of, tool_parts
from tests.server.gemini_house import House, kinds, opened_house
from tests.server.sites import PATIENCE, body
from tests.servers import serve
from tests.wire.pictures import data_url, png

PICTURE = png(2, 2)
NEWS = Source("https://example.com/news", "News")
PAPER = Source("https://example.com/paper", "Paper")


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with opened_house(tmp_path_factory.mktemp("house")) as house:
        yield house


async def test_text_and_thoughts(house: House) -> None:
    page = house.chat([Think("Hm. "), Say("Hello you.")], [Say("Fine.")])
    chunks = await page.say("hi")
    assert kinds(chunks) == [
        "start",
        "start-step",
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "text-start",
        "text-delta",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ]
    assert chunks[-1]["finishReason"] == "stop"
    metadata = page.last["metadata"]
    assert (metadata["modelVersion"], metadata["usage"]["outputTokens"]) == ("gemini-2.5-flash", 3)
    await page.say("and?")
    request = page.requests[1]
    assert [content["role"] for content in request.contents] == ["user", "model", "user"]
    assert request.contents[1]["parts"][-1] == {"text": "Hello you."}


@pytest.mark.parametrize("call", [Call("get_weather", {"city": "Oslo"}), StreamCall("get_weather", {"city": "Oslo"})])
async def test_a_tool_whose_call_has_no_id(house: House, call: GeminiStep) -> None:
    page = house.chat([Say("Let me see. "), call], [Say("Sunny.")])
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


async def test_two_tools_at_once_with_ids(house: House) -> None:
    calls = [Call("get_weather", {"city": city}, f"srv-{city}") for city in ("Oslo", "Rome")]
    page = house.chat(calls, [Say("Both sunny.")])
    await page.say("weather?")
    second = page.requests[1]
    assert [part["toolCallId"] for part in tool_parts(page.last)] == ["srv-Oslo", "srv-Rome"]
    assert [part["functionResponse"]["id"] for part in second.contents[-1]["parts"]] == ["srv-Oslo", "srv-Rome"]


@pytest.mark.parametrize("approved", [True, False])
async def test_a_call_that_asks_and_goes_on(house: House, approved: bool) -> None:
    page = house.chat([Say("One moment. "), Call("pay", {"amount": 5}, "c1")], [Say("Done.")], [Say("Fine.")])
    asked = await page.say("pay 5")
    assert "tool-approval-request" in kinds(asked)
    assert (house.till.paid, len(page.requests)) == ([], 1)
    await page.answer("c1", approved=approved)
    assert house.till.paid == ([5] if approved else [])
    assert text_of(page.last) == "One moment. Done."
    await page.say("thanks")
    assert text_of(page.last) == "Fine."
    response = page.requests[1].contents[-1]["parts"][0]["functionResponse"]
    assert (response["id"], response["response"].get("paid")) == ("c1", 5 if approved else None)


async def test_a_waiting_call_that_is_typed_over_leaves_a_legal_request(house: House) -> None:
    page = house.chat([Call("pay", {"amount": 5})], [Say("Never mind then.")])
    await page.say("pay 5")
    await page.say("no, wait")
    assert text_of(page.last) == "Never mind then."
    assert house.till.paid == []


async def test_pictures_in_and_out(house: House) -> None:
    sent = {"type": "file", "mediaType": "image/png", "url": data_url(PICTURE), "filename": "me.png"}
    page = house.chat([Say("Here: "), Show("image/png", PICTURE)], [Say("Fine.")])
    chunks = await page.say("draw me", sent)
    shown = [chunk for chunk in chunks if chunk["type"] == "file"]
    await page.say("and?")
    first, second = page.requests
    inline = {"mimeType": "image/png", "data": base64.b64encode(PICTURE).decode()}
    assert [(chunk["mediaType"], chunk["url"]) for chunk in shown] == [("image/png", data_url(PICTURE))]
    assert first.contents[0]["parts"][-1]["inlineData"] == inline
    assert second.contents[1]["parts"][-1]["inlineData"] == inline


async def test_sources_and_code(house: House) -> None:
    steps = [RunCode("1 + 1", "2"), Say("It is so."), Cite((NEWS,)), Quote((PAPER,))]
    page = house.chat(steps)
    chunks = await page.say("is it?")
    found = [(chunk["url"], chunk.get("title")) for chunk in chunks if chunk["type"] == "source-url"]
    assert [url for url, _ in found] == [NEWS.uri, PAPER.uri]
    assert found[0] == (NEWS.uri, NEWS.title)
    data = {chunk["type"]: chunk["data"] for chunk in chunks if chunk["type"].startswith("data-")}
    assert data["data-executable-code"] == {"language": "PYTHON", "code": "1 + 1"}
    assert data["data-code-execution-result"] == {"outcome": "OUTCOME_OK", "output": "2"}


@pytest.mark.parametrize(
    ("reason", "told"),
    [("MAX_TOKENS", "length"), ("SAFETY", "content-filter"), ("RECITATION", "content-filter"), ("OTHER", "other")],
)
async def test_an_answer_that_google_ended_early(house: House, reason: str, told: str) -> None:
    page = house.chat([Say("It goes on and"), Finish(reason)], [Say("Fine.")])
    chunks = await page.say()
    assert text_of(page.last) == "It goes on and"
    assert (chunks[-1]["type"], chunks[-1].get("finishReason")) == ("finish", told)
    await page.say("go on")
    assert text_of(page.last) == "Fine."


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([Finish("MAX_TOKENS")], "MAX_TOKENS"),
        ([Finish("SAFETY")], "SAFETY"),
        ([Block("PROHIBITED_CONTENT", "This is not allowed.")], "PROHIBITED_CONTENT"),
        ([HttpError(400, "INVALID_ARGUMENT")], "INVALID_ARGUMENT"),
        ([HttpError(403, "PERMISSION_DENIED")], "PERMISSION_DENIED"),
        ([HttpError(404, "NOT_FOUND")], "NOT_FOUND"),
        ([HttpError(429, "RESOURCE_EXHAUSTED", retry_after=2)], "RESOURCE_EXHAUSTED"),
        ([HttpError(500, "INTERNAL")], "INTERNAL"),
        ([HttpError(503, "UNAVAILABLE")], "UNAVAILABLE"),
        ([Cut()], "RemoteProtocolError"),
        ([Send(b"<html>")], "UnknownApiResponseError"),
    ],
)
async def test_no_answer_is_told_as_an_error(house: House, steps: list[GeminiStep], code: str) -> None:
    page = house.chat(steps, [Say("Fine.")])
    chunks = await page.say()
    assert kinds(chunks)[-1] == "error"
    assert code in chunks[-1]["errorText"]
    assert "agent could not answer" in chunks[-1]["errorText"]
    await page.say("again")
    assert text_of(page.last) == "Fine."


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([HttpError(503, "UNAVAILABLE")], "UNAVAILABLE"),
        ([Send(b'data: {"error": {"code": 500, "status": "INTERNAL", "message": "x"}}\r\n\r\n')], "INTERNAL"),
        ([Cut()], "RemoteProtocolError"),
        ([Send(b"data: {nonsense\r\n\r\n")], "UnknownApiResponseError"),
    ],
)
async def test_what_was_said_before_an_error_is_kept(house: House, steps: list[GeminiStep], code: str) -> None:
    page = house.chat([Say("It goes on"), *steps], [Say("Fine.")])
    chunks = await page.say()
    assert text_of(page.last) == "It goes on"
    assert kinds(chunks)[-1] == "error"
    assert code in chunks[-1]["errorText"]
    await page.say("again")
    assert page.requests[1].contents[1]["parts"] == [{"text": "It goes on"}]


@pytest.mark.parametrize("steps", [[], [Send(b"")], [Think("Hm.")]], ids=["no parts", "no body", "only thoughts"])
async def test_an_empty_answer_ends(house: House, steps: list[GeminiStep]) -> None:
    page = house.chat(steps, [Say("Fine.")])
    chunks = await page.say()
    assert (kinds(chunks)[-1], chunks[-1]["finishReason"], text_of(page.last)) == ("finish", "stop", "")
    await page.say("again")
    assert text_of(page.last) == "Fine."


async def test_a_stream_that_just_ends(house: House) -> None:
    page = house.chat([Say("It goes on"), Finish(None)])
    chunks = await page.say()
    assert (text_of(page.last), chunks[-1]["type"]) == ("It goes on", "finish")


async def test_the_words_of_an_error_but_not_the_key(tmp_path: Path) -> None:
    async with opened_house(tmp_path, error_detail=True) as house:
        page = house.chat([HttpError(429, "RESOURCE_EXHAUSTED", "You have used up your quota.", retry_after=2)])
        chunks = await page.say()
    key = page.requests[0].headers["x-goog-api-key"]
    assert "You have used up your quota." in chunks[-1]["errorText"]
    assert key
    assert key not in json.dumps(chunks)


@pytest.mark.parametrize("rate", [0, 30])
async def test_stop_closes_the_connection_to_google(tmp_path: Path, rate: float) -> None:
    async with opened_house(tmp_path, events_per_second=rate) as house:
        page = house.chat([Say("It goes on"), Wait(asyncio.Event())], [Say("Fine.")])
        await page.say_and_stop()
        assert text_of(page.last) == "It goes on"
        await page.say("go on")
        assert text_of(page.last) == "Fine."


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
