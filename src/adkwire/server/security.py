"""The door: Host, Origin, identity, sizes, rates. Everything behind it may trust what it gets.

The guard wraps each route of ours as plain ASGI, so it also holds when the router lives inside somebody else's app.
"""

import asyncio
import hmac
import inspect
import ipaddress
import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from adkwire.errors import (
    BadRequest,
    ConfigError,
    Forbidden,
    Misdirected,
    RequestError,
    TooLarge,
    TooMany,
    Unauthorized,
    UnsupportedType,
)
from adkwire.settings import Settings

logger = logging.getLogger("adkwire")

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_ANY_ADDRESS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - to recognise, not to bind
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:@/\s]+))(?::\d{1,5})?")
_USER = "adkwire.user"
_MANY_USERS = 10_000
_REFILLED = 60.0
_BODY_PATIENCE = 60
"""Seconds a body has to arrive, so that slow senders do not pile up."""
_DRAIN_FACTOR = 4
"""An oversized body is read up to this many limits, so that the client gets to see the refusal."""


@dataclass(frozen=True)
class User:
    """Who is talking. Chats belong to the id; another id never sees them."""

    id: str


Authenticate = Callable[[HTTPConnection], User | Awaitable[User]]
"""Names the user of a request or a socket, or raises `Unauthorized` or `Forbidden`."""
Handler = Callable[[Request], Awaitable[Response]]


def local_user(connection: HTTPConnection) -> User:
    """Identity `none`: one user, on this machine only."""
    if connection.client is not None and not is_loopback(connection.client.host):
        raise Unauthorized("This server answers its own machine only.", hint="Set up `--auth token` to open it.")
    return User("local")


def token_user(token: str) -> Authenticate:
    """Identity `token`: whoever has the token is the one user of this server."""
    expected = token.encode()

    def authenticate(connection: HTTPConnection) -> User:
        scheme, _, given = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), expected):
            raise Unauthorized("A valid token is needed.", hint="Send it as `Authorization: Bearer <token>`.")
        return User("owner")

    return authenticate


def authenticator(settings: Settings) -> Authenticate:
    """The built-in identity that the settings name."""
    if settings.auth == "none":
        if not is_loopback(settings.host):
            raise ConfigError(f"--host {settings.host} would let anybody in: add `--auth token`, or stay on 127.0.0.1.")
        return local_user
    if settings.token is None or not settings.token.get_secret_value():
        raise ConfigError("--auth token needs a token: set ADKWIRE_TOKEN.")
    return token_user(settings.token.get_secret_value())


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def user_of(request: Request) -> User:
    """The user the guard has let in."""
    user: User = request.scope[_USER]
    return user


class Guard:
    """Checks every request before its route sees it, and answers refusals in one form."""

    def __init__(self, settings: Settings, authenticate: Authenticate) -> None:
        self._authenticate = authenticate
        self._origins = frozenset(origin.rstrip("/").lower() for origin in settings.allow_origin)
        own = frozenset[str]() if settings.host in _ANY_ADDRESS else frozenset({settings.host.lower()})
        self._hosts = _LOOPBACK_NAMES | own | frozenset(host.lower() for host in settings.allow_host)

    def protect(self, handler: Handler, *, identity: bool = True) -> "GuardedEndpoint":
        """An endpoint behind the door; without `identity` for what anybody may see."""
        return GuardedEndpoint(self, handler, identity)

    def check_host(self, headers: Headers) -> None:
        """Refuse a Host that is not ours: a page of another site that points its name at us."""
        found = _HOST.fullmatch(headers.get("host", ""))
        name = (found[1] or found[2]).lower() if found else ""
        if not name or (name not in self._hosts and "*" not in self._hosts):
            raise Misdirected(
                f"This server does not answer to the name {name or '(none)'}.",
                hint="Start it with --allow-host and that name if it should.",
            )

    def check_origin(self, headers: Headers) -> None:
        """Refuse pages of other sites; programs that are no browsers send no Origin."""
        origin = headers.get("origin")
        if origin is None or self._is_allowed(origin):
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
        """The headers that let an allowed page of another site read the answer."""
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
        """Who is talking."""
        user = self._authenticate(connection)
        return await user if inspect.isawaitable(user) else user


class GuardedEndpoint:
    """A handler as an ASGI endpoint that checks first. An object, so that routers take it as it is."""

    def __init__(self, guard: Guard, handler: Handler, identity: bool) -> None:
        self._guard = guard
        self._handler = handler
        self._identity = identity
        self.__name__ = handler.__name__

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, handle, answer."""
        request = Request(scope, receive)
        replies = _Replies(send, self._guard.cors(request.headers))
        try:
            self._guard.check_host(request.headers)
            self._guard.check_origin(request.headers)
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


class _Replies:
    """The way out: adds headers to the response, and refuses in our own form if nothing was sent yet."""

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
    """A refusal as JSON; None is our own fault and says no more than that."""
    if error is None:
        body, status = {"code": "internal", "message": "The server failed. Its log says why."}, 500
    else:
        body, status = {"code": error.code, "message": error.message}, error.status
        if error.hint:
            body["hint"] = error.hint
    headers = {"cache-control": "no-store"}
    if isinstance(error, TooMany):
        headers["retry-after"] = str(max(1, round(error.retry_after)))
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = "Bearer"
    return Response(msgspec.json.encode({"error": body}), status, headers, "application/json")


async def read_json_body(request: Request, limit: int) -> bytes:
    """The body of a JSON request; a page of another site cannot send this content type without a preflight."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise UnsupportedType(f"The body must be application/json, not {kind or 'untyped'}.")
    return await read_body(request, limit)


async def read_body(request: Request, limit: int) -> bytes:
    """The body, up to the limit."""
    body = bytearray()
    total = 0
    try:
        async with asyncio.timeout(_BODY_PATIENCE):
            async for chunk in request.stream():
                total += len(chunk)
                if total <= limit:
                    body += chunk
                elif total > _DRAIN_FACTOR * limit:
                    break
    except TimeoutError:
        raise BadRequest(f"The body did not arrive within {_BODY_PATIENCE} s.") from None
    if total > limit:
        raise TooLarge(f"The body may have at most {limit} bytes.")
    return bytes(body)


class Rates:
    """A bucket of tokens for each user: full at first, refilled evenly."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, user: str) -> None:
        """Use one token, or say when there will be one."""
        if not self._per_minute:
            return
        now = self._clock()
        left, at = self._buckets.get(user, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - at) * self._per_minute / 60)
        if left < 1:
            wait = (1 - left) * 60 / self._per_minute
            raise TooMany(f"Too many messages; try again in {max(1, round(wait))} s.", retry_after=wait)
        self._buckets[user] = (left - 1, now)
        if len(self._buckets) > _MANY_USERS:
            self._forget_full(now)

    def _forget_full(self, now: float) -> None:
        full = [user for user, (_, at) in self._buckets.items() if now - at > _REFILLED]
        for user in full:
            del self._buckets[user]
