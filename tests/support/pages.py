"""A page with a stock client on a `Bridge`: it has messages as `useChat` has them, answers calls and posts them."""

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncGenerator
from copy import deepcopy
from typing import Any

from msgspec import UNSET

from adkwire.bridge import Bridge
from adkwire.errors import RequestError
from adkwire.gate.records import AuditEntry, CallRecord, UncheckedAnswer
from adkwire.runs.chat_events import ChatEvent
from adkwire.runs.run import Run
from adkwire.wire.decode.decoder import InputLimits, TurnInput, decode_request
from adkwire.wire.folding import fold
from adkwire.wire.messages import TextPart, ToolPart, UIMessage
from tests.patience import PATIENCE
from tests.support.chats import Answer, Chat, plain, tool_parts

LIMITS = InputLimits(max_parts=20, max_part_bytes=100_000, max_image_pixels=1_000_000)


class ChatEventReader:
    """A reader of a user's chat events, as `GET /api/events` sends them."""

    def __init__(self, bridge: Bridge, user: str) -> None:
        self._items: AsyncGenerator[ChatEvent | None, None] = bridge.events(user)
        self.received: list[ChatEvent] = []

    async def __aenter__(self) -> "ChatEventReader":
        assert await anext(self._items) is None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._items.aclose()

    async def until(self, kind: str, *, times: int = 1, chat: str | None = None) -> ChatEvent:
        """Read until so many events of this type have come, and return the last of them."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = [item for item in self.received if item.type == kind and chat in (None, item.chat)]
                if len(found) >= times:
                    return found[times - 1]
                item = await anext(self._items)
                self.received += [item] if item is not None else []

    @property
    def summaries(self) -> list[tuple[str, ...]]:
        """Each event's type; for an event about a call also the call's id and state."""
        return [
            (item.type,) if item.tool_call_id is UNSET else (item.type, item.tool_call_id, str(item.state))
            for item in self.received
        ]


class Page:
    """One browser tab with one chat."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.messages: list[UIMessage] = []

    @property
    def bridge(self) -> Bridge:
        return self.chat.bridge

    def chat_events(self) -> ChatEventReader:
        """Return a reader of the user's chat events; use it with `async with`."""
        return ChatEventReader(self.bridge, self.chat.user)

    async def say(self, text: str) -> Answer:
        """Send a message and read the answer."""
        return await self.reply(await self.begin(text))

    async def begin(self, text: str) -> Run:
        """Send a message and return the run that answers it."""
        self.chat.count += 1
        self.messages.append(UIMessage(id=f"u{self.chat.count}", role="user", parts=[TextPart(text=text)]))
        return await self.post()

    async def reply(self, run: Run) -> Answer:
        """Read an answer to its end and append it to the messages."""
        answer = await self.chat.read(run)
        self.messages.append(fold(answer.chunks))
        return answer

    async def send(self) -> Answer:
        """Post the messages with the answers to calls, and read the continuation."""
        return await self.follow(await self.post())

    async def follow(self, run: Run) -> Answer:
        """Read a continuation to its end and add it to the last message."""
        answer = await self.chat.read(run)
        fold(answer.chunks, into=self.messages[-1])
        return answer

    async def post(self) -> Run:
        """Post the messages and return the run that this starts."""
        async with asyncio.timeout(PATIENCE):
            return await self.bridge.start(self.chat.user, self.request())

    def request(self, **more: Any) -> TurnInput:
        """Return the request of `DefaultChatTransport`, decoded as the server decodes it."""
        body = {"id": self.chat.id, "trigger": "submit-message", "messages": plain(self.messages), **more}
        return decode_request(json.dumps(body).encode(), LIMITS)

    def approve(self, *calls: str, approved: bool = True, reason: str | None = None) -> "Page":
        """Put a verdict on these calls into the last message, without posting it."""
        for call in calls:
            part = self._part(call)
            assert part.approval is not UNSET
            part.state, part.approval.approved = "approval-responded", approved
            part.approval.reason = UNSET if reason is None else reason
        return self

    def deny(self, *calls: str, reason: str | None = None) -> "Page":
        return self.approve(*calls, approved=False, reason=reason)

    def give(self, call: str, output: Any) -> "Page":
        """Put the output of a browser tool into the last message, without posting it."""
        part = self._part(call)
        part.state, part.output = "output-available", output
        return self

    def fail(self, call: str, error: str) -> "Page":
        """Put the error of a browser tool into the last message, without posting it."""
        part = self._part(call)
        part.state, part.error_text = "output-error", error
        return self

    def _part(self, call: str) -> ToolPart:
        return next(
            part for part in self.messages[-1].parts if isinstance(part, ToolPart) and part.tool_call_id == call
        )

    async def answer(self, call: str, **answer: Any) -> CallRecord:
        """Answer a call through the calls route."""
        async with asyncio.timeout(PATIENCE):
            return await self.bridge.answer(self.chat.user, self.chat.id, call, UncheckedAnswer(**answer))

    async def answer_and_follow(self, call: str, **answer: Any) -> Answer:
        """Answer a call through the calls route, and read the continuation that the server starts by itself."""
        async with self.chat_events() as events:
            await self.answer(call, **answer)
            started = await events.until("run-started", chat=self.chat.id)
        run = await self.chat.find(str(started.run))
        return await self.follow(run)

    async def reload(self) -> None:
        """Load the page again: its messages are those of history."""
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
        """Return a message as history has it."""
        return (await self.chat.messages())[at]

    async def pending(self) -> list[dict[str, Any]]:
        return plain((await self.bridge.history(self.chat.user, self.chat.id)).pending)

    async def audit(self) -> list[tuple[str, ...]]:
        """Return actor, call, verdict and outcome of every audit entry."""
        return [(line.actor, line.call, line.verdict, line.outcome) for line in await self.audit_entries()]

    async def audit_entries(self) -> list[AuditEntry]:
        return await self.bridge.audit(self.chat.user, self.chat.id)

    def another_tab(self) -> "Page":
        """Return the same chat in a second tab, with the messages that this tab has now."""
        page = Page(self.chat)
        page.messages = deepcopy(self.messages)
        return page

    def after_restart(self, chat: Chat) -> "Page":
        """Return this page on a restarted server. The old server's workers are deleted, so that they count as dead."""
        old = self.bridge.settings.db_path
        if old is not None:
            with contextlib.closing(sqlite3.connect(old, timeout=PATIENCE)) as connection, connection:
                connection.execute("DELETE FROM adkwire_workers")
        chat.count = self.chat.count
        page = Page(chat)
        page.messages = self.messages
        return page


