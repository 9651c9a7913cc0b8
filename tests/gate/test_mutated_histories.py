"""Ten thousand made-up histories against calls that really wait: none executes anything, and the honest answer does."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.adk.sessions import InMemorySessionService
from hypothesis import HealthCheck, Phase, given, settings

from adkwire.bridge import Bridge
from adkwire.errors import RequestError
from adkwire.stores.base import CallRow
from adkwire.stores.memory import MemoryGateStore, MemorySignals, MemoryStreamLog
from adkwire.stores.stores import Stores
from adkwire.wire.chunks import decode_chunk
from adkwire.wire.decode.decoder import InputLimits, decode_request
from adkwire.wire.folding import fold
from tests.server.hostile_histories import (
    ANSWERS,
    ASKED,
    LIES,
    PLACES,
    History,
    World,
    histories,
    request_of,
    single_lies,
    variants,
)
from tests.server.hostile_page import REFUSED, Message, output, verdict
from tests.server.ledger_agent import PAYMENT, POLICY, Till
from tests.support.chats import plain
from tests.support.chats import settings as bridge_settings

HISTORIES = 10_000
RECIPES = 1_150
LIMITS = InputLimits(20, 1_000_000, 1_000_000)


@dataclass
class House:
    """A bridge with pending calls in chats of two users."""

    folder: Path
    tried: set[str] = field(default_factory=set[str])
    endings: Counter[str] = field(default_factory=Counter[str])
    stale: bool = True

    async def open(self) -> None:
        """Make the calls, unless they are already pending."""
        if not self.stale:
            return
        self.till, self.store = Till(), MemoryGateStore()
        self.bridge = Bridge(
            self.till.agent,
            settings=bridge_settings(self.folder, db="memory:"),
            session_service=InMemorySessionService(),
            stores=Stores(MemoryStreamLog(ttl=1), self.store, MemorySignals()),
            policy=POLICY,
        )
        self.world = World({place: await self._asked(*place) for place in PLACES})
        self.waiting = await self.rows()
        self.stale = False

    async def _asked(self, user: str, chat: str) -> list[Message]:
        user_message: Message = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": ASKED}]}
        return [
            user_message,
            plain(fold(map(decode_chunk, await self.send(user, {"id": chat, "messages": [user_message]})))),
        ]

    async def send(self, user: str, body: dict[str, Any]) -> list[bytes]:
        """A request, the way the server takes it."""
        run = await self.bridge.start(user, decode_request(json.dumps(body).encode(), LIMITS))
        entries = [raw async for batch in self.bridge.reading(run).batches for raw in batch.entries]
        await asyncio.gather(*self.bridge._ownership._tasks._running)
        return entries

    async def rows(self) -> list[list[CallRow]]:
        return [await self.store.calls(*place) for place in PLACES]

    async def try_all(self, made_up: Iterable[History]) -> None:
        """Send histories; after each of them every call waits as it did before."""
        for history in made_up:
            user, body = request_of(self.world, history)
            if (made_up_so := json.dumps([user, body])) in self.tried:
                continue
            self.tried.add(made_up_so)
            self.endings[await self._try(user, body)] += 1
            self.stale = bool(self.till.ledger) or await self.rows() != self.waiting
            assert not self.stale, f"it counted: {made_up_so}"

    async def _try(self, user: str, body: dict[str, Any]) -> str:
        try:
            last = json.loads((await self.send(user, body))[-1])
        except RequestError as error:
            return error.code
        return last.get("errorText") or last["type"]

    async def answer(self, user: str, chat: str) -> None:
        """Return the request of an honest client when all calls are answered."""
        user_message, answer = self.world.messages[user, chat]
        pay, once, _, where, music = (part for part in answer["parts"] if "toolCallId" in part)
        place = {"latitude": 1.5, "longitude": 2}
        parts = [verdict(pay), verdict(once, approved=False), output(verdict(where), place), output(music, {"x": 1})]
        await self.send(user, {"id": chat, "messages": [user_message, {**answer, "parts": parts}]})

    async def answer_all(self) -> None:
        """Send the honest answers: each still counts once."""
        for place in PLACES * 2:
            await self.answer(*place)
        await self.bridge.close()
        assert [(line.user, line.chat, line.tool, line.args) for line in self.till.ledger] == [
            (user, chat, "pay", PAYMENT) for user, chat in PLACES
        ]


async def test_no_single_lie_executes_anything(tmp_path: Path) -> None:
    house = House(tmp_path)
    await house.open()
    await house.try_all(single_lies())
    assert len(house.tried) > len(LIES) * len(ANSWERS) * 4
    await house.answer_all()


def test_no_made_up_history_executes_anything(tmp_path: Path) -> None:
    house = House(tmp_path)

    @settings(
        max_examples=RECIPES,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(histories)
    def attack(recipe: History) -> None:
        runner.run(house.open())
        runner.run(house.try_all(variants(recipe)))

    with asyncio.Runner() as runner:
        attack()
        runner.run(house.answer_all())
    assert len(house.tried) >= HISTORIES
    assert house.endings[REFUSED] >= HISTORIES // 4
