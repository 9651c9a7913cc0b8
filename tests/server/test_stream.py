"""The stream on the wire: its format, going away, coming back, stopping."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.types import Message

from adkwire.server.chat import encode_batch, encode_sse
from adkwire.server.responses import EventStream
from adkwire.stores.base import Batch
from adkwire.stores.memory import MemoryStreamLog
from adkwire.testing import Say, ScriptedModel, Wait
from adkwire.wire.chunks import FinishStep, StartStep, ToolApprovalResponse
from adkwire.wire.profiles import Profile, encode_chunks
from tests.patience import PATIENCE
from tests.server.app_server import Site, answer_text, assert_error, body, chunks, events, kinds
from tests.server.conftest import Open
from tests.stores.contract import Clock
from tests.support.chats import chat_with, scripted


async def first_delta(pieces: AsyncIterator[str]) -> str:
    """Read until text has come; what was read so far."""
    text = ""
    async with asyncio.timeout(PATIENCE):
        while "text-delta" not in text:
            text += await anext(pieces)
    return text


async def rest(pieces: AsyncIterator[str]) -> str:
    async with asyncio.timeout(PATIENCE):
        return "".join([piece async for piece in pieces])


async def test_the_format(open_site: Open) -> None:
    site = await open_site(ScriptedModel(turns=[[Say("one two")]]))
    reply = await site.client.post("/api/chat", json=body())
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert reply.headers["cache-control"].startswith("no-cache")
    assert reply.headers["x-content-type-options"] == "nosniff"
    run = reply.headers["x-adkwire-run"]
    *found, done = events(reply.text)
    assert done.data == "[DONE]"
    assert [event.id for event in found] == [f"{run}:{number}" for number in range(len(found))]
    assert [event.chunk["type"] for event in found] == [
        "start",
        "start-step",
        "text-start",
        "text-delta",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ]


async def test_chunks_arrive_while_the_model_still_thinks(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]]))
    async with site.client.stream("POST", "/api/chat", json=body()) as stream:
        pieces = stream.aiter_text()
        before = await first_delta(pieces)
        assert "[DONE]" not in before
        held.set()
        assert answer_text(before + await rest(pieces)) == "one two"


async def test_a_heartbeat_on_an_idle_stream(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(ScriptedModel(turns=[[Wait(held), Say("ok")]]), heartbeat=0.05)
    text = ""
    async with site.client.stream("POST", "/api/chat", json=body()) as stream, asyncio.timeout(PATIENCE):
        async for piece in stream.aiter_text():
            text += piece
            if text.count(": keep-alive\n\n") == 2:
                held.set()
    assert answer_text(text) == "ok"


async def test_a_client_that_goes_away_and_comes_back(open_site: Open) -> None:
    held = asyncio.Event()
    model = ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]])
    site = await open_site(model)
    async with site.client.stream("POST", "/api/chat", json=body()) as stream:
        got = await first_delta(stream.aiter_text())
        run = stream.headers["x-adkwire-run"]
    seen = events(got)
    for _ in range(20):
        # Round trips in which a disconnect that stops would have ended the run.
        assert (await site.client.get("/api/chats/chat")).json()["active"] == {"run": run}
    waiting = [
        asyncio.create_task(site.client.get("/api/chat/chat/stream", params=params, headers=headers))
        for params, headers in (
            ({}, {}),
            ({}, {"last-event-id": seen[-1].id}),
            ({"after": seen[-1].id}, {}),
            ({"after": f"{run}:0"}, {}),
            ({"after": "run-of-yesterday:3"}, {}),
        )
    ]
    await asyncio.sleep(0)
    held.set()
    whole, *others, stale = [await one for one in waiting]
    assert all(reply.headers["x-adkwire-run"] == run for reply in (whole, *others))
    assert answer_text(whole.text) == "one two"
    every = events(whole.text)
    assert events(others[0].text) == events(others[1].text) == every[len(seen) :]
    assert events(others[2].text) == every[1:]
    assert (stale.status_code, stale.json()["error"]["code"]) == (410, "not-recovered")
    assert len(model.requests) == 1
    history = (await site.client.get("/api/chats/chat")).json()
    assert history["active"] is None
    assert [part["text"] for part in history["messages"][1]["parts"] if part["type"] == "text"] == ["one two"]


async def test_coming_back_after_the_end(open_site: Open) -> None:
    site = await open_site()
    reply = await site.client.post("/api/chat", json=body())
    every = events(reply.text)
    idle = await site.client.get("/api/chat/chat/stream")
    assert (idle.status_code, idle.content) == (204, b"")
    late = await site.client.get("/api/chat/chat/stream", headers={"last-event-id": every[1].id})
    assert events(late.text) == every[2:]
    nothing_left = await site.client.get("/api/chat/chat/stream", headers={"last-event-id": every[-2].id})
    assert events(nothing_left.text) == every[-1:]
    for chat in ("chat", "unknown"):
        gone = await site.client.get(f"/api/chat/{chat}/stream", headers={"last-event-id": "run-gone:4"})
        assert (gone.status_code, gone.json()["error"]["code"]) == (410, "not-recovered")


async def test_coming_back_from_where_the_answer_has_not_been(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]]))

    async def behind(number: int) -> httpx.Response:
        return await site.client.get("/api/chat/chat/stream", params={"after": f"{run}:{number}"})

    async with site.client.stream("POST", "/api/chat", json=body()) as stream:
        pieces = stream.aiter_text()
        seen = events(await first_delta(pieces))
        run = stream.headers["x-adkwire-run"]
        for number in (len(seen), 99_999):
            assert_error(await behind(number), 422)
        held.set()
        left = events(await rest(pieces))
    end = int(left[-2].id.removeprefix(f"{run}:"))
    assert [event.data for event in events((await behind(end)).text)] == ["[DONE]"]
    for number in (end + 1, 99_999):
        assert_error(await behind(number), 410, "not-recovered")


async def test_a_retried_post_follows_and_replays(open_site: Open) -> None:
    held = asyncio.Event()
    model = ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]])
    site = await open_site(model)
    posts = [asyncio.create_task(site.client.post("/api/chat", json=body())) for _ in range(8)]
    async with site.client.stream("POST", "/api/chat", json=body()) as stream:
        await first_delta(stream.aiter_text())
    held.set()
    replies = [await post for post in posts]
    replies.append(await site.client.post("/api/chat", json=body()))
    assert len({reply.text for reply in replies}) == 1
    assert answer_text(replies[0].text) == "one two"
    assert len(model.requests) == 1
    assert len((await site.client.get("/api/chats/chat")).json()["messages"]) == 2


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        (None, "other"),
        ("ai/6.0.0", "other"),
        ("ai/7.0.31", "other"),
        ("ai/7.0.169", "interrupted"),
        ("nonsense", "other"),
        ("ai/9.1.2", "interrupted"),
    ],
)
@pytest.mark.parametrize("where", ["header", "body"])
async def test_the_chunks_of_a_stop_for_each_client(
    open_site: Open, declared: str | None, reason: str, where: str
) -> None:
    site = await open_site(ScriptedModel(turns=[[Say("one "), Wait(asyncio.Event())]]))
    headers = {"x-adkwire-client": declared} if declared and where == "header" else {}
    content = body(client=declared) if where == "body" else body()
    async with site.client.stream("POST", "/api/chat", json=content, headers=headers) as stream:
        pieces = stream.aiter_text()
        text = await first_delta(pieces)
        stopped = await site.client.post("/api/chat/chat/stop")
        assert (stopped.status_code, stopped.json()) == (202, {"stopped": True})
        text += await rest(pieces)
    last = chunks(text)[-1]
    assert (last["type"], last["finishReason"]) == ("finish", reason)
    assert answer_text(text) == "one "
    assert "abort" in kinds(text)
    again = await site.client.post("/api/chat/chat/stop", json={})
    assert (again.status_code, again.json()) == (202, {"stopped": False})


async def test_stop_of_another_run_than_the_one_that_runs(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]]))
    async with site.client.stream("POST", "/api/chat", json=body()) as stream:
        pieces = stream.aiter_text()
        text = await first_delta(pieces)
        reply = await site.client.post("/api/chat/chat/stop", json={"run": "run-older"})
        assert (reply.status_code, reply.json()) == (202, {"stopped": False})
        held.set()
        text += await rest(pieces)
    assert answer_text(text) == "one two"


async def test_a_busy_chat_that_refuses(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]]), on_busy="refuse")
    async with site.client.stream("POST", "/api/chat", json=body()) as stream:
        pieces = stream.aiter_text()
        text = await first_delta(pieces)
        assert_error(await site.client.post("/api/chat", json=body(message_id="u2")), 409, "conflict")
        held.set()
        text += await rest(pieces)
    assert answer_text(text) == "one two"


async def test_a_client_that_never_reads_stops_nobody(open_site: Open) -> None:
    """A megabyte is waiting for it; another client gets the same answer meanwhile."""
    text = "0123456789abcdef" * 65_536
    site = await open_site(ScriptedModel(turns=[[Say(text, chunk=8192)]]))
    async with site.client.stream("POST", "/api/chat", json=body()):
        reply = await site.client.post("/api/chat", json=body())
        assert answer_text(reply.text) == text


async def test_list_history_title_and_delete(site: Site) -> None:
    for number in range(3):
        await site.client.post("/api/chat", json=body(f"question {number}", chat=f"c{number}", message_id=f"u{number}"))
    listed = (await site.client.get("/api/chats", params={"limit": 2})).json()
    assert [chat["id"] for chat in listed["chats"]] == ["c2", "c1"]
    assert set(listed["chats"][0]) == {"id", "title", "updatedAt", "active", "pending"}
    rest = (await site.client.get("/api/chats", params={"limit": 2, "before": listed["next"]})).json()
    assert [chat["id"] for chat in rest["chats"]] == ["c0"]
    assert "next" not in rest
    renamed = await site.client.patch("/api/chats/c0", json={"title": "  Tïtle 名 "})
    assert renamed.json()["title"] == "Tïtle 名"
    history = (await site.client.get("/api/chats/c0")).json()
    assert set(history) == {"id", "title", "createdAt", "updatedAt", "active", "pending", "retryable", "messages"}
    assert history["title"] == "Tïtle 名"
    assert [message["role"] for message in history["messages"]] == ["user", "assistant"]
    last = (await site.client.get("/api/chats/c0", params={"limit": 1})).json()
    assert last["messages"] == history["messages"][1:]
    first = (await site.client.get("/api/chats/c0", params={"limit": 1, "before": last["next"]})).json()
    assert first["messages"] == history["messages"][:1]
    assert "next" not in first
    assert (await site.client.delete("/api/chats/c0")).status_code == 204
    assert_error(await site.client.delete("/api/chats/c0"), 404)
    assert_error(await site.client.patch("/api/chats/c0", json={"title": "x"}), 404)
    assert_error(await site.client.get("/api/chats/c0"), 404)
    assert [chat["id"] for chat in (await site.chats())["chats"]] == ["c2", "c1"]
    again = await site.client.post("/api/chat", json=body("anew", chat="c0", message_id="u0"))
    assert answer_text(again.text) == "ok"
    assert len((await site.client.get("/api/chats/c0")).json()["messages"]) == 2


def test_a_chunk_that_a_client_must_not_see_leaves_its_number_out() -> None:
    sent = [StartStep(), ToolApprovalResponse(approval_id="a1", approved=True), FinishStep()]
    batch = Batch(5, encode_chunks(sent), closed=False)
    for profile, numbers in ((Profile(), [5, 7]), (Profile(7, 169), [5, 6, 7])):
        text = encode_batch(batch, b"id: run:%d\ndata: %b\n\n", profile).decode()
        assert [event.id for event in events(text)] == [f"run:{number}" for number in numbers]


async def test_a_client_that_does_not_read_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    left = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"data: x\n\n"
        finally:
            left.set()

    async def full(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async with asyncio.timeout(PATIENCE):
        with caplog.at_level("INFO", logger="adkwire"):
            await EventStream(endless(), {}, 0.01).stream_response(full)
    assert left.is_set()
    assert "slow reader" in caplog.text


async def test_a_source_that_times_out_is_an_error_and_no_slow_reader(caplog: pytest.LogCaptureFixture) -> None:
    async def failing() -> AsyncGenerator[bytes, None]:
        yield b"data: x\n\n"
        raise TimeoutError("the store did not answer")

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message["type"])

    for version in ("2.3", "2.4"):
        sent: list[str] = []
        scope = {"type": "http", "asgi": {"spec_version": version}}
        with caplog.at_level("INFO", logger="adkwire"), pytest.raises(RuntimeError, match="source") as failed:
            async with asyncio.timeout(PATIENCE):
                await EventStream(failing(), {}, 30)(scope, receive, send)
        assert isinstance(failed.value.__cause__, TimeoutError)
        assert sent == ["http.response.start", "http.response.body"], "the response has no proper end"
    assert "slow reader" not in caplog.text


async def test_a_server_whose_write_times_out_by_itself_is_no_slow_reader(caplog: pytest.LogCaptureFixture) -> None:
    async def one() -> AsyncGenerator[bytes, None]:
        yield b"data: x\n\n"

    async def lost(message: Message) -> None:
        raise TimeoutError("the connection is gone")

    with caplog.at_level("INFO", logger="adkwire"), pytest.raises(TimeoutError, match="gone"):
        await EventStream(one(), {}, 30).stream_response(lost)
    assert "slow reader" not in caplog.text


async def test_a_reader_whose_stream_is_forgotten_gets_an_error_and_the_end(tmp_path: Path) -> None:
    clock, held = Clock(), asyncio.Event()
    agent = scripted(ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]]))
    chat = chat_with(agent, tmp_path, stream_log=MemoryStreamLog(ttl=60, clock=clock))
    run = await chat.begin("a")
    pieces = (piece.decode() async for piece in encode_sse(chat.bridge.reading(run), Profile()))
    text = await first_delta(pieces)
    held.set()
    async with asyncio.timeout(PATIENCE):
        await run.done.wait()
    clock.now += 61
    text += await rest(pieces)
    found = events(text)
    assert found[-1].data == "[DONE]"
    assert found[-2].chunk["type"] == "error"
    assert [event.id for event in found[:-1]] == [f"{run.id}:{number}" for number in range(len(found) - 1)]
    await chat.bridge.close()
