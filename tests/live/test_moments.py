"""ADK stores an event before it is shown: whatever somebody does just then, page and history agree."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from google.adk.events.event import Event
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.session import Session
from google.genai import types

from adkwire.gate.records import UncheckedAnswer
from adkwire.live import streamed_turn as live
from adkwire.live.calls import LiveCalls
from adkwire.live.listeners import Listeners
from adkwire.live.streamed_turn import ConversationTurns, StreamedTurn
from adkwire.live.turn_router import RoutedTurn
from adkwire.runs.run import Run
from adkwire.stores.base import ChatKey
from adkwire.testing import Call, Say, Show, Wait
from adkwire.testing.live_responses import Manner
from adkwire.wire.breaks import is_break
from adkwire.wire.decode.decoder import UserMessage
from adkwire.wire.encode.encoder import Encoder
from tests.live.live_house import CHAT, ME, Ear, House, Modality, Reader, house

Moment = Callable[[Event], bool]


def is_final(event: Event) -> bool:
    parts = (event.content.parts if event.content is not None else None) or []
    said = event.output_transcription is not None or any(part.text for part in parts)
    return event.author != "user" and said


def is_end(event: Event) -> bool:
    return event.turn_complete is True


class Eventful(InMemorySessionService):
    """Begins to do something when a certain event was stored, before anybody has seen it; or just before it is."""

    def __init__(self, *, early: bool = False) -> None:
        super().__init__()
        self.early = early
        self.when: Moment = lambda event: False
        self.act: Callable[[], Awaitable[None]] | None = None
        self.done: asyncio.Task[None] | None = None

    async def append_event(self, session: Session, event: Event) -> Event:
        if self.early:
            await self._begin(event)
        stored = await super().append_event(session, event)
        if not self.early:
            await self._begin(event)
        return stored

    async def _begin(self, event: Event) -> None:
        if self.act is not None and self.done is None and self.when(event):
            self.done = asyncio.ensure_future(self.act())
            for _ in range(20 if self.early else 1):
                await asyncio.sleep(0)


@pytest.mark.parametrize("early", [False, True], ids=["stored", "storing"])
@pytest.mark.parametrize("turn", ["first", "second"])
@pytest.mark.parametrize("modality", ["text", "audio"])
@pytest.mark.parametrize("when", [is_final, is_end], ids=["words", "end"])
@pytest.mark.parametrize("how", ["interrupt", "stop", "type", "speak"])
async def test_cut_between_storing_and_showing(
    how: str, when: Moment, modality: Modality, turn: str, early: bool
) -> None:
    sessions, before = Eventful(early=early), [[Say("Zero.")]] if turn == "second" else []
    turns = [*before, [Say("One two three.")], [Say("Next.")]]
    async with house(turns, modality, manner=Manner(hears=lambda sound: "hm"), sessions=sessions) as here:
        for _ in before:
            await (await here.say("hi")).rest()
        after: list[Reader] = []
        sessions.when, sessions.act = when, lambda: cut(here, how, answer, after)
        answer = await here.say("count")
        await answer.rest()
        assert sessions.done is not None
        await sessions.done
        if how == "speak":
            await here.ear.until(lambda ear: ear.turns)
            after.append(Reader(here.bridge, here.ear.turns[0][0]))
        elif not after:
            after.append(await here.say("go on"))
        await after[0].rest()
        assert (answer.text, after[0].text) == ("One two three.", "Next.")
        await here.agrees_with(answer, after[0])
        assert [message["role"] for message in await here.messages()] == ["user", "assistant"] * len(turns)


@pytest.mark.parametrize("how", ["stop", "type"])
async def test_words_are_kept_though_nobody_waits_for_an_answer(how: str) -> None:
    async with house([[Say("Zero.")], [Say("One.")], [Say("Two.")]]) as here:
        await (await here.say("first")).rest()
        second = await here.say("second")
        after: list[Reader] = []
        await cut(here, how, second, after)
        await second.rest()
        for last in after or [await here.say("go on")]:
            await last.rest()
        users = [message["parts"][0]["text"] for message in await here.messages() if message["role"] == "user"]
        assert users == ["first", "second", "go on"]


async def test_what_is_stored_is_kept_though_it_was_not_heard() -> None:
    sessions = Eventful()
    async with house([[Say("One two three.")]], sessions=sessions) as here:

        async def interrupt() -> None:
            here.link.played(here.ear.sounds[-1][0], 1)
            await here.link.interrupt()

        sessions.when, sessions.act = is_final, interrupt
        answer = await (await here.say("count")).rest()
        assert sessions.done is not None
        await sessions.done
        assert [kept for *_, kept in here.ear.interruptions] == [None]
        await here.agrees_with(answer)


async def cut(here: House, how: str, answer: Reader, after: list[Reader]) -> None:
    match how:
        case "interrupt":
            await here.link.interrupt()
        case "stop":
            await here.bridge.stop(ME, CHAT, answer.run.id)
        case "type":
            after.append(await here.say("go on"))
        case _:
            await speak(here)


PNG = b"\x89PNG\r\n\x1a\n"
YES = UncheckedAnswer(approved=True)
TALKATIVE = Manner(blocking=False, hears=lambda sound: "and the weather")


async def test_a_picture_is_there_on_reload() -> None:
    async with house([[Say("Look: "), Show("image/png", PNG), Say("nice.")]], "text") as here:
        answer = await (await here.say("draw")).rest()
        assert "file" in answer.types
        await here.agrees_with(answer)


async def speak(here: House) -> None:
    await here.link.activity(start=True)
    here.link.audio(bytes(3200))
    await here.link.activity(start=False)


@pytest.mark.parametrize("modality", ["text", "audio"])
async def test_a_call_is_answered_while_the_model_speaks(modality: Modality) -> None:
    held = asyncio.Event()
    turns = [[Call("pay", {"amount": 5})], [Say("It is "), Wait(held), Say("sunny.")], [Say("Paid.")]]
    async with house(turns, modality, manner=TALKATIVE) as here:
        answer = await (await here.say("pay")).until_break()
        await speak(here)
        await answer.until(lambda me: "It is" in me.text)
        await here.answer("pay", YES)
        await answer.until(lambda me: "tool-output-available" in me.types)
        assert "text-end" not in answer.types, "what is being said goes on"
        held.set()
        await answer.rest()
        assert answer.text.startswith("It is sunny.")
        assert [is_break(entry) for entry in answer.entries].count(True) == 1, "no break while it speaks"
        await here.agrees_with(answer)


async def test_a_model_has_forgotten_the_call_when_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_EMPTY_PATIENCE", 0.0)
    turns = [[Call("pay", {"amount": 5})], [Say("It is sunny.")], [Wait(asyncio.Event())]]
    async with house(turns, manner=TALKATIVE) as here:
        answer = await (await here.say("pay")).until_break()
        await speak(here)
        await here.ear.until(lambda ear: ear.states[-2:] == ["speaking", "waiting"])
        await here.answer("pay", YES)
        await answer.rest()
        assert (answer.text, here.till.paid) == ("It is sunny.", [5])
        await here.agrees_with(answer)


async def test_sound_of_an_interrupted_answer_is_void() -> None:
    held = asyncio.Event()
    async with house([[Say("One two "), Wait(held)], [Say("Next.")]]) as here:
        answer = await (await here.say("count")).until(lambda me: "two" in me.text)
        sounded = here.ear.sounds[-1][0]
        await here.link.interrupt()
        await answer.rest()
        ((_, void, _),) = here.ear.interruptions
        assert void > sounded
        await (await here.say("go on")).rest()
        assert here.ear.sounds[-1][0] > void


async def test_speech_takes_back_what_is_parked() -> None:
    # To the model the call was taken back and answered, so speech is its third turn.
    turns = [[Call("pay", {"amount": 5})], [Say("No.")], [Say("Fine.")]]
    async with house(turns, manner=TALKATIVE) as here:
        answer = await (await here.say("pay")).until_break()
        await here.link.close()
        await answer.rest()
        link = await here.bridge.live.join(ME, CHAT, ear := Ear())
        await link.activity(start=True)
        assert await here.pending() == []
        link.audio(bytes(3200))
        await link.activity(start=False)
        await ear.until(lambda ear: ear.turns)
        spoken = await Reader(here.bridge, ear.turns[0][0]).rest()
        assert spoken.text == "Fine."
        assert here.till.paid == []
        await here.agrees_with(spoken)


async def test_a_call_is_the_first_thing_of_a_spoken_turn() -> None:
    manner = Manner(hears=lambda sound: "pay", transcript="last")
    async with house([[Call("pay", {"amount": 5})], [Say("Paid.")]], manner=manner) as here:
        await speak(here)
        await here.ear.until(lambda ear: ear.turns)
        answer = await Reader(here.bridge, here.ear.turns[0][0]).until_break()
        await here.answer("pay", YES)
        await answer.rest()
        assert (answer.text, here.till.paid) == ("Paid.", [5])
        await here.agrees_with(answer)


async def test_a_call_is_not_asked_about_before_it_is_shown() -> None:
    async with house([]) as here:
        turn, key = RoutedTurn("m", "u", "typed"), ChatKey(ME, CHAT)
        turns = ConversationTurns()
        turns.router.add(turn)
        turns.router.adopt(turn, {"c"})
        turns.streamed["m"] = StreamedTurn(turn, Run("run", key, UserMessage("u", ()), Encoder("m")))
        calls = LiveCalls(key, here.bridge._runner, turns, Listeners())  # pyright: ignore[reportPrivateUsage]
        asked = asyncio.create_task(calls.origin("c"))
        await asyncio.sleep(0)
        assert not asked.done()
        made = types.Part(function_call=types.FunctionCall(id="c", name="pay"))
        calls.shown(turn, Event(author="teller", content=types.Content(role="model", parts=[made])))
        place = await asked
        assert place is not None
        assert place.message == "m"


async def test_the_model_reads_of_no_call_without_an_answer() -> None:
    sessions = InMemorySessionService()
    async with house([[Call("pay", {"amount": 5})]], sessions=sessions) as here:
        answer = await (await here.say("pay")).until_break()
        await here.link.close()
        await answer.rest()
    session = await sessions.get_session(app_name="teller", user_id=ME, session_id=CHAT)
    assert session is not None
    calls = [call.id for event in session.events for call in event.get_function_calls() if call.name == "pay"]
    answered = [given.id for event in session.events for given in event.get_function_responses()]
    assert calls
    assert set(calls) <= set(answered)


async def test_a_conversation_waits_for_who_was_lost() -> None:
    async with house([[Say("One.")], [Say("Two.")]]) as here:
        await (await here.say("hi")).rest()
        here.link.leave()
        await asyncio.sleep(0.05)  # without a grace it would be over by now
        link = await here.bridge.live.join(ME, CHAT, Ear())
        assert link.resumed
        told = await link.send(here.message("again"))
        assert (await Reader(here.bridge, told.run).rest()).text == "Two."
        assert len(here.model.live) == 1
