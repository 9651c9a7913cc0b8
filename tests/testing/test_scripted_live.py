import asyncio
from collections.abc import Sequence
from typing import Literal

import pytest
from google.adk.agents import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.function_tool import FunctionTool
from google.genai import errors, types
from websockets.exceptions import ConnectionClosedError

from adkwire.testing import (
    Call,
    Cite,
    Drop,
    ErrorCode,
    Fail,
    GoAway,
    Manner,
    Raw,
    Resumption,
    Say,
    ScriptedModel,
    ScriptExhaustedError,
    Show,
    Source,
    Step,
    Think,
    Wait,
)
from tests.testing.agent_live_run import ONE_SECOND, AgentLiveRun, Modality, seeded, summaries

BLOB = "audio/pcm;rate=24000 1920"
HEARD = ["heard~ (1.0 ", "heard~ seconds ", "heard~ of ", "heard~ sound)", "heard= (1.0 seconds of sound)"]
ADD = Call("add", {"a": 1, "b": 2})


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent(*turns: Sequence[Step], manner: Manner | None = None) -> tuple[LlmAgent, ScriptedModel]:
    model = ScriptedModel(turns=turns, manner=manner or Manner())
    return LlmAgent(name="test", model=model, tools=[add]), model


def user_content(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def model_content(text: str) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=text)])


def tool_response(name: str, **response: object) -> types.Content:
    part = types.Part(function_response=types.FunctionResponse(name=name, response=response))
    return types.Content(role="user", parts=[part])


def shape(contents: Sequence[types.Content]) -> list[str]:
    return [f"{content.role}: {' '.join(_shape(part) for part in content.parts or [])}" for content in contents]


def _shape(part: types.Part) -> str:
    if part.function_call:
        return f"call {part.function_call.name}"
    if part.function_response:
        return f"result {part.function_response.response}"
    return part.text or "media"


async def test_text() -> None:
    root, model = agent([Think("Hm hm."), Say("It is."), Say(" Yes.")], [Say("Bye.")])
    async with AgentLiveRun(root) as run:
        run.type("hi")
        assert await run.turn() == [
            "thought~ Hm ",
            "thought~ hm.",
            "thought= Hm hm.",
            "text~ It ",
            "text~ is.",
            "text~  ",
            "text~ Yes.",
            "text= It is. Yes.",
            "usage",
            "end",
        ]
        run.type("thanks")
        assert await run.turn() == ["text~ Bye.", "text= Bye.", "usage", "end"]
        run.queue.close()
        assert await run.rest() == []
    assert [shape(request) for request in model.requests] == [
        ["user: hi"],
        ["user: hi", "model: Hm hm. It is. Yes.", "user: thanks"],
    ]
    assert model.live[0].closed


async def test_speech() -> None:
    root, _ = agent([Think("Hm."), Say("It is.")])
    async with AgentLiveRun(root, "AUDIO") as run:
        run.type("hi")
        assert await run.turn() == [
            "thought~ Hm.",
            "thought= Hm.",
            "spoken~ It ",
            BLOB,
            "spoken~ is.",
            BLOB,
            "spoken= It is.",
            "usage",
            "end",
        ]


async def test_sound_comes_in_short_pieces() -> None:
    root, _ = agent([Say("Ab")], manner=Manner(speaks=lambda text: b"\1\0" * 1000 * len(text)))
    async with AgentLiveRun(root, "AUDIO") as run:
        run.type("hi")
        assert (await run.turn())[:4] == ["spoken~ Ab", BLOB, BLOB, "audio/pcm;rate=24000 160"]


@pytest.mark.parametrize("modality", ["TEXT", "AUDIO"])
@pytest.mark.parametrize(("dialect", "between"), [("3.x", []), ("2.5", ["usage", "end"])])
async def test_a_call(modality: Modality, dialect: Literal["3.x", "2.5"], between: list[str]) -> None:
    kind, sound = ("text", []) if modality == "TEXT" else ("spoken", [BLOB])
    root, model = agent([Say("Adding."), ADD], [Say("Three.")], manner=Manner(dialect=dialect))
    async with AgentLiveRun(root, modality) as run:
        run.type("add")
        events = await run.turn()
        events += await run.turn() if between else []
    assert events == [
        *[f"{kind}~ Adding.", *sound, f"{kind}= Adding.", "call add", "result add"],
        *between,
        *[f"{kind}~ Three.", *sound, f"{kind}= Three.", "usage", "end"],
    ]
    assert shape(model.requests[1]) == ["user: add", "model: Adding. call add", "user: result {'result': 3}"]


