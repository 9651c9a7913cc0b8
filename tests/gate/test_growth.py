"""The work of the gate does not grow with calls that are over or that belong to other chats."""

from adkwire.gate.records import OVER, UncheckedAnswer
from adkwire.stores.memory.gate import OVER_STATES
from tests.gate.records import ANN, ARGS, CHAT, GateInTest, asked
from tests.stores.steps import Steps


async def live_through(tested: GateInTest, numbers: range) -> None:
    """Add calls of this chat that are executed, and calls of other chats that are pending and expire later."""
    for number in numbers:
        await tested.open(asked(f"done {number}"))
        await tested.gate.settle(ANN, CHAT, f"done {number}", UncheckedAnswer(approved=True))
        await tested.gate.claim(ANN, CHAT, f"done {number}", ARGS)
        await tested.gate.finish(ANN, CHAT, f"done {number}", "executed")
        await tested.open(asked(f"waits {number}", chat=f"other {number}"), 1000)


async def work(tested: GateInTest, steps: Steps) -> dict[str, int]:
    return {
        "next expiry": await steps(tested.gate.next_expiry()),
        "not started": await steps(tested.gate.not_started(ANN, CHAT)),
        "executing": await steps(tested.gate.executing(ANN, CHAT)),
    }


async def test_what_is_asked_all_the_time_does_not_read_everything(tested: GateInTest, steps: Steps) -> None:
    for call in ("c1", "c2"):
        await tested.open(asked(call), 60)
    await live_through(tested, range(5))
    few = await work(tested, steps)
    await live_through(tested, range(5, 40))
    assert await work(tested, steps) == few
    assert [call.call for call in await tested.gate.not_started(ANN, CHAT)] == ["c1", "c2"]
    assert await tested.gate.next_expiry() == 1060.0


async def test_expired_calls_are_answered_in_parts(tested: GateInTest) -> None:
    for number in range(150):
        await tested.open(asked(f"c{number}"), 60 + number / 1000)
    tested.clock.advance(60)
    assert [call.call for call in await tested.gate.expire()] == ["c0"]
    tested.clock.advance(60)
    first = await tested.gate.expire()
    assert [call.call for call in first] == [f"c{number}" for number in range(1, 101)]
    assert await tested.gate.next_expiry() == 1060.101
    rest = await tested.gate.expire()
    assert [call.call for call in rest] == [f"c{number}" for number in range(101, 150)]
    assert await tested.gate.next_expiry() is None
    assert await tested.gate.expire() == []


def test_the_store_in_memory_knows_which_calls_are_over() -> None:
    assert set(OVER) == OVER_STATES
