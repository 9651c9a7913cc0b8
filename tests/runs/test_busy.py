"""A second message while an answer is being written: replace, refuse, queue."""

import asyncio

import pytest
from google.adk.tools.long_running_tool import LongRunningFunctionTool

from adkwire.errors import Conflict
from adkwire.runs import run
from adkwire.testing import Call, Say, ScriptedModel, Step, Wait
from tests.patience import PATIENCE
from tests.support.chats import Chat, assert_legal, texts_in
from tests.support.fixtures import Make


def by_question(**answers: list[Step]) -> ScriptedModel:
    """Return a model whose answer depends on the last text of the request."""
    return ScriptedModel(script=lambda request: answers[texts_in(request.contents)[-1][1]])


async def test_replace_stops_the_old_answer_and_keeps_its_text(make: Make) -> None:
    model = by_question(a=[Say("half "), Wait(asyncio.Event())], b=[Say("whole")])
    chat = make(model)
    first = await chat.begin("a")
    await chat.reader(first).until("text-delta")
    second = await chat.say("b")
    old = await chat.read(first)
    assert old.types[-2:] == ["abort", "finish"]
    assert second.text == "whole"
    assert await chat.texts() == [("user", "a"), ("assistant", "half "), ("user", "b"), ("assistant", "whole")]
    assert (await chat.messages())[1::2] == [old.message, second.message]
    assert texts_in(model.requests[-1]) == [("user", "a"), ("model", "half "), ("user", "b")]


async def test_replace_while_a_tool_runs_leaves_no_call_without_a_response(make: Make) -> None:
    started = asyncio.Event()

    async def hang() -> None:
        """Never return."""
        started.set()
        await asyncio.Event().wait()

    model = ScriptedModel(
        script=lambda request: (
            [Call("hang", {}, "c1")] if texts_in(request.contents) == [("user", "a")] else [Say("b!")]
        )
    )
    chat = make(model, hang)
    first = await chat.begin("a")
    async with asyncio.timeout(PATIENCE):
        await started.wait()
    second = await chat.say("b")
    assert second.text == "b!"
    assert_legal(model.requests[-1])
    assert (await chat.messages())[1::2] == [(await chat.read(first)).message, second.message]


async def test_of_many_messages_at_once_the_last_one_is_answered(make: Make) -> None:
    chat = make(ScriptedModel(script=lambda request: [Say("to " + texts_in(request.contents)[-1][1])]))
    runs = [await chat.begin(str(number)) for number in range(6)]
    answers = [await chat.read(run) for run in runs]
    assert answers[-1].text == "to 5"
    messages = await chat.messages()
    assert [message["id"] for message in messages[::2]] == [f"u{number}" for number in range(1, 7)]
    assert messages[1::2] == [answer.message for answer in answers]


