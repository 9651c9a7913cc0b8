"""Many conversations at once, and many clients that connect and disconnect: nothing is lost or leaked."""

import asyncio
import gc
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest

from adkwire import create_app
from adkwire.adk.live_queue import LiveQueue
from adkwire.bridge import Bridge
from adkwire.live.conversation import Conversation
from adkwire.runs.run import Run
from adkwire.server.sockets.live import LiveSocket
from adkwire.server.sockets.outbox import Outbox
from adkwire.server.sockets.uvicorn_protocol import UvicornProtocol
from adkwire.testing import Call, Say, ScriptedModel
from adkwire.testing.steps import Step
from adkwire.wire.socket.live_frames_in import LIVE_SUBPROTOCOL
from tests.patience import PATIENCE
from tests.server.app_server import Site, serving
from tests.server.conftest import Open
from tests.server.sockets.live_client import LiveClient, binary, control, open_live, turn_of
from tests.server.sockets.socket_client import RawSocket, raw_handshake, send_frame, text_in, until
from tests.support.chats import scripted, settings, texts_in
from tests.support.fixtures import leaked_since
from tests.support.gated_tools import Till

SESSIONS = 20
PIECE = 0.02
SECONDS = 3
SOUND = bytes(640)
MANY = 50
"""Pieces that may wait for the model: one second. What is dropped is older than two."""

BATCHES, VISITS = 5, 100
AT_ONCE = 10
CHATS = 7
KEPT = (Conversation, LiveQueue, LiveSocket, Outbox, Run)
TEXT, BINARY, CLOSE = 1, 2, 8
ENDS = ("end", "error", "no-active")


def living(kind: type[Any]) -> list[Any]:
    """Return all objects of a class that are still referenced."""
    gc.collect()
    return [thing for thing in gc.get_objects() if isinstance(thing, kind)]


async def test_20_talk_at_once(open_site: Open, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "adkwire")
    model = ScriptedModel(script=lambda request: [Say("heard " + texts_in(request.contents)[-1][1])])
    site = await open_site(model, db="memory:", sockets_per_user=SESSIONS)
    begun, longest = asyncio.Barrier(SESSIONS + 1), 0
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(PATIENCE):
        speaking = [tasks.create_task(conversation(site, number, begun)) for number in range(SESSIONS)]
        await begun.wait()
        await until(lambda: len(living(LiveQueue)) == SESSIONS)
        queues = living(LiveQueue)
        while not all(task.done() for task in speaking):
            longest = max(longest, *(queue._waiting.qsize() for queue in queues))
            await asyncio.wait(speaking, timeout=PIECE)
    assert [queue.dropped for queue in queues] == [0] * SESSIONS
    assert longest <= MANY
    assert [task.result() for task in speaking] == [f"heard ({SECONDS:.1f} seconds of sound)"] * SESSIONS
    assert not [record for record in caplog.records if "left out" in record.getMessage()]


async def conversation(site: Site, number: int, begun: asyncio.Barrier) -> str:
    """Speak at the pace of speech, and listen to what was understood."""
    async with open_live(site, f"chat-{number}") as one:
        await one.send(control("start"), binary(SOUND))
        await begun.wait()
        started = time.monotonic()
        for piece in range(1, round(SECONDS / PIECE)):
            await asyncio.sleep(started + piece * PIECE - time.monotonic())
            await one.send(binary(SOUND))
        await one.send(control("stop"))
        _, frames = await turn_of(one)
        await last_sound(one)
        return text_in(frames)


async def last_sound(one: LiveClient) -> None:
    """Listen until the model has said all of it."""
    while not one.heard or not one.heard[-1].flags:
        await one.next()


class Visitor:
    """A client that opens a socket, does something, and drops the connection."""

    def __init__(self, wire: RawSocket, chat: str, number: int) -> None:
        self.wire = wire
        self.chat = chat
        self.number = number

    def send(self, *frames: dict[str, Any]) -> None:
        for frame in frames:
            self.wire.write(TEXT, json.dumps(frame).encode())

    def ask(self, text: str) -> None:
        self.send(send_frame(text, chat=self.chat, message_id=f"u{self.number}"))

    async def until(self, *kinds: str) -> None:
        """Read until one of these has come, or the socket has ended."""
        while (frame := await self.wire.read()) is not None and frame[0] != CLOSE:
            if frame[0] == TEXT:
                decoded = json.loads(frame[1])
                if decoded["type"] in kinds or decoded.get("chunk", {}).get("type") in kinds:
                    return


async def nothing(one: Visitor) -> None:
    """Is gone at once."""


async def looks(one: Visitor) -> None:
    await one.until("ready")


async def hurries(one: Visitor) -> None:
    """Is gone while the message is handed over, which meets the end of the conversation."""
    await one.until("ready")
    one.ask("hi")
    one.wire.writer.write_eof()
    await one.until("never")


