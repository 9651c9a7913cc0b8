"""Another process on the file of a `SqliteStreamLog`: `python -m tests.stores.stream_process WHAT FILE`."""

import asyncio
import sys
from pathlib import Path

from adkwire.stores.base import StreamLog
from adkwire.stores.sqlite.streams import SqliteStreamLog
from tests.stores.contract import TTL, head, texts

RUNS = ("one", "two", "three")


def entry(run: str, number: int) -> str:
    """A text that tells where it belongs, of any length."""
    return f"{run} {number} " + "." * (number * 7919 % 3000)


async def write(log: StreamLog, run: str) -> None:
    """Write without end, now one entry and now many."""
    number = 0
    while True:
        many = 1 + number % 7
        await log.append(run, [entry(run, one).encode() for one in range(number, number + many)])
        number += many
        await asyncio.sleep(0)


async def tell_what_is_seen(log: StreamLog, run: str) -> None:
    """Say how many entries of a run a reader has got."""
    seen = 0
    while True:
        batch = await log.read(run, seen - 1, 60)
        seen += len(texts(batch))
        print(run, seen, flush=True)


async def work(log: StreamLog) -> None:
    """Write and read until somebody kills the process."""
    for run in RUNS:
        await log.open(head(run), [b"before"])
    async with asyncio.TaskGroup() as group:
        for run in RUNS:
            group.create_task(write(log, run))
            group.create_task(tell_what_is_seen(log, run))


async def finish(log: StreamLog) -> None:
    """Write a run slowly enough to be followed, and go without closing anything."""
    await log.open(head("run"), [b"before"])
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(100):
        await log.append("run", [entry("run", number).encode()])
        await asyncio.sleep(0.001)
    await log.close("run")


if __name__ == "__main__":
    main = work if sys.argv[1] == "work" else finish
    asyncio.run(main(SqliteStreamLog(Path(sys.argv[2]), ttl=TTL)))
