"""The emulator's Live sessions with ADK's `run_live` and ADK's own `Gemini` class."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest
from google.genai import types
from google.genai.errors import APIError

from adkwire.testing import (
    Call,
    Drop,
    Frame,
    GeminiEmulator,
    GeminiLiveStep,
    Generated,
    GoAway,
    Hear,
    Interrupt,
    LiveTurn,
    Resumption,
    Say,
    Send,
    Show,
    Sound,
    Think,
    Wait,
)
from tests.testing.gemini.gemini_live_run import (
    BOTH,
    GEMINI_3,
    GEMINI_25,
    MANUAL,
    PATIENCE,
    RESUMABLE,
    live_run,
    user_content,
)

# ADK sends to a 2.5 model by a method that google-genai has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:The `session.send` method is deprecated:DeprecationWarning")

PCM = b"\x01\x00" * 1600
HEARD = types.Blob(mime_type="audio/pcm;rate=16000", data=PCM)
OUT = "sound audio/pcm;rate=24000"


def weather(city: str) -> dict[str, str]:
    """Get the weather of a city."""
    return {"city": city, "condition": "sunny"}


def news() -> dict[str, str]:
    """Get the news."""
    return {"news": "none"}


def forever() -> Wait:
    return Wait(asyncio.Event())


def turns(*script: Iterable[GeminiLiveStep]) -> GeminiEmulator:
    return GeminiEmulator(live=script)


@pytest.mark.parametrize("model", BOTH)
async def test_text(model: str) -> None:
    async with turns([Think("Hm."), Say("Hello you.")]) as gemini, live_run(gemini, model) as run:
        run.queue.send_content(user_content("hi"))
        await run.until("turn_complete")
        assert run.summaries == [
            "thought~ Hm.",
            "thought Hm.",
            "text~ Hello ",
            "text~ you.",
            "usage",
            "text Hello you.",
            "turn_complete",
        ]
        assert bool(run.events[-1].grounding_metadata is not None) == (model == GEMINI_3)
    [session] = gemini.live.sessions
    assert (session.model, session.setup["generationConfig"]) == (model, {"responseModalities": ["TEXT"]})
    [written] = session.received("text" if model == GEMINI_3 else "content")
    assert "hi" in str(written.data)


@pytest.mark.parametrize("model", BOTH)
async def test_speech_and_both_transcripts(model: str) -> None:
    script = [Hear("what time"), Sound(b"\x05\x00" * 10, "It is "), Say("noon.")]
    async with (
        turns(script) as gemini,
        live_run(gemini, model, modality="AUDIO", realtime_input_config=MANUAL) as run,
    ):
        run.queue.send_activity_start()
        run.queue.send_realtime(HEARD)
        run.queue.send_activity_end()
        await run.until("turn_complete")
        spoken = [OUT, "model~ It ", "model~ is ", OUT, "model~ noon."]
        second = ["user~ what ", "user~ time", *spoken, "user what time", "model It is noon."]
        third = ["user what time", *spoken, "model It is noon."]
        assert run.summaries == [*(third if model == GEMINI_3 else second), "usage", "turn_complete"]
    [session] = gemini.live.sessions
    assert session.audio == PCM
    assert session.contents == [
        {"role": "user", "parts": [{"text": "what time"}]},
        {"role": "model", "parts": [{"text": "It is noon."}]},
    ]


async def test_a_transcript_that_comes_late_or_finished() -> None:
    late: list[GeminiLiveStep] = [Say("Noon."), Hear("what time", finished=True)]
    async with (
        turns(late) as gemini,
        live_run(gemini, GEMINI_25, modality="AUDIO", realtime_input_config=MANUAL) as run,
    ):
        run.queue.send_activity_start()
        run.queue.send_realtime(HEARD)
        run.queue.send_activity_end()
        await run.until("turn_complete")
        expected = [OUT, "model~ Noon.", "user~ what ", "user~ time", "user what time", "model Noon."]
        assert run.summaries[:-2] == expected


@pytest.mark.parametrize("modality", ["TEXT", "AUDIO"])
@pytest.mark.parametrize("model", BOTH)
async def test_a_tool(model: str, modality: str) -> None:
    script = [[Call("weather", {"city": "Oslo"}, "c1")], [Say("Sunny.")]]
    async with turns(*script) as gemini, live_run(gemini, model, modality=modality, tools=[weather]) as run:
        run.queue.send_content(user_content("weather?"))
        await run.until("turn_complete", 1 if model == GEMINI_3 else 2)
        answer = ["text~ Sunny.", "usage", "text Sunny."]
        if modality == "AUDIO":
            answer = [OUT, "model~ Sunny.", "model Sunny.", "usage"]
        # A 2.5 model ends its turn with the call, and ADK tells of the call only then.
        before = [] if model == GEMINI_3 else ["usage"]
        between = [] if model == GEMINI_3 else ["turn_complete"]
        assert run.summaries == [*before, "call weather", "response weather", *between, *answer, "turn_complete"]
    [session] = gemini.live.sessions
    assert session.tools == ["weather"]
    assert session.responses == [
        {"id": "c1", "name": "weather", "response": {"city": "Oslo", "condition": "sunny"}},
    ]


@pytest.mark.parametrize("model", BOTH)
async def test_two_tools_at_once(model: str) -> None:
    script = [[Say("A moment."), Call("weather", {"city": "Oslo"}), Call("news")], [Say("Both.")]]
    async with turns(*script) as gemini, live_run(gemini, model, tools=[weather, news]) as run:
        run.queue.send_content(user_content("all of it"))
        await run.until("text Both.")
        assert [word for word in run.summaries if word.startswith(("call", "response"))] == [
            "call weather",
            "call news",
            "response weather",
            "response news",
        ]
    [session] = gemini.live.sessions
    assert len([message for message in session.sent if "toolCall" in message]) == 1
    assert [response["id"] for response in session.responses] == ["function-call-1", "function-call-2"]


@pytest.mark.parametrize("modality", ["TEXT", "AUDIO"])
@pytest.mark.parametrize("model", BOTH)
async def test_speech_interrupts_the_model(model: str, modality: str) -> None:
    script: list[list[GeminiLiveStep]] = [[Say("One two "), forever(), Say("three.")], [Hear("stop"), Say("Yes?")]]
    async with (
        turns(*script) as gemini,
        live_run(gemini, model, modality=modality, realtime_input_config=MANUAL) as run,
    ):
        run.queue.send_content(user_content("count"))
        await run.until("text~ two " if modality == "TEXT" else "model~ two ")
        run.queue.send_activity_start()
        await run.until("turn_complete")
        cut = ["text One two ", "interrupted"] if modality == "TEXT" else ["model One two ", "interrupted"]
        assert run.summaries[-4:] == [*cut, "usage", "turn_complete"]
        assert not run.events[-1].interrupted
        run.queue.send_realtime(HEARD)
        run.queue.send_activity_end()
        await run.until("turn_complete", 2)
    [session] = gemini.live.sessions
    assert [content["parts"][0]["text"] for content in session.contents] == ["count", "One two ", "stop", "Yes?"]


@pytest.mark.parametrize("model", BOTH)
async def test_a_text_interrupts_the_model(model: str) -> None:
    script: list[list[GeminiLiveStep]] = [[Say("One "), forever()], [Say("Yes?")]]
    async with turns(*script) as gemini, live_run(gemini, model) as run:
        run.queue.send_content(user_content("count"))
        await run.until("text~ One ")
        run.queue.send_content(user_content("stop"))
        await run.until("turn_complete", 2)
        assert [word for word in run.summaries if word.startswith("text ")] == ["text One ", "text Yes?"]
        assert run.summaries.count("interrupted") == 1


async def test_an_activity_without_sound_ends_speech_and_gets_no_answer() -> None:
    asked: list[LiveTurn] = []

    def script(turn: LiveTurn) -> list[GeminiLiveStep]:
        asked.append(turn)
        return [Say("One "), forever()] if turn.text == "count" else [Say("Fine.")]

    async with (
        GeminiEmulator(live=script) as gemini,
        live_run(gemini, GEMINI_3, realtime_input_config=MANUAL) as run,
    ):
        run.queue.send_content(user_content("count"))
        await run.until("text~ One ")
        run.queue.send_activity_start()
        run.queue.send_activity_end()
        await run.until("turn_complete")
        run.queue.send_content(user_content("again"))
        await run.until("turn_complete", 2)
    assert [(turn.number, turn.text) for turn in asked] == [(0, "count"), (1, "again")]


async def test_the_model_detects_an_interruption_itself() -> None:
    async with turns([Say("One "), Interrupt()]) as gemini, live_run(gemini, GEMINI_3) as run:
        run.queue.send_content(user_content("count"))
        await run.until("turn_complete")
        assert run.summaries[-4:] == ["text One ", "interrupted", "usage", "turn_complete"]


async def test_a_turn_goes_on_after_everything_is_generated() -> None:
    script: list[GeminiLiveStep] = [Say("One."), Generated(), forever()]
    async with (
        turns(script) as gemini,
        live_run(gemini, GEMINI_3, modality="AUDIO", realtime_input_config=MANUAL) as run,
    ):
        run.queue.send_content(user_content("count"))
        await run.until("model One.")
        run.queue.send_activity_start()
        await run.until("turn_complete")
        assert run.summaries[-4:] == ["model One.", "interrupted", "usage", "turn_complete"]


@pytest.mark.parametrize("model", BOTH)
async def test_go_away_and_reconnect_with_a_handle(model: str) -> None:
    asked: list[LiveTurn] = []

    def script(turn: LiveTurn) -> list[GeminiLiveStep]:
        asked.append(turn)
        return [Say(f"{turn.number}: {turn.text}")]

    async with GeminiEmulator(live=script) as gemini, live_run(gemini, model, session_resumption=RESUMABLE) as run:
        run.queue.send_content(user_content("first"))
        await run.until("resumption", 2)
        await gemini.live.sessions[0].do(GoAway())
        await run.until("resumption", 3)
        run.queue.send_content(user_content("second"))
        await run.until("turn_complete", 2)
        assert [word for word in run.summaries if word.startswith("text ")] == ["text 0: first", "text 1: second"]
    first, second = gemini.live.sessions
    assert (first.resumed, second.resumed) == (None, "handle-2")
    assert not second.received("history")
    assert first.received("closed")[0].data == {"code": 1000}
    assert [content["parts"][0]["text"] for content in asked[1].contents] == ["first", "0: first", "second"]


@pytest.mark.parametrize("code", [1006, 1011])
@pytest.mark.parametrize("model", BOTH)
async def test_a_drop_in_mid_turn_loses_the_turn(model: str, code: int) -> None:
    def script(turn: LiveTurn) -> list[GeminiLiveStep]:
        return [Say("Par"), Drop(code)] if turn.text == "first" else [Say("Here.")]

    async with GeminiEmulator(live=script) as gemini, live_run(gemini, model, session_resumption=RESUMABLE) as run:
        run.queue.send_content(user_content("first"))
        await run.until("resumption", 2)
        assert run.summaries == ["resumption", "text~ Par", "resumption"]
        run.queue.send_content(user_content("second"))
        await run.until("text Here.")
    assert [session.resumed for session in gemini.live.sessions] == [None, "handle-1"]
    # The handle is older than the question.
    assert [content["parts"][0]["text"] for content in gemini.live.sessions[1].contents] == ["second", "Here."]


@pytest.mark.parametrize("code", [1006, 1011, 1008])
async def test_a_drop_without_a_handle(code: int) -> None:
    async with turns([Say("Par"), Drop(code, "some words")]) as gemini, live_run(gemini, GEMINI_3) as run:
        run.queue.send_content(user_content("hi"))
        with pytest.raises(APIError) as raised:
            await run.ended()
    assert raised.value.code == code
    assert len(gemini.live.sessions) == 1


async def test_an_empty_update_takes_the_handle_away() -> None:
    script: list[list[GeminiLiveStep]] = [[Say("One."), Resumption(resumable=False), Drop(1011)]]
    async with turns(*script) as gemini, live_run(gemini, GEMINI_3, session_resumption=RESUMABLE) as run:
        run.queue.send_content(user_content("hi"))
        with pytest.raises(APIError) as raised:
            await run.ended()
        updates = [event.live_session_resumption_update for event in run.events]
    assert raised.value.code == 1011
    assert [update.new_handle for update in updates if update] == ["handle-1", None]


async def test_a_handle_that_was_removed() -> None:
    async with turns([Say("One.")]) as gemini, live_run(gemini, GEMINI_3, session_resumption=RESUMABLE) as run:
        run.queue.send_content(user_content("hi"))
        await run.until("resumption", 2)
        gemini.live.handles.clear()
        await gemini.live.sessions[0].do(GoAway())
        with pytest.raises(APIError, match="session not found") as raised:
            await run.ended()
    assert raised.value.code == 1008
    assert gemini.live.sessions[1].resumed == "handle-2"


@pytest.mark.parametrize("model", BOTH)
async def test_the_end_of_a_connection_stops_the_turn(model: str) -> None:
    def turns_played() -> list[asyncio.Task[Any]]:
        return [task for task in asyncio.all_tasks() if task.get_name() == "gemini-emulator-live"]

    async with turns([Say("One "), forever()]) as gemini:
        async with live_run(gemini, model) as run:
            run.queue.send_content(user_content("count"))
            await run.until("text~ One ")
            assert len(turns_played()) == 1
        await asyncio.wait_for(gemini.live.received("closed"), PATIENCE)
        assert turns_played() == []


async def test_setups_are_refused() -> None:
    async with turns([Say("Never.")]) as gemini:
        gemini.live.refusing = Drop(1007, "Request contains an invalid argument.")
        async with live_run(gemini, GEMINI_3) as run:
            with pytest.raises(APIError, match="invalid argument"):
                await run.ended()
    assert [each.kind for each in gemini.live.log] == ["setup", "closed"]


MODEL = types.Content(role="model", parts=[types.Part(text="Hello.")])


@pytest.mark.parametrize("model", BOTH)
async def test_a_history_that_ends_with_the_user_is_answered(model: str) -> None:
    asked: list[LiveTurn] = []

    def script(turn: LiveTurn) -> list[GeminiLiveStep]:
        asked.append(turn)
        return [Say("Here.")]

    before = [user_content("hi"), MODEL, user_content("are you there?")]
    async with GeminiEmulator(live=script) as gemini, live_run(gemini, model, before=before) as run:
        await run.until("text Here.")
        run.queue.send_content(user_content("good"))
        await run.until("turn_complete", 2)
    assert [(turn.number, turn.text) for turn in asked] == [(1, "are you there?"), (2, "good")]
    [history] = gemini.live.sessions[0].received("history")
    assert history.data["turnComplete"] is True
    assert [content["parts"][0]["text"] for content in history.data["turns"]] == ["hi", "Hello.", "are you there?"]


@pytest.mark.parametrize("model", BOTH)
async def test_a_history_that_ends_with_the_model_waits(model: str) -> None:
    async with turns([], [Say("Good.")]) as gemini, live_run(gemini, model, before=[user_content("hi"), MODEL]) as run:
        [history] = await gemini.live.received("history")
        run.queue.send_content(user_content("more"))
        await run.until("turn_complete")
        assert [word for word in run.summaries if word.startswith("text ")] == ["text Good."]
    assert history.data["turnComplete"] is False


async def test_adk_leaves_out_a_call_that_has_no_response() -> None:
    call = types.Part(function_call=types.FunctionCall(name="weather", args={}, id="c1"))
    before = [user_content("hi"), types.Content(role="model", parts=[call]), user_content("well?")]
    async with GeminiEmulator([]) as gemini, live_run(gemini, GEMINI_25, before=before) as run:
        await run.until("text You said: well?")
    assert "functionCall" not in str(gemini.live.sessions[0].received("history")[0].data)


async def test_marks_of_activity_need_manual_detection() -> None:
    async with turns([Say("Never.")]) as gemini, live_run(gemini, GEMINI_3) as run:
        run.queue.send_activity_start()
        with pytest.raises(APIError, match="automatic activity detection") as raised:
            await run.ended()
    assert raised.value.code == 1007
    assert not gemini.live.sessions[0].received("activityStart")


@pytest.mark.parametrize("model", BOTH)
async def test_with_automatic_detection_speech_ends_with_the_stream(model: str) -> None:
    asked: list[LiveTurn] = []

    def script(turn: LiveTurn) -> list[GeminiLiveStep]:
        asked.append(turn)
        return [Say("I see.")]

    picture = types.Blob(mime_type="image/jpeg", data=b"\xff\xd8\xfb")
    async with GeminiEmulator(live=script) as gemini, live_run(gemini, model) as run:
        run.queue.send_realtime(picture)
        run.queue.send_realtime(HEARD)
        run.queue.send_realtime(HEARD)
        await gemini.live.received("audio", 2)
        run.queue.send_audio_stream_end()
        await run.until("turn_complete")
    [turn] = asked
    assert (turn.sound, turn.frames) == (PCM * 2, [Frame("image/jpeg", b"\xff\xd8\xfb")])
    assert len(gemini.live.sessions[0].received("audioStreamEnd")) == 1


async def test_audio_outside_an_activity_is_ignored() -> None:
    async with (
        GeminiEmulator(live=lambda turn: [Say(f"{len(turn.sound)}")]) as gemini,
        live_run(gemini, GEMINI_3, realtime_input_config=MANUAL) as run,
    ):
        run.queue.send_realtime(HEARD)
        await gemini.live.received("audio")
        run.queue.send_content(user_content("hi"))
        await run.until("text 0")
    assert gemini.live.sessions[0].audio == PCM


@pytest.mark.parametrize("discards", [True, False])
async def test_calls_and_interruption(discards: bool) -> None:
    release = asyncio.Event()

    async def slow() -> str:
        """Take a while."""
        await release.wait()
        return "done"

    def script(turn: LiveTurn) -> list[GeminiLiveStep]:
        if turn.responses:
            return [Say("Late.")]
        return [Call("slow", id="c1")] if turn.text == "go" else [Say("Next.")]

    async with (
        GeminiEmulator(live=script) as gemini,
        live_run(gemini, GEMINI_3, tools=[slow], realtime_input_config=MANUAL) as run,
    ):
        gemini.live.discards = discards
        run.queue.send_content(user_content("go"))
        await run.until("call slow")
        run.queue.send_activity_start()
        await gemini.live.received("activityStart")
        release.set()
        await gemini.live.received("toolResponse")
        await run.until("turn_complete", 1 if discards else 2)
        run.queue.send_content(user_content("next"))
        await run.until("text Next.")
        assert ("text Late." in run.summaries) is not discards
    cancelled = [message for message in gemini.live.sessions[0].sent if "toolCallCancellation" in message]
    assert cancelled == ([{"toolCallCancellation": {"ids": ["c1"]}}] if discards else [])


async def test_images_and_raw_messages() -> None:
    script: list[GeminiLiveStep] = [
        Show("image/png", b"\x89PNG"),
        Send({"voiceActivity": {"voiceActivityType": "ACTIVITY_START"}}),
        Say("Look."),
    ]
    async with turns(script) as gemini, live_run(gemini, GEMINI_25) as run:
        run.queue.send_content(user_content("show me"))
        await run.until("turn_complete")
        assert run.summaries[0] == "sound image/png"
        assert [event.voice_activity for event in run.events if event.voice_activity]


async def test_without_a_script_it_repeats_what_it_hears() -> None:
    async with (
        GeminiEmulator([]) as gemini,
        live_run(gemini, GEMINI_3, tools=[weather, news], realtime_input_config=MANUAL) as run,
    ):
        run.queue.send_content(user_content("hello"))
        await run.until("text You said: hello")
        run.queue.send_content(user_content('call weather {"city": "Oslo"} and call news and call nobody'))
        await run.until("text Done: weather, news.")
        run.queue.send_activity_start()
        run.queue.send_realtime(HEARD)
        run.queue.send_activity_end()
        await run.until("text I heard 100 ms of sound.")
        assert "user 100 ms of sound" in run.summaries


async def test_many_sessions_at_once() -> None:
    async def ask(gemini: GeminiEmulator, number: int) -> None:
        async with live_run(gemini, BOTH[number % 2]) as run:
            run.queue.send_content(user_content(f"I am {number}"))
            await run.until(f"text You said: I am {number}")
            run.queue.send_content(user_content("more"))
            await run.until("text You said: more")

    async with GeminiEmulator([]) as gemini:
        await asyncio.gather(*(ask(gemini, number) for number in range(6)))
        await asyncio.wait_for(gemini.live.received("closed", 6), PATIENCE)
    assert sorted(len(session.contents) for session in gemini.live.sessions) == [4] * 6


async def test_a_script_that_is_too_short_or_fails() -> None:
    def failing(turn: LiveTurn) -> list[GeminiLiveStep]:
        raise KeyError(turn.text)

    for emulator, words in ((turns(), "one more"), (GeminiEmulator(live=failing), "KeyError")):
        async with emulator as gemini, live_run(gemini, GEMINI_3) as run:
            run.queue.send_content(user_content("hi"))
            with pytest.raises(APIError, match=words):
                await run.ended()


async def test_a_script_with_text_behind_a_call_is_refused() -> None:
    script = [Call("weather", {"city": "Oslo"}), Say("Never.")]
    async with turns(script) as gemini, live_run(gemini, GEMINI_3, tools=[weather]) as run:
        run.queue.send_content(user_content("hi"))
        with pytest.raises(APIError, match="follows a call"):
            await run.ended()


PROGRAM = """
import asyncio
from google.adk.agents import LiveRequestQueue, LlmAgent
from google.adk.runners import InMemoryRunner
from google.genai import types

async def main():
    runner = InMemoryRunner(agent=LlmAgent(name="helper", model="gemini-3.1-flash-live-preview"), app_name="live")
    session = await runner.session_service.create_session(app_name="live", user_id="ann")
    queue = LiveRequestQueue()
    queue.send_content(types.Content(role="user", parts=[types.Part(text="hi")]))
    async for event in runner.run_live(user_id="ann", session_id=session.id, live_request_queue=queue):
        if event.output_transcription and event.output_transcription.finished:
            print(event.output_transcription.text)
        if event.turn_complete:
            queue.close()

asyncio.run(main())
"""


def test_environment_variables_make_a_process_use_it() -> None:
    with GeminiEmulator(live=[[Say("Hello.")]]) as gemini:
        environment: dict[str, Any] = {**os.environ, **gemini.environment, "NO_PROXY": "127.0.0.1"}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.stdout.strip(), done.returncode) == ("Hello.", 0), done.stderr
