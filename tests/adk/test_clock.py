"""A clock that is set back changes nothing: events keep their order in the stream, in history and for the model."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent, ParallelAgent
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest

from adkwire.gate.records import UncheckedAnswer
from adkwire.testing import Call, Say, ScriptedModel, Wait
from adkwire.testing.steps import Step
from adkwire.wire.folding import fold
from tests.gate.records import Clock
from tests.live.live_chat import CHAT, ME, LiveTools, Reader, chat_with_inner_agent, live_chat
from tests.support.chats import plain, stored, texts_in
from tests.support.fixtures import Make, Open
from tests.support.gated_tools import Till, assert_history_matches, clock
from tests.support.pages import Page
from tests.support.payments import PAY, model_calling

HOUR = 3600.0
STEPS_BACK = [5.0, HOUR]


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the machine, which tests set back; ADK reads it, too."""
    machine = Clock(1_800_000_000.0)
    monkeypatch.setattr("time.time", machine)
    monkeypatch.setattr("google.adk.platform.time.get_time", machine)
    return machine


def echo() -> ScriptedModel:
    return ScriptedModel(script=lambda request: [Say("to " + texts_in(request.contents)[-1][1])])


def times_of(events: Iterable[Event]) -> list[float]:
    return [event.timestamp for event in events]


def assert_increasing(times: list[float]) -> None:
    assert times == sorted(set(times))


class TestStreamed:
    @pytest.mark.parametrize("back", STEPS_BACK)
    async def test_a_payment_that_is_approved_after_the_clock_was_set_back(
        self, open_page: Open, wall: Clock, back: float
    ) -> None:
        till, model = Till(), model_calling(PAY)
        page = open_page(model, till.pay, clock=wall)
        await page.say("pay")
        wall.advance(-back)
        await page.approve("c1").send()
        assert till.paid == [5]
        assert page.part("c1")["state"] == "output-available"
        await assert_history_matches(page, model)
        wall.advance(-back)
        assert (await page.say("bye")).text == "Bye."
        await assert_history_matches(page, model)

    async def test_an_output_of_the_browser_beside_an_approval(self, open_page: Open, wall: Clock) -> None:
        till, model = Till(), model_calling(PAY, Call("clock", {"zone": "UTC"}, "c2"))
        page = open_page(model, till.pay, clock, clock=wall)
        await page.say("pay, and what time is it?")
        wall.advance(-HOUR)
        await page.approve("c1").give("c2", {"time": "12:00"}).send()
        assert page.calls == {"c1": "output-available", "c2": "output-available"}
        await assert_history_matches(page, model)

    async def test_messages_stay_in_order(self, open_page: Open, wall: Clock) -> None:
        model = echo()
        page = open_page(model, clock=wall)
        for text in "abc":
            await page.say(text)
            wall.advance(-HOUR)
        texts = [(role, text) for word in "abc" for role, text in (("user", word), ("assistant", f"to {word}"))]
        assert await page.chat.texts() == texts
        assert [text for _, text in texts_in(model.requests[-1])] == ["a", "to a", "b", "to b", "c"]

    async def test_an_answer_is_made_again(self, open_page: Open, wall: Clock) -> None:
        page = open_page(echo(), clock=wall)
        await page.say("a")
        await page.say("b")
        wall.advance(-HOUR)
        again = await page.chat.regenerate(page.last["id"])
        assert await page.stored() == again.message
        assert await page.chat.texts() == [("user", "a"), ("assistant", "to a"), ("user", "b"), ("assistant", "to b")]

    async def test_the_clock_is_set_back_while_an_answer_is_written(self, open_page: Open, wall: Clock) -> None:
        def back() -> dict[str, str]:
            """Set the clock back."""
            wall.advance(-HOUR)
            return {"clock": "set"}

        page = open_page(ScriptedModel(turns=[[Say("One."), Call("back", {}, "c1")], [Say("Two.")]]), back, clock=wall)
        await page.say("go")
        assert [part["type"] for part in page.last["parts"] if part["type"] != "step-start"] == [
            "text",
            "tool-back",
            "text",
        ]
        assert await page.stored() == page.last

    async def test_an_answer_is_stopped_after_the_clock_was_set_back(self, open_page: Open, wall: Clock) -> None:
        def back() -> dict[str, str]:
            """Set the clock back."""
            wall.advance(-HOUR)
            return {"clock": "set"}

        never = asyncio.Event()
        turns = [[Say("One."), Call("back", {}, "c1")], [Say("Two."), Wait(never)]]
        page = open_page(ScriptedModel(turns=turns), back, clock=wall)
        run = await page.begin("go")
        reader = page.chat.reader(run)
        while "Two." not in reader.answer.text:
            reader.answer.data += (await anext(reader._batches)).entries
        await page.chat.stop()
        assert await page.stored() == (await reader.rest()).message

    @pytest.mark.filterwarnings("ignore:ParallelAgent is deprecated")
    async def test_agents_side_by_side(self, open_page: Open, wall: Clock) -> None:
        first_spoke, second_done = asyncio.Event(), asyncio.Event()

        def first(request: LlmRequest) -> Iterable[Step]:
            yield Say("One.")
            wall.advance(-HOUR)
            first_spoke.set()
            yield Wait(second_done)

        def second(request: LlmRequest) -> Iterable[Step]:
            yield Wait(first_spoke)
            yield Say("Two.")
            second_done.set()

        agents = [
            LlmAgent(name="first", model=ScriptedModel(script=first)),
            LlmAgent(name="second", model=ScriptedModel(script=second)),
        ]
        page = open_page(ParallelAgent(name="both", sub_agents=agents), clock=wall)
        await page.say("go")
        assert [part["text"] for part in page.last["parts"] if part["type"] == "text"] == ["One.", "Two."]
        assert await page.stored() == page.last


