"""A server on 127.0.0.1 that emulates the Gemini API, for tests with ADK's real `Gemini` class, without a network."""

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

from adkwire.testing.gemini.generate_content import (
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
from adkwire.testing.gemini.http_and_tls_port import listen, make_certificate
from adkwire.testing.gemini.live_protocol import GeminiLiveStep
from adkwire.testing.gemini.live_sessions import GeminiLive, LiveScript

_KEY = "emulated-key"
_PATH = re.compile(
    r"/v1(?:alpha|beta\d?)?/(?:publishers/google/)?models/([^/:]+):(generateContent|streamGenerateContent)"
)

Script: TypeAlias = Callable[[GeminiRequest], Iterable[GeminiStep]]


class GeminiEmulator:
    """A server that answers as the Gemini API does, by a script. Use `async with`, or `with` where no event loop runs.

    `replies` are played one after the other, one for each request. Or give `script`, a function from the request to
    the steps of its reply. An answer that no step ends ends with STOP.

        async with GeminiEmulator([[Say("Hello.")], [HttpError(503, "UNAVAILABLE")]]) as gemini:
            agent = LlmAgent(name="helper", model=Gemini(model="gemini-2.5-flash", **gemini.model_kwargs))

    `live` has the model's turns in Live sessions, one after the other in each conversation, or is a function from the
    `LiveTurn` to the steps. Without it the model repeats what the user says. The attribute `.live` has the sessions.

    The emulator refuses what the real API refuses: no key, an unknown model, calls without their responses. `models`
    are the names of known models; without it every name that begins with `gemini-` is known.
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
        """The Live sessions, and what they received."""
        self.requests: list[GeminiRequest] = []
        """Every request with a known path and a JSON body, refused or not."""
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
        """The URL of the emulator."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that make all Gemini clients of a process use the emulator."""
        return {
            "GOOGLE_GEMINI_BASE_URL": self.base_url,
            "GOOGLE_API_KEY": _KEY,
            "GOOGLE_GENAI_USE_VERTEXAI": "false",
            "GOOGLE_GENAI_USE_ENTERPRISE": "false",
            "SSL_CERT_FILE": str(self._certificate),  # Google's client uses TLS for Live even with an http base URL.
        }

    @property
    def model_kwargs(self) -> dict[str, Any]:
        """Arguments for ADK's `Gemini(...)`."""
        # Proxies and projects that the environment sets must not apply to 127.0.0.1; plain HTTP has no certificates.
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
        # uvicorn's protocols without uvicorn's server, which handles the signals of the process and ends slowly.
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
            self._certificate, tls = make_certificate(Path(folder))
            async with listen(connect, tls) as self._port:
                yield
            for connection in list(self._connections.values()):
                connection.abort()
            await asyncio.gather(*state.tasks, return_exceptions=True)
            while self._connections:  # noqa: ASYNC110 - aborted transports are closed in the next loop iterations
                await asyncio.sleep(0)

    async def _app(self, scope: Scope, receive: Receive, send: AsgiSend) -> None:
        if scope["type"] == "websocket":
            await self.live.serve(WebSocket(scope, receive, send), self._connections[scope["client"]].abort)
            return
        http_request = Request(scope, receive)
        answer = _HttpResponse(send, self._connections[scope["client"]])
        found = _PATH.fullmatch(scope["path"])
        if found is None or scope["method"] != "POST":
            await answer.refuse(HttpError(404, "NOT_FOUND", f"There is no {scope['path']}."))
            return
        try:
            body = normalised(cast("Json", await http_request.json()))
        except ValueError:
            await answer.refuse(HttpError(400, "INVALID_ARGUMENT", "Invalid JSON payload received."))
            return
        method = cast("Literal['generateContent', 'streamGenerateContent']", found[2])
        request = GeminiRequest(len(self.requests), found[1], method, dict(http_request.headers), body)
        answer.streams = method == "streamGenerateContent"
        self.requests.append(request)
        await self._answer(request, receive, answer)

    async def _answer(self, request: GeminiRequest, receive: Receive, answer: "_HttpResponse") -> None:
        """Play the reply, unless the client disconnects first."""
        reply = asyncio.create_task(_play(request, self._steps(request), answer), name="gemini-emulator-reply")
        disconnect = asyncio.create_task(_until_disconnected(receive), name="gemini-emulator-disconnect")
        try:
            await asyncio.wait([reply, disconnect], return_when=asyncio.FIRST_COMPLETED)
            if not reply.done() and not answer.dropped:
                request.gone.set()
        finally:
            reply.cancel()
            disconnect.cancel()
            await asyncio.gather(reply, disconnect, return_exceptions=True)
        if not reply.cancelled() and (error := reply.exception()) is not None:
            raise error

    def _steps(self, request: GeminiRequest) -> Iterable[GeminiStep]:
        if (refusal := self._refusal(request)) is not None:
            return [refusal]
        if self._script is not None:
            return self._script(request)
        if request.number < len(self._replies):
            return self._replies[request.number]
        return [HttpError(500, "INTERNAL", f"The script has {len(self._replies)} replies; this is one more request.")]

    def _refusal(self, request: GeminiRequest) -> HttpError | None:
        if not request.headers.get("x-goog-api-key"):
            return HttpError(403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers.")
        known = request.model in self._models if self._models is not None else request.model.startswith("gemini-")
        if not known:
            return HttpError(404, "NOT_FOUND", f"models/{request.model} is not found for API version v1beta.")
        problem = problem_of(request.body)
        return HttpError(400, "INVALID_ARGUMENT", problem) if problem is not None else None


async def _play(request: GeminiRequest, steps: Iterable[GeminiStep], answer: "_HttpResponse") -> None:
    reply = Reply(request)
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


class _HttpResponse:
    """One HTTP response: an event stream, or a single body merged from the same chunks."""

    def __init__(self, send: AsgiSend, transport: asyncio.Transport) -> None:
        self.streams = False
        self.dropped = False
        self._send = send
        self._transport = transport
        self._begun = False
        self._unsent: list[Json | bytes] = []

    async def write(self, data: Json | bytes) -> None:
        if not self.streams:
            self._unsent.append(data)
            return
        if not self._begun:
            await self._begin(200, "text/event-stream")
        event = data if isinstance(data, bytes) else b"data: " + json.dumps(data).encode() + b"\r\n\r\n"
        await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def end(self) -> None:
        raw = b"".join(data for data in self._unsent if isinstance(data, bytes))
        whole = raw or json.dumps(merged([data for data in self._unsent if not isinstance(data, bytes)])).encode()
        if not self._begun:
            await self._begin(200, "application/json")
        await self._send({"type": "http.response.body", "body": b"" if self.streams else whole})

    async def refuse(self, error: HttpError) -> None:
        """Send an error: as an HTTP status, or as a chunk if the stream has begun."""
        if self._begun:
            await self.write(error.body())
            await self.end()
            return
        retry = {"retry-after": f"{error.retry_after:g}"} if error.retry_after is not None else {}
        await self._begin(error.status, "application/json", retry)
        await self._send({"type": "http.response.body", "body": json.dumps(error.body()).encode()})

    async def cut(self) -> None:
        """Drop the connection without an end of the response."""
        self.dropped = True
        self._transport.abort()
        await asyncio.Event().wait()  # The emulator cancels this task when it has seen the disconnect.

    async def _begin(self, status: int, media_type: str, more: dict[str, str] | None = None) -> None:
        self._begun = True
        headers = {"content-type": media_type, **(more or {})}
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


_CONNECTIONS = "connections"


class _Protocol(H11Protocol):
    """uvicorn's protocol, with a registry of its transports: ASGI cannot abort a connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.app_state[_CONNECTIONS][transport.get_extra_info("peername")] = transport
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.app_state[_CONNECTIONS].pop(self.client, None)


class _Socket(WebSocketsSansIOProtocol):
    """The protocol of a connection after its upgrade to a WebSocket, in the same registry."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.app_state[_CONNECTIONS].pop(self.client, None)
