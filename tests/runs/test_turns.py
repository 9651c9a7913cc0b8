"""Turns: their streams, their messages in history, and failures of tools and models."""

import asyncio
import gc
import sys
from typing import Any

import pytest

from adkwire.testing import Call, ErrorCode, Fail, Say, ScriptedModel, Think, Wait
from adkwire.wire.decode.decoder import TurnInput, UserMessage
from adkwire.wire.media import Media
from tests.support.chats import Chat, assert_legal, text_of, texts_in, tool_parts
from tests.support.fixtures import Make

CANARY = "canary-9f3e"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def boom() -> str:
    """Break."""
    raise RuntimeError(f"cannot reach db://{CANARY}")


def nothing() -> None:
    """Return nothing."""


async def test_the_stream_of_a_turn_with_a_tool_makes_the_message_of_history(make: Make) -> None:
    model = ScriptedModel(
        turns=[[Think("Sum it."), Say("Adding. "), Call("add", {"a": 1, "b": 2}, "call-1")], [Say("It is 3.")]]
    )
    chat = make(model, add)
    answer = await chat.say("1 + 2?", "u1")
    assert answer.types == [
        "start",
        "start-step",
        *["reasoning-start", "reasoning-delta", "reasoning-delta", "reasoning-end"],
        *["text-start", "text-delta", "text-end"],
        "tool-input-available",
        "tool-output-available",
        "finish-step",
        "start-step",
        *["text-start", "text-delta", "text-delta", "text-delta", "text-end"],
        "finish-step",
        "finish",
    ]
    assert answer.plain[0] == {"type": "start", "messageId": answer.run.message_id}
    assert answer.text == "Adding. It is 3."
    assert [part["output"] for part in tool_parts(answer.message)] == [{"result": 3}]
    assert answer.plain[-1]["finishReason"] == "stop"
    question: dict[str, Any] = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "1 + 2?"}]}
    assert await chat.messages() == [question, answer.message]


async def test_history_has_all_turns_in_their_order(make: Make) -> None:
    model = ScriptedModel(turns=[[Say("one")], [Say("two")], [Say("three")]])
    chat = make(model)
    answers = [await chat.say(text) for text in ("a", "b", "c")]
    messages = await chat.messages()
    assert messages[1::2] == [answer.message for answer in answers]
    assert [message["id"] for message in messages[::2]] == ["u1", "u2", "u3"]
    assert texts_in(model.requests[2]) == [
        ("user", "a"),
        ("model", "one"),
        ("user", "b"),
        ("model", "two"),
        ("user", "c"),
    ]


async def test_history_leaves_out_the_answer_that_is_being_written(make: Make) -> None:
    held = asyncio.Event()
    chat = make(ScriptedModel(turns=[[Say("first")], [Say("half "), Wait(held), Say("done")]]))
    await chat.say("a")
    run = await chat.begin("b")
    await chat.reader(run).until("text-delta")
    history = await chat.bridge.history(chat.user, chat.id)
    assert history.active is not None
    assert history.active.run == run.id
    assert await chat.texts() == [("user", "a"), ("assistant", "first"), ("user", "b")]
    held.set()
    answer = await chat.read(run)
    assert await chat.texts() == [("user", "a"), ("assistant", "first"), ("user", "b"), ("assistant", "half done")]
    assert (await chat.messages())[-1] == answer.message
    assert (await chat.bridge.history(chat.user, chat.id)).active is None


async def test_a_tool_that_raises_has_an_error_output_and_the_turn_goes_on(make: Make) -> None:
    model = ScriptedModel(turns=[[Call("boom")], [Say("It broke.")]])
    chat = make(model, boom)
    answer = await chat.say("break")
    assert "tool-output-error" in answer.types
    assert answer.types[-1] == "finish"
    assert answer.text == "It broke."
    assert [part["state"] for part in tool_parts(answer.message)] == ["output-error"]
    assert_legal(model.requests[1])
    assert (await chat.messages())[-1] == answer.message


async def test_the_text_of_an_exception_stays_on_the_server(make: Make) -> None:
    chat = make(ScriptedModel(turns=[[Call("boom")], [Say("Well"), Fail(ValueError(CANARY))]]), boom)
    answer = await chat.say("break")
    assert answer.types[-1] == "error"
    assert not [raw for raw in answer.data if CANARY.encode() in raw]
    assert CANARY not in str(await chat.messages())


async def test_the_text_of_an_exception_is_sent_with_error_detail(make: Make) -> None:
    chat = make(ScriptedModel(turns=[[Call("boom")], [Fail(ValueError("the model's words"))]]), boom, error_detail=True)
    answer = await chat.say("break")
    [part] = tool_parts(answer.message)
    assert CANARY in part["errorText"]
    assert "the model's words" in answer.plain[-1]["errorText"]


