"""A server that dies while it answers: how the next one ends the stream and the turn."""

from pathlib import Path

import msgspec

from adkwire.runs.readers import Position
from adkwire.stores.base import RunHead
from adkwire.stores.sqlite.streams import SqliteStreamLog
from adkwire.testing import Call, Say, ScriptedModel
from adkwire.wire.chunks import Start, TextDelta, TextStart, decode_chunk
from adkwire.wire.failures import SERVER_STOPPED
from adkwire.wire.profiles import encode_chunks
from tests.stores.contract import read_all
from tests.support.chats import Chat, text_of
from tests.support.fixtures import Make
from tests.support.gated_tools import Till

STOPPED = "The server stopped before this answer was finished. Ask again to go on."

FAILED = {"ended": "failed", "error": {"code": SERVER_STOPPED, "text": STOPPED}}
CUT_OFF = [{"type": "message-metadata", "messageMetadata": FAILED}, {"type": "error", "errorText": STOPPED}]


HELLO = msgspec.msgpack.encode(("hello?",))


async def leave_unfinished_run(folder: Path, question: bytes = b"", number: int = 1) -> None:
    """Write the stream of a run whose server died before ADK had stored anything of it."""
    log = SqliteStreamLog(folder / "state.db", ttl=60)
    await log.open(RunHead(f"run-{number}", "ann", "chat", f"msg-{number}", "u1"), user_message=question)
    await log.append(f"run-{number}", encode_chunks([Start(message_id=f"msg-{number}")]))
    await log.aclose()


async def read_rest(chat: Chat) -> list[dict[str, object]]:
    """Return the chunks of run-1 after its `start`."""
    reading = await chat.bridge.follow("ann", "chat", Position("run-1", 0))
    assert reading is not None
    entries = [entry async for batch in reading.batches for entry in batch.entries]
    assert [decode_chunk(entry) for entry in entries]
    return [msgspec.json.decode(entry) for entry in entries]


async def test_a_message_that_did_not_reach_the_agent_is_kept_and_can_be_sent_again(make: Make, tmp_path: Path) -> None:
    await leave_unfinished_run(tmp_path, HELLO)
    chat = make(ScriptedModel(script=lambda _: [Say("Hi.")]))
    assert await read_rest(chat) == CUT_OFF
    assert await chat.texts() == [("user", "hello?"), ("assistant", "")]
    assert (await chat.messages())[1]["id"] == "msg-1"
    assert (await chat.say("hello?", "u1")).text == "Hi."
    assert await chat.texts() == [("user", "hello?"), ("assistant", "Hi.")]
    assert (await chat.say("hello?", "u1")).text == "Hi.", "the second request is a repeated one"
    assert len(await chat.messages()) == 2


async def test_a_run_whose_server_died_is_closed_before_its_message_is_read(make: Make, tmp_path: Path) -> None:
    await leave_unfinished_run(tmp_path, HELLO)
    chat = make(ScriptedModel(turns=[]))
    reading = await chat.bridge.follow("ann", "chat", run="run-1")
    assert reading is not None
    chunks = [msgspec.json.decode(entry) async for batch in reading.batches for entry in batch.entries]
    assert chunks == [{"type": "start", "messageId": "msg-1"}, *CUT_OFF]


async def test_a_message_that_did_not_reach_the_agent_is_kept_over_another_restart(make: Make, tmp_path: Path) -> None:
    await leave_unfinished_run(tmp_path, HELLO)
    first = make(ScriptedModel(script=lambda _: [Say("Hi.")]))
    await first.texts()
    await first.bridge.close()
    chat = make(ScriptedModel(script=lambda _: [Say("Hi.")]))
    assert (await chat.say("and now?", "u2")).text == "Hi."
    assert [text_of(message) for message in await chat.messages()] == ["hello?", "", "and now?", "Hi."]


async def test_a_message_that_was_too_large_to_keep_is_not_in_history(make: Make, tmp_path: Path) -> None:
    await leave_unfinished_run(tmp_path)
    chat = make(ScriptedModel(script=lambda _: [Say("Hi.")]))
    assert await read_rest(chat) == CUT_OFF
    assert (await chat.say("hello?", "u1")).text == "Hi."
    assert await chat.texts() == [("user", "hello?"), ("assistant", "Hi.")]


async def test_a_server_that_starts_closes_every_run_that_was_cut_off(make: Make, tmp_path: Path) -> None:
    await leave_unfinished_run(tmp_path, HELLO)
    chat = make(ScriptedModel(turns=[]))
    chat.bridge.watch()
    log = SqliteStreamLog(tmp_path / "state.db", ttl=60)
    assert [msgspec.json.decode(entry)["type"] for entry in await read_all(log, "run-1")] == [
        "start",
        "message-metadata",
        "error",
    ]
    await log.aclose()


