"""Somebody else is faster between a look and a move, or the store fails behind one."""

from collections.abc import Awaitable, Callable
from typing import Any

from adkwire.errors import Unavailable
from adkwire.gate.records import Given, State
from adkwire.stores.base import CallRow
from adkwire.stores.memory import MemoryGateStore
from tests.gate.records import ANN, ARGS, CHAT, Door, asked, asked_of_browser

YES = Given(approved=True)


class Hooked(MemoryGateStore):
    """A store in which something happens, once, before a row is replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], Awaitable[Any]] | None = None
        self.no_audit = False

    async def replace(self, row: CallRow) -> bool:
        before, self.before = self.before, None
        if before is not None:
            await before()
        return await super().replace(row)

    async def write(self, user: str, chat: str, line: bytes) -> None:
        if self.no_audit:
            raise Unavailable("away")
        await super().write(user, chat, line)


async def test_an_answer_in_the_moment_of_taking_back_is_taken_back_too() -> None:
    store = Hooked()
    door = Door(store)
    await door.open(asked())
    store.before = lambda: door.gate.settle(ANN, CHAT, "c1", YES)
    assert [(call.state, call.outcome) for call in await door.gate.void(ANN, CHAT, "stopped")] == [
        (State.VOID, "stopped")
    ]
    assert await door.gate.claim(ANN, CHAT, "c1", ARGS) is None


async def test_a_claim_in_the_moment_of_giving_up_counts() -> None:
    store = Hooked()
    door = Door(store)
    await door.open(asked())
    await door.gate.settle(ANN, CHAT, "c1", YES)
    store.before = lambda: door.gate.claim(ANN, CHAT, "c1", ARGS)
    assert await door.gate.abandon(ANN, CHAT, "c1", "stopped")
    call = await door.gate.get(ANN, CHAT, "c1")
    assert call is not None
    assert call.state is State.UNKNOWN


async def test_an_answer_that_cannot_be_written_down_is_an_answer() -> None:
    store = Hooked()
    door = Door(store)
    await door.open(asked())
    store.no_audit = True
    assert (await door.gate.settle(ANN, CHAT, "c1", YES._replace(scope="chat"))).state is State.ANSWERED
    assert [call.state for call in door.told] == [State.ASKED, State.ANSWERED]
    assert await store.granted(ANN, CHAT, ["pay"])


async def test_the_browser_has_its_own_time() -> None:
    door = Door(Hooked())
    await door.open(asked_of_browser(), 60)
    door.clock.advance(59)
    assert (await door.gate.settle(ANN, CHAT, "c1", YES)).expires_at == door.clock.now + 60


async def test_both_versions_of_edited_arguments_stay_in_the_audit() -> None:
    door = Door(Hooked())
    await door.open(asked_of_browser(), 60)
    await door.gate.settle(ANN, CHAT, "c1", YES._replace(args={"amount": 7}, reason="less"))
    door.clock.advance(60)
    await door.gate.expire()
    lines = (await door.gate.audit(ANN, CHAT))[1:]
    assert [(line.verdict, line.input, line.edited, line.reason) for line in lines] == [
        ("approved", ARGS, {"amount": 7}, "less"),
        ("expired", ARGS, {"amount": 7}, "less"),
    ]
