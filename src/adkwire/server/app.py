"""create_app(): a whole server around a Bridge, with the page."""

from importlib.resources import files
from pathlib import Path
from typing import Unpack

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from adkwire.adk.app import Target
from adkwire.bridge import Bridge, BridgeOptions
from adkwire.errors import MethodNotAllowed, NotFound, RequestError
from adkwire.server.backend import Backend
from adkwire.server.routes import Routes, no_such_socket
from adkwire.server.security import Guard, error_response

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


def create_app(agent: Target | Bridge, **options: Unpack[BridgeOptions]) -> Starlette:
    """Return a server around an agent, or around a Bridge: the API, health, and the page.

    Beside an agent it takes what `Bridge` takes; a Bridge comes alone, since it has its options already.
    """
    if not isinstance(agent, Bridge):
        agent = Bridge(agent, **options)
    elif options:
        raise TypeError(f"create_app takes no {', '.join(options)} beside a Bridge: give them to the Bridge")
    return app_of(agent, agent.api)


def app_of(backend: Backend, api: Routes, *more: BaseRoute) -> Starlette:
    """Return the app of a server: the routes of the API, `more` routes, health and the page."""
    app = Starlette(
        routes=[*api.routes(), *more, *api.health()],
        lifespan=api.lifespan,
        exception_handlers={HTTPException: _http_error},
    )
    app.state.bridge = backend
    guard = api.guard()
    # Not a mount: an unknown path under /api must stay a 404 or a 405 of the API.
    page = _Page(guard).endpoint if backend.settings.ui else app.router.not_found
    app.router.default = _Default(page, guard.protect_socket(no_such_socket))
    return app


class _Default:
    """The app for paths without a route: the page for HTTP, a refusal for sockets."""

    def __init__(self, page: ASGIApp, socket: ASGIApp) -> None:
        self._apps = {"http": page, "websocket": socket}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._apps[scope["type"]](scope, receive, send)


class _Page:
    """The built page: static files, guarded, with a policy that lets it load nothing from other sites."""

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
        # File names of assets contain a hash of their content; the page itself must be requested anew.
        fresh = "public, max-age=31536000, immutable" if path.startswith("assets") else "no-cache"
        response.headers["cache-control"] = fresh
        return response


def _refusal(status: int) -> RequestError:
    return (
        MethodNotAllowed("This address does not take this method.")
        if status == 405
        else NotFound("There is nothing at this address.")
    )


async def _http_error(request: Request, error: Exception) -> Response:
    return error_response(_refusal(error.status_code) if isinstance(error, HTTPException) else None)
