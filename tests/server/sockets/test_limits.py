"""The limits of a socket: what a client may not do, and which error or close code it gets."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Generator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adkwire import Bridge, create_app
from adkwire.errors import Unavailable
from adkwire.server.sockets import connection
from adkwire.server.sockets.uvicorn_protocol import UvicornProtocol
from adkwire.stores.memory import MemoryStreamLog
from adkwire.stores.stores import Stores
from adkwire.testing import Say, ScriptedModel, Wait
from tests.server.app_server import PATIENCE, Site, answer_text, body, serving
from tests.server.conftest import Open
from tests.server.sockets.socket_client import (
    OURS,
    open_socket,
    raw_handshake,
    refusal,
    resume_frame,
    send_frame,
    text_in,
    until,
)
from tests.server.test_security import by_header
from tests.support.chats import scripted, settings, texts_in
from tests.support.fixtures import leaked_since

SEND = send_frame()
OWNED: dict[str, dict[str, Any]] = {
    "unknown type": {"type": "shout", "requestId": "x"},
    "no type": {"requestId": "x"},
    "type of another type": {"type": ["send"], "requestId": "x"},
    "a frame of the server": {"type": "end", "requestId": "x"},
    "ping with nonsense": {"type": "ping", "requestId": "x", "timestamp": "now"},
    "no chat": {"type": "resume", "requestId": "x"},
    "chat of another type": {"type": "resume", "requestId": "x", "id": {}},
    "chat with a path": {"type": "resume", "requestId": "x", "id": "../../x"},
    "huge chat": {"type": "resume", "requestId": "x", "id": "x" * 10_000},
    "negative sequence": {"type": "resume", "requestId": "x", "id": "c", "lastSequence": -1},
    "text as sequence": {"type": "resume", "requestId": "x", "id": "c", "lastSequence": "5"},
    "endless sequence": {"type": "resume", "requestId": "x", "id": "c", "lastSequence": 1e300},
    "large control": {"type": "abort", "requestId": "x", "more": "x" * 64_000},
    "no messages": {"type": "send", "requestId": "x", "id": "c"},
    "messages of another type": {**SEND, "requestId": "x", "messages": {"0": 1}},
    "message of another type": {**SEND, "requestId": "x", "messages": [5]},
    "parts of another type": {**SEND, "requestId": "x", "messages": [{"role": "user", "id": "u", "parts": "x"}]},
    "huge message id": {**SEND, "requestId": "x", "messages": [{"role": "user", "id": "u" * 999, "content": "x"}]},
    "too many parts": {
        **SEND,
        "requestId": "x",
        "messages": [{"role": "user", "id": "u", "parts": [{"type": "text", "text": "x"}] * 21}],
    },
    "body of another type": {**SEND, "requestId": "x", "body": [1]},
}
DEEP = "[" * 5_000 + "]" * 5_000
OWNERLESS: dict[str, str | bytes] = {
    "nothing": "",
    "no JSON": "hello",
    "cut JSON": '{"type":"send","requestId":"x"',
    "two values": "{}{}",
    "an array": "[]",
    "null": "null",
    "no request id": '{"type":"abort"}',
    "null as request id": '{"type":"abort","requestId":null}',
    "a number as request id": '{"type":"abort","requestId":5}',
    "an empty request id": '{"type":"abort","requestId":""}',
    "a huge request id": json.dumps({"type": "abort", "requestId": "x" * 5_000}),
    "the last of two request ids": '{"type":"abort","requestId":"x","requestId":6}',
    "deep nesting": '{"a":' + DEEP,
    "binary": b'{"type":"abort","requestId":"x"}',
    "no bytes": b"",
    "zeros": "\0" * 100,
}


@pytest.fixture(scope="module")
async def limited(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """One server for tests that only send nonsense; it has one user for each test."""
    given = settings(tmp_path_factory.mktemp("limited"), db="memory:", chats_per_minute=0, max_body_bytes=200_000)
    app = create_app(scripted(ScriptedModel(script=lambda _: [Say("ok")])), settings=given)
    async with serving(app) as site:
        yield site
    await app.state.bridge.close()


@pytest.mark.parametrize("name", OWNED)
async def test_a_wrong_frame_is_answered_and_nothing_else_happens(limited: Site, name: str) -> None:
    async with open_socket(limited) as one:
        await one.send(json.dumps(OWNED[name]))
        assert refusal([await one.next()])
        assert text_in(await one.ask(send_frame(chat="fine"))) == "ok"
    async with open_socket(limited, subprotocols=OURS) as two:
        await two.send(json.dumps(OWNED[name]))
        received_frame = await two.next()
        assert (received_frame["type"], received_frame["requestId"]) == ("error", "x")
        assert received_frame["code"] in ("unprocessable", "too-large")


@pytest.mark.parametrize("name", OWNERLESS)
async def test_a_frame_that_belongs_to_no_request(limited: Site, name: str) -> None:
    """A stock client would end everything at a frame without a request, so it gets none."""
    async with open_socket(limited) as one:
        await one.send(OWNERLESS[name], resume_frame())
        assert (await one.next())["type"] == "no-active"
    async with open_socket(limited, subprotocols=OURS) as two:
        await two.send(OWNERLESS[name])
        notice = await two.next()
        assert set(notice) == {"type", "level", "code", "text"}
        assert (notice["type"], notice["level"]) == ("notice", "warning")
        assert notice["code"] in ("malformed", "unprocessable")


async def test_duplicate_keys_are_read_one_way(limited: Site) -> None:
    """The request that is checked must be the one that is carried out."""
    async with open_socket(limited) as one:
        await one.send('{"type":"send","type":"resume","requestId":"a","requestId":"b","id":"../x","id":"c"}')
        assert await one.next() == {"type": "no-active", "requestId": "b"}


@pytest.mark.parametrize("nonsense", ["nonsense", b"\0"])
async def test_too_much_nonsense(limited: Site, nonsense: str | bytes) -> None:
    async with open_socket(limited) as one:
        await one.send(*[nonsense] * 11)
        assert await one.closed() == (1008, "too many malformed frames")


async def test_nonsense_of_one_does_not_touch_the_answers_of_another(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]]))
    async with open_socket(site) as one, open_socket(site) as bad:
        await one.send(send_frame())
        before = await one.until("text-delta")
        await bad.send(resume_frame())
        await bad.send(*["nonsense"] * 11)
        assert (await bad.closed())[0] == 1008
        held.set()
        assert text_in(before + await one.answer("r1")) == "one two"


async def test_a_message_that_is_too_large(limited: Site) -> None:
    """The picture was too big: the other chats on the socket go on."""
    large = send_frame("x" * 200_000, "big")
    async with open_socket(limited) as one:
        assert "at most 200000 bytes" in refusal(await one.ask(large))
        assert text_in(await one.ask(send_frame(chat="fine"))) == "ok"


async def test_too_many_requests_on_a_socket(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(ScriptedModel(script=lambda _: [Say("one "), Wait(held), Say("two")]), socket_requests=2)
    async with open_socket(site) as one:
        await one.send(*(send_frame(request_id=name, chat=name) for name in ("a", "b")))
        await one.send(send_frame(request_id="c", chat="c"), resume_frame("d", chat="a"))
        assert "too many open requests" in refusal(await one.answer("c"))
        assert "too many open requests" in refusal(await one.answer("d"))
        held.set()
        found = [await one.next()]
        while sum(frame["type"] == "end" for frame in found) < 2:
            found.append(await one.next())
        assert text_in(await one.ask(send_frame(request_id="c", chat="c"))) == "one two"


async def test_too_many_frames(open_site: Open) -> None:
    site = await open_site(controls_per_second=1)
    async with open_socket(site) as one, open_socket(site) as other:
        await one.send(*(resume_frame(f"r{number}") for number in range(6)))
        assert await one.closed() == (4429, "too many frames")
        assert text_in(await other.ask(send_frame())) == "ok"


async def test_too_many_sockets(open_site: Open) -> None:
    site = await open_site(sockets_per_user=2, authenticate=by_header)
    ann, bob = {"x-user": "ann"}, {"x-user": "bob"}
    async with open_socket(site, headers=ann) as first, open_socket(site, headers=ann) as second:
        for _ in range(3):
            async with open_socket(site, headers=ann) as third:
                assert await third.closed() == (4429, "too many sockets")
        async with open_socket(site, headers=bob) as other:
            assert text_in(await other.ask(send_frame())) == "ok"
        assert text_in(await first.ask(send_frame())) == "ok"
        await second.connection.close()
        async with open_socket(site, headers=ann) as again:
            assert (await again.ask(resume_frame()))[0]["type"] == "no-active"


async def test_one_socket_for_each_of_thirty_two_chats(open_site: Open) -> None:
    """A single-page app with the stock transport opens one for each chat it shows."""
    site = await open_site()
    async with AsyncExitStack() as open_lines:
        lines = [await open_lines.enter_async_context(open_socket(site)) for _ in range(32)]
        async with open_socket(site) as one_more:
            assert await one_more.closed() == (4429, "too many sockets")
        assert text_in(await lines[-1].ask(send_frame(chat="c32"))) == "ok"


async def test_too_many_messages(open_site: Open) -> None:
    site = await open_site(chats_per_minute=2, authenticate=by_header)
    async with open_socket(site, headers={"x-user": "ann"}, subprotocols=OURS) as one:
        for number in range(2):
            assert text_in(await one.ask(send_frame(message_id=f"u{number}"))) == "ok"
        [refused] = await one.ask(send_frame(message_id="u9"))
        assert (refused["type"], refused["code"]) == ("error", "too-many")
        assert "try again in" in refused["errorText"]
        assert (await one.ask(resume_frame()))[-1]["type"] == "no-active"


async def test_messages_over_http_and_sockets_are_counted_together(open_site: Open) -> None:
    site = await open_site(chats_per_minute=2)
    async with open_socket(site) as one:
        assert text_in(await one.ask(send_frame())) == "ok"
        assert (await site.client.post("/api/chat", json=body(message_id="u2"))).status_code == 200
        assert "Too many messages" in refusal(await one.ask(send_frame(message_id="u3")))
        assert (await site.client.post("/api/chat", json=body(message_id="u4"))).status_code == 429


class Hand:
    """The clock of sockets, set by tests, so that a slow machine makes no socket idle."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return time.time()


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    hand = Hand()
    monkeypatch.setattr(connection, "time", hand)
    return hand


