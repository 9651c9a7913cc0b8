"""5,000 wrong frames on live sockets: no crash, no leak, and only what the contract has.

And what they have found, as small as it gets.
"""

import asyncio
import logging
from pathlib import Path

import pytest

from adkwire import create_app
from adkwire.server.sockets.uvicorn_protocol import UvicornProtocol
from adkwire.testing import Say, ScriptedModel, Wait
from tests.faults.live_fuzz import fuzz
from tests.server.app_server import serving
from tests.server.conftest import Open
from tests.server.sockets.live_client import open_live
from tests.server.sockets.socket_client import send_frame, text_in, until
from tests.support.chats import scripted, settings
from tests.support.fixtures import leaked_since


async def test_wrong_frames(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    given = settings(
        tmp_path,
        db="memory:",
        ui=False,
        chats_per_minute=0,
        controls_per_second=200,
        max_body_bytes=200_000,
        sockets_per_user=50,
        live_grace=0,
    )
    before = asyncio.all_tasks()
    app = create_app(scripted(ScriptedModel(script=lambda _: [Say("ok")])), settings=given)
    async with serving(app, ws=UvicornProtocol, ws_max_size=400_000) as site:
        found = await fuzz(site.port, 5_000, seed=1)
        assert found.complaints == []
        assert found.frames >= 5_000
        assert {"error", "ready", "pong", "chunk"} <= set(found.frame_types)
        assert {1000, 1002, 1007, 1008, 1009} <= set(found.closes)
        async with open_live(site, "fine") as one:
            await one.send(send_frame(chat="fine"))
            assert text_in(await one.answer("r1")) == "ok"
    await app.state.bridge.close()
    await until(lambda: not leaked_since(before))
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_two_answers_at_once_are_settled_once(open_site: Open) -> None:
    site = await open_site(db="memory:")
    async with open_live(site) as one, open_live(site) as other, open_live(site) as third:
        await one.send(send_frame(request_id="r1"))
        await other.send(send_frame(request_id="r2"))
        assert text_in(await one.answer("r1")) == "ok"
        for line, turns in (other, 0), (third, 1):
            frames = await line.until("end")
            [(reading, text)] = {(frame["requestId"], text_in(frames)) for frame in frames if frame["type"] == "chunk"}
            assert text == "ok"
            assert [frame["requestId"] for frame in frames if frame["type"] == "turn"] == [reading] * turns
            assert len([frame for frame in frames if frame["type"] == "user-transcript"]) == turns


async def test_a_client_that_leaves_reads_no_pushed_turn(open_site: Open) -> None:
    held = asyncio.Event()
    model = ScriptedModel(script=lambda _: [Say("one "), Wait(held), Say("two")])
    site = await open_site(model, db="memory:")
    async with open_live(site) as one, open_live(site) as other:
        async with open_live(site) as third:
            await one.send(send_frame())
            await other.send(send_frame())
            await third.until("text-delta")
        held.set()
        assert text_in(await one.answer("r1")) == "one two"
        await until(lambda: not [task for task in asyncio.all_tasks() if "socket-turn" in task.get_name()])
