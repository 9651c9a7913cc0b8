"""The emulator's Live API without ADK: JSON in, JSON out, and what is refused."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from adkwire.testing import Call, Cite, GeminiEmulator, GeminiLiveStep, Hear, LiveTurn, Say, Send, Sound, Source, Wait
from tests.testing.gemini.gemini_live_run import GEMINI_3, GEMINI_25, PATIENCE

PATH = "/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContent"
MANUAL: dict[str, Any] = {"realtimeInputConfig": {"automaticActivityDetection": {"disabled": True}}}
TEXT: dict[str, Any] = {"generationConfig": {"responseModalities": ["TEXT"]}}
HI: dict[str, Any] = {"realtime_input": {"text": "hi"}}
START: dict[str, Any] = {"realtime_input": {"activityStart": {}}}
END: dict[str, Any] = {"realtime_input": {"activityEnd": {}}}
SOUND: dict[str, Any] = {"realtime_input": {"audio": {"data": "-_8", "mime_type": "audio/pcm;rate=16000"}}}
SETUP_COMPLETE: dict[str, Any] = {"setupComplete": {}}


class Client:
    """A WebSocket client that sends and reads JSON."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, *messages: Any) -> None:
        for message in messages:
            await self._socket.send(message if isinstance(message, str) else json.dumps(message))

    async def read(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            return json.loads(await self._socket.recv())

    async def until(self, name: str) -> list[dict[str, Any]]:
        """Read until a message, or the content in it, has that name."""
        found = [await self.read()]
        while name not in found[-1] and name not in found[-1].get("serverContent", {}):
            found.append(await self.read())
        return found


@asynccontextmanager
async def connected(
    gemini: GeminiEmulator, model: str = GEMINI_3, *, path: str = PATH, key: str = "some key", **setup: Any
) -> AsyncGenerator[Client]:
    trust = gemini.model_kwargs["client_kwargs"]["http_options"].async_client_args["ssl"]
    address = gemini.base_url.replace("http://", "wss://") + path
    headers = {"x-goog-api-key": key} if key else {}
    async with connect(address, ssl=trust, additional_headers=headers, proxy=None, open_timeout=PATIENCE) as socket:
        client = Client(socket)
        await client.send({"setup": {"model": f"models/{model}", **setup}})
        yield client


def declared(*names: str, **more: Any) -> dict[str, Any]:
    return {"tools": [{"functionDeclarations": [{"name": name, **more} for name in names]}]}


def response(call: str, name: str = "f", **more: Any) -> dict[str, Any]:
    return {"tool_response": {"functionResponses": [{"id": call, "name": name, "response": {}, **more}]}}


def model_turn(part: dict[str, Any]) -> dict[str, Any]:
    return {"serverContent": {"modelTurn": {"role": "model", "parts": [part]}}}


async def test_a_turn_of_text() -> None:
    async with GeminiEmulator(live=[[Say("Hello you.")]]) as gemini, connected(gemini, **TEXT) as client:
        await client.send(HI)
        assert await client.until("turnComplete") == [
            SETUP_COMPLETE,
            model_turn({"text": "Hello "}),
            model_turn({"text": "you."}),
            {"serverContent": {"generationComplete": True}},
            {
                "serverContent": {"turnComplete": True},
                "usageMetadata": {"promptTokenCount": 3, "responseTokenCount": 2, "totalTokenCount": 5},
            },
        ]
    [session] = gemini.live.sessions
    assert (session.number, session.model, session.resumed) == (0, GEMINI_3, None)
    assert session.sent[1] == model_turn({"text": "Hello "})


async def test_a_turn_of_sound_without_transcripts() -> None:
    script: list[GeminiLiveStep] = [Hear("hello"), Sound(b"\xfb\xff", "Hi.")]
    async with GeminiEmulator(live=[script]) as gemini, connected(gemini, **MANUAL) as client:
        await client.send(START, SOUND, END)
        _, sent, *_ = await client.until("turnComplete")
        assert sent == model_turn({"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "+/8="}})
    [session] = gemini.live.sessions
    assert session.audio == b"\xfb\xff"
    assert [content["parts"] for content in session.contents] == [[{"text": "hello"}], [{"text": "Hi."}]]


async def test_sources_and_raw_bytes() -> None:
    script: list[GeminiLiveStep] = [Cite((Source("https://example.com/", "Example"),)), Send(b'{"any": "thing"}')]
    async with GeminiEmulator(live=[script]) as gemini, connected(gemini, **TEXT) as client:
        await client.send(HI)
        _, cited, raw, *_ = await client.until("turnComplete")
    page = {"web": {"uri": "https://example.com/", "title": "Example"}}
    assert cited == {"serverContent": {"groundingMetadata": {"groundingChunks": [page]}}}
    assert raw == {"any": "thing"}


@pytest.mark.parametrize("model", [GEMINI_25, GEMINI_3])
async def test_the_model_answers_when_all_responses_have_come(model: str) -> None:
    asked: list[LiveTurn] = []

    def script(turn: LiveTurn) -> list[GeminiLiveStep]:
        asked.append(turn)
        return [Say("Both.")] if turn.responses else [Call("f", id="a"), Call("f", id="b")]

    async with GeminiEmulator(live=script) as gemini, connected(gemini, model, **TEXT, **declared("f")) as client:
        await client.send(HI)
        *_, calls = await client.until("toolCall")
        assert [call["id"] for call in calls["toolCall"]["functionCalls"]] == ["a", "b"]
        await client.send(response("b"))
        await gemini.live.received("toolResponse")
        await client.send(response("a"))
        messages = await client.until("generationComplete")
        # A 2.5 model has ended its turn with the calls.
        assert ["turnComplete" in message["serverContent"] for message in messages] == (
            [True, False, False] if model == GEMINI_25 else [False, False]
        )
    assert [len(turn.responses) for turn in asked] == [0, 2]
    [session] = gemini.live.sessions
    roles = [content["role"] for content in session.contents]
    assert roles == ["user", "model", "user", "model"]


async def test_text_during_a_call_of_a_2_5_model_is_answered_with_the_response() -> None:
    asked: list[LiveTurn] = []

    def script(turn: LiveTurn) -> list[GeminiLiveStep]:
        asked.append(turn)
        return [Say("Well.")] if turn.responses else [Call("f", id="a")]

    more = {"client_content": {"turns": [{"role": "user", "parts": [{"text": "more"}]}], "turn_complete": True}}
    async with GeminiEmulator(live=script) as gemini, connected(gemini, GEMINI_25, **TEXT, **declared("f")) as client:
        await client.send(HI)
        await client.until("turnComplete")
        await client.send(more, response("a"))
        await client.until("turnComplete")
    assert [(turn.text, len(turn.responses)) for turn in asked] == [("hi", 0), ("more", 1)]
    kinds = [list(content["parts"][0]) for content in gemini.live.sessions[0].contents]
    assert kinds == [["text"], ["functionCall"], ["functionResponse"], ["text"], ["text"]]


@pytest.mark.parametrize(
    ("scheduling", "heard"),
    [
        ("WHEN_IDLE", ["On it.", "Done."]),
        ("INTERRUPT", ["On ", "Done."]),
        ("SILENT", ["On it.", "Yes."]),
    ],
)
async def test_a_call_that_it_does_not_wait_for(scheduling: str, heard: list[str]) -> None:
    go_on = asyncio.Event()

    def script(turn: LiveTurn) -> list[GeminiLiveStep]:
        if turn.number == 0:
            return [Call("f", id="a"), Say("On "), Wait(go_on), Say("it.")]
        return [Say("Yes.")] if turn.text else [Say("Done.")]

    setup = {**TEXT, **declared("f", behavior="NON_BLOCKING")}
    async with GeminiEmulator(live=script) as gemini, connected(gemini, **setup) as client:
        await client.send(HI)
        await client.until("modelTurn")
        await client.send(response("a", scheduling=scheduling))
        await gemini.live.received("toolResponse")
        if scheduling == "INTERRUPT":
            await client.until("interrupted")
        go_on.set()
        await client.until("turnComplete")
        if scheduling == "SILENT":
            await client.send(HI)
        await client.until("turnComplete")
    parts = [part for content in gemini.live.sessions[0].contents for part in content["parts"]]
    assert [part["text"] for part in parts if "text" in part and part["text"] != "hi"] == heard


async def test_a_2_5_model_completes_its_turn_with_a_call_that_it_does_not_wait_for() -> None:
    go_on = asyncio.Event()
    script: list[list[GeminiLiveStep]] = [[Call("f", id="a"), Say("On it."), Wait(go_on)], [Say("Done.")]]
    setup = {**TEXT, **declared("f", behavior="NON_BLOCKING")}
    async with GeminiEmulator(live=script) as gemini, connected(gemini, GEMINI_25, **setup) as client:
        await client.send(HI)
        called = await client.until("turnComplete")
        assert list(called[-2]) == ["toolCall"]
        await client.until("modelTurn")
        await client.send(response("a"))
        await gemini.live.received("toolResponse")
        go_on.set()
        sent = await client.until("turnComplete")
        assert model_turn({"text": "Done."}) not in sent
        assert model_turn({"text": "Done."}) in await client.until("turnComplete")


@pytest.mark.parametrize("model", [GEMINI_25, GEMINI_3])
async def test_a_turn_of_nothing_but_a_call_that_it_does_not_wait_for_is_completed_once(model: str) -> None:
    script: list[list[GeminiLiveStep]] = [[Call("f", id="a")], [Say("Done.")]]
    setup = {**TEXT, **declared("f", behavior="NON_BLOCKING")}
    async with GeminiEmulator(live=script) as gemini, connected(gemini, model, **setup) as client:
        await client.send(HI)
        await client.until("turnComplete")
        await client.send(response("a"))
        assert model_turn({"text": "Done."}) in await client.until("turnComplete")


async def test_speech_does_not_interrupt_when_the_setup_forbids_it() -> None:
    go_on = asyncio.Event()
    setup: dict[str, Any] = {
        "realtimeInputConfig": {**MANUAL["realtimeInputConfig"], "activityHandling": "NO_INTERRUPTION"}
    }
    script: list[list[GeminiLiveStep]] = [[Say("One "), Wait(go_on), Say("two.")], [Say("Yes?")]]
    async with GeminiEmulator(live=script) as gemini, connected(gemini, **TEXT, **setup) as client:
        await client.send(HI)
        await client.until("modelTurn")
        await client.send(START, SOUND, END)
        await gemini.live.received("activityEnd")
        go_on.set()
        first = await client.until("turnComplete")
        second = await client.until("turnComplete")
    assert model_turn({"text": "two."}) in first
    assert second[0] == model_turn({"text": "Yes?"})


async def test_a_handle_keeps_the_conversation_of_its_time() -> None:
    async with GeminiEmulator(live=[[Say("One.")], [Say("Two.")]]) as gemini:
        async with connected(gemini, **TEXT, sessionResumption={}) as client:
            await client.send(HI)
            await client.until("turnComplete")
            assert await client.read() == {"sessionResumptionUpdate": {"newHandle": "handle-2", "resumable": True}}
        for handle, number in (("handle-1", 0), ("handle-1", 0), ("handle-2", 2)):
            async with connected(gemini, **TEXT, sessionResumption={"handle": handle}) as client:
                await client.until("setupComplete")
                assert len(gemini.live.sessions[-1].contents) == number
                await client.send(HI)
                await client.until("turnComplete")
    assert [session.resumed for session in gemini.live.sessions[1:]] == ["handle-1", "handle-1", "handle-2"]


CALL: dict[str, Any] = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}


REFUSED: list[tuple[dict[str, Any], list[Any], int, str]] = [
    ({"model": "models/gemini-2.5-flash"}, [], 1008, "not supported for bidiGenerateContent"),
    ({"model": "models/mistral-live"}, [], 1008, "is not found"),
    ({"responseModalities": ["TEXT"]}, [], 1007, 'Unknown name "responseModalities"'),
    ({"generationConfig": {"responseModalities": ["TEXT", "AUDIO"]}}, [], 1007, "invalid argument"),
    ({"sessionResumption": {"handle": "other"}}, [], 1008, "session not found"),
    ({}, [{"setup": {"model": f"models/{GEMINI_3}"}}], 1007, "only the first"),
    ({}, ["{"], 1007, "Invalid JSON"),
    ({}, [{"toolResult": {}}], 1007, 'Unknown name "toolResult"'),
    ({}, [{"realtime_input": {"sound": {}}}], 1007, 'Unknown name "sound"'),
    ({}, [START], 1007, "automatic activity detection"),
    ({}, [END], 1007, "automatic activity detection"),
    ({}, [{"realtime_input": {"mediaChunks": []}}], 1007, "deprecated"),
    ({}, [{"realtime_input": {"audio": {"data": "*"}}}], 1007, "Base64"),
    ({}, [{"client_content": {"turns": [CALL]}}], 1007, "function response parts"),
    ({}, [{"client_content": {"turns": [{"role": "system", "parts": [{"text": "x"}]}]}}], 1007, "valid role"),
    ({}, [response("nobody's")], 1008, "nobody's"),
]


@pytest.mark.parametrize(("setup", "messages", "code", "words"), REFUSED)
async def test_what_is_refused(setup: dict[str, Any], messages: list[Any], code: int, words: str) -> None:
    async with GeminiEmulator(live=[[Say("Never.")]]) as gemini, connected(gemini, **setup) as client:
        await client.send(*messages)
        with pytest.raises(ConnectionClosed) as closed:
            await client.until("turnComplete")
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, words in closed.value.rcvd.reason) == (code, True)
        await gemini.live.received("closed")
    assert gemini.live.sessions[0].closed.is_set()


async def test_a_response_by_another_name() -> None:
    script = [[Call("f", id="a")]]
    async with GeminiEmulator(live=script) as gemini, connected(gemini, **declared("f")) as client:
        await client.send(HI)
        await client.until("toolCall")
        await client.send(response("a", "g"))
        with pytest.raises(ConnectionClosed, match="1007"):
            await client.read()


@pytest.mark.parametrize("options", [{"key": ""}, {"path": "//ws/elsewhere"}])
async def test_connections_that_are_refused(options: dict[str, str]) -> None:
    async with GeminiEmulator(live=[]) as gemini:
        with pytest.raises(InvalidStatus, match="403"):
            async with connected(gemini, **options):
                pass
    assert gemini.live.sessions == []


async def test_a_model_that_was_named() -> None:
    async with GeminiEmulator(live=[[Say("Hi.")]], models={"mine"}) as gemini, connected(gemini, "mine") as client:
        assert await client.read() == SETUP_COMPLETE


async def test_one_port_for_http_and_tls() -> None:
    body = {"contents": [{"parts": [{"text": "hi"}]}]}
    path = "/v1beta/models/gemini-2.5-flash:generateContent"
    async with GeminiEmulator(script=lambda _: [Say("Fine.")]) as gemini, connected(gemini) as client:
        trust = gemini.model_kwargs["client_kwargs"]["http_options"].async_client_args["ssl"]
        for address in (gemini.base_url, gemini.base_url.replace("http", "https")):
            async with httpx.AsyncClient(verify=trust, timeout=PATIENCE, trust_env=False) as plain:
                answer = await plain.post(address + path, json=body, headers={"x-goog-api-key": "some key"})
            assert answer.status_code == 200
        assert await client.read() == SETUP_COMPLETE


async def test_clients_that_send_nothing_or_reject_the_certificate_do_no_harm() -> None:
    async with GeminiEmulator(live=[[Say("Hi.")]]) as gemini:
        port = int(gemini.base_url.rpartition(":")[2])
        _, silent = await asyncio.open_connection("127.0.0.1", port)
        _, gone = await asyncio.open_connection("127.0.0.1", port)
        gone.close()
        async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False) as distrustful:
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE"):
                await distrustful.get(gemini.base_url.replace("http", "https"))
        async with connected(gemini) as client:
            assert await client.read() == SETUP_COMPLETE
    silent.close()
    await silent.wait_closed()
