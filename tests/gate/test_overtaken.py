"""Another task is faster between reading a call and moving it, or the store fails after a move."""

from collections.abc import Awaitable, Callable
from typing import Any

from adkwire.errors import Unavailable
from adkwire.gate.records import State, UncheckedAnswer
from adkwire.stores.base import CallRow
from adkwire.stores.memory import MemoryGateStore
from tests.gate.records import ANN, ARGS, CHAT, GateInTest, asked, asked_of_browser

YES = UncheckedAnswer(approved=True)


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

    async def add_audit_line(self, user: str, chat: str, line: bytes) -> None:
        if self.no_audit:
            raise Unavailable("away")
        await super().add_audit_line(user, chat, line)


async def test_an_answer_in_the_moment_of_taking_back_is_taken_back_too() -> None:
    store = Hooked()
    tested = GateInTest(store)
    await tested.open(asked())
    store.before = lambda: tested.gate.settle(ANN, CHAT, "c1", YES)
    assert [(call.state, call.outcome) for call in await tested.gate.void(ANN, CHAT, "stopped")] == [
        (State.VOID, "stopped")
    ]
    assert await tested.gate.claim(ANN, CHAT, "c1", ARGS) is None


async def test_a_claim_in_the_moment_of_giving_up_counts() -> None:
    store = Hooked()
    tested = GateInTest(store)
    await tested.open(asked())
    await tested.gate.settle(ANN, CHAT, "c1", YES)
    store.before = lambda: tested.gate.claim(ANN, CHAT, "c1", ARGS)
    assert await tested.gate.abandon(ANN, CHAT, "c1", "stopped")
    call = await tested.gate.get(ANN, CHAT, "c1")
    assert call is not None
    assert call.state is State.UNKNOWN


async def test_an_answer_that_cannot_be_written_down_is_an_answer() -> None:
    store = Hooked()
    tested = GateInTest(store)
    await tested.open(asked())
    store.no_audit = True
    assert (await tested.gate.settle(ANN, CHAT, "c1", YES._replace(scope="chat"))).state is State.ANSWERED
    assert [call.state for call in tested.heard] == [State.ASKED, State.ANSWERED]
    assert await store.granted(ANN, CHAT, ["pay"])


async def test_the_browser_has_its_own_time() -> None:
    tested = GateInTest(Hooked())
    await tested.open(asked_of_browser(), 60)
    tested.clock.advance(59)
    assert (await tested.gate.settle(ANN, CHAT, "c1", YES)).expires_at == tested.clock.now + 60


async def test_both_versions_of_edited_arguments_stay_in_the_audit() -> None:
    tested = GateInTest(Hooked())
    await tested.open(asked_of_browser(), 60)
    await tested.gate.settle(ANN, CHAT, "c1", YES._replace(args={"amount": 7}, reason="less"))
    tested.clock.advance(60)
    await tested.gate.expire()
    lines = (await tested.gate.audit(ANN, CHAT))[1:]
    assert [(line.verdict, line.input, line.edited, line.reason) for line in lines] == [
        ("approved", ARGS, {"amount": 7}, "less"),
        ("expired", ARGS, {"amount": 7}, "less"),
    ]
