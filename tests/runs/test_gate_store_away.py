"""The gate's store is away: nothing runs that it would have to release, and everybody is told."""

from collections.abc import Collection
from contextlib import suppress

import pytest

from adkwire.errors import Unavailable
from adkwire.stores.base import CallRow
from adkwire.stores.memory import MemoryGateStore
from adkwire.testing import Call, Say, ScriptedModel
from tests.runs.conftest import Make
from tests.runs.gated import Till, agree, clock, responses, where
from tests.runs.pages import Page, refused

PAY = Call("pay", {"amount": 5}, "c1")
NO_STORE = "The server cannot ask for an approval now; the call was not executed."


class Away(MemoryGateStore):
    """A store of which some operations fail while it is `away`."""

    def __init__(self, *operations: str) -> None:
        super().__init__()
        self.away = frozenset(operations)

    def _check(self, operation: str) -> None:
        if operation in self.away:
            raise Unavailable("The gate's store does not answer.")

    async def add(self, row: CallRow) -> bool:
        self._check("add")
        return await super().add(row)

    async def get(self, user: str, chat: str, call: str) -> CallRow | None:
        self._check("get")
        return await super().get(user, chat, call)

    async def replace(self, row: CallRow) -> bool:
        self._check("replace")
        return await super().replace(row)

    async def calls(self, user: str, chat: str) -> list[CallRow]:
        self._check("calls")
        return await super().calls(user, chat)

    async def find(self, user: str, states: Collection[str]) -> list[CallRow]:
        self._check("find")
        return await super().find(user, states)

    async def granted(self, user: str, chat: str, what: Collection[str]) -> bool:
        self._check("granted")
        return await super().granted(user, chat, what)

    async def write(self, user: str, chat: str, line: bytes) -> None:
        self._check("write")
        await super().write(user, chat, line)


class OnClaim(Away):
    """Fails when an approved call is about to begin."""

    async def replace(self, row: CallRow) -> bool:
        if row.state == "executing":
            self._check("claim")
        return await super().replace(row)


class OnDone(Away):
    """Fails when a call has ended."""

    async def replace(self, row: CallRow) -> bool:
        if row.state == "done":
            self._check("done")
        return await super().replace(row)


def calling(*calls: Call) -> ScriptedModel:
    return ScriptedModel(turns=[list(calls), [Say("Done.")], [Say("Bye.")]])


async def test_it_cannot_tell_what_was_granted(make: Make) -> None:
    till, model = Till(), calling(PAY)
    page = Page(make(model, till.pay, gate_store=Away("granted")))
    assert (await page.say("pay")).text == "Done."
    assert (page.part("c1")["state"], page.part("c1")["errorText"]) == ("output-error", NO_STORE)
    assert till.paid == []
    assert responses(model.requests[-1]) == {"c1": {"error": NO_STORE}}
    await agree(page, model)


async def test_a_question_that_cannot_be_kept_is_not_left_hanging(make: Make) -> None:
    """A card that nobody can answer would help nobody."""
    till, model = Till(), calling(PAY)
    store = Away("add")
    page = Page(make(model, till.pay, gate_store=store))
    await page.say("pay")
    store.away = frozenset()
    assert page.calls == {"c1": "output-error"}
    assert "not executed" in page.part("c1")["errorText"]
    assert await page.pending() == []
    await agree(page, model)
    status, _ = await refused(page.answer("c1", approved=True))
    assert status == 404
    await page.say("and?")
    assert "not executed" in responses(model.requests[-1])["c1"]["error"]
    assert till.paid == []
    await agree(page, model)


async def test_a_question_of_which_only_the_audit_knows_nothing_can_be_answered(make: Make) -> None:
    till, model = Till(), calling(PAY)
    store = Away("write")
    page = Page(make(model, till.pay, gate_store=store))
    await page.say("pay")
    assert (page.calls, till.paid) == ({"c1": "approval-requested"}, [])
    await agree(page, model)
    store.away = frozenset()
    await page.approve("c1").send()
    assert till.paid == [5]
    await agree(page, model)