async def test_a_message_that_was_cut_off_twice_is_in_history_once(make: Make, tmp_path: Path) -> None:
    await leave_unfinished_run(tmp_path, HELLO)
    first = make(ScriptedModel(turns=[]))
    assert await first.texts() == [("user", "hello?"), ("assistant", "")]
    await first.bridge.close()
    await leave_unfinished_run(tmp_path, HELLO, 2)
    chat = make(ScriptedModel(script=lambda _: [Say("Hi.")]))
    assert [message["id"] for message in await chat.messages()] == ["u1", "msg-2"]
    assert (await chat.say("hello?", "u1")).text == "Hi."


async def test_a_repeated_message_that_was_cut_off_leaves_the_stored_answer(make: Make, tmp_path: Path) -> None:
    first = make(ScriptedModel(script=lambda _: [Say("Hi.")]))
    await first.say("hello?", "u1")
    await first.bridge.close()
    await leave_unfinished_run(tmp_path, HELLO)
    chat = make(ScriptedModel(script=lambda _: [Say("Hello.")]))
    assert await read_rest(chat) == CUT_OFF
    assert await chat.texts() == [("user", "hello?"), ("assistant", "Hi.")]


async def test_a_continuation_that_was_cut_off_at_its_start_only_gets_an_end(make: Make, tmp_path: Path) -> None:
    first = make(ScriptedModel(turns=[[Say("One moment. "), Call("pay", {"amount": 5}, "c1")]]), Till().pay)
    before = (await first.say("pay", "u1")).data[:-1]
    message = (await first.messages())[1]
    await first.bridge.close()
    log = SqliteStreamLog(tmp_path / "state.db", ttl=60)
    await log.open(RunHead("run-1", "ann", "chat", message["id"], "u1", before=len(before)), before)
    await log.append("run-1", encode_chunks([Start(message_id=message["id"])]))
    await log.aclose()
    chat = make(ScriptedModel(turns=[]), Till().pay)
    assert [chunk["type"] for chunk in await read_rest(chat)] == ["finish"], "everything else is in the log"
    assert (await chat.messages())[1] == message


async def test_a_stream_that_cannot_be_decoded_does_not_block_its_chat(make: Make, tmp_path: Path) -> None:
    log = SqliteStreamLog(tmp_path / "state.db", ttl=60)
    await log.open(RunHead("run-1", "ann", "chat", "msg-1", "u1"), user_message=HELLO)
    await log.append("run-1", [b'{"type":"start","messageId":"msg-1"}', b'{"type":"of-tomorrow"}'])
    await log.append("run-1", encode_chunks([TextDelta(id="text-1", delta="from nowhere")]))
    await log.aclose()
    chat = make(ScriptedModel(script=lambda _: [Say("Hi.")]))
    assert await chat.texts() == [("user", "hello?"), ("assistant", "")]
    assert (await chat.say("and now?", "u2")).text == "Hi."


async def test_a_stream_whose_beginning_is_no_longer_kept_ends_with_the_error(make: Make, tmp_path: Path) -> None:
    log = SqliteStreamLog(tmp_path / "state.db", ttl=60, max_run_bytes=200)
    await log.open(RunHead("run-1", "ann", "chat", "msg-1", "u1"), user_message=HELLO)
    deltas = [TextDelta(id="text-1", delta=f"{number} ") for number in range(20)]
    await log.append("run-1", encode_chunks([Start(message_id="msg-1"), TextStart(id="text-1"), *deltas]))
    await log.aclose()
    chat = make(ScriptedModel(turns=[]))
    assert await chat.texts() == [("user", "hello?"), ("assistant", "")]
    log = SqliteStreamLog(tmp_path / "state.db", ttl=60)
    last = await log.read("run-1", 21, 0)
    assert last is not None
    assert [msgspec.json.decode(entry)["type"] for entry in last.entries] == ["message-metadata", "error"]
    assert last.closed
    await log.aclose()


async def test_a_continuation_that_had_written_nothing_has_one_start_and_an_end(make: Make, tmp_path: Path) -> None:
    first = make(ScriptedModel(script=lambda _: [Say("Hi.")]))
    message = (await first.say("hello?", "u1")).run.message_id
    await first.bridge.close()
    log = SqliteStreamLog(tmp_path / "state.db", ttl=60)
    before = encode_chunks([Start(message_id=message), TextStart(id="text-1"), TextDelta(id="text-1", delta="Hi.")])
    await log.open(RunHead("run-9", "ann", "chat", message, "u1", before=3), before)
    await log.aclose()
    chat = make(ScriptedModel(turns=[]))
    reading = await chat.bridge.follow("ann", "chat", Position("run-9", -3))
    assert reading is not None
    kinds = [msgspec.json.decode(entry)["type"] async for batch in reading.batches for entry in batch.entries]
    assert kinds[:2] == ["text-start", "text-delta"]
    assert kinds.count("start") == 0
    assert kinds[-1] in ("finish", "error")
