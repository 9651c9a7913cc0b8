"""A stock client's page on a `Bridge`: it holds messages as `useChat` does, answers calls and posts what it holds."""

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncGenerator
from copy import deepcopy
from typing import Any

from msgspec import UNSET

from adkwire.errors import RequestError
from adkwire.gate.records import AuditEntry, Given, PendingCall
from adkwire.runs.bridge import Bridge
from adkwire.runs.news import Item
from adkwire.runs.run import Run
from adkwire.wire.decoder import InputLimits, TurnInput, decode_request
from adkwire.wire.folding import fold
from adkwire.wire.messages import TextPart, ToolPart, UIMessage
from tests.patience import PATIENCE
from tests.runs.chats import Answer, Chat, plain, tool_parts

LIMITS = InputLimits(max_parts=20, max_part_bytes=100_000, max_image_pixels=1_000_000)


class News:
    """What a user's other page hears."""

    def __init__(self, bridge: Bridge, user: str) -> None:
        self._items: AsyncGenerator[Item | None, None] = bridge.news(user)
        self.heard: list[Item] = []

    async def __aenter__(self) -> "News":
        assert await anext(self._items) is None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._items.aclose()

    async def until(self, kind: str, *, times: int = 1, chat: str | None = None) -> Item:
        """Listen until so many items of this kind have come."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = [item for item in self.heard if item.type == kind and chat in (None, item.chat)]
                if len(found) >= times:
                    return found[times - 1]
                item = await anext(self._items)
                self.heard += [item] if item is not None else []

    @property
    def told(self) -> list[tuple[str, ...]]:
        """Each item in a line: its type, and of which call it says what."""
        return [
            (item.type,) if item.tool_call_id is UNSET else (item.type, item.tool_call_id, str(item.state))
            for item in self.heard
        ]


class Page:
    """One tab with one chat."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.messages: list[UIMessage] = []

    @property
    def bridge(self) -> Bridge:
        return self.chat.bridge

    def news(self) -> News:
        return News(self.bridge, self.chat.user)

    async def say(self, text: str) -> Answer:
        """Type a message and read the answer."""
        return await self.reply(await self.begin(text))

    async def begin(self, text: str) -> Run:
        """Type a message."""
        self.chat.count += 1
        self.messages.append(UIMessage(id=f"u{self.chat.count}", role="user", parts=[TextPart(text=text)]))
        return await self.post()

    async def reply(self, run: Run) -> Answer:
        """Read a new answer."""
        answer = await self.chat.read(run)
        self.messages.append(fold(answer.chunks))
        return answer

    async def send(self) -> Answer:
        """Post the answers that the last message holds, and read how it goes on."""
        return await self.follow(await self.post())

    async def follow(self, run: Run) -> Answer:
        """Read how the last message goes on."""
        answer = await self.chat.read(run)
        fold(answer.chunks, into=self.messages[-1])
        return answer

    async def post(self) -> Run:
        async with asyncio.timeout(PATIENCE):
            return await self.bridge.start(self.chat.user, self.request())

    def request(self, **more: Any) -> TurnInput:
        """What `DefaultChatTransport` sends, as the server reads it."""
        body = {"id": self.chat.id, "trigger": "submit-message", "messages": plain(self.messages), **more}
        return decode_request(json.dumps(body).encode(), LIMITS)

    def approve(self, *calls: str, approved: bool = True, reason: str | None = None) -> "Page":
        for call in calls:
            part = self._part(call)
            assert part.approval is not UNSET
            part.state, part.approval.approved = "approval-responded", approved
            part.approval.reason = UNSET if reason is None else reason
        return self

    def deny(self, *calls: str, reason: str | None = None) -> "Page":
        return self.approve(*calls, approved=False, reason=reason)

    def give(self, call: str, output: Any) -> "Page":
        part = self._part(call)
        part.state, part.output = "output-available", output
        return self

    def fail(self, call: str, error: str) -> "Page":
        part = self._part(call)
        part.state, part.error_text = "output-error", error
        return self

    def _part(self, call: str) -> ToolPart:
        return next(
            part for part in self.messages[-1].parts if isinstance(part, ToolPart) and part.tool_call_id == call
        )

    async def answer(self, call: str, **given: Any) -> PendingCall:
        """One answer through the calls route."""
        async with asyncio.timeout(PATIENCE):
            return await self.bridge.answer(self.chat.user, self.chat.id, call, Given(**given))

    async def answer_and_follow(self, call: str, **given: Any) -> Answer:
        """One answer through the calls route that lets the message go on by itself."""
        async with self.news() as news:
            await self.answer(call, **given)
            started = await news.until("run-started", chat=self.chat.id)
        run = await self.chat.find(str(started.run))
        return await self.follow(run)

    async def reload(self) -> None:
        """Load the page again: it holds what history says."""
        self.messages = (await self.bridge.history(self.chat.user, self.chat.id)).messages

    @property
    def last(self) -> dict[str, Any]:
        """The last message as this page has it."""
        return plain(self.messages[-1])

    @property
    def calls(self) -> dict[str, str]:
        """The state of every call in the last message."""
        return {part["toolCallId"]: part["state"] for part in tool_parts(self.last)}

    def part(self, call: str) -> dict[str, Any]:
        return next(part for part in tool_parts(self.last) if part["toolCallId"] == call)

    async def stored(self, at: int = -1) -> dict[str, Any]:
        """A message as history has it."""
        return (await self.chat.messages())[at]

    async def pending(self) -> list[dict[str, Any]]:
        return plain((await self.bridge.history(self.chat.user, self.chat.id)).pending)

    async def audit(self) -> list[tuple[str, ...]]:
        """Who, about which call, the verdict and what came of it."""
        return [(line.actor, line.call, line.verdict, line.outcome) for line in await self.lines()]

    async def lines(self) -> list[AuditEntry]:
        return await self.bridge.audit(self.chat.user, self.chat.id)

    def another_tab(self) -> "Page":
        """The same chat in a second tab, with what this one holds now."""
        page = Page(self.chat)
        page.messages = deepcopy(self.messages)
        return page

    def after_restart(self, chat: Chat) -> "Page":
        """This page, which knows nothing of it, on the server that came back. The old one gives no sign of life."""
        old = self.bridge.settings.db_path
        if old is not None:
            with contextlib.closing(sqlite3.connect(old, timeout=PATIENCE)) as connection, connection:
                connection.execute("DELETE FROM adkwire_workers")
        chat.count = self.chat.count
        page = Page(chat)
        page.messages = self.messages
        return page


