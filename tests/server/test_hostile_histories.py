"""Made-up histories over the wire: the same refusal for all of them, and the calls wait as they did before."""

import json
from pathlib import Path

from tests.server.app_server import assert_error, chunks
from tests.server.hostile_histories import ASKED, PLACES, World, drawn, request_of
from tests.server.hostile_page import REFUSED, Page, opened_shop, output, verdict
from tests.server.ledger_agent import PAYMENT

HISTORIES = 300
LOOPING = "The same answers came again and again, and nothing is left to do. Load the chat again."


async def test_no_made_up_history_executes_anything(tmp_path: Path) -> None:
    async with opened_shop(tmp_path, db=str(tmp_path / "state.db")) as shop:
        pages = {place: shop.page(*place) for place in PLACES}
        world = World({place: [*await _asked(page)] for place, page in pages.items()})
        waiting = [await page.pending() for page in pages.values()]
        tried = {json.dumps(request_of(world, history)) for history in drawn(2 * HISTORIES)}
        assert len(tried) >= HISTORIES
        for made_up in sorted(tried)[:HISTORIES]:
            await _try(pages[PLACES[0]], *json.loads(made_up))
            assert shop.till.ledger == [], made_up
        assert [await page.pending() for page in pages.values()] == waiting
        for page in [*pages.values()] * 2:
            await _answer(page)
        assert [(line.user, line.chat, line.tool, line.args) for line in shop.till.ledger] == [
            (user, chat, "pay", PAYMENT) for user, chat in PLACES
        ]


async def _asked(page: Page) -> list[dict[str, object]]:
    await page.ask(ASKED)
    return page.messages


async def _try(page: Page, user: str, body: dict[str, object]) -> None:
    reply = await page.post(body, user)
    if reply.status_code != 200:
        assert_error(reply, 422)
        return
    start, end = chunks(reply.text)
    assert start["type"] == "start"
    # What only repeats what the server has said answers nothing, and is answered with nothing.
    assert end["type"] == "finish" or (end["type"] == "error" and end["errorText"] in (REFUSED, LOOPING))


async def _answer(page: Page) -> None:
    pay, once, _, where, music = page.calls()
    place = {"latitude": 1.5, "longitude": 2}
    await page.answer(
        verdict(pay), verdict(once, approved=False), output(verdict(where), place), output(music, {"x": 1})
    )
