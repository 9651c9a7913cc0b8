"""A recording of the demo, replayed: stock clients end with the very messages they had when it was recorded."""

import contextlib
import json
import socket
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn

from adkwire.recording.files import load_recording
from adkwire.server.replay import create_replay_app
from adkwire.settings import Settings
from tests.conformance.acts import act, approve, load, say
from tests.conformance.records import Column, Record, drive
from tests.servers import serve

V6, V7, SOCKET = Column("ai-6-0-326"), Column("ai-7-0-169"), Column("ai-7-0-169", "ai-7-0-169")
STORY = act(
    "story",
    *(say("think about tea"), say("weather in Tokyo"), say("pay 50 to Hanako"), approve("process_payment")),
    *(say("draw a cat"), say("what time is it")),
    executor={"get_timezone": {"output": {"timezone": "Asia/Tokyo", "local_time": "2026-01-02T12:34:00+09:00"}}},
)
RELOADED = act("reloaded", say("one"), say("two"), say("three"), load("second"), approve("process_payment"))
"""The messages of the replay: their texts do not matter."""


class Recorded(NamedTuple):
    """The record of a client, and the recording that was written meanwhile."""

    record: Record
    file: Path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[Column, Recorded]:
    """Record the same messages of each client on one server."""
    folder = tmp_path_factory.mktemp("recorded")
    with serve("--record", "recordings", cwd=folder) as server:
        tellers = [(V6, "Six"), (V7, "seven"), (SOCKET, "socket")]
        with ThreadPoolExecutor() as pool:
            records = [pool.submit(drive, column, server.url, [STORY.job(chat)]) for column, chat in tellers]
            stories = {column: stories.result()["story"] for (column, _), stories in zip(tellers, records, strict=True)}
    for record in stories.values():
        assert (record.failure, record.page.error) == (None, None)
        assert len(record.page.messages) == 10
    return {by: Recorded(record, folder / "recordings" / f"{record.chat}.jsonl") for by, record in stories.items()}


@contextlib.contextmanager
def replaying(file: Path) -> Generator[str]:
    """The address of a server that replays a file, in a thread."""
    app = create_replay_app(load_recording(file), Settings.load(db="memory:", ui=False), "fast")
    config = uvicorn.Config(app, ws="websockets-sansio", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def same(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages without the ids that the client itself has made up."""
    return [{**message, "id": ""} if message["role"] == "user" else message for message in messages]


@pytest.mark.parametrize(
    ("column", "recorded_by"),
    [(V6, V6), (V7, V7), (SOCKET, SOCKET), (SOCKET, V7)],
    ids=["6.0.326", "7.0.169", "socket", "socket from sse"],
)
def test_the_same_messages(recorded: dict[Column, Recorded], column: Column, recorded_by: Column) -> None:
    was, file = recorded[recorded_by]
    with replaying(file) as url:
        records = drive(column, url, [STORY.job("again"), RELOADED.job("reloaded")])
    again, reloaded = records["story"], records["reloaded"]
    assert (again.failure, again.page.error, reloaded.failure) == (None, None, None)
    assert same(again.page.messages) == same(was.page.messages)
    assert same(again.history["messages"]) == same(was.history["messages"])
    assert [call["tool"] for call in reloaded.seen["loaded"]["pending"]] == ["process_payment"]
    modes = {json.loads(line)["mode"] for line in file.read_text().split("\n") if line}
    assert modes == {"websocket" if recorded_by == SOCKET else "sse"}
    assert reloaded.pages["second"].messages[5] == was.page.messages[5]
