"""`assert_valid_stream`, for users' own tests of their servers."""

import copy

import pytest

import adkwire.testing
from adkwire.testing import assert_valid_stream
from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, encode_chunk
from adkwire.wire.messages import TextPart
from tests.wire.adk_events import answered, asked, call, gated, model, partial, response, response_of, text

START = c.Start(message_id="m1")
FINISH = c.Finish(message_metadata={})
STEP = [c.StartStep(), c.FinishStep()]
CALL = c.ToolInputAvailable(tool_call_id="c1", tool_name="pay", input={})
OUTPUT = c.ToolOutputAvailable(tool_call_id="c1", output=1)


def sse(*data: str) -> str:
    return "".join(f"id: r:{index}\ndata: {one}\n\n" for index, one in enumerate(data))


def body(chunks: list[Chunk]) -> str:
    return ": heartbeat\n\n" + sse(*(encode_chunk(chunk).decode() for chunk in chunks), "[DONE]")


def test_a_good_stream_gives_its_message() -> None:
    chunks = response_of(partial(text("Hel")), model(text("Hello")))

    for stream in (chunks, body(chunks), body(chunks).encode(), body(chunks).replace("\n", "\r\n")):
        message = assert_valid_stream(stream)
        assert (message.id, message.parts[1]) == ("m1", TextPart(text="Hello", state="done"))


def test_data_may_come_on_several_lines_and_without_a_space() -> None:
    stream = 'data:{"type":"start",\ndata: "messageId":"m1"}\n\ndata: {"type":"error","errorText":"x"}\n\n'

    assert assert_valid_stream(stream).id == "m1"


def test_a_continuation_is_judged_on_the_message_it_continues() -> None:
    first = assert_valid_stream(response_of(model(call("c1")), asked(gated("c1"))))
    before = copy.deepcopy(first)
    answer = [START, c.ToolOutputAvailable(tool_call_id="c1", output=1), *STEP, FINISH]

    assert assert_valid_stream(answer, into=first).parts[1:2] != first.parts[1:2]
    assert first == before
    with pytest.raises(AssertionError, match="chunk 1: No tool invocation found"):
        assert_valid_stream(answer)


def test_a_wait_an_error_and_a_tool_of_the_provider_need_no_step_behind_them() -> None:
    provided = c.ToolInputAvailable(tool_call_id="p", tool_name="s", input={}, provider_executed=True)
    found = c.ToolOutputAvailable(tool_call_id="p", output=1)
    look = c.ToolOutputAvailable(tool_call_id="c1", output=1, preliminary=True)

    assert_valid_stream([START, c.StartStep(), CALL, c.FinishStep(), c.Finish()])
    assert_valid_stream([START, c.StartStep(), CALL, OUTPUT, c.FinishStep(), c.Error(error_text="x")])
    assert_valid_stream([START, c.StartStep(), provided, found, c.FinishStep(), c.Finish()])
    assert_valid_stream([START, c.StartStep(), CALL, look, c.FinishStep(), c.Finish()])
    assert_valid_stream([START, c.StartStep(), CALL, OUTPUT, c.FinishStep(), *STEP, FINISH])


@pytest.mark.parametrize(
    ("chunks", "why"),
    [
        ([], "0 chunks and ends with neither"),
        ([START], "1 chunks and ends with neither"),
        ([FINISH], "chunk 0: a stream begins with start"),
        ([START, START, FINISH], "chunk 1: a stream begins with start, and only there"),
        ([START, FINISH, FINISH], "chunk 2: nothing may follow"),
        ([START, c.Error(error_text="x"), FINISH], "chunk 2: nothing may follow"),
        ([START, c.FinishStep(), FINISH], "chunk 1: no step is open"),
        ([START, c.StartStep(), c.StartStep(), FINISH], "chunk 2: the step before is still open"),
        ([START, c.StartStep(), FINISH], "chunk 2: a step is still open"),
        ([START, c.StartStep(), c.Abort(), FINISH], "chunk 2: a step is still open"),
        ([START, c.TextDelta(id="t", delta="x"), FINISH], "chunk 1: text part 't' is not open\n  TextDelta"),
        ([START, c.TextStart(id="t"), FINISH], "part 0 of the message is never closed"),
        ([START, c.ReasoningStart(id="t"), c.Error(error_text="x")], "part 0 of the message is never closed"),
        ([START, c.ResetStep(), FINISH], "chunk 1: ai/6.0.0 does not know this type"),
        ([START, c.Abort(reason="x"), FINISH], "chunk 1: ai/6.0.0 does not know reason"),
        ([START, c.Finish(finish_reason="interrupted")], "does not know finish_reason"),
        ([START, c.StartStep(), CALL, OUTPUT, c.FinishStep(), FINISH], "would send again for ever"),
        ([START, c.StartStep(), CALL, OUTPUT, c.FinishStep(), *STEP, c.Finish()], "would send again for ever"),
    ],
)  # fmt: skip
def test_the_error_of_a_bad_stream_names_place_and_reason(chunks: list[Chunk], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        assert_valid_stream(chunks)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("{", "chunk 1"),
        ('{"type":"nonsense"}', "chunk 1: Invalid value 'nonsense'"),
        ('{"type":"text-start"}', "chunk 1: Object missing required field `id`"),
        ('{"type":"abort","surprise":1}', "chunk 1: it has a field that no client knows"),
        ('{"type":"text-start","id":"t","providerMetadata":null}', "chunk 1: "),
    ],
)
def test_the_error_of_bad_bytes_names_place_and_reason(data: str, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        assert_valid_stream(sse('{"type":"start"}', data, '{"type":"finish"}'))


def test_a_newer_client_takes_more() -> None:
    chunks = response_of(model(call("c1")), answered(response("c1", {})), model(text("x")))

    assert assert_valid_stream([*chunks[:-1], c.Finish(finish_reason="interrupted")], client="ai/7.0.169")


def test_it_is_loaded_when_it_is_asked_for() -> None:
    assert "assert_valid_stream" in adkwire.testing.__all__
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = adkwire.testing.nonsense
