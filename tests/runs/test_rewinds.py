"""Regenerate and edit rewind the session: the model gets only the turns that are left."""

import asyncio
from pathlib import Path

import pytest

from adkwire.errors import NotFound
from adkwire.testing import Call, Fail, Say, ScriptedModel, Wait
from tests.support.chats import Chat, assert_legal, texts_in
from tests.support.fixtures import Make


def counting() -> ScriptedModel:
    """Return a model that answers with the number of the request and the user's text."""
    model = ScriptedModel(script=lambda request: [Say(f"{len(model.requests)}: {texts_in(request.contents)[-1][1]}")])
    return model


async def three_turns(make: Make, model: ScriptedModel) -> Chat:
    chat = make(model)
    for text in "abc":
        await chat.say(text)
    return chat


async def test_regenerate_replaces_the_last_answer(make: Make) -> None:
    model = counting()
    chat = await three_turns(make, model)
    old = (await chat.messages())[-1]["id"]
    answer = await chat.say("c", "u3", trigger="regenerate-message", replaces=old)
    assert answer.text == "4: c"
    assert texts_in(model.requests[-1]) == texts_in(model.requests[2])
    messages = await chat.messages()
    assert [message["id"] for message in messages[::2]] == ["u1", "u2", "u3"]
    assert messages[-1] == answer.message
    assert answer.message["id"] != old


async def test_regenerate_works_without_the_id_of_the_answer(make: Make) -> None:
    """As a stock client does that calls `regenerate()` with no answer to replace."""
    model = counting()
    chat = await three_turns(make, model)
    answer = await chat.say("c", "u3", trigger="regenerate-message")
    assert answer.text == "4: c"
    assert len(await chat.messages()) == 6


async def test_regenerate_works_with_the_id_of_the_answer_only(make: Make) -> None:
    model = counting()
    chat = await three_turns(make, model)
    answer = await chat.regenerate((await chat.messages())[3]["id"])
    assert answer.text == "4: b"
    assert texts_in(model.requests[-1]) == [("user", "a"), ("model", "1: a"), ("user", "b")]
    assert await chat.texts() == [("user", "a"), ("assistant", "1: a"), ("user", "b"), ("assistant", "4: b")]
    assert [message["id"] for message in (await chat.messages())[::2]] == ["u1", "u2"]


async def test_regenerate_works_after_a_restart(make: Make) -> None:
    model = counting()
    old = (await (await three_turns(make, model)).messages())[-1]["id"]
    chat = make(model)
    assert (await chat.regenerate(old)).text == "4: c"
    assert len(await chat.messages()) == 6


async def test_regenerate_of_an_unknown_message_is_refused(make: Make) -> None:
    model = counting()
    chat = await three_turns(make, model)
    before = await chat.messages()
    with pytest.raises(NotFound):
        await chat.regenerate("msg-unknown")
    assert await chat.messages() == before
    assert len(model.requests) == 3


async def test_regenerate_replaces_a_failed_answer(make: Make) -> None:
    model = ScriptedModel(
        script=lambda _: [Say("half "), Fail(OSError("cut"))] if len(model.requests) == 1 else [Say("ok")]
    )
    chat = make(model)
    failed = await chat.say("a", "u1")
    answer = await chat.say("a", "u1", trigger="regenerate-message", replaces=failed.run.message_id)
    assert answer.text == "ok"
    assert texts_in(model.requests[-1]) == [("user", "a")]
    assert await chat.texts() == [("user", "a"), ("assistant", "ok")]


async def test_regenerate_replaces_a_running_answer(make: Make) -> None:
    held = asyncio.Event()
    model = ScriptedModel(script=lambda _: [Say("half "), Wait(held)] if len(model.requests) == 1 else [Say("ok")])
    chat = make(model)
    run = await chat.begin("a", "u1")
    await chat.reader(run).until("text-delta")
    answer = await chat.say("a", "u1", trigger="regenerate-message", replaces=run.message_id)
    assert answer.text == "ok"
    assert texts_in(model.requests[-1]) == [("user", "a")]
    assert await chat.texts() == [("user", "a"), ("assistant", "ok")]


async def test_a_retried_regenerate_follows_the_one_that_runs(make: Make) -> None:
    held = asyncio.Event()
    model = ScriptedModel(script=lambda _: [Say("one")] if len(model.requests) == 1 else [Say("two "), Wait(held)])
    chat = make(model)
    old = (await chat.say("a", "u1")).run.message_id
    turn = chat.turn("a", "u1", trigger="regenerate-message", replaces=old)
    runs = [await chat.bridge.start(chat.user, turn) for _ in range(3)]
    assert len({run.id for run in runs}) == 1
    held.set()
    await chat.read(runs[0])
    assert len(model.requests) == 2


