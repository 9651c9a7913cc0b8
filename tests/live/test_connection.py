"""A connection to a live model that is lost, resumed or takes no requests: listeners get notices, the chat goes on."""

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

from adkwire.adk import live_model
from adkwire.adk.live_model import ConnectionLostError, ModelActivity, Supervision, TooManyLostError
from adkwire.gate.records import UncheckedAnswer
from adkwire.live import connection as live_connection
from adkwire.stores.base import ChatKey
from adkwire.testing import Call, Drop, GeminiEmulator, GoAway, Resumption, Say, ScriptedModel, Wait
from adkwire.testing.live_responses import Manner
from adkwire.testing.steps import Step
from tests.live.live_chat import CHAT, ME, LiveChat, Modality, RecordingListener, chat_with_agent, live_chat

HANDLE, NO_HANDLE = Resumption(), Resumption(resumable=False)
BACK = ["reconnecting", "reconnected"]


class RecordingObserver:
    """An observer that records what it is notified of, and reports one activity of the model."""

    def __init__(self, activity: ModelActivity = ModelActivity.IDLE) -> None:
        self.notices: list[str] = []
        self.current = activity

    def activity(self) -> ModelActivity:
        return self.current

    def reconnecting(self) -> None:
        self.notices.append("reconnecting")

    def reconnected(self) -> None:
        self.notices.append("reconnected")

    def going_away(self) -> None:
        self.notices.append("go-away")


