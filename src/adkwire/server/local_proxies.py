"""LocalProxies: recognises requests that a development server on this machine (Vite, Next.js) has forwarded.

Such a proxy often rewrites Host to this server's name and keeps the browser's Origin, so that the two differ as they do
for a page of another site. What tells them apart cannot be forged by a page:

- Browsers send `Sec-Fetch-Site`: `same-origin` only if the page sent the request to its own server. A page that calls
  this server directly from another port is `same-site` or `cross-site`.
- Chromium sends no `Sec-Fetch-Site` when it opens a socket. A socket is taken for forwarded if its proxy says by
  `X-Forwarded-Host` or `X-Forwarded-Port` that the page connected to its own server, since a page can add no header to
  a socket; or if the same origin has sent a `same-origin` request within the last hour: then its own server forwards to
  this one.

Programs on this machine can send what they like, but they need no trick: without an Origin they are no browser.
"""

import re
import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from adkwire.server.security import is_loopback

_NAME = r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?"
_HOST = re.compile(_NAME, re.IGNORECASE | re.ASCII)
_ORIGIN = re.compile(rf"https?://{_NAME}", re.IGNORECASE | re.ASCII)
_REFERER = re.compile(rf"({_ORIGIN.pattern})/", re.IGNORECASE | re.ASCII)
_PORT = re.compile(r":\d+$", re.ASCII)
_REMEMBERED = 3600.0
"""Seconds after its last request in which sockets of an origin are taken for forwarded."""
_MAX_ORIGINS = 64
"""Origins that are remembered."""


class LocalProxies:
    """The origins on this machine whose own servers forward requests to this one."""

    def __init__(self, *, remember: bool, clock: Callable[[], float] = time.monotonic) -> None:
        """Without `remember` a socket needs a header of its proxy.

        Where users are told apart by what browsers send by themselves, such as cookies, one user must not be able to
        vouch for an origin in the browsers of others.
        """
        self._remember = remember
        self._clock = clock
        self._last_seen: dict[str, float] = {}

    def has_forwarded(self, connection: HTTPConnection) -> bool:
        """Return whether a page of this machine sent the request to its own server, which forwarded it here."""
        headers = connection.headers
        origin = _local_origin(headers)
        if origin is None or not _is_local(connection):
            return False
        site = headers.get("sec-fetch-site")
        if site == "same-origin":
            self._see(origin)
            return True
        if site is not None or connection.scope["type"] != "websocket":
            return False
        return _is_forwarded_for(origin, headers) or self._was_seen(origin)

    def _see(self, origin: str) -> None:
        self._last_seen.pop(origin, None)
        self._last_seen[origin] = self._clock()
        if len(self._last_seen) > _MAX_ORIGINS:
            del self._last_seen[next(iter(self._last_seen))]

    def _was_seen(self, origin: str) -> bool:
        seen = self._last_seen.get(origin)
        return self._remember and seen is not None and self._clock() - seen <= _REMEMBERED


def _is_forwarded_for(origin: str, headers: Headers) -> bool:
    """Return whether a proxy says that the socket was opened to the host, or at least the port, of this origin."""
    scheme, _, host = origin.partition("://")
    port = host.rpartition(":")[2] if _PORT.search(host) else {"http": "80", "https": "443"}[scheme]
    return headers.get("x-forwarded-host", "").lower() == host or headers.get("x-forwarded-port") == port


def _is_local(connection: HTTPConnection) -> bool:
    """Return whether a request comes from this machine and names it."""
    client = connection.client
    named = _HOST.fullmatch(connection.headers.get("host", "")) is not None
    return named and client is not None and is_loopback(client.host)


def _local_origin(headers: Headers) -> str | None:
    """Return the origin of the page that sent a request, if it is on this machine.

    Browsers send no Origin with a GET to the page's own server, but a Referer.
    """
    origin = headers.get("origin")
    if origin is not None:
        return origin.lower() if _ORIGIN.fullmatch(origin) else None
    found = _REFERER.match(headers.get("referer", ""))
    return found[1].lower() if found else None