async def test_an_idle_socket_is_closed_and_a_busy_one_is_not(open_site: Open, hand: Hand) -> None:
    held = asyncio.Event()
    site = await open_site(ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]]), socket_idle=0.05)
    async with open_socket(site) as busy:
        await busy.send(send_frame())
        before = await busy.until("text-delta")
        for _ in range(3):
            async with open_socket(site) as idle:
                assert (await idle.ask(resume_frame(chat="other")))[0]["type"] == "no-active"
                hand.now += 1
                assert await idle.closed() == (4408, "idle")
        held.set()
        assert text_in(before + await busy.answer("r1")) == "one two"
        hand.now += 1
        assert await busy.closed() == (4408, "idle")


async def test_pings_keep_a_socket_open(open_site: Open, hand: Hand) -> None:
    site = await open_site(socket_idle=0.05)
    async with open_socket(site, subprotocols=OURS) as one:
        for _ in range(2):
            async with open_socket(site) as idle:
                ended = asyncio.create_task(idle.closed())
                while not ended.done():
                    hand.now += 0.04
                    await one.send({"type": "ping", "timestamp": 0})
                    await one.next()
                    await asyncio.wait([ended], timeout=0.05)
        assert (await one.ask(resume_frame()))[0]["type"] == "no-active"


class ForgetfulLog(MemoryStreamLog):
    """A log whose store goes away and comes back."""

    away = False

    async def read(self, run: str, after: int, wait: float) -> Any:
        if self.away:
            raise Unavailable("The stream store does not answer.")
        return await super().read(run, after, wait)

    async def head(self, run: str) -> Any:
        if self.away:
            raise Unavailable("The stream store does not answer.")
        return await super().head(run)