async def writes(one: Visitor) -> None:
    one.ask("hi")
    await one.until("text-delta", *ENDS)


async def speaks(one: Visitor) -> None:
    one.send(control("start"))
    for _ in range(5):
        one.wire.write(BINARY, binary(SOUND))
    one.send({"type": "ping"})
    await one.until("pong")


async def listens(one: Visitor) -> None:
    one.send(control("start"))
    one.wire.write(BINARY, binary(SOUND))
    one.send(control("stop"))
    await one.until("turn", *ENDS)


async def pays(one: Visitor) -> None:
    one.ask("pay")
    await one.until("tool-approval-request", *ENDS)


async def leaves(one: Visitor) -> None:
    one.ask("hi")
    await one.until(*ENDS)
    one.send({"type": "close"})
    await one.until("never")


WAYS: tuple[tuple[str, Callable[[Visitor], Awaitable[None]]], ...] = (
    (LIVE_SUBPROTOCOL, nothing),
    (LIVE_SUBPROTOCOL, looks),
    (LIVE_SUBPROTOCOL, writes),
    ("", writes),
    (LIVE_SUBPROTOCOL, speaks),
    (LIVE_SUBPROTOCOL, listens),
    (LIVE_SUBPROTOCOL, pays),
    ("", pays),
    (LIVE_SUBPROTOCOL, leaves),
    (LIVE_SUBPROTOCOL, hurries),
)


async def visit(site: Site, batch: int, number: int) -> None:
    """Come, do one of the things that people do, and go."""
    subprotocol, act = WAYS[number % len(WAYS)]
    chat = f"chat-{batch}-{number % CHATS}"
    named = [("sec-websocket-protocol", subprotocol)] if subprotocol else []
    reply, wire = await raw_handshake(site.port, [("host", "localhost"), *named], path=f"/api/live?chat={chat}")
    assert reply.status == 101
    try:
        await act(Visitor(wire, chat, number))
    finally:
        wire.drop()


def script(request: LlmRequest) -> list[Step]:
    decoded = texts_in(request.contents)[-1][1]
    return [Call("pay", {"amount": 5})] if decoded == "pay" else [Say("one two three four")]


async def tidy() -> None:
    """Have the loop forget the timers that were cancelled, each of which holds the context it was made in: it does so
    when most are."""
    loop = asyncio.get_running_loop()
    for _ in range(1000):
        loop.call_later(3600, print).cancel()
    await asyncio.sleep(0)


def weigh() -> Counter[str]:
    """Return the numbers of tasks, sockets and objects."""
    gc.collect()
    found = gc.get_objects()
    files = len(list(Path("/proc/self/fd").iterdir()))
    kept = Counter(type(thing).__name__ for thing in found if isinstance(thing, KEPT))
    return kept + Counter({"objects": len(found), "files": files})


@pytest.mark.parametrize("grace", [0, 0.05])
async def test_500_come_and_go(tmp_path: Path, grace: float, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    given = settings(tmp_path, db="memory:", ui=False, chats_per_minute=0, sockets_per_user=AT_ONCE, live_grace=grace)
    model, before, weights = ScriptedModel(script=script), asyncio.all_tasks(), list[Counter[str]]()
    empty = weigh()
    app = create_app(scripted(model, Till().pay), settings=given)
    bridge: Bridge = app.state.bridge
    async with serving(app, ws=UvicornProtocol) as site:
        quiet = asyncio.all_tasks()
        for batch in range(BATCHES):
            await visits(site, batch)
            await until(lambda: bridge.live.count == 0 and set(leaked_since(quiet)) <= {"adkwire-expiry"})
            for chat in (await site.chats())["chats"]:
                assert (await site.client.delete(f"/api/chats/{chat['id']}")).status_code == 204
            # It remembers every conversation.
            model.live.clear()
            model.requests.clear()
            await tidy()
            weights.append(weigh())
    await bridge.close()
    await until(lambda: not leaked_since(before))
    assert {weight["files"] for weight in weights} == {weights[0]["files"]}
    assert weights[-1]["objects"] < weights[1]["objects"] * 1.01
    # What watches for expiry keeps the context of the first question, and with it one conversation.
    left = [{kind.__name__: weight[kind.__name__] - empty[kind.__name__] for kind in KEPT} for weight in weights]
    assert all(count <= 1 for each in left for count in each.values()), left
    assert [record.getMessage() for record in caplog.records] == []


async def visits(site: Site, batch: int) -> None:
    for first in range(0, VISITS, AT_ONCE):
        async with asyncio.TaskGroup() as tasks:
            for number in range(first, first + AT_ONCE):
                tasks.create_task(visit(site, batch, number))
