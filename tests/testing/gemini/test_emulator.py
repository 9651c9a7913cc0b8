"""The emulator without ADK: HTTP requests in, Google's JSON out."""

import asyncio
import base64
import json
import signal
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
from google import genai
from google.adk.models import Gemini
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from adkwire.testing import (
    Block,
    Call,
    Cite,
    Cut,
    Finish,
    GeminiEmulator,
    GeminiRequest,
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
)
from tests.server.app_server import PATIENCE

KEY = {"x-goog-api-key": "some key"}
ASKED = {"contents": [{"role": "user", "parts": [{"text": "hello you"}]}]}
PAGE = Source("https://example.com/", "Example")


@asynccontextmanager
async def client_of(gemini: GeminiEmulator) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=gemini.base_url, headers=KEY, timeout=PATIENCE, trust_env=False, verify=False
    ) as client:
        yield client


@asynccontextmanager
async def emulated(*replies: Iterable[GeminiStep]) -> AsyncGenerator[tuple[GeminiEmulator, httpx.AsyncClient]]:
    async with GeminiEmulator(replies) as gemini, client_of(gemini) as client:
        yield gemini, client


def path(method: str = "streamGenerateContent?alt=sse", model: str = "gemini-2.5-flash") -> str:
    return f"/v1beta/models/{model}:{method}"


def chunks(body: str) -> list[dict[str, Any]]:
    *events, rest = body.split("\r\n\r\n")
    assert rest == ""
    return [json.loads(event.removeprefix("data: ")) for event in events]


async def streamed(*steps: GeminiStep) -> list[dict[str, Any]]:
    async with emulated(steps) as (_, client):
        response = await client.post(path(), json=ASKED)
    assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream")
    return chunks(response.text)


def parts(chunks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for chunk in chunks for part in chunk["candidates"][0]["content"].get("parts", ())]


async def test_a_stream_as_google_sends_it() -> None:
    assert await streamed(Say("Hello you.")) == [
        {
            "candidates": [{"content": {"role": "model", "parts": [{"text": "Hello "}]}, "index": 0}],
            "modelVersion": "gemini-2.5-flash",
            "responseId": "emulated-0",
        },
        {
            "candidates": [{"content": {"role": "model", "parts": [{"text": "you."}]}, "index": 0}],
            "modelVersion": "gemini-2.5-flash",
            "responseId": "emulated-0",
        },
        {
            "candidates": [{"content": {"role": "model"}, "index": 0, "finishReason": "STOP"}],
            "modelVersion": "gemini-2.5-flash",
            "responseId": "emulated-0",
            "usageMetadata": {"promptTokenCount": 2, "candidatesTokenCount": 2, "totalTokenCount": 4},
        },
    ]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Think("Hm. Well."), [{"text": "Hm. ", "thought": True}, {"text": "Well.", "thought": True}]),
        (Call("pay", {"to": "Ann"}), [{"functionCall": {"name": "pay", "args": {"to": "Ann"}}}]),
        (Call("pay", {}, "c1"), [{"functionCall": {"name": "pay", "args": {}, "id": "c1"}}]),
        (Show("image/png", b"\xfb\xff"), [{"inlineData": {"mimeType": "image/png", "data": "+/8="}}]),
        (
            RunCode("1 + 1", "2"),
            [
                {"executableCode": {"language": "PYTHON", "code": "1 + 1"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
            ],
        ),
        (
            StreamCall("pay", {"to": "Ann"}, "c1"),
            [
                {"functionCall": {"name": "pay", "id": "c1", "willContinue": True}},
                *(
                    {
                        "functionCall": {
                            "partialArgs": [{"jsonPath": "$.to", "stringValue": piece, "willContinue": True}],
                            "willContinue": True,
                        }
                    }
                    for piece in ("An", "n")
                ),
                {"functionCall": {}},
            ],
        ),
    ],
)
async def test_what_a_step_becomes(step: GeminiStep, expected: list[dict[str, Any]]) -> None:
    *answer, last = await streamed(step)
    assert parts(answer) == expected
    assert last["candidates"][0]["finishReason"] == "STOP"


async def test_sources() -> None:
    *_, last = await streamed(Cite((PAGE,)), Quote((PAGE,)), Say("It is so."))
    grounding = {"groundingChunks": [{"web": {"uri": PAGE.uri, "title": PAGE.title}}]}
    assert last["candidates"][0]["groundingMetadata"] == grounding
    assert last["candidates"][0]["citationMetadata"] == {"citationSources": [{"uri": PAGE.uri, "title": PAGE.title}]}


async def test_ends() -> None:
    assert [chunk["candidates"][0].get("finishReason") for chunk in await streamed()] == ["STOP"]
    _, last = await streamed(Say("x"), Finish("MAX_TOKENS", {"totalTokenCount": 9}))
    assert (last["candidates"][0]["finishReason"], last["usageMetadata"]) == ("MAX_TOKENS", {"totalTokenCount": 9})
    _, last = await streamed(Say("x"), Finish(None))
    assert "finishReason" not in last["candidates"][0]
    [blocked] = await streamed(Block("SAFETY", "No."))
    assert blocked["promptFeedback"] == {"blockReason": "SAFETY", "blockReasonMessage": "No."}
    assert "candidates" not in blocked