async def test_a_store_that_is_away(tmp_path: Path) -> None:
    """The client comes back and goes on: an error would have been the end of the message."""
    held, log = asyncio.Event(), ForgetfulLog(ttl=60, max_bytes=1_000_000, max_run_bytes=1_000_000)
    given = settings(tmp_path, db="memory:", heartbeat=0.05)
    agent = scripted(ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]]))
    app = create_app(Bridge(agent, settings=given, stores=replace(Stores.open(given), log=log)))
    async with serving(app) as site:
        async with open_socket(site, subprotocols=OURS) as one:
            await one.send(send_frame())
            before = await one.until("text-delta")
            log.away = True
            assert (await one.closed())[0] == 4503
        async with open_socket(site, subprotocols=OURS) as two:
            await two.send(resume_frame(after=before[-1]["id"], lastSequence=before[-1]["sequence"]))
            assert (await two.closed())[0] == 4503
        log.away = False
        async with open_socket(site, subprotocols=OURS) as three:
            await three.send(resume_frame("r1", after=before[-1]["id"], lastSequence=before[-1]["sequence"]))
            held.set()
            assert text_in(before + await three.answer("r1")) == "one two"
        await app.state.bridge.close()


async def test_a_request_that_fails_does_not_touch_the_others(
    open_site: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site = await open_site()

    async def broken(*args: Any) -> Any:
        raise KeyError("canary")

    async with open_socket(site) as one:
        with monkeypatch.context() as patched:
            patched.setattr(Bridge, "follow", broken)
            text = refusal(await one.ask(resume_frame()))
        assert text == "The server failed. Its log says why."
        assert text_in(await one.ask(send_frame())) == "ok"
    assert [record.name for record in caplog.records if record.exc_info] == ["adkwire"]


async def test_200_sockets_leave_nothing_behind(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]]), sockets_per_user=50)
    async with open_socket(site) as one:
        await one.send(send_frame())
        before = await one.until("text-delta")
        quiet = asyncio.all_tasks()
        for number in range(200):
            async with open_socket(site) as other:
                if number % 2:
                    await other.send(resume_frame(), resume_frame("r3"), "nonsense")
                if number % 4 == 3:
                    await other.until("text-delta")
                if number % 3 == 0:
                    other.connection.transport.abort()
        await until(lambda: not leaked_since(quiet))
        held.set()
        assert text_in(before + await one.answer("r1")) == "one two"


