"""Only the worker that owns a chat writes in it; the others wait for its release and do not poll."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent, ParallelAgent  # pyright: ignore[reportDeprecated]
from google.adk.sessions import InMemorySessionService

from adkwire.adk.events import TAKEN_OVER
from adkwire.adk.runner import Target
from adkwire.errors import Conflict, Unavailable
from adkwire.runs import ownership
from adkwire.stores.base import Batch, ChatKey, RunHead
from adkwire.stores.memory import MemoryGateStore, MemorySignals, MemoryStreamLog, SharedSignals
from adkwire.testing import Call, Say, ScriptedModel, Wait
from tests.live.live_chat import RecordingListener
from tests.patience import PATIENCE
from tests.support.chats import Chat
from tests.support.fixtures import Make
from tests.support.gated_tools import Till
from tests.support.pages import Page, refused

LEASE = "chat ann\nchat"


class CountingSignals(MemorySignals):
    """Signals that count the requests about leases."""

    def __init__(self, board: SharedSignals) -> None:
        super().__init__(board)
        self.counts: Counter[str] = Counter()
        """How often a lease was requested: `refused` while another worker has it, `waited` for its release."""
        self.waits = asyncio.Event()
        """Set when this worker waits for the chat."""

    async def acquire(self, name: str) -> str | None:
        last = await super().acquire(name)
        self.counts["refused" if last is None else "acquired"] += 1
        return last

    async def holder(self, name: str) -> str | None:
        self.counts["holder"] += 1
        return await super().holder(name)

    async def wait_free(self, name: str, seconds: float) -> bool:
        if await super().wait_free(name, 0):
            return True
        self.counts["waited"] += 1
        if name == LEASE:
            self.waits.set()
        return await super().wait_free(name, seconds)


class CountingLog(MemoryStreamLog):
    """A stream log that counts how often the open runs were listed."""

    def __init__(self) -> None:
        super().__init__(ttl=60)
        self.listed = 0
        self.followed: asyncio.Event | None = None
        """When a test has set it, no run is closed before a reader waits for more of it."""

    async def read(self, run: str, after: int, wait: float) -> Batch | None:
        if self.followed is not None and wait:
            self.followed.set()
        return await super().read(run, after, wait)

    async def close(self, run: str) -> None:
        if self.followed is not None:
            await self.followed.wait()
        await super().close(run)

    async def unclosed(self, user: str | None = None, chat: str | None = None) -> list[RunHead]:
        self.listed += 1
        return await super().unclosed(user, chat)


class Workers:
    """Workers that share their stores and sessions."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self.board, self._gate = SharedSignals(), MemoryGateStore()
        self.log, self._sessions = CountingLog(), InMemorySessionService()
        self.signals: list[CountingSignals] = []

    def start(self, model: Target | ScriptedModel, *tools: Any, **options: Any) -> Chat:
        """Start one more worker, which listens to the others."""
        self.signals.append(CountingSignals(self.board))
        chat = self._make(
            model,
            *tools,
            db="memory:",
            stream_log=self.log,
            gate_store=self._gate,
            signals=self.signals[-1],
            session_service=self._sessions,
            **options,
        )
        chat.bridge.watch()
        return chat


def says(text: str) -> ScriptedModel:
    return ScriptedModel(script=lambda _: [Say(text)])


def payer_and_clerk(till: Till, held: asyncio.Event) -> ParallelAgent:  # pyright: ignore[reportDeprecated]
    """Return an agent with two at once: one asks for an approval, while the other goes on until `held` is set."""
    payer = ScriptedModel(turns=[[Call("pay", {"amount": 5}, "c1")], [Say("Paid.")]])
    clerk = ScriptedModel(turns=[[Say("one "), Wait(held)]])
    agents: list[BaseAgent] = [
        LlmAgent(name="payer", model=payer, tools=[till.pay]),
        LlmAgent(name="clerk", model=clerk),
    ]
    return ParallelAgent(name="office", sub_agents=agents)  # pyright: ignore[reportDeprecated]


@pytest.mark.filterwarnings("ignore:ParallelAgent is deprecated")
async def test_only_the_owner_continues_with_an_answer_that_another_worker_took(make: Make) -> None:
    """A parallel agent still writes when the answer comes, so that the worker that asked owns the chat."""
    till, workers, held = Till(), Workers(make), asyncio.Event()

    owner, taker, third = (Page(workers.start(payer_and_clerk(till, held))) for _ in range(3))
    async with owner.chat_events() as events:
        run = await owner.begin("pay")
        await events.until("call-asked")
    for signals in workers.signals:
        signals.counts.clear()
    async with third.chat_events() as events:
        await taker.answer("c1", approved=True)
        await events.until("call-settled")
    async with asyncio.timeout(PATIENCE):
        await workers.signals[1].waits.wait()
    async with owner.chat_events() as events:
        held.set()
        await owner.reply(run)
        await events.until("run-ended", times=2)
    assert till.paid == [5]
    assert (workers.signals[1].counts["refused"], workers.signals[1].counts["waited"]) == (0, 1)
    assert workers.signals[2].counts.keys() <= {"holder"}


