"""`POST /api/gemini`: the same stream and the same chat, without the agent."""

from pathlib import Path
from typing import Any

import pytest

from adkwire.testing import (
    Call,
    Cite,
    GeminiStep,
    Quote,
    RunCode,
    Say,
    Show,
    Think,
    assert_valid_stream,
)
from tests.server.app_server import assert_error, body
from tests.server.conftest import Open
from tests.server.gemini_server import (
    DIRECT,
    INLINE,
    NEWS,
    PAPER,
    PICTURE,
    GeminiServer,
    Page,
    kinds,
    open_gemini_server,
    texts_sent,
)
from tests.support.chats import plain, text_of
from tests.wire.pictures import data_url


def direct(gemini_server: GeminiServer, *replies: list[GeminiStep]) -> Page:
    return gemini_server.chat(*replies, api=DIRECT)


async def test_nothing_but_the_conversation_is_asked(gemini_server: GeminiServer) -> None:
    page = direct(gemini_server, [Think("Hm. "), Say("Hello you.")], [Say("Fine.")])
    await page.say("hi")
    assert page.last["metadata"]["author"] == "gemini"
    await page.say("and?")
    assert all(set(request.body) <= {"contents", "generationConfig"} for request in page.requests)


async def test_pictures_sources_and_code(gemini_server: GeminiServer) -> None:
    sent = {"type": "file", "mediaType": "image/png", "url": data_url(PICTURE), "filename": "me.png"}
    steps = [Say("Look: "), Show("image/png", PICTURE), RunCode("1 + 1", "2"), Cite((NEWS,)), Quote((PAPER,))]
    page = direct(gemini_server, steps, [Say("Fine.")])
    chunks = await page.say("draw me", sent)
    assert [chunk["url"] for chunk in chunks if chunk["type"] == "file"] == [data_url(PICTURE)]
    assert [chunk["url"] for chunk in chunks if chunk["type"] == "source-url"] == [NEWS.uri, PAPER.uri]
    assert {"data-executable-code", "data-code-execution-result"} < set(kinds(chunks))
    assert page.requests[0].contents[0]["parts"] == [{"text": "draw me"}, {"inlineData": INLINE}]
    await page.say("and?")
    asked, model_text, tool_text, _ = page.requests[1].contents
    assert asked["parts"] == [{"text": "draw me"}, {"inlineData": INLINE}]
    assert (model_text["role"], model_text["parts"]) == ("model", [{"text": "Look: "}])
    assert (tool_text["role"], tool_text["parts"][-1]) == ("user", {"inlineData": INLINE})
    assert (await page.stored())[0]["parts"][-1]["filename"] == "me.png"


async def test_model_and_agent_get_each_others_messages(gemini_server: GeminiServer) -> None:
    weather = Call("get_weather", {"city": "Oslo"}, "c1")
    page = gemini_server.chat([Say("Let me see."), weather], [Say("Sunny.")], [Say("Warm, then.")], [Say("Right.")])
    await page.say("weather?")
    page.api = DIRECT
    await page.say("so?")
    context = (
        'For context: the tool get_weather was called with {"city":"Oslo"} and gave '
        '{"city":"Oslo","condition":"sunny"}.'
    )
    assert texts_sent(page) == [
        ("user", "weather?"),
        ("model", "Let me see."),
        ("user", context),
        ("model", "Sunny."),
        ("user", "so?"),
    ]
    assert page.requests[-1].tools == []
    page.api = "/api/chat"
    await page.say("is that so?")
    assert page.last["metadata"]["author"] == "helper"
    [quoted] = [text for role, text in texts_sent(page) if role == "user" and "[gemini] said" in text]
    assert "Warm, then." in quoted
    assert await page.stored() == page.held


