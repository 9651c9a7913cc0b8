"""The connection to a live model is lost, found again, given up or deaf: people are told, and the chat goes on."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from google.genai.errors import APIError

from adkwire.adk import live_model as watched_model
from adkwire.adk.live_model import ConnectionLostError, ModelActivity, Supervision, TooManyLostError
from adkwire.bridge import Bridge
from adkwire.gate.records import UncheckedAnswer
from adkwire.live import connection as live_connection
from adkwire.settings import Settings
from adkwire.stores.base import ChatKey
from adkwire.testing import Call, Drop, GeminiEmulator, GoAway, Resumption, Say, ScriptedModel, Wait
from adkwire.testing.live_responses import Manner
from adkwire.testing.steps import Step
from tests.live.live_house import CHAT, ME, House, Modality, Reader, Till, house

HANDLE, NO_HANDLE = Resumption(), Resumption(resumable=False)
BACK = ["reconnecting", "reconnected"]


class Notes:
    """Notes what people are told."""

    def __init__(self, doing: ModelActivity = ModelActivity.IDLE) -> None:
        self.told: list[str] = []
        self.now = doing

    def activity(self) -> ModelActivity:
        return self.now

    def reconnecting(self) -> None:
        self.told.append("reconnecting")

    def reconnected(self) -> None:
        self.told.append("reconnected")

    def going_away(self) -> None:
        self.told.append("go-away")


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.most: list[float] = []
        monkeypatch.setattr(watched_model, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(
            watched_model, "asyncio", SimpleNamespace(sleep=self._sleep, Event=asyncio.Event, timeout=asyncio.timeout)
        )
        monkeypatch.setattr(watched_model, "random", SimpleNamespace(uniform=self._longest))

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def _longest(self, least: float, most: float) -> float:
        assert least == 0
        self.most.append(most)
        return most


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def lose(supervision: Supervision, times: int) -> None:
    for _ in range(times):
        supervision.lost()
        await supervision.before()
        supervision.opened()


async def test_a_connection_in_the_place_of_none_is_nobodys_business(clock: Clock) -> None:
    supervision = Supervision(notes := Notes())
    for _ in range(30):
        await supervision.before()
        supervision.opened()
    assert (notes.told, clock.slept) == ([], [])


async def test_a_lost_connection_is_sought_at_once_and_then_less_and_less(clock: Clock) -> None:
    notes = Notes()
    await lose(Supervision(notes), 8)
    assert notes.told == BACK * 8
    assert clock.slept == [1, 2, 4, 8, 8, 8, 8], "the first at once, none later than after 8 seconds"


async def test_it_is_given_up_when_it_is_lost_again_and_again(clock: Clock) -> None:
    supervision = Supervision(Notes())
    await lose(supervision, 10)
    supervision.lost()
    with pytest.raises(TooManyLostError):
        await supervision.before()


async def test_losses_of_long_ago_do_not_count(clock: Clock) -> None:
    supervision = Supervision(Notes())
    await lose(supervision, 10)
    clock.now += 120
    clock.slept.clear()
    await lose(supervision, 1)
    assert clock.slept == []


async def test_one_that_never_opens_is_not_sought_for_ever(clock: Clock) -> None:
    supervision = Supervision(notes := Notes())
    supervision.lost()
    for _ in range(10):
        await supervision.before()
    with pytest.raises(TooManyLostError):
        await supervision.before()
    assert "reconnected" not in notes.told


def update(handle: str | None) -> LlmResponse:
    news = types.LiveServerSessionResumptionUpdate(new_handle=handle, resumable=handle is not None)
    return LlmResponse(live_session_resumption_update=news)


def handle_of(response: LlmResponse) -> str | None:
    assert response.live_session_resumption_update is not None
    return response.live_session_resumption_update.new_handle


@pytest.mark.parametrize("empty", [None, ""])
def test_no_handle_now_keeps_the_last_one(empty: str | None) -> None:
    supervision = Supervision(Notes())
    given = [handle_of(supervision.seen(update(handle))) for handle in (empty, "one", empty, "two", empty)]
    assert given == [empty, "one", "one", "two", "two"]


def test_other_responses_pass_as_they_are() -> None:
    notes = Notes()
    response = LlmResponse(turn_complete=True)
    assert Supervision(notes).seen(response) is response


AWAY = LlmResponse(go_away=types.LiveServerGoAway(time_left="10s"))
IDLE, ANSWERING, HELD = ModelActivity


def supervised(doing: ModelActivity, *, handle: bool) -> Supervision:
    supervision = Supervision(Notes(doing))
    supervision.seen(update("one" if handle else None))
    return supervision


@pytest.mark.parametrize("doing", ModelActivity)
@pytest.mark.parametrize("handle", [True, False])
def test_adk_is_told_that_the_model_goes_away(doing: ModelActivity, handle: bool) -> None:
    supervision = supervised(doing, handle=handle)
    told = supervision.seen(AWAY)
    assert (told.go_away is not None) == ((doing, handle) in [(IDLE, True), (HELD, True)])


@pytest.mark.parametrize("doing", ModelActivity)
@pytest.mark.parametrize("handle", [True, False])
@pytest.mark.parametrize("code", [1000, 1006, 1011])
async def test_adk_may_resume_what_was_dropped(doing: ModelActivity, handle: bool, code: int) -> None:
    supervision = supervised(doing, handle=handle)
    resumed_or_ended = doing is not ANSWERING and (handle or code == 1000)
    with nullcontext() if resumed_or_ended else pytest.raises(ConnectionLostError):
        await supervision.dropped(APIError(code, "dropped"))


@pytest.mark.parametrize("handle", [True, False])
async def test_other_errors_pass_as_they_are(handle: bool) -> None:
    await supervised(ANSWERING, handle=handle).dropped(APIError(1008, "refused"))
    await supervised(ANSWERING, handle=handle).dropped(ValueError("of a tool"))


async def test_a_model_that_speaks_while_calls_wait_may_finish_before_it_goes_away() -> None:
    supervision = supervised(HELD, handle=True)
    supervision.seen(LlmResponse(output_transcription=types.Transcription(text="Mind you, ")))
    assert supervision.seen(AWAY).go_away is None
    end = LlmResponse(turn_complete=True)
    supervision.seen(end)
    supervision.taken(end)
    assert await supervision.departure_after(end) is None, "the handle does not have what was said"
    supervision.seen(update("two"))
    assert await supervision.departure_after(update("two")) is AWAY
    assert await supervision.departure_after(update("two")) is None, "only once"


async def test_an_answer_whose_end_was_received_is_not_lost_though_that_is_not_stored_yet() -> None:
    supervision, end = Supervision(notes := Notes(ANSWERING)), LlmResponse(turn_complete=True)
    supervision.seen(update("one"))
    supervision.seen(end)
    dropped = asyncio.create_task(supervision.dropped(APIError(1006, "dropped")))
    await asyncio.sleep(0)
    notes.now = IDLE
    supervision.taken(end)
    await dropped


async def test_a_handle_is_not_for_the_next_agent() -> None:
    supervision = supervised(IDLE, handle=True)
    await supervision.before()
    assert handle_of(supervision.seen(update(None))) is None


async def first_then(here: House, *steps: Any) -> None:
    """Let one turn pass; then this happens, unasked."""
    answer = await (await here.say("hi")).rest()
    assert answer.text == "One."
    (await here.model.connected()).interject(*steps)


async def test_a_model_that_goes_away(clock: Clock) -> None:
    async with house([[HANDLE, Say("One.")], [Say("Two.")]]) as here:
        await first_then(here, GoAway())
        await here.ear.until(lambda ear: "reconnected" in ear.notices)
        assert here.ear.notices == ["go-away", *BACK]
        assert (await (await here.say("again")).rest()).text == "Two."
        assert len(here.model.live) == 2
        assert here.model.live[1].history == [], "it was resumed by its handle"


@pytest.mark.parametrize("code", [1006, 1011])
async def test_a_connection_that_is_lost_between_turns(code: int, clock: Clock) -> None:
    async with house([[HANDLE, Say("One.")], [Say("Two.")]]) as here:
        await first_then(here, Drop(code))
        await here.ear.until(lambda ear: "reconnected" in ear.notices)
        assert here.ear.notices == BACK
        after = await (await here.say("again")).rest()
        assert after.text == "Two."
        await here.agrees_with(after)


@pytest.mark.parametrize("code", [1006, 1011])
async def test_a_connection_that_is_lost_without_a_handle(code: int, clock: Clock) -> None:
    async with house([[Say("One.")], [Say("Two.")]]) as here:
        await first_then(here, Drop(code))
        await here.ear.until(lambda ear: ear.notices)
        assert here.ear.notices == ["not-recovered"]
        after = await (await here.say("again")).rest()
        assert after.text == "Two."
        assert len(here.model.live) == 2
        assert len(here.model.live[1].history) == 3, "it began with what was said"
        await here.agrees_with(after)


async def test_a_handle_that_nobody_knows_any_more(clock: Clock) -> None:
    async with house([[HANDLE, Say("One.")], [Say("Two.")]]) as here:
        answer = await (await here.say("hi")).rest()
        here.model._resumable.clear()  # pyright: ignore[reportPrivateUsage]
        (await here.model.connected()).interject(Drop(1006))
        await here.ear.until(lambda ear: "not-recovered" in ear.notices)
        after = await (await here.say("again")).rest()
        assert after.text == "Two."
        await here.agrees_with(answer, after)


async def test_an_empty_handle_before_the_loss(clock: Clock) -> None:
    async with house([[HANDLE, NO_HANDLE, Say("One.")], [Say("Two.")]]) as here:
        await first_then(here, Drop(1006))
        await here.ear.until(lambda ear: "reconnected" in ear.notices)
        assert (await (await here.say("again")).rest()).text == "Two."
        assert here.model.live[1].history == []


async def test_a_connection_that_is_lost_for_ever(clock: Clock) -> None:
    losing = ScriptedModel(script=lambda request: [HANDLE, Say("One.")])
    async with house([]) as here:
        here.model.turns, here.model.script = None, losing.script
        await first_then(here)
        for times in range(1, 12):
            (await here.model.connected(times)).interject(Drop(1006))
        await here.ear.until(lambda ear: "not-recovered" in ear.notices)
        assert here.ear.notices == BACK * 10 + ["not-recovered"]
        assert (await (await here.say("again")).rest()).text == "One."


def last_words(request: LlmRequest) -> str | None:
    return (request.contents[-1].parts or [types.Part()])[-1].text


HANDLES = pytest.mark.parametrize("handle", [HANDLE, NO_HANDLE], ids=["handle", "none"])


async def test_a_model_that_goes_away_and_cannot_be_resumed(clock: Clock) -> None:
    async with house([[Call("weather", {"place": "Oslo"})], [Say("One.")], [Say("Two.")]]) as here:
        await first_then(here, GoAway(), Drop(1006))
        await here.ear.until(lambda ear: "not-recovered" in ear.notices)
        assert here.ear.notices == ["go-away", "not-recovered"]
        assert (len(here.model.live), len(here.model.requests), here.ear.turns) == (1, 2, []), "nothing was done again"
        assert (await (await here.say("again")).rest()).text == "Two."
        assert len(here.model.live[1].history) == 5, "it began with what was said"


@HANDLES
async def test_a_model_that_goes_away_in_the_middle_of_an_answer(handle: Resumption, clock: Clock) -> None:
    answer = [Say("Two "), GoAway(), Say("three.")]
    async with house([[handle, Say("One.")], answer, [Say("Four.")]]) as here:
        await first_then(here)
        after = await (await here.say("count")).rest()
        assert after.text == "Two three."
        (await here.model.connected()).interject(handle)
        if handle is HANDLE:
            await here.ear.until(lambda ear: "reconnected" in ear.notices)
        assert here.ear.notices == ["go-away", *(BACK if handle is HANDLE else [])]
        assert (await (await here.say("on")).rest()).text == "Four."
        assert [live.history for live in here.model.live[1:]] == ([[]] if handle is HANDLE else [])
        await here.agrees_with(after)


@HANDLES
@pytest.mark.parametrize("code", [1000, 1006, 1011])
@pytest.mark.parametrize("words", ["Two three ", ""])
async def test_a_connection_that_is_lost_in_the_middle_of_an_answer(
    words: str, code: int, handle: Resumption, clock: Clock
) -> None:
    said = [Say(words)] if words else []
    answers: dict[str | None, list[Step]] = {"hi": [handle, Say("One.")], "count": [*said, Drop(code)]}
    async with house([]) as here:
        here.model.turns, here.model.script = None, lambda request: answers.get(last_words(request), [Say("Next.")])
        await first_then(here)
        lost = await (await here.say("count")).rest()
        assert (lost.text, lost.types[-1], here.ear.notices) == (words, "error", ["not-recovered"])
        after = await (await here.say("on")).rest()
        assert after.text == "Next."
        asked = [part.text for content in here.model.requests[-1] for part in content.parts or [] if part.text]
        assert asked == ["hi", "One.", "count", *([words] if words else []), "on"], "it began with what was said"
        await here.agrees_with(lost, after)


async def test_a_connection_that_is_lost_right_behind_an_answer(clock: Clock) -> None:
    held = asyncio.Event()
    async with house([[HANDLE, Say("One "), Wait(held), Say("two.")], [Say("Three.")]]) as here:
        answer = await (await here.say("count")).until(lambda me: "One" in me.text)
        (await here.model.connected()).interject(Drop(1006))
        held.set()
        assert (await answer.rest()).text == "One two."
        await here.ear.until(lambda ear: "reconnected" in ear.notices or "not-recovered" in ear.notices)
        assert here.ear.notices == BACK
        assert (await (await here.say("on")).rest()).text == "Three."


@pytest.mark.parametrize("event", [Drop(1006), GoAway()])
async def test_a_call_that_waits_goes_on_waiting_on_the_next_connection(event: Drop | GoAway, clock: Clock) -> None:
    async with house([[HANDLE, Call("pay", {"amount": 5})], [Say("Paid.")]]) as here:
        answer = await (await here.say("pay")).until_break()
        (await here.model.connected()).interject(event)
        await here.ear.until(lambda ear: "reconnected" in ear.notices or "not-recovered" in ear.notices)
        assert here.ear.notices == (BACK if isinstance(event, Drop) else ["go-away", *BACK])
        assert not answer.closed
        await here.answer("pay", UncheckedAnswer(approved=True))
        assert (await answer.rest()).text == "Paid."
        assert here.till.paid == [5]
        await here.agrees_with(answer)


@pytest.mark.parametrize("events", [[Drop(1006)], [GoAway(), Drop(1006)]], ids=["drop", "go-away"])
async def test_a_call_that_waits_is_parked_when_there_is_no_handle(events: list[Any], clock: Clock) -> None:
    async with house([[Call("pay", {"amount": 5})], [Say("Paid.")]]) as here:
        answer = await (await here.say("pay")).until_break()
        (await here.model.connected()).interject(*events)
        await answer.rest()
        assert here.ear.notices == ["go-away", "not-recovered"][-len(events) :]
        assert [call.tool for call in await here.pending()] == ["pay"]
        await here.answer("pay", UncheckedAnswer(approved=True))
        await here.ear.until(lambda ear: ear.turns)
        assert (await Reader(here.bridge, here.ear.turns[-1][0]).rest()).text == "Paid."
        assert here.till.paid == [5]


@pytest.mark.parametrize("code", [1006, 1011])
@pytest.mark.parametrize("tool", ["pay", "clock"])
async def test_a_call_that_waits_is_parked_in_the_middle_of_what_is_said_beside_it(
    tool: str, code: int, clock: Clock
) -> None:
    asked = Call(tool, {"amount": 5} if tool == "pay" else {})
    async with house([[asked], [Say("Done.")]], manner=Manner(blocking=False)) as here:
        answer = await (await here.say("go")).until_break()
        (await here.model.connected()).interject(Say("Mind you, "), Drop(code))
        await answer.rest()
        assert (answer.text, answer.types[-2:]) == ("Mind you, ", ["finish-step", "finish"])
        assert here.ear.notices == ["not-recovered"]
        await here.agrees_with(answer)
        await here.answer(
            tool, UncheckedAnswer(approved=True) if tool == "pay" else UncheckedAnswer(output={"time": "12:00"})
        )
        await here.ear.until(lambda ear: ear.turns)
        answer.entries += (await Reader(here.bridge, here.ear.turns[-1][0]).rest()).entries
        assert (answer.text, here.till.paid) == ("Mind you, Done.", [5] if tool == "pay" else [])
        await here.agrees_with(answer)


@pytest.mark.parametrize("modality", ["audio", "text"])
async def test_what_is_said_while_a_call_waits_is_kept_as_far_as_it_came(modality: Modality, clock: Clock) -> None:
    talks = Manner(blocking=False)
    async with house([[HANDLE, Call("clock")], [Say("Noon.")]], modality, manner=talks) as here:
        answer = await (await here.say("time")).until_break()
        (await here.model.connected()).interject(Say("Mind you, "), Drop(1006))
        await here.ear.until(lambda ear: "reconnected" in ear.notices or "not-recovered" in ear.notices)
        assert here.ear.notices == BACK
        await answer.until(lambda me: me.types.count("text-end") == 1)
        assert not answer.closed
        await here.answer("clock", UncheckedAnswer(output={"time": "12:00"}))
        await answer.rest()
        assert answer.text == "Mind you, Noon."
        kept = [part["text"] for part in (await here.messages())[-1]["parts"] if part["type"] == "text"]
        assert kept == ["Mind you, ", "Noon."]
        await here.agrees_with(answer)


old_send = pytest.mark.filterwarnings("ignore:The `session.send` method is deprecated:DeprecationWarning")
geminis = pytest.mark.parametrize("model", ["gemini-3.1-flash-live-preview", "gemini-2.5-flash-native-audio-preview"])


@asynccontextmanager
async def gemini_house(model: str, *turns: Sequence[Say | Drop | GoAway]) -> AsyncGenerator[House]:
    """The same with ADK's own class for Gemini; a handle comes with every turn."""
    with GeminiEmulator(live=turns) as gemini:
        agent = LlmAgent(name="teller", model=Gemini(model=model, **gemini.model_kwargs))
        bridge = Bridge(agent, settings=Settings(db="memory:", events_per_second=0))
        bridge.watch()
        here = House(bridge, ScriptedModel(turns=[]), Till())
        try:
            await here.join()
            yield here
        finally:
            await bridge.close(drain=0)


