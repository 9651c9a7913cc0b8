"""A server whose agent uses ADK's real `Gemini` class, connected to the emulator, and a page that talks to it."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.adk.models import Gemini
from google.adk.tools.function_tool import FunctionTool
from google.genai import Client
from msgspec import UNSET

from adkwire.testing import GeminiEmulator, GeminiRequest, GeminiStep, Source, assert_valid_stream
from adkwire.wire.messages import ToolPart, UIMessage
from tests.server.app_server import PATIENCE, Site, message, opened
from tests.support.chats import plain
from tests.wire.pictures import png

DIRECT = "/api/gemini"
PICTURE = png(2, 2)
INLINE = {"mimeType": "image/png", "data": base64.b64encode(PICTURE).decode()}
NEWS = Source("https://example.com/news", "News")
PAPER = Source("https://example.com/paper", "Paper")


def get_weather(city: str) -> dict[str, str]:
    """Get the weather of a city."""
    return {"city": city, "condition": "sunny"}


@dataclass
class Till:
    """A payment tool that needs an approval."""

    paid: list[int] = field(default_factory=list[int])

    def pay(self, amount: int) -> dict[str, int]:
        """Pay money."""
        self.paid.append(amount)
        return {"paid": amount}


@dataclass
class GeminiServer:
    """A server whose agent talks to the emulator."""

    site: Site
    gemini: GeminiEmulator
    till: Till
    replies: list[Iterable[GeminiStep]] = field(default_factory=list[Iterable[GeminiStep]])
    chats: int = 0

    def chat(self, *replies: Iterable[GeminiStep], api: str = "/api/chat") -> "Page":
        """A new chat, and what Gemini will answer in it."""
        self.replies[:] = replies
        self.chats += 1
        self.till.paid.clear()
        return Page(self, f"chat-{self.chats}", len(self.gemini.requests), api)


@dataclass
class Page:
    """One chat, as `useChat` holds it."""

    server: GeminiServer
    id: str
    first: int
    api: str
    held: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def requests(self) -> list[GeminiRequest]:
        """The requests to Gemini in this chat."""
        return self.server.gemini.requests[self.first :]

    @property
    def last(self) -> dict[str, Any]:
        return self.held[-1]

    def body(self, text: str, *more: dict[str, Any]) -> dict[str, Any]:
        user_message = message(text, f"u{len(self.held)}")
        user_message["parts"] += more
        self.held.append(user_message)
        return {"id": self.id, "messages": self.held}

    async def say_and_stop(self, text: str = "hello") -> None:
        """Send a message and stop at its first text; return when the connection to Gemini and the stream have ended."""
        client = self.server.site.client
        async with asyncio.timeout(PATIENCE), client.stream("POST", self.api, json=self.body(text)) as response:
            body = ""
            async for more in response.aiter_text():
                body += more
                if '"text-delta"' in body and not self.requests[-1].gone.is_set():
                    assert (await client.post(f"/api/chat/{self.id}/stop")).json() == {"stopped": True}
                    await self.requests[-1].gone.wait()
        self.held.append(plain(assert_valid_stream(body)))
        assert await self.stored() == self.held

    async def say(self, text: str = "hello", *more: dict[str, Any]) -> list[dict[str, Any]]:
        """Type a message; the chunks of the answer. What was streamed is what history has."""
        return await self._post(self.body(text, *more), None)

    async def answer(self, call: str, *, approved: bool) -> list[dict[str, Any]]:
        """Answer the question that the last message ends with."""
        part = next(part for part in self._last.parts if isinstance(part, ToolPart) and part.tool_call_id == call)
        assert part.approval is not UNSET
        part.state, part.approval.approved = "approval-responded", approved
        self.held[-1] = plain(self._last)
        return await self._post({"id": self.id, "messages": self.held}, self._last)

    async def _post(self, body: dict[str, Any], into: UIMessage | None) -> list[dict[str, Any]]:
        response = await self.server.site.client.post(self.api, json=body)
        assert response.status_code == 200
        self._last = assert_valid_stream(response.text, into=into)
        self.held = [*(self.held if into is None else self.held[:-1]), plain(self._last)]
        # What lies further back may be told differently since: a call that was typed over is settled.
        assert (await self.stored())[-2:] == self.held[-2:]
        lines = [line.removeprefix("data: ") for line in response.text.split("\n") if line.startswith("data: {")]
        return [json.loads(line) for line in lines]

    async def stored(self) -> list[dict[str, Any]]:
        return (await self.server.site.client.get(f"/api/chats/{self.id}")).json()["messages"]


@asynccontextmanager
async def open_gemini_server(folder: Path, **given: Any) -> AsyncGenerator[GeminiServer]:
    till, replies = Till(), list[Iterable[GeminiStep]]()
    gated = FunctionTool(till.pay, require_confirmation=True)
    async with GeminiEmulator(script=lambda _: replies.pop(0)) as gemini:
        # One client for the model and its paced copy, so that it can be closed.
        with Client(**gemini.model_kwargs["client_kwargs"]) as client:
            model: Any = Gemini(model="gemini-2.5-flash", client=client)
            async with client.aio, opened(folder, model, get_weather, gated, db="memory:", **given) as site:
                yield GeminiServer(site, gemini, till, replies)


def texts_sent(page: Page, request: int = -1) -> list[tuple[str, str]]:
    """Role and text of what Gemini was given, without its thoughts."""
    contents = page.requests[request].contents
    return [(content["role"], "".join(map(_spoken, content["parts"]))) for content in contents]


def _spoken(part: dict[str, Any]) -> str:
    return "" if part.get("thought") else part.get("text", "")


def kinds(chunks: list[dict[str, Any]]) -> list[str]:
    return [chunk["type"] for chunk in chunks]
