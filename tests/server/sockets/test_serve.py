"""Sockets on a real `adkwire serve`: raw bytes of all kinds, limits of the server itself, its log, its end."""

import asyncio
import json
import random
import signal
import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.server.app_server import PATIENCE
from tests.server.sockets.socket_client import (
    OURS,
    RawSocket,
    open_socket,
    raw_handshake,
    resume_frame,
    send_frame,
    text_in,
)
from tests.servers import Server, serve

TOKEN = "canary-token-7b1f"
AGENT = """
import asyncio
from google.adk.agents import LlmAgent
from adkwire.testing import Say, ScriptedModel, Wait

def script(request):
    text = request.contents[-1].parts[0].text
    return [Say("one "), Wait(asyncio.Event())] if text == "wait" else [Say("ok")]

root_agent = LlmAgent(name="helper", model=ScriptedModel(script=script))
"""
SEEDS = 500


def port_of(server: Server) -> int:
    return urlsplit(server.url).port or 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serve")
    (folder / "agent.py").write_text(AGENT)
    given = {"ADKWIRE_MAX_BODY_BYTES": "100000"}
    with serve("agent.py", "--db", "memory:", "--no-ui", "--log-level", "debug", cwd=folder, env=given) as running:
        yield running
    assert "Traceback" not in running.output
    assert "ERROR" not in running.output


async def open_wire(port: int) -> RawSocket:
    reply, wire = await raw_handshake(port, [("host", "localhost")])
    assert reply.status == 101
    return wire


async def test_frames_beyond_all_limits(server: Server) -> None:
    port = port_of(server)
    async with open_socket(port) as one:
        await one.send(send_frame("x" * 150_000))
        assert "at most 100000 bytes" in (await one.next())["errorText"]
        await one.send(send_frame("x" * 250_000))
        assert (await one.closed())[0] == 1009
    async with open_socket(port) as other:
        assert text_in(await other.ask(send_frame())) == "ok"


@pytest.mark.parametrize(
    ("opcode", "payload", "first", "masked", "code"),
    [
        (1, b"\xff\xfe", 0x80, True, 1007),
        (1, b'{"type":"abort","requestId":"\xed\xa0\xbd"}', 0x80, True, 1007),
        (1, b"{}", 0xC0, True, 1002),
        (3, b"{}", 0x80, True, 1002),
        (0, b"{}", 0x80, True, 1002),
        (1, b"{}", 0x80, False, 1002),
        (9, b"x" * 126, 0x80, True, 1002),
        (8, b"x", 0x80, True, 1002),
        (8, struct.pack("!H", 1005), 0x80, True, 1002),
        (8, struct.pack("!H", 1000) + b"\xff", 0x80, True, 1007),
    ],
)
async def test_what_is_no_frame(
    server: Server, opcode: int, payload: bytes, first: int, masked: bool, code: int
) -> None:
    wire = await open_wire(port_of(server))
    wire.write(opcode, payload, first=first, masked=masked)
    assert await wire.close_code() == code
    wire.drop()


async def test_a_message_in_pieces_with_a_ping_between(server: Server) -> None:
    wire = await open_wire(port_of(server))
    raw = json.dumps(resume_frame()).encode()
    wire.write(1, raw[:10], first=0)
    wire.write(9, b"there?")
    wire.write(0, raw[10:20], first=0)
    wire.write(0, raw[20:])
    assert await wire.read() == (10, b"there?")
    answer = await wire.read()
    assert answer is not None
    assert json.loads(answer[1]) == {"type": "no-active", "requestId": "r2"}
    wire.drop()


def frame_of(chance: random.Random) -> tuple[int, bytes, int, bool]:
    """Something that may come: mostly frames that are nearly right, sometimes none at all."""
    whole = json.dumps(chance.choice([send_frame(chat="fuzz"), resume_frame(), {"type": "abort", "requestId": "r1"}]))
    raw = bytearray(whole.encode())
    for _ in range(chance.choice([0, 0, 1, 1, 3, 20])):
        at = chance.randrange(len(raw))
        match chance.randrange(4):
            case 0:
                raw[at] = chance.randrange(256)
            case 1:
                del raw[at : at + chance.randrange(1, 9)]
            case 2:
                raw[at:at] = chance.choice([b"[", b"}", b'"', b"\\ud800", b"null", b",", b"1e999", b"\xf0\x9f", b"\0"])
            case _:
                raw += raw[:at]
        raw = raw or bytearray(b"{")
    opcode = chance.choices([1, 2, 0, 9, 10, 3], [60, 4, 2, 3, 2, 1])[0]
    first = chance.choices([0x80, 0x00, 0xC0], [40, 2, 1])[0]
    return opcode, bytes(raw if opcode < 9 else raw[:125]), first, chance.random() > 0.02


async def test_anything_at_all(server: Server) -> None:
    """Only what is documented comes of it."""
    chance, port, codes = random.Random(7), port_of(server), set[int | None]()
    types: set[str] = set()
    wire = await open_wire(port)
    for number in range(SEEDS):
        opcode, payload, first, masked = frame_of(chance)
        wire.write(opcode, payload, first=first, masked=masked)
        if number % 25 == 24:
            wire.write(8, struct.pack("!H", 1000))
        elif chance.random() > 0.3:
            continue
        else:
            wire.write(9, b"sync")
        while (frame := await wire.read()) not in (None, (10, b"sync")):
            assert frame is not None
            if frame[0] == 8:
                codes.add(int.from_bytes(frame[1][:2]))
                frame = None
                break
            if frame[0] == 1:
                types.add(json.loads(frame[1])["type"])
        if frame is None:
            wire.drop()
            wire = await open_wire(port)
    wire.drop()
    assert codes <= {1000, 1002, 1007, 1008, 4429}
    assert {1000, 1002, 1007} <= codes
    assert types <= {"start", "chunk", "end", "error", "no-active"}
    assert {"chunk", "error", "no-active"} <= types
    async with open_socket(port) as one:
        assert text_in(await one.ask(send_frame(chat="after"))) == "ok"


async def test_the_log_and_the_end(tmp_path: Path) -> None:
    """A token is not written down, whatever the level; who follows an answer is told when the server goes."""
    (tmp_path / "agent.py").write_text(AGENT)
    given = {"ADKWIRE_TOKEN": TOKEN, "ADKWIRE_DRAIN": "0"}
    options = ("--auth", "token", "--db", "memory:", "--no-ui", "--log-level", "debug")
    with serve("agent.py", *options, cwd=tmp_path, env=given) as server:
        port = port_of(server)
        async with (
            open_socket(port, query=f"?token={TOKEN}") as stock,
            open_socket(port, subprotocols=(*OURS, f"adkwire.token.{TOKEN}")) as ours,
        ):
            for one, chat in ((stock, "a"), (ours, "b")):
                await one.send(send_frame("wait", chat=chat))
                await one.until("text-delta")
            refused, wire = await raw_handshake(port, [("host", "localhost")], path="/api/chat/ws?token=canary-wrong")
            wire.drop()
            assert refused.status == 401
            server.process.send_signal(signal.SIGTERM)
            assert (await ours.next())["code"] == "server-restart"
            for one in (stock, ours):
                frames = await one.answer("r1")
                assert frames[-1]["type"] == "end"
                assert await one.closed() == (1001, "the server restarts")
        async with asyncio.timeout(PATIENCE):
            await asyncio.to_thread(server.process.wait)
    assert server.process.returncode in (0, -signal.SIGTERM)
    assert "/api/chat/ws" in server.output
    assert "canary" not in server.output
    assert "Traceback" not in server.output
