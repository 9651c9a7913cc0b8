"""create_app() for a server of its own, Bridge.router() for any FastAPI app."""

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from adkwire.errors import MethodNotAllowed, NotFound, RequestError
from adkwire.gate.policy import Policy
from adkwire.runs import bridge as runs
from adkwire.runs.adk import Target
from adkwire.runs.serving import Serving
from adkwire.server.doors import Doors, no_such_socket
from adkwire.server.security import Authenticate, Guard, error_response
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
        self.doors = Doors(self, authenticate, self)

    def router(self) -> "APIRouter":
        """All routes under `/api`, guarded, for `app.include_router(...)`."""
        from fastapi import APIRouter  # only here: a server of its own does not need it

        router = APIRouter(lifespan=self.doors.lifespan)
        router.routes.extend(self.routes())
        return router

    def routes(self) -> list[BaseRoute]:
        """The same routes for a plain Starlette app."""
        return self.doors.routes()

    async def close(self, *, drain: float | None = None) -> None:
        """Take no more turns, let running ones end, and close each socket when what it follows has ended."""
        await self.doors.drain(self.settings.drain if drain is None else drain)
        await super().close(drain=0)


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
    return served(bridge, bridge.doors)


def served(bridge: Serving, doors: Doors, *more: BaseRoute) -> Starlette:
    """The app of a server: its doors, `more` routes, health and the page."""
    app = Starlette(
        routes=[*doors.routes(), *more, *doors.health()],
        lifespan=doors.lifespan,
        exception_handlers={HTTPException: _http_error},
    )
    app.state.bridge = bridge
    guard = doors.guard()
    # Not a mount: what is unknown under /api must stay a 404 or a 405 of the API.
    page = _Page(guard).endpoint if bridge.settings.ui else app.router.not_found
    app.router.default = _Elsewhere(page, guard.protect_socket(no_such_socket))
    return app


class _Elsewhere:
    """What has no route: a file of the page, perhaps; never a socket."""

    def __init__(self, page: ASGIApp, socket: ASGIApp) -> None:
        self._apps = {"http": page, "websocket": socket}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._apps[scope["type"]](scope, receive, send)


class _Page:
    """The built page: static files behind the Host check, with a policy that lets it load nothing from elsewhere."""

    def __init__(self, guard: Guard) -> None:
        folder = Path(str(files("adkwire") / "static"))
        self.endpoint = guard.protect(self._serve, identity=False)
        self._files = StaticFiles(directory=folder, html=True) if (folder / "index.html").is_file() else None

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
