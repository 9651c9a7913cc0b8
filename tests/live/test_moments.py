"""Actions between the moments when ADK stores an event and when it is shown: stream and history agree."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from google.adk.events.event import Event
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.session import Session
from google.genai import types

from adkwire.gate.records import UncheckedAnswer
from adkwire.live import streamed_turn
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
from tests.live.live_chat import CHAT, ME, SPEECH, LiveChat, Modality, Reader, RecordingListener, live_chat

Trigger = Callable[[Event], bool]


def has_words(event: Event) -> bool:
    parts = (event.content.parts if event.content is not None else None) or []
    return event.author != "user" and (event.output_transcription is not None or any(part.text for part in parts))


def is_end(event: Event) -> bool:
    return event.turn_complete is True


class ActingSessions(InMemorySessionService):
    """Sessions that start an action when an event for which `when` is true was stored; with `early` just before."""

    def __init__(self, *, early: bool = False) -> None:
        super().__init__()
        self.early = early
        self.when: Trigger = lambda event: False
        self.act: Callable[[], Awaitable[None]] | None = None
        self.done: asyncio.Task[None] | None = None

    async def append_event(self, session: Session, event: Event) -> Event:
        if self.early:
            await self._act(event)
        stored = await super().append_event(session, event)
        if not self.early:
            await self._act(event)
        return stored

    async def _act(self, event: Event) -> None:
        if self.act is not None and self.done is None and self.when(event):
            self.done = asyncio.ensure_future(self.act())
            for _ in range(20 if self.early else 1):
                await asyncio.sleep(0)


@pytest.mark.parametrize("early", [False, True], ids=["stored", "storing"])
@pytest.mark.parametrize("turn", ["first", "second"])
@pytest.mark.parametrize("modality", ["text", "audio"])
@pytest.mark.parametrize("when", [has_words, is_end], ids=["words", "end"])
@pytest.mark.parametrize("how", ["interrupt", "stop", "type", "speak"])
async def test_a_turn_that_is_cut_between_storing_and_showing_an_event(
    how: str, when: Trigger, modality: Modality, turn: str, early: bool
) -> None:
    sessions, before = ActingSessions(early=early), [[Say("Zero.")]] if turn == "second" else []
    turns = [*before, [Say("One two three.")], [Say("Next.")]]
    manner = Manner(hears=lambda sound: "hm")
    async with live_chat(turns, modality, manner=manner, sessions=sessions) as chat:
        for _ in before:
            await (await chat.send("hi")).rest()
        after: list[Reader] = []
        sessions.when, sessions.act = when, lambda: cut(chat, how, answer, after)
        answer = await chat.send("count")
        await answer.rest()
        assert sessions.done is not None
        await sessions.done
        if how == "speak":
            after.append(await chat.spoken_turn())
        elif not after:
            after.append(await chat.send("go on"))
        await after[0].rest()
        assert (answer.text, after[0].text) == ("One two three.", "Next.")
        await chat.assert_history_matches(answer, after[0])
        assert [message["role"] for message in await chat.messages()] == ["user", "assistant"] * len(turns)


@pytest.mark.parametrize("how", ["stop", "type"])
async def test_a_typed_message_is_stored_though_its_answer_is_cut(how: str) -> None:
    async with live_chat([[Say("Zero.")], [Say("One.")], [Say("Two.")]]) as chat:
        await (await chat.send("first")).rest()
        second = await chat.send("second")
        after: list[Reader] = []
        await cut(chat, how, second, after)
        await second.rest()
        for last in after or [await chat.send("go on")]:
            await last.rest()
        users = [message["parts"][0]["text"] for message in await chat.messages() if message["role"] == "user"]
        assert users == ["first", "second", "go on"]


async def test_stored_words_are_kept_though_they_were_not_heard() -> None:
    sessions = ActingSessions()
    async with live_chat([[Say("One two three.")]], sessions=sessions) as chat:

        async def interrupt() -> None:
            chat.link.played(chat.listener.sounds[-1][0], 1)
            await chat.link.interrupt()

        sessions.when, sessions.act = has_words, interrupt
        answer = await (await chat.send("count")).rest()
        assert sessions.done is not None
        await sessions.done
        assert [kept for *_, kept in chat.listener.interruptions] == [None]
        await chat.assert_history_matches(answer)


async def cut(chat: LiveChat, how: str, answer: Reader, after: list[Reader]) -> None:
    """Cut an answer by one of four ways; a message that does so adds the reader of its run to `after`."""
    match how:
        case "interrupt":
            await chat.link.interrupt()
        case "stop":
            await chat.bridge.stop(ME, CHAT, answer.run.id)
        case "type":
            after.append(await chat.send("go on"))
        case _:
            await chat.speak()


PNG = b"\x89PNG\r\n\x1a\n"
YES = UncheckedAnswer(approved=True)
SPEAKS_MEANWHILE = Manner(blocking=False, hears=lambda sound: "and the weather")


async def test_a_picture_is_in_history() -> None:
    async with live_chat([[Say("Look: "), Show("image/png", PNG), Say("nice.")]], "text") as chat:
        answer = await (await chat.send("draw")).rest()
        assert "file" in answer.types
        await chat.assert_history_matches(answer)


@pytest.mark.parametrize("modality", ["text", "audio"])
async def test_a_call_is_answered_while_the_model_speaks(modality: Modality) -> None:
    held = asyncio.Event()
    turns = [[Call("pay", {"amount": 5})], [Say("It is "), Wait(held), Say("sunny.")], [Say("Paid.")]]
    async with live_chat(turns, modality, manner=SPEAKS_MEANWHILE) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.speak()
        await answer.until(lambda reader: "It is" in reader.text)
        await chat.answer("pay", YES)
        await answer.until(lambda reader: "tool-output-available" in reader.types)
        assert "text-end" not in answer.types, "the speech goes on"
        held.set()
        await answer.rest()
        assert answer.text.startswith("It is sunny.")
        assert [is_break(entry) for entry in answer.entries].count(True) == 1, "no break while the model speaks"
        await chat.assert_history_matches(answer)


async def test_a_turn_ends_though_the_model_ignores_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_turn, "_SILENCE_TIMEOUT", 0.0)
    turns = [[Call("pay", {"amount": 5})], [Say("It is sunny.")], [Wait(asyncio.Event())]]
    async with live_chat(turns, manner=SPEAKS_MEANWHILE) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.speak()
        await chat.listener.until(lambda listener: listener.states[-2:] == ["speaking", "waiting"])
        await chat.answer("pay", YES)
        await answer.rest()
        assert (answer.text, chat.tools.paid) == ("It is sunny.", [5])
        await chat.assert_history_matches(answer)


async def test_an_interruption_begins_a_new_generation_of_sound() -> None:
    held = asyncio.Event()
    async with live_chat([[Say("One two "), Wait(held)], [Say("Next.")]]) as chat:
        answer = await (await chat.send("count")).until(lambda reader: "two" in reader.text)
        sounded = chat.listener.sounds[-1][0]
        await chat.link.interrupt()
        await answer.rest()
        ((_, void, _),) = chat.listener.interruptions
        assert void > sounded
        await (await chat.send("go on")).rest()
        assert chat.listener.sounds[-1][0] > void


async def test_speech_supersedes_parked_calls() -> None:
    # To the model the call was taken back and answered, so speech is its third turn.
    turns = [[Call("pay", {"amount": 5})], [Say("No.")], [Say("Fine.")]]
    async with live_chat(turns, manner=SPEAKS_MEANWHILE) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.link.close()
        await answer.rest()
        link = await chat.rejoin()
        await link.activity(start=True)
        assert await chat.pending() == []
        link.audio(SPEECH)
        await link.activity(start=False)
        spoken = await (await chat.spoken_turn()).rest()
        assert spoken.text == "Fine."
        assert chat.tools.paid == []
        await chat.assert_history_matches(spoken)


async def test_a_spoken_turn_that_begins_with_a_call() -> None:
    manner = Manner(hears=lambda sound: "pay", transcript="last")
    async with live_chat([[Call("pay", {"amount": 5})], [Say("Paid.")]], manner=manner) as chat:
        await chat.speak()
        answer = await (await chat.spoken_turn()).until_break()
        await chat.answer("pay", YES)
        await answer.rest()
        assert (answer.text, chat.tools.paid) == ("Paid.", [5])
        await chat.assert_history_matches(answer)


async def test_a_call_is_not_asked_about_before_it_is_shown() -> None:
    async with live_chat([]) as chat:
        turn, key = RoutedTurn("m", "u", "typed"), ChatKey(ME, CHAT)
        turns = ConversationTurns()
        turns.router.add(turn)
        turns.router.adopt(turn, {"c"})
        turns.streamed["m"] = StreamedTurn(turn, Run("run", key, UserMessage("u", ()), Encoder("m")))
        calls = LiveCalls(key, chat.bridge._runner, turns, Listeners())  # pyright: ignore[reportPrivateUsage]
        asked = asyncio.create_task(calls.origin("c"))
        await asyncio.sleep(0)
        assert not asked.done()
        call = types.Part(function_call=types.FunctionCall(id="c", name="pay"))
        calls.shown(turn, Event(author="teller", content=types.Content(role="model", parts=[call])))
        origin = await asked
        assert origin is not None
        assert origin.message == "m"


async def test_a_parked_call_has_a_placeholder_response_in_the_session() -> None:
    sessions = InMemorySessionService()
    async with live_chat([[Call("pay", {"amount": 5})]], sessions=sessions) as chat:
        answer = await (await chat.send("pay")).until_break()
        await chat.link.close()
        await answer.rest()
    session = await sessions.get_session(app_name="teller", user_id=ME, session_id=CHAT)
    assert session is not None
    calls = [call.id for event in session.events for call in event.get_function_calls() if call.name == "pay"]
    responses = [response.id for event in session.events for response in event.get_function_responses()]
    assert calls
    assert set(calls) <= set(responses)


async def test_a_conversation_goes_on_for_a_client_that_comes_back() -> None:
    async with live_chat([[Say("One.")], [Say("Two.")]]) as chat:
        await (await chat.send("hi")).rest()
        chat.link.leave()
        await asyncio.sleep(0.05)  # without a grace it would be over by now
        link = await chat.bridge.live.join(ME, CHAT, RecordingListener())
        assert link.resumed
        to_read = await link.send(chat.message("again"))
        assert (await Reader(chat.bridge, to_read.run).rest()).text == "Two."
        assert len(chat.model.live) == 1