async def test_a_server_that_starts_again_with_an_earlier_clock(make: Make, wall: Clock, tmp_path: Path) -> None:
    till, model = Till(), model_calling(PAY)
    page = Page(make(model, till.pay, clock=wall))
    await page.say("pay")
    wall.advance(-HOUR)
    page = page.after_restart(make(model, till.pay, clock=wall))
    await page.approve("c1").send()
    assert (till.paid, page.part("c1")["state"]) == ([5], "output-available")
    await assert_history_matches(page, model)
    assert_increasing(times_of(await stored(tmp_path)))


async def test_the_injected_clock_is_the_only_clock(make: Make, tmp_path: Path) -> None:
    time = Clock(1000.0)
    page = Page(make(echo(), clock=time))
    await page.say("a")
    time.advance(50)
    await page.say("b")
    times = times_of(await stored(tmp_path))
    assert_increasing(times)
    assert {round(at) for at in times} == {1000, 1050}
    listed = await page.bridge.chats(page.chat.user, limit=1, before=None)
    assert listed.chats[0].updated_at == "1970-01-01T00:17:30.000Z"


async def test_gemini_without_an_agent(make: Make, wall: Clock) -> None:
    never = asyncio.Event()
    model = ScriptedModel(turns=[[Say("A.")], [Say("B."), Wait(never)]])
    model.__dict__["offline"] = True
    chat = make(model, clock=wall)
    await chat.read(await chat.bridge.start(chat.user, chat.turn("a", "u1"), direct=True))
    wall.advance(-HOUR)
    run = await chat.bridge.start(chat.user, chat.turn("b", "u2"), direct=True)
    reader = chat.reader(run)
    await reader.until("text-delta")
    wall.advance(-HOUR)
    await chat.stop()
    answer = await reader.rest()
    assert await chat.texts() == [("user", "a"), ("assistant", "A."), ("user", "b"), ("assistant", "B.")]
    assert (await chat.messages())[-1] == answer.message


