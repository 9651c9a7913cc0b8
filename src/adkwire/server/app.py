"""create_app() for a server of its own, Bridge.router() for any FastAPI app."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from adkwire.errors import MethodNotAllowed, NotFound, RequestError
from adkwire.gate.policy import Policy
from adkwire.runs import bridge as runs
from adkwire.runs.adk import Target, warm_up
from adkwire.server.chat import ChatRoutes
from adkwire.server.chats import ChatsRoutes
from adkwire.server.limits import Rates
from adkwire.server.ops import OpsRoutes
from adkwire.server.security import Authenticate, Guard, GuardedEndpoint, authenticator, error_response
from adkwire.server.socket import SocketRoutes, Sockets
from adkwire.settings import Settings
from adkwire.stores.base import GateStore, Signals, StreamLog

if TYPE_CHECKING:
    from fastapi import APIRouter
    from google.adk.artifacts import BaseArtifactService
    from google.adk.memory import BaseMemoryService
    from google.adk.models.base_llm import BaseLlm
    from google.adk.sessions import BaseSessionService

_PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
        "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(self), display-capture=()",
}


class Bridge(runs.Bridge):
    """An ADK agent that AI SDK front ends can talk to."""

    def __init__(
        self,
        agent: Target,
        *,
        settings: Settings | None = None,
        authenticate: Authenticate | None = None,
        session_service: "BaseSessionService | None" = None,
        artifact_service: "BaseArtifactService | None" = None,
        memory_service: "BaseMemoryService | None" = None,
        policy: Policy | None = None,
        stream_log: StreamLog | None = None,
        gate_store: GateStore | None = None,
        signals: Signals | None = None,
        offline_model: "BaseLlm | None" = None,
    ) -> None:
        super().__init__(
            agent,
            settings=settings,
            session_service=session_service,
            artifact_service=artifact_service,
            memory_service=memory_service,
            policy=policy,
            stream_log=stream_log,
            gate_store=gate_store,
            signals=signals,
            offline_model=offline_model,
        )
        self._authenticate = authenticate
        self._rates = Rates(self.settings.chats_per_minute)
        self._sockets = Sockets(self.settings.sockets_per_user)

    def router(self) -> "APIRouter":
        """All routes under `/api`, guarded, for `app.include_router(...)`."""
        from fastapi import APIRouter  # only here: a server of its own does not need it

        router = APIRouter(lifespan=self.lifespan)
        router.routes.extend(self.routes())
        return router

    def routes(self) -> list[BaseRoute]:
        """The same routes for a plain Starlette app."""
        guard = self.guard()
        preflight = guard.protect(guard.preflight, identity=False)
        routes: list[BaseRoute] = [
            Route(path, endpoint, methods=[method], include_in_schema=False)
            for path, methods in self.endpoints(guard).items()
            for method, endpoint in {**methods, "OPTIONS": preflight}.items()
        ]
        socket = SocketRoutes(self, self._sockets, self._rates)
        return [*routes, WebSocketRoute("/api/chat/ws", guard.protect_socket(socket.chat))]

    def guard(self) -> Guard:
        """The door of this bridge's routes."""
        return Guard(self.settings, self._authenticate or authenticator(self.settings))

    def endpoints(self, guard: Guard) -> dict[str, dict[str, GuardedEndpoint]]:
        """Every route by path and method, behind the guard."""
        chat, chats, ops = ChatRoutes(self, self._rates), ChatsRoutes(self), OpsRoutes(self)
        protect = guard.protect
        return {
            "/api/chat": {"POST": protect(chat.post)},
            "/api/chat/{chat}/stream": {"GET": protect(chat.resume)},
            "/api/chat/{chat}/stop": {"POST": protect(chat.stop)},
            "/api/chat/{chat}/calls/{call}": {"POST": protect(chat.answer)},
            "/api/gemini": {"POST": protect(chat.post_direct)},
            "/api/chats": {"GET": protect(chats.index)},
            "/api/chats/{chat}": {
                "GET": protect(chats.show),
                "PATCH": protect(chats.rename),
                "DELETE": protect(chats.delete),
            },
            "/api/chats/{chat}/audit": {"GET": protect(chats.audit)},
            "/api/events": {"GET": protect(chats.events)},
            "/api/info": {"GET": protect(ops.info)},
        }

    async def close(self, *, drain: float | None = None) -> None:
        """Take no more turns, let running ones end, and close each socket when what it follows has ended."""
        self._sockets.drain()
        await self._drain(self.settings.drain if drain is None else drain)
        await self._sockets.close()
        await super().close(drain=0)

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncGenerator[None]:
        """Warm up at the start, let running answers end at the end."""
        warming = asyncio.create_task(asyncio.to_thread(warm_up), name="adkwire-warm-up")
        self.watch()
        try:
            yield
        finally:
            await warming
            await self.close()


def create_app(
    agent: Target | Bridge,
    *,
    settings: Settings | None = None,
    authenticate: Authenticate | None = None,
    policy: Policy | None = None,
    offline_model: "BaseLlm | None" = None,
) -> Starlette:
    """A whole server around an agent, or around a Bridge that has its own settings: the API, health, and the page."""
    if not isinstance(agent, Bridge):
        bridge = Bridge(agent, settings=settings, authenticate=authenticate, policy=policy, offline_model=offline_model)
    elif settings is None and authenticate is None and policy is None and offline_model is None:
        bridge = agent
    else:
        raise TypeError("a Bridge has its settings already; give create_app the agent, or the Bridge alone")
    guard, ops = bridge.guard(), OpsRoutes(bridge)
    health = [Route("/healthz", ops.healthz), Route("/readyz", ops.readyz)]
    app = Starlette(
        routes=[*bridge.routes(), *health],
        lifespan=bridge.lifespan,
        exception_handlers={HTTPException: _http_error},
    )
    app.state.bridge = bridge
    if bridge.settings.ui:
        # Not a mount: what is unknown under /api must stay a 404 or a 405 of the API.
        app.router.default = _Page(guard, app.router.not_found)
    return app


class _Page:
    """The built page: static files behind the Host check, with a policy that lets it load nothing from elsewhere."""

    def __init__(self, guard: Guard, otherwise: ASGIApp) -> None:
        folder = Path(str(files("adkwire") / "static"))
        self._endpoint = guard.protect(self._serve, identity=False)
        self._otherwise = otherwise
        self._files = StaticFiles(directory=folder, html=True) if (folder / "index.html").is_file() else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._endpoint if scope["type"] == "http" else self._otherwise)(scope, receive, send)

    async def _serve(self, request: Request) -> Response:
        if self._files is None:
            return PlainTextResponse("The page is not built yet: run `make page`. The API is at /api.\n", 503)
        path = self._files.get_path(request.scope)
        try:
            response = await self._files.get_response(path, request.scope)
        except HTTPException as error:
            raise _refusal(error.status_code) from None
        response.headers.update(_PAGE_HEADERS)
        # File names of assets carry a hash of their content; the page itself must be asked for anew.
        fresh = "public, max-age=31536000, immutable" if path.startswith("assets") else "no-cache"
        response.headers["cache-control"] = fresh
        return response


def _refusal(status: int) -> RequestError:
    return (
        MethodNotAllowed("This method is not answered here.") if status == 405 else NotFound("There is nothing here.")
    )


async def _http_error(request: Request, error: Exception) -> Response:
    return error_response(_refusal(error.status_code) if isinstance(error, HTTPException) else None)