SCOPE: dict[str, Any] = {
    "type": "websocket",
    "path": "/api/chat/ws",
    "raw_path": b"/api/chat/ws",
    "query_string": b"",
    "headers": [(b"host", b"localhost")],
    "subprotocols": [],
    "client": ("127.0.0.1", 1),
    "scheme": "ws",
}


@pytest.mark.parametrize("word", ["start", "chunk", "end", "error"])
async def test_a_client_that_leaves_at_any_frame_leaves_no_task(tmp_path: Path, word: str) -> None:
    """By hand, as a server whose client takes no more just when this is sent."""
    app = create_app(scripted(ScriptedModel(turns=[[Say("one two")]])), settings=settings(tmp_path, db="memory:"))
    coming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    for message in ({"type": "websocket.connect"}, *(_received(frame) for frame in (send_frame(), {"requestId": "x"}))):
        coming.put_nowait(message)

    async def send(message: Any) -> None:
        if f'"type":"{word}"' in message.get("text", ""):
            coming.put_nowait({"type": "websocket.disconnect", "code": 1006})
            await asyncio.Event().wait()

    before = asyncio.all_tasks()
    async with asyncio.timeout(PATIENCE):
        await app(dict(SCOPE), coming.get, send)
        for run in app.state.bridge.active_runs:
            await run.done.wait()
        await app.state.bridge.close()
    assert not leaked_since(before)