async def test_a_tool_that_returns_nothing_has_an_output(make: Make) -> None:
    model = ScriptedModel(turns=[[Call("nothing")], [Say("Done.")]])
    chat = make(model, nothing)
    answer = await chat.say("do nothing")
    assert answer.text == "Done."
    assert [part["state"] for part in tool_parts(answer.message)] == ["output-available"]
    assert_legal(model.requests[1])
    assert (await chat.messages())[-1] == answer.message


async def test_an_unknown_tool_does_not_end_the_chat(make: Make) -> None:
    model = ScriptedModel(turns=[[Call("no_such_tool", {}, "x")], [Say("Sorry.")], [Say("Yes.")]])
    chat = make(model, add)
    answer = await chat.say("go")
    assert answer.types[-1] in ("finish", "error")
    assert (await chat.messages())[-1] == answer.message
    after = await chat.say("still there?")
    assert after.types[-1] == "finish"
    assert_legal(model.requests[-1])


async def test_a_model_that_raises_at_once_makes_an_empty_message_and_an_error(make: Make) -> None:
    model = ScriptedModel(script=lambda request: [Say("Better.")] if len(model.requests) > 1 else [Fail(OSError("no"))])
    chat = make(model)
    answer = await chat.say("hello")
    assert answer.types == ["start", "message-metadata", "error"]
    text = answer.plain[-1]["errorText"]
    assert "OSError" in text
    metadata = {"ended": "failed", "error": {"code": "OSError", "text": text}}
    failed = {"id": answer.run.message_id, "role": "assistant", "metadata": metadata, "parts": []}
    assert (await chat.messages())[-1] == answer.message == failed
    after = await chat.say("again")
    assert after.text == "Better."
    assert texts_in(model.requests[-1])[-1] == ("user", "again")
    assert len(await chat.messages()) == 4


async def test_the_text_before_a_model_raises_is_stored(make: Make) -> None:
    model = ScriptedModel(turns=[[Think("Hm. "), Say("It is a "), Fail(OSError("cut"))], [Say("Fine.")]])
    chat = make(model)
    answer = await chat.say("hello")
    assert answer.types[-1] == "error"
    assert answer.types.count("start-step") == answer.types.count("finish-step") == 1
    assert answer.text == "It is a "
    messages = await chat.messages()
    assert messages[-1] == answer.message
    after = await chat.say("go on")
    assert after.text == "Fine."
    assert texts_in(model.requests[-1]) == [("user", "hello"), ("model", "It is a "), ("user", "go on")]
    assert (await chat.messages())[1] == answer.message


async def test_a_model_that_raises_between_steps_leaves_no_call_without_a_response(make: Make) -> None:
    failing = True
    steps = {
        1: lambda: [Call("add", {"a": 1, "b": 1}, "c1")],
        3: lambda: [Fail(OSError("cut"))] if failing else [Say("2")],
    }
    model = ScriptedModel(script=lambda request: steps.get(len(request.contents), lambda: [Say("Two.")])())
    chat = make(model, add)
    answer = await chat.say("hello")
    assert answer.types[-1] == "error"
    assert (await chat.messages())[-1] == answer.message
    after = await chat.say("and?")
    assert after.types[-1] == "finish"
    assert_legal(model.requests[-1])


async def test_an_error_code_of_the_model_ends_the_stream_with_an_error(make: Make) -> None:
    chat = make(ScriptedModel(turns=[[Say("Well, "), ErrorCode("SAFETY", "blocked")]]))
    answer = await chat.say("hello")
    assert answer.types[-1] == "error"
    assert "SAFETY" in answer.plain[-1]["errorText"]
    assert (await chat.messages())[-1] == answer.message


async def test_a_retry_of_a_failed_message_gets_the_same_error(make: Make) -> None:
    model = ScriptedModel(turns=[[Say("It is "), Fail(OSError("cut"))]])
    answer = await make(model).say("hello", "u1")
    again = await make(model).say("hello", "u1")
    assert again.types[-1] == answer.types[-1] == "error"
    assert again.message == answer.message
    assert len(model.requests) == 1


@pytest.mark.parametrize("steps", [[], [Say("   ")], [Think("only a thought")]], ids=["nothing", "blank", "thought"])
async def test_an_empty_answer_finishes_and_the_chat_goes_on(make: Make, steps: list[Any]) -> None:
    model = ScriptedModel(script=lambda request: [Say("There.")] if len(model.requests) > 1 else steps)
    chat = make(model)
    answer = await chat.say("hello")
    assert answer.types[-1] == "finish"
    assert (await chat.messages())[-1] == answer.message
    after = await chat.say("anything?")
    assert after.text == "There."


