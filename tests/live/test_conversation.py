"""Turns of a live conversation: typed, spoken, interrupted, stopped, failed."""

import asyncio

import pytest

from adkwire.errors import Conflict, Unavailable, Unprocessable
from adkwire.live import user_input as live
from adkwire.testing import Call, Fail, Say, Wait
from adkwire.testing.live_responses import Manner
from adkwire.testing.steps import Drop
from adkwire.wire.decode.decoder import TurnInput
from tests.live.live_house import CHAT, ME, Ear, Modality, Reader, house
from tests.patience import PATIENCE

MODALITIES: list[Modality] = ["text", "audio"]
SECOND = bytes(32_000)


@pytest.mark.parametrize("modality", MODALITIES)
async def test_typed_turns_one_connection(modality: Modality) -> None:
    async with house([[Say("Hello there.")], [Say("Fine.")]], modality) as here:
        one = await (await here.say("hi")).rest()
        two = await (await here.say("how are you")).rest()
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
        assert len(here.model.live) == 1
        await here.agrees_with(one, two)
        assert [message["role"] for message in await here.messages()] == ["user", "assistant"] * 2


@pytest.mark.parametrize("modality", MODALITIES)
async def test_a_tool_and_what_is_said_about_it(modality: Modality) -> None:
    async with house([[Say("Let me see."), Call("weather", {"place": "Rome"})], [Say("Clear.")]], modality) as here:
        answer = await (await here.say("weather")).rest()
        assert answer.text == "Let me see.Clear."
        assert "tool-output-available" in answer.types
        await here.agrees_with(answer)


async def test_sound_goes_by_and_is_counted() -> None:
    async with house([[Say("Hello there.")]]) as here:
        answer = await (await here.say("hi")).rest()
        generations = {generation for generation, *_ in here.ear.sounds}
        assert generations == {1}
        assert here.ear.sounds[-1][-1] is True
        ms = here.ear.sounds[-1][1]
        metadata = answer.message["metadata"]
        assert metadata["audio"] == {"chunks": len(here.ear.sounds) - 1, "ms": ms}
        assert "data-pcm" not in answer.types


@pytest.mark.parametrize("transcript", ["early", "late", "last", "behind"])
@pytest.mark.parametrize("modality", MODALITIES)
async def test_a_spoken_turn(transcript: str, modality: Modality) -> None:
    manner = Manner(hears=lambda sound: "what is up", transcript=transcript)  # pyright: ignore[reportArgumentType]
    async with house([[Say("Not much.")], [Say("Again.")]], modality, manner=manner) as here:
        for _ in range(2):
            await here.link.activity(start=True)
            assert here.link.audio(SECOND)
            await here.link.activity(start=False)
            count = len(here.ear.turns)
            await here.ear.until(lambda ear, count=count: len(ear.turns) > count)
            run, origin = here.ear.turns[-1]
            answer = await Reader(here.bridge, run).rest()
            assert origin == "voice"
            await here.ear.until(lambda ear, run=run: (run.message.id, "what is up", True) in ear.transcripts)
            await here.agrees_with(answer)
            messages = await here.messages()
            assert messages[-2] == {
                "id": run.message.id,
                "role": "user",
                "parts": [{"type": "text", "text": "what is up"}],
            }
        assert len(here.model.live) == 1
        assert [message["role"] for message in await here.messages()] == ["user", "assistant"] * 2
        assert (await here.bridge.history(ME, CHAT)).title == "what is up"


async def test_a_noise_is_not_thought_about_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_NOISE_PATIENCE", 0.0)
    async with house([], manner=Manner(hears=lambda sound: "")) as here:
        await here.link.activity(start=True)
        assert here.link.audio(SECOND)
        await here.link.activity(start=False)
        await here.ear.until(lambda ear: ear.states[-2:] == ["thinking", "listening"])
        assert await here.messages() == []


async def test_nobody_thinks_about_silence() -> None:
    async with house([[Say("Yes?")]]) as here:
        await here.link.activity(start=True)
        await here.link.activity(start=False)
        assert here.ear.states == []
        assert (await (await here.say("hello")).rest()).text == "Yes?"