async def test_adjacent_calls_are_sent_together_and_a_wait_sends_them() -> None:
    go_on = asyncio.Event()
    root, _ = agent([ADD, ADD, Wait(go_on), Say("Wait."), ADD, Say("More.")], [Say("Done.")])
    async with AgentLiveRun(root) as run:
        run.type("go")
        assert summaries(await run.until(lambda event: event.get_function_responses())) == [
            "call add call add",
            "result add result add",
        ]
        go_on.set()
        assert await run.turn() == [
            "text~ Wait.",
            "text= Wait.",
            "call add",
            "result add",
            "text~ More.",
            "text= More.",
            "text~ Done.",
            "text= Done.",
            "usage",
            "end",
        ]


async def test_the_model_sends_nothing_until_all_calls_have_responses() -> None:
    model = ScriptedModel(turns=[[ADD, Call("slow")], [Say("Done.")]])
    release = asyncio.Event()

    async def slow() -> str:
        """Take time."""
        await release.wait()
        return "slept"

    in_background = FunctionTool(slow)
    quick = FunctionTool(add)
    in_background.behavior = quick.behavior = types.Behavior.NON_BLOCKING
    root = LlmAgent(name="test", model=model, tools=[quick, in_background])
    async with AgentLiveRun(root) as run:
        run.type("go")
        await run.until(lambda event: event.get_function_responses())
        waiting = asyncio.create_task(run.turn())
        await model.live[0].until(lambda live: len(live.contents) == 2)
        run.type("and?")
        await model.live[0].until(lambda live: len(live.contents) == 3)
        assert len(model.requests) == 1
        release.set()
        assert await waiting == ["result slow", "text~ Done.", "text= Done.", "usage", "end"]
    assert shape(model.requests[1]) == [
        "user: go",
        "model: call add call slow",
        "user: result {'result': 3}",
        "user: and?",
        "user: result {'result': 'slept'}",
    ]


async def test_a_model_that_does_not_wait_answers_input_during_calls() -> None:
    model = ScriptedModel(turns=[[ADD, ADD], [Say("Soon.")], [Say("Done.")]], manner=Manner(blocking=False))
    async with model.connect(text_request()) as live:
        await live.send_content(user_content("go"))
        assert calls_of([await anext(live.receive())]) == ["add", "add"]
        await live.send_content(user_content("and?"))
        assert texts_of([response async for response in live.receive()]) == ["Soon."]
        await live.send_content(tool_response("add", result=3))
        await live.send_content(tool_response("add", result=4))
        assert texts_of([response async for response in live.receive()]) == ["Done."]
    assert shape(model.requests[-1])[-2:] == ["model: Soon.", "user: result {'result': 3} result {'result': 4}"]


async def test_responses_find_their_call_by_its_id() -> None:
    model = ScriptedModel(turns=[[Call("add", id="a"), Call("add", id="b")], [Say("Done.")]])
    async with model.connect(text_request()) as live:
        await live.send_content(user_content("go"))
        await anext(live.receive())
        for call_id in ("a", "a", "b"):
            assert len(model.requests) == 1
            part = types.Part(function_response=types.FunctionResponse(id=call_id, name="add", response={}))
            await live.send_content(types.Content(role="user", parts=[part]))
        assert texts_of([response async for response in live.receive()]) == ["Done."]


async def test_text_interrupts() -> None:
    root, model = agent([Say("One two"), Wait(asyncio.Event()), Say("three"), ADD], [Say("Yes?")])
    async with AgentLiveRun(root) as run:
        run.type("count")
        await run.until(lambda event: event.content and event.partial)
        run.type("stop")
        assert await run.turn() == ["text~ two", "text=! One two", "end!"]
        assert await run.turn() == ["text~ Yes?", "text= Yes?", "usage", "end"]
    assert shape(model.requests[1]) == ["user: count", "model: One two", "user: stop"]


async def test_the_start_of_speech_interrupts() -> None:
    root, model = agent([Say("One"), Wait(asyncio.Event())], [Say("Yes?")])
    async with AgentLiveRun(root, "AUDIO") as run:
        run.type("count")
        await run.until(lambda event: event.content)
        run.queue.send_activity_start()
        assert await run.turn() == ["spoken= One", "cut!", "end!"]
        run.queue.send_realtime(types.Blob(mime_type="audio/pcm;rate=16000", data=ONE_SECOND))
        run.queue.send_activity_end()
        assert await run.turn() == [*HEARD, "spoken~ Yes?", BLOB, "spoken= Yes?", "usage", "end"]
    assert shape(model.requests[1]) == ["user: count", "model: One", "user: (1.0 seconds of sound)"]
    assert model.live[0].marks == ["activity_start", "activity_end"]


