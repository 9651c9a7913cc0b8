"""`kill -9` at every moment between the approval of a call and the agent's next word.

All chats are held at their moments by one process, which is killed from outside; the next process meets each of them
in another way. Whatever was going on, nothing is executed twice, and what is told about it is true.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import NamedTuple

import httpx
import pytest

from tests.faults.lives import Host, Json, Life, Page, answered, browser, parts, performed
from tests.server.app_server import chunks

UNKNOWN = "outcome is unknown"
NOT_EXECUTED = "not executed"


class Fate(NamedTuple):
    """The expected state of a call that was cut off, and the text about it."""

    spent: int
    outcome: str
    report: str
    state: str = "output-error"
    late: int = 409
    """The status of the calls route for the repeated approval."""


FATES = {
    "before_agent": Fate(0, "interrupted", NOT_EXECUTED),
    "before_claim": Fate(0, "interrupted", NOT_EXECUTED),
    "before_tool": Fate(0, "unknown", UNKNOWN),
    "tool_begins": Fate(0, "unknown", UNKNOWN),
    "tool_paid": Fate(1, "unknown", UNKNOWN),
    # It was executed, and the gate knows; but what came of it was not stored.
    "after_tool": Fate(1, "executed", UNKNOWN, late=202),
    "result": Fate(1, "executed", UNKNOWN, late=202),
    "before_model": Fate(1, "executed", '{"paid": 5}', "output-available", late=202),
}
NOON = {"time": "noon"}
RETRIES = ("retried", "typed", "reposted", "raced")


class Scene(NamedTuple):
    """A restarted server, and the messages of the pages when the server before was killed."""

    host: Host
    life: Life
    asked: dict[str, list[Json]]


@dataclass
class Met:
    """A page in a chat that was cut off."""

    page: Page
    host: Host
    asked: list[Json]

    @property
    def call(self) -> str:
        return parts(self.asked)[0]["toolCallId"]

    @property
    def spent(self) -> list[str]:
        return self.host.spent(self.page.chat)

    async def repost(self) -> str:
        """Post what a page sends that was open all the time."""
        return await self.page.post(sent(self.page.chat, self.asked))

    async def approve(self) -> httpx.Response:
        return await self.page.answer(self.call, approved=True)


def sent(chat: str, asked: list[Json]) -> list[Json]:
    """Return what the page has sent when the server is killed."""
    if "clock" in chat:
        return performed(asked, NOON)
    return answered(asked, approved="denied" not in chat)


async def by_history(met: Met) -> None:
    await met.page.history()


async def by_repost(met: Met) -> None:
    await met.repost()


async def by_route(met: Met) -> None:
    await met.approve()


async def by_message(met: Met) -> None:
    await met.page.say("and?", "u2")


MEETINGS: dict[str, Callable[[Met], Awaitable[None]]] = {
    "history": by_history,
    "repost": by_repost,
    "route": by_route,
    "message": by_message,
}


def wishes() -> dict[str, str]:
    """Return the message of every chat."""
    points = [*FATES, "user_message"]
    return {
        **{f"{point}.{meeting}": "pay 5" for point in points for meeting in MEETINGS},
        **{f"tool_paid.{how}": "charge 5" for how in RETRIES},
        "before_tool.retried": "charge 5",
        "tool_paid.refused": "pay 5",
        "paid_6.both": "pay 5 + pay 6",
        **{f"{point}.denied": "pay 5" for point in ("user_message", "before_agent", "before_claim")},
        **{f"user_message.clock-{how}": "clock" for how in ("again", "once-more")},
        **{f"{point}.clock-{meeting}": "clock" for point in ("user_message", "before_agent") for meeting in MEETINGS},
    }


async def hold_all(host: Host, life: Life) -> dict[str, list[Json]]:
    """Ask in every chat, answer all calls, and kill the server at the points; return the messages of the pages."""
    async with browser(life.url) as client:
        pages = {chat: Page(client, chat) for chat in wishes()}
        asked = {chat: await pages[chat].ask(wish) for chat, wish in wishes().items()}
        host.arm("hold")
        posting = [asyncio.create_task(pages[chat].post(sent(chat, asked[chat]))) for chat in pages]
        missing = await host.all_held(set(pages))
        life.kill()
        await asyncio.gather(*posting, return_exceptions=True)
        return {chat: messages for chat, messages in asked.items() if chat not in missing}


@pytest.fixture(scope="module")
def scene(host: Host) -> Generator[Scene]:
    with host.life() as life:
        asked = asyncio.run(hold_all(host, life))
    host.disarm()
    with host.life() as life:
        yield Scene(host, life, asked)


Meet = Callable[[httpx.AsyncClient, str], Met]


@pytest.fixture
def meet(scene: Scene) -> Meet:
    def meet(client: httpx.AsyncClient, chat: str) -> Met:
        assert chat in scene.asked, f"{chat} never came to where it should be killed"
        return Met(Page(client, chat), scene.host, scene.asked[chat])

    return meet


async def assert_told(met: Met, fate: Fate) -> None:
    part = await met.page.part()
    assert part["state"] == fate.state
    assert fate.report in (part["errorText"] if fate.state == "output-error" else '{"paid": 5}')
    assert await met.page.outcome(met.call) == fate.outcome
    assert (await met.page.history())["pending"] == []


async def press_on(met: Met, fate: Fate) -> None:
    """Repeat the answer in every way, and check that nothing changes."""
    await met.repost()
    again = await met.approve()
    assert again.status_code == fate.late, again.text
    denied = await met.page.answer(met.call, approved=False)
    assert denied.status_code == 409, denied.text
    await asyncio.gather(*(met.repost() for _ in range(3)), *(met.approve() for _ in range(3)))
    await met.page.at_rest()
    assert len(met.spent) == fate.spent


@pytest.mark.parametrize("meeting", MEETINGS)
@pytest.mark.parametrize("point", FATES)
async def test_killed_in_the_middle_of_an_approved_call(scene: Scene, meet: Meet, point: str, meeting: str) -> None:
    fate = FATES[point]
    async with browser(scene.life.url) as client:
        met = meet(client, f"{point}.{meeting}")
        await MEETINGS[meeting](met)
        await met.page.at_rest()
        assert len(met.spent) == fate.spent
        await assert_told(met, fate)
        await press_on(met, fate)
        assert fate.report in await met.page.say("what came of it?", "u3")
        await assert_told(met, fate)
        await press_on(met, fate)


@pytest.mark.parametrize("meeting", MEETINGS)
async def test_killed_before_the_answer_reached_the_agent(scene: Scene, meet: Meet, meeting: str) -> None:
    async with browser(scene.life.url) as client:
        met = meet(client, f"user_message.{meeting}")
        await MEETINGS[meeting](met)
        await met.page.at_rest()
        if meeting == "history":
            assert await met.page.part() == parts(met.asked)[0]
            assert met.spent == []
            await met.repost()
        fate = Fate(0, "superseded", NOT_EXECUTED) if meeting == "message" else FATES["before_model"]
        assert len(met.spent) == fate.spent
        await assert_told(met, fate)
        await press_on(met, fate)
        assert fate.report in await met.page.say("what came of it?", "u3")
        await press_on(met, fate)


async def test_one_of_two_calls_had_ended(scene: Scene, meet: Meet) -> None:
    async with browser(scene.life.url) as client:
        met = meet(client, "paid_6.both")
        history = await met.page.at_rest()
        assert [UNKNOWN in part["errorText"] for part in parts(history["messages"])] == [True, True]
        outcomes = [await met.page.outcome(part["toolCallId"]) for part in parts(met.asked)]
        assert outcomes == ["executed", "unknown"]
        await met.repost()
        for part in parts(met.asked):
            await met.page.answer(part["toolCallId"], approved=True)
        assert (await met.page.say("what came of it?", "u2")).count(UNKNOWN) == 2
        assert sorted(met.spent) == ["pay 5", "pay 6"]


async def test_an_unknown_call_is_not_run_again_unless_its_rule_says_so(scene: Scene, meet: Meet) -> None:
    async with browser(scene.life.url) as client:
        met = meet(client, "tool_paid.refused")
        refused = await met.approve()
        assert refused.status_code == 409
        assert "whether it was executed is not known" in refused.json()["error"]["message"]
        assert met.spent == ["pay 5"]


@pytest.mark.parametrize(("point", "began"), [("before_tool", 1), ("tool_paid", 2)])
async def test_an_unknown_call_is_run_again_on_demand(scene: Scene, meet: Meet, point: str, began: int) -> None:
    async with browser(scene.life.url) as client:
        met = meet(client, f"{point}.retried")
        await assert_told(met, FATES["before_tool"])
        assert (await met.approve()).status_code == 202
        history = await met.page.until(lambda found: parts(found["messages"])[0]["state"] == "output-available")
        assert history["messages"][1]["parts"][-1]["text"] == 'Told: charge {"paid": 5}'
        assert sorted(met.spent) == sorted(["began"] * began + ["charge 5"])
        assert {line["call"] for line in scene.host.ledger(met.page.chat)} == {met.call}
        assert await met.page.outcome(met.call) == "executed"
        await press_on(met, Fate(began + 1, "executed", "", late=202))


async def test_sixteen_retries_at_once_run_it_once(scene: Scene, meet: Meet) -> None:
    async with browser(scene.life.url) as client:
        met = meet(client, "tool_paid.raced")
        replies = await asyncio.gather(*(met.approve() for _ in range(16)))
        assert {reply.status_code for reply in replies} == {202}
        await met.page.until(lambda found: parts(found["messages"])[0]["state"] == "output-available")
        assert sorted(met.spent) == ["began", "began", "charge 5"]


async def test_a_repeated_answer_does_not_retry_an_unknown_call(scene: Scene, meet: Meet) -> None:
    async with browser(scene.life.url) as client:
        met = meet(client, "tool_paid.reposted")
        assert chunks(await met.repost())[-1]["type"] == "error"
        await met.page.at_rest()
        assert sorted(met.spent) == ["began", "charge 5"]
        await assert_told(met, FATES["tool_paid"])


async def test_a_retry_after_a_new_message_is_refused_or_carried_out(scene: Scene, meet: Meet) -> None:
    async with browser(scene.life.url) as client:
        met = meet(client, "tool_paid.typed")
        assert UNKNOWN in await met.page.say("and?", "u2")
        if (await met.approve()).status_code == 202:
            await met.page.until(lambda found: met.spent.count("began") == 2)
        await met.page.say("and now?", "u3")
        # Whatever was done about it, nobody can say that it was not executed.
        assert await met.page.outcome(met.call) in ("unknown", "executed")
        assert NOT_EXECUTED not in str(await met.page.history())


@pytest.mark.parametrize("point", ["user_message", "before_agent", "before_claim"])
async def test_killed_on_the_way_of_a_denial(scene: Scene, meet: Meet, point: str) -> None:
    async with browser(scene.life.url) as client:
        met = meet(client, f"{point}.denied")
        if (await met.page.part())["state"] == "approval-requested":
            await met.repost()
        await met.page.at_rest()
        assert (await met.page.part())["state"] == "output-denied"
        assert NOT_EXECUTED in await met.page.say("and?", "u2")
        assert (await met.approve()).status_code == 409
        assert (await met.page.part())["state"] == "output-denied"
        assert [entry["verdict"] for entry in await met.page.audit(met.call)].count("approved") == 0
        assert met.spent == []


@pytest.mark.parametrize("meeting", MEETINGS)
@pytest.mark.parametrize("point", ["user_message", "before_agent"])
async def test_what_the_browser_has_done_is_not_lost(scene: Scene, meet: Meet, point: str, meeting: str) -> None:
    """The browser need not execute it again: the server has stored the output."""
    async with browser(scene.life.url) as client:
        met = meet(client, f"{point}.clock-{meeting}")
        if meeting == "route":
            assert (await met.page.answer(met.call, output=NOON)).status_code == 202
        else:
            await MEETINGS[meeting](met)
        history = await met.page.at_rest()
        [part] = parts(history["messages"])
        assert (part["state"], part["output"]) == ("output-available", NOON)
        assert history["pending"] == []
        assert 'clock {"time": "noon"}' in await met.page.say("what came of it?", "u3")
        assert await met.page.outcome(met.call) == "answered"


async def test_the_message_goes_on_when_the_page_sends_its_output_again(scene: Scene, meet: Meet) -> None:
    async with browser(scene.life.url) as client:
        met = meet(client, "user_message.clock-again")
        await met.repost()
        history = await met.page.at_rest()
        assert history["messages"][1]["parts"][-1]["text"] == 'Told: clock {"time": "noon"}'


async def test_the_message_goes_on_when_the_route_is_given_the_output_again(scene: Scene, meet: Meet) -> None:
    async with browser(scene.life.url) as client:
        met = meet(client, "user_message.clock-once-more")
        assert (await met.page.answer(met.call, output=NOON)).status_code == 202
        await met.page.until(lambda found: 'clock {"time": "noon"}' in str(found["messages"][1]["parts"][-1]))
