"""The watcher that expires calls goes on, whatever happens to the store, the clock and other workers."""

import asyncio
from collections.abc import AsyncIterator, Collection

import pytest

from adkwire.errors import Unavailable
from adkwire.gate.expiry import Expiry
from adkwire.gate.gate import ToolGate
from adkwire.gate.policy import Policy
from adkwire.gate.records import CallRecord, State
from adkwire.stores.base import CallRow
from adkwire.stores.memory import MemoryGateStore
from adkwire.tasks import Watchers
from tests.gate.records import ANN, CHAT, Clock, asked
from tests.patience import PATIENCE


class Stumbling(MemoryGateStore):
    """A store that raises what a test wants when expired calls are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[Exception] = []
        self.asked = 0

    async def expiring(self, states: Collection[str], before: float, limit: int) -> list[CallRow]:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return await super().expiring(states, before, limit)


class Watched:
    """A gate with its watcher, as a bridge has it."""

    def __init__(self) -> None:
        self.store, self.clock = Stumbling(), Clock()
        self.gate = ToolGate(self.store, Policy(), clock=self.clock, timeout=60, changed=self.changed)
        self.watchers = Watchers()
        self.expiry = Expiry(self.gate, self.clock, self.watchers)
        self._moved = asyncio.Event()

    def changed(self, call: CallRecord) -> None:
        self._moved.set()
        self.expiry.changed(call)

    async def sleeps(self) -> None:
        """Wait until the watcher has looked and waits for something."""
        for _ in range(20):
            await asyncio.sleep(0)
        assert self.store.asked

    async def until(self, state: State, call: str = "c1") -> None:
        async with asyncio.timeout(PATIENCE):
            while (found := await self.gate.get(ANN, CHAT, call)) is None or found.state is not state:
                self._moved.clear()
                await self._moved.wait()


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    one = Watched()
    yield one
    await one.watchers.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adkwire.gate.expiry._LONGEST_SLEEP", 0.01)
    monkeypatch.setattr("adkwire.gate.expiry._RETRY", 0.01)
    monkeypatch.setattr("adkwire.tasks._SHORTEST_PAUSE", 0.01)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("error", [KeyError("bug"), Unavailable("away")], ids=["bug", "away"])
async def test_a_failure_is_logged_and_the_next_try_succeeds(
    watched: Watched, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    watched.store.errors = [error, error]
    await watched.gate.open(asked(), None)
    watched.clock.advance(60)
    await watched.until(State.ANSWERED)
    assert watched.store.errors == []
    assert ("watcher expiry failed" if isinstance(error, KeyError) else "calls could not be expired") in caplog.text
    assert watched.watchers.gone == []


async def becomes(watchers: Watchers, gone: list[str]) -> None:
    for _ in range(int(PATIENCE * 100)):
        if watchers.gone == gone:
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def test_it_is_gone_while_it_has_failed(watched: Watched) -> None:
    assert watched.watchers.gone == []
    watched.store.errors = [KeyError("bug")]
    await watched.gate.open(asked(), None)
    await becomes(watched.watchers, ["expiry"])
    # It starts again by itself.
    await becomes(watched.watchers, [])
    await watched.watchers.close()
    assert watched.watchers.gone == []


@pytest.mark.usefixtures("quick")
async def test_a_clock_that_was_set_forward_is_noticed(watched: Watched) -> None:
    await watched.gate.open(asked(), 3600)
    await watched.sleeps()
    watched.clock.advance(3600)
    await watched.until(State.ANSWERED)


@pytest.mark.usefixtures("quick")
async def test_calls_of_a_worker_that_is_gone_expire(watched: Watched) -> None:
    """Nothing waits when the watcher starts; then a call comes of which this worker is not told."""
    watched.expiry.start()
    await watched.sleeps()
    other = ToolGate(watched.store, Policy(), clock=watched.clock)
    await other.open(asked(), 60)
    watched.clock.advance(60)
    await watched.until(State.ANSWERED)


@pytest.mark.usefixtures("quick")
async def test_a_call_that_cannot_be_read_keeps_no_other_from_expiring(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    await watched.store.add(CallRow(ANN, CHAT, "odd", State.ASKED, b"of another version", expires_at=1.0))
    await watched.gate.open(asked(), None)
    watched.clock.advance(60)
    await watched.until(State.ANSWERED)
    assert "call odd in chat chat cannot be read, and does not expire" in caplog.text


async def test_a_call_that_cannot_be_expired_is_not_tried_without_a_pause(watched: Watched) -> None:
    await watched.store.add(CallRow(ANN, CHAT, "odd", State.ASKED, b"of another version", expires_at=1.0))
    watched.expiry.start()
    for _ in range(100):
        await asyncio.sleep(0)
    assert watched.store.asked == 1


async def test_many_calls_that_are_due_expire_without_a_pause(watched: Watched) -> None:
    """Also when nobody tells the watcher of the calls that it has expired itself."""
    gate = ToolGate(watched.store, Policy(), clock=watched.clock, timeout=60)
    for number in range(250):
        await gate.open(asked(f"c{number}"), None)
    watched.clock.advance(60)
    watched.expiry = Expiry(gate, watched.clock, watched.watchers)
    watched.expiry.start()
    for _ in range(1000):
        await asyncio.sleep(0)
    assert await gate.waiting(ANN) == []
