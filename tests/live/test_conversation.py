"""Turns of a live conversation: typed, spoken, interrupted, stopped, failed."""

import asyncio

import pytest

from adkwire.errors import Conflict, Unavailable, Unprocessable
from adkwire.live import user_input
from adkwire.testing import Call, Fail, Say, Wait
from adkwire.testing.live_responses import Manner
from adkwire.testing.steps import Drop
from adkwire.wire.decode.decoder import TurnInput
from tests.live.live_chat import CHAT, ME, SPEECH, Modality, Reader, RecordingListener, live_chat
from tests.patience import PATIENCE

MODALITIES: list[Modality] = ["text", "audio"]


@pytest.mark.parametrize("modality", MODALITIES)
async def test_typed_turns_share_one_connection(modality: Modality) -> None:
    async with live_chat([[Say("Hello there.")], [Say("Fine.")]], modality) as chat:
        one = await (await chat.send("hi")).rest()
        two = await (await chat.send("how are you")).rest()
        assert (one.text, two.text) == ("Hello there.", "Fine.")
        assert one.types == [
            "start",
            "start-step",
            "text-start",
            "text-delta",
            "text-delta",
            "text-end",
            "finish-step",
            "finish",
        ]
        assert len(chat.model.live) == 1
        await chat.assert_history_matches(one, two)
        assert [message["role"] for message in await chat.messages()] == ["user", "assistant"] * 2


@pytest.mark.parametrize("modality", MODALITIES)
async def test_a_turn_with_a_tool(modality: Modality) -> None:
    async with live_chat([[Say("Let me see."), Call("weather", {"place": "Rome"})], [Say("Clear.")]], modality) as chat:
        answer = await (await chat.send("weather")).rest()
        assert answer.text == "Let me see.Clear."
        assert "tool-output-available" in answer.types
        await chat.assert_history_matches(answer)


async def test_sound_goes_to_listeners_and_is_counted_but_not_streamed() -> None:
    async with live_chat([[Say("Hello there.")]]) as chat:
        answer = await (await chat.send("hi")).rest()
        generations = {generation for generation, *_ in chat.listener.sounds}
        assert generations == {1}
        assert chat.listener.sounds[-1][-1] is True
        ms = chat.listener.sounds[-1][1]
        metadata = answer.message["metadata"]
        assert metadata["audio"] == {"chunks": len(chat.listener.sounds) - 1, "ms": ms}
        assert "data-pcm" not in answer.types


@pytest.mark.parametrize("transcript", ["early", "late", "last", "behind"])
@pytest.mark.parametrize("modality", MODALITIES)
async def test_a_spoken_turn(transcript: str, modality: Modality) -> None:
    manner = Manner(hears=lambda sound: "what is up", transcript=transcript)  # pyright: ignore[reportArgumentType]
    async with live_chat([[Say("Not much.")], [Say("Again.")]], modality, manner=manner) as chat:
        for _ in range(2):
            await chat.speak()
            count = len(chat.listener.turns)
            await chat.listener.until(lambda listener, count=count: len(listener.turns) > count)
            run, origin = chat.listener.turns[-1]
            answer = await Reader(chat.bridge, run).rest()
            assert origin == "voice"
            await chat.listener.until(
                lambda listener, run=run: (run.user_message.id, "what is up", True) in listener.transcripts
            )
            await chat.assert_history_matches(answer)
            messages = await chat.messages()
            assert messages[-2] == {
                "id": run.user_message.id,
                "role": "user",
                "parts": [{"type": "text", "text": "what is up"}],
            }
        assert len(chat.model.live) == 1
        assert [message["role"] for message in await chat.messages()] == ["user", "assistant"] * 2
        assert (await chat.bridge.history(ME, CHAT)).title == "what is up"


async def test_the_state_is_listening_again_after_a_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_input, "_NOISE_TIMEOUT", 0.0)
    async with live_chat([], manner=Manner(hears=lambda sound: "")) as chat:
        await chat.speak()
        await chat.listener.until(lambda listener: listener.states[-2:] == ["thinking", "listening"])
        assert await chat.messages() == []


async def test_speech_without_audio_does_not_change_the_state() -> None:
    async with live_chat([[Say("Yes?")]]) as chat:
        await chat.link.activity(start=True)
        await chat.link.activity(start=False)
        assert chat.listener.states == []
        assert (await (await chat.send("hello")).rest()).text == "Yes?"


