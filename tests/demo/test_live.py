import array
import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.genai import types

from adkwire.demo import agent as demo
from adkwire.demo import voice
from adkwire.demo.model import OfflineModel, answer, read_turn
from adkwire.testing import Say
from tests.testing.live_talk import SECOND, LiveTalk, told, words


def demo_agent() -> LlmAgent:
    agent = demo.build_agent({})
    assert isinstance(agent.model, OfflineModel)
    agent.model.delay = 0
    return agent


@pytest.fixture
async def talk() -> AsyncIterator[LiveTalk]:
    async with LiveTalk(demo_agent(), "AUDIO") as talk:
        yield talk


async def turn(talk: LiveTalk) -> list[Event]:
    return await talk.until(lambda event: event.turn_complete)


def spoken(events: list[Event]) -> str:
    """The answer as its pieces say it, which is what its end says too."""
    pieces = [words(event) or "" for event in events if event.output_transcription and event.partial]
    [whole] = [words(event) or "" for event in events if event.output_transcription and not event.partial]
    assert whole == "".join(pieces)
    return whole


def sound(events: list[Event]) -> bytes:
    parts = [part for event in events if event.content for part in event.content.parts or []]
    return b"".join(part.inline_data.data or b"" for part in parts if part.inline_data)


async def test_typed_text_is_answered_in_words_and_with_a_tone(talk: LiveTalk) -> None:
    talk.type("weather in Tokyo")
    events = await turn(talk)
    assert told(events)[:2] == ["call get_weather", "result get_weather"]
    assert spoken(events).startswith("In Tokyo it is 28 °C")
    assert sound(events) == b"".join(voice.tone(word) for word in spoken(events).split(" "))


async def test_in_text_there_is_no_tone() -> None:
    async with LiveTalk(demo_agent()) as talk:
        talk.type("count to 3")
        assert await talk.turn() == ["text~ 1 ", "text~ 2 ", "text~ 3", "text= 1 2 3", "usage", "end"]


async def test_it_says_how_long_somebody_spoke(talk: LiveTalk) -> None:
    talk.speak(SECOND + SECOND[:16_000])
    events = await turn(talk)
    assert [words(event) for event in events if event.input_transcription][-1] == "(1.5 seconds of sound)"
    assert spoken(events).startswith("I heard 1.5 seconds of sound, ")


async def test_it_says_so_in_the_language_of_the_conversation(talk: LiveTalk) -> None:
    talk.type("3まで数えて")
    await turn(talk)
    for _ in range(2):
        talk.speak()
        events = await turn(talk)
        assert [words(event) for event in events if event.input_transcription][-1] == "(1.0秒の音声)"
        assert spoken(events).startswith("1.0秒の音声が聞こえましたが")


async def test_it_can_be_interrupted() -> None:
    agent = demo_agent()
    assert isinstance(agent.model, OfflineModel)
    agent.model.delay = 0.03
    async with LiveTalk(agent) as talk:
        talk.type("count to 1000")
        await talk.until(lambda event: event.partial)
        talk.type("count to 2")
        assert (await talk.turn())[-1] == "end!"
        assert await talk.turn() == ["text~ 1 ", "text~ 2", "text= 1 2", "usage", "end"]


async def test_usage_is_counted(talk: LiveTalk) -> None:
    talk.type("count to 3, please")
    [usage] = [event.usage_metadata for event in await turn(talk) if event.usage_metadata]
    assert (usage.prompt_token_count, usage.candidates_token_count) == (4, 3)


async def test_one_instance_talks_to_several_people() -> None:
    agent = demo_agent()
    talks = [LiveTalk(agent, session_id=str(number)) for number in (2, 3)]
    async with talks[0], talks[1]:
        for talk in talks:
            talk.type(f"count to {talk.session_id}")
        outcomes = await asyncio.gather(*(talk.turn() for talk in talks))
    assert [outcome[-3] for outcome in outcomes] == ["text= 1 2", "text= 1 2 3"]


def test_a_result_that_comes_behind_what_was_said_meanwhile_is_told_with_the_answer() -> None:
    call = types.Part(function_call=types.FunctionCall(name="change_bgm", args={"track": 1}))
    response = types.Part(function_response=types.FunctionResponse(name="change_bgm", response={"track": 1}))
    contents = [
        types.Content(role="user", parts=[types.Part(text="play track 1")]),
        types.Content(role="model", parts=[call]),
        types.Content(role="user", parts=[types.Part(text="count to 3")]),
        types.Content(role="user", parts=[response]),
    ]
    assert answer(read_turn(contents), ["change_bgm"]) == [Say("Track 1 is playing now."), Say("\n\n1 2 3")]


@pytest.mark.parametrize("text", ["a", "Tokyo ", "。", "a very long word without an end indeed"])
def test_a_tone_is_short_soft_and_begins_and_ends_in_silence(text: str) -> None:
    samples = array.array("h", voice.tone(text))
    assert 0.1 <= len(samples) / voice.RATE <= 0.5
    assert 500 < max(map(abs, samples)) < 2_000
    assert (samples[0], samples[-1]) == (0, 0)
    assert max(abs(a - b) for a, b in itertools.pairwise(samples)) < 250


def test_a_tone_is_the_same_for_the_same_word_and_not_for_every_word() -> None:
    assert voice.tone("Tokyo") == voice.tone("Tokyo ")
    assert len({voice.tone(word) for word in ("one", "two", "six", "ten", "red", "sea")}) > 1
    assert voice.tone("\n\n") == b""
