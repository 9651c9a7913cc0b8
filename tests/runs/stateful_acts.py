"""Actions of users and their pages, each as one request; `number` chooses where there is a choice."""

import asyncio

from adkwire.errors import NotRecovered
from adkwire.gate.records import OPEN, CallRecord, UncheckedAnswer
from adkwire.runs.readers import Reading
from adkwire.stores.base import ChatKey
from adkwire.wire.decode.decoder import TurnInput, UserMessage
from adkwire.wire.messages import ToolPart
from tests.runs.stateful_readers import Reader, RunCopy
from tests.runs.stateful_world import USER, World
from tests.support.chats import plain


async def send(world: World, chat: str, number: int) -> None:
    """Send a new message, maybe while a run writes."""
    world.sent += 1
    turn = TurnInput(chat, "submit-message", UserMessage(f"u{world.sent}", (f"{chat} says {number}",)), None)
    world.turns[chat] = turn
    await world.post(turn)


async def send_again(world: World, chat: str, number: int) -> None:
    """Send the last request once more."""
    if chat in world.turns:
        await world.post(world.turns[chat])


async def regenerate(world: World, chat: str, number: int) -> None:
    """Regenerate the last answer, or an earlier one."""
    page = await world.page(chat, reload=True)
    answers = [message.id for message in page.messages if message.role == "assistant"]
    if answers:
        await rewind(world, TurnInput(chat, "regenerate-message", None, answers[-1 - number % len(answers)]))


async def edit(world: World, chat: str, number: int) -> None:
    """Edit the last user message."""
    page = await world.page(chat, reload=True)
    sent = [message.id for message in page.messages if message.role == "user"]
    if sent:
        message = UserMessage(sent[-1], (f"{chat} means {number}",))
        await rewind(world, TurnInput(chat, "submit-message", message, sent[-1]))


async def rewind(world: World, turn: TurnInput) -> None:
    """Post a request that rewinds the chat; note that later messages may disappear from history."""
    world.rewinding.append(turn.chat)
    try:
        run = await world.post(turn)
        world.rewound.add(run.id)
    finally:
        if not world.server.crash_point.discarded:
            world.rewinding.remove(turn.chat)


async def stop(world: World, chat: str, number: int) -> None:
    """Stop all runs, a running one by its id, or an old one by its id."""
    running: list[str] = [run.id for run in world.bridge._chats.active(ChatKey(USER, chat))]
    old = [copy.head.run for copy in world.copies.values() if copy.head.chat == chat]
    named = [] if stops_all(number) else running[:1] if number % 3 == 1 else old[:1]
    await world.bridge.stop(USER, chat, named[0] if named else None)
    for run in running if not named else [one for one in running if one in named]:
        await assert_ended(world, run)


def stops_all(number: int) -> bool:
    return number % 3 == 0


async def assert_ended(world: World, run: str) -> None:
    head = await world.server.log.head(run)
    if head is not None:
        copy = world.copies.setdefault(run, RunCopy(head, world.clock.now))
        await copy.read_on(world.server.log)
        assert copy.closed, f"{run} goes on after it was stopped"


async def delete(world: World, chat: str, number: int) -> None:
    for copy in world.copies.values():
        copy.may_be_deleted = copy.may_be_deleted or copy.head.chat == chat
    await world.bridge.delete(USER, chat)
    world.turns.pop(chat, None)


async def answer(world: World, chat: str, number: int) -> None:
    """Answer one call by the calls route: a pending call, or any call that ever was one."""
    kind, which = ("yes", "no", "output", "stale yes", "yes", "output")[number % 6], number // 6
    waiting = [call.call for call in await world.bridge._gate.waiting(USER) if call.chat == chat]
    ids = [call for where, call in world.calls if where == chat] if "stale" in kind else waiting
    if not ids:
        return
    call_id = ids[-1 - which % len(ids)]
    call: CallRecord | None = await world.bridge._gate.get(USER, chat, call_id)
    answer_sent = UncheckedAnswer(output={"n": which}) if kind == "output" else UncheckedAnswer(approved="yes" in kind)
    if call is not None and answer_sent.approved:
        world.agent.approve(call.input["n"], asked=call.state in OPEN)
    taken: CallRecord = await world.bridge.answer(USER, chat, call_id, answer_sent)
    if answer_sent.approved is False:
        assert taken.answer is not None
        assert taken.answer.approved is False
        world.agent.deny(taken.input["n"])


async def repost(world: World, chat: str, number: int) -> None:
    """Send answers in the message, as a stock client does: one or all, from a page that may be old."""
    some, refuse, stale = number % 2, number // 2 % 2, number // 4 % 2
    page = await world.page(chat, reload=not stale)
    if not page.messages or page.messages[-1].role != "assistant":
        return
    waiting = [part for part in page.messages[-1].parts if isinstance(part, ToolPart) and is_waiting(part)]
    for part in waiting[: 1 if some else None]:
        if part.state == "input-available":
            page.give(part.tool_call_id, {"n": number})
            continue
        page.approve(part.tool_call_id, approved=not refuse)
        if not refuse and part.type == "tool-pay":
            world.agent.approve(plain(part.input)["n"], asked=True)
    if waiting or stale:
        await world.post(page.request())


def is_waiting(part: ToolPart) -> bool:
    if part.state == "approval-requested":
        return True
    return part.state == "input-available" and part.type in ("tool-clock", "tool-where")


async def join(world: World, chat: str, number: int) -> None:
    """Open another tab, which reads the whole message."""
    reading: Reading | None = await world.bridge.follow(USER, chat)
    if reading is None:
        return
    head = await world.server.log.head(reading.run)
    assert head is not None
    world.readers.append(Reader.of(chat, reading, head.before, whole=True))


async def look(world: World, chat: str, number: int) -> None:
    """Load the page."""
    await world.page(chat, reload=True)


async def read(world: World, reader: Reader) -> None:
    """Read all entries that there are."""
    while reader.batches is not None and not reader.over:
        if reader.reading is None:
            reader.reading = asyncio.create_task(reader.step(), name="reader")
            await world.server.until_idle()
        if not reader.take_done():
            return


async def come_back(world: World, reader: Reader) -> None:
    """Read on after the position of a reader that was disconnected."""
    position = reader.position
    if position is None or reader.batches is not None:
        return
    try:
        reading = await world.bridge.follow(USER, reader.chat, position)
    except NotRecovered:
        assert world.may_be_lost(world.copies.get(reader.run)), f"{position} was not recovered"
        world.readers.remove(reader)
        return
    reader.come_back(reading)