@pytest.mark.parametrize(
    "text",
    [
        "東京は晴れ ☀️",
        "👩‍👩‍👧 ZWJ",
        "e\u0301 \u202eright\u202c",
        "\u2028line\u2029par",
        'a"b\\c\n\r\n\tdata: [DONE]\n\n',
        "\x00\x07",
    ],
    ids=["japanese", "emoji", "marks", "separators", "sse", "control"],
)
async def test_any_text_is_sent_and_stored_unchanged(make: Make, text: str) -> None:
    model = ScriptedModel(turns=[[Say(text, chunk=1)]])
    chat = make(model)
    answer = await chat.say(text)
    assert answer.text == text
    assert texts_in(model.requests[0]) == [("user", text)]
    assert await chat.texts() == [("user", text), ("assistant", text)]
    assert all(b"\n" not in raw and b"\r" not in raw for raw in answer.data)


async def test_a_megabyte_of_text_is_sent_and_stored(make: Make) -> None:
    text = "0123456789abcdef" * 65_536
    chat = make(ScriptedModel(turns=[[Say(text, chunk=8192)]]))
    answer = await chat.say("much")
    assert answer.text == text
    assert text_of((await chat.messages())[-1]) == text


async def test_chats_are_listed_with_title_and_newest_first(make: Make) -> None:
    chat = make(ScriptedModel(script=lambda _: [Say("ok")]))
    for number in range(3):
        chat.id = f"chat-{number}"
        await chat.say(f"  question\n number {number} " + "x" * 100, f"u{number}")
    chat.id = "chat-0"
    await chat.say("again", "again")
    page = await chat.bridge.chats(chat.user, limit=2, before=None)
    assert [summary.id for summary in page.chats] == ["chat-0", "chat-2"]
    assert page.chats[0].title.startswith("question number 0 xxx")
    assert page.chats[0].title.endswith("…")
    assert len(page.chats[0].title) == 60
    assert isinstance(page.next, str)
    rest = await chat.bridge.chats(chat.user, limit=2, before=page.next)
    assert [summary.id for summary in rest.chats] == ["chat-1"]
    assert not isinstance(rest.next, str)


def half_an_emoji() -> str:
    """Return what is no valid text."""
    return "\ud83d"


@pytest.mark.parametrize(
    "steps", [[Say("broken \ud83d text", chunk=3)], [Call("half_an_emoji", {}, "c1")]], ids=["model", "tool"]
)
async def test_text_that_cannot_be_encoded_does_not_break_the_chat(make: Make, steps: list[Any]) -> None:
    """Half a surrogate pair cannot be encoded."""
    model = ScriptedModel(script=lambda request: steps if len(request.contents) == 1 else [Say("Fine.")])
    chat = make(model, half_an_emoji)
    answer = await chat.say("go")
    assert answer.types[-1] in ("finish", "error")
    assert (await chat.messages())[-1] == answer.message
    after = await chat.say("still there?")
    assert after.types[-1] == "finish"
    assert_legal(model.requests[-1])


async def test_a_tool_that_raises_cancelled_error_does_not_break_the_chat(make: Make) -> None:
    async def gives_up() -> str:
        """Give up."""
        raise asyncio.CancelledError

    model = ScriptedModel(script=lambda request: [Call("gives_up")] if len(request.contents) == 1 else [Say("Fine.")])
    chat = make(model, gives_up)
    answer = await chat.say("go")
    assert answer.types[-1] in ("finish", "error")
    assert all(part["state"].startswith("output-") for part in tool_parts(answer.message))
    assert (await chat.messages())[-1] == answer.message
    assert (await chat.say("still there?")).text == "Fine."
    assert_legal(model.requests[-1])


async def test_many_chats_can_be_answered_at_the_same_time(make: Make) -> None:
    model = ScriptedModel(script=lambda request: [Say("to " + texts_in(request.contents)[-1][1])])
    bridge = make(model).bridge
    chats = [Chat(bridge, f"chat-{number}", f"user-{number % 3}") for number in range(20)]
    answers = await asyncio.gather(*(chat.say(chat.id) for chat in chats))
    assert [answer.text for answer in answers] == [f"to {chat.id}" for chat in chats]
    for chat, answer in zip(chats, answers, strict=True):
        assert (await chat.messages())[-1] == answer.message


async def test_attached_files_are_freed_when_the_run_ends(make: Make) -> None:
    model = ScriptedModel(script=lambda _: [Say("Nice.")])
    chat = make(model)
    data = bytes(1_000_000)
    before = sys.getrefcount(data)
    turn = TurnInput("chat", "submit-message", UserMessage("u1", ("look", Media("image/png", data))), None)
    run = await chat.bridge.start(chat.user, turn)
    assert (await chat.read(run)).text == "Nice."
    await run.stop()
    del turn
    model.requests.clear()
    gc.collect()
    assert sys.getrefcount(data) == before
    assert run.user_message == UserMessage("u1", ())
