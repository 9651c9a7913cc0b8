"""A page loads the history while a run is active, and resumes by the run's name after that run has ended."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from adkwire.errors import NotRecovered
from adkwire.stores.memory import MemoryStreamLog
from adkwire.testing import Call, Say, ScriptedModel, Wait
from tests.patience import PATIENCE
from tests.server.app_server import Site, answer_text, assert_error, body, chunks, events, kinds
from tests.server.conftest import Open
from tests.server.sockets.live_client import answer, open_live
from tests.server.sockets.socket_client import (
    OURS,
    chunks_of,
    kinds_of,
    open_socket,
    refusal,
    resume_frame,
    send_frame,
    text_in,
)
from tests.server.test_security import by_header
from tests.stores.contract import Clock
from tests.support.chats import chat_with, scripted
from tests.support.gated_tools import Till

STREAM = "/api/chat/chat/stream"
LIVE = "/api/live"


def two_parts(held: asyncio.Event) -> ScriptedModel:
    return ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")], [Say("three")]])


async def history(site: Site, **headers: str) -> dict[str, Any]:
    found: dict[str, Any] = (await site.client.get("/api/chats/chat", headers=headers)).json()
    return found


async def by_run(site: Site, run: str, chat: str = "chat", **more: str) -> httpx.Response:
    return await site.client.get(f"/api/chat/{chat}/stream", params={"run": run, **more})


@asynccontextmanager
async def writing(site: Site, held: asyncio.Event) -> AsyncGenerator[str]:
    """A run that has begun to answer; its id. At the end of the block it has ended."""
    async with site.client.stream("POST", "/api/chat", json=body()) as stream:
        pieces = stream.aiter_text()
        async with asyncio.timeout(PATIENCE):
            while "text-delta" not in await anext(pieces):
                pass
            loaded = await history(site)
            assert [message["role"] for message in loaded["messages"]] == ["user"], "the answer is left out"
            yield loaded["active"]["run"]
            held.set()
            async for _ in pieces:
                pass
    assert (await history(site))["active"] is None


async def test_the_whole_message_of_a_run_that_has_ended_since_the_history_was_loaded(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(two_parts(held))
    async with writing(site, held) as run:
        pass
    assert (await site.client.get(STREAM)).status_code == 204, "a stock page gets what it got before"
    assert (await site.client.get(STREAM, params={"run": ""})).status_code == 204
    resumed = await by_run(site, run)
    assert resumed.headers["x-adkwire-run"] == run
    assert events(resumed.text)[0].id == f"{run}:0"
    assert answer_text(resumed.text) == "one two"
    assert chunks(resumed.text)[0]["messageId"] == (await history(site))["messages"][1]["id"]


async def test_a_run_that_goes_on_is_followed_to_its_end(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(two_parts(held))
    async with writing(site, held) as run:
        following = [asyncio.create_task(one) for one in (by_run(site, run), site.client.get(STREAM))]
        await asyncio.sleep(0)
    named, unnamed = [(await one).text for one in following]
    assert answer_text(named) == "one two"
    assert named == unnamed


async def test_a_position_counts_more_than_a_run(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(two_parts(held))
    async with writing(site, held) as run:
        pass
    every = events((await by_run(site, run)).text)
    assert events((await by_run(site, run, after=f"{run}:2")).text) == every[3:]
    assert events((await by_run(site, "run-other", after=f"{run}:2")).text) == every[3:]


async def test_the_message_of_the_named_run_also_while_a_newer_message_is_written(open_site: Open) -> None:
    """The page has the question of that run and no newer one: another message would stand below the wrong question."""
    first, second = asyncio.Event(), asyncio.Event()
    model = ScriptedModel(turns=[[Say("one "), Wait(first), Say("two")], [Say("three "), Wait(second), Say("four")]])
    site = await open_site(model)
    async with writing(site, first) as run:
        pass
    async with site.client.stream("POST", "/api/chat", json=body("next", message_id="u2")) as newer:
        assert answer_text((await by_run(site, run)).text) == "one two"
        second.set()
        assert answer_text((await newer.aread()).decode()) == "three four"
    assert answer_text((await by_run(site, run)).text) == "one two"


async def test_a_message_that_went_on_in_a_newer_run_is_whole(open_site: Open) -> None:
    """Else the page would show a question that has its answer."""
    till, held = Till(), asyncio.Event()
    turns = [[Say("first "), Call("pay", {"amount": 7}, id="c1")], [Say("then "), Wait(held), Say("last")]]
    site = await open_site(ScriptedModel(turns=turns), till.pay)
    asked = await site.client.post("/api/chat", json=body())
    run = asked.headers["x-adkwire-run"]
    assert kinds((await by_run(site, run)).text) == kinds(asked.text)
    await site.client.post("/api/chat/chat/calls/c1", json={"approved": True})
    following = asyncio.create_task(by_run(site, run))
    await asyncio.sleep(0)
    held.set()
    active = await following
    for resumed in (active, await by_run(site, run), await by_run(site, active.headers["x-adkwire-run"])):
        assert resumed.headers["x-adkwire-run"] != run
        assert answer_text(resumed.text) == "first then last"
        assert kinds(resumed.text).count("start") == 1
        assert kinds(resumed.text).count("tool-output-available") == 1
        assert events(resumed.text)[0].id.rpartition(":")[2].startswith("-"), "what the message held before"
    assert till.paid == [7]


async def test_a_run_that_is_unknown_foreign_or_no_longer_kept(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(two_parts(held))
    async with writing(site, held) as run:
        pass
    await site.client.post("/api/chat", json=body(chat="other"))
    for chat, name in (("chat", "run-gone"), ("other", run), ("unknown", run)):
        assert_error(await by_run(site, name, chat), 410, "not-recovered")
    for name in ("a:b", "run/../x", "x" * 65, "ü"):
        assert_error(await by_run(site, name), 422)
    await site.client.delete("/api/chats/chat")
    assert_error(await by_run(site, run), 410, "not-recovered")


async def test_a_run_of_another_user_is_unknown(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(two_parts(held), authenticate=by_header)
    async with open_socket(site, headers={"x-user": "ann"}) as ann, open_socket(site, headers={"x-user": "bob"}) as bob:
        await ann.send(send_frame())
        await ann.until("text-delta")
        run = (await history(site, **{"x-user": "ann"}))["active"]["run"]
        refused = [refusal(await bob.ask(resume_frame(body={"run": name}))) for name in (run, "run-gone")]
        assert refused[0] == refused[1]
        replies = [
            await site.client.get(STREAM, params={"run": name}, headers={"x-user": "bob"}) for name in (run, "run-gone")
        ]
        assert [reply.status_code for reply in replies] == [410, 410]
        assert replies[0].text == replies[1].text
        held.set()
        await ann.answer("r1")


async def test_a_stream_that_is_no_longer_kept(tmp_path: Path) -> None:
    clock = Clock()
    agent = scripted(ScriptedModel(turns=[[Say("one two")]]))
    chat = chat_with(agent, tmp_path, stream_log=MemoryStreamLog(ttl=60, clock=clock))
    run = (await chat.say("a")).run
    reading = await chat.bridge.follow(chat.user, chat.id, run=run.id)
    assert reading is not None
    assert [entry async for batch in reading.batches for entry in batch.entries] == (await chat.read(run)).data
    clock.now += 61
    with pytest.raises(NotRecovered):
        await chat.bridge.follow(chat.user, chat.id, run=run.id)
    await chat.bridge.close()


@pytest.mark.parametrize("subprotocols", [(), OURS])
@pytest.mark.parametrize("path", ["/api/chat/ws", LIVE])
async def test_on_a_socket_the_body_of_a_resume_frame_names_the_run(
    open_site: Open, subprotocols: tuple[str, ...], path: str
) -> None:
    """A stock transport sends it for `resumeStream({ body: { run } })`."""
    held = asyncio.Event()
    site = await open_site(two_parts(held))
    async with writing(site, held) as run:
        pass
    async with open_socket(site, subprotocols=subprotocols, path=path) as one:
        frames = await one.ask(resume_frame("named", body={"run": run}))
        assert [frame["type"] for frame in frames] == ["start", *["chunk"] * (len(frames) - 2), "end"]
        assert text_in(frames) == "one two"
        assert frames[1]["sequence"] == 0
        for other in ({}, {"run": ""}, {"run": 5}, {"run": None}):
            assert [frame["type"] for frame in await one.ask(resume_frame(body=other))] == ["no-active"]
        for name in ("run-gone", "a:b"):
            [refused] = await one.ask(resume_frame(body={"run": name}))
            assert refused["type"] == "error"
            if subprotocols:
                assert refused["code"] == ("not-recovered" if name == "run-gone" else "unprocessable")


async def test_a_live_turn_that_has_ended_since_the_history_was_loaded(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(two_parts(held))
    async with open_live(site) as one:
        await one.send(send_frame())
        await one.until("text-delta")
        run = (await history(site))["active"]["run"]
        held.set()
        await one.until("end")
        assert text_in(await one.ask(resume_frame(body={"run": run}))) == "one two"


async def test_a_stock_client_gets_a_live_turn_that_waits_since_the_history_was_loaded(open_site: Open) -> None:
    """It has nothing of that turn: its history was loaded while the turn was being written."""
    till, held = Till(), asyncio.Event()
    model = ScriptedModel(turns=[[Say("wait "), Wait(held), Call("pay", {"amount": 5}, id="c1")], [Say("done")]])
    site = await open_site(model, till.pay)
    async with open_live(site) as one, open_socket(site, path=LIVE) as stock:
        await one.send(send_frame("pay"))
        await one.until("text-delta")
        run = (await history(site))["active"]["run"]
        held.set()
        while (await one.until("state"))[-1]["state"] != "waiting":
            pass
        assert (await stock.ask(resume_frame()))[0]["type"] == "no-active", "named nothing, so it has the history"
        frames = await stock.ask(resume_frame(body={"run": run}))
        assert text_in(frames) == "wait "
        assert kinds_of(frames)[-2:] == ["finish-step", "finish"]
        assert chunks_of(frames)[-1]["finishReason"] == "tool-calls"
        await one.send(answer("c1", status="approved"))
        await one.until("end")
    assert till.paid == [5]