class Clock:
    """A clock that advances only in `asyncio.sleep`, and records what `random.uniform` was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.most: list[float] = []
        monkeypatch.setattr(live_model, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(
            live_model, "asyncio", SimpleNamespace(sleep=self._sleep, Event=asyncio.Event, timeout=asyncio.timeout)
        )
        monkeypatch.setattr(live_model, "random", SimpleNamespace(uniform=self._longest))

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


async def test_a_first_connection_is_not_reported_as_a_reconnection(clock: Clock) -> None:
    supervision = Supervision(observer := RecordingObserver())
    for _ in range(30):
        await supervision.before()
        supervision.opened()
    assert (observer.notices, clock.slept) == ([], [])


async def test_reconnecting_waits_longer_after_each_loss(clock: Clock) -> None:
    observer = RecordingObserver()
    await lose(Supervision(observer), 8)
    assert observer.notices == BACK * 8
    assert clock.slept == [1, 2, 4, 8, 8, 8, 8], "the first at once, all others within 8 seconds"


async def test_too_many_losses_end_the_conversation(clock: Clock) -> None:
    supervision = Supervision(RecordingObserver())
    await lose(supervision, 10)
    supervision.lost()
    with pytest.raises(TooManyLostError):
        await supervision.before()


async def test_old_losses_do_not_count(clock: Clock) -> None:
    supervision = Supervision(RecordingObserver())
    await lose(supervision, 10)
    clock.now += 120
    clock.slept.clear()
    await lose(supervision, 1)
    assert clock.slept == []


async def test_failed_attempts_count_as_losses(clock: Clock) -> None:
    supervision = Supervision(observer := RecordingObserver())
    supervision.lost()
    for _ in range(10):
        await supervision.before()
    with pytest.raises(TooManyLostError):
        await supervision.before()
    assert "reconnected" not in observer.notices


def update(handle: str | None) -> LlmResponse:
    resumption = types.LiveServerSessionResumptionUpdate(new_handle=handle, resumable=handle is not None)
    return LlmResponse(live_session_resumption_update=resumption)


def handle_of(response: LlmResponse) -> str | None:
    assert response.live_session_resumption_update is not None
    return response.live_session_resumption_update.new_handle


@pytest.mark.parametrize("empty", [None, ""])
def test_an_update_without_a_handle_keeps_the_last_handle(empty: str | None) -> None:
    supervision = Supervision(RecordingObserver())
    handles = [handle_of(supervision.seen(update(handle))) for handle in (empty, "one", empty, "two", empty)]
    assert handles == [empty, "one", "one", "two", "two"]


def test_other_responses_are_unchanged() -> None:
    response = LlmResponse(turn_complete=True)
    assert Supervision(RecordingObserver()).seen(response) is response


AWAY = LlmResponse(go_away=types.LiveServerGoAway(time_left="10s"))
IDLE, ANSWERING, HELD = ModelActivity


def supervised(activity: ModelActivity, *, handle: bool) -> Supervision:
    supervision = Supervision(RecordingObserver(activity))
    supervision.seen(update("one" if handle else None))
    return supervision


@pytest.mark.parametrize("activity", ModelActivity)
@pytest.mark.parametrize("handle", [True, False])
def test_when_adk_gets_the_go_away(activity: ModelActivity, handle: bool) -> None:
    supervision = supervised(activity, handle=handle)
    response = supervision.seen(AWAY)
    assert (response.go_away is not None) == ((activity, handle) in [(IDLE, True), (HELD, True)])


@pytest.mark.parametrize("activity", ModelActivity)
@pytest.mark.parametrize("handle", [True, False])
@pytest.mark.parametrize("code", [1000, 1006, 1011])
async def test_when_adk_may_resume_a_dropped_connection(activity: ModelActivity, handle: bool, code: int) -> None:
    supervision = supervised(activity, handle=handle)
    resumed_or_ended = activity is not ANSWERING and (handle or code == 1000)
    with nullcontext() if resumed_or_ended else pytest.raises(ConnectionLostError):
        await supervision.dropped(APIError(code, "dropped"))


@pytest.mark.parametrize("handle", [True, False])
async def test_other_errors_are_unchanged(handle: bool) -> None:
    await supervised(ANSWERING, handle=handle).dropped(APIError(1008, "refused"))
    await supervised(ANSWERING, handle=handle).dropped(ValueError("of a tool"))


async def test_the_go_away_waits_for_speech_beside_held_calls() -> None:
    supervision = supervised(HELD, handle=True)
    supervision.seen(LlmResponse(output_transcription=types.Transcription(text="Mind you, ")))
    assert supervision.seen(AWAY).go_away is None
    end = LlmResponse(turn_complete=True)
    supervision.seen(end)
    supervision.taken(end)
    assert await supervision.departure_after(end) is None, "the handle does not include the speech"
    supervision.seen(update("two"))
    assert await supervision.departure_after(update("two")) is AWAY
    assert await supervision.departure_after(update("two")) is None, "only once"


async def test_an_answer_whose_end_is_not_stored_yet_is_not_lost() -> None:
    supervision, end = Supervision(observer := RecordingObserver(ANSWERING)), LlmResponse(turn_complete=True)
    supervision.seen(update("one"))
    supervision.seen(end)
    dropped = asyncio.create_task(supervision.dropped(APIError(1006, "dropped")))
    await asyncio.sleep(0)
    observer.current = IDLE
    supervision.taken(end)
    await dropped


async def test_a_handle_is_not_used_for_the_next_agent() -> None:
    supervision = supervised(IDLE, handle=True)
    await supervision.before()
    assert handle_of(supervision.seen(update(None))) is None


def is_loss_over(listener: RecordingListener) -> bool:
    """Return whether a lost connection was resumed or given up."""
    return not {"reconnected", "not-recovered"}.isdisjoint(listener.notices)


async def first_turn_then(chat: LiveChat, *steps: Any) -> None:
    """Read the first turn to its end; then the model plays steps without an input."""
    answer = await (await chat.send("hi")).rest()
    assert answer.text == "One."
    (await chat.model.connected()).interject(*steps)


async def test_a_go_away_between_turns_resumes_the_connection(clock: Clock) -> None:
    async with live_chat([[HANDLE, Say("One.")], [Say("Two.")]]) as chat:
        await first_turn_then(chat, GoAway())
        await chat.listener.until(lambda listener: "reconnected" in listener.notices)
        assert chat.listener.notices == ["go-away", *BACK]
        assert (await (await chat.send("again")).rest()).text == "Two."
        assert len(chat.model.live) == 2
        assert chat.model.live[1].history == [], "resumed by its handle"


@pytest.mark.parametrize("code", [1006, 1011])
async def test_a_connection_lost_between_turns_is_resumed(code: int, clock: Clock) -> None:
    async with live_chat([[HANDLE, Say("One.")], [Say("Two.")]]) as chat:
        await first_turn_then(chat, Drop(code))
        await chat.listener.until(lambda listener: "reconnected" in listener.notices)
        assert chat.listener.notices == BACK
        after = await (await chat.send("again")).rest()
        assert after.text == "Two."
        await chat.assert_history_matches(after)


@pytest.mark.parametrize("code", [1006, 1011])
async def test_a_connection_lost_without_a_handle_begins_again_with_the_history(code: int, clock: Clock) -> None:
    async with live_chat([[Say("One.")], [Say("Two.")]]) as chat:
        await first_turn_then(chat, Drop(code))
        await chat.listener.until(lambda listener: listener.notices)
        assert chat.listener.notices == ["not-recovered"]
        after = await (await chat.send("again")).rest()
        assert after.text == "Two."
        assert len(chat.model.live) == 2
        assert len(chat.model.live[1].history) == 3, "it began with the history"
        await chat.assert_history_matches(after)


async def test_a_handle_that_the_model_has_forgotten(clock: Clock) -> None:
    async with live_chat([[HANDLE, Say("One.")], [Say("Two.")]]) as chat:
        answer = await (await chat.send("hi")).rest()
        chat.model._resumable.clear()  # pyright: ignore[reportPrivateUsage]
        (await chat.model.connected()).interject(Drop(1006))
        await chat.listener.until(lambda listener: "not-recovered" in listener.notices)
        after = await (await chat.send("again")).rest()
        assert after.text == "Two."
        await chat.assert_history_matches(answer, after)


async def test_an_update_without_a_handle_before_the_loss(clock: Clock) -> None:
    async with live_chat([[HANDLE, NO_HANDLE, Say("One.")], [Say("Two.")]]) as chat:
        await first_turn_then(chat, Drop(1006))
        await chat.listener.until(lambda listener: "reconnected" in listener.notices)
        assert (await (await chat.send("again")).rest()).text == "Two."
        assert chat.model.live[1].history == []


async def test_a_connection_that_is_lost_again_and_again(clock: Clock) -> None:
    losing = ScriptedModel(script=lambda request: [HANDLE, Say("One.")])
    async with live_chat([]) as chat:
        chat.model.turns, chat.model.script = None, losing.script
        await first_turn_then(chat)
        for times in range(1, 12):
            (await chat.model.connected(times)).interject(Drop(1006))
        await chat.listener.until(lambda listener: "not-recovered" in listener.notices)
        assert chat.listener.notices == BACK * 10 + ["not-recovered"]
        assert (await (await chat.send("again")).rest()).text == "One."


def last_words(request: LlmRequest) -> str | None:
    return (request.contents[-1].parts or [types.Part()])[-1].text


HANDLES = pytest.mark.parametrize("handle", [HANDLE, NO_HANDLE], ids=["handle", "no handle"])


async def test_a_go_away_without_a_handle(clock: Clock) -> None:
    async with live_chat([[Call("weather", {"place": "Oslo"})], [Say("One.")], [Say("Two.")]]) as chat:
        await first_turn_then(chat, GoAway(), Drop(1006))
        await chat.listener.until(lambda listener: "not-recovered" in listener.notices)
        assert chat.listener.notices == ["go-away", "not-recovered"]
        assert (len(chat.model.live), len(chat.model.requests), chat.listener.turns) == (1, 2, []), (
            "no call was made again"
        )
        assert (await (await chat.send("again")).rest()).text == "Two."
        assert len(chat.model.live[1].history) == 5, "it began with the history"


@HANDLES
async def test_a_go_away_during_an_answer(handle: Resumption, clock: Clock) -> None:
    answer = [Say("Two "), GoAway(), Say("three.")]
    async with live_chat([[handle, Say("One.")], answer, [Say("Four.")]]) as chat:
        await first_turn_then(chat)
        after = await (await chat.send("count")).rest()
        assert after.text == "Two three."
        (await chat.model.connected()).interject(handle)
        if handle is HANDLE:
            await chat.listener.until(lambda listener: "reconnected" in listener.notices)
        assert chat.listener.notices == ["go-away", *(BACK if handle is HANDLE else [])]
        assert (await (await chat.send("on")).rest()).text == "Four."
        assert [live.history for live in chat.model.live[1:]] == ([[]] if handle is HANDLE else [])
        await chat.assert_history_matches(after)


@HANDLES
@pytest.mark.parametrize("code", [1000, 1006, 1011])
@pytest.mark.parametrize("words", ["Two three ", ""])
async def test_a_connection_lost_during_an_answer(words: str, code: int, handle: Resumption, clock: Clock) -> None:
    steps: list[Step] = [Say(words)] if words else []
    answers: dict[str | None, list[Step]] = {"hi": [handle, Say("One.")], "count": [*steps, Drop(code)]}
    async with live_chat([]) as chat:
        chat.model.turns, chat.model.script = None, lambda request: answers.get(last_words(request), [Say("Next.")])
        await first_turn_then(chat)
        lost = await (await chat.send("count")).rest()
        assert (lost.text, lost.types[-1], chat.listener.notices) == (words, "error", ["not-recovered"])
        after = await (await chat.send("on")).rest()
        assert after.text == "Next."
        texts = [part.text for content in chat.model.requests[-1] for part in content.parts or [] if part.text]
        assert texts == ["hi", "One.", "count", *([words] if words else []), "on"], "it began with the history"
        await chat.assert_history_matches(lost, after)


async def test_a_connection_lost_right_after_an_answer(clock: Clock) -> None:
    held = asyncio.Event()
    async with live_chat([[HANDLE, Say("One "), Wait(held), Say("two.")], [Say("Three.")]]) as chat:
        answer = await (await chat.send("count")).until(lambda reader: "One" in reader.text)
        (await chat.model.connected()).interject(Drop(1006))
        held.set()
        assert (await answer.rest()).text == "One two."
        await chat.listener.until(is_loss_over)
        assert chat.listener.notices == BACK
        assert (await (await chat.send("on")).rest()).text == "Three."


@pytest.mark.parametrize("event", [Drop(1006), GoAway()])
async def test_a_held_call_is_answered_on_the_next_connection(event: Drop | GoAway, clock: Clock) -> None:
    async with live_chat([[HANDLE, Call("pay", {"amount": 5})], [Say("Paid.")]]) as chat:
        answer = await (await chat.send("pay")).until_break()
        (await chat.model.connected()).interject(event)
        await chat.listener.until(is_loss_over)
        assert chat.listener.notices == (BACK if isinstance(event, Drop) else ["go-away", *BACK])
        assert not answer.closed
        await chat.answer("pay", UncheckedAnswer(approved=True))
        assert (await answer.rest()).text == "Paid."
        assert chat.tools.paid == [5]
        await chat.assert_history_matches(answer)


@pytest.mark.parametrize("events", [[Drop(1006)], [GoAway(), Drop(1006)]], ids=["drop", "go-away"])
async def test_a_held_call_is_parked_without_a_handle(events: list[Any], clock: Clock) -> None:
    async with live_chat([[Call("pay", {"amount": 5})], [Say("Paid.")]]) as chat:
        answer = await (await chat.send("pay")).until_break()
        (await chat.model.connected()).interject(*events)
        await answer.rest()
        assert chat.listener.notices == ["go-away", "not-recovered"][-len(events) :]
        assert [call.tool for call in await chat.pending()] == ["pay"]
        await chat.answer("pay", UncheckedAnswer(approved=True))
        assert (await (await chat.spoken_turn()).rest()).text == "Paid."
        assert chat.tools.paid == [5]


@pytest.mark.parametrize("code", [1006, 1011])
@pytest.mark.parametrize("tool", ["pay", "clock"])
async def test_a_held_call_is_parked_when_the_connection_is_lost_during_speech(
    tool: str, code: int, clock: Clock
) -> None:
    call = Call(tool, {"amount": 5} if tool == "pay" else {})
    async with live_chat([[call], [Say("Done.")]], manner=Manner(blocking=False)) as chat:
        answer = await (await chat.send("go")).until_break()
        (await chat.model.connected()).interject(Say("Mind you, "), Drop(code))
        await answer.rest()
        assert (answer.text, answer.types[-2:]) == ("Mind you, ", ["finish-step", "finish"])
        assert chat.listener.notices == ["not-recovered"]
        await chat.assert_history_matches(answer)
        await chat.answer(
            tool, UncheckedAnswer(approved=True) if tool == "pay" else UncheckedAnswer(output={"time": "12:00"})
        )
        answer.entries += (await (await chat.spoken_turn()).rest()).entries
        assert (answer.text, chat.tools.paid) == ("Mind you, Done.", [5] if tool == "pay" else [])
        await chat.assert_history_matches(answer)


@pytest.mark.parametrize("modality", ["audio", "text"])
async def test_speech_beside_a_held_call_is_kept_when_the_connection_is_lost(modality: Modality, clock: Clock) -> None:
    speaks_meanwhile = Manner(blocking=False)
    async with live_chat([[HANDLE, Call("clock")], [Say("Noon.")]], modality, manner=speaks_meanwhile) as chat:
        answer = await (await chat.send("time")).until_break()
        (await chat.model.connected()).interject(Say("Mind you, "), Drop(1006))
        await chat.listener.until(is_loss_over)
        assert chat.listener.notices == BACK
        await answer.until(lambda reader: reader.types.count("text-end") == 1)
        assert not answer.closed
        await chat.answer("clock", UncheckedAnswer(output={"time": "12:00"}))
        await answer.rest()
        assert answer.text == "Mind you, Noon."
        kept = [part["text"] for part in (await chat.messages())[-1]["parts"] if part["type"] == "text"]
        assert kept == ["Mind you, ", "Noon."]
        await chat.assert_history_matches(answer)


old_send = pytest.mark.filterwarnings("ignore:The `session.send` method is deprecated:DeprecationWarning")
geminis = pytest.mark.parametrize("model", ["gemini-3.1-flash-live-preview", "gemini-2.5-flash-native-audio-preview"])


@asynccontextmanager
async def gemini_chat(model: str, *turns: Sequence[Say | Drop | GoAway]) -> AsyncGenerator[LiveChat]:
    """Yield a live chat with ADK's own class for Gemini. A handle comes with every turn."""
    with GeminiEmulator(live=turns) as gemini:
        agent = LlmAgent(name="teller", model=Gemini(model=model, **gemini.model_kwargs))
        async with chat_with_agent(agent) as chat:
            yield chat