async def test_marks_without_sound_interrupt_and_are_not_answered() -> None:
    root, model = agent([Say("One"), Wait(asyncio.Event())], [Say("Yes?")])
    async with AgentLiveRun(root) as run:
        run.type("count")
        await run.until(lambda event: event.content)
        run.queue.send_activity_start()
        run.queue.send_activity_end()
        assert await run.turn() == ["text=! One", "end!"]
        run.type("go on")
        assert await run.turn() == ["text~ Yes?", "text= Yes?", "usage", "end"]
    assert len(model.requests) == 2


async def test_a_turn_interrupted_before_its_first_word_is_played_again() -> None:
    begun = asyncio.Event()

    def script(request: LlmRequest) -> list[Step]:
        begun.set()
        return [Wait(asyncio.Event()), Say("One.")] if len(request.contents) == 1 else [Say("Two.")]

    model = ScriptedModel(script=script)
    async with AgentLiveRun(LlmAgent(name="test", model=model)) as run:
        run.type("count")
        waiting = asyncio.create_task(run.turn())
        await begun.wait()
        run.type("please")
        assert await waiting == ["cut!", "end!"]
        assert await run.turn() == ["text~ Two.", "text= Two.", "usage", "end"]
    assert shape(model.requests[1]) == ["user: count", "user: please"]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("early", [*HEARD, "text~ One ", "text~ two.", "text= One two."]),
        ("late", ["text~ One ", *HEARD, "text~ two.", "text= One two."]),
        ("last", ["text~ One ", "text~ two.", *HEARD, "text= One two."]),
    ],
)
async def test_the_transcript_of_the_user_may_come_late(
    place: Literal["early", "late", "last"], expected: list[str]
) -> None:
    root, model = agent([Say("One two.")], manner=Manner(transcript=place))
    async with AgentLiveRun(root) as run:
        run.speak()
        assert await run.turn() == [*expected, "usage", "end"]
    assert shape(model.requests[0]) == ["user: (1.0 seconds of sound)"]


async def test_a_script_may_transcribe_speech() -> None:
    root, model = agent([Say("Hello.")], manner=Manner(hears=lambda sound: sound.decode().strip()))
    async with AgentLiveRun(root) as run:
        run.speak(b" ")
        run.speak(b"hi ")
        assert await run.turn() == ["heard~ hi", "heard= hi", "text~ Hello.", "text= Hello.", "usage", "end"]
    assert shape(model.requests[0]) == ["user: hi"]
    assert bytes(model.live[0].sound) == b" hi "


async def test_the_end_of_a_stream_of_sound_ends_speech() -> None:
    root, model = agent([Say("Hello.")])
    async with AgentLiveRun(root) as run:
        run.queue.send_realtime(types.Blob(mime_type="audio/pcm;rate=16000", data=ONE_SECOND))
        run.queue.send_audio_stream_end()
        assert (await run.turn())[: len(HEARD)] == HEARD
    assert model.live[0].marks == ["audio_stream_end"]


async def test_images_are_recorded() -> None:
    root, model = agent([Say("Nice.")])
    frame = types.Blob(mime_type="image/jpeg", data=b"frame")
    async with AgentLiveRun(root) as run:
        run.queue.send_realtime(frame)
        run.type("look", types.Part(inline_data=types.Blob(mime_type="image/png", data=b"picture")))
        assert await run.turn() == ["text~ Nice.", "text= Nice.", "usage", "end"]
    assert model.live[0].frames == [frame]
    assert model.live[0].sound == b""
    assert shape(model.live[0].contents) == ["user: look media"]
    assert shape(model.requests[0]) == ["user: look media"]


async def test_history_that_ends_with_the_user_is_answered_at_once() -> None:
    root, model = agent([Say("Hello.")], [Say("Fine.")])
    sessions = await seeded(user_content("hi"), model_content("Hello."), user_content("how are you?"))
    async with AgentLiveRun(root, sessions=sessions) as run:
        assert await run.turn() == ["text~ Fine.", "text= Fine.", "usage", "end"]
    assert shape(model.live[0].history) == ["user: hi", "model: Hello.", "user: how are you?"]
    assert model.live[0].contents == []


