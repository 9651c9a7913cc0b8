"""A user's page with a stock client: it repeats what it was sent, and can send forged parts."""

import asyncio
import copy
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from starlette.requests import HTTPConnection

from adkwire import create_app
from adkwire.errors import Unauthorized
from adkwire.server.security import User
from adkwire.wire.chunks import decode_chunk
from adkwire.wire.folding import fold
from tests.patience import PATIENCE
from tests.server.app_server import Site, chunks, events, message, serving
from tests.server.ledger_agent import PAYMENT, POLICY, Line, Till
from tests.support.chats import plain, settings

REFUSED = "No call is waiting for this answer."
JSON = {"content-type": "application/json"}

Part = dict[str, Any]
Message = dict[str, Any]


def by_header(connection: HTTPConnection) -> User:
    """Return the user that the request header names."""
    if not (name := connection.headers.get("x-user")):
        raise Unauthorized("Who are you?")
    return User(name)


@dataclass
class Shop:
    """A server around a till, for any number of users."""

    site: Site
    till: Till
    opened: int = 0

    def page(self, user: str = "ann", chat: str = "") -> "Page":
        """A page of this user's, on a new chat."""
        self.opened += 1
        return Page(self.site, self.till, user, chat or f"chat-{self.opened}")


@asynccontextmanager
async def opened_shop(folder: Path, **given: Any) -> AsyncGenerator[Shop]:
    """A shop that is open until the block ends."""
    till = Till()
    wanted = settings(folder, **{"chats_per_minute": 0, "ui": False, "db": "memory:", **given})
    app = create_app(till.agent, settings=wanted, authenticate=by_header, policy=POLICY)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(app.state.bridge.close)
        yield Shop(await stack.enter_async_context(serving(app)), till)


@dataclass
class Page:
    """One chat of one user."""

    site: Site
    till: Till
    user: str
    chat: str
    messages: list[Message] = field(default_factory=list[Message])

    @property
    def executed(self) -> list[Line]:
        """The executions of tools in this chat."""
        return [line for line in self.till.ledger if (line.user, line.chat) == (self.user, self.chat)]

    @property
    def headers(self) -> dict[str, str]:
        return {"x-user": self.user}

    @property
    def last(self) -> Message:
        """The assistant's message."""
        return self.messages[-1]

    def part(self, tool: str = "", message: Message | None = None) -> Part:
        """The first call in the last message, or the first of this tool."""
        parts: list[Part] = (message or self.last)["parts"]
        return next(part for part in parts if part["type"] == f"tool-{tool}" or (not tool and "toolCallId" in part))

    def calls(self) -> list[Part]:
        """All calls of the last message."""
        return [part for part in self.last["parts"] if "toolCallId" in part]

    async def ask(self, text: str, message_id: str = "") -> Message:
        """Type something and read the answer."""
        asked = message(text, message_id or f"u{len(self.messages) + 1}")
        self.messages.append(asked)
        reply = await self.post(self.body())
        self.messages.append(folded(reply))
        return self.last

    def body(self, *parts: Part, **more: Any) -> dict[str, Any]:
        """Return the body of a post: all messages, the last one with these parts in the place of its calls."""
        return {"id": self.chat, "trigger": "submit-message", "messages": self.with_parts(*parts), **more}

    def with_parts(self, *parts: Part) -> list[Message]:
        """The messages with these parts in place of their calls in the last one; others are put behind."""
        messages = copy.deepcopy(self.messages)
        if parts:
            named = {part.get("toolCallId") for part in parts}
            kept = [part for part in messages[-1]["parts"] if part.get("toolCallId") not in named]
            messages[-1]["parts"] = [*kept, *parts]
        return messages

    async def post(self, payload: dict[str, Any] | bytes, user: str | None = None) -> httpx.Response:
        """Send a request to the chat route, as it is."""
        content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        headers = {**JSON, "x-user": user or self.user}
        return await self.site.client.post("/api/chat", content=content, headers=headers)

    async def answer(self, *parts: Part) -> httpx.Response:
        """Post the last message with these parts in it."""
        return await self.post(self.body(*parts))

    async def call(self, call: str, payload: Any, user: str | None = None) -> httpx.Response:
        """Answer a call by its own route."""
        content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        headers = {**JSON, "x-user": user or self.user}
        return await self.site.client.post(f"/api/chat/{self.chat}/calls/{call}", content=content, headers=headers)

    async def get(self, path: str = "") -> httpx.Response:
        return await self.site.client.get(f"/api/chats/{self.chat}{path}", headers=self.headers)

    async def delete(self) -> httpx.Response:
        return await self.site.client.delete(f"/api/chats/{self.chat}", headers=self.headers)

    async def audit(self) -> list[dict[str, Any]]:
        """The lines of the audit; none where there is no such chat."""
        reply = await self.get("/audit")
        return reply.json()["entries"] if reply.status_code == 200 else []

    async def pending(self) -> list[dict[str, Any]]:
        return (await self.get()).json()["pending"]

    async def stop(self) -> bool:
        path = f"/api/chat/{self.chat}/stop"
        return (await self.site.client.post(path, headers=self.headers)).json()["stopped"]

    async def idle(self) -> Message:
        """The last message once nothing runs in the chat."""
        async with asyncio.timeout(PATIENCE):
            while (history := (await self.get()).json())["active"]:
                await self.site.client.get(f"/api/chat/{self.chat}/stream", headers=self.headers)
        return history["messages"][-1]


def folded(reply: httpx.Response) -> Message:
    """The message a client holds after a stream."""
    assert reply.status_code == 200, reply.text
    return plain(fold(decode_chunk(event.data.encode()) for event in events(reply.text)[:-1]))


def verdict(part: Part, approved: Any = True, **more: Any) -> Part:
    """A part as a stock client has it after the user has decided."""
    return {**part, "state": "approval-responded", "approval": {**part["approval"], "approved": approved, **more}}


def output(part: Part, value: Any) -> Part:
    """A part as a stock client has it after its own tool ran."""
    return {**part, "state": "output-available", "output": value}


def assert_refused(reply: httpx.Response, message_id: str, text: str = REFUSED) -> None:
    """Check that a stream is a refusal, which is the same for every reason."""
    assert reply.status_code == 200, reply.text
    assert chunks(reply.text) == [{"type": "start", "messageId": message_id}, {"type": "error", "errorText": text}], (
        reply.text
    )


async def assert_waits(page: Page, *tools: str) -> None:
    """Nothing was executed, and these calls still wait."""
    assert page.executed == []
    assert [each["tool"] for each in await page.pending()] == list(tools)


async def assert_one_line_more(page: Page, before: list[dict[str, Any]]) -> None:
    """Check that the audit has one more line, about the attempt."""
    after = await page.audit()
    assert after[: len(before)] == before
    assert [(line["actor"], line["verdict"]) for line in after[len(before) :]] == [(page.user, "refused")]


async def assert_honest_once(page: Page, part: Part | None = None, args: dict[str, Any] | None = None) -> None:
    """The honest approval executes what was asked; sent again, by either way, it executes nothing."""
    part = page.part() if part is None else part
    honest = verdict(part)
    reply = await page.answer(honest)
    assert "tool-output-available" in [chunk["type"] for chunk in chunks(reply.text)], reply.text
    again = await page.answer(honest)
    assert chunks(again.text) == chunks(reply.text)
    assert (await page.call(part["toolCallId"], {"approved": True})).json() == {"state": "done"}
    assert [(line.call, line.tool, line.args) for line in page.executed] == [
        (part["toolCallId"], part["type"].removeprefix("tool-"), PAYMENT if args is None else args)
    ]