@old_send
@geminis
async def test_a_gemini_connection_lost_during_an_answer(model: str) -> None:
    async with gemini_chat(model, [Say("One.")], [Say("Two three "), Drop(1011)], [Say("Next.")]) as chat:
        await (await chat.send("hi")).rest()
        lost = await (await chat.send("count")).rest()
        assert (lost.text, lost.types[-1], chat.listener.notices) == ("Two three ", "error", ["not-recovered"])
        after = await (await chat.send("on")).rest()
        assert after.text == "Next."
        await chat.assert_history_matches(lost, after)


@old_send
@geminis
async def test_a_go_away_of_gemini_during_an_answer(model: str) -> None:
    async with gemini_chat(model, [Say("One.")], [Say("Two "), GoAway(), Say("three.")], [Say("Next.")]) as chat:
        await (await chat.send("hi")).rest()
        answer = await (await chat.send("count")).rest()
        assert answer.text == "Two three."
        await chat.listener.until(lambda listener: "reconnected" in listener.notices)
        assert chat.listener.notices == ["go-away", *BACK]
        after = await (await chat.send("on")).rest()
        assert after.text == "Next."
        await chat.assert_history_matches(answer, after)


async def fail_sending(chat: LiveChat) -> asyncio.Event:
    """Make the model's connection fail to send while it is still received from; return an event set when it failed."""
    failed = asyncio.Event()

    async def fail(*_: object, **__: object) -> None:
        failed.set()
        raise OSError("away")

    (await chat.model.connected())._send_content = fail  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    return failed