async def test_raw_bytes_and_json() -> None:
    async with emulated([Send(b"")], [Send(b"<html>")], [Send({"any": "thing"})]) as (_, client):
        bodies = [(await client.post(path(), json=ASKED)).text for _ in range(3)]
    assert bodies == ["", "<html>", 'data: {"any": "thing"}\r\n\r\n']


async def test_one_answer_without_a_stream() -> None:
    steps = (Think("Hm. "), Say("Hello you."), Call("pay", {}), Cite((PAGE,)), Finish("MAX_TOKENS"))
    async with emulated(steps) as (gemini, client):
        response = await client.post(path("generateContent"), json=ASKED)
    answer = response.json()
    assert gemini.requests[0].method == "generateContent"
    assert parts([answer]) == [
        {"text": "Hm. ", "thought": True},
        {"text": "Hello you."},
        {"functionCall": {"name": "pay", "args": {}}},
    ]
    assert answer["candidates"][0]["finishReason"] == "MAX_TOKENS"
    assert answer["candidates"][0]["groundingMetadata"]["groundingChunks"][0]["web"]["uri"] == PAGE.uri
    assert answer["usageMetadata"]["candidatesTokenCount"] == 4


async def test_raw_bytes_without_a_stream() -> None:
    async with emulated([Send(b"<html>")]) as (_, client):
        assert (await client.post(path("generateContent"), json=ASKED)).text == "<html>"


@pytest.mark.parametrize("method", ["streamGenerateContent?alt=sse", "generateContent"])
async def test_an_error(method: str) -> None:
    async with emulated([HttpError(429, "RESOURCE_EXHAUSTED", "Slow down.", retry_after=2)]) as (_, client):
        response = await client.post(path(method), json=ASKED)
    assert (response.status_code, response.headers["retry-after"]) == (429, "2")
    error = response.json()["error"]
    assert (error["code"], error["status"], error["message"]) == (429, "RESOURCE_EXHAUSTED", "Slow down.")
    assert error["details"] == [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"}]


async def test_an_error_in_mid_stream() -> None:
    text, error = await streamed(Say("x"), HttpError(503, "UNAVAILABLE"), Say("never"))
    assert parts([text]) == [{"text": "x"}]
    assert error == {"error": {"code": 503, "message": "emulated", "status": "UNAVAILABLE"}}


async def test_a_cut() -> None:
    async with emulated([Cut()], [Say("x"), Cut()], [Say("fine")]) as (gemini, client):
        with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
            await client.post(path(), json=ASKED)
        async with client.stream("POST", path(), json=ASKED) as response:
            body = response.aiter_text()
            assert parts(chunks(await anext(body))) == [{"text": "x"}]
            with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
                await anext(body)
        assert parts(chunks((await client.post(path(), json=ASKED)).text)) == [{"text": "fine"}]
    assert not any(request.gone.is_set() for request in gemini.requests)


async def test_a_reply_can_wait() -> None:
    gate = asyncio.Event()
    async with emulated([Say("a"), Wait(gate), Say("b")]) as (gemini, client):
        async with client.stream("POST", path(), json=ASKED) as response:
            lines = response.aiter_lines()
            assert '"text": "a"' in await anext(lines)
            gate.set()
            rest = [line async for line in lines if line]
        assert '"text": "b"' in rest[0]
        assert not gemini.requests[0].gone.is_set()


async def test_a_client_that_disconnects_sets_gone() -> None:
    async with emulated([Say("a"), Wait(asyncio.Event())]) as (gemini, client):
        async with client.stream("POST", path(), json=ASKED) as response:
            await anext(response.aiter_lines())
        async with asyncio.timeout(PATIENCE):
            await gemini.requests[0].gone.wait()


async def test_the_emulator_ends_while_a_reply_waits() -> None:
    emulator = GeminiEmulator([[Say("a"), Wait(asyncio.Event())]])
    async with AsyncExitStack() as stack:
        async with emulator as gemini:
            client = await stack.enter_async_context(client_of(gemini))
            response = await stack.enter_async_context(client.stream("POST", path(), json=ASKED))
            body = response.aiter_text()
            await anext(body)
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(body)


async def test_requests_are_converted_to_one_casing() -> None:
    body = {
        "contents": [{"parts": [{"inline_data": {"mime_type": "image/png", "data": "-_8"}}, {"text": "look"}]}],
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {"function_declarations": [{"name": "pay", "parameters_json_schema": {"properties": {"to_whom": {}}}}]}
        ],
    }
    async with emulated([]) as (gemini, client):
        await client.post(path(), json=body)
    [request] = gemini.requests
    inline = request.contents[0]["parts"][0]["inlineData"]
    assert inline == {"mimeType": "image/png", "data": "+/8="}
    assert base64.b64decode(inline["data"]) == b"\xfb\xff"
    assert request.body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert (request.text, request.tools) == ("look", ["pay"])
    schema = request.body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]
    assert schema == {"properties": {"to_whom": {}}}


