"""Another process on the file of a `SqliteGateStore`: `python -m tests.stores.gate_process WHAT FILE`. It says a line
when it is ready, and begins, or goes, when it is told a line."""

import asyncio
import sys
from pathlib import Path

from adkwire.stores.sqlite.gate import SqliteGateStore
from tests.stores.gate_contract import claim, row


async def claim_all(store: SqliteGateStore) -> None:
    """Claim every call of the chat and say which were won."""
    rows = await store.calls("user", "chat")
    print("ready", flush=True)
    sys.stdin.readline()
    won = [one.call for one in rows if await claim(store, one, "child")]
    print(" ".join(won), flush=True)
    await store.close()


async def work(store: SqliteGateStore) -> None:
    """Do one of each and stay, never closing anything."""
    await store.add(row())
    await store.replace(row(state="executing"))
    await store.grant("user", "chat", "tool")
    await store.add_audit_line("user", "chat", b"line")
    print("done", flush=True)
    sys.stdin.readline()


async def main(what: str, file: Path) -> None:
    store = SqliteGateStore(file)
    await (claim_all(store) if what == "claim" else work(store))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
