"""Sessions of a server that crashed or of another program, and of a user who went on without answering."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from google.adk.events import Event
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.genai import types

from adkwire.errors import Conflict
from adkwire.gate.records import UncheckedAnswer
from adkwire.stores.base import RunHead
from adkwire.stores.sqlite.streams import SqliteStreamLog
from adkwire.testing import Call, Say, ScriptedModel
from adkwire.wire.chunks import Start
from adkwire.wire.encode.tool_calls import UNFINISHED
from adkwire.wire.profiles import encode_chunks
from tests.support.chats import AGENT, assert_legal, store, text_of, texts_in, tool_parts
from tests.support.fixtures import Make

SECOND = RunHead("run-2", "ann", "chat", "msg-2", "u2")


def event(author: str, *parts: types.Part, waiting: str | None = None, stamped: bool = True) -> Event:
    return Event(
        author=author,
        invocation_id="inv-1",
        content=types.Content(role="user" if author == "user" else "model", parts=list(parts)),
        long_running_tool_ids={waiting} if waiting else None,
        custom_metadata={"adkwire": {"message": "msg-1", "user": "u1"}} if stamped else None,
    )


def call(name: str) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id="c1", name=name, args={}))


def text(words: str) -> types.Part:
    return types.Part(text=words)


def pay() -> str:
    """Pay."""
    return "paid"


async def browse() -> None:
    """Wait for a browser."""


async def test_a_call_without_a_response_is_sealed_before_the_next_turn(make: Make, tmp_path: Path) -> None:
    await store(tmp_path, [event("user", text("pay")), event(AGENT, text("Paying. "), call("pay"))])
    model = ScriptedModel(script=lambda _: [Say("Let me see.")])
    chat = make(model, pay)
    before = await chat.messages()
    [part] = tool_parts(before[1])
    assert (part["state"], part["errorText"]) == ("output-error", UNFINISHED)
    await chat.say("did it work?", "u2")
    assert_legal(model.requests[0])
    [sealed] = [
        p.function_response for content in model.requests[0] for p in content.parts or () if p.function_response
    ]
    assert sealed.response == {"error": UNFINISHED}
    messages = await chat.messages()
    assert tool_parts(messages[1]) == [part]
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]


async def test_a_call_is_sealed_once_over_two_restarts(make: Make, tmp_path: Path) -> None:
    await store(tmp_path, [event("user", text("pay")), event(AGENT, call("pay"))])
    model = ScriptedModel(script=lambda _: [Say("ok")])
    await make(model, pay).say("one", "u2")
    await make(model, pay).say("two", "u3")
    assert_legal(model.requests[-1])
    answers = [p for content in model.requests[-1] for p in content.parts or () if p.function_response]
    assert len(answers) == 1


async def test_a_chat_with_a_user_message_alone_goes_on(make: Make, tmp_path: Path) -> None:
    await store(tmp_path, [event("user", text("hello"))])
    model = ScriptedModel(script=lambda _: [Say("ok")])
    chat = make(model)
    assert await chat.texts() == [("user", "hello"), ("assistant", "")]
    assert (await chat.say("still there?", "u2")).text == "ok"
    assert texts_in(model.requests[0]) == [("user", "hello"), ("user", "still there?")]


async def test_a_session_of_another_program_has_a_history_and_goes_on(make: Make, tmp_path: Path) -> None:
    await store(tmp_path, [event("user", text("hello"), stamped=False), event(AGENT, text("Hi."), stamped=False)])
    model = ScriptedModel(script=lambda _: [Say("ok")])
    chat = make(model)
    assert await chat.texts() == [("user", "hello"), ("assistant", "Hi.")]
    ids = [message["id"] for message in await chat.messages()]
    assert ids == [message["id"] for message in await chat.messages()]
    await chat.say("and?", "u2")
    assert texts_in(model.requests[0]) == [("user", "hello"), ("model", "Hi."), ("user", "and?")]
    assert [message["id"] for message in (await chat.messages())[:2]] == ids


async def test_a_new_message_supersedes_a_browser_call(make: Make) -> None:
    model = ScriptedModel(
        script=lambda request: [Say("Fine.")] if len(request.contents) > 1 else [Call("browse", {}, "c1")]
    )
    chat = make(model, LongRunningFunctionTool(browse))
    first = await chat.say("look", "u1")
    [part] = tool_parts(first.message)
    assert part["state"] == "input-available"
    assert first.plain[-1]["finishReason"] == "tool-calls"
    assert (await chat.messages())[1] == first.message
    second = await chat.say("never mind", "u2")
    assert second.text == "Fine."
    assert_legal(model.requests[-1])
    [part] = tool_parts((await chat.messages())[1])
    assert part["state"] == "output-error"
    assert "went on without" in part["errorText"]


async def test_a_new_message_supersedes_a_browser_call_after_a_restart(make: Make) -> None:
    model = ScriptedModel(
        script=lambda request: [Say("Fine.")] if len(request.contents) > 1 else [Call("browse", {}, "c1")]
    )
    await make(model, LongRunningFunctionTool(browse)).say("look", "u1")
    chat = make(model, LongRunningFunctionTool(browse))
    await chat.say("never mind", "u2")
    assert_legal(model.requests[-1])
    [part] = tool_parts((await chat.messages())[1])
    assert "went on without" in part["errorText"]


async def leave_unfinished_runs(folder: Path, *unclosed: RunHead) -> None:
    """Write the streams of runs that had begun when the server died; only SECOND has its user message in the log."""
    log = SqliteStreamLog(folder / "state.db", ttl=60)
    for head in unclosed:
        await log.open(head, user_message=msgspec.msgpack.encode(("never mind",)) if head is SECOND else b"")
        await log.append(head.run, encode_chunks([Start(message_id=head.message)]))
    await log.aclose()


async def test_a_message_that_did_not_reach_the_agent_supersedes_a_browser_call(make: Make, tmp_path: Path) -> None:
    """Whether the message is sent again or edited, the call before it stays sealed."""
    model = ScriptedModel(
        script=lambda request: [Say("Fine.")] if len(request.contents) > 1 else [Call("browse", {}, "c1")]
    )
    first = make(model, LongRunningFunctionTool(browse))
    await first.say("look", "u1")
    await first.bridge.close()
    await leave_unfinished_runs(tmp_path, SECOND)
    chat = make(model, LongRunningFunctionTool(browse))
    assert [text_of(message) for message in await chat.messages()] == ["look", "", "never mind", ""]
    with pytest.raises(Conflict, match="the conversation went on"):
        await chat.bridge.answer("ann", "chat", "c1", UncheckedAnswer(output={"seen": 1}))
    for replaces in (None, "u2"):
        assert (await chat.say("never mind", "u2", replaces=replaces)).text == "Fine."
        assert_legal(model.requests[-1])
        [part] = tool_parts((await chat.messages())[1])
        assert "went on without" in part["errorText"]


async def test_a_message_that_did_not_reach_the_agent_comes_after_the_earlier_turns(make: Make, tmp_path: Path) -> None:
    """It was queued behind an answer that was still being written."""
    await store(tmp_path, [event("user", text("pay")), event(AGENT, text("Paying. "), call("pay"))])
    await leave_unfinished_runs(tmp_path, SECOND, RunHead("run-1", "ann", "chat", "msg-1", "u1"))
    model = ScriptedModel(script=lambda _: [Say("Fine.")])
    chat = make(model, pay)
    before = await chat.messages()
    assert [text_of(message) for message in before] == ["pay", "Paying. ", "never mind", ""]
    await chat.say("never mind", "u2")
    assert_legal(model.requests[-1])
    assert (await chat.messages())[:2] == before[:2]


async def test_a_new_message_supersedes_a_browser_call_beside_an_executed_one(make: Make) -> None:
    model = ScriptedModel(
        script=lambda request: (
            [Say("Fine.")] if len(request.contents) > 1 else [Call("browse", {}, "c1"), Call("pay", {}, "c2")]
        )
    )
    chat = make(model, LongRunningFunctionTool(browse), pay)
    first = await chat.say("look", "u1")
    assert {part["toolCallId"]: part["state"] for part in tool_parts(first.message)} == {
        "c1": "input-available",
        "c2": "output-available",
    }
    assert len(model.requests) == 1
    assert (await chat.messages())[1] == first.message
    await chat.say("never mind", "u2")
    assert_legal(model.requests[-1])


async def test_two_processes_that_write_in_one_chat_at_once_leave_it_usable(make: Make) -> None:
    """The lease lets them write one after the other."""
    model = ScriptedModel(script=lambda _: [Say("ok")])
    one, two = make(model), make(model)
    await asyncio.gather(one.say("a", "a"), two.say("b", "b"))
    after = await make(model).say("c", "c")
    assert after.text == "ok"
