"""`/api/chat/ws`: requests, answers, coming back, stopping."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from adkwire import create_app
from adkwire.testing import Call, Fail, Say, ScriptedModel, Wait
from tests.server.app_server import Site, body, chunks, message, serving
from tests.server.conftest import Open
from tests.server.sockets.socket_client import (
    OURS,
    abort_frame,
    chunks_of,
    kinds_of,
    open_socket,
    refusal,
    resume_frame,
    send_frame,
    text_in,
)
from tests.server.test_security import by_header
from tests.support.chats import scripted, settings, texts_in
from tests.support.gated_tools import Till

OFFICIAL = {
    "start": {"type", "requestId"},
    "chunk": {"type", "requestId", "sequence", "chunk"},
    "end": {"type", "requestId"},
    "error": {"type", "requestId", "errorText"},
    "no-active": {"type", "requestId"},
}


def echo() -> ScriptedModel:
    return ScriptedModel(script=lambda request: [Say("to " + texts_in(request.contents)[-1][1])])


def two_parts(held: asyncio.Event) -> ScriptedModel:
    return ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")], [Say("three")]])


async def active(site: Site) -> Any:
    return (await site.client.get("/api/chats/chat")).json()["active"]


async def test_a_message_and_its_answer(open_site: Open) -> None:
    site = await open_site(ScriptedModel(turns=[[Say("one two")]]))
    async with open_socket(site) as one:
        frames = await one.ask(send_frame())
        assert one.connection.subprotocol is None
    assert [frame["type"] for frame in frames] == ["start", *["chunk"] * 8, "end"]
    assert all(set(frame) == OFFICIAL[frame["type"]] for frame in frames)
    assert [frame["sequence"] for frame in frames[1:-1]] == list(range(8))
    assert {frame["requestId"] for frame in frames} == {"r1"}
    assert text_in(frames) == "one two"
    posted = await site.client.post("/api/chat", json=body())
    assert chunks(posted.text) == chunks_of(frames)


async def test_chunks_arrive_while_the_model_still_thinks(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(two_parts(held))
    async with open_socket(site) as one:
        await one.send(send_frame())
        before = await one.until("text-delta")
        held.set()
        assert text_in(before + await one.answer("r1")) == "one two"


async def test_many_requests_on_one_socket(open_site: Open) -> None:
    gates = {str(number): asyncio.Event() for number in range(12)}

    def script(request: Any) -> list[Any]:
        name = texts_in(request.contents)[-1][1]
        return [Say(f"{name} "), Wait(gates[name]), Say("done")]

    site = await open_site(ScriptedModel(script=script))
    async with open_socket(site) as one:
        await one.send(*(send_frame(name, f"r{name}", chat=f"chat-{name}") for name in gates))
        got: dict[str, list[Any]] = {name: [] for name in gates}
        for name in reversed(gates):
            gates[name].set()
        while not all(frames and frames[-1]["type"] == "end" for frames in got.values()):
            frame = await one.next()
            got[frame["requestId"].removeprefix("r")].append(frame)
        assert {name: text_in(frames) for name, frames in got.items()} == {name: f"{name} done" for name in gates}
        assert all(chunks_of(frames)[0]["type"] == "start" for frames in got.values())
        assert all(frames[1]["sequence"] == 0 for frames in got.values())


async def test_an_id_can_be_used_again_when_its_answer_has_ended(open_site: Open) -> None:
    site = await open_site(echo())
    async with open_socket(site) as one:
        for number in range(3):
            frames = await one.ask(send_frame(f"m{number}", message_id=f"u{number}"))
            assert text_in(frames) == f"to m{number}"


async def test_an_id_that_is_in_use_is_refused(open_site: Open) -> None:
    held = asyncio.Event()
    model = two_parts(held)
    site = await open_site(model)
    async with open_socket(site) as one:
        await one.send(send_frame())
        before = await one.until("text-delta")
        await one.send(send_frame(), resume_frame("r1"))
        assert ["being answered" in refusal([await one.next()]) for _ in range(2)] == [True, True]
        held.set()
        assert text_in(before + await one.answer("r1")) == "one two"
    assert len(model.requests) == 1


async def test_the_same_message_on_a_new_socket_follows_its_run(open_site: Open) -> None:
    held = asyncio.Event()
    model = two_parts(held)
    site = await open_site(model)
    async with open_socket(site) as first:
        await first.send(send_frame())
        await first.until("text-delta")
    async with open_socket(site) as second, open_socket(site) as third:
        await second.send(send_frame())
        await third.send(send_frame(request_id="other"))
        held.set()
        frames, others = await second.answer("r1"), await third.answer("other")
    assert text_in(frames) == "one two"
    assert chunks_of(frames) == chunks_of(others)
    assert len(model.requests) == 1


async def test_a_lost_socket_does_not_stop_the_run(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(two_parts(held))
    async with open_socket(site) as one:
        await one.send(send_frame())
        await one.until("text-delta")
        run = await active(site)
        one.connection.transport.abort()
    for _ in range(20):
        # Round trips in which a disconnect that stops would have ended the run.
        assert await active(site) == run
    async with open_socket(site) as two:
        await two.send(resume_frame())
        before = await two.until("text-delta")
        held.set()
        assert text_in(before + await two.answer("r2")) == "one two"


async def test_a_message_counts_even_if_the_sender_is_gone_at_once(open_site: Open) -> None:
    model = echo()
    site = await open_site(model)
    async with open_socket(site) as one:
        await one.send(send_frame("bye"))
    reply = await site.client.post("/api/chat", json=body("bye"))
    assert [chunk["delta"] for chunk in chunks(reply.text) if chunk["type"] == "text-delta"] == ["to ", "bye"]
    assert len(model.requests) == 1


async def test_resume_behind_a_sequence(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(two_parts(held))
    async with open_socket(site) as one, open_socket(site) as two:
        assert await two.ask(resume_frame("early")) == [{"type": "no-active", "requestId": "early"}]
        await one.send(send_frame())
        before = await one.until("text-delta")
        await two.send(resume_frame("rest", lastSequence=2), resume_frame("far", lastSequence=99))
        assert {(await two.next())["type"] for _ in range(3)} == {"start", "chunk"}
        held.set()
        found: dict[str, list[Any]] = {"rest": [], "far": []}
        while not all(some and some[-1]["type"] == "end" for some in found.values()):
            frame = await two.next()
            found[frame["requestId"]].append(frame)
        every = chunks_of(before + await one.answer("r1"))
        assert await two.ask(resume_frame("late")) == [{"type": "no-active", "requestId": "late"}]
    assert chunks_of(found["rest"]) == every[4:]
    assert next(frame["sequence"] for frame in found["rest"]) == 4
    assert [frame["type"] for frame in found["far"]] == ["end"]


async def test_resume_is_whole_from_number_0(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(two_parts(held))
    async with open_socket(site) as one, open_socket(site) as two:
        await one.send(send_frame())
        before = await one.until("text-delta")
        await two.send(resume_frame())
        again = await two.until("text-delta")
        assert [frame | {"requestId": "r1"} for frame in again] == before
        held.set()
        assert chunks_of(before + await one.answer("r1")) == chunks_of(again + await two.answer("r2"))


async def test_nobody_else_can_resume(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(two_parts(held), authenticate=by_header)
    async with (
        open_socket(site, headers={"x-user": "ann"}) as ann,
        open_socket(site, headers={"x-user": "bob"}, subprotocols=OURS) as bob,
    ):
        await ann.send(send_frame())
        await ann.until("text-delta")
        assert [frame["type"] for frame in await bob.ask(resume_frame())] == ["no-active"]
        run = (await site.client.get("/api/chats/chat", headers={"x-user": "ann"})).json()["active"]["run"]
        [refused] = await bob.ask(resume_frame(after=f"{run}:0"))
        assert refused["code"] == "not-recovered"
        await bob.send(abort_frame("r1"))
        assert [frame["type"] for frame in await bob.ask(resume_frame())] == ["no-active"]
        held.set()
        assert kinds_of(await ann.answer("r1"))[-1] == "finish"


async def test_with_the_subprotocol_chunks_have_positions(open_site: Open) -> None:
    site = await open_site(ScriptedModel(turns=[[Say("one two")]]))
    async with open_socket(site, subprotocols=OURS) as one:
        assert one.connection.subprotocol == "adkwire.chat.v1"
        frames = await one.ask(send_frame())
        run = frames[1]["id"].partition(":")[0]
        assert [frame.get("id") for frame in frames] == [None, *(f"{run}:{n}" for n in range(8)), None]
        posted = await site.client.post("/api/chat", json=body())
        assert posted.headers["x-adkwire-run"] == run
        for have in range(8):
            again = await one.ask(resume_frame(after=f"{run}:{have}", lastSequence=have))
            assert [{**frame, "requestId": "r1"} for frame in again] == [frames[0], *frames[have + 2 :]]
        fresh = await one.ask(resume_frame(after=f"{run}:3"))
        assert [frame["sequence"] for frame in fresh[1:-1]] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("after", "code"),
    [
        ("run_gone:3", "not-recovered"),
        ("run_gone:-3", "not-recovered"),
        ("nonsense", "unprocessable"),
        ("", "unprocessable"),
        ("a:b:c", "unprocessable"),
        ("run:9999999999", "unprocessable"),
        ("run/../x:1", "unprocessable"),
    ],
)
async def test_a_position_that_is_not_kept(open_site: Open, after: str, code: str) -> None:
    site = await open_site()
    async with open_socket(site, subprotocols=OURS) as one:
        [frame] = await one.ask(resume_frame(after=after, lastSequence=4))
        assert (frame["type"], frame["requestId"], frame["code"]) == ("error", "r2", code)
        assert frame["errorText"]


async def test_a_ping(open_site: Open) -> None:
    site = await open_site()
    async with open_socket(site, subprotocols=OURS) as one:
        await one.send({"type": "ping", "timestamp": 1_700_000_000_123})
        pong = await one.next()
        assert set(pong) == {"type", "timestamp", "serverTime"}
        assert (pong["type"], pong["timestamp"]) == ("pong", 1_700_000_000_123)
        assert pong["serverTime"] > 1_700_000_000_000


@pytest.mark.parametrize(
    ("query", "declared", "headers", "reason"),
    [
        ("", None, {}, "other"),
        ("?client=ai/7.0.169", None, {}, "interrupted"),
        ("", "ai/7.0.169", {}, "interrupted"),
        ("?client=ai/7.0.169", "ai/6.0.0", {}, "other"),
        ("?client=nonsense", None, {}, "other"),
        ("", None, {"x-adkwire-client": "ai/7.0.169"}, "interrupted"),
    ],
)
async def test_the_chunks_of_an_abort_for_each_client(
    open_site: Open, query: str, declared: str | None, headers: dict[str, str], reason: str
) -> None:
    site = await open_site(ScriptedModel(turns=[[Say("one "), Wait(asyncio.Event())], [Say("next")]]))
    async with open_socket(site, query=query, headers=headers) as one:
        await one.send(send_frame(body={} if declared is None else {"client": declared}))
        before = await one.until("text-delta")
        await one.send(abort_frame())
        frames = before + await one.answer("r1")
        assert kinds_of(frames)[-2:] == ["abort", "finish"]
        assert chunks_of(frames)[-1]["finishReason"] == reason
        assert frames[-1]["type"] == "end"
        assert await active(site) is None
        assert text_in(await one.ask(send_frame("again", "r9", message_id="u2"))) == "next"


async def test_abort_stops_the_run_of_its_request_only(open_site: Open) -> None:
    gates = {name: asyncio.Event() for name in ("a", "b")}

    def script(request: Any) -> list[Any]:
        name = texts_in(request.contents)[-1][1]
        return [Say(f"{name} "), Wait(gates[name]), Say("done")]

    site = await open_site(ScriptedModel(script=script))
    async with open_socket(site) as one, open_socket(site) as two:
        for name in gates:
            await one.send(send_frame(name, name, chat=name))
            await one.until("text-delta", name)
        await two.send(resume_frame("b", chat="b"))
        await two.until("text-delta")
        await two.send(abort_frame("a"), abort_frame("unknown"), abort_frame("r1"))
        await one.send(abort_frame("b"))
        assert kinds_of(await two.answer("b"))[-2:] == ["abort", "finish"]
        assert (await one.answer("b"))[-1]["type"] == "end"
        gates["a"].set()
        assert text_in(await one.answer("a")) == "done"


async def test_abort_leaves_what_waits_behind_it_in_its_chat(open_site: Open) -> None:
    site = await open_site(two_parts(asyncio.Event()), on_busy="queue")
    async with open_socket(site) as one:
        await one.send(send_frame())
        await one.until("text-delta")
        await one.send(send_frame("next", "r2", message_id="u2"))
        await one.until("start", "r2")
        await one.send(abort_frame("r1"))
        assert text_in(await one.answer("r2")) == "three"


async def test_abort_of_a_resumed_stream(open_site: Open) -> None:
    site = await open_site(ScriptedModel(turns=[[Say("one "), Wait(asyncio.Event())]]))
    async with open_socket(site) as one:
        await one.send(send_frame())
        await one.until("text-delta")
    async with open_socket(site) as two:
        await two.send(resume_frame())
        before = await two.until("text-delta")
        await two.send(abort_frame("r2"), abort_frame("r2"))
        frames = before + await two.answer("r2")
    assert kinds_of(frames)[-2:] == ["abort", "finish"]
    assert text_in(frames) == "one "


async def test_abort_right_behind_the_message(open_site: Open) -> None:
    """Before the run is known: it is stopped when it is."""
    model = ScriptedModel(turns=[[Wait(asyncio.Event())]])
    site = await open_site(model)
    async with open_socket(site) as one:
        await one.send(send_frame(), abort_frame())
        frames = await one.answer("r1")
    assert kinds_of(frames)[-2:] == ["abort", "finish"]
    assert await active(site) is None


async def test_abort_and_gone(open_site: Open) -> None:
    """A page that is left says stop and closes its socket."""
    site = await open_site(ScriptedModel(turns=[[Say("one "), Wait(asyncio.Event())]]))
    async with open_socket(site) as one, open_socket(site) as watcher:
        await one.send(send_frame())
        await one.until("text-delta")
        await watcher.send(resume_frame())
        await watcher.until("text-delta")
        await one.send(abort_frame())
        await one.connection.close()
        assert kinds_of(await watcher.answer("r2"))[-2:] == ["abort", "finish"]


async def test_stop_in_the_middle_of_a_tool(open_site: Open) -> None:
    till = Till()
    till.pause(7)
    model = ScriptedModel(turns=[[Call("pay", {"amount": 7}, id="c1")], [Say("paid")], [Say("again")]])
    site = await open_site(model, till.plain)
    async with open_socket(site) as one:
        await one.send(send_frame())
        await till.until_begun(7)
        await one.send(abort_frame())
        frames = await one.answer("r1")
        assert kinds_of(frames)[-2:] == ["abort", "finish"]
        sealed = [chunk for chunk in chunks_of(frames) if chunk["type"] == "tool-output-error"]
        assert [chunk["toolCallId"] for chunk in sealed] == ["c1"]
        assert await active(site) is None
        assert (await one.ask(send_frame("next", message_id="u2")))[-1]["type"] == "end"
    assert till.paid == [7]


async def test_abort_after_the_end_does_nothing(open_site: Open) -> None:
    """Above all, it does not take back what waits for the person."""
    till = Till()
    model = ScriptedModel(turns=[[Call("pay", {"amount": 7}, id="c1")], [Say("paid")]])
    site = await open_site(model, till.pay)
    async with open_socket(site) as one:
        frames = await one.ask(send_frame())
        assert kinds_of(frames)[-1] == "finish"
        await one.send(abort_frame())
        assert (await one.ask(resume_frame()))[-1]["type"] == "no-active"
        chat = (await site.client.get("/api/chats/chat")).json()
        [waiting] = chat["pending"]
        [asked] = [chunk for chunk in chunks_of(frames) if chunk["type"] == "tool-approval-request"]
        answered = chat["messages"][-1]
        [part] = [part for part in answered["parts"] if part["type"] == "tool-pay"]
        part |= {"state": "approval-responded", "approval": {"id": asked["approvalId"], "approved": True}}
        assert waiting["toolCallId"] == "c1"
        more = await one.ask({**send_frame(request_id="r3"), "messages": [message(), answered]})
    assert till.paid == [7]
    # Who answers calls has their message: only what is new comes.
    assert kinds_of(more)[:2] == ["start", "tool-output-available"]
    assert chunks_of(more)[0]["messageId"] == answered["id"]
    assert text_in(more) == "paid"


async def test_resume_in_the_middle_of_a_continuation_is_whole(open_site: Open) -> None:
    till, held = Till(), asyncio.Event()
    model = ScriptedModel(
        turns=[[Say("first "), Call("pay", {"amount": 7}, id="c1")], [Say("then "), Wait(held), Say("last")]]
    )
    site = await open_site(model, till.pay)
    async with open_socket(site) as one, open_socket(site, subprotocols=OURS) as two:
        await one.ask(send_frame())
        await site.client.post("/api/chat/chat/calls/c1", json={"approved": True})
        await one.send(resume_frame())
        before = await one.until("text-delta")
        assert text_in(before) == "first "
        assert kinds_of(before).count("start") == 1
        await two.send(resume_frame())
        places = await two.until("tool-output-available")
        run, last = places[-1]["id"].split(":")
        await two.send(resume_frame("tail", after=f"{run}:{last}", lastSequence=places[-1]["sequence"]))
        await two.send(resume_frame("seam", after=places[3]["id"], lastSequence=places[3]["sequence"]))
        held.set()
        frames = before + await one.answer("r2")
        assert text_in(frames) == "first then last"
        assert kinds_of(frames).count("start") == 1
        found: dict[str, list[Any]] = {"r2": list(places), "tail": [], "seam": []}
        while not all(some and some[-1]["type"] == "end" for some in found.values()):
            frame = await two.next()
            found[frame["requestId"]].append(frame)
    every = chunks_of(frames)
    assert chunks_of(found["r2"]) == every
    assert chunks_of(found["tail"]) == every[places[-1]["sequence"] + 1 :]
    assert chunks_of(found["seam"]) == every[places[3]["sequence"] + 1 :]
    assert int(places[3]["id"].split(":")[1]) < 0 < int(last) + 1


async def test_a_run_that_fails(open_site: Open) -> None:
    """A stock client says abort when it has seen the error."""
    site = await open_site(ScriptedModel(turns=[[Say("one "), Fail(RuntimeError("boom"))]]))
    async with open_socket(site) as one:
        frames = await one.ask(send_frame())
        assert kinds_of(frames)[-1] == "error"
        assert frames[-1]["type"] == "end"
        await one.send(abort_frame())
        assert (await one.ask(resume_frame()))[-1]["type"] == "no-active"
        assert (await one.ask(send_frame("again", message_id="u2")))[-1]["type"] == "end"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "no message"),
    ({"messages": [{"role": "user", "id": "u1", "parts": []}]}, "empty"),
    ({"messages": [{**message(), "role": "system"}]}, "must be the user's"),
    ({"id": "../etc"}, "A chat id is"),
    ({"trigger": "other"}, "trigger"),
    ({"trigger": "regenerate-message", "messages": [], "messageId": "m1"}, "no such message"),
    ({"messages": [{**message(), "parts": [{"type": "file", "url": "https://evil.example/x.png"}]}]}, "data URL"),
]


@pytest.mark.parametrize(("change", "words"), WRONG)
async def test_refusals_are_those_of_http(open_site: Open, change: dict[str, Any], words: str) -> None:
    site = await open_site()
    async with open_socket(site) as one, open_socket(site, subprotocols=OURS) as two:
        text = refusal(await one.ask({**send_frame(), **change}))
        assert words in text
        posted = (await site.client.post("/api/chat", json={**body(), **change})).json()["error"]
        assert text == " ".join(filter(None, (posted["message"], posted.get("hint"))))
        [refused_frame] = await two.ask({**send_frame(), **change})
        assert refused_frame == {"type": "error", "requestId": "r1", "errorText": text, "code": posted["code"]}
        assert text_in(await one.ask(send_frame())) == "ok"


async def test_a_busy_chat_that_refuses(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(two_parts(held), on_busy="refuse")
    async with open_socket(site) as one:
        await one.send(send_frame())
        before = await one.until("text-delta")
        await one.send(send_frame("more", "r2", message_id="u2"))
        assert "is being written" in refusal(await one.answer("r2"))
        held.set()
        assert text_in(before + await one.answer("r1")) == "one two"


async def test_two_sockets_and_a_post_see_the_same(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(two_parts(held))
    async with open_socket(site) as one, open_socket(site, subprotocols=OURS) as two:
        await one.send(send_frame())
        before = await one.until("text-delta")
        await two.send(resume_frame())
        also = await two.until("text-delta")
        post = asyncio.create_task(site.client.get("/api/chat/chat/stream"))
        held.set()
        mine, theirs = before + await one.answer("r1"), also + await two.answer("r2")
        await post
    assert chunks_of(mine) == chunks_of(theirs)
    history = (await site.client.get("/api/chats/chat")).json()
    assert [part["text"] for part in history["messages"][1]["parts"] if part["type"] == "text"] == ["one two"]


async def test_headers_in_a_frame_are_ignored(open_site: Open) -> None:
    site = await open_site(auth="token", token="secret-token")
    async with open_socket(site, headers={"authorization": "Bearer secret-token"}) as one:
        claimed = {"authorization": "Bearer wrong", "x-adkwire-client": "ai/7.0.169", "host": "evil.com"}
        assert text_in(await one.ask(send_frame(headers=claimed))) == "ok"
        assert text_in(await one.ask(send_frame("b", message_id="u2", headers=5))) == "ok"


async def test_recorded_frames(tmp_path: Path) -> None:
    agent = scripted(ScriptedModel(turns=[[Say("ok")]]))
    app = create_app(agent, settings=settings(tmp_path, record=tmp_path / "kept"))
    async with serving(app) as site, open_socket(site) as one:
        await one.ask(send_frame(headers={"authorization": "Bearer canary"}))
        await app.state.bridge.close()
    lines = [json.loads(text) for file in (tmp_path / "kept").iterdir() for text in file.read_text().splitlines()]
    [sent] = [one for one in lines if one["location"] == "client-frame"]
    assert (sent["mode"], sent["chunk"]["requestId"]) == ("websocket", "r1")
    assert "canary" not in str(lines)
