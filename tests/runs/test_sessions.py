"""The session store under a bridge: one connection that survives what happens to those who use it."""

import asyncio
import os
from pathlib import Path

import pytest

from adkwire.testing import Say, ScriptedModel
from tests.runs.chats import heard, stored
from tests.runs.conftest import Make


def echo() -> ScriptedModel:
    return ScriptedModel(script=lambda request: [Say("to " + heard(request.contents)[-1][1])])


async def test_who_is_cancelled_while_it_reads_or_writes_spoils_nothing(make: Make) -> None:
    chat = make(echo())
    await chat.say("a")
    for turns_of_the_loop in range(12):
        tasks = [
            asyncio.create_task(chat.messages()),
            asyncio.create_task(chat.bridge.rename(chat.user, chat.id, f"title {turns_of_the_loop}")),
            asyncio.create_task(chat.bridge.chats(chat.user, limit=5, before=None)),
        ]
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert (await chat.say("b")).text == "to b"
    assert await chat.told() == [("user", "a"), ("assistant", "to a"), ("user", "b"), ("assistant", "to b")]


async def test_everything_is_in_the_file_before_the_answer_ends(make: Make, tmp_path: Path) -> None:
    chat = make(echo())
    answer = await chat.say("a")
    kept = [part.text for event in await stored(tmp_path) if event.content for part in event.content.parts or ()]
    assert kept == ["a", "to a"]
    again = make(echo())
    assert (await again.messages())[-1] == answer.message


async def test_a_closed_store_opens_again_and_closes_twice(make: Make) -> None:
    chat = make(echo())
    await chat.say("a")
    await chat.bridge.close()
    await chat.bridge.close()
    assert await chat.told() == [("user", "a"), ("assistant", "to a")]


@pytest.mark.parametrize("db", ["memory:", "deep/er/state.db"])
async def test_where_chats_may_be_kept(make: Make, tmp_path: Path, db: str) -> None:
    place = db if db == "memory:" else str(tmp_path / db)
    chat = make(echo(), db=place)
    await chat.say("a")
    assert await chat.told() == [("user", "a"), ("assistant", "to a")]
    assert os.listdir(tmp_path) == ([] if db == "memory:" else ["deep"])  # noqa: PTH208 - one look at a small folder
