"""How an answer ended is told in its stream and, after a reload, in the history."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from adkwire.runs.readers import Position
from adkwire.stores.base import RunHead
from adkwire.stores.sqlite.streams import SqliteStreamLog
from adkwire.testing import Fail, Say, ScriptedModel, Wait
from adkwire.wire.breaks import decode_log
from adkwire.wire.chunks import Start, StartStep, TextDelta, TextStart
from adkwire.wire.failures import SERVER_STOPPED, Failure, explain_briefly
from adkwire.wire.folding import fold
from adkwire.wire.profiles import encode_chunks
from tests.support.chats import Chat
from tests.support.fixtures import Make
from tests.support.payments import PAY, Payments, model_calling

CUT_OFF = {"code": SERVER_STOPPED, "text": explain_briefly(Failure(SERVER_STOPPED, ""))}


async def ends_of(chat: Chat) -> list[Any]:
    """What the answers in the history say about their ends."""
    answers = [message for message in await chat.messages() if message["role"] == "assistant"]
    return [(one.get("metadata", {}).get("ended"), one.get("metadata", {}).get("error")) for one in answers]


async def test_an_answer_that_came_to_its_end_says_nothing_of_it(make: Make) -> None:
    chat = make(ScriptedModel(turns=[[Say("ok")]]))
    answer = await chat.say("hello")
    assert "ended" not in answer.message["metadata"]
    assert (await chat.messages())[-1] == answer.message


@pytest.mark.parametrize(
    ("detail", "text"),
    [
        (False, "The agent could not answer (ValueError). Try again; the server's log says what happened."),
        (True, "The agent could not answer: ValueError: out of words"),
    ],
)
async def test_an_answer_that_failed(make: Make, detail: bool, text: str) -> None:
    chat = make(ScriptedModel(turns=[[Say("So far"), Fail(ValueError("out of words"))]]), error_detail=detail)
    answer = await chat.say("hello")
    assert answer.plain[-1] == {"type": "error", "errorText": text}
    assert (await chat.messages())[-1] == answer.message
    assert await ends_of(chat) == [("failed", {"code": "ValueError", "text": text})]


async def test_an_answer_that_was_stopped_and_the_next_one(make: Make) -> None:
    chat = make(ScriptedModel(turns=[[Say("It is "), Wait(asyncio.Event())], [Say("Fine.")]]))
    reader = chat.reader(await chat.begin("hello"))
    await reader.until("text-delta")
    await chat.stop()
    answer = await reader.rest()
    assert answer.plain[-1]["messageMetadata"]["ended"] == "stopped"
    assert (await chat.messages())[-1] == answer.message
    await chat.say("go on")
    assert await ends_of(chat) == [("stopped", None), (None, None)]


async def test_an_answer_that_was_cut_off_by_a_crash(make: Make, tmp_path: Path) -> None:
    first = make(ScriptedModel(turns=[[Say("Hi.")]]))
    await first.say("hello", "u0")
    await first.bridge.close()
    log = SqliteStreamLog(tmp_path / "state.db", ttl=60)
    await log.open(RunHead("run-1", "ann", "chat", "msg-1", "u1"), user_message=b"\x91\xa6hello?")
    shown = [Start(message_id="msg-1"), StartStep(), TextStart(id="text-1"), TextDelta(id="text-1", delta="So")]
    await log.append("run-1", encode_chunks(shown))
    await log.aclose()
    chat = make(ScriptedModel(turns=[]))
    assert await ends_of(chat) == [(None, None), ("failed", CUT_OFF)]
    reading = await chat.bridge.follow("ann", "chat", Position("run-1", -1))
    assert reading is not None
    streamed = fold(decode_log([entry async for batch in reading.batches for entry in batch.entries]))
    assert streamed.metadata == (await chat.messages())[-1]["metadata"]


async def test_a_call_that_is_run_again_takes_the_failure_back(make: Make) -> None:
    """A page merges the metadata of the second run into what the crash has left."""
    payments, model = Payments(), model_calling(PAY)
    page = await payments.cut_off(make, model)
    await page.reload()
    assert (page.last["metadata"]["ended"], page.last["metadata"]["error"]) == ("failed", CUT_OFF)
    await page.answer_and_follow("c1", approved=True)
    seen = page.last["metadata"]
    await page.reload()
    assert page.last["metadata"] == seen
    assert (seen["ended"], seen["error"]) == (None, None)
