"""A file, the servers that live on it one after the other, and all who use them; with what must hold whenever the
server rests."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from adkwire.errors import Conflict, NotFound, NotRecovered, RequestError
from adkwire.gate.records import OPEN, Given, PendingCall
from adkwire.runs.reading import Reading
from adkwire.runs.run import Run
from adkwire.runs.sessions import ChatKey
from adkwire.testing import assert_valid_stream
from adkwire.wire import chunks as c
from adkwire.wire.decoder import TurnInput, UserMessage
from adkwire.wire.messages import ToolPart, UIMessage, fold
from adkwire.wire.profiles import Profile
from tests.gate.records import Clock
from tests.runs.chats import Chat, plain, tool_parts
from tests.runs.pages import Page
from tests.runs.stateful_life import Died, Life
from tests.runs.stateful_outside import Answering, Outside
from tests.runs.stateful_readers import Book, Reader

USER = "ann"
CHATS = ("c0", "c1")
TTL, APPROVAL = 500.0, 200.0
CLIENTS = ("ai/6.0.0", "ai/7.0.169")

Act = Callable[["World", str, int], Awaitable[None]]


class World:
    """Everything, over any number of lives."""

    def __init__(self, path: Path, **given: Any) -> None:
        self.path = path
        self.given = given
        self.clock = Clock()
        self.outside = Outside()
        self.books: dict[str, Book] = {}
        self.readers: list[Reader] = []
        self.pages: dict[str, list[UIMessage]] = {chat: [] for chat in CHATS}
        self.turns: dict[str, TurnInput] = {}
        self.asked: list[tuple[str, str]] = []
        """Calls that anybody has ever been asked about."""
        self.said = 0
        self.touched: set[str] = set()
        self.met: set[str] = set()
        self.closing = False
        self.life = self._born()
        self.do(self._rise())

    @property
    def bridge(self) -> Any:
        return self.life.bridge

    def _born(self) -> Life:
        self.met, self.touched = set(), set()
        limits = {"stream_ttl": TTL, "approval_timeout": APPROVAL}
        return Life(self.path, self.outside.agent, self.clock, **limits, **self.given)

    def step(self, *acts: tuple[Act, str, int]) -> None:
        """Do these at once, and look at everything when all is quiet."""
        self.touched |= {chat for _, chat, _ in acts}
        try:
            for act, chat, number in acts:
                self.life.spawn(self._guarded(act(self, chat, number), alone=len(acts) == 1))
            self.do(self._look())
        except Died:
            self.die()

    def go_on(self, one: Answering, steps: list[str]) -> None:
        """The model does something."""
        self.touched.add(one.chat)
        self.outside.go_on(one, steps)
        self.step()

    def let_tools_go(self) -> None:
        """Tools that were held come to their end."""
        for held in self.outside.held.values():
            held.set()
        self.step()

    def with_reader(self, number: int, act: Callable[["World", Reader], Awaitable[None]]) -> None:
        if not self.readers:
            return
        reader = self.readers[-1 - number % len(self.readers)]
        try:
            self.do(act(self, reader))
        except Died:
            self.die()
        self.step()

    def cut(self, number: int, forgets: int) -> None:
        if self.readers:
            self.do(self.readers[-1 - number % len(self.readers)].cut(forgets))

    def time_passes(self, seconds: float) -> None:
        """The clock goes on; what waits for it is told."""
        self.clock.advance(seconds)
        try:
            self.do(self._ring())
        except Died:
            self.die()
        self.step()

    async def _ring(self) -> None:
        self.bridge._expiry.start()

    def doom(self, writes: int, *, after: bool) -> None:
        """This server will die at its next writes."""
        self.life.fate.writes_left, self.life.fate.after_the_write = writes, after

    def do(self, work: Any) -> None:
        self.life.run(work)
        self.complain()

    def complain(self) -> None:
        assert not self.outside.problems, "\n".join(self.outside.problems)

    async def _guarded(self, act: Awaitable[None], *, alone: bool) -> None:
        try:
            await act
        except RequestError as error:
            expected = (NotFound, Conflict, NotRecovered) if alone else RequestError
            if not isinstance(error, expected) and not self.closing:
                self.outside.problems.append(f"refused: {error.message}")
        except Exception:
            self.outside.problems.append(traceback.format_exc())

    async def _look(self) -> None:
        await self.life.rest()
        await self.check()

    def die(self) -> None:
        """The server is killed; another one is started on the file."""
        self._cut_off()
        self.life.fate.die()
        self.life.bury()
        self._next_life()

    def restart(self) -> None:
        """The server goes down as told; another one is started on the file."""
        self.closing = True
        try:
            self.life.run(self._leave())
            left = self.life.close()
        except Died:
            self.closing = False
            self.die()
            return
        self.complain()
        self.closing = False
        assert not left, f"left running: {left}"
        self._next_life()

    def _next_life(self) -> None:
        self.life = self._born()
        self.do(self._rise())

    def end(self) -> None:
        """The last server goes down; nothing is left open in the file."""
        self.life.fate.writes_left = None
        self.restart()
        self.touched = set(CHATS)
        self.do(self._look())
        for book in self.books.values():
            assert book.closed or book.may_vanish, f"{book.head.run} has no end"
        self.closing = True
        left = self.life.close()
        assert not left, f"left running: {left}"

    def _cut_off(self) -> None:
        for reader in self.readers:
            reader.reading = reader.batches = None

    async def _leave(self) -> None:
        for reader in self.readers:
            await reader.cut()

    async def _rise(self) -> None:
        """A server begins: all that anybody has seen is there."""
        self.bridge.watch()
        await self.life.rest()
        for book in list(self.books.values()):
            if not await book.read_again(self.life.log):
                self._is_lost(book)
        await self.check()

    def _is_lost(self, book: Book) -> None:
        """What is no longer kept was to be deleted, or is old."""
        assert self.may_be_lost(book), f"{book.head.run} is lost"
        del self.books[book.head.run]

    def may_be_lost(self, book: Book | None) -> bool:
        return book is None or book.may_vanish or self.clock.now - book.seen_open >= TTL

    async def check(self) -> None:
        """What holds whenever the server rests."""
        for chat in CHATS:
            for head in await self.life.log.runs(USER, chat):
                self.books.setdefault(head.run, Book(head, self.clock.now))
        for book in list(self.books.values()):
            await self._read_on(book)
        for reader in self.readers:
            self._compare(reader)
        for chat in sorted(self.touched):
            await self._check_chat(chat)

    async def _read_on(self, book: Book) -> None:
        if book.closed:
            return
        if not await book.read_on(self.life.log):
            self._is_lost(book)
        elif not book.closed:
            book.seen_open = self.clock.now

    def _compare(self, reader: Reader) -> None:
        book = self.books.get(reader.run)
        if reader.lost:
            assert self.may_be_lost(book), f"{reader.run} was cut off"
        elif book is not None:
            reader.compare(book)

    async def _check_chat(self, chat: str) -> None:
        if chat not in self.met:
            # The first look may let something go on that waited for it.
            self.met.add(chat)
            await self._history(chat)
            await self._look()
            return
        active: list[Run] = self.bridge._chats.active(ChatKey(USER, chat))
        writing = [run for run in active if not run._queued]
        assert len(writing) <= 1, f"{len(writing)} runs write in {chat}"
        assert len(self.outside.of(chat)) <= 1, f"the model answers twice in {chat}"
        calls = {call.call: call for call in await self.bridge._gate.of(USER, chat)}
        self.asked += [(chat, call) for call in calls if (chat, call) not in self.asked]
        if not active:
            self._check_quiet(chat, calls)
        messages = await self._history(chat)
        ids = [message["id"] for message in messages]
        assert len(ids) == len(set(ids)), f"a message is there twice: {ids}"
        for message in messages:
            self._check_honesty(message)
        for book in self._of(chat):
            if book.closed and not book.compared and not any(run.message_id == book.head.message for run in active):
                book.compared = True
                self._check_message(book, {message["id"]: message for message in messages}, calls)

    def _check_quiet(self, chat: str, calls: dict[str, PendingCall]) -> None:
        assert not self.outside.of(chat), f"the model answers in {chat}, and nothing runs"
        executing = [call.call for call in calls.values() if call.state == "executing"]
        assert not executing, f"{executing} are still executing"
        unclosed = [book.head.run for book in self._of(chat) if not book.closed]
        assert not unclosed, f"{unclosed} have no end"

    def _check_honesty(self, message: dict[str, Any]) -> None:
        """What a person reads of a payment is what happened."""
        for part in tool_parts(message):
            if part["type"] != "tool-pay":
                continue
            paid, told = self.outside.executed[part["input"].get("n", 0)], part.get("errorText", "")
            assert not (paid and "not executed" in told), f"{part} was executed"
            assert paid or part["state"] != "output-available", f"{part} was not executed"

    def _of(self, chat: str) -> list[Book]:
        return [book for book in self.books.values() if book.head.chat == chat]

    def _check_message(
        self, book: Book, history: dict[str, dict[str, Any]], calls: dict[str, PendingCall]
    ) -> None:
        """A stream is one that every client takes, and history says the same."""
        for client in CLIENTS:
            profile = Profile.declared(client)
            assert_valid_stream([one for chunk in book.whole if (one := profile.fit(chunk))], client=client)
        if is_refusal(book) or book.may_vanish or self._later(book):
            return
        shown = plain(fold(book.whole))
        told = history.get(book.head.message)
        if told is None:
            seen = [part for part in shown["parts"] if part["type"] != "step-start"]
            assert book.replaced or not seen, f"history does not have {shown}"
            return
        since = {call.call for call in calls.values() if call.state not in OPEN and call.message == book.head.message}
        assert masked(shown, shown, since) == masked(told, shown, since)

    def _later(self, book: Book) -> bool:
        """Whether the message went on in another run."""
        runs = [one for one in self._of(book.head.chat) if one.head.message == book.head.message]
        return any(not is_refusal(one) for one in runs[runs.index(book) + 1 :])

    async def _history(self, chat: str) -> list[dict[str, Any]]:
        try:
            return plain((await self.bridge.history(USER, chat)).messages)
        except NotFound:
            return []

    async def page(self, chat: str, *, reload: bool) -> Page:
        """A stock client's tab."""
        page = Page(Chat(self.bridge, chat, USER))
        if reload:
            self.pages[chat] = (await self.bridge.history(USER, chat)).messages
        page.messages = self.pages[chat]
        return page

    async def post(self, turn: TurnInput) -> None:
        """A request for a turn, and somebody who reads the answer."""
        run: Run = await self.bridge.start(USER, turn)
        self.readers.append(Reader.of(turn.chat, self.bridge.reading(run), 0))

    def answering(self, chat: str) -> Answering | None:
        return next(iter(self.outside.of(chat)), None)


