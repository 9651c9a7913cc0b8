"""A file, the servers that run on it one after the other, and their clients; with the invariants that hold whenever the
server is idle."""

import asyncio
import contextlib
import sqlite3
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from adkwire.errors import Conflict, NotFound, NotRecovered, RequestError
from adkwire.gate.records import OPEN, CallRecord
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
from tests.runs.stateful_agent import ControlledAgent
from tests.runs.stateful_readers import Reader, RunCopy
from tests.runs.stateful_server import Crashed, Server
from tests.support.chats import Chat, plain, tool_parts
from tests.support.pages import Page

USER = "ann"
CHATS = ("c0", "c1")
TTL, APPROVAL = 500.0, 200.0
CLIENTS = ("ai/6.0.0", "ai/7.0.169")

Act = Callable[["World", str, int], Coroutine[Any, Any, None]]
ReaderAct = Callable[["World", Reader], Coroutine[Any, Any, None]]


class World:
    """Everything that the test controls and checks, over any number of servers."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.options = options
        self.clock = Clock()
        self.agent = ControlledAgent()
        self.copies: dict[str, RunCopy] = {}
        self.readers: list[Reader] = []
        self.pages: dict[str, list[UIMessage]] = {chat: [] for chat in CHATS}
        self.turns: dict[str, TurnInput] = {}
        self.calls: list[tuple[str, str]] = []
        """Chat and id of every call that had a record."""
        self.rewinding: list[str] = []
        """Chats with a request to regenerate or edit that has not returned its run yet."""
        self.rewound: set[str] = set()
        """Runs of requests to regenerate or edit."""
        self.sent = 0
        self.servers = 0
        self.touched: set[str] = set()
        self.loaded: set[str] = set()
        self.closing = False
        self.passed = True
        """False while a check runs or after it failed."""
        self.server = self._open_server()
        self.do(self._start())

    @property
    def bridge(self) -> Any:
        return self.server.bridge

    def _open_server(self) -> Server:
        self.servers += 1
        self.loaded, self.touched = set(), set()
        limits = {"stream_ttl": TTL, "approval_timeout": APPROVAL}
        return Server(self.path, self.agent.make_agent, self.clock, **limits, **self.options)

    def step(self, *acts: tuple[Act, str, int]) -> bool:
        """Do these actions at once, then check everything; return False if the server has crashed."""
        self.touched |= {chat for _, chat, _ in acts}
        try:
            for act, chat, number in acts:
                self.server.spawn(self._guarded(act(self, chat, number), alone=len(acts) == 1))
            self.do(self._settle_and_check())
        except Crashed:
            self.crash()
            return False
        return True

    def assert_stopped(self, chat: str) -> None:
        """Assert that a chat has neither a run nor a pending call."""
        assert not self.bridge._chats.active(ChatKey(USER, chat)), f"something runs in {chat}"
        assert chat not in self.waiting(), f"something waits in {chat}"

    def waiting(self) -> list[str]:
        """Return the chats with a pending call."""
        try:
            calls: list[CallRecord] = self.server.run(self.bridge._gate.waiting(USER))
        except Crashed:
            self.crash()
            return []
        return sorted({call.chat for call in calls})

    def script(self, number: int, steps: list[str]) -> bool:
        """Add steps to the answer of a request to the model; return False if there is no request."""
        if not self.agent.requests:
            return False
        one = self.agent.requests[number % len(self.agent.requests)]
        self.touched.add(one.chat)
        self.agent.advance(one, steps)
        self.step()
        return True

    def release_tools(self) -> None:
        """Let all waiting tools return."""
        for held in self.agent.held.values():
            held.set()
        self.step()

    def with_reader(self, number: int, act: ReaderAct) -> None:
        if not self.readers:
            return
        reader = self.readers[-1 - number % len(self.readers)]
        try:
            self.do(act(self, reader))
        except Crashed:
            self.crash()
        self.step()

    def cut(self, number: int, loses: int) -> None:
        if self.readers:
            self.do(self.readers[-1 - number % len(self.readers)].cut(loses))

    def advance_clock(self, seconds: float) -> None:
        """Advance the clock and let calls expire."""
        self.clock.advance(seconds)
        try:
            self.do(self._start_expiry())
        except Crashed:
            self.crash()
        self.step()

    async def _start_expiry(self) -> None:
        self.bridge._expiry.start()

    def crash_after(self, writes: int, *, after: bool) -> None:
        """Let this server crash before or after so many writes."""
        self.server.crash_point.writes_left, self.server.crash_point.after_write = writes, after

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        self.passed = False
        self.server.run(work)
        self.assert_no_problems()
        self.passed = True

    def assert_no_problems(self) -> None:
        assert not self.agent.problems, "\n".join(self.agent.problems)

    async def _guarded(self, act: Awaitable[None], *, alone: bool) -> None:
        try:
            await act
        except RequestError as error:
            expected = isinstance(error, NotFound | Conflict | NotRecovered) or not alone
            if not (expected or self.closing):
                self.agent.problems.append(f"refused: {error.message}")
        except Exception:  # noqa: BLE001 - the test reports every exception
            if not self.server.crash_point.discarded:
                self.agent.problems.append(traceback.format_exc())

    async def _settle_and_check(self) -> None:
        await self.server.until_idle()
        await self._read_eagerly()
        await self.check()

    def crash(self) -> None:
        """Kill the server and start another one on the file."""
        self._drop_readers()
        self.closing = True
        self.server.crash_point.crash()
        self.server.discard()
        self.closing = False
        self._start_next()

    def restart(self) -> None:
        """Close the server and start another one on the file."""
        self.closing, self.passed = True, False
        try:
            self.server.run(self._disconnect_readers())
            left = self.server.close()
        except Crashed:
            self.crash()
            return
        self.assert_no_problems()
        self.closing = False
        assert not left, f"left running: {left}"
        self._start_next()

    def _start_next(self) -> None:
        self.server = self._open_server()
        self.do(self._start())

    def end(self) -> None:
        """Close the last server and assert that no run is left open; after a failed check, only free it."""
        if not self.passed:
            self.server.discard()
            return
        self.server.crash_point.writes_left = None
        self.restart()
        self.touched = set(CHATS)
        self.do(self._settle_and_check())
        self.closing = True
        self.server.run(self._disconnect_readers())
        left = self.server.close()
        assert not left, f"left running: {left}"
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            unclosed = connection.execute("SELECT run FROM adkwire_runs WHERE closed_at IS NULL").fetchall()
        assert not unclosed, f"{unclosed} have no end"

    def _drop_readers(self) -> None:
        for reader in self.readers:
            reader.reading = reader.batches = None

    async def _disconnect_readers(self) -> None:
        for reader in self.readers:
            await reader.cut()

    async def _start(self) -> None:
        """Start a server, and assert that all entries that were ever read are kept."""
        self.bridge.watch()
        await self.server.until_idle()
        for copy in list(self.copies.values()):
            if not await copy.read_again(self.server.log):
                self._remove_lost(copy)
        await self.check()
        self.rewinding.clear()

    def _remove_lost(self, copy: RunCopy) -> None:
        """Assert that a run that is no longer kept was to be deleted or is old."""
        assert self.may_be_lost(copy), f"{copy.head.run} is lost"
        del self.copies[copy.head.run]

    def may_be_lost(self, copy: RunCopy | None) -> bool:
        return copy is None or copy.may_be_deleted or self.clock.now - copy.last_open >= TTL

    async def check(self) -> None:
        """Check the invariants; the server must be idle."""
        for chat in CHATS:
            for head in await self.server.log.runs(USER, chat):
                self.copies.setdefault(head.run, RunCopy(head, self.clock.now))
        for copy in list(self.copies.values()):
            copy.replaced = copy.replaced or copy.head.chat in self.rewinding
            await self._read_on(copy)
        for reader in self.readers:
            self._compare(reader)
        for chat in sorted(self.touched):
            await self._check_chat(chat)

    async def _read_eagerly(self) -> None:
        """Let every second reader take its entries at once."""
        eager = [reader for reader in self.readers[::2] if reader.batches is not None and not reader.over]
        for reader in eager:
            reader.reading = reader.reading or asyncio.create_task(reader.step(), name="reader")
        await self.server.until_idle()
        for reader in eager:
            reader.take_done()

    async def _read_on(self, copy: RunCopy) -> None:
        if copy.closed:
            return
        if not await copy.read_on(self.server.log):
            self._remove_lost(copy)
        elif not copy.closed:
            copy.last_open = self.clock.now

    def _compare(self, reader: Reader) -> None:
        copy = self.copies.get(reader.run)
        if reader.lost:
            assert self.may_be_lost(copy), f"{reader.run} was cut off"
        elif copy is not None:
            reader.compare(copy)

    async def _check_chat(self, chat: str) -> None:
        if chat not in self.loaded:
            # The first request to a chat may continue a message.
            self.loaded.add(chat)
            await self._history(chat)
            await self._settle_and_check()
            return
        active: list[Any] = self.bridge._chats.active(ChatKey(USER, chat))
        writing = [run for run in active if not run._queued]
        assert len(writing) <= 1, f"{len(writing)} runs write in {chat}"
        assert len(self.agent.requests_of(chat)) <= 1, f"the model answers twice in {chat}"
        calls = {call.call: call for call in await self.bridge._gate.calls(USER, chat)}
        self.calls += [(chat, call) for call in calls if (chat, call) not in self.calls]
        if not active:
            self._check_idle(chat, calls)
        messages = await self._history(chat)
        ids = [message["id"] for message in messages]
        assert len(ids) == len(set(ids)), f"a message is there twice: {ids}"
        for message in messages:
            self._check_payments(message)
        for copy in self._of(chat):
            if copy.closed and not copy.compared and not any(run.message_id == copy.head.message for run in active):
                copy.compared = True
                self._check_message(copy, {message["id"]: message for message in messages}, calls)

    def _check_idle(self, chat: str, calls: dict[str, CallRecord]) -> None:
        assert not self.agent.requests_of(chat), f"the model answers in {chat}, and nothing runs"
        executing = [call.call for call in calls.values() if call.state == "executing"]
        assert not executing, f"{executing} are still executing"
        unclosed = [copy.head.run for copy in self._of(chat) if not copy.closed]
        assert not unclosed, f"{unclosed} have no end"

    def _check_payments(self, message: dict[str, Any]) -> None:
        """Assert that history says of a payment what really happened."""
        for part in tool_parts(message):
            if part["type"] != "tool-pay":
                continue
            paid, error = self.agent.executed[part["input"].get("n", 0)], part.get("errorText", "")
            assert not (paid and "not executed" in error), f"{part} was executed"
            assert paid or part["state"] != "output-available", f"{part} was not executed"

    def _of(self, chat: str) -> list[RunCopy]:
        return [copy for copy in self.copies.values() if copy.head.chat == chat]

    def _check_message(self, copy: RunCopy, history: dict[str, dict[str, Any]], calls: dict[str, CallRecord]) -> None:
        """Assert that every client accepts the stream, and that history has the same message."""
        assert isinstance(copy.whole[-1], c.Finish | c.Error), f"{copy.head} has no end: {copy.whole}"
        for client in CLIENTS:
            profile = Profile.declared(client)
            assert_valid_stream(
                [one for chunk in self._with_continuation(copy) if (one := profile.fit(chunk))], client=client
            )
        if is_refusal(copy) or copy.may_be_deleted or self._continues(copy):
            return
        streamed = plain(fold(copy.whole))
        stored = history.get(copy.head.message)
        if stored is None:
            content = [part for part in streamed["parts"] if part["type"] != "step-start"]
            assert self._is_replaced(copy) or not content, f"history does not have {streamed}"
            return
        since = {call.call for call in calls.values() if call.state not in OPEN and call.message == copy.head.message}
        assert masked(streamed, streamed, since) == masked(stored, streamed, since)

    def _with_continuation(self, copy: RunCopy) -> list[Chunk]:
        """Return the chunks of a run, with an empty step if its message continues in another run.

        A server may crash when it has sent a browser's output and the agent has not got it. Then the stream ends with a
        step of settled calls, which is valid because the client's next request continues the message.
        """
        *chunks, last = copy.whole
        waits = isinstance(last, c.Finish) and last.finish_reason == "tool-calls"
        goes_on = waits and (copy.may_be_deleted or self._continues(copy))
        return [*chunks, *((c.StartStep(), c.FinishStep()) if goes_on else ()), last]

    def _is_replaced(self, copy: RunCopy) -> bool:
        """Return True if its message, or an earlier one, was regenerated or edited."""
        runs = self._of(copy.head.chat)
        return copy.replaced or any(run.head.run in self.rewound for run in runs[runs.index(copy) + 1 :])

    def _continues(self, copy: RunCopy) -> bool:
        """Return True if the message continues in another run."""
        runs = [one for one in self._of(copy.head.chat) if one.head.message == copy.head.message]
        return any(not is_refusal(one) for one in runs[runs.index(copy) + 1 :])

    async def _history(self, chat: str) -> list[dict[str, Any]]:
        try:
            return plain((await self.bridge.history(USER, chat)).messages)
        except NotFound:
            return []

    async def page(self, chat: str, *, reload: bool) -> Page:
        """Return a tab of a stock client."""
        page = Page(Chat(self.bridge, chat, USER))
        if reload:
            self.pages[chat] = (await self.bridge.history(USER, chat)).messages
        page.messages = self.pages[chat]
        return page

    async def post(self, turn: TurnInput) -> Run:
        """Send a request and add a reader of its run."""
        run: Run = await self.bridge.start(USER, turn)
        self.readers.append(Reader.of(turn.chat, self.bridge.reading(run), run.before, whole=False))
        return run


def is_refusal(copy: RunCopy) -> bool:
    """Return True for a stream that has nothing but an error; it is no part of the message."""
    return not copy.head.user_message and [type(chunk) for chunk in copy.whole] == [c.Start, c.Error]


def masked(message: dict[str, Any], streamed: dict[str, Any], since: set[str]) -> dict[str, Any]:
    """Return a message without the calls that were pending when its stream ended and were answered since."""
    waited = {part["toolCallId"] for part in tool_parts(streamed) if not part["state"].startswith("output-")} & since
    if not waited:
        return message
    parts = [part for part in message["parts"] if part.get("toolCallId") not in waited and part["type"] != "step-start"]
    return {**message, "parts": parts}