@pytest.mark.filterwarnings("ignore:ParallelAgent is deprecated")
async def test_a_live_conversation_on_another_worker_ends_a_run_and_its_pending_call(make: Make) -> None:
    """The model, the page and a late answer get the true reason."""
    till, workers = Till(), Workers(make)
    owner = Page(workers.start(payer_and_clerk(till, asyncio.Event())))
    other = workers.start(says("?"))
    async with owner.chat_events() as events:
        run = await owner.begin("pay")
        await events.until("call-asked")
    link = await other.bridge.live.join("ann", "chat", RecordingListener())
    await owner.reply(run)
    assert run.why == "taken-over"
    assert owner.part("c1")["errorText"] == TAKEN_OVER
    late = "Too late: a live conversation was opened before the call was executed."
    assert await refused(owner.answer("c1", approved=True)) == (409, late)
    assert (await owner.audit())[-2][2:] == ("taken-over", "taken-over")
    assert till.paid == []
    await link.close()


async def test_the_worker_that_took_an_answer_continues_when_the_owner_did_not(make: Make) -> None:
    """The owner had the chat for another request, and released it without reading the answer."""
    till, workers = Till(), Workers(make)
    model = ScriptedModel(turns=[[Call("pay", {"amount": 5}, "c1")], [Say("Paid.")]])
    taker = Page(workers.start(model, till.pay))
    await taker.say("pay")
    other = MemorySignals(workers.board)
    assert await other.wait_free(LEASE, PATIENCE)
    await other.acquire(LEASE)
    async with taker.chat_events() as events:
        await taker.answer("c1", approved=True)
        async with asyncio.timeout(PATIENCE):
            await workers.signals[0].waits.wait()
        await other.release(LEASE)
        await events.until("run-ended")
    assert till.paid == [5]
    assert workers.signals[0].counts["refused"] == 0


async def test_a_queued_message_waits_for_the_release_of_the_lease(make: Make) -> None:
    workers, held = Workers(make), asyncio.Event()
    here = workers.start(ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]]))
    there = workers.start(says("mine"), on_busy="queue")
    run = await here.begin("a", "u1")
    await here.reader(run).until("text-delta")
    waiting = asyncio.create_task(there.say("b", "u2"))
    async with asyncio.timeout(PATIENCE):
        await workers.signals[1].waits.wait()
    held.set()
    await here.read(run)
    assert (await waiting).text == "mine"
    assert workers.signals[1].counts["refused"] <= 2


async def test_a_message_that_waits_for_another_worker_is_refused_when_the_server_drains(make: Make) -> None:
    workers, held = Workers(make), asyncio.Event()
    here = workers.start(ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]]))
    there = workers.start(says("mine"), on_busy="queue")
    run = await here.begin("a", "u1")
    await here.reader(run).until("text-delta")
    waiting = asyncio.create_task(there.say("b", "u2"))
    async with asyncio.timeout(PATIENCE):
        await workers.signals[1].waits.wait()
    await there.bridge.drain(0)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(Unavailable):
            await waiting
    held.set()
    await here.read(run)


async def test_a_stop_on_another_worker_waits_for_the_end_of_the_stream(make: Make) -> None:
    workers = Workers(make)
    here = workers.start(ScriptedModel(turns=[[Say("one "), Wait(asyncio.Event())]]))
    there = workers.start(says("?"))
    run = await here.begin("a", "u1")
    await here.reader(run).until("text-delta")
    workers.log.listed, workers.log.followed = 0, asyncio.Event()
    assert await there.stop()
    assert not run.active
    assert workers.log.listed <= 4, "the open runs are not listed again and again"


async def test_a_message_is_refused_while_another_worker_has_the_live_conversation(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "_HANG_UP_SECONDS", 0.01)
    workers = Workers(make)
    here = workers.start(says("?"))
    other = MemorySignals(workers.board)
    await other.acquire(f"live {LEASE.removeprefix('chat ')}")
    with pytest.raises(Conflict, match="live conversation"):
        await here.begin("a")
    assert workers.signals[0].counts["waited"] == 1


async def test_nothing_is_kept_of_a_deleted_chat(make: Make) -> None:
    """A run that ends by the deletion releases the chat afterwards, which must not add it again."""
    workers = Workers(make)
    here = workers.start(ScriptedModel(turns=[[Say("one "), Wait(asyncio.Event())]]))
    run = await here.begin("a", "u1")
    await here.reader(run).until("text-delta")
    await here.bridge.delete("ann", "chat")
    releases = [task for task in asyncio.all_tasks() if task.get_name() == "adkwire-release-chat"]
    assert releases
    await asyncio.wait(releases, timeout=PATIENCE)
    assert here.bridge._chats.get(ChatKey("ann", "chat")) is None  # pyright: ignore[reportPrivateUsage]
