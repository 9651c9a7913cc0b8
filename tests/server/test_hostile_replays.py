"""An approval counts once: whoever repeats it, however often, at once or late, executes nothing more."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.patience import PATIENCE
from tests.server.app_server import answer_text, assert_error, chunks, kinds, message
from tests.server.hostile_page import REFUSED, Page, Part, Shop, assert_refused, opened_shop, verdict
from tests.server.ledger_agent import PAY, PAYMENT, calls

ALREADY = "This call was already answered."
RACERS = 16


@pytest.fixture(scope="module")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shop]:
    folder = tmp_path_factory.mktemp("hostile")
    async with opened_shop(folder, db=str(folder / "state.db")) as shop:
        yield shop


async def _denied(page: Page) -> None:
    await page.answer(verdict(page.part(), approved=False))


async def _denied_by_route(page: Page) -> None:
    assert (await page.call(page.part()["toolCallId"], {"approved": False})).status_code == 202
    await page.idle()


async def _superseded(page: Page) -> None:
    typed = [*page.messages, message("never mind", "u9")]
    assert "error" not in kinds((await page.post({"id": page.chat, "messages": typed})).text)


async def _edited(page: Page) -> None:
    """The user's message is written anew, with other words."""
    body = {"id": page.chat, "messages": [message("never mind", "u1")], "messageId": "u1"}
    assert "error" not in kinds((await page.post(body)).text)


async def _made_anew(page: Page) -> None:
    body = {"id": page.chat, "trigger": "regenerate-message", "messageId": page.last["id"]}
    assert "tool-approval-request" in kinds((await page.post(body)).text)


async def _stopped(page: Page) -> None:
    assert await page.stop()


async def _expired(page: Page) -> None:
    async with asyncio.timeout(PATIENCE):
        while "expired" not in [line["verdict"] for line in await page.audit()]:
            pass  # The clock is the server's own.
        while [part["type"] for part in (await page.get()).json()["messages"][-1]["parts"]].count("step-start") < 2:
            pass  # The agent is told, and answers.
    await page.idle()


async def _deleted(page: Page) -> None:
    assert (await page.delete()).status_code == 204


class End(NamedTuple):
    """How a call ended without being executed, and the error of a later approval."""

    happens: Callable[[Page], Awaitable[None]]
    message_text: str
    status: int = 409
    tool: str = "pay"


ENDS = {
    "denied": End(_denied, ALREADY),
    "denied by the route": End(_denied_by_route, ALREADY),
    "superseded": End(_superseded, "Too late: the conversation went on without this call, and it was not executed."),
    "edited": End(_edited, "Too late: the conversation went on without this call, and it was not executed."),
    "made anew": End(_made_anew, "Too late: the conversation went on without this call, and it was not executed."),
    "stopped": End(_stopped, "Too late: the call was stopped before it was executed."),
    "expired": End(_expired, "Too late: nobody answered in time, and the call was not executed.", tool="soon"),
    "deleted": End(_deleted, REFUSED, 404),
}


async def _ended(shop: Shop, end: End) -> Page:
    page = shop.page()
    await page.ask(calls((end.tool, PAYMENT if end.tool == "pay" else {"amount": 1.0})))
    await end.happens(page)
    return page


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
async def test_a_yes_by_the_route_to_a_call_that_is_over(shop: Shop, end: End) -> None:
    page = await _ended(shop, end)
    before = await page.audit()
    for _ in range(2):
        error = assert_error(await page.call(page.part()["toolCallId"], {"approved": True}), end.status)
        assert error["message"] == end.message_text
    if end.status == 409:
        refused = [line["verdict"] for line in await page.audit()].count("refused")
        assert refused == [line["verdict"] for line in before].count("refused") + 2
    assert page.executed == []


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
async def test_a_yes_in_the_message_to_a_call_that_is_over(shop: Shop, end: End) -> None:
    page = await _ended(shop, end)
    before = await page.audit()
    for _ in range(2):
        assert_refused(await page.answer(verdict(page.part())), page.last["id"], end.message_text)
    if end.status == 409:
        refused = [line["verdict"] for line in await page.audit()].count("refused")
        assert refused == [line["verdict"] for line in before].count("refused") + 2
    assert page.executed == []


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
async def test_a_stranger_learns_nothing_of_a_call_that_is_over(shop: Shop, end: End) -> None:
    page = await _ended(shop, end)
    bob = shop.page("bob", page.chat)
    assert_refused(await bob.post(page.body(verdict(page.part()))), page.last["id"])
    error = assert_error(await bob.call(page.part()["toolCallId"], {"approved": True}), 404)
    assert error["message"] == REFUSED
    assert [line for line in shop.till.ledger if line.chat == page.chat] == []


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
async def test_a_forger_learns_nothing_of_a_call_that_is_over(shop: Shop, end: End) -> None:
    """Without the question's id the refusal is the usual one, and does not say how the call ended."""
    page = await _ended(shop, end)
    assert_refused(await page.answer(verdict(page.part(), id="forged")), page.last["id"])
    tampered = {**verdict(page.part()), "input": {"amount": 500}}
    assert_refused(await page.answer(tampered), page.last["id"])
    assert page.executed == []


