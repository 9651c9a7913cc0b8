"""Two servers on one file: whichever gets a request, a chat has one writer and a run has one end."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from adkwire.errors import Conflict, NotFound
from adkwire.runs import start
from adkwire.runs.readers import Position, Reading
from adkwire.runs.worker_messages import Stop
from adkwire.stores.sqlite.signals import SqliteSignals
from adkwire.testing import Call, Say, ScriptedModel, Wait
from adkwire.wire.folding import fold
from tests.patience import PATIENCE
from tests.support.chats import Answer, Chat, plain
from tests.support.fixtures import Make
from tests.support.gated_tools import Till
from tests.support.pages import Page


def waiting_model(held: asyncio.Event) -> ScriptedModel:
    """Return a model that waits in its first answer."""
    answers = iter([[Say("one "), Wait(held), Say("two")]])
    return ScriptedModel(script=lambda _: next(answers, [Say("three")]))


def says(text: str) -> ScriptedModel:
    return ScriptedModel(script=lambda _: [Say(text)])


async def read(reading: Reading | None, chat: Chat) -> Answer:
    assert reading is not None
    answer = Answer(await chat.find(reading.run))
    async with asyncio.timeout(PATIENCE):
        async for batch in reading.batches:
            answer.data += batch.entries
    return answer


async def test_a_run_can_be_read_on_another_worker(make: Make) -> None:
    held = asyncio.Event()
    here, there = make(waiting_model(held)), make(says("?"))
    run = await here.begin("a")
    await here.reader(run).until("text-delta")
    whole = asyncio.create_task(read(await there.bridge.follow("ann", "chat"), there))
    rest = asyncio.create_task(read(await there.bridge.follow("ann", "chat", Position(run.id, 0)), there))
    named = asyncio.create_task(read(await there.bridge.follow("ann", "chat", run=run.id), there))
    seen = await there.bridge.history("ann", "chat")
    assert seen.active is not None
    assert (seen.active.run, await there.texts()) == (run.id, [("user", "a")])
    assert [chat.active for chat in (await there.bridge.chats("ann", limit=9, before=None)).chats] == [True]
    held.set()
    answer = await here.read(run)
    assert (await whole).data == answer.data
    assert (await rest).data == answer.data[1:]
    assert (await named).data == answer.data
    assert await there.bridge.follow("ann", "chat") is None
    assert (await read(await there.bridge.follow("ann", "chat", run=run.id), there)).data == answer.data


async def test_a_stop_on_another_worker_ends_the_run(make: Make) -> None:
    here, there = make(waiting_model(asyncio.Event())), make(says("?"))
    here.bridge.watch()
    run = await here.begin("a")
    await here.reader(run).until("text-delta")
    assert await there.stop()
    assert not run.active
    assert (await here.read(run)).types[-2:] == ["abort", "finish"]
    assert await there.texts() == [("user", "a"), ("assistant", "one ")]


async def test_a_stop_of_another_run_on_another_worker_changes_nothing(make: Make) -> None:
    held = asyncio.Event()
    here, there = make(waiting_model(held)), make(says("?"))
    here.bridge.watch()
    run = await here.begin("a")
    await here.reader(run).until("text-delta")
    assert not await there.stop("run-of-old")
    assert run.active
    assert not run.stopping
    held.set()
    assert (await here.read(run)).text == "one two"


async def test_a_stop_message_for_an_older_run_changes_nothing(make: Make, tmp_path: Path) -> None:
    held = asyncio.Event()
    here = make(ScriptedModel(script=lambda _: [Say("one "), Wait(held), Say("two")]))
    here.bridge.watch()
    other = Chat(here.bridge, "other")
    run, last = await here.begin("a"), await other.begin("b")
    await here.reader(run).until("text-delta")
    await other.reader(last).until("text-delta")
    # Messages are handled in their order: when the second has stopped its run, the first has been handled.
    there = SqliteSignals(tmp_path / "state.db")
    for chat, wanted in (("chat", "run-of-old"), ("other", last.id)):
        await there.send(Stop.topic, msgspec.json.encode(Stop("ann", chat, wanted)))
    await there.close()
    async with asyncio.timeout(PATIENCE):
        await last.done.wait()
    assert not run.stopping
    held.set()
    assert (await here.read(run)).text == "one two"


async def test_a_message_replaces_the_run_of_another_worker(make: Make) -> None:
    here, there = make(waiting_model(asyncio.Event())), make(says("mine"))
    here.bridge.watch()
    run = await here.begin("a", "u1")
    await here.reader(run).until("text-delta")
    answer = await there.say("b", "u2")
    assert answer.text == "mine"
    assert not run.active
    texts = [("user", "a"), ("assistant", "one "), ("user", "b"), ("assistant", "mine")]
    assert await here.texts() == await there.texts() == texts
    assert (await here.say("c", "u3")).text == "three", "it continues the chat of the other worker"
    assert len(await there.messages()) == 6


async def test_a_message_is_refused_while_another_worker_does_not_stop_its_run(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "PATIENCE", 0.3)
    held = asyncio.Event()
    here, there = make(waiting_model(held)), make(says("mine"))
    run = await here.begin("a", "u1")
    with pytest.raises(Conflict, match="Another worker"):
        await there.begin("b", "u2")
    held.set()
    await here.read(run)
    assert (await there.say("b", "u2")).text == "mine"


async def test_a_call_can_be_answered_on_another_worker(make: Make) -> None:
    till = Till()
    here = Page(make(ScriptedModel(turns=[[Call("pay", {"amount": 5}, "c1")]]), till.pay))
    there = make(says("Paid."), till.pay)
    await here.say("pay")
    other = Page(there)
    await other.reload()
    other.chat.count = 1
    assert (await other.approve("c1").send()).text == "Paid."
    assert till.paid == [5]
    await here.reload()
    assert here.last == other.last


async def test_a_chat_deleted_on_one_worker_is_gone_on_the_other(make: Make) -> None:
    here, there = make(says("ok")), make(says("?"))
    answer = await here.say("a", "u1")
    assert await there.texts() == [("user", "a"), ("assistant", "ok")]
    await there.bridge.delete("ann", "chat")
    with pytest.raises(NotFound):
        await here.messages()
    again = await here.say("a", "u1")
    assert plain(fold(again.chunks))["id"] != answer.message["id"], "it is a new chat with a new answer"


async def test_a_request_repeated_on_another_worker_follows_the_run(make: Make) -> None:
    held = asyncio.Event()
    here, there = make(waiting_model(held)), make(says("?"))
    here.bridge.watch()
    run = await here.begin("a", "u1")
    await here.reader(run).until("text-delta")
    again = await there.begin("a", "u1")
    assert again.id == run.id
    assert not run.stopping
    held.set()
    assert (await there.read(again)).data == (await here.read(run)).data


async def test_answers_repeated_on_another_worker_follow_the_run(make: Make) -> None:
    till = Till()
    held = till.pause(5)
    model = ScriptedModel(turns=[[Call("pay", {"amount": 5}, "c1")], [Say("Paid.")]])
    here = Page(make(model, till.pay))
    await here.say("pay")
    there = Page(make(model, till.pay))
    await there.reload()
    run = await here.approve("c1").post()
    await till.until_begun(5)
    again = await there.approve("c1").post()
    assert again.id == run.id
    held.set()
    assert (await there.chat.read(again)).data == (await here.chat.read(run)).data
    assert till.paid == [5]
