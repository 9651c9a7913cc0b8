"""A server that replays a recording: over HTTP and over the socket, at each speed."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from adkwire.recording.files import load_recording
from adkwire.recording.replay import ReplayBackend, Speed
from adkwire.server.replay import create_replay_app
from adkwire.settings import Settings
from adkwire.testing import Call, Say, ScriptedModel, assert_valid_stream
from adkwire.wire.chunks import Chunk, decode_chunk
from adkwire.wire.decode.decoder import TurnInput, UserMessage
from adkwire.wire.recording_lines import Recording, read_recording
from tests.server.app_server import Site, assert_error, body, chunks, events, message, opened, serving
from tests.server.sockets.socket_client import chunks_of, open_socket, resume_frame, send_frame
from tests.support.fixtures import leaked_since

StartReplay = Callable[..., Awaitable[Site]]
CANARY = "canary-0123456789-abcdef"


def chunk_line(sequence: int, chunk: dict[str, Any], at: int) -> str:
    common = {"chat": "kept", "mode": "sse", "location": "server-chunk", "direction": "out"}
    return json.dumps({"timestamp": at, **common, "sequence": sequence, "chunk": chunk})


def run_lines(message_id: str, *rest: dict[str, Any], at: int = 0, pause: int = 0) -> list[str]:
    recorded = [{"type": "start", "messageId": message_id}, {"type": "start-step"}, *rest]
    return [chunk_line(n, chunk, at + n * pause) for n, chunk in enumerate(recorded)]


def text_and_end(words: str) -> list[dict[str, Any]]:
    deltas = [{"type": "text-delta", "id": "1", "delta": word} for word in words.split()]
    return [{"type": "text-start", "id": "1"}, *deltas, {"type": "text-end", "id": "1"}, *END]


END: list[dict[str, Any]] = [{"type": "finish-step"}, {"type": "finish", "messageMetadata": {}}]
CALL = {"type": "tool-input-available", "toolCallId": "c1", "toolName": "pay", "input": {"amount": 5}}
ASK = {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"}
PAID = {"type": "tool-output-available", "toolCallId": "c1", "output": {"paid": 5}}
LINES = [
    *run_lines("m1", *text_and_end("one two")),
    *run_lines("m2", CALL, ASK, *END),
    chunk_line(0, {"type": "start", "messageId": "m2"}, 0),
    chunk_line(1, PAID, 0),
    *[chunk_line(n, chunk, 0) for n, chunk in enumerate([{"type": "start-step"}, *text_and_end("paid")], 2)],
    *run_lines("m3", *text_and_end("three")),
]
RECORDING = read_recording("\n".join([*LINES, ""]).encode())


@pytest.fixture
async def start_replay() -> AsyncIterator[StartReplay]:
    """Start servers that replay a recording."""
    before = asyncio.all_tasks()
    async with AsyncExitStack() as stack:

        async def build(recording: Recording = RECORDING, speed: Speed = "fast", **options: Any) -> Site:
            settings = Settings.load(**{"db": "memory:", "ui": False, "chats_per_minute": 0, **options})
            app = create_replay_app(recording, settings, speed)
            stack.push_async_callback(app.state.bridge.close)
            return await stack.enter_async_context(serving(app))

        yield build
    assert not leaked_since(before)


async def say(site: Site, words: str = "hello", message_id: str = "u1", chat: str = "chat") -> httpx.Response:
    return await site.client.post("/api/chat", json=body(words, chat=chat, message_id=message_id))


def approved(chat: str = "chat", message_id: str = "m2") -> dict[str, Any]:
    part = {"type": "tool-pay", "toolCallId": "c1", "state": "approval-responded", "input": {"amount": 5}}
    answer = {**part, "approval": {"id": "a1", "approved": True}}
    last = {"id": message_id, "role": "assistant", "parts": [{"type": "step-start"}, answer]}
    return {"id": chat, "trigger": "submit-message", "messages": [message(), last], "messageId": message_id}


def decoded(found: list[dict[str, Any]]) -> list[Chunk]:
    return [decode_chunk(json.dumps(chunk).encode()) for chunk in found]


@asynccontextmanager
async def begun(site: Site, sent: dict[str, Any]) -> AsyncGenerator[httpx.Response]:
    """Begin a turn; at speed `step` no chunk of it is sent yet."""
    async with site.client.stream("POST", "/api/chat", json=sent) as response:
        assert response.status_code == 200
        yield response


async def steps(site: Site, times: int) -> None:
    for _ in range(times):
        assert (await site.client.post("/api/replay/step")).status_code == 200


def kinds(recorded: int) -> list[str]:
    return [json.loads(entry)["type"] for entry in RECORDING.runs[recorded].entries]


async def test_each_turn_gets_the_next_answer(start_replay: StartReplay) -> None:
    site = await start_replay()
    first = chunks((await say(site)).text)
    assert first == [json.loads(entry) for entry in RECORDING.runs[0].entries]
    assert_valid_stream(decoded(first))
    asked = chunks((await say(site, "pay", "u2")).text)
    assert [chunk["type"] for chunk in asked] == kinds(1)
    continuation = chunks((await site.client.post("/api/chat", json=approved())).text)
    assert [chunk["type"] for chunk in continuation] == kinds(2)
    assert continuation[0]["messageId"] == asked[0]["messageId"] == "m2"
    assert [chunk["type"] for chunk in chunks((await say(site, "more", "u3")).text)] == kinds(3)
    assert_error(await say(site, "even more", "u4"), 409, "conflict")


async def test_every_chat_begins_at_the_beginning(start_replay: StartReplay) -> None:
    site = await start_replay()
    for chat in ("one", "two", "kept"):
        assert chunks((await say(site, chat=chat)).text)[0]["messageId"] == "m1"


async def test_a_repeated_request_gets_the_same_answer(start_replay: StartReplay) -> None:
    site = await start_replay()
    first, again = await say(site), await say(site)
    assert first.text == again.text
    assert first.headers["x-adkwire-run"] == again.headers["x-adkwire-run"]


async def test_a_message_instead_of_an_answer_leaves_out_the_continuation(start_replay: StartReplay) -> None:
    site = await start_replay()
    await say(site)
    await say(site, "pay", "u2")
    assert chunks((await say(site, "never mind", "u3")).text)[0]["messageId"] == "m3"


async def test_an_answer_without_a_recorded_continuation_is_refused(start_replay: StartReplay) -> None:
    site = await start_replay()
    assert_error(await site.client.post("/api/chat", json=approved()), 409)
    await say(site)
    assert_error(await site.client.post("/api/chat", json=approved(message_id="m1")), 409)


async def test_history_and_chat_list(start_replay: StartReplay) -> None:
    site = await start_replay()
    assert [chat["id"] for chat in (await site.chats())["chats"]] == ["kept"]
    assert (await site.client.get("/api/chats/kept")).json()["messages"] == []
    assert_error(await site.client.get("/api/chats/other"), 404)
    await say(site, "hello", chat="kept")
    await say(site, "pay", "u2", chat="kept")
    history = (await site.client.get("/api/chats/kept")).json()
    assert history["title"] == "hello"
    assert [(one["id"], one["role"]) for one in history["messages"]] == [
        *(("u1", "user"), ("m1", "assistant"), ("u2", "user"), ("m2", "assistant"))
    ]
    assert history["pending"] == [
        {"toolCallId": "c1", "tool": "pay", "input": {"amount": 5}, "kind": "approval", "approvalId": "a1"}
    ]
    assert (history["active"], (await site.chats())["chats"][0]["pending"]) == (None, 1)


async def test_an_answer_by_the_calls_route(start_replay: StartReplay) -> None:
    site = await start_replay()
    await say(site)
    await say(site, "pay", "u2")
    assert_error(await site.client.post("/api/chat/chat/calls/c2", json={"approved": True}), 404)
    answer = await site.client.post("/api/chat/chat/calls/c1", json={"approved": True})
    assert (answer.status_code, answer.json()) == (202, {"state": "answered"})
    assert_error(await site.client.post("/api/chat/chat/calls/c1", json={"approved": True}), 404)
    await site.client.get("/api/chat/chat/stream")  # to its end, if that has not come
    history = (await site.client.get("/api/chats/chat")).json()
    assert [part["type"] for part in history["messages"][-1]["parts"]] == [
        "step-start",
        "tool-pay",
        "step-start",
        "text",
    ]


async def test_one_chunk_for_each_step(start_replay: StartReplay) -> None:
    site = await start_replay(speed="step")
    assert_error(await site.client.post("/api/replay/step"), 409)
    async with site.client.stream("POST", "/api/chat", json=body()) as response:
        lines = response.aiter_lines()
        run_id = response.headers["x-adkwire-run"]
        for number, kind in enumerate(kinds(0)):
            step = (await site.client.post("/api/replay/step")).json()
            assert step == {"chat": "chat", "run": run_id, "sequence": number, "left": len(kinds(0)) - number - 1}
            assert await anext(lines) == f"id: {run_id}:{number}"
            assert json.loads((await anext(lines)).removeprefix("data: "))["type"] == kind
            assert await anext(lines) == ""
            if number == 2:
                assert (await site.client.get("/api/chats/chat")).json()["active"] == {"run": run_id}
        assert await anext(lines) == "data: [DONE]"
    assert_error(await site.client.post("/api/replay/step"), 409)


async def test_a_step_at_another_speed_is_refused(start_replay: StartReplay) -> None:
    site = await start_replay()
    assert "--speed step" in assert_error(await site.client.post("/api/replay/step"), 409)["hint"]


async def test_real_time_keeps_the_recorded_pauses() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    lines = [*run_lines("m1", *text_and_end("one"), at=5_000, pause=250), chunk_line(9, {"type": "abort"}, 4_000)]
    recording = read_recording("\n".join([*lines, ""]).encode())
    runs = ReplayBackend(recording, "real", Settings.load(db="memory:"), sleep=sleep)
    turn = TurnInput("chat", "submit-message", UserMessage("u1", ("hello",)), None)
    batches = runs.reading(await runs.start("local", turn)).batches
    found = [entry async for batch in batches for entry in batch.entries]
    assert found == recording.runs[0].entries
    # A recorded clock that was set back causes no pause.
    assert slept == [*([0.25] * (len(lines) - 2)), 0]


async def test_resume(start_replay: StartReplay) -> None:
    site = await start_replay(speed="step")
    assert (await site.client.get("/api/chat/chat/stream")).status_code == 204
    async with begun(site, body()) as response:
        await steps(site, 2)
        async with site.client.stream("GET", "/api/chat/chat/stream") as again:
            await steps(site, len(kinds(0)) - 2)
            whole = (await again.aread()).decode()
        assert (await response.aread()).decode() == whole
    rest = await site.client.get("/api/chat/chat/stream", headers={"last-event-id": events(whole)[2].id})
    assert events(rest.text) == events(whole)[3:]
    for place in ("run-unknown:1", f"{response.headers['x-adkwire-run']}:99999"):
        assert_error(await site.client.get(f"/api/chat/chat/stream?after={place}"), 410, "not-recovered")
    named = await site.client.get(f"/api/chat/chat/stream?run={response.headers['x-adkwire-run']}")
    assert named.text == whole
    assert_error(await site.client.get("/api/chat/chat/stream?run=run-unknown"), 410, "not-recovered")


async def test_a_resumed_continuation_contains_the_message_from_its_beginning(start_replay: StartReplay) -> None:
    site = await start_replay(speed="step")
    for recorded, words in ((0, "hello"), (1, "pay")):
        async with begun(site, body(words, message_id=words)) as response:
            await steps(site, len(kinds(recorded)))
            await response.aread()
    async with begun(site, approved()) as response:
        await steps(site, 2)
        async with site.client.stream("GET", "/api/chat/chat/stream") as second:
            await steps(site, len(kinds(2)) - 2)
            found = chunks((await second.aread()).decode())
        continuation = chunks((await response.aread()).decode())
    assert [chunk["type"] for chunk in found] == [*kinds(1)[:-1], *kinds(2)[1:]]
    assert found[-len(kinds(2)) + 1 :] == continuation[1:]


async def test_stop_leaves_out_the_rest(start_replay: StartReplay) -> None:
    site = await start_replay(speed="step")
    async with begun(site, body()) as response:
        await steps(site, 4)
        assert (await site.client.post("/api/chat/chat/stop", json={"run": "other"})).json() == {"stopped": False}
        assert (await site.client.post("/api/chat/chat/stop")).json() == {"stopped": True}
        assert (await site.client.post("/api/chat/chat/stop")).json() == {"stopped": False}
        found = chunks((await response.aread()).decode())
    assert [chunk["type"] for chunk in found] == [*kinds(0)[:4], "text-end", "finish-step", "abort", "finish"]
    assert_valid_stream(decoded(found))
    history = (await site.client.get("/api/chats/chat")).json()
    assert (history["active"], [part["type"] for part in history["messages"][1]["parts"]]) == (
        None,
        ["step-start", "text"],
    )


async def test_a_new_message_stops_the_run_that_is_replayed(start_replay: StartReplay) -> None:
    site = await start_replay(speed="step")
    async with begun(site, body()) as first:
        await steps(site, 2)
        async with begun(site, body("more", message_id="u2")) as second:
            assert chunks((await first.aread()).decode())[-1]["type"] == "finish"
            await steps(site, len(kinds(1)))
            assert [chunk["type"] for chunk in chunks((await second.aread()).decode())] == kinds(1)


async def test_a_regeneration_gets_the_next_answer(start_replay: StartReplay) -> None:
    site = await start_replay()
    await say(site)
    again = {"id": "chat", "trigger": "regenerate-message", "messageId": "m1", "messages": [message()]}
    for answer in ("m2", "m3"):
        assert chunks((await site.client.post("/api/chat", json=again)).text)[0]["messageId"] == answer
        messages = (await site.client.get("/api/chats/chat")).json()["messages"]
        assert [one["id"] for one in messages] == ["u1", answer]


async def test_over_a_socket(start_replay: StartReplay) -> None:
    site = await start_replay()
    async with open_socket(site) as socket:
        assert chunks_of(await socket.ask(send_frame())) == [json.loads(entry) for entry in RECORDING.runs[0].entries]
        assert [
            chunk["type"] for chunk in chunks_of(await socket.ask(send_frame("pay", "r2", message_id="u2")))
        ] == kinds(1)
        assert (await socket.ask(resume_frame("r3")))[0]["type"] == "no-active"
        frame = {**send_frame(request_id="r4"), **approved()}
        assert [chunk["type"] for chunk in chunks_of(await socket.ask(frame))] == kinds(2)
        await socket.ask(send_frame("more", "r5", message_id="u3"))
        (over,) = await socket.ask(send_frame("over", "r6", message_id="u4"))
        assert over["type"] == "error"
        assert "no more answers" in over["errorText"]


async def test_the_other_routes_answer(start_replay: StartReplay) -> None:
    site = await start_replay()
    await say(site)
    info = (await site.client.get("/api/info")).json()
    assert (info["agent"], info["model"], info["tools"], info["gemini"]) == ("replay of kept", None, [], None)
    assert (info["modes"], info["audio"]) == (["sse", "websocket"], None)
    assert (await site.client.get("/readyz")).status_code == 200
    assert (await site.client.get("/api/chats/chat/audit")).json() == {"entries": []}
    renamed = await site.client.patch("/api/chats/chat", json={"title": "Mine"})
    assert renamed.json()["title"] == (await site.client.get("/api/chats/chat")).json()["title"] == "Mine"
    async with site.client.stream("GET", "/api/events") as response:
        lines = response.aiter_lines()
        assert (await anext(lines)).startswith(":")
        await say(site, "pay", "u2")
        types = [json.loads(text[6:])["type"] async for text in _two(lines)]
        assert types == ["run-started", "run-ended"]
    assert (await site.client.delete("/api/chats/chat")).status_code == 204
    assert chunks((await say(site)).text)[0]["messageId"] == "m1"


async def _two(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    found = 0
    async for text in lines:
        if text.startswith("data: "):
            yield text
            found += 1
        if found == 2:
            return


async def test_the_gemini_route_is_refused(start_replay: StartReplay) -> None:
    site = await start_replay()
    assert_error(await site.client.post("/api/gemini", json=body()), 503, "unavailable")
    assert [chat["id"] for chat in (await site.chats())["chats"]] == ["kept"]


async def test_a_closed_replay_refuses_requests() -> None:
    app = create_replay_app(RECORDING, Settings.load(db="memory:", ui=False))
    async with serving(app) as site, open_socket(site) as socket:
        await app.state.bridge.close()
        assert (await socket.closed())[0] == 1001
        assert_error(await say(site), 503)
        for path in ("/api/events", "/readyz"):
            assert_error(await site.client.get(path), 503)


async def test_what_was_recorded_is_replayed(start_replay: StartReplay, tmp_path: Path) -> None:
    def pay(amount: int) -> dict[str, int]:
        """Pay."""
        return {"paid": amount}

    script = iter([[Say("Hello.")], [Call("pay", {"amount": 5})], [Say("Paid.")]])
    model = ScriptedModel(script=lambda _: next(script))
    async with opened(tmp_path, model, pay, record=tmp_path / "recordings") as site:
        recorded = [chunks((await say(site)).text), chunks((await say(site, "pay", "u2")).text)]
    again = await start_replay(load_recording(tmp_path / "recordings" / "chat.jsonl"))
    assert [chunks((await say(again)).text), chunks((await say(again, "pay", "u2")).text)] == recorded


def only_file(folder: Path) -> str:
    (file,) = folder.iterdir()
    return file.read_text()


async def test_no_secret_in_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Secrets in client input, in streamed text and in the output of a tool, through the whole server."""
    token, google, card = f"token-{CANARY}", f"google-{CANARY}", f"card-{CANARY}"
    monkeypatch.setenv("GOOGLE_API_KEY", google)

    def unlock(password: str) -> dict[str, str]:
        """Unlock."""
        return {"accessToken": card, "note": f"key {google}"}

    pieces = [Say(piece) for piece in (f"The key is {google[:9]}", f"{google[9:20]}", f"{google[20:]}. Yes, {token}.")]
    steps = iter([[Call("unlock", {"password": card})], pieces])
    headers = {"authorization": f"Bearer {token}", "cookie": f"session={card}", "x-own": card}
    options = {"auth": "token", "token": token, "record": tmp_path / "recordings", "events_per_second": 0}
    async with opened(
        tmp_path, ScriptedModel(script=lambda _: next(steps)), unlock, headers=headers, **options
    ) as site:
        sent = body(f"unlock with {google}", headers={"x": card}, body={"api_key": card}, password=card)
        assert google in (await site.client.post("/api/chat", json=sent)).text
        async with open_socket(site, headers={"authorization": f"Bearer {token}"}) as socket:
            frame = send_frame("again", message_id="u1", headers={"authorization": card}, body={"secret": card})
            await socket.ask(frame)
    written = only_file(tmp_path / "recordings")
    assert "unlock with [redacted]" in written
    for canary in (token, google, card):
        assert canary not in written
        assert canary not in caplog.text
    deltas = [json.loads(raw)["chunk"] for raw in written.splitlines() if '"text-delta"' in raw]
    assert "".join(chunk["delta"] for chunk in deltas) == "The key is [redacted]. Yes, [redacted]."
