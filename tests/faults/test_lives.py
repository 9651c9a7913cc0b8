"""State that survives a restart: a question, its deadline, a standing approval, and that a call was retried."""

import asyncio
import signal
import time
from datetime import datetime
from pathlib import Path

import httpx
import pytest

from tests.faults.lives import ARGS, Host, Json, Page, Place, answered, browser, parts
from tests.patience import PATIENCE
from tests.server.app_server import chunks
from tests.servers import serve


async def ask(url: str, *chats: str) -> dict[str, list[Json]]:
    async with browser(url) as client:
        return {chat: await Page(client, chat).ask("pay 5") for chat in chats}


async def by_repost(page: Page, asked: list[Json]) -> None:
    await asyncio.gather(*(page.post(answered(asked)) for _ in range(2)))


async def by_route(page: Page, asked: list[Json]) -> None:
    [part] = parts(asked)
    replies = await asyncio.gather(*(page.answer(part["toolCallId"], approved=True) for _ in range(2)))
    assert [reply.status_code for reply in replies] == [202, 202]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_a_question_outlives_the_server_that_asked_it(tmp_path: Path, end: signal.Signals) -> None:
    place = Place(tmp_path)
    answers = {"repost": by_repost, "route": by_route}
    with serve(*ARGS, cwd=tmp_path, env=place.environment) as server:
        asked = await ask(server.url, *answers)
        server.process.send_signal(end)
        assert server.process.wait(PATIENCE) in (-end, 0 if end is signal.SIGTERM else -end)
    with serve(*ARGS, cwd=tmp_path, env=place.environment) as server:
        async with browser(server.url) as client:
            for chat, approve in answers.items():
                page = Page(client, chat)
                await assert_asked(page, asked[chat])
                await approve(page, asked[chat])
                await assert_paid(page, place)


async def assert_asked(page: Page, asked: list[Json]) -> None:
    history = await page.history()
    [part] = parts(history["messages"])
    assert history["messages"] == asked
    assert part["state"] == "approval-requested"
    [pending] = history["pending"]
    assert (pending["toolCallId"], pending["approvalId"]) == (part["toolCallId"], part["approval"]["id"])


async def assert_paid(page: Page, place: Place) -> None:
    history = await page.until(lambda found: parts(found["messages"])[0]["state"] == "output-available")
    assert history["pending"] == []
    assert history["messages"][1]["parts"][-1]["text"] == 'Told: pay {"paid": 5}'
    assert place.spent(page.chat) == ["pay 5"]


async def test_a_deadline_that_passes_while_the_server_is_down(host: Host) -> None:
    with host.life() as life:
        async with life.page("late") as page:
            asked = await page.ask("soon 5")
            [pending] = (await page.history())["pending"]
    due = datetime.fromisoformat(pending["expiresAt"]).timestamp()
    await asyncio.sleep(max(0.0, due - time.time()))
    with host.life() as life:
        async with life.page("late") as page:
            history = await page.until(lambda found: not found["pending"] and "Told" in str(found["messages"]))
            [part] = parts(history["messages"])
            assert part["state"] == "output-error"
            assert part["errorText"].startswith("Nobody answered in time")
            assert "Nobody answered in time" in history["messages"][1]["parts"][-1]["text"]
            assert await page.outcome(part["toolCallId"]) == "not executed"
            late = await page.answer(part["toolCallId"], approved=True)
            assert (late.status_code, "nobody answered in time" in late.text) == (409, True)
            assert chunks(await page.post(answered(asked)))[-1]["type"] == "error"
            assert host.spent("late") == []
            assert "Nobody answered in time" in await page.say("and?", "u2")


async def test_a_deadline_that_has_not_passed_goes_on(host: Host) -> None:
    with host.life() as life:
        async with life.page("in-time") as page:
            await page.ask("soon 5")
            [pending] = (await page.history())["pending"]
    with host.life() as life:
        async with life.page("in-time") as page:
            history = await page.until(lambda found: not found["pending"] and "Told" in str(found["messages"]))
            assert time.time() >= datetime.fromisoformat(pending["expiresAt"]).timestamp()
            assert parts(history["messages"])[0]["errorText"].startswith("Nobody answered in time")
            assert host.spent("in-time") == []


