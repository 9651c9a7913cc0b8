"""Guard: checks Host, Origin and identity before a route gets a request, and limits the sizes of bodies.

It wraps each route as plain ASGI, so it also protects the routes when they are part of another app.
"""

import asyncio
import contextlib
import hmac
import inspect
import ipaddress
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlencode

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from adkwire.errors import (
    BadRequest,
    ConfigError,
    Forbidden,
    Misdirected,
    RequestError,
    TooLarge,
    TooMany,
    Unauthorized,
    Unprocessable,
    UnsupportedType,
    UpgradeRequired,
)
from adkwire.settings import Settings

if TYPE_CHECKING:
    from adkwire.server.local_proxies import LocalProxies

logger = logging.getLogger("adkwire")

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_ANY_ADDRESS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - to recognise, not to bind
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:@/\s]+))(?::\d{1,5})?")
_USER = "adkwire.user"
_BODY_TIMEOUT = 60
"""Seconds in which a body has to arrive, so that slow senders do not use up connections."""
_TOKEN_PROTOCOL = "adkwire.token."  # noqa: S105 - a prefix
"""The prefix of a token among the subprotocols of a socket: a browser can set no headers there."""
_PUBLIC_QUERY = frozenset({"client", "chat"})
"""The query parameters of a socket that may be logged."""
_REFUSED = 1008
_FAILED = 1011
_DRAIN_FACTOR = 4
"""An oversized body is read up to this many limits, so that the client reads the refusal."""


@dataclass(frozen=True)
class User:
    """The user of a request. Chats belong to the id; no other id has access to them."""

    id: str


class Authenticate(Protocol):
    """A function, plain or async, that names the user of a request or a socket.

    It raises `Unauthorized` or `Forbidden` for a request that names no user who may talk.
    """

    def __call__(self, connection: HTTPConnection, /) -> User | Awaitable[User]:
        """Return the user of a request or a socket."""
        ...


Handler = Callable[[Request], Awaitable[Response]]
SocketHandler = Callable[[WebSocket], Awaitable[None]]


def local_user(connection: HTTPConnection) -> User:
    """Return the one user of `--auth none`, for clients on this machine only."""
    if connection.client is not None and not is_loopback(connection.client.host):
        raise Unauthorized("This server answers its own machine only.", hint="Set up `--auth token` to open it.")
    return User("local")


def token_user(token: str) -> Authenticate:
    """Return the identity of `--auth token`: every client with the token is the one user of this server."""
    expected = token.encode()

    def authenticate(connection: HTTPConnection) -> User:
        if not any(hmac.compare_digest(sent, expected) for sent in _tokens(connection)):
            raise Unauthorized("A valid token is needed.", hint="Send it as `Authorization: Bearer <token>`.")
        return User("owner")

    return authenticate


def _tokens(connection: HTTPConnection) -> list[bytes]:
    """Return the tokens in a request: in its header, or where a browser can put one when it opens a socket."""
    scheme, _, credentials = connection.headers.get("authorization", "").partition(" ")
    tokens = [credentials.strip()] if scheme.lower() == "bearer" else []
    if connection.scope["type"] == "websocket":
        offered: list[str] = connection.scope.get("subprotocols") or []
        tokens += connection.query_params.getlist("token")
        tokens += [name.removeprefix(_TOKEN_PROTOCOL) for name in offered if name.startswith(_TOKEN_PROTOCOL)]
    return [token.encode(errors="surrogatepass") for token in tokens]


def authenticator(settings: Settings) -> Authenticate:
    """Return the built-in identity that the settings name."""
    if settings.auth == "none":
        if not is_loopback(settings.host):
            raise ConfigError(f"--host {settings.host} would let anybody in: add `--auth token`, or stay on 127.0.0.1.")
        return local_user
    if settings.token is None or not settings.token.get_secret_value():
        raise ConfigError("--auth token needs a token: set ADKWIRE_TOKEN.")
    return token_user(_sendable(settings.token.get_secret_value()))


def _sendable(token: str) -> str:
    """Return a token that every client can put into a header."""
    if not (token.isascii() and token.isprintable() and token == token.strip()):
        raise ConfigError(
            "ADKWIRE_TOKEN does not fit into a header: take letters, digits and signs of ASCII, "
            "with no blank at either end."
        )
    return token