def refusal(answer: Answer) -> str:
    """Return the error text of a stream that contains nothing but an error."""
    start, error = answer.plain
    assert (start["type"], error["type"]) == ("start", "error")
    return error["errorText"]


async def refused(answering: Any) -> tuple[int, str]:
    """Return status and message of the error with which the calls route refuses an answer."""
    try:
        await answering
    except RequestError as error:
        return error.status, error.message
    raise AssertionError("the answer was accepted")


def comparable_chunks(page: Page, answer: Answer) -> list[dict[str, Any]]:
    """Return the chunks of a stream without ids and metadata that differ in each test; approvals are named by call."""
    asks = {part["approval"]["id"]: part["toolCallId"] for part in tool_parts(page.last) if "approval" in part}
    chunks: list[dict[str, Any]] = []
    for chunk in answer.plain:
        line = {name: value for name, value in chunk.items() if name not in ("messageMetadata", "messageId")}
        for name in ("approvalId", "id"):
            if line.get(name) in asks:
                line[name] = f"ask {asks[line[name]]}"
        chunks.append(line)
    return chunks


def text_chunks(number: int, *words: str) -> list[dict[str, Any]]:
    """Return the chunks of one text part."""
    part = f"text-{number}"
    deltas = [{"type": "text-delta", "id": part, "delta": word} for word in words]
    return [{"type": "text-start", "id": part}, *deltas, {"type": "text-end", "id": part}]


START, START_STEP, FINISH_STEP = {"type": "start"}, {"type": "start-step"}, {"type": "finish-step"}
FINISH_PENDING = {"type": "finish", "finishReason": "tool-calls"}
FINISH = {"type": "finish", "finishReason": "stop"}


def last_step(number: int, *words: str) -> list[dict[str, Any]]:
    """Return the chunks of a last step with one text, and of the end of the stream."""
    return [START_STEP, *text_chunks(number, *words), FINISH_STEP, FINISH]