@pytest.mark.parametrize(
    ("approved", "words"),
    [(True, 'and gave {"paid":5}.'), (False, "; the user refused it.")],
    ids=["approved", "denied"],
)
async def test_the_model_gets_the_verdicts_of_a_person(gemini_server: GeminiServer, approved: bool, words: str) -> None:
    page = gemini_server.chat([Call("pay", {"amount": 5}, "c1")], [Say("Done.")], [Say("I see.")])
    await page.say("pay 5")
    await page.answer("c1", approved=approved)
    page.api = DIRECT
    await page.say("did it work?")
    role, model_text = texts_sent(page)[1]
    assert (role, model_text.startswith("For context: the tool pay was called"), model_text.endswith(words)) == (
        "user",
        True,
        True,
    )


async def test_a_call_that_waits_is_typed_over(gemini_server: GeminiServer) -> None:
    page = gemini_server.chat([Call("pay", {"amount": 5}, "c1")], [Say("As you like.")])
    await page.say("pay 5")
    page.api = DIRECT
    await page.say("never mind")
    assert "went on without answering" in texts_sent(page)[1][1]
    assert gemini_server.till.paid == []
    assert (await gemini_server.site.client.get(f"/api/chats/{page.id}")).json()["pending"] == []


async def test_answers_to_calls_do_not_belong_here(gemini_server: GeminiServer) -> None:
    page = gemini_server.chat([Call("pay", {"amount": 5}, "c1")], [Say("Done.")])
    await page.say("pay 5")
    part = page.last["parts"][-2]
    part |= {"state": "approval-responded", "approval": {**part["approval"], "approved": True}}
    response = await gemini_server.site.client.post("/api/gemini", json={"id": page.id, "messages": page.held})
    assert_error(response, 422)
    assert (gemini_server.till.paid, len(page.requests)) == ([], 1)


async def test_the_answer_is_made_again(gemini_server: GeminiServer) -> None:
    page = gemini_server.chat([Say("From the agent.")], [Say("From Gemini.")])
    await page.say("hi")
    again = {"id": page.id, "messages": page.held[:1], "trigger": "regenerate-message", "messageId": page.last["id"]}
    response = await gemini_server.site.client.post("/api/gemini", json=again)
    answer = plain(assert_valid_stream(response.text))
    assert text_of(answer) == "From Gemini."
    assert texts_sent(page) == [("user", "hi")]
    assert await page.stored() == [page.held[0], answer]


async def test_a_retried_message_is_asked_once(gemini_server: GeminiServer) -> None:
    page = direct(gemini_server, [Say("Once.")])
    request = page.body("hi")
    first = await gemini_server.site.client.post("/api/gemini", json=request)
    second = await gemini_server.site.client.post("/api/gemini", json=request)
    assert first.text == second.text
    assert len(page.requests) == 1


async def test_what_info_says(gemini_server: GeminiServer) -> None:
    info = (await gemini_server.site.client.get("/api/info")).json()
    assert info["gemini"] == {"model": "gemini-2.5-flash", "offline": False}
    assert "gemini" in info["modes"]


async def test_another_model_by_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKWIRE_MODEL", "gemini-of-choice")
    async with open_gemini_server(tmp_path) as gemini_server:
        page = direct(gemini_server, [Say("Fine.")])
        await page.say()
        assert page.requests[0].model == "gemini-of-choice"
        assert (await gemini_server.site.client.get("/api/info")).json()["gemini"]["model"] == "gemini-of-choice"


async def test_without_a_key_it_is_refused(open_site: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        monkeypatch.delenv(name, raising=False)
    site = await open_site()
    error = assert_error(await site.client.post("/api/gemini", json=body()), 503)
    assert "GOOGLE_API_KEY" in error["hint"]
    assert (await site.chats())["chats"] == []
    info: dict[str, Any] = (await site.client.get("/api/info")).json()
    assert (info["gemini"], "gemini" in info["modes"]) == (None, False)


async def test_the_same_limits_as_for_the_agent(gemini_server: GeminiServer) -> None:
    client = gemini_server.site.client
    assert_error(await client.post("/api/gemini", json={"id": "x"}), 422)
    assert_error(await client.post("/api/gemini", content=b"{", headers={"content-type": "application/json"}), 400)
    assert_error(await client.post("/api/gemini", json=body(), headers={"origin": "https://evil.example"}), 403)