async def test_a_browser_call_that_cannot_be_kept_is_refused(make: Make) -> None:
    model = calling(Call("clock", {"zone": "UTC"}, "t1"))
    store = Away("add")
    page = Page(make(model, clock, gate_store=store))
    told = await page.say("time?")
    assert page.calls == {"t1": "output-error"}
    assert "tool-input-available" not in told.types
    assert responses(model.requests[-1]) == {"t1": {"error": NO_STORE}}
    await agree(page, model)


async def test_a_plain_tool_does_not_need_it(make: Make) -> None:
    till, model = Till(), calling(PAY)
    page = Page(make(model, till.plain, gate_store=Away("add", "granted", "write", "get", "replace")))
    assert (await page.say("pay")).text == "Done."
    assert till.paid == [5]
    assert page.calls == {"c1": "output-available"}


@pytest.mark.parametrize("operation", ["get", "replace"])
async def test_an_answer_that_cannot_be_taken_leaves_the_call_open(make: Make, operation: str) -> None:
    till, model = Till(), calling(PAY)
    store = Away()
    page = Page(make(model, till.pay, gate_store=store))
    await page.say("pay")
    store.away = frozenset({operation})
    status, _ = await refused(page.answer("c1", approved=True))
    assert status == 503
    with suppress(Unavailable):
        assert (await page.another_tab().approve("c1").send()).types == ["start", "error"]
    assert (till.paid, len(model.requests)) == ([], 1)
    store.away = frozenset()
    await page.approve("c1").send()
    assert till.paid == [5]
    await agree(page, model)


async def test_a_call_that_cannot_be_claimed_is_not_executed(make: Make) -> None:
    till, model = Till(), calling(PAY)
    store = OnClaim("claim")
    page = Page(make(model, till.pay, gate_store=store))
    await page.say("pay")
    tab = page.approve("c1").another_tab()
    await page.send()
    assert till.paid == []
    assert page.calls == {"c1": "output-error"}
    assert "not executed" in page.part("c1")["errorText"]
    await agree(page, model)
    # It was told to model and person that it was not executed: that must stay true.
    store.away = frozenset()
    await tab.send()
    await page.answer("c1", approved=True)
    assert await page.stored() == page.last
    await page.say("and?")
    assert till.paid == []
    assert "not executed" in responses(model.requests[-1])["c1"]["error"]
    await agree(page, model)


async def test_a_result_whose_end_cannot_be_recorded_is_a_result(make: Make) -> None:
    till, model = Till(), calling(PAY)
    store = OnDone("done")
    page = Page(make(model, till.pay, gate_store=store))
    await page.say("pay")
    tab = page.approve("c1").another_tab()
    assert (await page.send()).text == "Done."
    assert page.calls == {"c1": "output-available"}
    await agree(page, model)
    store.away = frozenset()
    await tab.send()
    assert till.paid == [5]
    await page.say("and?")
    assert responses(model.requests[-1]) == {"c1": {"paid": 5}}
    assert till.paid == [5]
    await agree(page, model)


async def test_an_output_whose_end_cannot_be_recorded_reaches_the_agent_once(make: Make) -> None:
    model = calling(Call("where", {"exact": True}, "w1"))
    store = OnDone("done")
    page = Page(make(model, where, gate_store=store))
    await page.say("where?")
    await page.approve("w1").send()
    page.give("w1", {"city": "Paris"})
    told = await page.send()
    assert told.types[-1] in ("finish", "error")
    store.away = frozenset()
    await page.reload()
    assert page.calls == {"w1": "output-available"}
    await page.say("and?")
    assert responses(model.requests[-1]) == {"w1": {"city": "Paris"}}
    await agree(page, model)


@pytest.mark.parametrize("operation", ["find", "calls"])
async def test_a_message_while_it_is_away_executes_nothing(make: Make, operation: str) -> None:
    till, model = Till(), calling(PAY)
    store = Away()
    page = Page(make(model, till.pay, gate_store=store))
    await page.say("pay")
    store.away = frozenset({operation, "replace"})
    with suppress(Unavailable):
        assert (await page.chat.say("forget it", "u9")).types[-1] in ("finish", "error")
    store.away = frozenset()
    assert till.paid == []
    await page.chat.say("and?", "u10")
    assert set(responses(model.requests[-1])) == {"c1"}
    assert till.paid == []