async def test_an_edit_of_the_first_message_removes_all_later_turns(make: Make) -> None:
    model = counting()
    chat = await three_turns(make, model)
    answer = await chat.say("A", "u1", replaces="u1")
    assert texts_in(model.requests[-1]) == [("user", "A")]
    assert await chat.texts() == [("user", "A"), ("assistant", "4: A")]
    assert (await chat.messages())[1] == answer.message
    assert (await chat.say("b again", "u2")).text == "5: b again"
    assert texts_in(model.requests[-1]) == [("user", "A"), ("model", "4: A"), ("user", "b again")]


async def test_an_edit_may_have_a_new_id(make: Make) -> None:
    model = counting()
    chat = await three_turns(make, model)
    await chat.say("B", "new", replaces="u2")
    assert texts_in(model.requests[-1]) == [("user", "a"), ("model", "1: a"), ("user", "B")]
    assert [message["id"] for message in (await chat.messages())[::2]] == ["u1", "new"]


async def test_an_edit_of_an_unknown_message_is_a_new_message(make: Make) -> None:
    model = counting()
    chat = await three_turns(make, model)
    answer = await chat.say("d", "u4", replaces="never-seen")
    assert answer.text == "4: d"
    assert len(texts_in(model.requests[-1])) == 7
    assert len(await chat.messages()) == 8


async def test_an_edit_in_a_chat_that_does_not_exist_is_a_new_message(make: Make) -> None:
    model = counting()
    answer = await make(model).say("a", "u1", replaces="u1")
    assert answer.text == "1: a"


async def test_a_chat_can_be_rewound_many_times(make: Make, tmp_path: Path) -> None:
    model = counting()
    chat = await three_turns(make, model)
    await chat.say("B", "u2", replaces="u2")
    await chat.say("C", "u3")
    await chat.say("C", "u3", trigger="regenerate-message")
    await chat.say("BB", "u2", replaces="u2")
    assert texts_in(model.requests[-1]) == [("user", "a"), ("model", "1: a"), ("user", "BB")]
    expected = [("user", "a"), ("assistant", "1: a"), ("user", "BB"), ("assistant", "7: BB")]
    assert await chat.texts() == expected
    assert await make(model).texts() == expected


async def test_a_message_that_a_rewind_removed_can_be_sent_again(make: Make) -> None:
    """Its old answer is no longer part of the chat, so the same id is a new message."""
    model = counting()
    chat = await three_turns(make, model)
    await chat.say("A", "u1", replaces="u1")
    assert (await chat.say("c", "u3")).text == "5: c"
    assert [text for _, text in await chat.texts()] == ["A", "4: A", "c", "5: c"]


async def test_a_rewind_over_a_tool_call_leaves_no_call_without_a_response(make: Make) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    model = ScriptedModel(
        script=lambda request: [Say("done")] if len(request.contents) % 4 == 3 else [Call("add", {"a": 1, "b": 1})]
    )
    chat = make(model, add)
    await chat.say("a", "u1")
    await chat.say("a2", "u1", replaces="u1")
    assert texts_in(model.requests[2]) == [("user", "a2")]
    for request in model.requests:
        assert_legal(request)
    assert await chat.texts() == [("user", "a2"), ("assistant", "done")]


async def test_history_while_an_edit_runs_ends_with_the_edited_message(make: Make) -> None:
    held = asyncio.Event()
    model = ScriptedModel(
        script=lambda request: [Say("x "), Wait(held)] if texts_in(request.contents)[-1][1] == "A" else [Say("ok")]
    )
    chat = await three_turns(make, model)
    run = await chat.begin("A", "u1", replaces="u1")
    await chat.reader(run).until("text-delta")
    assert await chat.texts() == [("user", "A")]
    held.set()
    await chat.read(run)


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("edit", [False, True])
async def test_a_rewind_keeps_title_and_creation_time(make: Make, renamed: bool, edit: bool) -> None:
    chat = make(counting(), clock=lambda: 1000.0)
    old = (await chat.say("the first words", "u1")).run.message_id
    if renamed:
        await chat.bridge.rename(chat.user, chat.id, "a new title")
    title = "a new title" if renamed else "the first words"
    for _ in range(2):
        answer = await (chat.say("other words", "u1", replaces="u1") if edit else chat.regenerate(old))
        old = answer.run.message_id
        history = await chat.bridge.history(chat.user, chat.id)
        assert (history.title, history.created_at) == (title, "1970-01-01T00:16:40.000Z")
        [line] = (await chat.bridge.chats(chat.user, limit=5, before=None)).chats
        assert line.title == title
