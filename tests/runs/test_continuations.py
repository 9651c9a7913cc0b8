"""Continuations: read from the start or in the middle, requested twice, and in agents with sub-agents."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from google.adk import agents as adk_agents
from google.adk.agents import LlmAgent

from adkwire.adk.events import STOPPED, SUPERSEDED
from adkwire.runs.run import Run
from adkwire.stores.memory import MemoryStreamLog
from adkwire.testing import Call, Say, ScriptedModel, Wait
from adkwire.wire.folding import fold
from tests.support.chats import Answer, plain, texts_in
from tests.support.fixtures import Open
from tests.support.gated_tools import Till, assert_history_matches, clock
from tests.support.pages import Page, refused
from tests.support.payments import PAY, model_calling

agents_before_workflows = pytest.mark.filterwarnings("ignore:.*deprecated in favor of Workflow:DeprecationWarning")


def office(kind: str, *members: LlmAgent) -> Any:
    """Return agents in sequence or in parallel, the way ADK had it before workflows."""
    return getattr(adk_agents, kind)(name="office", sub_agents=list(members))


async def whole_message(page: Page, run: Any) -> dict[str, Any]:
    """Return the message of a reader that has nothing of it."""
    answer = Answer(run)
    async for batch in page.bridge.reading(run, whole=True).batches:
        answer.data += batch.entries
    return plain(fold(answer.chunks))


async def test_an_approval_that_comes_before_the_asking_run_has_ended_is_continued_with(open_page: Open) -> None:
    till, model = Till(), model_calling(PAY)
    page = open_page(model, till.pay)
    async with page.chat_events() as events:
        run = await page.begin("pay")
        await events.until("call-asked")
        await page.answer("c1", approved=True)
        await events.until("run-ended", times=2)
    await page.reply(run)
    assert till.paid == [5]
    await page.reload()
    assert page.last["parts"][-1]["text"] == "Done."
    assert len(model.requests) == 2
    await assert_history_matches(page, model)


class HeldLog(MemoryStreamLog):
    """A log in which the run that sends an approval request goes on only when it is asked to end."""

    def __init__(self) -> None:
        super().__init__(ttl=60)
        self.asked = asyncio.Event()
        self.begun = asyncio.Queue[Run]()

    async def append(self, run: str, entries: Sequence[bytes]) -> None:
        if any(b"tool-approval-request" in entry for entry in entries):
            self.asked.set()
            await (await self.begun.get())._abort.wait()
        await super().append(run, entries)


@pytest.mark.parametrize("way", ["message", "stop"])
async def test_a_message_or_a_stop_before_the_asking_run_has_ended_voids_its_call(open_page: Open, way: str) -> None:
    till, log = Till(), HeldLog()
    model = ScriptedModel(
        script=lambda request: [PAY] if texts_in(request.contents) == [("user", "pay")] else [Say("ok")]
    )
    page = open_page(model, till.pay, stream_log=log)
    async with page.chat_events() as events:
        first = await page.begin("pay")
        log.begun.put_nowait(first)
        await log.asked.wait()
        if way == "stop":
            assert await page.chat.stop()
        second = await page.bridge.start("ann", page.chat.turn("forget it", "u2"))
        await events.until("run-ended", times=2)
    await page.reply(first)
    words = page.part("c1")["errorText"]
    assert await page.stored(1) == page.last
    await page.reply(second)
    await assert_history_matches(page, model)
    assert (till.paid, await page.pending()) == ([], [])
    status, _ = await refused(page.answer("c1", approved=True))
    assert status == 409
    assert words == (STOPPED if way == "stop" else SUPERSEDED)


async def test_a_reader_that_joins_a_continuation_gets_the_whole_message(open_page: Open) -> None:
    till = Till()
    go_on = asyncio.Event()
    model = ScriptedModel(turns=[[Say("Paying. "), PAY], [Say("It is "), Wait(go_on), Say("done.")]])
    page = open_page(model, till.pay)
    await page.say("pay")
    run = await page.approve("c1").post()
    await page.chat.reader(run).until("text-delta")
    history = await page.chat.messages()
    assert [message["role"] for message in history] == ["user"]
    reading = asyncio.create_task(whole_message(page, run))
    go_on.set()
    await page.follow(run)
    assert await reading == page.last
    assert await whole_message(page, run) == page.last
    await assert_history_matches(page, model)


async def test_a_reader_that_has_the_message_so_far_goes_on_without_a_second_start(open_page: Open) -> None:
    page = open_page(model_calling(PAY), Till().pay)
    await page.say("pay")
    run = await page.approve("c1").post()
    new = (await page.follow(run)).data
    assert run.before
    assert (await page.chat.read(run, -1)).data == new[1:], "the message so far has a `start`"
    assert (await page.chat.read(run, -2)).types[1:] == (await page.chat.read(run, -1)).types


async def test_a_user_message_sent_again_while_its_call_is_pending_runs_nothing(open_page: Open) -> None:
    till, model = Till(), model_calling(PAY)
    page = open_page(model, till.pay)
    await page.say("pay")
    again = await page.bridge.start("ann", page.chat.turn("pay", "u1"))
    assert await whole_message(page, again) == page.last
    assert (till.paid, len(model.requests)) == ([], 1)


async def test_a_user_message_sent_again_after_its_call_was_executed_runs_nothing(open_page: Open) -> None:
    till, model = Till(), model_calling(PAY)
    page = open_page(model, till.pay)
    await page.say("pay")
    await page.approve("c1").send()
    again = await page.bridge.start("ann", page.chat.turn("pay", "u1"))
    assert await whole_message(page, again) == page.last
    assert (till.paid, len(model.requests)) == ([5], 2)


async def test_a_reader_that_joins_after_one_of_two_answers_gets_the_whole_message(open_page: Open) -> None:
    till, model = Till(), model_calling(PAY, Call("clock", {"zone": "UTC"}, "t1"))
    page = open_page(model, till.pay, clock)
    await page.say("go")
    before = page.last
    run = await page.approve("c1").post()
    assert await whole_message(page, run) == before


@agents_before_workflows
async def test_a_sequential_agent_goes_on_with_its_second_agent_after_an_approval(open_page: Open) -> None:
    till = Till()
    payer_model, clerk_model = model_calling(PAY), ScriptedModel(script=lambda _: [Say("Filed.")])
    payer = LlmAgent(name="payer", model=payer_model, tools=[till.pay])
    clerk = LlmAgent(name="clerk", model=clerk_model)
    page = open_page(office("SequentialAgent", payer, clerk))
    await page.say("pay")
    assert page.calls == {"c1": "approval-requested"}
    assert clerk_model.requests == []
    answer = await page.approve("c1").send()
    assert till.paid == [5]
    assert answer.text == "Done.Filed."
    await assert_history_matches(page, payer_model)
    assert len(clerk_model.requests) == 1


@agents_before_workflows
async def test_the_second_agent_of_a_sequential_agent_can_ask(open_page: Open) -> None:
    till = Till()
    clerk_model = ScriptedModel(script=lambda _: [Say("Filed.")])

    def pays(request: Any) -> list[Any]:
        parts = [part for content in request.contents for part in content.parts or ()]
        return [Say("Done.")] if any(part.function_response for part in parts) else [PAY]

    payer_model = ScriptedModel(script=pays)
    payer = LlmAgent(name="payer", model=payer_model, tools=[till.pay])
    clerk = LlmAgent(name="clerk", model=clerk_model)
    page = open_page(office("SequentialAgent", clerk, payer))
    await page.say("pay")
    assert page.calls == {"c1": "approval-requested"}
    answer = await page.deny("c1").send()
    assert (answer.text, till.paid) == ("Done.", [])
    await assert_history_matches(page, payer_model)
    assert len(clerk_model.requests) == 1


@agents_before_workflows
@pytest.mark.parametrize("approved", [True, False])
async def test_one_of_two_parallel_agents_can_ask(open_page: Open, approved: bool) -> None:
    till = Till()
    payer_model, clerk_model = model_calling(PAY), ScriptedModel(script=lambda _: [Say("Filed.")])
    payer = LlmAgent(name="payer", model=payer_model, tools=[till.pay])
    clerk = LlmAgent(name="clerk", model=clerk_model)
    page = open_page(office("ParallelAgent", payer, clerk))
    await page.say("pay")
    assert page.calls == {"c1": "approval-requested"}
    assert len(clerk_model.requests) == 1
    answer = await page.approve("c1", approved=approved).send()
    assert till.paid == ([5] if approved else [])
    assert answer.text == "Done."
    assert len(clerk_model.requests) == 1
    await assert_history_matches(page, payer_model)


@agents_before_workflows
async def test_two_parallel_agents_can_ask(open_page: Open) -> None:
    till = Till()
    models = [model_calling(Call("pay", {"amount": amount}, f"c{amount}")) for amount in (5, 6)]
    agents = [LlmAgent(name=f"payer{n}", model=model, tools=[till.pay]) for n, model in enumerate(models)]
    page = open_page(office("ParallelAgent", *agents))
    await page.say("pay")
    assert page.calls == {"c5": "approval-requested", "c6": "approval-requested"}
    await page.approve("c5").deny("c6").send()
    assert till.paid == [5]
    assert page.calls == {"c5": "output-available", "c6": "output-denied"}
    for model in models:
        await assert_history_matches(page, model)


async def test_an_answer_for_a_chat_that_does_not_exist_is_refused(open_page: Open) -> None:
    page = open_page(model_calling(PAY), Till().pay)
    status, _ = await refused(page.answer("c1", approved=True))
    assert status == 404
    assert (await page.bridge.chats("ann", limit=5, before=None)).chats == []
