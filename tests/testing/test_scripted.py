import asyncio
from collections.abc import AsyncIterator

import pytest
from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import errors, types
from pydantic import ValidationError

from adkwire.testing import (
    Call,
    Cite,
    Drop,
    ErrorCode,
    Fail,
    GoAway,
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
from adkwire.testing.steps import words
from tests.testing.agent_session import AgentSession, calls, results, texts


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent(model: ScriptedModel) -> LlmAgent:
    return LlmAgent(name="test", model=model, tools=[add])


async def play(*steps: Step, stream: bool = True) -> list[LlmResponse]:
    model = ScriptedModel(turns=[steps])
    return [response async for response in model.generate_content_async(LlmRequest(), stream)]


def parts_of(response: LlmResponse) -> list[types.Part]:
    assert response.content
    return response.content.parts or []


async def test_text_is_streamed_in_words_and_repeated_whole() -> None:
    *pieces, final = await play(Say("It is sunny."))
    assert [parts_of(piece) for piece in pieces] == [[types.Part(text=text)] for text in ("It ", "is ", "sunny.")]
    assert all(piece.partial and piece.finish_reason is None for piece in pieces)
    assert parts_of(final) == [types.Part(text="It is sunny.")]
    assert final.partial is False
    assert final.finish_reason is types.FinishReason.STOP
    assert final.usage_metadata
    assert final.usage_metadata.candidates_token_count == 3
    assert final.model_version == "scripted"


async def test_without_streaming_only_the_final_response_is_given_and_it_is_the_same() -> None:
    steps = (Think("Hm."), Say("One two"), Call("add", {"a": 1, "b": 2}, "call-1"), Cite((Source("https://a.b", "A"),)))
    streamed = await play(*steps)
    assert await play(*steps, stream=False) == [streamed[-1]]


async def test_neighbouring_texts_of_one_kind_are_one_part() -> None:
    *_, final = await play(Think("a "), Think("b"), Say("c "), Say("d"), Show("image/png", b"x"), Say("e"))
    assert parts_of(final) == [
        types.Part(text="a b", thought=True),
        types.Part(text="c d"),
        types.Part(inline_data=types.Blob(mime_type="image/png", data=b"x")),
        types.Part(text="e"),
    ]


@pytest.mark.parametrize(
    ("text", "chunk", "expected"),
    [
        ("one  two\nthree", None, ["one  ", "two\n", "three"]),
        ("\n\nnext", None, ["\n\n", "next"]),
        ("東京は晴れ", None, ["東京は", "晴れ"]),
        ("abcde", 2, ["ab", "cd", "e"]),
        ("", None, []),
    ],
)
def test_words(text: str, chunk: int | None, expected: list[str]) -> None:
    assert words(text, chunk) == expected
    assert "".join(expected) == text


async def test_only_the_final_response_has_sources() -> None:
    *pieces, final = await play(Say("So it is."), Cite((Source("https://a.b", "A"), Source("https://c.d", "C"))))
    assert all(piece.grounding_metadata is None for piece in pieces)
    assert final.grounding_metadata
    pages = [chunk.web for chunk in final.grounding_metadata.grounding_chunks or []]
    assert [(page.uri, page.title) for page in pages if page] == [("https://a.b", "A"), ("https://c.d", "C")]


async def test_an_error_code_ends_the_turn() -> None:
    *pieces, last = await play(Say("Well"), ErrorCode("SAFETY", "blocked"), Say("never"))
    assert [parts_of(piece)[0].text for piece in pieces] == ["Well"]
    assert (last.error_code, last.error_message, last.content) == ("SAFETY", "blocked", None)


async def test_a_failure_is_raised_after_the_text_before_it() -> None:
    model = ScriptedModel(turns=[[Say("Well"), Fail(RuntimeError("broken"))]])
    responses = model.generate_content_async(LlmRequest(), stream=True)
    assert parts_of(await anext(responses)) == [types.Part(text="Well")]
    with pytest.raises(RuntimeError, match="broken"):
        await anext(responses)


async def test_a_connection_that_breaks_is_raised_as_google_genai_does() -> None:
    with pytest.raises(errors.APIError, match=r"1011 .*gone"):
        await play(Say("Well"), Drop(1011, "gone"))


async def test_live_steps_are_ignored_in_a_request() -> None:
    assert await play(Resumption(), Say("Well."), GoAway()) == await play(Say("Well."))


async def test_raw_responses_are_sent_unchanged() -> None:
    raw = LlmResponse(content=types.Content(role="model", parts=[types.Part(text="raw")]), partial=True)
    assert await play(Raw(raw)) == [raw]
    first, *_, final = await play(Raw(raw), Say("mine"))
    assert first is raw
    assert (final.partial, parts_of(final)) == (False, [types.Part(text="mine")])


async def test_a_tool_that_changes_its_arguments_does_not_change_the_script() -> None:
    model = ScriptedModel(turns=[[Call("add", {"numbers": [1, 2]})]])
    for _ in range(2):
        async for response in model.generate_content_async(LlmRequest()):
            call = parts_of(response)[0].function_call
            assert call
            assert call.args
            assert call.args == {"numbers": [1, 2]}
            call.args["numbers"].append(3)


async def test_an_empty_turn_is_an_empty_answer() -> None:
    [only] = await play()
    assert parts_of(only) == []
    assert only.finish_reason is types.FinishReason.STOP


async def test_a_run_waits_until_the_event_is_set() -> None:
    event = asyncio.Event()
    session = AgentSession(agent(ScriptedModel(turns=[[Say("before"), Wait(event), Say("after")]])))
    stream = session.stream("hi")
    assert texts([await anext(stream)], partial=True) == ["before"]
    rest = asyncio.ensure_future(anext(stream))
    done, _ = await asyncio.wait([rest], timeout=0.05)
    assert not done
    event.set()
    assert texts([await rest], partial=True) == ["after"]
    assert texts(await _rest(stream)) == ["beforeafter"]


async def test_the_model_turns_so_far_decide_which_turn_is_played() -> None:
    model = ScriptedModel(turns=[[Say("Adding."), Call("add", {"a": 1, "b": 2})], [Say("It is 3.")], [Say("Bye.")]])
    session = AgentSession(agent(model))
    events = await session.say("add")
    assert [call.id for call in calls(events, partial=True)] == [call.id for call in calls(events)]
    assert [result.response for result in results(events)] == [{"result": 3}]
    assert texts(events) == ["Adding.", "It is 3."]
    assert texts(await session.say("thanks")) == ["Bye."]
    assert [len(request) for request in model.requests] == [1, 3, 5]


async def test_one_instance_serves_runs_at_the_same_time() -> None:
    go_on = asyncio.Event()
    model = ScriptedModel(turns=[[Say("Adding."), Wait(go_on), Call("add", {"a": 1, "b": 2})], [Say("Done.")]])
    streams = [AgentSession(agent(model), session_id=str(number)).stream("go") for number in range(3)]
    for stream in streams:
        await anext(stream)
    go_on.set()
    outcomes = await asyncio.gather(*(_rest(stream) for stream in streams))
    assert [texts(events) for events in outcomes] == [["Adding.", "Done."]] * 3
    assert len({call.id for events in outcomes for call in calls(events)}) == 3


async def _rest(stream: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in stream]


async def test_recorded_requests_do_not_change_afterwards() -> None:
    model = ScriptedModel(turns=[[Say("ok")]])
    request = LlmRequest(contents=[types.Content(role="user", parts=[types.Part(text="first")])])
    async for _ in model.generate_content_async(request):
        pass
    assert request.contents[0].parts
    request.contents[0].parts[0].text = "changed"
    assert [content.parts for content in model.requests[0]] == [[types.Part(text="first")]]


async def test_a_script_may_be_a_function_of_the_request() -> None:
    model = ScriptedModel(script=lambda request: [Say(f"{len(request.contents)} {sorted(request.tools_dict)}")])
    session = AgentSession(agent(model))
    assert texts(await session.say("a", streaming=False)) == ["1 ['add']"]
    assert texts(await session.say("b", streaming=False)) == ["3 ['add']"]


async def test_a_script_that_is_too_short_raises() -> None:
    session = AgentSession(agent(ScriptedModel(model="short", turns=[[Say("only")]])))
    await session.say("one")
    with pytest.raises(ScriptExhaustedError, match="turn 2 was asked for, the script of 'short' has 1"):
        await session.say("two")


def test_a_model_takes_turns_or_a_script() -> None:
    with pytest.raises(ValidationError, match="either turns or script"):
        ScriptedModel()
    with pytest.raises(ValidationError, match="either turns or script"):
        ScriptedModel(turns=[], script=lambda _: [])
