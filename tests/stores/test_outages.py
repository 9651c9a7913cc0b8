"""A store that is out of order is a 503, to be tried again; a bug in a store call is a 500 with a traceback."""

import asyncio
import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.session import Session
from starlette.testclient import TestClient

from adkwire import Bridge, Settings, create_app
from adkwire.errors import Unavailable
from adkwire.stores.outages import is_outage
from adkwire.stores.sqlite.gate import SqliteGateStore
from adkwire.stores.sqlite.signals import SqliteSignals
from adkwire.stores.sqlite.streams import SqliteStreamLog
from adkwire.testing import Say, ScriptedModel
from tests.stores.contract import PATIENCE, TTL, head
from tests.stores.faults import Faults
from tests.stores.gate_contract import row
from tests.stores.signals_contract import listening


class DriverError(Exception):
    """An exception of an unknown driver."""


class IntegrityError(DriverError):
    """Named as PEP 249 says."""


OUTAGES: list[Exception] = [
    sqlite3.OperationalError("database is locked"),
    sqlite3.DatabaseError("file is not a database"),
    OSError("away"),
    ConnectionResetError("away"),
    TimeoutError("too slow"),
    DriverError("lost"),
]
SQLITE_BUGS: list[Exception] = [
    sqlite3.ProgrammingError("wrong number of bindings"),
    sqlite3.IntegrityError("NOT NULL constraint failed"),
    sqlite3.InterfaceError("bad parameter"),
    sqlite3.DataError("too big"),
    sqlite3.NotSupportedError("no such thing"),
]
BUGS: list[Exception] = [
    *SQLITE_BUGS,
    TypeError("None + 1"),
    KeyError("missing"),
    AttributeError("missing"),
    ValueError("no JSON"),
    AssertionError("impossible"),
    ZeroDivisionError("x / 0"),
    RecursionError("too deep"),
    IntegrityError("twice"),
]


def kind(error: Exception) -> str:
    return type(error).__name__


@pytest.mark.parametrize("error", OUTAGES, ids=kind)
def test_an_outage(error: Exception) -> None:
    assert is_outage(error)


@pytest.mark.parametrize("error", BUGS, ids=kind)
def test_a_bug(error: Exception) -> None:
    assert not is_outage(error)


@pytest.mark.parametrize("error", OUTAGES[:2], ids=kind)
async def test_sqlite_out_of_order_is_unavailable(tmp_path: Path, faults: Faults, error: Exception) -> None:
    store = SqliteGateStore(tmp_path / "state.db")
    faults.add("INSERT INTO adkwire_calls", error)
    with pytest.raises(Unavailable):
        await store.add(row())
    assert await store.add(row())
    await store.close()


@pytest.mark.parametrize("error", BUGS, ids=kind)
async def test_a_bug_inside_a_work_of_sqlite_is_not_unavailable(
    tmp_path: Path, faults: Faults, error: Exception
) -> None:
    store = SqliteGateStore(tmp_path / "state.db")
    faults.add("INSERT INTO adkwire_calls", error)
    with pytest.raises(type(error)) as raised:
        await store.add(row())
    assert raised.value is error
    assert await store.add(row())
    await store.close()


async def test_a_value_that_sqlite_cannot_keep_is_a_bug(tmp_path: Path) -> None:
    store = SqliteGateStore(tmp_path / "state.db")
    nonsense: Any = {"not": "bytes"}
    with pytest.raises((sqlite3.ProgrammingError, sqlite3.InterfaceError)):
        await store.add(row(data=nonsense))
    await store.close()


async def test_a_bug_in_a_commit_reaches_who_writes_and_who_closes(
    tmp_path: Path, faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    log = SqliteStreamLog(tmp_path / "state.db", ttl=TTL)
    await log.open(head())
    faults.add("UPDATE adkwire_runs SET next", *(KeyError("bug"),) * 2)
    await log.append("run", [b"a"])
    with pytest.raises(KeyError, match="bug"):
        await write_on(log)
    with pytest.raises(KeyError, match="bug"):
        await asyncio.wait_for(log.close("run"), PATIENCE)
    assert faults.are_over
    assert caplog.text.count("chunks could not be committed because of a bug") == 2
    await log.aclose()
    batch = await log.read("run", -1, 0)
    assert batch is not None
    assert (batch.entries, batch.closed) == ([b"a"], True)
    await log.aclose()


async def write_on(log: SqliteStreamLog) -> None:
    for _ in range(int(PATIENCE * 1000)):
        await log.append("run", [])
        await asyncio.sleep(0.001)


async def test_listeners_go_on_after_a_bug_while_reading_messages(
    tmp_path: Path, faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    signals = SqliteSignals(tmp_path / "state.db")
    async with listening(signals, "topic") as heard:
        faults.add("FROM adkwire_messages WHERE id >", KeyError("bug"), sqlite3.IntegrityError("bug"))
        await signals.send("topic", b"message")
        assert await heard.next() == b"message"
    assert faults.are_over
    assert caplog.text.count("messages of other workers could not be read") == 2
    await signals.close()


class BrokenSessions(InMemorySessionService):
    """A session service that fails in its own way."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def get_session(self, **_: Any) -> Session | None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status"), [(KeyError("bug"), 500), (OSError("away"), 503), (DriverError("lost"), 503)], ids=str
)
async def test_what_a_client_learns(error: Exception, status: int, caplog: pytest.LogCaptureFixture) -> None:
    agent = LlmAgent(name="greeter", model=ScriptedModel(turns=[[Say("Hello.")]]))
    bridge = Bridge(agent, settings=Settings(db="memory:", ui=False), session_service=BrokenSessions(error))
    question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    with (
        caplog.at_level(logging.WARNING, "adkwire"),
        TestClient(create_app(bridge), base_url="http://localhost", client=("127.0.0.1", 50000)) as client,
    ):
        response = client.post("/api/chat", json={"id": "chat", "messages": [question]})
    assert (response.status_code, response.json()["error"]["code"]) == (
        status,
        "internal" if status == 500 else "unavailable",
    )
    assert type(error).__name__ in caplog.text
    assert "Traceback" in caplog.text