async def test_history_that_ends_with_the_model_is_not_answered() -> None:
    root, model = agent([Say("Hello.")], [Say("Fine.")])
    async with AgentLiveRun(root, sessions=await seeded(user_content("hi"), model_content("Hello."))) as run:
        run.type("how are you?")
        assert await run.turn() == ["text~ Fine.", "text= Fine.", "usage", "end"]
    assert len(model.requests) == 1


async def test_the_stored_contents_of_one_live_turn_count_as_one_turn() -> None:
    root, model = agent([Say("Adding."), ADD], [Say("Three.")], [Say("Again.")])
    async with AgentLiveRun(root) as first:
        first.type("add")
        await first.turn()
    async with AgentLiveRun(root, "AUDIO", sessions=first.sessions) as second:
        second.type("more")
        assert await second.turn() == ["spoken~ Again.", BLOB, "spoken= Again.", "usage", "end"]
    assert [line.split(":")[0] for line in shape(model.live[1].history)] == ["user", "model", "model", "user", "model"]


async def test_a_sub_agent_takes_over_on_a_connection_of_its_own() -> None:
    def script(request: LlmRequest) -> list[Step]:
        if "transfer_to_agent" in request.tools_dict and len(request.contents) == 1:
            return [Call("transfer_to_agent", {"agent_name": "sub"})]
        return [Say("I am the other one.", chunk=40)]

    model = ScriptedModel(script=script)
    sub = LlmAgent(name="sub", model=model, disallow_transfer_to_parent=True)
    async with AgentLiveRun(LlmAgent(name="root", model=model, sub_agents=[sub])) as run:
        run.type("hi")
        events = await run.until(lambda event: event.turn_complete)
    assert summaries(events)[-4:] == ["text~ I am the other one.", "text= I am the other one.", "usage", "end"]
    assert [event.author for event in events][-4:] == ["sub"] * 4
    assert [live.closed for live in model.live] == [True, True]
    assert model.live[1].history


async def test_a_failure_is_raised_after_the_text_before_it() -> None:
    root, _ = agent([Say("Well"), Fail(RuntimeError("broken"))])
    async with AgentLiveRun(root) as run:
        run.type("hi")
        assert summaries(await run.until(lambda event: event.content)) == ["text~ Well"]
        with pytest.raises(RuntimeError, match="broken"):
            await run.rest()


async def test_a_script_that_is_too_short_raises() -> None:
    root, _ = agent()
    async with AgentLiveRun(root) as run:
        run.type("hi")
        with pytest.raises(ScriptExhaustedError, match="turn 1 was asked for"):
            await run.rest()


async def test_an_error_code_ends_the_turn() -> None:
    root, _ = agent([Say("Well"), ErrorCode("SAFETY", "blocked"), Say("never")], [Say("Next.")])
    async with AgentLiveRun(root) as run:
        run.type("hi")
        assert await run.turn() == ["text~ Well", "error", "end"]
        run.type("so?")
        assert await run.turn() == ["text~ Next.", "text= Next.", "usage", "end"]


@pytest.mark.parametrize("code", [1006, 1011])
async def test_a_connection_that_breaks(code: int) -> None:
    root, model = agent([Say("Well"), Drop(code)])
    async with AgentLiveRun(root) as run:
        run.type("hi")
        assert summaries(await run.until(lambda event: event.content)) == ["text~ Well"]
        with pytest.raises(errors.APIError) as raised:
            await run.rest()
    assert raised.value.code == code
    with pytest.raises(ConnectionClosedError):
        await model.live[0].send_content(user_content("still there?"))


async def test_an_idle_connection_that_breaks() -> None:
    root, model = agent([Say("Well.")])
    async with AgentLiveRun(root) as run:
        run.type("hi")
        await run.turn()
        model.live[0].interject(Drop(1011))
        with pytest.raises(errors.APIError, match="1011"):
            await run.rest()


async def test_a_conversation_is_resumed_by_its_handle_after_a_drop_and_after_go_away() -> None:
    root, model = agent([Resumption(), Say("One."), Drop(1011)], [Resumption(), GoAway()], [Say("Three.")])
    async with AgentLiveRun(root) as run:
        run.type("hi")
        assert summaries(await run.until(lambda event: event.content)) == ["resumption", "text~ One."]
        waiting = asyncio.create_task(run.turn())
        await model.connected(2)
        run.type("again")
        (await model.connected(3)).interject(Say("Back."))
        assert await waiting == ["resumption", "text~ Back.", "text= Back.", "usage", "end"]
    assert [live.history for live in model.live] == [[], [], []]
    assert shape(model.requests[1]) == ["user: hi", "model: One.", "user: again"]


