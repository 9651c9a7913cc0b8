"""Whatever Gemini answers, the stream and the chat are the same: with ADK's real `Gemini` class behind the agent, and
without the agent."""

import asyncio

import pytest

from adkwire.testing import Block, Cut, Finish, GeminiStep, HttpError, Say, Send, Think, Wait
from tests.server.gemini_server import DIRECT, GeminiServer, kinds, texts_sent
from tests.support.chats import text_of

pytestmark = pytest.mark.parametrize("api", ["/api/chat", DIRECT])
FINE: list[GeminiStep] = [Say("Fine.")]


async def test_text_and_thoughts(gemini_server: GeminiServer, api: str) -> None:
    page = gemini_server.chat([Think("Hm. "), Say("Hello you.")], FINE, api=api)
    chunks = await page.say("hi")
    assert kinds(chunks) == [
        *("start", "start-step", "reasoning-start", "reasoning-delta", "reasoning-end"),
        *("text-start", "text-delta", "text-delta", "text-end", "finish-step", "finish"),
    ]
    assert chunks[-1]["finishReason"] == "stop"
    metadata = page.last["metadata"]
    assert (metadata["modelVersion"], metadata["usage"]["outputTokens"]) == ("gemini-2.5-flash", 3)
    await page.say("and?")
    assert texts_sent(page) == [("user", "hi"), ("model", "Hello you."), ("user", "and?")]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content-filter"),
        ("RECITATION", "content-filter"),
        ("OTHER", "other"),
        (None, "stop"),
    ],
)
async def test_an_answer_that_google_ended_early(
    gemini_server: GeminiServer, api: str, reason: str | None, words: str
) -> None:
    page = gemini_server.chat([Say("It goes on and"), Finish(reason)], FINE, api=api)
    chunks = await page.say()
    assert text_of(page.last) == "It goes on and"
    assert (chunks[-1]["type"], chunks[-1]["finishReason"]) == ("finish", words)
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
async def test_no_answer_is_an_error(gemini_server: GeminiServer, api: str, steps: list[GeminiStep], code: str) -> None:
    page = gemini_server.chat(steps, FINE, api=api)
    chunks = await page.say("hi")
    assert kinds(chunks)[-1] == "error"
    assert code in chunks[-1]["errorText"]
    assert "could not answer" in chunks[-1]["errorText"]
    await page.say("again")
    assert texts_sent(page) == [("user", "hi"), ("user", "again")]


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (HttpError(503, "UNAVAILABLE"), "UNAVAILABLE"),
        (Send(b'data: {"error": {"code": 500, "status": "INTERNAL", "message": "x"}}\r\n\r\n'), "INTERNAL"),
        (Cut(), "RemoteProtocolError"),
        (Send(b"data: {nonsense\r\n\r\n"), "UnknownApiResponseError"),
    ],
)
async def test_what_was_said_before_an_error_is_kept(
    gemini_server: GeminiServer, api: str, step: GeminiStep, code: str
) -> None:
    page = gemini_server.chat([Say("It goes on"), step], FINE, api=api)
    chunks = await page.say("hi")
    assert (text_of(page.last), kinds(chunks)[-1]) == ("It goes on", "error")
    assert code in chunks[-1]["errorText"]
    await page.say("again")
    assert texts_sent(page) == [("user", "hi"), ("model", "It goes on"), ("user", "again")]


@pytest.mark.parametrize("steps", [[], [Send(b"")], [Think("Hm.")]], ids=["no parts", "no body", "only thoughts"])
async def test_an_empty_answer_ends(gemini_server: GeminiServer, api: str, steps: list[GeminiStep]) -> None:
    page = gemini_server.chat(steps, FINE, api=api)
    chunks = await page.say()
    assert (kinds(chunks)[-1], chunks[-1]["finishReason"], text_of(page.last)) == ("finish", "stop", "")
    await page.say("again")
    assert text_of(page.last) == "Fine."


async def test_stop_closes_the_connection_to_google(gemini_server: GeminiServer, api: str) -> None:
    page = gemini_server.chat([Say("It goes on"), Wait(asyncio.Event())], FINE, api=api)
    await page.say_and_stop("hi")
    assert text_of(page.last) == "It goes on"
    await page.say("go on")
    assert texts_sent(page) == [("user", "hi"), ("model", "It goes on"), ("user", "go on")]
