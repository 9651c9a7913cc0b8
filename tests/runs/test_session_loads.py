"""An answer to a call loads the session once; ADK itself loads it once more when it runs."""

from google.adk.sessions import InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig

from adkwire.testing import Call, Say, ScriptedModel
from tests.support.fixtures import Make
from tests.support.gated_tools import Till
from tests.support.pages import Page


class CountingSessions(InMemorySessionService):
    """Sessions that count how often one is loaded, whole or without its events."""

    def __init__(self) -> None:
        super().__init__()
        self.loads = 0

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        self.loads += 1
        return await super().get_session(app_name=app_name, user_id=user_id, session_id=session_id, config=config)


async def asked(make: Make, sessions: CountingSessions, till: Till, *more: Call) -> Page:
    """Return a page on which a payment waits for approval."""
    model = ScriptedModel(turns=[[Call("pay", {"amount": 5}, "c1"), *more], [Say("Paid.")]])
    page = Page(make(model, till.pay, db="memory:", session_service=sessions))
    await page.say("pay")
    sessions.loads = 0
    return page


async def loads_after(page: Page, sessions: CountingSessions) -> int:
    """Return the number of loads once nothing is left to do: closing the bridge ends all tasks."""
    await page.bridge.close()
    return sessions.loads


async def test_answers_in_a_repost_load_the_session_twice(make: Make) -> None:
    till, sessions = Till(), CountingSessions()
    page = await asked(make, sessions, till)
    async with page.chat_events() as events:
        assert (await page.approve("c1").send()).text == "Paid."
        await events.until("run-ended")
    assert (till.paid, await loads_after(page, sessions)) == ([5], 2)


async def test_an_answer_by_the_calls_route_loads_the_session_twice(make: Make) -> None:
    till, sessions = Till(), CountingSessions()
    page = await asked(make, sessions, till)
    assert (await page.answer_and_follow("c1", approved=True)).text == "Paid."
    assert (till.paid, await loads_after(page, sessions)) == ([5], 2)


async def test_an_answer_that_continues_nothing_loads_the_session_once(make: Make) -> None:
    till, sessions = Till(), CountingSessions()
    page = await asked(make, sessions, till, Call("pay", {"amount": 6}, "c2"))
    await page.answer("c1", approved=True)
    assert (till.paid, await loads_after(page, sessions)) == ([], 1)
