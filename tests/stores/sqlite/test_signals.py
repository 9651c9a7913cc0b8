import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest

from adkwire.errors import Unavailable
from adkwire.stores.base import Signals
from adkwire.stores.sqlite.signals import SqliteSignals
from tests.stores.contract import PATIENCE, TTL, Clock
from tests.stores.processes import process, tell
from tests.stores.signals_contract import SignalsContract, listening, waiting

NEVER = 1000.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
async def signals(file: Path) -> AsyncGenerator[Signals, None]:
    async with opened(file) as one:
        yield one


@pytest.fixture
async def other(file: Path) -> AsyncGenerator[Signals, None]:
    async with opened(file) as one:
        yield one


@contextlib.asynccontextmanager
async def opened(file: Path, **options: Any) -> AsyncGenerator[SqliteSignals, None]:
    signals = SqliteSignals(file, **options)
    try:
        yield signals
    finally:
        await signals.close()


class TestSqliteSignals(SignalsContract):
    @pytest.fixture(autouse=True)
    def only_releases_end_a_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("adkwire.stores.sqlite.signals._BETWEEN_HOLDER_CHECKS", NEVER)


def query(file: Path, sql: str, *values: object) -> list[Any]:
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        return connection.execute(sql, values).fetchall()


async def test_a_worker_that_no_longer_beats_is_dead(file: Path) -> None:
    clock = Clock()
    async with opened(file, ttl=TTL, beat=NEVER, clock=clock) as silent, opened(file, ttl=TTL, clock=clock) as other:
        await silent.acquire("chat")
        clock.now += TTL - 1
        assert await other.acquire("chat") is None
        clock.now += 1
        assert await other.holder("chat") is None
        assert await other.acquire("chat") == silent.worker
        assert await silent.acquire("chat") is None
        await silent.release("chat")
        assert await silent.holder("chat") == other.worker


async def test_a_dead_workers_lease_can_be_forgotten(file: Path) -> None:
    clock = Clock()
    async with opened(file, ttl=TTL, beat=NEVER, clock=clock) as silent, opened(file, ttl=TTL, clock=clock) as other:
        await silent.acquire("chat")
        clock.now += TTL
        await other.forget("chat")
        assert await other.acquire("chat") == ""


async def test_a_worker_beats_also_while_its_loop_is_held_up(file: Path) -> None:
    clock = Clock()
    async with opened(file, ttl=TTL, beat=0.005, clock=clock) as signals, opened(file, ttl=TTL, clock=clock) as other:
        await signals.acquire("chat")
        for _ in range(3):
            clock.now += TTL - 1
            hold_up_until_it_has_beaten(file, clock.now)
        assert await other.acquire("chat") is None


def hold_up_until_it_has_beaten(file: Path, now: float) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE * 1000)):
        if query(file, "SELECT 1 FROM adkwire_workers WHERE beat = ?", now):
            return
        pause.wait(0.001)
    raise TimeoutError


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("adkwire")]


def tasks() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("adkwire")]


def end_threads() -> None:
    for thread in threads():
        thread.join(PATIENCE)
    assert threads() == []


async def test_nothing_goes_on_before_it_is_used_nor_after_it_is_closed(file: Path) -> None:
    end_threads()
    signals = SqliteSignals(file, beat=0.001)
    assert tasks() == []
    assert threads() == []
    await signals.acquire("chat")
    async with listening(signals, "topic"):
        assert tasks() == ["adkwire-signals"]
        assert "adkwire-heart" in [thread.name for thread in threads()]
        await signals.close()
    assert tasks() == []
    end_threads()
    assert query(file, "SELECT worker FROM adkwire_workers") == []


async def test_the_lease_of_a_killed_process_is_free_at_once(signals: Signals, file: Path) -> None:
    async with process("signals_process", "hold", file) as child:
        holder = await signals.holder("chat")
        assert holder
        assert await signals.acquire("chat") is None
        os.kill(child.pid, 9)
        await child.wait()
        assert await signals.acquire("chat") == holder