def refusal(answer: Answer) -> str:
    """The words of a stream that does nothing but refuse."""
    start, error = answer.plain
    assert (start["type"], error["type"]) == ("start", "error")
    return error["errorText"]


async def refused(answering: Any) -> tuple[int, str]:
    """Status and words of an answer that the calls route did not take."""
    try:
        await answering
    except RequestError as error:
        return error.status, error.message
    raise AssertionError("it was taken")


def lines(page: Page, answer: Answer) -> list[dict[str, Any]]:
    """The chunks of a stream without metadata, and with a question named after its call."""
    asks = {part["approval"]["id"]: part["toolCallId"] for part in tool_parts(page.last) if "approval" in part}
    told: list[dict[str, Any]] = []
    for chunk in answer.plain:
        line = {name: value for name, value in chunk.items() if name not in ("messageMetadata", "messageId")}
        for name in ("approvalId", "id"):
            if line.get(name) in asks:
                line[name] = f"ask {asks[line[name]]}"
        told.append(line)
    return told


def spoken(number: int, *words: str) -> list[dict[str, Any]]:
    """The chunks of one text."""
    part = f"text-{number}"
    said = [{"type": "text-delta", "id": part, "delta": word} for word in words]
    return [{"type": "text-start", "id": part}, *said, {"type": "text-end", "id": part}]


START, STEP, STEPPED = {"type": "start"}, {"type": "start-step"}, {"type": "finish-step"}
WAITS = {"type": "finish", "finishReason": "tool-calls"}
FINISH = {"type": "finish", "finishReason": "stop"}


def finished(number: int, *words: str) -> list[dict[str, Any]]:
    """A last step that says something."""
    return [STEP, *spoken(number, *words), STEPPED, FINISH]
