"""An emulator of the Gemini API on 127.0.0.1, for tests of agents with ADK's real `Gemini` class, without a network."""

import asyncio
import contextlib
import functools
import json
import re
import ssl
import tempfile
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, cast

import uvicorn
from anyio.from_thread import start_blocking_portal
from google.genai import types
from starlette.requests import Request
from starlette.types import Receive, Scope
from starlette.types import Send as AsgiSend
from starlette.websockets import WebSocket
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from adkwire.testing.gemini_door import certify, listening
from adkwire.testing.gemini_live import GeminiLive, LiveScript
from adkwire.testing.gemini_live_wire import GeminiLiveStep
from adkwire.testing.gemini_wire import (
    Cut,
    GeminiRequest,
    GeminiStep,
    HttpError,
    Json,
    Reply,
    Send,
    Wait,
    merged,
    normalised,
    problem_of,
)

_KEY = "emulated-key"
_PATH = re.compile(
    r"/v1(?:alpha|beta\d?)?/(?:publishers/google/)?models/([^/:]+):(generateContent|streamGenerateContent)"
)

Script: TypeAlias = Callable[[GeminiRequest], Iterable[GeminiStep]]


class GeminiEmulator:
    """Answers like the Gemini API, by a script; `async with` it, or `with` it where no loop runs.

    `replies` are played one after the other, one for each request. Or give `script`, a function from the request to
    the steps of its reply. An answer that is not ended by a step of its own ends with STOP.

        async with GeminiEmulator([[Say("Hello.")], [HttpError(503, "UNAVAILABLE")]]) as gemini:
            agent = LlmAgent(name="helper", model=Gemini(model="gemini-2.5-flash", **gemini.model_kwargs))

    Live sessions are answered by `live`: turns of the model, one after the other in each conversation, or a function
    from the `LiveTurn` to the steps. Without it the model repeats what it hears. They are found in `.live`.

    What the real API refuses is refused here: no key, an unknown model, calls without their responses. `models` names
    the models there are; without it any name that begins with `gemini-` is known.
    """

    def __init__(
        self,
        replies: Sequence[Iterable[GeminiStep]] | None = None,
        *,
        script: Script | None = None,
        live: Sequence[Iterable[GeminiLiveStep]] | LiveScript | None = None,
        models: Collection[str] | None = None,
    ) -> None:
        if (replies is not None and script is not None) or (replies is None and script is None and live is None):
            raise ValueError("a GeminiEmulator takes either replies or script, or live alone")
        self.live = GeminiLive(live, models)
        """The Live sessions."""
        self.requests: list[GeminiRequest] = []
        """Every request that could be read, refused or not."""
        self._replies = replies or ()
        self._script = script
        self._models = models
        self._port = 0
        self._certificate = Path()
        self._connections: dict[tuple[str, int], asyncio.Transport] = {}
        self._running = AsyncExitStack()
        self._thread = ExitStack()

    @property
    def base_url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that lead a whole process to it, whatever model it names."""
        return {
            "GOOGLE_GEMINI_BASE_URL": self.base_url,
            "GOOGLE_API_KEY": _KEY,
            "GOOGLE_GENAI_USE_VERTEXAI": "false",
            "GOOGLE_GENAI_USE_ENTERPRISE": "false",
            "SSL_CERT_FILE": str(self._certificate),  # Live goes over TLS, whatever the base URL says
        }

    @property
    def model_kwargs(self) -> dict[str, Any]:
        """Arguments for ADK's `Gemini(...)`."""
        # Proxies and projects of the environment are not for 127.0.0.1, and plain HTTP needs no certificates.
        plain = {"trust_env": False, "verify": False}
        trust = ssl.create_default_context(cafile=self._certificate)
        live = {**plain, "ssl": trust, "proxy": None}
        options = types.HttpOptions(base_url=self.base_url, client_args=plain, async_client_args=live)
        return {"client_kwargs": {"api_key": _KEY, "enterprise": False, "http_options": options}}

    async def __aenter__(self) -> Self:
        await self._running.enter_async_context(self._serving())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._running.aclose()

    def __enter__(self) -> Self:
        portal = self._thread.enter_context(start_blocking_portal())
        self._thread.enter_context(portal.wrap_async_context_manager(self._serving()))
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.close()

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncGenerator[None]:
        # uvicorn's protocol without its server, which takes the signals of the process and a while to end.
        state = ServerState()
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            proxy_headers=False,
            ws=_Socket,
            ws_ping_interval=None,
            lifespan="off",
            log_config=None,
            access_log=False,
        )
        connect = functools.partial(_Protocol, config, state, {_CONNECTIONS: self._connections})
        with tempfile.TemporaryDirectory() as folder:
            self._certificate, tls = certify(Path(folder))
            async with listening(connect, tls) as self._port:
                yield
            for connection in list(self._connections.values()):
                connection.abort()
            await asyncio.gather(*state.tasks, return_exceptions=True)
            while self._connections:  # noqa: ASYNC110 - they are gone in a moment, when asyncio comes to it
                await asyncio.sleep(0)

    async def _app(self, scope: Scope, receive: Receive, send: AsgiSend) -> None:
        if scope["type"] == "websocket":
            await self.live.serve(WebSocket(scope, receive, send), self._connections[scope["client"]].abort)
            return
        request = Request(scope, receive)
        answer = _Answer(send, self._connections[scope["client"]])
        found = _PATH.fullmatch(scope["path"])
        if found is None or scope["method"] != "POST":
            await answer.refuse(HttpError(404, "NOT_FOUND", f"There is no {scope['path']}."))
            return
        try:
            body = normalised(cast("Json", await request.json()))
        except ValueError:
            await answer.refuse(HttpError(400, "INVALID_ARGUMENT", "Invalid JSON payload received."))
            return
        method = cast("Literal['generateContent', 'streamGenerateContent']", found[2])
        asked = GeminiRequest(len(self.requests), found[1], method, dict(request.headers), body)
        answer.streams = method == "streamGenerateContent"
        self.requests.append(asked)
        await self._answer(asked, receive, answer)

    async def _answer(self, asked: GeminiRequest, receive: Receive, answer: "_Answer") -> None:
        """Play the reply, unless the client goes away first."""
        playing = asyncio.create_task(_play(asked, self._steps(asked), answer), name="gemini-emulator-reply")
        leaving = asyncio.create_task(_until_gone(receive), name="gemini-emulator-client")
        try:
            await asyncio.wait([playing, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not playing.done() and not answer.dropped:
                asked.gone.set()
        finally:
            playing.cancel()
            leaving.cancel()
            await asyncio.gather(playing, leaving, return_exceptions=True)
        if not playing.cancelled() and (error := playing.exception()) is not None:
            raise error

    def _steps(self, asked: GeminiRequest) -> Iterable[GeminiStep]:
        if (refusal := self._refusal(asked)) is not None:
            return [refusal]
        if self._script is not None:
            return self._script(asked)
        if asked.number < len(self._replies):
            return self._replies[asked.number]
        return [HttpError(500, "INTERNAL", f"The script has {len(self._replies)} replies; this is one more request.")]

    def _refusal(self, asked: GeminiRequest) -> HttpError | None:
        if not asked.headers.get("x-goog-api-key"):
            return HttpError(403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers.")
        known = asked.model in self._models if self._models is not None else asked.model.startswith("gemini-")
        if not known:
            return HttpError(404, "NOT_FOUND", f"models/{asked.model} is not found for API version v1beta.")
        problem = problem_of(asked.body)
        return HttpError(400, "INVALID_ARGUMENT", problem) if problem is not None else None


async def _play(asked: GeminiRequest, steps: Iterable[GeminiStep], answer: "_Answer") -> None:
    reply = Reply(asked)
    for step in steps:
        match step:
            case Wait(event):
                await event.wait()
            case Cut():
                await answer.cut()
                return
            case HttpError():
                await answer.refuse(step)
                return
            case Send(data) if isinstance(data, bytes):
                await answer.write(data)
            case _:
                pass
        for chunk in reply.chunks(step):
            await answer.write(chunk)
    for chunk in reply.end():
        await answer.write(chunk)
    await answer.end()


class _Answer:
    """One HTTP response: a stream of events, or one body made of the same chunks."""

    def __init__(self, send: AsgiSend, transport: asyncio.Transport) -> None:
        self.streams = False
        self.dropped = False
        self._send = send
        self._transport = transport
        self._begun = False
        self._kept: list[Json | bytes] = []

    async def write(self, data: Json | bytes) -> None:
        if not self.streams:
            self._kept.append(data)
            return
        if not self._begun:
            await self._begin(200, "text/event-stream")
        event = data if isinstance(data, bytes) else b"data: " + json.dumps(data).encode() + b"\r\n\r\n"
        await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def end(self) -> None:
        raw = b"".join(data for data in self._kept if isinstance(data, bytes))
        whole = raw or json.dumps(merged([data for data in self._kept if not isinstance(data, bytes)])).encode()
        if not self._begun:
            await self._begin(200, "application/json")
        await self._send({"type": "http.response.body", "body": b"" if self.streams else whole})

    async def refuse(self, error: HttpError) -> None:
        """As a status; or, when the stream has begun, in it."""
        if self._begun:
            await self.write(error.body())
            await self.end()
            return
        retry = {"retry-after": f"{error.retry_after:g}"} if error.retry_after is not None else {}
        await self._begin(error.status, "application/json", retry)
        await self._send({"type": "http.response.body", "body": json.dumps(error.body()).encode()})

    async def cut(self) -> None:
        """Drop the connection without a word."""
        self.dropped = True
        self._transport.abort()
        await asyncio.Event().wait()  # until the server has seen that the client is gone

    async def _begin(self, status: int, media_type: str, more: dict[str, str] | None = None) -> None:
        self._begun = True
        headers = {"content-type": media_type, **(more or {})}
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


_CONNECTIONS = "connections"


class _Protocol(H11Protocol):
    """uvicorn's, but its connections can be found: ASGI has no word for cutting one."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.app_state[_CONNECTIONS][transport.get_extra_info("peername")] = transport
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.app_state[_CONNECTIONS].pop(self.client, None)


class _Socket(WebSocketsSansIOProtocol):
    """What a connection becomes by an upgrade, which is found in the same place."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.app_state[_CONNECTIONS].pop(self.client, None)