async def test_a_question_that_is_asked_again_keeps_its_deadline(host: Host) -> None:
    with host.life() as life:
        async with life.page("reopened") as page:
            asked = await page.ask("soon 5")
            host.arm("user_message", "reopened")
            with pytest.raises(httpx.TransportError):
                await page.post(answered(asked))
            life.died()
    with host.life() as life:
        async with life.page("reopened") as page:
            history = await page.until(lambda found: not found["pending"] and "Told" in str(found["messages"]))
            assert parts(history["messages"])[0]["errorText"].startswith("Nobody answered in time")
            assert host.spent("reopened") == []


@pytest.mark.parametrize("point", ["user_message", "before_agent", "before_claim"])
async def test_killed_while_the_clock_answers(host: Host, point: str) -> None:
    chat = f"clock-{point}"
    with host.life() as life:
        async with life.page(chat) as page:
            [part] = parts(await page.ask("soon 5"))
            host.arm(point, chat)
            with pytest.raises(httpx.TransportError):
                await page.until(lambda _: False)
            life.died()
    with host.life() as life:
        async with life.page(chat) as page:
            history = await page.until(lambda found: parts(found["messages"])[0]["state"] == "output-error")
            assert history["pending"] == []
            assert "not executed" in parts(history["messages"])[0]["errorText"]
            assert (await page.answer(part["toolCallId"], approved=True)).status_code == 409
            assert "not executed" in await page.say("and?", "u2")
            assert "not executed" in parts((await page.history())["messages"])[0]["errorText"]
            assert host.spent(chat) == []


async def test_standing_approvals_outlive_the_server(host: Host) -> None:
    with host.life() as life:
        async with life.page("granted") as page:
            [part] = parts(await page.ask("lend 1"))
            assert (await page.answer(part["toolCallId"], approved=True, scope="chat")).status_code == 202
            await page.at_rest()
    with host.life() as life:
        async with life.page("granted") as page:
            assert 'lend {"paid": 2}' in await page.say("lend 2", "u2")
        async with life.page("elsewhere") as page:
            [part] = parts(await page.ask("lend 3"))
            assert part["state"] == "approval-requested"
            assert (await page.answer(part["toolCallId"], approved=True, scope="always")).status_code == 202
            await page.at_rest()
    with host.life() as life:
        async with life.page("anywhere") as page:
            assert 'lend {"paid": 4}' in await page.say("lend 4", "u1")
    spent = [host.spent(chat) for chat in ("granted", "elsewhere", "anywhere")]
    assert spent == [["lend 1", "lend 2"], ["lend 3"], ["lend 4"]]


async def test_a_standing_approval_releases_what_waited_before(host: Host) -> None:
    """Also in a chat that the new process has not met yet."""
    with host.life() as life:
        async with life.page("waiting") as page:
            await page.ask("trust 1")
    with host.life() as life:
        async with life.page("granting") as page:
            [part] = parts(await page.ask("trust 2"))
            assert (await page.answer(part["toolCallId"], approved=True, scope="always")).status_code == 202
        async with life.page("waiting") as page:
            await page.until(lambda found: parts(found["messages"])[0]["state"] == "output-available")
            assert host.spent("waiting") == ["trust 1"]


@pytest.mark.parametrize("point", ["user_message", "before_agent", "before_tool", "tool_paid"])
async def test_killed_again_while_a_call_is_run_again(host: Host, point: str) -> None:
    """It may have been executed the first time: nothing that happens later makes that untrue."""
    chat = f"again-{point}"
    with host.life() as life:
        async with life.page(chat) as page:
            asked = await page.ask("charge 5")
            host.arm("tool_paid", chat)
            with pytest.raises(httpx.TransportError):
                await page.post(answered(asked))
            life.died()
    [part] = parts(asked)
    with host.life() as life:
        async with life.page(chat) as page:
            host.arm(point, chat)
            assert (await page.answer(part["toolCallId"], approved=True)).status_code == 202
            with pytest.raises(httpx.TransportError):
                await page.until(lambda _: False)
            life.died()
    with host.life() as life:
        async with life.page(chat) as page:
            retried_part = await page.part()
            assert retried_part["state"] == "output-error"
            assert "outcome is unknown" in retried_part["errorText"]
            assert await page.outcome(part["toolCallId"]) == "unknown"
            assert "outcome is unknown" in await page.say("and?", "u2")
            assert host.spent(chat).count("charge 5") == 1