@pytest.fixture(params=["memory", "sqlite"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "state.db" if request.param == "sqlite" else None


class TestLive:
    @pytest.mark.parametrize("back", STEPS_BACK)
    async def test_a_payment_that_is_approved_after_the_clock_was_set_back(
        self, db: Path | None, wall: Clock, back: float
    ) -> None:
        turns = [[Say("Let me pay."), Call("pay", {"amount": 5})], [Say("Done.")], [Say("Bye.")]]
        async with live_chat(turns, "text", db=db, clock=wall) as chat:
            answer = await (await chat.send("pay 5")).until_break()
            wall.advance(-back)
            await chat.answer("pay", UncheckedAnswer(approved=True))
            await answer.rest()
            assert chat.tools.paid == [5]
            wall.advance(-back)
            last = await (await chat.send("bye")).rest()
            await chat.assert_history_matches(answer, last)
            assert [message["role"] for message in await chat.messages()] == ["user", "assistant"] * 2

    async def test_messages_stay_in_order_spoken_and_typed(self, db: Path | None, wall: Clock) -> None:
        async with live_chat([[Say(f"{number}.")] for number in range(4)], db=db, clock=wall) as chat:
            answers = [await (await chat.send("a")).rest()]
            wall.advance(-HOUR)
            answers.append(await (await chat.send("b")).rest())
            await chat.link.close()
            wall.advance(-HOUR)
            answers.append(await (await chat.post("c")).rest())
            await chat.assert_history_matches(*answers)
            assert [message["id"] for message in await chat.messages() if message["role"] == "assistant"] == [
                answer.run.message_id for answer in answers
            ]

    async def test_a_parked_payment_that_is_approved_after_the_clock_was_set_back(
        self, db: Path | None, wall: Clock
    ) -> None:
        turns = [[Say("Let me pay."), Call("pay", {"amount": 5})], [Say("Done.")]]
        async with live_chat(turns, db=db, clock=wall) as chat:
            answer = await (await chat.send("pay 5")).until_break()
            await chat.link.close()
            await answer.rest()
            wall.advance(-HOUR)
            await chat.answer("pay", UncheckedAnswer(approved=True))
            run = chat.bridge.running(ME, CHAT)
            assert run is not None
            rest = await Reader(chat.bridge, run).rest()
            message = fold(rest.chunks, into=fold(answer.chunks))
            assert chat.tools.paid == [5]
            assert (await chat.messages())[-1] == plain(message)

    async def test_an_output_for_a_parked_call_after_the_clock_was_set_back(self, db: Path | None, wall: Clock) -> None:
        turns = [[Say("Let me see."), Call("clock")], [Say("It is noon.")]]
        async with live_chat(turns, "text", db=db, clock=wall) as chat:
            answer = await (await chat.send("what time is it?")).until_break()
            await chat.link.close()
            await answer.rest()
            wall.advance(-HOUR)
            await chat.rejoin()
            await chat.answer("clock", UncheckedAnswer(output={"time": "noon"}))
            run = chat.bridge.running(ME, CHAT)
            assert run is not None
            rest = await Reader(chat.bridge, run).rest()
            assert (await chat.messages())[-1] == plain(fold(rest.chunks, into=fold(answer.chunks)))

    @pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated")
    async def test_an_agent_inside_a_tool(self, db: Path | None, wall: Clock) -> None:
        tools = LiveTools()
        options: dict[str, Any] = {"db": db, "clock": wall, "live_modality": "text"}
        async with chat_with_inner_agent(tools.pay, say_before="Well.", **options) as chat:
            answer = await (await chat.send("pay")).until(lambda reader: "tool-approval-request" in reader.types)
            wall.advance(-HOUR)
            await chat.answer("pay", UncheckedAnswer(approved=True))
            await answer.rest()
            assert tools.paid == [5]
            await chat.assert_history_matches(answer)