@pytest.mark.parametrize("modality", MODALITIES)
async def test_an_interrupted_answer_keeps_its_words(modality: Modality) -> None:
    hold = asyncio.Event()
    async with live_chat([[Say("One two three "), Wait(hold), Say("four")], [Say("Next.")]], modality) as chat:
        answer = await chat.send("count")
        await answer.until(lambda reader: "three" in reader.text)
        await chat.link.interrupt()
        await answer.rest()
        assert answer.text == "One two three "
        assert answer.plain[-1]["finishReason"] == "interrupted"
        assert answer.message["metadata"]["ended"] == "interrupted"
        assert "abort" not in answer.types
        assert [run for run, *_ in chat.listener.interruptions] == [answer.run.id]
        hold.set()
        after = await (await chat.send("go on")).rest()
        assert after.text == "Next."
        assert len(chat.model.live) == 1
        await chat.assert_history_matches(answer, after)


async def test_an_interruption_before_the_first_word() -> None:
    hold = asyncio.Event()
    async with live_chat([[Wait(hold), Say("Late.")]]) as chat:
        answer = await chat.send("hm")
        await (await chat.model.connected()).until(lambda it: it.history)
        await chat.link.interrupt()
        await answer.rest()
        assert answer.plain[-1]["finishReason"] == "interrupted"
        hold.set()
        after = await (await chat.send("again")).rest()
        assert after.text == "Late."
        await chat.assert_history_matches(answer, after)