@pytest.mark.parametrize("modality", MODALITIES)
async def test_interrupt_keeps_what_was_said(modality: Modality) -> None:
    hold = asyncio.Event()
    async with house([[Say("One two three "), Wait(hold), Say("four")], [Say("Next.")]], modality) as here:
        answer = await here.say("count")
        await answer.until(lambda me: "three" in me.text)
        await here.link.interrupt()
        await answer.rest()
        assert answer.text == "One two three "
        assert answer.plain[-1]["finishReason"] == "interrupted"
        assert answer.message["metadata"]["ended"] == "interrupted"
        assert "abort" not in answer.types
        assert [run for run, *_ in here.ear.interruptions] == [answer.run.id]
        hold.set()
        after = await (await here.say("go on")).rest()
        assert after.text == "Next."
        assert len(here.model.live) == 1
        await here.agrees_with(answer, after)


async def test_interrupt_while_it_thinks() -> None:
    hold = asyncio.Event()
    async with house([[Wait(hold), Say("Late.")]]) as here:
        answer = await here.say("hm")
        await (await here.model.connected()).until(lambda it: it.history)
        await here.link.interrupt()
        await answer.rest()
        assert answer.plain[-1]["finishReason"] == "interrupted"
        hold.set()
        after = await (await here.say("again")).rest()
        assert after.text == "Late."
        await here.agrees_with(answer, after)