def is_loopback(host: str) -> bool:
    """Return whether an address or name is this machine itself."""
    try:
        address = ipaddress.ip_address(host)
        # A Node.js server that listens on both kinds of addresses forwards IPv4 clients in this form.
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return (mapped or address).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def user_of(connection: HTTPConnection) -> User:
    """Return the user that the guard has identified."""
    user: User = connection.scope[_USER]
    return user


def chosen_subprotocol(connection: HTTPConnection, known: str) -> str | None:
    """Return the subprotocol to agree on. A browser that offers some needs one of them: else the one with its token."""
    offered: list[str] = connection.scope.get("subprotocols") or []
    if known in offered:
        return known
    return next((name for name in offered if name.startswith(_TOKEN_PROTOCOL)), None)


class Guard:
    """Checks every request before its route gets it, and refuses in one form."""

    def __init__(self, settings: Settings, authenticate: Authenticate, proxies: "LocalProxies") -> None:
        self._authenticate = authenticate
        self._proxies = proxies
        self._origins = frozenset(origin.rstrip("/").lower() for origin in settings.allow_origin)
        own = frozenset[str]() if settings.host in _ANY_ADDRESS else frozenset({settings.host.lower()})
        self._hosts = _LOOPBACK_NAMES | own | frozenset(host.lower() for host in settings.allow_host)

    def protect(self, handler: Handler, *, identity: bool = True) -> "GuardedEndpoint":
        """Return a guarded endpoint; without `identity` any client may use it."""
        return GuardedEndpoint(self, handler, identity)

    def protect_socket(self, handler: SocketHandler) -> "GuardedSocket":
        """Return a guarded socket: the handler gets it with its user, not yet accepted."""
        return GuardedSocket(self, handler)

    def check_host(self, headers: Headers) -> None:
        """Refuse a Host that is not ours: another site may point its name at this server."""
        if len(headers.getlist("host")) > 1:
            # A proxy may have checked the other one.
            raise BadRequest("A request has one Host header.")
        found = _HOST.fullmatch(headers.get("host", ""))
        name = (found[1] or found[2]).lower() if found else ""
        if not name or (name not in self._hosts and "*" not in self._hosts):
            raise Misdirected(
                f"This server does not answer to the name {name or '(none)'}.",
                hint="Start it with --allow-host and that name if it should.",
            )

    def check_origin(self, connection: HTTPConnection) -> None:
        """Refuse pages of other sites. Programs that are no browsers send no Origin."""
        headers = connection.headers
        origin = headers.get("origin")
        # Asked first, since it remembers who forwards.
        if self._proxies.has_forwarded(connection) or origin is None or self._is_allowed(origin):
            return
        host = headers.get("host", "").lower()
        if origin.lower() not in (f"http://{host}", f"https://{host}"):
            hint = f"Allow it with --allow-origin {origin}" if origin.startswith(("http://", "https://")) else None
            raise Forbidden(f"Pages of {origin} may not call this server.", hint=hint)

    async def preflight(self, request: Request) -> Response:
        """Answer a CORS preflight; the guard has checked the origin."""
        asked = request.headers.get("access-control-request-headers", "content-type, authorization")
        headers = {
            "access-control-allow-methods": "GET, POST, PATCH, DELETE",
            "access-control-allow-headers": asked,
            "access-control-max-age": "600",
        }
        return Response(status_code=204, headers=headers)

    def _is_allowed(self, origin: str) -> bool:
        return origin.lower() in self._origins

    def cors(self, headers: Headers) -> dict[str, str]:
        """Return the headers that let an allowed page of another site read the response."""
        origin = headers.get("origin")
        if origin is None or not self._is_allowed(origin):
            return {}
        return {
            "access-control-allow-origin": origin,
            "access-control-allow-credentials": "true",
            "access-control-expose-headers": "x-adkwire-run, x-vercel-ai-ui-message-stream, retry-after",
            "vary": "Origin",
        }

    async def identify(self, connection: HTTPConnection) -> User:
        """Return the user of a request."""
        user = self._authenticate(connection)
        return await user if inspect.isawaitable(user) else user