def _received(frame: Any) -> dict[str, Any]:
    return {"type": "websocket.receive", "text": json.dumps(frame)}


async def test_readers_that_have_left_are_not_counted(tmp_path: Path) -> None:
    held = asyncio.Event()
    app = create_app(
        scripted(ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]])),
        settings=settings(tmp_path, db="memory:"),
    )
    async with serving(app) as site:
        async with open_socket(site) as one, open_socket(site) as two:
            await one.send(send_frame())
            await one.until("text-delta")
            await two.send(resume_frame(), resume_frame("r3"))
            await two.until("text-delta", "r3")
            run = app.state.bridge.running("local", "chat")
            assert run.readers == 3
            await two.connection.close()
            await until(lambda: run.readers == 1)
        await until(lambda: run.readers == 0)
        assert run.active
        held.set()
        await run.done.wait()
        await app.state.bridge.close()


@contextmanager
def received_frame(words: str) -> Generator[asyncio.Event]:
    """An event that is set when the log says this."""
    heard_it, logger = asyncio.Event(), logging.getLogger("adkwire")

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if words in record.getMessage():
                heard_it.set()

    listener, level = Listener(), logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.INFO)
    try:
        yield heard_it
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)


async def test_a_slow_reader_is_cut_and_others_are_not(tmp_path: Path) -> None:
    """The run goes on, another reader gets all of it, and the slow one gets the close code when it reads again."""
    pieces, last = ["x" * 60_000 for _ in range(120)], asyncio.Event()
    model = ScriptedModel(turns=[[*(Say(piece, chunk=100_000) for piece in pieces), Wait(last), Say("end")]])
    given = settings(tmp_path, db="memory:", slow_reader=1.5)
    app = create_app(scripted(model), settings=given)
    async with serving(app, ws=UvicornProtocol) as site:
        with received_frame("slow reader") as cut:
            reply, slow = await raw_handshake(site.port, [("host", "localhost")], narrow=True)
            assert reply.status == 101
            slow.write(1, json.dumps(send_frame()).encode())
            async with open_socket(site) as fast:
                await fast.send(send_frame())
                async with asyncio.timeout(PATIENCE):
                    await cut.wait()
                assert app.state.bridge.running("local", "chat") is not None
                last.set()
                assert len(text_in(await fast.answer("r1"))) == 120 * 60_000 + 3
        slow.widen()
        frames = [frame async for frame in _rest(slow)]
        assert frames[-1][0] == 8
        assert (int.from_bytes(frames[-1][1][:2]), frames[-1][1][2:]) == (4408, b"slow reader")
        got = [json.loads(payload) for opcode, payload in frames if opcode == 1]
        assert 0 < len(text_in(got)) < 120 * 60_000
        again = await site.client.post("/api/chat", json=body())
        assert len(answer_text(again.text)) == 120 * 60_000 + 3
        slow.drop()
    await app.state.bridge.close()


async def _rest(wire: Any) -> AsyncIterator[tuple[int, bytes]]:
    frame = None
    while frame is None or frame[0] != 8:
        frame = await wire.read()
        assert frame is not None, "it was cut without a word"
        yield frame


class ImpatientSocket(UvicornProtocol):
    """A WebSocket protocol that sets an event when its connection is lost."""

    gone: asyncio.Event

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.close_timeout = 0.1

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.gone.set()


