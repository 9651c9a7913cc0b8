"""Another process on the file of `SqliteSignals`: `python -m tests.stores.signals_process WHAT FILE`."""

import asyncio
import sys
from pathlib import Path

from adkwire.stores.sqlite.signals import SqliteSignals
from tests.stores.signals_contract import listening


async def hold(signals: SqliteSignals) -> None:
    """Take a lease, say who has it, and stay until told to go, without closing anything."""
    assert await signals.acquire("chat") is not None
    print(signals.worker, flush=True)
    sys.stdin.readline()


async def release(signals: SqliteSignals) -> None:
    """Take a lease, say who has it, and give it back when told to."""
    assert await signals.acquire("chat") is not None
    print(signals.worker, flush=True)
    # Not in the loop: a worker that waits is a worker that goes on.
    await asyncio.to_thread(sys.stdin.readline)
    await signals.release("chat")
    await asyncio.to_thread(sys.stdin.readline)


async def echo(signals: SqliteSignals) -> None:
    """Send back the next message of a topic."""
    async with listening(signals, "there") as heard:
        print("ready", flush=True)
        await signals.send("back", b"heard " + await heard.next())
    await signals.close()


if __name__ == "__main__":
    main = {"hold": hold, "release": release, "echo": echo}[sys.argv[1]]
    asyncio.run(main(SqliteSignals(Path(sys.argv[2]))))
