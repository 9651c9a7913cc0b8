"""A listener of the gate that fails does not undo, or hide, what was stored."""

import pytest

from adkwire.gate.gate import ToolGate
from adkwire.gate.policy import Policy
from adkwire.gate.records import CallRecord, State, UncheckedAnswer
from adkwire.stores.base import GateStore
from tests.gate.records import ANN, ARGS, CHAT, Clock, asked


class Failing:
    """A listener that fails, and remembers of which calls it was told."""

    def __init__(self) -> None:
        self.heard: list[State] = []

    def __call__(self, call: CallRecord) -> None:
        self.heard.append(call.state)
        raise KeyError("a bug of the listener")


@pytest.fixture
def listener() -> Failing:
    return Failing()


@pytest.fixture
def gate(store: GateStore, listener: Failing) -> ToolGate:
    return ToolGate(store, Policy(), clock=Clock(), timeout=60, changed=listener)


async def verdicts(gate: ToolGate) -> list[str]:
    return [line.verdict for line in await gate.audit(ANN, CHAT)]


async def test_a_call_is_answered_and_executed(gate: ToolGate, listener: Failing) -> None:
    await gate.open(asked(), None)
    answered = await gate.settle(ANN, CHAT, "c1", UncheckedAnswer(approved=True, scope="chat"))
    assert answered.is_claimable
    assert await gate.claim(ANN, CHAT, "c1", ARGS) is not None
    await gate.finish(ANN, CHAT, "c1", "executed")
    assert listener.heard == [State.ASKED, State.ANSWERED, State.DONE]
    assert await verdicts(gate) == ["asked", "approved", "approved"]
    # What comes after the listener was called is done, too.
    assert (await gate.decide(ANN, CHAT, "pay", ARGS, asks=True)).action == "allow"


async def test_a_call_is_parked_and_asked_again(gate: ToolGate, listener: Failing) -> None:
    call = await gate.open(asked(live=True), None)
    await gate.park(call)
    await gate.reopen(await gate.settle(ANN, CHAT, "c1", UncheckedAnswer(approved=True)))
    assert [call.state for call in await gate.not_started(ANN, CHAT)] == [State.ASKED]
    assert listener.heard == [State.ASKED, State.ASKED, State.ANSWERED, State.ASKED]


async def test_all_calls_of_a_chat_are_taken_back(gate: ToolGate, listener: Failing) -> None:
    for call in ("c1", "c2", "c3"):
        await gate.open(asked(call), None)
    assert [call.call for call in await gate.void(ANN, CHAT, "stopped")] == ["c1", "c2", "c3"]
    assert await gate.not_started(ANN, CHAT) == []
    assert listener.heard == [State.ASKED] * 3 + [State.VOID] * 3


async def test_it_is_logged(gate: ToolGate, caplog: pytest.LogCaptureFixture) -> None:
    await gate.open(asked(), None)
    assert "a listener failed when call c1 in chat chat became asked" in caplog.text
    assert "a bug of the listener" in caplog.text
