"""A real server that runs an app in the event loop of the test, and a plain HTTP client for it."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import uvicorn
from starlette.types import ASGIApp

from adkwire import create_app
from adkwire.testing import Say, ScriptedModel
from tests.patience import PATIENCE
from tests.support.chats import scripted, settings


class _Server(uvicorn.Server):
    """A uvicorn server with an event that is set when it is up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


@dataclass
class Site:
    """A server that answers."""

    port: int
    client: httpx.AsyncClient

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def chats(self) -> Any:
        """The chat list, to see whether anything has changed."""
        return (await self.client.get("/api/chats")).json()

    async def raw(self, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes = b"") -> "Reply":
        """Send exactly this request, without default headers."""
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "connection: close"]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            await writer.drain()
            async with asyncio.timeout(PATIENCE):
                return as_reply(await reader.read())
        finally:
            writer.close()
            await writer.wait_closed()


class Reply(NamedTuple):
    """A response, as it was received."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def as_reply(data: bytes) -> Reply:
    """Parse the bytes of a response."""
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Reply(int(status.split()[1]), headers, body)


@asynccontextmanager
async def serving(app: ASGIApp, *, headers: Mapping[str, str] | None = None, **options: Any) -> AsyncGenerator[Site]:
    """Serve an app on a free port until the block ends. Its lifespan is left to the caller."""
    # Named as TCP, or asyncio does not set TCP_NODELAY on its connections and every answer takes 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        options = {"lifespan": "off", "log_config": None, "access_log": False, "timeout_graceful_shutdown": 2} | options
        config = uvicorn.Config(app, **options)
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            async with asyncio.timeout(PATIENCE):
                await server.up.wait()
            port = listener.getsockname()[1]
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", headers=dict(headers or {}), timeout=PATIENCE, trust_env=False
            ) as client:
                yield Site(port, client)
        finally:
            server.should_exit = True
            await task


@asynccontextmanager
async def opened(
    folder: Path,
    model: ScriptedModel | None = None,
    *tools: Any,
    authenticate: Any = None,
    headers: Mapping[str, str] | None = None,
    **given: Any,
) -> AsyncGenerator[Site]:
    """A server around a scripted model."""
    agent = scripted(model or ScriptedModel(script=lambda _: [Say("ok")]), *tools)
    given = {"chats_per_minute": 0, "ui": False, **given}
    app = create_app(agent, settings=settings(folder, **given), authenticate=authenticate)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(app.state.bridge.close)
        yield await stack.enter_async_context(serving(app, headers=headers))


def message(text: str = "hello", message_id: str = "u1") -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


def body(text: str = "hello", *, chat: str = "chat", message_id: str = "u1", **more: Any) -> dict[str, Any]:
    """Return the body that `DefaultChatTransport` posts."""
    return {"id": chat, "trigger": "submit-message", "messages": [message(text, message_id)], **more}


class Event(NamedTuple):
    """One server-sent event."""

    id: str
    data: str

    @property
    def chunk(self) -> dict[str, Any]:
        return json.loads(self.data)


def events(text: str) -> list[Event]:
    """The events of a stream, comments left out; the format is checked on the way."""
    found: list[Event] = []
    blocks = text.split("\n\n")
    assert blocks.pop() == "", "the last event is cut off"
    for block in blocks:
        if block.startswith(":"):
            continue
        if block == "data: [DONE]":
            found.append(Event("", "[DONE]"))
            continue
        first, second = block.split("\n")
        assert first.startswith("id: ")
        assert second.startswith("data: {")
        found.append(Event(first[4:], second[6:]))
    return found


def chunks(text: str) -> list[dict[str, Any]]:
    """The chunks of a whole stream."""
    *found, last = events(text)
    assert last.data == "[DONE]"
    return [event.chunk for event in found]


def kinds(text: str) -> list[str]:
    return [chunk["type"] for chunk in chunks(text)]


def answer_text(text: str) -> str:
    return "".join(chunk["delta"] for chunk in chunks(text) if chunk["type"] == "text-delta")


def assert_error(reply: "httpx.Response | Reply", status: int, code: str | None = None) -> dict[str, str]:
    """Check that a response is an error with this status, a message and no traceback."""
    assert (reply.status if isinstance(reply, Reply) else reply.status_code) == status
    assert reply.headers["content-type"] == "application/json"
    answer = reply.json()
    assert set(answer) == {"error"}
    error: dict[str, str] = answer["error"]
    fields: list[dict[str, str]] = answer["error"].pop("fields", [])
    assert all(set(field) == {"pointer", "message"} and field["pointer"].startswith("/") for field in fields)
    assert {"code", "message"} <= set(error) <= {"code", "message", "hint"}
    assert all(isinstance(value, str) and value for value in error.values())
    assert "Traceback" not in str(error)
    if code is not None:
        assert error["code"] == code
    return error
