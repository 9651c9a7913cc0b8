import array
import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.genai import types

from adkwire.demo import agent as demo
from adkwire.demo import tones
from adkwire.demo.offline_model import OfflineModel, answer, read_turn
from adkwire.testing import Say
from tests.testing.agent_live_run import ONE_SECOND, AgentLiveRun, summaries, words


def demo_agent() -> LlmAgent:
    agent = demo.build_agent({})
    assert isinstance(agent.model, OfflineModel)
    agent.model.delay = 0
    return agent


@pytest.fixture
async def run() -> AsyncIterator[AgentLiveRun]:
    async with AgentLiveRun(demo_agent(), "AUDIO") as run:
        yield run


async def turn(run: AgentLiveRun) -> list[Event]:
    return await run.until(lambda event: event.turn_complete)


def spoken(events: list[Event]) -> str:
    """The answer as its pieces say it, which is what its end says too."""
    pieces = [words(event) or "" for event in events if event.output_transcription and event.partial]
    [whole] = [words(event) or "" for event in events if event.output_transcription and not event.partial]
    assert whole == "".join(pieces)
    return whole


def sound(events: list[Event]) -> bytes:
    parts = [part for event in events if event.content for part in event.content.parts or []]
    return b"".join(part.inline_data.data or b"" for part in parts if part.inline_data)


async def test_typed_text_is_answered_in_words_and_with_a_tone(run: AgentLiveRun) -> None:
    run.type("weather in Tokyo")
    events = await turn(run)
    assert summaries(events)[:2] == ["call get_weather", "result get_weather"]
    assert spoken(events).startswith("In Tokyo it is 28 °C")
    assert sound(events) == b"".join(tones.tone(word) for word in spoken(events).split(" "))


async def test_text_output_has_no_tone() -> None:
    async with AgentLiveRun(demo_agent()) as run:
        run.type("count to 3")
        assert await run.turn() == ["text~ 1 ", "text~ 2 ", "text~ 3", "text= 1 2 3", "usage", "end"]


async def test_speech_is_answered_with_its_length(run: AgentLiveRun) -> None:
    run.speak(ONE_SECOND + ONE_SECOND[:16_000])
    events = await turn(run)
    assert [words(event) for event in events if event.input_transcription][-1] == "(1.5 seconds of sound)"
    assert spoken(events).startswith("I heard 1.5 seconds of sound, ")


async def test_speech_is_answered_in_the_language_of_the_conversation(run: AgentLiveRun) -> None:
    run.type("3まで数えて")
    await turn(run)
    for _ in range(2):
        run.speak()
        events = await turn(run)
        assert [words(event) for event in events if event.input_transcription][-1] == "(1.0秒の音声)"
        assert spoken(events).startswith("1.0秒の音声が聞こえましたが")


async def test_a_text_interrupts_the_answer() -> None:
    agent = demo_agent()
    assert isinstance(agent.model, OfflineModel)
    agent.model.delay = 0.03
    async with AgentLiveRun(agent) as run:
        run.type("count to 1000")
        await run.until(lambda event: event.partial)
        run.type("count to 2")
        assert (await run.turn())[-1] == "end!"
        assert await run.turn() == ["text~ 1 ", "text~ 2", "text= 1 2", "usage", "end"]


async def test_usage_is_counted(run: AgentLiveRun) -> None:
    run.type("count to 3, please")
    [usage] = [event.usage_metadata for event in await turn(run) if event.usage_metadata]
    assert (usage.prompt_token_count, usage.candidates_token_count) == (4, 3)


async def test_one_instance_serves_live_runs_at_the_same_time() -> None:
    agent = demo_agent()
    runs = [AgentLiveRun(agent, session_id=str(number)) for number in (2, 3)]
    async with runs[0], runs[1]:
        for run in runs:
            run.type(f"count to {run.session_id}")
        outcomes = await asyncio.gather(*(run.turn() for run in runs))
    assert [outcome[-3] for outcome in outcomes] == ["text= 1 2", "text= 1 2 3"]


def test_a_late_result_is_answered_together_with_the_text_that_came_before_it() -> None:
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
    samples = array.array("h", tones.tone(text))
    assert 0.1 <= len(samples) / tones.RATE <= 0.5
    assert 500 < max(map(abs, samples)) < 2_000
    assert (samples[0], samples[-1]) == (0, 0)
    assert max(abs(a - b) for a, b in itertools.pairwise(samples)) < 250


def test_a_tone_is_the_same_for_the_same_word_and_not_for_every_word() -> None:
    assert tones.tone("Tokyo") == tones.tone("Tokyo ")
    assert len({tones.tone(word) for word in ("one", "two", "six", "ten", "red", "sea")}) > 1
    assert tones.tone("\n\n") == b""