class GuardedEndpoint:
    """A handler as an ASGI endpoint that checks first. An object, so that routers do not wrap it."""

    def __init__(self, guard: Guard, handler: Handler, identity: bool) -> None:
        self._guard = guard
        self._handler = handler
        self._identity = identity
        self.__name__ = handler.__name__

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request, handle it, send the response."""
        request = Request(scope, receive)
        replies = _Replies(send, self._guard.cors(request.headers))
        try:
            self._guard.check_host(request.headers)
            self._guard.check_origin(request)
            if self._identity:
                scope[_USER] = await self._guard.identify(request)
            response = await self._handler(request)
            await response(scope, receive, replies.send)
        except ClientDisconnect:
            logger.debug("%s: the client went away", scope["path"])
        except RequestError as error:
            await replies.refuse(error, scope, receive)
        except Exception:
            logger.exception("%s failed", scope["path"])
            await replies.refuse(None, scope, receive)


class GuardedSocket:
    """A handler of sockets as an ASGI endpoint that checks before the socket is accepted."""

    def __init__(self, guard: Guard, handler: SocketHandler) -> None:
        self._guard = guard
        self._handler = handler
        self.__name__ = handler.__name__

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the socket, then let the handler serve it."""
        socket = WebSocket(scope, receive, send)
        try:
            await self._check(socket)
            await self._handler(socket)
        except (OSError, WebSocketDisconnect):
            logger.debug("%s: the client went away", scope["path"])
        except RequestError as error:
            await _refuse_socket(socket, error)
        except Exception:
            logger.exception("%s failed", scope["path"])
            await _refuse_socket(socket, None)

    async def _check(self, socket: WebSocket) -> None:
        try:
            self._guard.check_host(socket.headers)
            self._guard.check_origin(socket)
            socket.scope[_USER] = await self._guard.identify(socket)
        except OSError as error:
            # A timeout among them. No client has gone away: `authenticate` has failed, which must be logged.
            raise RuntimeError("The user of a socket could not be identified.") from error
        finally:
            # Servers log the address of a socket when it is accepted or refused, and it may contain a secret.
            public = [(name, value) for name, value in socket.query_params.multi_items() if name in _PUBLIC_QUERY]
            socket.scope["query_string"] = urlencode(public).encode()


async def _refuse_socket(socket: WebSocket, error: RequestError | None) -> None:
    """Refuse a socket with an HTTP response, where the ASGI server can; close an open one."""
    with contextlib.suppress(OSError, WebSocketDisconnect):
        if socket.application_state is WebSocketState.CONNECTED:
            await socket.close(_FAILED, "the server failed")
        elif socket.application_state is WebSocketState.CONNECTING:
            await socket.receive()
            if "websocket.http.response" in (socket.scope.get("extensions") or {}):
                await socket.send_denial_response(error_response(error))
            else:
                await socket.close(_REFUSED, error.code if error is not None else "internal")


class _Replies:
    """Sends a response with more headers, and an error if nothing of the response was sent yet."""

    def __init__(self, send: Send, headers: dict[str, str]) -> None:
        self._send = send
        self._headers = {"x-content-type-options": "nosniff", **headers}
        self._started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            headers = MutableHeaders(scope=message)
            for name, value in self._headers.items():
                headers[name] = value
        await self._send(message)

    async def refuse(self, error: RequestError | None, scope: Scope, receive: Receive) -> None:
        if not self._started:
            await error_response(error)(scope, receive, self.send)


def error_response(error: RequestError | None) -> Response:
    """Return an error as JSON; None is a failure of the server, whose details only the log has."""
    if error is None:
        body: dict[str, object] = {"code": "internal", "message": "The server failed. Its log says why."}
        status = 500
    else:
        body = {"code": error.code, "message": error.message}
        status = error.status
        if error.hint:
            body["hint"] = error.hint
        if isinstance(error, Unprocessable) and error.fields:
            body["fields"] = [field._asdict() for field in error.fields]
    headers = {"cache-control": "no-store"}
    if isinstance(error, TooMany):
        headers["retry-after"] = str(max(1, round(error.retry_after)))
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, UpgradeRequired):
        headers["upgrade"] = "websocket"
    return Response(msgspec.json.encode({"error": body}), status, headers, "application/json")


async def read_json_body(request: Request, limit: int) -> bytes:
    """Return the body of a JSON request. A page of another site cannot send this type without a preflight."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise UnsupportedType(f"The body must be application/json, not {kind or 'untyped'}.")
    return await read_body(request, limit)


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body of a request; raise when it is larger than the limit."""
    body = bytearray()
    total = 0
    try:
        async with asyncio.timeout(_BODY_TIMEOUT):
            async for chunk in request.stream():
                total += len(chunk)
                if total <= limit:
                    body += chunk
                elif total > _DRAIN_FACTOR * limit:
                    break
    except TimeoutError:
        raise BadRequest(f"The body did not arrive within {_BODY_TIMEOUT} s.") from None
    if total > limit:
        raise TooLarge(f"The body may have at most {limit} bytes.")
    return bytes(body)