async def test_only_the_words_that_were_heard_are_kept() -> None:
    hold = asyncio.Event()
    async with live_chat([[Say("alpha beta gamma delta "), Wait(hold)], [Say("Next.")]]) as chat:
        answer = await chat.send("speak")
        await answer.until(lambda reader: "delta" in reader.text)
        generation, position, size, _ = chat.listener.sounds[-1]
        chat.link.played(generation, (position + size // 48) // 2)
        await chat.link.interrupt()
        await answer.rest()
        assert chat.listener.interruptions[-1][2] == "alpha beta "
        assert (await chat.messages())[-1]["parts"][-1]["text"] == "alpha beta "
        await (await chat.send("go on")).rest()
        assert any(content.role == "model" for content in chat.model.requests[-1])


@pytest.mark.parametrize("modality", MODALITIES)
async def test_stop_during_an_answer(modality: Modality) -> None:
    hold = asyncio.Event()
    async with live_chat([[Say("One two "), Wait(hold), Say("three")], [Say("Next.")]], modality) as chat:
        answer = await chat.send("count")
        await answer.until(lambda reader: "two" in reader.text)
        assert await chat.bridge.stop(ME, CHAT, answer.run.id)
        await answer.rest()
        assert answer.types[-3:] == ["finish-step", "abort", "finish"]
        hold.set()
        after = await (await chat.send("go on")).rest()
        assert after.text == "Next."
        await chat.assert_history_matches(answer, after)


@pytest.mark.parametrize("modality", MODALITIES)
async def test_typing_during_an_answer_supersedes_it(modality: Modality) -> None:
    hold = asyncio.Event()
    async with live_chat([[Say("One two "), Wait(hold), Say("three")], [Say("Next.")]], modality) as chat:
        answer = await chat.send("count")
        await answer.until(lambda reader: "two" in reader.text)
        after = await (await chat.send("other")).rest()
        await answer.rest()
        assert (answer.text, after.text) == ("One two ", "Next.")
        await chat.assert_history_matches(answer, after)
        assert [message["role"] for message in await chat.messages()] == ["user", "assistant"] * 2


async def test_speaking_during_an_answer_interrupts_it() -> None:
    hold = asyncio.Event()
    manner = Manner(hears=lambda sound: "stop that")
    async with live_chat([[Say("One two "), Wait(hold), Say("three")], [Say("Sorry.")]], manner=manner) as chat:
        answer = await chat.send("count")
        await answer.until(lambda reader: "two" in reader.text)
        await chat.speak()
        await answer.rest()
        assert answer.plain[-1]["finishReason"] == "interrupted"
        spoken = await (await chat.spoken_turn()).rest()
        assert spoken.text == "Sorry."
        await chat.assert_history_matches(answer, spoken)
        texts = [
            part["text"] for message in await chat.messages() for part in message["parts"] if part["type"] == "text"
        ]
        assert texts == ["count", "One two ", "stop that", "Sorry."]


async def test_a_model_that_fails_during_an_answer() -> None:
    async with live_chat([[Say("One "), Fail(RuntimeError("boom"))], [Say("Next.")]]) as chat:
        answer = await (await chat.send("count")).rest()
        assert answer.types[-1] == "error"
        after = await (await chat.send("again")).rest()
        assert after.text == "Next."
        await chat.assert_history_matches(after)
        assert len(chat.model.live) == 2
        messages = [content for content in chat.model.requests[-1] if content.role == "user"]
        assert len(messages) == 2


async def test_a_model_that_fails_before_its_first_word() -> None:
    async with live_chat([[Fail(RuntimeError("boom"))]]) as chat:
        answer = await (await chat.send("count")).rest()
        assert answer.types == ["start", "message-metadata", "error"]
        messages = await chat.messages()
        assert [message["role"] for message in messages] == ["user", "assistant"]
        assert messages[1]["parts"] == []


async def test_a_lost_connection_is_an_error_of_its_turn() -> None:
    async with live_chat([[Say("One "), Drop(1011)], [Say("Next.")]]) as chat:
        answer = await (await chat.send("count")).rest()
        assert answer.types[-1] == "error"
        assert (await (await chat.send("again")).rest()).text == "Next."


async def test_a_post_is_refused_while_a_client_is_linked() -> None:
    async with live_chat([[Say("One.")], [Say("Two.")]]) as chat:
        await (await chat.send("hi")).rest()
        with pytest.raises(Conflict):
            await chat.post("now")
        chat.link.leave()
        answer = await (await chat.post("now")).rest()
        assert answer.text == "Two."
        assert (await chat.bridge.history(ME, CHAT)).active is None


async def test_regeneration_is_refused_in_a_conversation() -> None:
    async with live_chat([[Say("One.")]]) as chat:
        await (await chat.send("hi")).rest()
        with pytest.raises(Unprocessable):
            await chat.link.send(TurnInput(chat=CHAT, message=None, trigger="regenerate-message", replaces="user-1"))


async def test_regeneration_after_a_conversation_rewinds_one_turn() -> None:
    async with live_chat([[Say("One.")], [Say("Two.")], [Say("Three.")]]) as chat:
        for text in ("a", "b"):
            await (await chat.send(text)).rest()
        await chat.link.close()
        turn = TurnInput(chat=CHAT, message=None, trigger="regenerate-message", replaces="user-2")
        await Reader(chat.bridge, await chat.bridge.start(ME, turn)).rest()
        texts = [
            content.parts[0].text for content in chat.model.requests[-1] if content.parts and content.role == "user"
        ]
        assert texts == ["a", "b"]


async def test_two_clients_and_one_microphone() -> None:
    async with live_chat([[Say("Hi.")]], manner=Manner(hears=lambda sound: "hello")) as chat:
        other = RecordingListener()
        second = await chat.join(other)
        await chat.link.activity(start=True)
        assert not second.audio(SPEECH)
        await second.activity(start=True)
        assert chat.listener.notices == ["taken-over"]
        assert not chat.link.audio(SPEECH)
        assert second.audio(SPEECH)
        await second.activity(start=False)
        await other.until(lambda listener: listener.turns)
        await Reader(chat.bridge, other.turns[0][0]).rest()
        assert chat.listener.turns
        assert len(other.sounds) == len(chat.listener.sounds)


async def test_the_same_message_again_runs_once() -> None:
    async with live_chat([[Say("One.")]]) as chat:
        turn = chat.message("hi")
        first = await chat.link.send(turn)
        again = await chat.link.send(turn)
        assert first.run is again.run
        await Reader(chat.bridge, first.run).rest()
        assert (await chat.link.send(turn)).run is first.run


async def test_no_task_is_left_after_many_clients_joined_and_left() -> None:
    async with live_chat([[Say("One.")]], joined=False, live_grace=0) as chat:
        before = len(asyncio.all_tasks())
        for _ in range(100):
            link = await chat.join(RecordingListener())
            link.leave()
        async with asyncio.timeout(PATIENCE):
            while chat.bridge.live.count or len(asyncio.all_tasks()) > before:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.001)


@pytest.mark.parametrize("turns_of_the_loop", range(0, 40, 4))
async def test_closing_the_link_while_a_spoken_turn_begins(turns_of_the_loop: int) -> None:
    async with live_chat([[Say("Not much.")]], manner=Manner(hears=lambda sound: "what is up")) as chat:
        await chat.speak()
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            await chat.link.close()
        assert chat.bridge.live.count == 0
        assert chat.bridge.running(ME, CHAT) is None


async def test_a_spoken_turn_that_cannot_begin_because_a_store_is_away() -> None:
    async with live_chat([[Say("Hi.")], [Say("Lost.")]], manner=Manner(hears=lambda sound: "what is up")) as chat:
        await (await chat.send("hi")).rest()
        signals = chat.bridge._signals  # pyright: ignore[reportPrivateUsage]
        acquire = signals.acquire

        async def away(name: str) -> str | None:
            raise Unavailable(f"no {name}")

        signals.acquire = away
        await chat.speak()
        await chat.listener.until(lambda listener: "unavailable" in listener.notices)
        signals.acquire = acquire
        async with asyncio.timeout(PATIENCE):
            await chat.link.close()
        assert chat.bridge.live.count == 0