async def test_an_unknown_handle_is_refused() -> None:
    request = text_request()
    request.live_connect_config.session_resumption = types.SessionResumptionConfig(handle="lost")
    with pytest.raises(errors.APIError, match="1008"):
        async with ScriptedModel(turns=[]).connect(request):
            pass


async def test_a_resumption_update_without_a_handle() -> None:
    model = ScriptedModel(turns=[[Resumption(resumable=False), Say("One.")]])
    async with model.connect(text_request()) as live:
        await live.send_content(user_content("hi"))
        first = await anext(live.receive())
    update = first.live_session_resumption_update
    assert update
    assert (update.new_handle, update.resumable) == (None, False)


@pytest.mark.parametrize(
    ("modality", "expected"),
    [
        ("TEXT", ["text~ So.", "image/png 1", "text= So.", "usage", "end"]),
        ("AUDIO", ["spoken~ So.", BLOB, "image/png 1", "spoken= So.", "sources", "usage", "end"]),
    ],
)
async def test_pictures_and_sources(modality: Modality, expected: list[str]) -> None:
    root, _ = agent([Say("So."), Show("image/png", b"x"), Cite((Source("https://a.b", "A"),))])
    async with AgentLiveRun(root, modality) as run:
        run.type("show")
        events = await run.until(lambda event: event.turn_complete)
    assert summaries(events) == expected
    assert len([event for event in events if event.grounding_metadata]) == 1


async def test_raw_responses_are_sent_unchanged() -> None:
    raw = LlmResponse(content=model_content("raw"), partial=False)
    root, model = agent([Raw(raw), Raw(LlmResponse(turn_complete=True))], [Say("Mine.")])
    async with AgentLiveRun(root) as run:
        run.type("hi")
        assert await run.turn() == ["text= raw", "end"]
        run.type("and?")
        assert await run.turn() == ["text~ Mine.", "text= Mine.", "usage", "end"]
    assert shape(model.requests[1]) == ["user: hi", "model: raw", "user: and?"]


async def test_an_empty_turn_ends_at_once() -> None:
    root, _ = agent([])
    async with AgentLiveRun(root) as run:
        run.type("hi")
        assert await run.turn() == ["usage", "end"]


async def test_a_partial_message_waits_for_the_rest() -> None:
    root, model = agent([Say("Yes.")])
    async with AgentLiveRun(root) as run:
        run.queue.send_content(user_content("are you"), partial=True)
        run.type("there?")
        await run.turn()
    assert [shape(request) for request in model.requests] == [["user: are you", "user: there?"]]


async def test_one_instance_serves_live_runs_at_the_same_time() -> None:
    go_on = asyncio.Event()
    root, model = agent([Say("Adding."), Wait(go_on), ADD], [Say("Three.")])
    runs = [AgentLiveRun(root, "TEXT", session_id="TEXT"), AgentLiveRun(root, "AUDIO", session_id="AUDIO")]
    async with runs[0], runs[1]:
        for run in runs:
            run.type(f"hi {run.session_id}")
            await run.until(lambda event: event.partial)
        go_on.set()
        outcomes = await asyncio.gather(*(run.turn() for run in runs))
    assert outcomes == [
        ["text= Adding.", "call add", "result add", "text~ Three.", "text= Three.", "usage", "end"],
        [BLOB, "spoken= Adding.", "call add", "result add", "spoken~ Three.", BLOB, "spoken= Three.", "usage", "end"],
    ]
    assert [shape(live.contents[:1]) for live in model.live] == [["user: hi TEXT"], ["user: hi AUDIO"]]


def text_request() -> LlmRequest:
    return LlmRequest(live_connect_config=types.LiveConnectConfig(response_modalities=[types.Modality.TEXT]))


def calls_of(responses: Sequence[LlmResponse]) -> list[str | None]:
    return [call.name for response in responses for call in response.get_function_calls()]


def texts_of(responses: Sequence[LlmResponse]) -> list[str | None]:
    return [
        part.text
        for response in responses
        if response.content and response.partial is False
        for part in response.content.parts or []
    ]