def is_refusal(book: Book) -> bool:
    """A stream that only says why nothing was done; it is no part of the message."""
    return not book.head.said and [type(chunk) for chunk in book.whole] == [c.Start, c.Error]


def masked(message: dict[str, Any], shown: dict[str, Any], since: set[str]) -> dict[str, Any]:
    """A message without the calls that waited when its stream ended and that somebody has answered since."""
    waited = {part["toolCallId"] for part in tool_parts(shown) if not part["state"].startswith("output-")} & since
    if not waited:
        return message
    parts = [part for part in message["parts"] if part.get("toolCallId") not in waited and part["type"] != "step-start"]
    return {**message, "parts": parts}


async def send(world: World, chat: str, number: int) -> None:
    """Something new, maybe while something runs."""
    world.said += 1
    turn = TurnInput(chat, "submit-message", UserMessage(f"u{world.said}", (f"{chat} says {number}",)), None)
    world.turns[chat] = turn
    await world.post(turn)


async def send_again(world: World, chat: str, number: int) -> None:
    """The very same request."""
    if chat in world.turns:
        await world.post(world.turns[chat])


async def regenerate(world: World, chat: str, number: int) -> None:
    """Another answer to the last message, or to one before."""
    page = await world.page(chat, reload=True)
    answers = [message.id for message in page.messages if message.role == "assistant"]
    if answers:
        forget_compared(world, chat)
        await world.post(TurnInput(chat, "regenerate-message", None, answers[-1 - number % len(answers)]))