@old_send
@geminis
async def test_gemini_is_lost_in_the_middle_of_an_answer(model: str) -> None:
    async with gemini_house(model, [Say("One.")], [Say("Two three "), Drop(1011)], [Say("Next.")]) as here:
        await (await here.say("hi")).rest()
        lost = await (await here.say("count")).rest()
        assert (lost.text, lost.types[-1], here.ear.notices) == ("Two three ", "error", ["not-recovered"])
        after = await (await here.say("on")).rest()
        assert after.text == "Next."
        await here.agrees_with(lost, after)


@old_send
@geminis
async def test_gemini_goes_away_in_the_middle_of_an_answer(model: str) -> None:
    async with gemini_house(model, [Say("One.")], [Say("Two "), GoAway(), Say("three.")], [Say("Next.")]) as here:
        await (await here.say("hi")).rest()
        answer = await (await here.say("count")).rest()
        assert answer.text == "Two three."
        await here.ear.until(lambda ear: "reconnected" in ear.notices)
        assert here.ear.notices == ["go-away", *BACK]
        after = await (await here.say("on")).rest()
        assert after.text == "Next."
        await here.agrees_with(answer, after)


async def deafen(here: House) -> asyncio.Event:
    """From now on the model's connection takes nothing, and says nothing of it where it is read; when it did so."""
    failed = asyncio.Event()

    async def fail(*_: object, **__: object) -> None:
        failed.set()
        raise OSError("away")

    (await here.model.connected())._send_content = fail  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    return failed