@pytest.mark.parametrize("ws", ["websockets-sansio", ImpatientSocket])
async def test_a_slow_reader_that_never_wakes_up(tmp_path: Path, ws: Any) -> None:
    """No task waits for it on any server, and on ours the connection is ended too."""
    ImpatientSocket.gone = asyncio.Event()
    model = ScriptedModel(turns=[[*(Say("x" * 60_000, chunk=100_000) for _ in range(120))]])
    app = create_app(scripted(model), settings=settings(tmp_path, db="memory:", slow_reader=0.2))
    async with serving(app, ws=ws) as site:
        quiet = asyncio.all_tasks()
        with received_frame("slow reader") as cut:
            _, slow = await raw_handshake(site.port, [("host", "localhost")], narrow=True)
            slow.write(1, json.dumps(send_frame()).encode())
            async with asyncio.timeout(PATIENCE):
                await cut.wait()
                if ws is ImpatientSocket:
                    await ImpatientSocket.gone.wait()
        await app.state.bridge.close()
        await until(lambda: not leaked_since(quiet))
        slow.drop()


async def test_going_down(tmp_path: Path) -> None:
    gates = {name: asyncio.Event() for name in ("a", "b")}

    def script(request: Any) -> list[Any]:
        name = texts_in(request.contents)[-1][1]
        return [Say(f"{name} "), Wait(gates[name]), Say("done")]

    app = create_app(scripted(ScriptedModel(script=script)), settings=settings(tmp_path, drain=30))
    async with (
        serving(app) as site,
        open_socket(site, subprotocols=OURS) as ours,
        open_socket(site) as stock,
        open_socket(site) as idle,
        open_socket(site, subprotocols=OURS) as idle_ours,
    ):
        for one, name in ((ours, "a"), (stock, "b")):
            await one.send(send_frame(name, name, chat=name))
            await one.until("text-delta")
        closing = asyncio.create_task(app.state.bridge.close())
        notice = await ours.next()
        assert (notice["type"], notice["code"]) == ("notice", "server-restart")
        assert await idle.closed() == (1001, "the server restarts")
        assert (await idle_ours.next())["type"] == "notice"
        assert (await idle_ours.closed())[0] == 1001
        reply, wire = await raw_handshake(site.port, [("host", "localhost")])
        wire.drop()
        assert reply.status == 503
        assert not closing.done()
        gates["a"].set()
        assert text_in(await ours.answer("a")) == "done"
        assert (await ours.closed())[0] == 1001
        gates["b"].set()
        frames = await stock.answer("b")
        assert {frame["type"] for frame in frames} == {"chunk", "end"}
        assert (await stock.closed())[0] == 1001
        await closing


async def test_a_message_that_meets_a_server_going_down(tmp_path: Path) -> None:
    """A stock client is told; ours loses its socket, and sends the message again on the next."""
    held = asyncio.Event()
    model = ScriptedModel(script=lambda _: [Say("one "), Wait(held)])
    app = create_app(scripted(model), settings=settings(tmp_path, drain=30))
    async with serving(app) as site, open_socket(site, subprotocols=OURS) as ours, open_socket(site) as stock:
        for one, name in ((ours, "a"), (stock, "b")):
            await one.send(send_frame(name, name, chat=name))
            await one.until("text-delta")
        closing = asyncio.create_task(app.state.bridge.close())
        assert (await ours.next())["type"] == "notice"
        [refused] = await stock.ask(send_frame("b", "new", chat="c", message_id="u7"))
        assert refused["type"] == "error"
        await ours.send(send_frame("a", "new", chat="c", message_id="u7"))
        assert await ours.closed() == (1001, "the server restarts")
        held.set()
        await closing
    assert len(model.requests) == 2


async def test_going_down_at_once(tmp_path: Path) -> None:
    """A run that does not end is stopped, and its reader gets the abort."""
    model = ScriptedModel(turns=[[Say("one "), Wait(asyncio.Event())]])
    app = create_app(scripted(model), settings=settings(tmp_path, drain=0))
    async with serving(app) as site, open_socket(site) as one:
        await one.send(send_frame())
        await one.until("text-delta")
        closing = asyncio.create_task(app.state.bridge.close())
        frames = await one.answer("r1")
        assert frames[-2]["chunk"]["type"] in ("finish", "error")
        assert (await one.closed())[0] == 1001
        await closing
        await app.state.bridge.close()