async def edit(world: World, chat: str, number: int) -> None:
    """What the user said last, in other words."""
    page = await world.page(chat, reload=True)
    said = [message.id for message in page.messages if message.role == "user"]
    if said:
        forget_compared(world, chat)
        message = UserMessage(said[-1], (f"{chat} means {number}",))
        await world.post(TurnInput(chat, "submit-message", message, said[-1]))


def forget_compared(world: World, chat: str) -> None:
    for book in world.books.values():
        book.replaced = book.replaced or book.head.chat == chat


async def stop(world: World, chat: str, number: int) -> None:
    """Stop all, the running one by its name, or one of long ago."""
    running: list[str] = [run.id for run in world.bridge._chats.active(ChatKey(USER, chat))]
    known = [book.head.run for book in world.books.values() if book.head.chat == chat]
    named = running[:1] if number % 3 == 1 else known[:1] if number % 3 == 2 else []
    await world.bridge.stop(USER, chat, named[0] if named else None)
    for run in running if not named else [one for one in running if one in named]:
        await assert_ended(world, run)


async def assert_ended(world: World, run: str) -> None:
    head = await world.life.log.head(run)
    if head is not None:
        book = world.books.setdefault(run, Book(head, world.clock.now))
        await book.read_on(world.life.log)
        assert book.closed, f"{run} goes on after it was stopped"