async def test_what_was_not_heard_is_not_kept() -> None:
    hold = asyncio.Event()
    async with house([[Say("alpha beta gamma delta "), Wait(hold)], [Say("Next.")]]) as here:
        answer = await here.say("speak")
        await answer.until(lambda me: "delta" in me.text)
        generation, position, size, _ = here.ear.sounds[-1]
        here.link.played(generation, (position + size // 48) // 2)
        await here.link.interrupt()
        await answer.rest()
        assert here.ear.interruptions[-1][2] == "alpha beta "
        assert (await here.messages())[-1]["parts"][-1]["text"] == "alpha beta "
        await (await here.say("go on")).rest()
        model_said = [c for c in here.model.requests[-1] if c.role == "model"]
        assert model_said


@pytest.mark.parametrize("modality", MODALITIES)
async def test_stop_in_mid_text(modality: Modality) -> None:
    hold = asyncio.Event()
    async with house([[Say("One two "), Wait(hold), Say("three")], [Say("Next.")]], modality) as here:
        answer = await here.say("count")
        await answer.until(lambda me: "two" in me.text)
        assert await here.bridge.stop(ME, CHAT, answer.run.id)
        await answer.rest()
        assert answer.types[-3:] == ["finish-step", "abort", "finish"]
        hold.set()
        after = await (await here.say("go on")).rest()
        assert after.text == "Next."
        await here.agrees_with(answer, after)


@pytest.mark.parametrize("modality", MODALITIES)
async def test_typing_over_a_running_answer(modality: Modality) -> None:
    hold = asyncio.Event()
    async with house([[Say("One two "), Wait(hold), Say("three")], [Say("Next.")]], modality) as here:
        answer = await here.say("count")
        await answer.until(lambda me: "two" in me.text)
        after = await (await here.say("other")).rest()
        await answer.rest()
        assert (answer.text, after.text) == ("One two ", "Next.")
        await here.agrees_with(answer, after)
        assert [message["role"] for message in await here.messages()] == ["user", "assistant"] * 2


async def test_speaking_over_a_running_answer() -> None:
    hold = asyncio.Event()
    manner = Manner(hears=lambda sound: "stop that")
    async with house([[Say("One two "), Wait(hold), Say("three")], [Say("Sorry.")]], manner=manner) as here:
        answer = await here.say("count")
        await answer.until(lambda me: "two" in me.text)
        await here.link.activity(start=True)
        here.link.audio(SECOND)
        await here.link.activity(start=False)
        await answer.rest()
        assert answer.plain[-1]["finishReason"] == "interrupted"
        await here.ear.until(lambda ear: ear.turns)
        spoken = await Reader(here.bridge, here.ear.turns[0][0]).rest()
        assert spoken.text == "Sorry."
        await here.agrees_with(answer, spoken)
        texts = [
            part["text"] for message in await here.messages() for part in message["parts"] if part["type"] == "text"
        ]
        assert texts == ["count", "One two ", "stop that", "Sorry."]


async def test_a_model_that_fails() -> None:
    async with house([[Say("One "), Fail(RuntimeError("boom"))], [Say("Next.")]]) as here:
        answer = await (await here.say("count")).rest()
        assert answer.types[-1] == "error"
        after = await (await here.say("again")).rest()
        assert after.text == "Next."
        await here.agrees_with(after)
        assert len(here.model.live) == 2
        said = [content for content in here.model.requests[-1] if content.role == "user"]
        assert len(said) == 2


async def test_a_model_that_fails_before_its_first_word() -> None:
    async with house([[Fail(RuntimeError("boom"))]]) as here:
        answer = await (await here.say("count")).rest()
        assert answer.types == ["start", "message-metadata", "error"]
        messages = await here.messages()
        assert [message["role"] for message in messages] == ["user", "assistant"]
        assert messages[1]["parts"] == []


async def test_a_lost_connection_is_an_error_of_its_turn() -> None:
    async with house([[Say("One "), Drop(1011)], [Say("Next.")]]) as here:
        answer = await (await here.say("count")).rest()
        assert answer.types[-1] == "error"
        assert (await (await here.say("again")).rest()).text == "Next."


async def test_http_waits_for_the_socket_to_go() -> None:
    async with house([[Say("One.")], [Say("Two.")]]) as here:
        await (await here.say("hi")).rest()
        with pytest.raises(Conflict):
            await here.type("now")
        here.link.leave()
        answer = await (await here.type("now")).rest()
        assert answer.text == "Two."
        assert (await here.bridge.history(ME, CHAT)).active is None


async def test_regeneration_is_not_offered() -> None:
    async with house([[Say("One.")]]) as here:
        await (await here.say("hi")).rest()
        with pytest.raises(Unprocessable):
            await here.link.send(TurnInput(chat=CHAT, message=None, trigger="regenerate-message", replaces="user-1"))


async def test_regenerating_afterwards_rewinds_one_turn() -> None:
    async with house([[Say("One.")], [Say("Two.")], [Say("Three.")]]) as here:
        for text in ("a", "b"):
            await (await here.say(text)).rest()
        await here.link.close()
        turn = TurnInput(chat=CHAT, message=None, trigger="regenerate-message", replaces="user-2")
        await Reader(here.bridge, await here.bridge.start(ME, turn)).rest()
        said = [
            content.parts[0].text for content in here.model.requests[-1] if content.parts and content.role == "user"
        ]
        assert said == ["a", "b"]


async def test_two_clients_and_one_microphone() -> None:
    async with house([[Say("Hi.")]], manner=Manner(hears=lambda sound: "hello")) as here:
        other = Ear()
        second = await here.join(other)
        await here.link.activity(start=True)
        assert not second.audio(SECOND)
        await second.activity(start=True)
        assert here.ear.notices == ["taken-over"]
        assert not here.link.audio(SECOND)
        assert second.audio(SECOND)
        await second.activity(start=False)
        await other.until(lambda ear: ear.turns)
        await Reader(here.bridge, other.turns[0][0]).rest()
        assert here.ear.turns
        assert len(other.sounds) == len(here.ear.sounds)


async def test_the_same_message_again_runs_once() -> None:
    async with house([[Say("One.")]]) as here:
        turn = here.message("hi")
        first = await here.link.send(turn)
        again = await here.link.send(turn)
        assert first.run is again.run
        await Reader(here.bridge, first.run).rest()
        assert (await here.link.send(turn)).run is first.run


async def test_nothing_is_left_of_many_that_come_and_go() -> None:
    async with house([[Say("One.")]], joined=False, live_grace=0) as here:
        before = len(asyncio.all_tasks())
        for _ in range(100):
            link = await here.join(Ear())
            link.leave()
        async with asyncio.timeout(PATIENCE):
            while here.bridge.live.count or len(asyncio.all_tasks()) > before:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)


@pytest.mark.parametrize("turns_of_the_loop", range(0, 40, 4))
async def test_hanging_up_while_a_spoken_turn_begins(turns_of_the_loop: int) -> None:
    async with house([[Say("Not much.")]], manner=Manner(hears=lambda sound: "what is up")) as here:
        await here.link.activity(start=True)
        here.link.audio(SECOND)
        await here.link.activity(start=False)
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            await here.link.close()
        assert here.bridge.live.count == 0
        assert here.bridge.running(ME, CHAT) is None


async def test_a_store_that_is_away_when_a_spoken_turn_begins() -> None:
    async with house([[Say("Hi.")], [Say("Lost.")]], manner=Manner(hears=lambda sound: "what is up")) as here:
        await (await here.say("hi")).rest()
        signals = here.bridge._signals  # pyright: ignore[reportPrivateUsage]
        acquire = signals.acquire

        async def away(name: str) -> str | None:
            raise Unavailable(f"no {name}")

        signals.acquire = away
        await here.link.activity(start=True)
        here.link.audio(SECOND)
        await here.link.activity(start=False)
        await here.ear.until(lambda ear: "unavailable" in ear.notices)
        signals.acquire = acquire
        async with asyncio.timeout(PATIENCE):
            await here.link.close()
        assert here.bridge.live.count == 0
