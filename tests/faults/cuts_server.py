"""A server for the suite of cuts: `adkwire serve cuts_agent.py`, killed and started again."""

import asyncio
import shutil
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.lives import Host, Json, Life, hosting

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
    """A server that is started again and again on one file."""

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
        """Start the server, and kill it so soon that it may not have begun to serve."""
        life = await asyncio.to_thread(self.host.born)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(life.kill)

    def ledger(self, chat: str) -> list[Json]:
        return self.host.ledger(chat)

    def forget(self) -> None:
        """Start the next server with an empty file."""
        shutil.rmtree(self.host.folder / ".adkwire", ignore_errors=True)
        (self.host.folder / "ledger.jsonl").unlink(missing_ok=True)


@contextmanager
def server_in(folder: Path) -> Generator[Server]:
    """A server that can be started there, until the block ends."""
    with hosting(folder, str(AGENT), settings=SETTINGS) as host:
        yield Server(host)
