"""A retried request follows its run or gets the stored message, and never runs twice."""

import asyncio
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from adkwire.errors import NotRecovered, Unavailable
from adkwire.runs.readers import Position
from adkwire.stores.memory import MemoryStreamLog
from adkwire.testing import Call, Say, ScriptedModel, Wait
from tests.stores.contract import Clock
from tests.support.chats import Chat, texts_in, tool_parts
from tests.support.fixtures import Make


async def test_a_retry_while_the_run_writes_follows_it(make: Make) -> None:
    held = asyncio.Event()
    model = ScriptedModel(turns=[[Say("one "), Wait(held), Say("two")]])
    chat = make(model)
    run = await chat.begin("a", "u1")
    await chat.reader(run).until("text-delta")
    again = await chat.begin("a", "u1")
    assert again is run
    held.set()
    first, second = await chat.read(run), await chat.read(again)
    assert first.data == second.data
    assert len(model.requests) == 1


async def test_eight_equal_requests_at_once_make_one_run(make: Make) -> None:
    model = ScriptedModel(turns=[[Say("one two")]])
    chat = make(model)
    runs = await asyncio.gather(*(chat.begin("a", "u1") for _ in range(8)))
    answers = [await chat.read(run) for run in runs]
    assert len({run.id for run in runs}) == 1
    assert all(answer.data == answers[0].data for answer in answers)
    assert len(model.requests) == 1
    assert len(await chat.messages()) == 2


async def test_a_retry_after_the_end_gets_the_same_stream(make: Make) -> None:
    model = ScriptedModel(turns=[[Say("one two")]])
    chat = make(model)
    first = await chat.say("a", "u1")
    second = await chat.say("a", "u1")
    assert first.data == second.data
    assert len(model.requests) == 1
    assert len(await chat.messages()) == 2


async def test_a_retried_edit_gets_the_same_stream(make: Make) -> None:
    model = ScriptedModel(script=lambda request: [Say("to " + texts_in(request.contents)[-1][1])])
    chat = make(model)
    await chat.say("a", "u1")
    edits = [await chat.say("b", "u1", replaces="u1") for _ in range(3)]
    assert all(edit.data == edits[0].data for edit in edits)
    assert len(model.requests) == 2
    assert (await chat.say("c", "u1", replaces="u1")).text == "to c"
    assert (await chat.say("b", "u1", replaces="u1")).text == "to b"
    assert await chat.texts() == [("user", "b"), ("assistant", "to b")]


async def test_a_retry_after_the_stream_is_gone_gets_the_stored_message(make: Make) -> None:
    model = ScriptedModel(turns=[[Call("add", {"a": 1, "b": 2}, "c1")], [Say("three")], [Say("other")]])
    clock = Clock()
    chat = make(model, add, stream_log=MemoryStreamLog(ttl=60, clock=clock))
    first = await chat.say("a", "u1")
    clock.now += 61
    with pytest.raises(NotRecovered):
        await chat.bridge.follow(chat.user, chat.id, Position(first.run.id, 0))
    await chat.say("b", "u2")
    again = await chat.say("a", "u1")
    assert again.message == first.message
    assert again.types[-1] == "finish"
    assert len(model.requests) == 3
    assert len(await chat.messages()) == 4


async def test_a_retry_after_a_restart_gets_the_stored_message(make: Make) -> None:
    model = ScriptedModel(turns=[[Call("add", {"a": 1, "b": 2}, "c1")], [Say("three")]])
    first = await make(model, add).say("a", "u1")
    chat = make(model, add)
    again = await chat.say("a", "u1")
    assert again.message == first.message
    assert [part["output"] for part in tool_parts(again.message)] == [{"result": 3}]
    assert len(model.requests) == 2
    assert (await chat.messages())[1:] == [first.message]


async def test_a_retry_of_a_stopped_message_gets_the_stored_message(make: Make) -> None:
    model = ScriptedModel(turns=[[Say("It is "), Wait(asyncio.Event())]])
    chat = make(model)
    run = await chat.begin("a", "u1")
    await chat.reader(run).until("text-delta")
    await chat.stop()
    first = await chat.read(run)
    again = await make(model).say("a", "u1")
    assert again.message == first.message
    assert again.types[-2:] == first.types[-2:] == ["abort", "finish"]
    assert len(model.requests) == 1


async def test_a_retry_of_an_older_message_does_not_stop_a_newer_answer(make: Make) -> None:
    """A late retry of the first message must not replace the second's answer."""
    held = asyncio.Event()
    model = ScriptedModel(turns=[[Say("one")], [Say("two "), Wait(held), Say("three")]])
    chat = make(model)
    first = await chat.say("a", "u1")
    run = await chat.begin("b", "u2")
    await chat.reader(run).until("text-delta")
    again = await chat.say("a", "u1")
    assert again.data == first.data
    held.set()
    assert (await chat.read(run)).text == "two three"
    assert len(model.requests) == 2


async def test_a_message_without_an_id_is_always_new(make: Make) -> None:
    model = ScriptedModel(script=lambda request: [Say(str(len(request.contents)))])
    chat = make(model)
    assert [(await chat.say("hi", "")).text for _ in range(2)] == ["1", "3"]
    ids = [message["id"] for message in await chat.messages()]
    assert all(ids)
    assert len(set(ids)) == 4


async def test_the_same_message_id_in_another_chat_or_of_another_user_is_new(make: Make) -> None:
    model = ScriptedModel(script=lambda request: [Say("to " + texts_in(request.contents)[-1][1])])
    chat = make(model)
    chats = [chat, Chat(chat.bridge, "other"), Chat(chat.bridge, "chat", "bob")]
    answers = [await one.say(f"{one.user} {one.id}", "u1") for one in chats]
    assert [answer.text for answer in answers] == ["to ann chat", "to ann other", "to bob chat"]
    assert [len(request) for request in model.requests] == [1, 1, 1]
    assert [await one.texts() for one in chats] == [
        [("user", f"{one.user} {one.id}"), ("assistant", f"to {one.user} {one.id}")] for one in chats
    ]


async def test_a_message_that_was_never_stored_can_be_sent_again(make: Make, tmp_path: Path) -> None:
    """The session store was away, so there is no stored answer."""
    model = ScriptedModel(turns=[[Say("ok")]])
    chat = make(model)
    await chat.bridge.ready()
    with away(tmp_path / "state.db"), pytest.raises(Unavailable):
        await chat.begin("a", "u1")
    assert (await chat.say("a", "u1")).text == "ok"
    assert len(model.requests) == 1


@contextmanager
def away(database: Path) -> Generator[None]:
    """Make the session store fail for a while."""
    _sql(database, "ALTER TABLE sessions RENAME TO gone")
    yield
    _sql(database, "ALTER TABLE gone RENAME TO sessions")


def _sql(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(statement)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