async def test_a_message_that_is_stopped_before_the_agent_has_it_stays_in_history(make: Make) -> None:
    started, released = asyncio.Event(), asyncio.Event()

    async def resist() -> None:
        """Ignore the cancellation until it is released."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await released.wait()

    chat = make(by_question(a=[Call("resist", {}, "c1")], c=[Say("c!")]), resist)
    runs = [await chat.begin("a")]
    async with asyncio.timeout(PATIENCE):
        await started.wait()
    runs += [await chat.begin("b")]
    await chat.reader(runs[1]).until("start")
    await asyncio.wait([asyncio.create_task(runs[0].done.wait())], timeout=0.05)
    # The second one still waits for the first one to end.
    stopping = asyncio.create_task(runs[1].stop())
    await asyncio.sleep(0)
    released.set()
    await stopping
    runs += [await chat.begin("c")]
    answers = [await chat.read(run) for run in runs]
    messages = await chat.messages()
    assert [message["id"] for message in messages[::2]] == ["u1", "u2", "u3"]
    assert messages[1::2] == [answer.message for answer in answers]
    assert answers[-1].text == "c!"


async def test_refuse_raises_conflict_until_the_answer_has_ended(make: Make) -> None:
    held = asyncio.Event()
    chat = make(by_question(a=[Say("one "), Wait(held), Say("two")], b=[Say("ok")]), on_busy="refuse")
    first = await chat.begin("a", "a1")
    await chat.reader(first).until("text-delta")
    with pytest.raises(Conflict):
        await chat.begin("b", "b1")
    assert await chat.begin("a", "a1") is first
    held.set()
    assert (await chat.read(first)).text == "one two"
    assert (await chat.say("b", "b1")).text == "ok"
    assert len(await chat.messages()) == 4


def queueing_chat(make: Make, held: asyncio.Event) -> tuple[Chat, ScriptedModel]:
    """Return a chat that queues messages; the answer to `a` waits for `held`."""
    model = by_question(a=[Say("one "), Wait(held), Say("two")], b=[Say("b!")], c=[Say("c!")])
    return make(model, on_busy="queue"), model


async def test_queue_keeps_the_order(make: Make) -> None:
    held = asyncio.Event()
    chat, model = queueing_chat(make, held)
    runs = [await chat.begin(text, text) for text in "abc"]
    await chat.reader(runs[0]).until("text-delta")
    assert (await chat.begin("b", "b")) is runs[1]
    held.set()
    answers = [await chat.read(run) for run in runs]
    assert [answer.text for answer in answers] == ["one two", "b!", "c!"]
    assert [request[-1] for request in map(texts_in, model.requests)] == [("user", "a"), ("user", "b"), ("user", "c")]
    assert [message["id"] for message in (await chat.messages())[::2]] == ["a", "b", "c"]
    assert (await chat.messages())[1::2] == [answer.message for answer in answers]


async def test_history_with_a_queue_has_no_half_written_answer(make: Make) -> None:
    held = asyncio.Event()
    chat, _ = queueing_chat(make, held)
    runs = [await chat.begin(text, text) for text in "ab"]
    await chat.reader(runs[0]).until("text-delta")
    assert await chat.texts() == [("user", "a"), ("user", "b")]
    assert [message["id"] for message in await chat.messages()] == ["a", "b"]
    history = await chat.bridge.history(chat.user, chat.id)
    assert history.active is not None
    assert history.active.run == runs[0].id
    held.set()
    await chat.read(runs[1])


async def test_stop_ends_the_running_answer_and_the_queued_ones(make: Make) -> None:
    chat, model = queueing_chat(make, asyncio.Event())
    runs = [await chat.begin(text, text) for text in "abc"]
    await chat.reader(runs[0]).until("text-delta")
    assert await chat.stop()
    answers = [await chat.read(run) for run in runs]
    assert all(answer.types[-1] == "finish" for answer in answers)
    assert answers[0].text == "one "
    assert (await chat.messages())[1] == answers[0].message
    assert len(model.requests) == 1


async def test_stop_of_a_named_run_lets_the_next_one_begin(make: Make) -> None:
    chat, _ = queueing_chat(make, asyncio.Event())
    runs = [await chat.begin(text, text) for text in "ab"]
    await chat.reader(runs[0]).until("text-delta")
    assert await chat.stop(runs[0].id)
    assert (await chat.read(runs[1])).text == "b!"


async def test_a_pending_call_is_sealed_though_the_next_message_was_stopped_in_the_queue(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "STOP_PATIENCE", 0.05)

    async def browse() -> None:
        """Wait for a browser."""

    held = asyncio.Event()
    model = by_question(a=[Say("Look. "), Wait(held), Call("browse", {}, "c1")], c=[Say("c!")])
    chat = make(model, LongRunningFunctionTool(browse), on_busy="queue")
    first, second = [await chat.begin(text, text) for text in "ab"]
    await chat.reader(first).until("text-delta")
    assert await chat.stop(second.id)
    held.set()
    assert (await chat.read(first)).plain[-1]["finishReason"] == "tool-calls"
    assert (await chat.say("c", "c")).text == "c!"
    assert_legal(model.requests[-1])


async def test_stop_ends_a_queued_regeneration(make: Make) -> None:
    chat, model = queueing_chat(make, asyncio.Event())
    first = await chat.begin("a", "a")
    await chat.reader(first).until("text-delta")
    second = await chat.begin("a", "a", trigger="regenerate-message", replaces=first.message_id)
    async with asyncio.timeout(PATIENCE):
        assert await chat.stop()
    assert not first.active
    assert not second.active
    assert len(model.requests) == 1


async def test_delete_ends_queued_runs(make: Make) -> None:
    chat, model = queueing_chat(make, asyncio.Event())
    runs = [await chat.begin(text, text) for text in "ab"]
    await chat.reader(runs[0]).until("text-delta")
    async with asyncio.timeout(PATIENCE):
        await chat.bridge.delete(chat.user, chat.id)
    assert not any(run.active for run in runs)
    assert len(model.requests) == 1


async def test_close_ends_queued_runs(make: Make) -> None:
    chat = make(by_question(a=[Say("one "), Wait(asyncio.Event())], b=[Say("b!")]), on_busy="queue", drain=0.01)
    runs = [await chat.begin(text, text) for text in "ab"]
    await chat.reader(runs[0]).until("text-delta")
    async with asyncio.timeout(PATIENCE):
        await chat.bridge.close()
    assert not any(run.active for run in runs)


async def test_a_message_queued_behind_an_edit_runs_once(make: Make) -> None:
    held = asyncio.Event()
    chat, model = queueing_chat(make, held)
    held.set()
    await chat.say("a", "a")
    held.clear()
    edit = await chat.begin("a", "a", replaces="a")
    behind = await chat.begin("b", "b")
    await chat.reader(edit).until("text-delta")
    assert await chat.begin("b", "b") is behind
    held.set()
    assert (await chat.read(behind)).text == "b!"
    again = await chat.say("b", "b")
    assert again.message == (await chat.read(behind)).message
    assert [request[-1][1] for request in map(texts_in, model.requests)] == ["a", "a", "b"]