async def test_a_release_in_another_process_ends_a_wait(
    signals: Signals, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adkwire.stores.sqlite.signals._BETWEEN_HOLDER_CHECKS", NEVER)
    async with process("signals_process", "release", file) as child, waiting(signals, "chat") as wait:
        tell(child)
        assert await wait
        assert await signals.acquire("chat")


async def test_a_release_while_a_wait_looks_at_the_lease_is_not_missed(
    signals: Signals, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is asked in the middle of the look; then the lease is released, which that look cannot see."""
    monkeypatch.setattr("adkwire.stores.sqlite.signals._BETWEEN_HOLDER_CHECKS", NEVER)
    loop = asyncio.get_running_loop()

    def clock() -> float:
        asyncio.run_coroutine_threadsafe(signals.release("chat"), loop).result(PATIENCE)
        return time.time()

    await signals.acquire("chat")
    async with opened(file, clock=clock) as other, asyncio.timeout(PATIENCE):
        assert await other.wait_free("chat", NEVER)


async def test_the_death_of_the_holder_ends_a_wait(signals: Signals, file: Path) -> None:
    async with process("signals_process", "hold", file) as child, waiting(signals, "chat") as wait:
        os.kill(child.pid, 9)
        assert await wait


async def test_a_holder_that_no_longer_beats_ends_a_wait(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adkwire.stores.sqlite.signals._BETWEEN_HOLDER_CHECKS", 0.01)
    clock = Clock()
    async with opened(file, ttl=TTL, beat=NEVER, clock=clock) as silent, opened(file, ttl=TTL, clock=clock) as other:
        await silent.acquire("chat")
        async with waiting(other, "chat") as wait:
            clock.now += TTL
            assert await wait


async def test_who_waits_for_a_lease_does_not_look_at_it_all_the_time(signals: Signals, file: Path) -> None:
    """The clock is asked once for every look at the holder: at the beginning of the wait and at its end."""
    looks = list[float]()

    def clock() -> float:
        looks.append(time.time())
        return looks[-1]

    await signals.acquire("chat")
    async with opened(file, clock=clock) as other:
        assert not await other.wait_free("chat", 0.6)
    # A timer may end a moment early, and then there is one more.
    assert 2 <= len(looks) <= 3


@pytest.fixture
def unburied() -> Generator[int, None, None]:
    """The number of a process that has ended, and that its parent has not asked about."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        yield child.pid


def began(pid: int) -> str:
    """The 22nd field; the second may have spaces, but stands in brackets."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


async def test_a_killed_process_that_is_still_a_zombie_is_dead(signals: Signals, file: Path, unburied: int) -> None:
    await signals.acquire("elsewhere")
    query(
        file,
        "INSERT INTO adkwire_workers SELECT 'gone', host, ?, ?, beat FROM adkwire_workers WHERE worker = ?",
        *(unburied, began(unburied), signals.worker),
    )
    query(file, "INSERT INTO adkwire_leases VALUES ('chat', 'gone', 1)")
    assert await signals.acquire("chat") == "gone"


async def test_a_process_that_took_the_number_of_a_dead_one_is_another(
    signals: Signals, other: Signals, file: Path
) -> None:
    await other.acquire("chat")
    assert await signals.acquire("chat") is None
    query(file, "UPDATE adkwire_workers SET began = began || '0' WHERE worker = ?", other.worker)
    assert await signals.acquire("chat") == other.worker


async def test_a_process_on_another_host_is_believed_to_live_while_it_beats(
    signals: Signals, other: Signals, file: Path
) -> None:
    await other.acquire("chat")
    query(file, "UPDATE adkwire_workers SET host = 'far away', began = '1' WHERE worker = ?", other.worker)
    assert await signals.acquire("chat") is None
    query(file, "UPDATE adkwire_workers SET beat = beat - 16 WHERE worker = ?", other.worker)
    assert await signals.acquire("chat") == other.worker


async def test_a_process_that_forgets_to_close_it_can_end(signals: Signals, file: Path) -> None:
    async with process("signals_process", "hold", file) as child:
        tell(child)
        async with asyncio.timeout(PATIENCE):
            assert await child.wait() == 0
    assert await signals.acquire("chat")


async def test_a_message_reaches_the_other_process_and_its_answer_comes_back(signals: Signals, file: Path) -> None:
    async with listening(signals, "back") as heard, process("signals_process", "echo", file) as child:
        await signals.send("there", b"message")
        assert await heard.next() == b"heard message"
        async with asyncio.timeout(PATIENCE):
            assert await child.wait() == 0


async def test_old_messages_and_dead_workers_leave_the_file(file: Path) -> None:
    clock = Clock()
    async with opened(file, ttl=TTL, beat=NEVER, clock=clock) as silent, opened(file, ttl=TTL, clock=clock) as signals:
        await silent.acquire("chat")
        async with listening(signals, "topic") as heard:
            for round_ in range(3):
                for number in range(5):
                    await signals.send("topic", b"%d %d" % (round_, number))
                    assert await heard.next() == b"%d %d" % (round_, number)
                clock.now += 1000
            await signals.send("topic", b"last")
            assert await heard.next() == b"last"
        assert query(file, "SELECT message FROM adkwire_messages") == [(b"last",)]
        await signals.acquire("chat")
        await signals.acquire("other")
        assert query(file, "SELECT worker FROM adkwire_workers") == [(signals.worker,)]


async def test_a_cancelled_operation_leaves_the_store_usable(signals: Signals, other: Signals) -> None:
    for turns_of_the_loop in range(10):
        name = str(turns_of_the_loop)
        tasks = [asyncio.ensure_future(signals.acquire(name)), asyncio.ensure_future(anext(signals.listen("topic")))]
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await signals.release(name)
        assert await other.acquire(name) is not None
    async with listening(signals, "topic") as heard:
        await other.send("topic", b"message")
        assert await heard.next() == b"message"


async def test_a_file_that_cannot_be_opened_is_unavailable_until_it_can(tmp_path: Path) -> None:
    async with opened(tmp_path / "missing" / "state.db") as signals:
        for work in (
            signals.acquire("chat"),
            signals.send("topic", b""),
            anext(signals.listen("topic")),
            signals.wait_free("chat", NEVER),
        ):
            with pytest.raises(Unavailable):
                await work
        (tmp_path / "missing").mkdir()
        assert await signals.acquire("chat") == ""


async def test_all_that_it_makes_in_the_file_bears_its_name(signals: Signals, file: Path) -> None:
    await signals.acquire("chat")
    made = [name for (name,) in query(file, "SELECT tbl_name FROM sqlite_master")]
    assert made
    assert all(name.startswith("adkwire_") for name in made)


async def test_a_worker_goes_on_beating_after_a_bug_in_a_beat(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    bugs = [KeyError("bug"), TypeError("bug")]

    def clock() -> float:
        if threading.current_thread().name == "adkwire-heart":
            if bugs:
                raise bugs.pop()
            return 5000.0
        return 1000.0

    async with opened(file, beat=0.005, clock=clock) as signals:
        await signals.acquire("chat")
        hold_up_until_it_has_beaten(file, 5000.0)
    assert caplog.text.count("this worker could not give a sign of life") == 2
