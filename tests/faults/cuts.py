"""Many conversations at once, each over a bad network of its own, with a server that is killed now and then."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.faults.cuts_clients import Clients, clients_in
from tests.faults.cuts_judge import Report, Verdict, judge
from tests.faults.cuts_plan import Plan
from tests.faults.cuts_server import Server, server_in
from tests.faults.lives import browser
from tests.faults.plan import Direction
from tests.faults.proxy import FaultProxy
from tests.patience import PATIENCE

LIFETIME = 8_000
"""Bytes that a server sends to one of the clients, at most, before it is killed."""
EARLY = 0.15
"""Servers that are killed while they start: they may be closing the runs of the one before."""
START = 0.5
"""Seconds that a start takes, about."""


class Stage(NamedTuple):
    """A server and the clients that talk to it."""

    server: Server
    clients: Clients


@asynccontextmanager
async def stage_in(folder: Path) -> AsyncGenerator[Stage]:
    """Start the server, proxies and clients of a round, until the block ends."""
    (folder / "server").mkdir()
    with server_in(folder / "server") as server:
        async with clients_in(folder / "client") as clients:
            yield Stage(server, clients)


@dataclass
class Round:
    """Conversations that begin together, and how often their server is killed meanwhile."""

    stage: Stage
    plans: Sequence[Plan]
    kills: int = 0
    proxies: list[FaultProxy] = field(default_factory=list[FaultProxy])

    @property
    def server(self) -> Server:
        return self.stage.server

    @property
    def clients(self) -> Clients:
        return self.stage.clients

    @property
    def cuts(self) -> int:
        return sum(proxy.counts.faults.total() for proxy in self.proxies)

    async def play(self, seed: int) -> Verdict:
        """Let them talk, and judge what came of it."""
        self.server.forget()
        await self.server.start()
        try:
            return await self._judge(await self._talk(random.Random(seed)))
        except TimeoutError:
            log = "".join(self.server.host.lines[-30:])
            raise AssertionError(
                f"these never ended: {sorted(self.clients.reports)}; the server said:\n{log}"
            ) from None
        finally:
            await self.server.kill()

    async def _talk(self, chance: random.Random) -> list[Report]:
        async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
            for plan in self.plans:
                self.proxies.append(await stack.enter_async_context(FaultProxy(self.server.port, plan.faults)))
            pairs = zip(self.plans, self.proxies, strict=True)
            talking = [self.clients.talk(plan, proxy.url) for plan, proxy in pairs]
            await self._kill(chance)
            for plan in self.plans:
                self.clients.enough(plan)
            return await asyncio.gather(*talking)

    async def _kill(self, chance: random.Random) -> None:
        # Not before all have been connected: a client that has never reached its server soon gives up.
        await asyncio.gather(*(self.clients.opened[plan.name].wait() for plan in self.plans))
        left = self.kills
        while left:
            await self._some_bytes(chance)
            await self.server.kill()
            left -= 1
            if left and chance.random() < EARLY:
                await self.server.miscarry(chance.random() * START)
                left -= 1
            await self._restart()

    async def _restart(self) -> None:
        await self.server.start()
        for proxy in self.proxies:
            proxy.target = self.server.port

    async def _some_bytes(self, chance: random.Random) -> None:
        proxy = chance.choice(self.proxies)
        enough = proxy.counts.bytes[Direction.DOWN] + chance.randrange(LIFETIME)
        await proxy.until(lambda counts: counts.bytes[Direction.DOWN] >= enough)

    async def _judge(self, reports: list[Report]) -> Verdict:
        verdict = Verdict()
        async with browser(self.server.url) as client:
            for plan, report in zip(self.plans, reports, strict=True):
                verdict += await judge(client, plan, report, self.server.ledger(plan.name), self.kills)
        return verdict
