"""GET /api/chats/{chat}/chunks: a recording as a file, for the user of its chat."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from adkwire import User
from adkwire.recording import recorder
from adkwire.testing import Fail, Say, ScriptedModel
from tests.server.app_server import body
from tests.server.conftest import Open


def lines(data: bytes) -> list[dict[str, Any]]:
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def by_header(connection: HTTPConnection) -> User:
    return User(connection.headers.get("x-user", "ann"))


@pytest.mark.parametrize("block", [1, 65_536])
async def test_the_recording_is_the_file(
    open_site: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(recorder, "_READ_SIZE", block)
    site = await open_site(record=tmp_path / "recordings", error_detail=True)
    assert (await site.client.get("/api/info")).json()["recording"] is True
    await site.client.post("/api/chat", json=body(chat="a:b"))
    reply = await site.client.get("/api/chats/a:b/chunks")
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/x-ndjson"
    assert reply.headers["content-disposition"] == 'attachment; filename="a:b.jsonl"'
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cache-control"] == "no-store"
    [file] = (tmp_path / "recordings").iterdir()
    assert reply.content == file.read_bytes()
    assert lines(reply.content)[-1]["chunk"]["type"] == "finish"


async def test_events_of_adk_are_not_for_everybody(open_site: Open, tmp_path: Path) -> None:
    model = ScriptedModel(turns=[[Say("a"), Fail(ValueError("the key of the safe"))]])
    site = await open_site(model, record=tmp_path / "recordings")
    await site.client.post("/api/chat", json=body())
    reply = await site.client.get("/api/chats/chat/chunks")
    assert {line["location"] for line in lines(reply.content)} == {"client-frame", "server-chunk"}
    assert b"safe" not in reply.content
    [file] = (tmp_path / "recordings").iterdir()
    assert b"safe" in file.read_bytes()


async def test_a_line_that_is_being_written_is_left_out(open_site: Open, tmp_path: Path) -> None:
    site = await open_site(record=tmp_path / "recordings")
    await site.client.post("/api/chat", json=body())
    whole = (await site.client.get("/api/chats/chat/chunks")).content
    [file] = (tmp_path / "recordings").iterdir()
    file.write_bytes(file.read_bytes() + b'{"timestamp":1,"chat":"chat","mo')
    assert (await site.client.get("/api/chats/chat/chunks")).content == whole


async def test_only_the_user_of_the_chat_gets_it(open_site: Open, tmp_path: Path) -> None:
    site = await open_site(record=tmp_path / "recordings", authenticate=by_header)
    await site.client.post("/api/chat", json=body())
    for user, status in (("ann", 200), ("eve", 404), ("local", 404)):
        reply = await site.client.get("/api/chats/chat/chunks", headers={"x-user": user})
        assert (user, reply.status_code) == (user, status)
    await site.client.delete("/api/chats/chat")
    assert (await site.client.get("/api/chats/chat/chunks")).status_code == 404


async def test_a_link_in_the_folder_is_not_followed(open_site: Open, tmp_path: Path) -> None:
    site = await open_site(record=tmp_path / "recordings")
    await site.client.post("/api/chat", json=body())
    await site.client.get("/api/chats/chat/chunks")
    file = tmp_path / "recordings" / "chat.jsonl"
    file.rename(tmp_path / "elsewhere.jsonl")
    file.symlink_to(tmp_path / "elsewhere.jsonl")
    reply = await site.client.get("/api/chats/chat/chunks")
    assert (reply.status_code, reply.json()["error"]["message"]) == (404, "Nothing of this chat is recorded.")


async def test_a_server_that_does_not_record_says_so(open_site: Open) -> None:
    site = await open_site()
    assert (await site.client.get("/api/info")).json()["recording"] is False
    await site.client.post("/api/chat", json=body())
    reply = await site.client.get("/api/chats/chat/chunks")
    assert (reply.status_code, reply.json()["error"]) == (
        404,
        {"code": "not-found", "message": "This server does not record chats.", "hint": "Start it with --record DIR."},
    )
