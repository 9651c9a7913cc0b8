"""Routes: every route of a server, guarded, around the backend that answers."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from adkwire.adk.app import warm_up
from adkwire.bridge import Bridge
from adkwire.errors import NotFound, UpgradeRequired
from adkwire.server.backend import Backend
from adkwire.server.chat import ChatRoutes
from adkwire.server.chats import ChatsRoutes
from adkwire.server.events import EventsRoute
from adkwire.server.grants import GrantsRoutes
from adkwire.server.limits import MessageRates
from adkwire.server.local_proxies import LocalProxies
from adkwire.server.ops import OpsRoutes
from adkwire.server.owner_page import LOGO_PATH, OwnerPage
from adkwire.server.security import Authenticate, Guard, GuardedEndpoint, authenticator
from adkwire.server.sockets.chat import ChatSocketRoute
from adkwire.server.sockets.live import LiveSocketRoute
from adkwire.server.sockets.registry import OpenSockets

_CHAT_SOCKET = "/api/chat/ws"
_LIVE_SOCKET = "/api/live"


class Routes:
    """The routes of a server, with its open sockets."""

    def __init__(self, backend: Backend, authenticate: Authenticate | None = None, live: Bridge | None = None) -> None:
        """`live` is the bridge whose live conversations are served; None for a backend that has none."""
        settings = backend.settings
        self._backend = backend
        self._live = live
        self._authenticate = authenticate
        self._rates = MessageRates(settings.chats_per_minute)
        self._sockets = OpenSockets(settings)
        self._page = OwnerPage(settings)
        self._proxies = LocalProxies(remember=authenticate is None)

    def guard(self) -> Guard:
        """Return the guard of every route."""
        settings = self._backend.settings
        return Guard(settings, self._authenticate or authenticator(settings), self._proxies)

    def routes(self) -> list[BaseRoute]:
        """Return all routes under `/api`."""
        guard = self.guard()
        preflight = guard.protect(guard.preflight, identity=False)
        routes: list[BaseRoute] = [
            Route(path, endpoint, methods=[method], include_in_schema=False)
            for path, methods in self._endpoints(guard).items()
            for method, endpoint in {**methods, "OPTIONS": preflight}.items()
        ]
        chat = ChatSocketRoute(self._backend, self._sockets, self._rates)
        sockets = [WebSocketRoute(_CHAT_SOCKET, guard.protect_socket(chat.serve))]
        if self._live is not None:
            live = LiveSocketRoute(self._live, self._sockets, self._rates)
            sockets.append(WebSocketRoute(_LIVE_SOCKET, guard.protect_socket(live.serve)))
        return [*routes, *sockets]

    @property
    def _socket_paths(self) -> list[str]:
        return [_CHAT_SOCKET] if self._live is None else [_CHAT_SOCKET, _LIVE_SOCKET]

    def health(self) -> list[BaseRoute]:
        """Return the routes for operators, which only a server of its own has."""
        ops = OpsRoutes(self._backend, self._page)
        return [Route("/healthz", ops.healthz), Route("/readyz", ops.readyz)]

    def _endpoints(self, guard: Guard) -> dict[str, dict[str, GuardedEndpoint]]:
        """Return the guarded HTTP endpoints by path and method."""
        backend, protect = self._backend, guard.protect
        chat, chats = ChatRoutes(backend, self._rates), ChatsRoutes(backend)
        events, ops, grants = EventsRoute(backend), OpsRoutes(backend, self._page), GrantsRoutes(backend)
        return {
            "/api/chat": {"POST": protect(chat.post)},
            "/api/chat/{chat}/stream": {"GET": protect(chat.resume)},
            "/api/chat/{chat}/stop": {"POST": protect(chat.stop)},
            "/api/chat/{chat}/calls/{call}": {"POST": protect(chat.answer)},
            **{path: {"GET": protect(_not_a_socket, identity=False)} for path in self._socket_paths},
            "/api/gemini": {"POST": protect(chat.post_direct)},
            "/api/chats": {"GET": protect(chats.index)},
            "/api/chats/{chat}": {
                "GET": protect(chats.show),
                "PATCH": protect(chats.rename),
                "DELETE": protect(chats.delete),
            },
            "/api/chats/{chat}/audit": {"GET": protect(chats.audit)},
            "/api/chats/{chat}/chunks": {"GET": protect(chats.chunks)},
            "/api/grants": {"GET": protect(grants.index)},
            "/api/grants/{grant}": {"DELETE": protect(grants.revoke)},
            "/api/events": {"GET": protect(events.stream)},
            "/api/info": {"GET": protect(ops.info)},
            # Without identity: an image is loaded without a token, and the page shows it before it is given one.
            LOGO_PATH: {"GET": protect(self._page.logo, identity=False)},
        }

    async def drain(self, seconds: float) -> None:
        """Take no more turns, let running ones end, and close each socket when the runs that it follows have ended."""
        self._sockets.drain()
        await self._backend.drain(seconds)
        await self._sockets.close()

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncGenerator[None]:
        """Load what turns need when the app starts, and close the backend when it ends."""
        warming = asyncio.create_task(asyncio.to_thread(warm_up), name="adkwire-warm-up")
        self._backend.watch()
        try:
            yield
        finally:
            await warming
            await self._backend.close()


async def _not_a_socket(request: Request) -> Response:
    hint = "Open it with a WebSocket client; over HTTP it is POST /api/chat."
    raise UpgradeRequired("This is a WebSocket.", hint=hint)


async def no_such_socket(socket: WebSocket) -> None:
    """Refuse a socket at an address that has none."""
    raise NotFound("There is no socket here.", hint=f"They are at {_CHAT_SOCKET} and {_LIVE_SOCKET}.")
