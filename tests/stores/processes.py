"""Another process on the file of a store: a module of `tests.stores` that says a line when it is ready, and begins, or
goes, when it is told a line."""

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from pathlib import Path

from tests.stores.contract import PATIENCE

ROOT = Path(__file__).parents[2]


@contextlib.asynccontextmanager
async def process(module: str, what: str, file: Path) -> AsyncGenerator[Process, None]:
    """Another process that has said its first line."""
    command = (sys.executable, "-W", "error", "-m", f"tests.stores.{module}", what, str(file))
    child = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
    try:
        assert await line(child)
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def line(child: Process) -> str:
    assert child.stdout is not None
    async with asyncio.timeout(PATIENCE):
        return (await child.stdout.readline()).decode()


def tell(child: Process) -> None:
    assert child.stdin is not None
    child.stdin.write(b"\n")
