"""A server with many lives for the suite of cuts: `adkwire serve cuts_agent.py`, killed and started again."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.lives import PATIENCE, Host, Json, Life, Place
from tests.servers import clean_environment

BORN = re.compile(r"born (\d+)")
AGENT = Path(__file__).parent / "cuts_agent.py"
SETTINGS = {
    "ADKWIRE_EVENTS_PER_SECOND": "0",
    "ADKWIRE_SOCKETS_PER_USER": "1000",
    "ADKWIRE_CONTROLS_PER_SECOND": "1000",
    "ADKWIRE_HEARTBEAT": "0.5",
}
"""Every word is a chunk, one user has all the connections, and silence means something soon."""


@dataclass
class Server:
    """One life after the other on one file."""

    host: Host
    life: Life | None = None
    _alive: ExitStack = field(default_factory=ExitStack)

    @property
    def url(self) -> str:
        assert self.life is not None
        return self.life.url

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def start(self) -> None:
        self.life = await asyncio.to_thread(self._alive.enter_context, self.host.life())

    async def kill(self) -> None:
        """`kill -9`."""
        await asyncio.to_thread(self._alive.close)

    async def miscarry(self, seconds: float) -> None:
        """Start it, and kill it so soon that it may not have begun to serve."""
        nursery = self.host.nursery
        assert nursery.stdin is not None
        nursery.stdin.write("live\n")
        nursery.stdin.flush()
        life = Life(self.host, int(await asyncio.to_thread(self.host.hear, BORN)))
        await asyncio.sleep(seconds)
        await asyncio.to_thread(life.kill)

    def ledger(self, chat: str) -> list[Json]:
        return self.host.ledger(chat)

    def forget(self) -> None:
        """Begin anew with an empty file."""
        shutil.rmtree(self.host.folder / ".adkwire", ignore_errors=True)
        (self.host.folder / "ledger.jsonl").unlink(missing_ok=True)


@contextmanager
def server_in(folder: Path) -> Generator[Server]:
    """A server that can be started there, until the block ends."""
    nursery = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.nursery", str(AGENT)],
        cwd=folder,
        env=clean_environment({**Place(folder).environment, **SETTINGS}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    server = Server(Host(folder, nursery))
    reader = threading.Thread(target=server.host.read, daemon=True)
    reader.start()
    try:
        yield server
    finally:
        # All of them: whoever waits for a life to begin or to end is not waited for.
        os.killpg(nursery.pid, signal.SIGKILL)
        nursery.wait(PATIENCE)
        reader.join(PATIENCE)
        for pipe in (nursery.stdin, nursery.stdout):
            assert pipe is not None
            pipe.close()