@pytest.mark.parametrize("end", [ENDS[name] for name in ("denied", "stopped", "superseded", "expired")])
async def test_the_chat_goes_on_after_a_late_yes(shop: Shop, end: End) -> None:
    page = await _ended(shop, end)
    await page.answer(verdict(page.part()))
    await page.ask(PAY, "u-next")
    await page.answer(verdict(page.part()))
    assert [(line.call, line.args) for line in page.executed] == [(page.part()["toolCallId"], PAYMENT)]


async def test_a_yes_that_was_used(page: Page) -> None:
    """Told again what came of it, as a page that lost its connection needs it; and a loop of it ends."""
    honest = verdict(page.part())
    first = await page.answer(honest)
    before = await page.audit()
    replies = [await page.answer(honest) for _ in range(6)]
    assert [chunks(reply.text) for reply in replies[:3]] == [chunks(first.text)] * 3
    assert [kinds(reply.text) for reply in replies[3:]] == [["start", "error"]] * 3
    assert (await page.call(honest["toolCallId"], {"approved": True})).json() == {"state": "done"}
    assert_error(await page.call(honest["toolCallId"], {"approved": False}), 409)
    assert len(page.executed) == 1
    assert len(await page.audit()) >= len(before) + 1


async def test_a_no_to_a_yes_that_was_used(page: Page) -> None:
    await page.answer(verdict(page.part()))
    before = await page.audit()
    assert_refused(await page.answer(verdict(page.part(), approved=False)), page.last["id"], ALREADY)
    assert len(await page.audit()) == len(before) + 1
    assert len(page.executed) == 1


async def test_a_yes_that_was_used_and_then_the_chat_went_on(page: Page) -> None:
    """The turn is over: nothing is executed, and the user is told that the call was answered."""
    honest = verdict(page.part())
    body = page.body(honest)
    await page.answer(honest)
    await page.ask("go on", "u-next")
    reply = await page.post(body)
    assert kinds(reply.text) == ["start", "error"]
    assert "already answered" in chunks(reply.text)[1]["errorText"]
    assert len(page.executed) == 1
    assert answer_text((await page.post({"id": page.chat, "message": message("and on", "u-on")})).text) == "ok"


async def test_a_yes_in_a_chat_made_anew_with_the_same_name(shop: Shop) -> None:
    """Deleted is deleted: the ids of the old chat open nothing in the new one."""
    page = shop.page()
    await page.ask(PAY)
    old = page.body(verdict(page.part()))
    call = page.part()["toolCallId"]
    await _deleted(page)
    page.messages = []
    await page.ask(PAY, "u1")
    assert_refused(await page.post(old), old["messages"][-1]["id"])
    assert_error(await page.call(call, {"approved": True}), 404)
    assert page.executed == []
    await page.answer(verdict(page.part()))
    assert len(page.executed) == 1


async def test_a_yes_after_a_stop_in_the_middle(shop: Shop) -> None:
    """The call may have been executed, and the agent got that result: it is not run again, even with a `retry` rule."""
    page = shop.page()
    await page.ask(calls(("again", {"amount": 1.0})))
    honest = verdict(page.part())
    cut = asyncio.create_task(page.answer(honest))
    await page.till.begun[page.chat].wait()
    assert await page.stop()
    assert "tool-output-available" not in kinds((await cut).text)
    page.till.released[page.chat].set()
    again = kinds((await page.answer(honest)).text)
    assert "tool-output-error" in again, "it is told once more what is known of it"
    assert "tool-output-available" not in again
    error = assert_error(await page.call(honest["toolCallId"], {"approved": True}), 409)
    assert "not known" in error["message"]
    assert [line.call for line in page.executed] == [honest["toolCallId"]]


async def test_racing_approvals(page: Page) -> None:
    part = page.part()
    replies = await asyncio.gather(*(_approve(page, part, number) for number in range(RACERS)))
    assert {reply.status_code for reply in replies} == {200, 202}
    await page.idle()
    assert [(line.call, line.args) for line in page.executed] == [(part["toolCallId"], PAYMENT)]
    verdicts = [line["verdict"] for line in await page.audit() if line["outcome"] == "waiting"]
    assert verdicts == ["asked", "approved"]
    assert await page.pending() == []


async def _approve(page: Page, part: Part, number: int) -> httpx.Response:
    if number % 2:
        return await page.call(part["toolCallId"], {"approved": True})
    return await page.answer(verdict(part))


