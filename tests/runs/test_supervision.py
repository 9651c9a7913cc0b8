"""The connection to a live model is lost, found again, given up or deaf: people are told, and the chat goes on."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.session import Session
from google.genai import types

from adkwire.runs import live_connection, watched_model
from adkwire.runs.sessions import ChatKey
from adkwire.runs.watched_model import Supervision, TooManyLostError
from adkwire.testing import Call, Drop, GoAway, Resumption, Say, ScriptedModel, Wait
from tests.runs.live_house import CHAT, ME, House, Reader, house

HANDLE, NO_HANDLE = Resumption(), Resumption(resumable=False)
BACK = ["reconnecting", "reconnected"]


class Notes:
    """Notes what people are told."""

    def __init__(self) -> None:
        self.told: list[str] = []

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
        monkeypatch.setattr(watched_model, "asyncio", SimpleNamespace(sleep=self._sleep))
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
    away = LlmResponse(go_away=types.LiveServerGoAway(time_left="10s"))
    assert Supervision(notes).seen(away) is away
    assert notes.told == ["go-away"]


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


async def test_a_call_that_waits_survives_the_loss_of_the_connection(clock: Clock) -> None:
    async with house([[HANDLE, Call("clock")], [Say("Noon.")]]) as here:
        answer = await (await here.say("time")).until_break()
        (await here.model.connected()).interject(Drop(1006))
        await here.ear.until(lambda ear: "reconnected" in ear.notices or "not-recovered" in ear.notices)
        assert here.ear.notices == BACK
        assert not answer.closed


class Forgetful(InMemorySessionService):
    """Fails once when somebody types, as a store does that is away for a moment: it is ADK's send task that writes."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False

    async def append_event(self, session: Session, event: Event) -> Event:
        if self.fails and event.author == "user":
            self.fails = False
            raise OSError("away")
        return await super().append_event(session, event)


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
    sessions = Forgetful()
    async with house([[Say("One.")], [Say("Two.")]], sessions=sessions) as here:
        first = await (await here.say("hi")).rest()
        sessions.fails = True
        with impatience():
            lost = await (await here.say("are you there")).rest()
        assert lost.types == ["start", "error"]
        assert here.ear.notices == ["not-recovered"]
        after = await (await here.say("hello")).rest()
        assert after.text == "Two."
        assert len(here.model.live) == 2
        await here.agrees_with(first, after)


async def test_speaking_after_a_connection_has_gone_deaf() -> None:
    sessions = Forgetful()
    async with house([[Say("One.")], [Say("Two.")]], sessions=sessions) as here:
        await (await here.say("hi")).rest()
        sessions.fails = True
        with impatience():
            await (await here.say("are you there")).rest()
        assert here.ear.notices == ["not-recovered"]
        await here.link.activity(start=True)
        assert here.link.audio(bytes(3200))
        await here.link.activity(start=False)
        await here.ear.until(lambda ear: ear.turns)
        assert (await Reader(here.bridge, here.ear.turns[-1][0]).rest()).text == "Two."


async def test_a_connection_that_is_slow_is_not_deaf() -> None:
    held = asyncio.Event()
    async with house([[Say("One "), Wait(held), Say("two.")]]) as here:
        answer = await (await here.say("hi")).until(lambda me: "One" in me.text)
        live = here.bridge.live._lives[ChatKey(ME, CHAT)]
        assert live._connection is not None
        assert live._connection.queue.neglected() == 0, "nothing waits, however long the model takes"
        held.set()
        await answer.rest()
        assert (answer.text, here.ear.notices) == ("One two.", [])
