"""Two workers on one file and a live conversation: one of them has it, and the other can answer, stop and take over."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.adk.agents import LlmAgent

from adkwire.bridge import Bridge
from adkwire.errors import Conflict
from adkwire.gate.records import UncheckedAnswer
from adkwire.runs.worker_messages import Stop
from adkwire.settings import Settings
from adkwire.stores.memory.signals import MemorySignals, SharedSignals
from adkwire.stores.sqlite.signals import SqliteSignals
from adkwire.stores.stores import Stores
from adkwire.testing import Call, Say, ScriptedModel, Wait
from adkwire.testing.steps import Step
from tests.live.live_chat import CHAT, ME, LiveChat, Reader, live_chat

PAY = [Call("pay", {"amount": 5})]
YES = UncheckedAnswer(approved=True)


@asynccontextmanager
async def two_workers(
    folder: Path, turns: Sequence[Sequence[Step]], **settings: Any
) -> AsyncGenerator[tuple[LiveChat, LiveChat]]:
    """Yield the same chat at two workers with one script. A client has joined at the first."""
    db = folder / "state.db"
    async with (
        live_chat(turns, db=db, **settings) as one,
        live_chat(turns, db=db, joined=False, **settings) as other,
    ):
        other.first_message = 100  # so that no message id occurs twice
        yield one, other


async def test_an_answer_given_at_the_other_reaches_a_held_call(tmp_path: Path) -> None:
    async with two_workers(tmp_path, [PAY, [Say("Done.")]]) as (first, second):
        answer = await (await first.send("pay")).until_break()
        await second.answer("pay", YES)
        await answer.rest()
        assert (answer.text, first.tools.paid, second.tools.paid) == ("Done.", [5], [])
        assert first.listener.settlements
        await second.assert_history_matches(answer)


async def test_of_two_answers_at_once_one_is_taken(tmp_path: Path) -> None:
    async with two_workers(tmp_path, [PAY, [Say("Done.")]]) as (first, second):
        answer = await (await first.send("pay")).until_break()
        call = (await first.pending_call("pay")).tool_call_id
        results = await asyncio.gather(
            first.bridge.answer(ME, CHAT, call, YES),
            second.bridge.answer(ME, CHAT, call, UncheckedAnswer(approved=False)),
            return_exceptions=True,
        )
        assert [isinstance(result, Conflict) for result in results].count(True) == 1
        await answer.rest()
        assert first.tools.paid == ([] if isinstance(results[0], Conflict) else [5])
        assert second.tools.paid == []


async def test_joining_at_another_worker_takes_over_the_conversation_and_its_call(tmp_path: Path) -> None:
    async with two_workers(tmp_path, [PAY, [Say("Done.")], [Say("Bye.")]]) as (first, second):
        answer = await (await first.send("pay")).until_break()
        link = await second.join()
        assert not link.resumed
        assert first.listener.notices == ["taken-over"]
        assert first.listener.is_over
        assert first.bridge.live.count == 0
        await answer.rest()
        assert answer.plain[-1]["finishReason"] == "tool-calls"
        await second.answer("pay", YES)
        rest = await (await second.spoken_turn()).rest()
        assert (rest.text, first.tools.paid, second.tools.paid) == ("Done.", [], [5])
        assert (await (await second.send("bye")).rest()).text == "Bye."
        assert await first.messages() == await second.messages()
        assert len(await first.messages()) == 4


async def test_joining_at_another_worker_ends_the_answer(tmp_path: Path) -> None:
    async with two_workers(tmp_path, [[Say("one "), Wait(asyncio.Event())], [Say("Mine.")]]) as (first, second):
        answer = await (await first.send("count")).until(lambda reader: "one" in reader.text)
        await second.join()
        await answer.rest()
        after = await (await second.send("go on")).rest()
        assert after.text == "Mine."
        await second.assert_history_matches(answer, after)
        assert [message["role"] for message in await first.messages()] == ["user", "assistant"] * 2


async def test_a_conversation_moves_between_workers(tmp_path: Path) -> None:
    async with two_workers(tmp_path, [[Say("a")], [Say("b")], [Say("c")]]) as (first, second):
        answers = [await (await first.send("1")).rest()]
        await second.join()
        answers.append(await (await second.send("2")).rest())
        await first.rejoin()
        answers.append(await (await first.send("3")).rest())
        assert second.listener.is_over
        assert [answer.text for answer in answers] == ["a", "b", "c"]
        await second.assert_history_matches(*answers)
        assert len(await first.messages()) == 6


async def test_a_stop_at_another_worker_ends_a_live_turn(tmp_path: Path) -> None:
    async with two_workers(tmp_path, [[Say("one "), Wait(asyncio.Event())], [Say("Next.")]]) as (first, second):
        answer = await (await first.send("count")).until(lambda reader: "one" in reader.text)
        assert await second.bridge.stop(ME, CHAT, answer.run.id)
        await answer.rest()
        assert answer.types[-2:] == ["abort", "finish"]
        assert first.listener.notices == []
        assert not first.listener.is_over
        assert (await (await first.send("go on")).rest()).text == "Next."
        await second.assert_history_matches(answer)


async def test_a_post_at_another_worker_is_refused_while_a_client_is_linked(tmp_path: Path) -> None:
    held = asyncio.Event()
    async with two_workers(tmp_path, [[Say("one "), Wait(held), Say("two")], [Say("Mine.")]]) as (first, second):
        answer = await (await first.send("count")).until(lambda reader: "one" in reader.text)
        with pytest.raises(Conflict, match="live conversation"):
            await second.post("now")
        held.set()
        await answer.rest()
        assert (answer.text, answer.types[-1]) == ("one two", "finish")
        assert "abort" not in answer.types
        assert not first.listener.is_over


async def test_a_superseding_stop_signal_does_not_end_a_live_turn(tmp_path: Path) -> None:
    async with two_workers(tmp_path, [[Say("one "), Wait(asyncio.Event())]]) as (first, _):
        answer = await (await first.send("count")).until(lambda reader: "one" in reader.text)
        # Signals come in their order: only the second one ends the run.
        signals = SqliteSignals(tmp_path / "state.db")
        for why in ("superseded", "stopped"):
            await signals.send(Stop.topic, msgspec.json.encode(Stop(ME, CHAT, answer.run.id, why)))
        await signals.close()
        await answer.rest()
        assert answer.run.why == "stopped"


async def test_a_post_at_another_worker_takes_the_chat_when_no_client_is_linked(tmp_path: Path) -> None:
    async with two_workers(tmp_path, [PAY, [Say("Mine.")]]) as (first, second):
        answer = await (await first.send("pay")).until_break()
        first.link.leave()
        after = await (await second.post("never mind")).rest()
        assert after.text == "Mine."
        assert first.bridge.live.count == 0
        await answer.rest()
        await first.assert_history_matches(after)
        assert first.tools.paid == second.tools.paid == []
        assert await second.pending() == []


async def test_a_parked_call_is_answered_at_another_worker(tmp_path: Path) -> None:
    async with two_workers(tmp_path, [PAY, [Say("Done.")]]) as (first, second):
        answer = await (await first.send("pay")).until_break()
        await first.link.close()
        await answer.rest()
        await second.answer("pay", YES)
        run = second.bridge.running(ME, CHAT)
        assert run is not None
        assert (await Reader(second.bridge, run).rest()).text == "Done."
        assert (first.tools.paid, second.tools.paid) == ([], [5])


async def test_a_deleted_chat_leaves_no_lease() -> None:
    board = SharedSignals()
    settings = Settings(live_modality="text", events_per_second=0)
    stores = replace(Stores.open(settings), signals=MemorySignals(board))
    model = ScriptedModel(turns=[[Say("Hello.")]])
    bridge = Bridge(LlmAgent(name="teller", model=model), settings=settings, stores=stores)
    chat = LiveChat(bridge, model)
    await chat.join()
    await (await chat.send("hi")).rest()
    assert len(board.holders) == 2
    await bridge.delete(ME, CHAT)
    assert (board.holders, board.last_holders) == ({}, {})
    await bridge.close(drain=0)