@pytest.fixture(autouse=True)
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_connection, "_LOOK", 0.01)


@contextmanager
def impatience() -> Generator[None]:
    """Deafness is noticed soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_connection, "_DEAF", 0.05)
        yield


async def test_a_connection_that_has_gone_deaf() -> None:
    async with house([[Say("One.")], [Say("Two.")]]) as here:
        first = await (await here.say("hi")).rest()
        await deafen(here)
        with impatience():
            lost = await (await here.say("are you there")).rest()
        assert lost.types == ["start", "message-metadata", "error"]
        assert here.ear.notices == ["not-recovered"]
        after = await (await here.say("hello")).rest()
        assert after.text == "Two."
        assert len(here.model.live) == 2
        await here.agrees_with(first, after)


async def test_speaking_after_a_connection_has_gone_deaf() -> None:
    async with house([[Say("One.")], [Say("I am listening.")], [Say("Two.")]]) as here:
        await (await here.say("hi")).rest()
        await deafen(here)
        with impatience():
            await (await here.say("are you there")).rest()
        assert here.ear.notices == ["not-recovered"]
        await here.link.activity(start=True)
        assert here.link.audio(bytes(3200))
        await here.link.activity(start=False)
        await here.ear.until(lambda ear: ear.turns)
        assert (await Reader(here.bridge, here.ear.turns[-1][0]).rest()).text == "Two."


async def test_one_that_is_closed_and_fails_over_that_is_not_lost() -> None:
    async with house([[Say("One.")], [Say("Two.")]]) as here:
        await (await here.say("hi")).rest()
        deaf = await deafen(here)
        answer = await here.say("are you there")
        await deaf.wait()
        await here.bridge.stop(ME, CHAT)
        await answer.rest()
        assert (await (await here.say("hello")).rest()).text == "Two."
        assert here.ear.notices == []


async def test_a_connection_that_is_slow_is_not_deaf() -> None:
    held = asyncio.Event()
    async with house([[Say("One "), Wait(held), Say("two.")]]) as here:
        answer = await (await here.say("hi")).until(lambda me: "One" in me.text)
        live = here.bridge.live._all[ChatKey(ME, CHAT)]
        assert live._connector.current is not None
        assert live._connector.current.queue.neglected() == 0, "nothing waits, however long the model takes"
        held.set()
        await answer.rest()
        assert (answer.text, here.ear.notices) == ("One two.", [])
