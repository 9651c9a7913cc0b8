"""Two servers on one file and a live conversation: one of them has it, and the other can do everything about it."""

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
from tests.live.live_house import CHAT, ME, Ear, House, Reader, Till, house

PAY = [Call("pay", {"amount": 5})]
YES = UncheckedAnswer(approved=True)


@asynccontextmanager
async def two(folder: Path, turns: Sequence[Sequence[Step]], **settings: Any) -> AsyncGenerator[tuple[House, House]]:
    """Two houses with one script; only in the first somebody talks."""
    db = folder / "state.db"
    async with (
        house(turns, db=db, **settings) as one,
        house(turns, db=db, joined=False, **settings) as other,
    ):
        other._said = 100  # pyright: ignore[reportPrivateUsage] - no id twice
        yield one, other


async def test_an_answer_given_at_the_other_reaches_a_held_call(tmp_path: Path) -> None:
    async with two(tmp_path, [PAY, [Say("Done.")]]) as (here, there):
        answer = await (await here.say("pay")).until_break()
        await there.answer("pay", YES)
        await answer.rest()
        assert (answer.text, here.till.paid, there.till.paid) == ("Done.", [5], [])
        assert here.ear.settlements
        await there.agrees_with(answer)


async def test_of_two_answers_at_once_one_is_taken(tmp_path: Path) -> None:
    async with two(tmp_path, [PAY, [Say("Done.")]]) as (here, there):
        answer = await (await here.say("pay")).until_break()
        call = (await here.waiting("pay")).tool_call_id
        given = await asyncio.gather(
            here.bridge.answer(ME, CHAT, call, YES),
            there.bridge.answer(ME, CHAT, call, UncheckedAnswer(approved=False)),
            return_exceptions=True,
        )
        assert [isinstance(one, Conflict) for one in given].count(True) == 1
        await answer.rest()
        assert here.till.paid == ([] if isinstance(given[0], Conflict) else [5])
        assert there.till.paid == []


async def test_who_joins_at_the_other_takes_the_conversation_with_its_card(tmp_path: Path) -> None:
    async with two(tmp_path, [PAY, [Say("Done.")], [Say("Bye.")]]) as (here, there):
        answer = await (await here.say("pay")).until_break()
        link = await there.join()
        assert not link.resumed
        assert here.ear.notices == ["taken-over"]
        assert here.ear.is_over
        assert here.bridge.live.count == 0
        await answer.rest()
        assert answer.plain[-1]["finishReason"] == "tool-calls"
        await there.answer("pay", YES)
        await there.ear.until(lambda ear: ear.turns)
        rest = await Reader(there.bridge, there.ear.turns[0][0]).rest()
        assert (rest.text, here.till.paid, there.till.paid) == ("Done.", [], [5])
        assert (await (await there.say("bye")).rest()).text == "Bye."
        assert await here.messages() == await there.messages()
        assert len(await here.messages()) == 4


async def test_who_joins_at_the_other_ends_what_is_being_said(tmp_path: Path) -> None:
    async with two(tmp_path, [[Say("one "), Wait(asyncio.Event())], [Say("Mine.")]]) as (here, there):
        answer = await (await here.say("count")).until(lambda me: "one" in me.text)
        await there.join()
        await answer.rest()
        after = await (await there.say("go on")).rest()
        assert after.text == "Mine."
        await there.agrees_with(answer, after)
        assert [message["role"] for message in await here.messages()] == ["user", "assistant"] * 2


async def test_a_conversation_goes_back_and_forth(tmp_path: Path) -> None:
    async with two(tmp_path, [[Say("a")], [Say("b")], [Say("c")]]) as (here, there):
        one = await (await here.say("1")).rest()
        await there.join()
        two_ = await (await there.say("2")).rest()
        back = Ear()
        here._link = None  # pyright: ignore[reportPrivateUsage]
        await here.join(back)
        three = await (await here.say("3")).rest()
        assert there.ear.is_over
        assert [answer.text for answer in (one, two_, three)] == ["a", "b", "c"]
        await there.agrees_with(one, two_, three)
        assert len(await here.messages()) == 6


async def test_a_stop_at_the_other_ends_a_live_turn(tmp_path: Path) -> None:
    async with two(tmp_path, [[Say("one "), Wait(asyncio.Event())], [Say("Next.")]]) as (here, there):
        answer = await (await here.say("count")).until(lambda me: "one" in me.text)
        assert await there.bridge.stop(ME, CHAT, answer.run.id)
        await answer.rest()
        assert answer.types[-2:] == ["abort", "finish"]
        assert here.ear.notices == []
        assert not here.ear.is_over
        assert (await (await here.say("go on")).rest()).text == "Next."
        await there.agrees_with(answer)


async def test_a_message_to_the_other_is_refused_while_somebody_talks(tmp_path: Path) -> None:
    held = asyncio.Event()
    async with two(tmp_path, [[Say("one "), Wait(held), Say("two")], [Say("Mine.")]]) as (here, there):
        answer = await (await here.say("count")).until(lambda me: "one" in me.text)
        with pytest.raises(Conflict, match="live conversation"):
            await there.type("now")
        held.set()
        await answer.rest()
        assert (answer.text, answer.types[-1]) == ("one two", "finish")
        assert "abort" not in answer.types
        assert not here.ear.is_over


async def test_a_wish_to_go_on_elsewhere_leaves_what_is_being_said(tmp_path: Path) -> None:
    async with two(tmp_path, [[Say("one "), Wait(asyncio.Event())]]) as (here, _):
        answer = await (await here.say("count")).until(lambda me: "one" in me.text)
        # Wishes are heard in their order: it is the second that ends it.
        signals = SqliteSignals(tmp_path / "state.db")
        for why in ("superseded", "stopped"):
            await signals.send(Stop.topic, msgspec.json.encode(Stop(ME, CHAT, answer.run.id, why)))
        await signals.close()
        await answer.rest()
        assert answer.run.why == "stopped"


async def test_a_message_to_the_other_takes_the_chat_when_nobody_is_there(tmp_path: Path) -> None:
    async with two(tmp_path, [PAY, [Say("Mine.")]]) as (here, there):
        answer = await (await here.say("pay")).until_break()
        here.link.leave()
        after = await (await there.type("never mind")).rest()
        assert after.text == "Mine."
        assert here.bridge.live.count == 0
        await answer.rest()
        await here.agrees_with(after)
        assert here.till.paid == there.till.paid == []
        assert await there.pending() == []


async def test_a_card_left_at_one_is_answered_at_the_other(tmp_path: Path) -> None:
    async with two(tmp_path, [PAY, [Say("Done.")]]) as (here, there):
        answer = await (await here.say("pay")).until_break()
        await here.link.close()
        await answer.rest()
        await there.answer("pay", YES)
        run = there.bridge.running(ME, CHAT)
        assert run is not None
        assert (await Reader(there.bridge, run).rest()).text == "Done."
        assert (here.till.paid, there.till.paid) == ([], [5])


async def test_a_deleted_chat_leaves_no_lease() -> None:
    board = SharedSignals()
    settings = Settings(live_modality="text", events_per_second=0)
    stores = replace(Stores.open(settings), signals=MemorySignals(board))
    model = ScriptedModel(turns=[[Say("Hello.")]])
    bridge = Bridge(LlmAgent(name="teller", model=model), settings=settings, stores=stores)
    here = House(bridge, model, Till())
    await here.join()
    await (await here.say("hi")).rest()
    assert len(board.holders) == 2
    await bridge.delete(ME, CHAT)
    assert (board.holders, board.last_holders) == ({}, {})
    await bridge.close(drain=0)
