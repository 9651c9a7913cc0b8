"""Servers on one file, each killed at random while random clients answer: what is reported is what was executed.

`FAULT_ROUNDS=1000 FAULT_SEED=7 pytest tests/faults/test_seeded.py` for longer and other ones.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.faults.lives import Host, Json, Life, Page, answered, browser, parts

ROUNDS = int(os.environ.get("FAULT_ROUNDS", "25"))
SEED = int(os.environ.get("FAULT_SEED", "1"))
CHATS = 2
POINTS = (
    *("user_message", "before_agent", "before_claim", "before_tool", "tool_begins"),
    *("tool_paid", "after_tool", "result", "before_model"),
)
STATEMENTS = 100
"""About as many as two chats need from the answer to the end."""
UNTOUCHED = {"superseded", "stopped", "interrupted", "expired", "not executed"}


@dataclass
class Story:
    """A chat, the messages of its page when the calls were asked about, and what was sent."""

    chat: str
    asked: list[Json]
    approves: bool = False
    denies: bool = False
    log: list[str] = field(default_factory=list[str])

    def answers(self, approved: bool = True) -> list[Json]:
        self.approves |= approved
        self.denies |= not approved
        return answered(self.asked, approved)

    @property
    def calls(self) -> list[str]:
        return [part["toolCallId"] for part in parts(self.asked)]


def posts(page: Page, story: Story, times: int) -> list[Coroutine[Any, Any, Any]]:
    return [page.post(story.answers()) for _ in range(times)]


def calls(page: Page, story: Story, times: int) -> list[Coroutine[Any, Any, Any]]:
    story.approves = True
    return [page.answer(call, approved=True) for _ in range(times) for call in story.calls]


async def click(page: Page, story: Story) -> None:
    await page.post(story.answers())


async def double_click(page: Page, story: Story) -> None:
    await asyncio.gather(*posts(page, story, 2))


async def race(page: Page, story: Story) -> None:
    await asyncio.gather(*posts(page, story, 8), *calls(page, story, 8))


async def both_ways(page: Page, story: Story) -> None:
    await asyncio.gather(*calls(page, story, 1), *posts(page, story, 1))


async def by_route(page: Page, story: Story) -> None:
    story.approves = True
    for call in story.calls:
        await page.answer(call, approved=True)
    await page.at_rest()


async def cut_and_again(page: Page, story: Story) -> None:
    await page.cut(story.answers())
    await page.post(story.answers())


async def of_two_minds(page: Page, story: Story) -> None:
    await asyncio.gather(page.post(story.answers(False)), page.post(story.answers(True)))


async def deny(page: Page, story: Story) -> None:
    await page.post(story.answers(False))


async def type_over(page: Page, story: Story) -> None:
    await page.say("never mind", f"over-{len(story.log)}")


async def approve_and_type(page: Page, story: Story) -> None:
    await asyncio.gather(page.post(story.answers()), page.say("never mind", f"over-{len(story.log)}"))


async def stop(page: Page, story: Story) -> None:
    await asyncio.gather(page.post(story.answers()), page.client.post(f"/api/chat/{page.chat}/stop"))


async def look(page: Page, story: Story) -> None:
    await page.history()


Act = Callable[[Page, Story], Awaitable[None]]
ACTS: tuple[Act, ...] = (
    *(click, double_click, race, both_ways, by_route, cut_and_again, of_two_minds, deny),
    *(type_over, approve_and_type, stop, look),
)
APPROVALS: tuple[Act, ...] = (click, double_click, race, both_ways, by_route, cut_and_again)
AGAIN: tuple[Act, ...] = (*APPROVALS, deny, look)


async def attempt(act: Act, page: Page, story: Story) -> None:
    """Do something, and ignore connection errors: the server may be killed meanwhile."""
    story.log.append(getattr(act, "__name__", "?"))
    with suppress(httpx.TransportError):
        await act(page, story)


async def assert_true(host: Host, page: Page, story: Story) -> None:
    """Check that history, gate and audit of an idle chat agree with the ledger."""
    history = await page.at_rest()
    paid = Counter(line["call"] for line in host.ledger(story.chat))
    assert set(paid) <= {part["toolCallId"] for part in parts(history["messages"])}
    waiting = {pending["toolCallId"] for pending in history["pending"]}
    for part in parts(history["messages"]):
        call = part["toolCallId"]
        audit = await page.audit(call)
        times, outcomes = paid[call], {entry["outcome"] for entry in audit}
        details = (part, times, [(entry["verdict"], entry["outcome"]) for entry in audit])
        assert times <= 1, details
        assert times == 0 or story.approves, details
        assert times == 0 or call not in waiting, details
        assert (part["state"] == "approval-requested") == (call in waiting), details
        assert times in executions(part), details
        assert not ("executed" in outcomes and times == 0), details
        assert not (outcomes & UNTOUCHED and times == 1), details


def executions(part: Json) -> set[int]:
    """Return how often a call may have been executed, by the state of its part."""
    if part["state"] == "output-available":
        return {1}
    if part["state"] == "output-error" and "outcome is unknown" in part["errorText"]:
        return {0, 1}
    assert part["state"] != "output-error" or "not executed" in part["errorText"], part
    return {0}


async def asked_again(page: Page) -> list[Json]:
    """Send the same message again, because the connection was lost before the calls came."""
    messages = await page.ask("pay 1")
    cards = [part["state"] == "approval-requested" for part in parts(messages)]
    return messages if all(cards) else []


class Soak:
    """Rounds in which calls are asked about and answered, the server is killed, and the result is checked."""

    def __init__(self, host: Host, rng: random.Random) -> None:
        self.host = host
        self.rng = rng
        self.fates: Counter[str] = Counter()

    async def round(self, number: int, before: list[Story]) -> list[Story]:
        """Check the chats of the server before, then open new ones and kill the server."""
        with self.host.life() as life:
            async with browser(life.url) as client:
                for story in before:
                    await self.after(Page(client, story.chat), story)
                if self.rng.random() < 0.2:
                    self.host.arm("sql", self.rng.randint(1, STATEMENTS))
                stories = [await self.open(client, f"r{number}-{n}") for n in range(CHATS)]
                await self.die(life, client, stories)
        return stories

    async def open(self, client: httpx.AsyncClient, chat: str) -> Story:
        story = Story(chat, [])
        with suppress(httpx.TransportError):
            story.asked = await Page(client, chat).ask(self.rng.choice(["pay 1", "pay 1", "pay 1 + pay 2"]))
        return story

    async def die(self, life: Life, client: httpx.AsyncClient, stories: list[Story]) -> None:
        """Let all clients answer at once, and kill the server meanwhile."""
        if not all(story.asked for story in stories):
            self.fates["asking"] += 1
            life.died()
            return
        order = self.order(stories)
        self.host.arm(*order)
        acts = [(self.rng.choice(ACTS), Page(client, story.chat), story) for story in stories]
        for story in stories:
            story.log.append(f"<{' '.join(map(str, order))}>")
        await asyncio.gather(*(attempt(*act) for act in acts))
        self.fates["outside" if self.host.disarm() else str(order[0])] += 1
        life.kill()

    def order(self, stories: list[Story]) -> tuple[object, ...]:
        if self.rng.random() < 0.5:
            return "sql", self.rng.randint(1, STATEMENTS)
        return self.rng.choice(POINTS), self.rng.choice(stories).chat

    async def answer(self, act: Act, page: Page, story: Story) -> None:
        """Answer without looking, or after a look at the history: then the outcome is known."""
        looked = self.rng.random() < 0.5
        pending: list[Json] = (await page.history())["pending"] if looked else []
        story.log.append(getattr(act, "__name__", "?"))
        await act(page, story)
        await assert_true(self.host, page, story)
        if pending and act in APPROVALS:
            assert {part["state"] for part in parts((await page.history())["messages"])} == {"output-available"}

    async def after(self, page: Page, story: Story) -> None:
        """Check what was reported, that more answers change nothing, and that the chat goes on."""
        story.log.append("<restart>")
        try:
            story.asked = story.asked or await asked_again(page)
            for act in self.rng.sample(AGAIN, 2) if story.asked else [look]:
                await self.answer(act, page, story)
            assert "Told: " in await page.say("what came of it?", "end")
            await assert_true(self.host, page, story)
            assert (await page.history())["pending"] == []
        except AssertionError as error:
            raise AssertionError(f"{story.chat}, {', '.join(story.log)}: {error}") from error


async def test_a_call_is_executed_as_often_as_is_reported(host: Host) -> None:
    print(f"FAULT_SEED={SEED}")
    soak = Soak(host, random.Random(SEED))
    stories: list[Story] = []
    for number in range(ROUNDS):
        stories = await soak.round(number, stories)
    with host.life() as life:
        async with browser(life.url) as client:
            for story in stories:
                await soak.after(Page(client, story.chat), story)
    print(f"how they ended: {dict(soak.fates)}")
    assert sum(soak.fates.values()) == ROUNDS
    assert ROUNDS < 25 or soak.fates["outside"] < ROUNDS / 2, "the orders to die are hardly ever reached"
