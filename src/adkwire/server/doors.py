"""Every way into a server, guarded, around whatever answers behind it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from adkwire.errors import NotFound, UpgradeRequired
from adkwire.runs.adk import warm_up
from adkwire.runs.bridge import Bridge
from adkwire.runs.serving import Serving
from adkwire.server.chat import ChatRoutes
from adkwire.server.chats import ChatsRoutes
from adkwire.server.limits import Rates
from adkwire.server.live import LiveRoutes
from adkwire.server.ops import OpsRoutes
from adkwire.server.security import Authenticate, Guard, GuardedEndpoint, authenticator
from adkwire.server.socket import SocketRoutes, Sockets

_SOCKET = "/api/chat/ws"
_LIVE = "/api/live"


class Doors:
    """The routes of a server."""

    def __init__(self, inside: Serving, authenticate: Authenticate | None = None, live: Bridge | None = None) -> None:
        settings = inside.settings
        self._inside = inside
        self._live = live
        self._authenticate = authenticate
        self._rates = Rates(settings.chats_per_minute)
        self._sockets = Sockets(settings.sockets_per_user)

    def guard(self) -> Guard:
        """Who stands at every door."""
        settings = self._inside.settings
        return Guard(settings, self._authenticate or authenticator(settings))

    def routes(self) -> list[BaseRoute]:
        """All routes under `/api`."""
        guard = self.guard()
        preflight = guard.protect(guard.preflight, identity=False)
        routes: list[BaseRoute] = [
            Route(path, endpoint, methods=[method], include_in_schema=False)
            for path, methods in self._endpoints(guard).items()
            for method, endpoint in {**methods, "OPTIONS": preflight}.items()
        ]
        socket = SocketRoutes(self._inside, self._sockets, self._rates)
        sockets = [WebSocketRoute(_SOCKET, guard.protect_socket(socket.chat))]
        if self._live is not None:
            live = LiveRoutes(self._live, self._sockets, self._rates)
            sockets.append(WebSocketRoute(_LIVE, guard.protect_socket(live.talk)))
        return [*routes, *sockets]

    @property
    def _socket_paths(self) -> list[str]:
        return [_SOCKET] if self._live is None else [_SOCKET, _LIVE]

    def health(self) -> list[BaseRoute]:
        """What operators ask, of a server of its own."""
        ops = OpsRoutes(self._inside)
        return [Route("/healthz", ops.healthz), Route("/readyz", ops.readyz)]

    def _endpoints(self, guard: Guard) -> dict[str, dict[str, GuardedEndpoint]]:
        """Every route by path and method, behind the guard."""
        chat, chats, ops = ChatRoutes(self._inside, self._rates), ChatsRoutes(self._inside), OpsRoutes(self._inside)
        protect = guard.protect
        return {
            "/api/chat": {"POST": protect(chat.post)},
            "/api/chat/{chat}/stream": {"GET": protect(chat.resume)},
            "/api/chat/{chat}/stop": {"POST": protect(chat.stop)},
            "/api/chat/{chat}/calls/{call}": {"POST": protect(chat.answer)},
            **{path: {"GET": protect(_no_socket, identity=False)} for path in self._socket_paths},
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

    async def drain(self, seconds: float) -> None:
        """Take no more turns, let running ones end, and close each socket when what it follows has ended."""
        self._sockets.drain()
        await self._inside.drain(seconds)
        await self._sockets.close()

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncGenerator[None]:
        """Warm up at the start, let running answers end at the end."""
        warming = asyncio.create_task(asyncio.to_thread(warm_up), name="adkwire-warm-up")
        self._inside.watch()
        try:
            yield
        finally:
            await warming
            await self._inside.close()


async def _no_socket(request: Request) -> Response:
    hint = "Open it with a WebSocket client; over HTTP it is POST /api/chat."
    raise UpgradeRequired("This is a WebSocket.", hint=hint)


async def no_such_socket(socket: WebSocket) -> None:
    """Where there is no socket."""
    raise NotFound("There is no socket here.", hint=f"They are at {_SOCKET} and {_LIVE}.")