@pytest.fixture(autouse=True)
def short_check_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_connection, "_CHECK_INTERVAL", 0.01)


@contextmanager
def short_send_timeout() -> Generator[None]:
    """Close a connection soon that takes no requests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_connection, "_SEND_TIMEOUT", 0.05)
        yield


async def test_a_connection_that_takes_no_requests_is_closed() -> None:
    async with live_chat([[Say("One.")], [Say("Two.")]]) as chat:
        first = await (await chat.send("hi")).rest()
        await fail_sending(chat)
        with short_send_timeout():
            lost = await (await chat.send("are you there")).rest()
        assert lost.types == ["start", "message-metadata", "error"]
        assert chat.listener.notices == ["not-recovered"]
        after = await (await chat.send("hello")).rest()
        assert after.text == "Two."
        assert len(chat.model.live) == 2
        await chat.assert_history_matches(first, after)


async def test_speaking_after_a_connection_took_no_requests() -> None:
    async with live_chat([[Say("One.")], [Say("I am listening.")], [Say("Two.")]]) as chat:
        await (await chat.send("hi")).rest()
        await fail_sending(chat)
        with short_send_timeout():
            await (await chat.send("are you there")).rest()
        assert chat.listener.notices == ["not-recovered"]
        await chat.link.activity(start=True)
        assert chat.link.audio(bytes(3200))
        await chat.link.activity(start=False)
        assert (await (await chat.spoken_turn()).rest()).text == "Two."


async def test_a_closed_connection_that_fails_is_not_reported_as_lost() -> None:
    async with live_chat([[Say("One.")], [Say("Two.")]]) as chat:
        await (await chat.send("hi")).rest()
        failed = await fail_sending(chat)
        answer = await chat.send("are you there")
        await failed.wait()
        await chat.bridge.stop(ME, CHAT)
        await answer.rest()
        assert (await (await chat.send("hello")).rest()).text == "Two."
        assert chat.listener.notices == []


async def test_a_slow_model_does_not_close_its_connection() -> None:
    held = asyncio.Event()
    async with live_chat([[Say("One "), Wait(held), Say("two.")]]) as chat:
        answer = await (await chat.send("hi")).until(lambda reader: "One" in reader.text)
        connector = chat.bridge.live._all[ChatKey(ME, CHAT)]._connector
        assert connector.current is not None
        assert connector.current.queue.neglected() == 0, "no request waits, however long the model takes"
        held.set()
        await answer.rest()
        assert (answer.text, chat.listener.notices) == ("One two.", [])