async def delete(world: World, chat: str, number: int) -> None:
    for book in world.books.values():
        book.may_vanish = book.may_vanish or book.head.chat == chat
    await world.bridge.delete(USER, chat)
    world.turns.pop(chat, None)


async def answer(world: World, chat: str, number: int) -> None:
    """One answer by the calls route: to what waits, or to anything that ever did."""
    kind, which = ("yes", "no", "output", "stale yes", "yes", "output")[number % 6], number // 6
    waiting = [call.call for call in await world.bridge._gate.waiting(USER) if call.chat == chat]
    ids = [call for where, call in world.asked if where == chat] if "stale" in kind else waiting
    if not ids:
        return
    call_id = ids[-1 - which % len(ids)]
    call: PendingCall | None = await world.bridge._gate.get(USER, chat, call_id)
    given = Given(output={"n": which}) if kind == "output" else Given(approved="yes" in kind)
    if call is not None and given.approved:
        world.outside.say_yes(call.input["n"], asked=call.state in OPEN)
    taken: PendingCall = await world.bridge.answer(USER, chat, call_id, given)
    if given.approved is False:
        assert taken.answer is not None
        assert taken.answer.approved is False
        world.outside.say_no(taken.input["n"])


async def repost(world: World, chat: str, number: int) -> None:
    """Answers in the message, as a stock client sends them: some or all, from a page that may be old."""
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
            world.outside.say_yes(part.input["n"], asked=True)
    if waiting or stale:
        await world.post(page.request())


def is_waiting(part: ToolPart) -> bool:
    if part.state == "approval-requested":
        return True
    return part.state == "input-available" and part.type in ("tool-clock", "tool-where")


async def join(world: World, chat: str, number: int) -> None:
    """Another tab, which has nothing."""
    reading: Reading | None = await world.bridge.follow(USER, chat)
    if reading is None:
        return
    head = await world.life.log.head(reading.run)
    assert head is not None
    world.readers.append(Reader.of(chat, reading, -head.before))


async def look(world: World, chat: str, number: int) -> None:
    """Load the page."""
    await world.page(chat, reload=True)


async def read(world: World, reader: Reader) -> None:
    """Read what there is."""
    while reader.batches is not None and not reader.over:
        if reader.reading is None:
            reader.reading = asyncio.create_task(reader.step(), name="reader")
            await world.life.rest()
        if not reader.reading.done():
            return
        batch, reader.reading = reader.reading.result(), None
        reader.take(batch)


async def come_back(world: World, reader: Reader) -> None:
    """A client of ours, which names its place."""
    place = reader.place
    if place is None or reader.batches is not None:
        return
    try:
        reading = await world.bridge.follow(USER, reader.chat, place)
    except NotRecovered:
        assert world.may_be_lost(world.books.get(reader.run)), f"{place} was not recovered"
        world.readers.remove(reader)
        return
    reader.come_back(reading)