async def test_a_script_answers_by_the_request() -> None:
    def script(request: GeminiRequest) -> list[GeminiStep]:
        return [Say(f"{request.number}: {request.text}")]

    async with GeminiEmulator(script=script) as gemini, client_of(gemini) as client:
        first = chunks((await client.post(path(), json=ASKED)).text)
        second = chunks((await client.post(path(), json=ASKED)).text)
    assert "".join(part["text"] for part in parts(first)) == "0: hello you"
    assert "".join(part["text"] for part in parts(second)) == "1: hello you"


async def test_one_request_more_than_replies() -> None:
    async with emulated() as (_, client):
        response = await client.post(path(), json=ASKED)
    assert response.status_code == 500
    assert "0 replies" in response.json()["error"]["message"]


def test_an_emulator_takes_replies_or_a_script() -> None:
    with pytest.raises(ValueError, match="either"):
        GeminiEmulator()
    with pytest.raises(ValueError, match="either"):
        GeminiEmulator([], script=lambda _: [])


CALL = {"functionCall": {"name": "f", "args": {}}}
RESPONSE = {"functionResponse": {"name": "f", "response": {}}}
TEXT = {"text": "x"}


def body_of(*turns: list[Any], roles: Sequence[str] = ()) -> dict[str, Any]:
    named = roles or ["model" if CALL in turn else "user" for turn in turns]
    return {"contents": [{"role": role, "parts": turn} for role, turn in zip(named, turns, strict=True)]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "contents is not specified"),
        (body_of([]), "must not be empty"),
        (body_of([{}]), "oneof field"),
        (body_of([{"inlineData": {"mimeType": "image/png", "data": "*"}}]), "oneof field"),
        (body_of([TEXT], roles=["assistant"]), "valid role"),
        (body_of([TEXT], [CALL]), "function response parts"),
        (body_of([TEXT], [CALL], [TEXT]), "function response parts"),
        (body_of([TEXT], [CALL, CALL], [RESPONSE]), "function response parts"),
        (body_of([TEXT], [RESPONSE]), "function response parts"),
    ],
)
async def test_contents_that_google_refuses(body: dict[str, Any], words: str) -> None:
    async with emulated([Say("never")]) as (_, client):
        response = await client.post(path(), json=body)
    assert (response.status_code, response.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert words in response.json()["error"]["message"]


async def test_contents_that_google_accepts() -> None:
    async with emulated([Say("fine")]) as (_, client):
        response = await client.post(path(), json=body_of([TEXT], [TEXT, CALL, CALL], [RESPONSE, RESPONSE], [TEXT]))
    assert response.status_code == 200


async def test_other_refusals() -> None:
    async with GeminiEmulator(script=lambda _: [Say("fine")], models={"mine"}) as gemini, client_of(gemini) as client:
        keyless = await client.post(path(model="mine"), json=ASKED, headers={"x-goog-api-key": ""})
        unknown = await client.post(path(), json=ASKED)
        elsewhere = await client.post("/v1beta/files", json=ASKED)
        no_post = await client.get(path(model="mine"))
        no_json = await client.post(path(model="mine"), content=b"{")
        fine = await client.post(path(model="mine"), json=ASKED)
    assert (keyless.status_code, keyless.json()["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert (unknown.status_code, unknown.json()["error"]["status"]) == (404, "NOT_FOUND")
    assert [each.status_code for each in (elsewhere, no_post, no_json, fine)] == [404, 404, 400, 200]


async def test_any_gemini_is_known_by_default() -> None:
    async with emulated([Say("fine")]) as (_, client):
        assert (await client.post(path(model="mistral"), json=ASKED)).status_code == 404


async def test_adks_own_gemini_class_uses_it() -> None:
    async with GeminiEmulator([[Think("Hm. "), Say("Hello you.")]]) as gemini:
        model = Gemini(model="gemini-2.5-flash", **gemini.model_kwargs)
        content = types.Content(role="user", parts=[types.Part(text="hi")])
        request = LlmRequest(model=model.model, contents=[content])
        *partial, whole = [response async for response in model.generate_content_async(request, stream=True)]
        await model.api_client.aio.aclose()
    assert [bool(response.partial) for response in (*partial, whole)] == [True] * 4 + [False]
    assert whole.content is not None
    assert [(part.text, part.thought) for part in whole.content.parts or ()] == [("Hm. ", True), ("Hello you.", None)]
    assert whole.model_version == "gemini-2.5-flash"


def test_without_a_loop() -> None:
    before = signal.getsignal(signal.SIGINT)
    with GeminiEmulator([[Say("Hello.")]]) as gemini:
        options = types.HttpOptions(base_url=gemini.base_url, client_args={"trust_env": False})
        with genai.Client(api_key="some key", enterprise=False, http_options=options) as client:
            assert client.models.generate_content(model="gemini-2.5-flash", contents="hi").text == "Hello."
        assert signal.getsignal(signal.SIGINT) is before
    assert gemini.requests[0].text == "hi"
