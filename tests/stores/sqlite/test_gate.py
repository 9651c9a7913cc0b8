import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from adkwire.adk.sessions import SqliteSessions
from adkwire.errors import Unavailable
from adkwire.stores.base import GateStore
from adkwire.stores.sqlite.gate import SqliteGateStore
from tests.stores.contract import PATIENCE
from tests.stores.gate_contract import GateStoreContract, claim, names, row
from tests.stores.processes import line, process, tell


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@contextlib.asynccontextmanager
async def opened(file: Path) -> AsyncGenerator[SqliteGateStore, None]:
    store = SqliteGateStore(file)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(file: Path) -> AsyncGenerator[GateStore, None]:
    async with opened(file) as one:
        yield one


@pytest.fixture
async def other(file: Path) -> AsyncGenerator[GateStore, None]:
    async with opened(file) as one:
        yield one


class TestSqliteGateStore(GateStoreContract):
    pass


async def test_two_processes_never_claim_the_same_call(store: GateStore, file: Path) -> None:
    rows = [row(str(number)) for number in range(40)]
    for one in rows:
        await store.add(one)
    async with process("gate_process", "claim", file) as child:
        tell(child)
        won_here = [one.call for one in rows if await claim(store, one, "parent")]
        won_there = (await line(child)).split()
    assert sorted(won_here + won_there) == sorted(names(rows))
    kept = await store.calls("user", "chat")
    assert [one.call for one in kept if one.data == b"parent"] == won_here
    assert {one.version for one in kept} == {1}


async def test_what_was_done_survives_a_kill(file: Path) -> None:
    async with process("gate_process", "work", file) as child:
        child.kill()
        await child.wait()
    async with opened(file) as store:
        assert await store.calls("user", "chat") == [row(state="executing", version=1)]
        assert await store.granted("user", "chat", ["tool"])
        assert await store.audit_lines("user", "chat") == [b"line"]


async def test_a_program_that_forgets_to_close_it_can_end(file: Path) -> None:
    async with process("gate_process", "work", file) as child:
        tell(child)
        async with asyncio.timeout(PATIENCE):
            assert await child.wait() == 0


async def test_many_may_open_a_new_file_at_once(file: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(opened(file)) for _ in range(8)]
        assert all(await asyncio.gather(*(one.add(row(str(number))) for number, one in enumerate(stores))))
        assert len(await stores[0].calls("user", "chat")) == len(stores)


async def test_it_shares_the_file_with_the_sessions(store: GateStore, file: Path) -> None:
    sessions = SqliteSessions(str(file))
    names = [str(number) for number in range(10)]
    try:
        await sessions.create_session(app_name="app", user_id="user", session_id="first")
        await asyncio.gather(
            *(sessions.create_session(app_name="app", user_id="user", session_id=name) for name in names),
            *(store.add(row(name)) for name in names),
        )
        kept = await sessions.list_sessions(app_name="app", user_id="user")
    finally:
        await sessions.close()
    assert len(kept.sessions) == len(names) + 1
    assert len(await store.calls("user", "chat")) == len(names)


async def test_all_that_it_makes_in_the_file_bears_its_name(store: GateStore, file: Path) -> None:
    await store.add(row())
    with contextlib.closing(sqlite3.connect(file)) as connection:
        made = [name for (name,) in connection.execute("SELECT tbl_name FROM sqlite_master")]
    made.remove("sqlite_sequence")  # SQLite's own, for ids that are never used again.
    assert made
    assert all(name.startswith("adkwire_") for name in made)


async def test_grants_of_an_earlier_release_are_kept_until_they_are_revoked(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "CREATE TABLE adkwire_grants (user TEXT, chat TEXT, what TEXT, PRIMARY KEY (user, chat, what))"
        )
        connection.execute("INSERT INTO adkwire_grants VALUES ('user', 'chat', 'tool'), ('user', '', 'tool 0a1b')")
    async with opened(file) as store:
        assert await store.granted("user", "chat", ["tool"])
        newest, first = await store.grants("user", 10)
        assert [(row.chat, row.what, row.data) for row in (newest, first)] == [
            ("", "tool 0a1b", b""),
            ("chat", "tool", b""),
        ]
        assert await store.revoke("user", first.id) == first
    async with opened(file) as store:
        assert await store.grants("user", 10) == [newest]
        assert not await store.granted("user", "chat", ["tool"])


async def test_a_file_that_cannot_be_opened_is_unavailable_until_it_can(tmp_path: Path) -> None:
    async with opened(tmp_path / "missing" / "state.db") as store:
        for work in (store.add(row()), store.calls("user", "chat"), store.forget("user", "chat")):
            with pytest.raises(Unavailable, match=r"The gate's store does not answer\."):
                await work
        (tmp_path / "missing").mkdir()
        assert await store.add(row())


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    path = tmp_path / "diary.txt"
    path.write_text("Dear diary, " * 500)
    return path


async def test_a_file_that_is_no_database_is_unavailable(diary: Path) -> None:
    async with opened(diary) as store:
        for _ in range(2):
            with pytest.raises(Unavailable):
                await store.get("user", "chat", "call")


async def test_a_failing_statement_leaves_the_store_usable(store: GateStore, file: Path) -> None:
    await store.add(row())
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("ALTER TABLE adkwire_calls RENAME TO adkwire_away")
        with pytest.raises(Unavailable):
            await store.replace(row(state="done"))
        connection.execute("ALTER TABLE adkwire_away RENAME TO adkwire_calls")
    assert await store.replace(row(state="done"))