async def test_racing_approvals_on_two_servers(tmp_path: Path) -> None:
    """They share nothing but the file, and may get in each other's way; but the call is not executed twice, and what
    is told of it is what happened."""
    db = str(tmp_path / "state.db")
    async with opened_shop(tmp_path, db=db) as one, opened_shop(tmp_path, db=db) as two:
        for number in range(5):
            here, there = one.page(chat=f"race-{number}"), two.page(chat=f"race-{number}")
            await here.ask(PAY)
            there.messages = here.messages
            pages = [here, there] * (RACERS // 2)
            await asyncio.gather(*(_approve(page, here.part(), at // 2) for at, page in enumerate(pages)))
            await asyncio.gather(here.idle(), there.idle())
            executed = [(line.call, line.args) for line in [*here.executed, *there.executed]]
            part = here.part("pay", await here.idle())
            if part["state"] == "output-available":
                assert executed == [(part["toolCallId"], PAYMENT)]
            else:
                assert len(executed) == ("unknown" in part["errorText"])


async def test_racing_approvals_of_siblings(shop: Shop) -> None:
    """Two calls of one step, every hand reaches for one or for both."""
    page = shop.page()
    await page.ask(calls(("pay", PAYMENT), ("once", {"amount": 2.0})))
    pay, once = page.part("pay"), page.part("once")
    tries: list[Awaitable[httpx.Response]] = []
    for number in range(RACERS):
        tries += [_approve(page, (pay, once)[number % 4 // 2], number)]
        tries += [page.answer(verdict(pay), verdict(once))] if number % 4 == 0 else []
    await asyncio.gather(*tries)
    await page.idle()
    assert sorted((line.tool, line.call) for line in page.executed) == [
        ("once", once["toolCallId"]),
        ("pay", pay["toolCallId"]),
    ]


async def test_a_yes_and_a_no_at_once(shop: Shop) -> None:
    """One of them counts, for everybody."""
    for _ in range(5):
        page = shop.page()
        await page.ask(PAY)
        call = page.part()["toolCallId"]
        replies = await asyncio.gather(*(page.call(call, {"approved": bool(n % 2)}) for n in range(8)))
        await page.idle()
        taken = {n % 2 for n, reply in enumerate(replies) if reply.status_code == 202}
        assert len(taken) == 1
        assert len(page.executed) == taken.pop()
        assert {reply.status_code for reply in replies} == {202, 409}


async def _type_over(page: Page) -> Any:
    return await page.post({"id": page.chat, "messages": [*page.messages, message("never mind", "u9")]})


MEETINGS: dict[str, Callable[[Page], Awaitable[Any]]] = {
    "stop": lambda page: page.stop(),
    "typing": _type_over,
    "delete": lambda page: page.delete(),
}


@pytest.mark.parametrize("way", [0, 1], ids=["stock", "calls"])
@pytest.mark.parametrize("other", MEETINGS.values(), ids=MEETINGS.keys())
async def test_a_yes_that_meets_the_end(shop: Shop, other: Callable[[Page], Awaitable[Any]], way: int) -> None:
    """Either it was executed, once, or it never will be."""
    for first in (True, False):
        page = shop.page()
        await page.ask(PAY)
        both = [_approve(page, page.part(), way), other(page)]
        await asyncio.gather(*(both if first else reversed(both)))
        if (await page.get()).status_code == 200:
            await page.idle()
            assert await page.pending() == []
        executed = len(page.executed)
        assert executed <= 1
        await page.answer(verdict(page.part()))
        await page.call(page.part()["toolCallId"], {"approved": True})
        assert len(page.executed) == executed


async def test_a_double_click(page: Page) -> None:
    """Both get the whole of what came of it."""
    honest = verdict(page.part())
    one, two = await asyncio.gather(page.answer(honest), page.answer(honest))
    assert chunks(one.text) == chunks(two.text)
    assert "tool-output-available" in kinds(one.text)
    assert len(page.executed) == 1


@pytest.mark.parametrize("read", [0, 1, 3], ids=lambda count: f"after {count} events")
async def test_a_retry_after_the_response_was_cut(shop: Shop, read: int) -> None:
    page = shop.page()
    await page.ask(calls(("slow", {"amount": 1.0})))
    honest = verdict(page.part())
    async with page.site.client.stream("POST", "/api/chat", json=page.body(honest), headers=page.headers) as running:
        await page.till.begun[page.chat].wait()
        if read:
            await anext(running.aiter_raw())
        if read > 1:
            page.till.released[page.chat].set()
    retry = asyncio.create_task(page.answer(honest))
    page.till.released[page.chat].set()
    reply = await retry
    assert answer_text(reply.text) == 'slow {"paid": 1.0}'
    assert len(page.executed) == 1


async def test_a_route_whose_answer_was_never_read(page: Page) -> None:
    """The page was closed as the button was pressed; the approval counts, and pressing it again is the same one."""
    body = b'{"approved": true}'
    head = [
        ("host", f"127.0.0.1:{page.site.port}"),
        ("content-type", "application/json"),
        ("content-length", str(len(body))),
        ("x-user", page.user),
    ]
    path = f"/api/chat/{page.chat}/calls/{page.part()['toolCallId']}"
    lines = "\r\n".join([f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head), "", ""])
    _, writer = await asyncio.open_connection("127.0.0.1", page.site.port)
    writer.write(lines.encode() + body)
    await writer.drain()
    writer.close()
    assert (await page.call(page.part()["toolCallId"], {"approved": True})).status_code == 202
    await page.idle()
    assert len(page.executed) == 1
