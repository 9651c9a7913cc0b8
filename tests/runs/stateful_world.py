"""A file, the servers that live on it one after the other, and all who use them; with what must hold whenever the
server rests."""

import asyncio
import contextlib
import sqlite3
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from adkwire.errors import Conflict, NotFound, NotRecovered, RequestError
from adkwire.gate.records import OPEN, PendingCall
from adkwire.runs.run import Run
from adkwire.stores.base import ChatKey
from adkwire.testing import assert_valid_stream
from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk
from adkwire.wire.decode.decoder import TurnInput
from adkwire.wire.folding import fold
from adkwire.wire.messages import UIMessage
from adkwire.wire.profiles import Profile
from tests.gate.records import Clock
from tests.runs.stateful_life import Died, Life
from tests.runs.stateful_outside import Outside
from tests.runs.stateful_readers import Book, Reader
from tests.support.chats import Chat, plain, tool_parts
from tests.support.pages import Page

USER = "ann"
CHATS = ("c0", "c1")
TTL, APPROVAL = 500.0, 200.0
CLIENTS = ("ai/6.0.0", "ai/7.0.169")

Act = Callable[["World", str, int], Coroutine[Any, Any, None]]
ReaderAct = Callable[["World", Reader], Coroutine[Any, Any, None]]


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
        self.rewinding: list[str] = []
        """Chats in which something was to be answered again, and nobody was told the run yet."""
        self.rewound: set[str] = set()
        """Runs that answer again."""
        self.said = 0
        self.lives = 0
        self.touched: set[str] = set()
        self.met: set[str] = set()
        self.closing = False
        self.sound = True
        """Whether nothing was found wrong."""
        self.life = self._born()
        self.do(self._rise())

    @property
    def bridge(self) -> Any:
        return self.life.bridge

    def _born(self) -> Life:
        self.lives += 1
        self.met, self.touched = set(), set()
        limits = {"stream_ttl": TTL, "approval_timeout": APPROVAL}
        return Life(self.path, self.outside.agent, self.clock, **limits, **self.given)

    def step(self, *acts: tuple[Act, str, int]) -> bool:
        """Do these at once, and look at everything when all is quiet; False when the server died of it."""
        self.touched |= {chat for _, chat, _ in acts}
        try:
            for act, chat, number in acts:
                self.life.spawn(self._guarded(act(self, chat, number), alone=len(acts) == 1))
            self.do(self._look())
        except Died:
            self.die()
            return False
        return True

    def assert_stopped(self, chat: str) -> None:
        """Nothing runs in a chat, and nothing waits."""
        assert not self.bridge._chats.active(ChatKey(USER, chat)), f"something runs in {chat}"
        assert chat not in self.waiting(), f"something waits in {chat}"

    def waiting(self) -> list[str]:
        """The chats in which a call waits for somebody."""
        try:
            calls: list[PendingCall] = self.life.run(self.bridge._gate.waiting(USER))
        except Died:
            self.die()
            return []
        return sorted({call.chat for call in calls})

    def go_on(self, number: int, steps: list[str]) -> bool:
        """A model that is asked does something; False when none is."""
        if not self.outside.answering:
            return False
        one = self.outside.answering[number % len(self.outside.answering)]
        self.touched.add(one.chat)
        self.outside.go_on(one, steps)
        self.step()
        return True

    def let_tools_go(self) -> None:
        """Tools that were held come to their end."""
        for held in self.outside.held.values():
            held.set()
        self.step()

    def with_reader(self, number: int, act: ReaderAct) -> None:
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

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        self.sound = False
        self.life.run(work)
        self.complain()
        self.sound = True

    def complain(self) -> None:
        assert not self.outside.problems, "\n".join(self.outside.problems)

    async def _guarded(self, act: Awaitable[None], *, alone: bool) -> None:
        try:
            await act
        except RequestError as error:
            expected = isinstance(error, NotFound | Conflict | NotRecovered) or not alone
            if not (expected or self.closing):
                self.outside.problems.append(f"refused: {error.message}")
        except Exception:  # noqa: BLE001 - whatever it is, the test says so
            if not self.life.fate.buried:
                self.outside.problems.append(traceback.format_exc())

    async def _look(self) -> None:
        await self.life.rest()
        await self._read_eagerly()
        await self.check()

    def die(self) -> None:
        """The server is killed; another one is started on the file."""
        self._cut_off()
        self.closing = True
        self.life.fate.die()
        self.life.bury()
        self.closing = False
        self._next_life()

    def restart(self) -> None:
        """The server goes down as told; another one is started on the file."""
        self.closing, self.sound = True, False
        try:
            self.life.run(self._leave())
            left = self.life.close()
        except Died:
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
        """The last server goes down; nothing is left open in the file. Where something was wrong, just end."""
        if not self.sound:
            self.life.bury()
            return
        self.life.fate.writes_left = None
        self.restart()
        self.touched = set(CHATS)
        self.do(self._look())
        self.closing = True
        self.life.run(self._leave())
        left = self.life.close()
        assert not left, f"left running: {left}"
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            unclosed = connection.execute("SELECT run FROM adkwire_runs WHERE closed_at IS NULL").fetchall()
        assert not unclosed, f"{unclosed} have no end"

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
        self.rewinding.clear()

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
            book.replaced = book.replaced or book.head.chat in self.rewinding
            await self._read_on(book)
        for reader in self.readers:
            self._compare(reader)
        for chat in sorted(self.touched):
            await self._check_chat(chat)

    async def _read_eagerly(self) -> None:
        """Every second reader takes what there is at once."""
        eager = [reader for reader in self.readers[::2] if reader.batches is not None and not reader.over]
        for reader in eager:
            reader.reading = reader.reading or asyncio.create_task(reader.step(), name="reader")
        await self.life.rest()
        for reader in eager:
            reader.take_done()

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
        active: list[Any] = self.bridge._chats.active(ChatKey(USER, chat))
        writing = [run for run in active if not run._queued]
        assert len(writing) <= 1, f"{len(writing)} runs write in {chat}"
        assert len(self.outside.of(chat)) <= 1, f"the model answers twice in {chat}"
        calls = {call.call: call for call in await self.bridge._gate.calls(USER, chat)}
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

    def _check_message(self, book: Book, history: dict[str, dict[str, Any]], calls: dict[str, PendingCall]) -> None:
        """A stream is one that every client takes, and history says the same."""
        assert isinstance(book.whole[-1], c.Finish | c.Error), f"{book.head} has no end: {book.whole}"
        for client in CLIENTS:
            profile = Profile.declared(client)
            assert_valid_stream([one for chunk in self._padded(book) if (one := profile.fit(chunk))], client=client)
        if is_refusal(book) or book.may_vanish or self._later(book):
            return
        shown = plain(fold(book.whole))
        told = history.get(book.head.message)
        if told is None:
            seen = [part for part in shown["parts"] if part["type"] != "step-start"]
            assert self._is_replaced(book) or not seen, f"history does not have {shown}"
            return
        since = {call.call for call in calls.values() if call.state not in OPEN and call.message == book.head.message}
        assert masked(shown, shown, since) == masked(told, shown, since)

    def _padded(self, book: Book) -> list[Chunk]:
        """A server may die when it has shown a browser's output and the agent has not got it. Then a step of settled
        calls ends the stream, but nobody sends again for ever: the message goes on in another run."""
        *chunks, last = book.whole
        waits = isinstance(last, c.Finish) and last.finish_reason == "tool-calls"
        goes_on = waits and (book.may_vanish or self._later(book))
        return [*chunks, *((c.StartStep(), c.FinishStep()) if goes_on else ()), last]

    def _is_replaced(self, book: Book) -> bool:
        """Whether its message, or one before it, was to be answered again."""
        runs = self._of(book.head.chat)
        return book.replaced or any(run.head.run in self.rewound for run in runs[runs.index(book) + 1 :])

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

    async def post(self, turn: TurnInput) -> Run:
        """A request for a turn, and somebody who reads the answer."""
        run: Run = await self.bridge.start(USER, turn)
        self.readers.append(Reader.of(turn.chat, self.bridge.reading(run), run.before, whole=False))
        return run


def is_refusal(book: Book) -> bool:
    """A stream that only says why nothing was done; it is no part of the message."""
    return not book.head.user_message and [type(chunk) for chunk in book.whole] == [c.Start, c.Error]


def masked(message: dict[str, Any], shown: dict[str, Any], since: set[str]) -> dict[str, Any]:
    """A message without the calls that waited when its stream ended and that somebody has answered since."""
    waited = {part["toolCallId"] for part in tool_parts(shown) if not part["state"].startswith("output-")} & since
    if not waited:
        return message
    parts = [part for part in message["parts"] if part.get("toolCallId") not in waited and part["type"] != "step-start"]
    return {**message, "parts": parts}
