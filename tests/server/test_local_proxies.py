"""A development server on the same machine forwards to ours: what is accepted, and what a page cannot make it seem."""

from collections.abc import Sequence
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from adkwire.server import local_proxies
from adkwire.server.local_proxies import LocalProxies
from adkwire.server.security import is_loopback
from tests.server.app_server import Site, assert_error
from tests.server.conftest import Open
from tests.server.sockets.socket_client import raw_handshake
from tests.server.test_security import by_header

VITE = "http://localhost:5173"
SAME = ("sec-fetch-site", "same-origin")
Header = tuple[str, str]


async def answered(site: Site, *headers: Header, host: str = "127.0.0.1:{port}") -> Any:
    return await site.raw("GET", "/api/chats", [("host", host.format(port=site.port)), *headers])


async def knocked(site: Site, *headers: Header, host: str = "127.0.0.1:{port}") -> Any:
    reply, wire = await raw_handshake(site.port, [("host", host.format(port=site.port)), *headers])
    wire.drop()
    return reply


@pytest.mark.parametrize(
    "origin", [VITE, "https://localhost:5173", "http://127.0.0.1:3000", "http://[::1]", "HTTP://LOCALHOST"]
)
@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}"])
async def test_what_a_page_sent_to_its_own_server(unchanged: Site, origin: str, host: str) -> None:
    reply = await answered(unchanged, ("origin", origin), SAME, host=host)
    assert reply.status == 200
    assert not [name for name in reply.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("site", ["same-site", "cross-site", "none", "", "Same-Origin", "same-origin, same-origin"])
async def test_what_a_page_sent_to_us(unchanged: Site, site: str) -> None:
    assert_error(await answered(unchanged, ("origin", VITE), ("sec-fetch-site", site)), 403, "forbidden")


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.com",
        "http://localhost.evil.com:5173",
        "http://evil.com@localhost:5173",
        "http://localhost:5173@evil.com",
        "http://localhost:5173/",
        "http://127.0.0.2:5173",
        "http://192.168.0.2:5173",
        "ws://localhost:5173",
        "null",
        "",
    ],
)
async def test_a_page_of_another_machine(unchanged: Site, origin: str) -> None:
    """A reverse proxy in front may rewrite Host, too, and its visitors are everywhere."""
    assert_error(await answered(unchanged, ("origin", origin), SAME), 403, "forbidden")
    forwarded = ("x-forwarded-host", origin.partition("://")[2])
    assert_error(await knocked(unchanged, ("origin", origin), forwarded), 403, "forbidden")


async def test_a_name_that_is_not_of_this_machine(open_site: Open) -> None:
    site = await open_site(allow_host="chat.example.com")
    reply = await answered(site, ("origin", VITE), SAME, host="chat.example.com")
    assert_error(reply, 403, "forbidden")


async def test_a_socket_whose_proxy_says_for_whom_it_forwards(open_site: Open) -> None:
    site = await open_site()
    origin = ("origin", "http://localhost:3000")
    assert (await knocked(site, origin, ("x-forwarded-host", "localhost:3000"))).status == 101
    for other in ("localhost:3001", "localhost", "", f"127.0.0.1:{site.port}"):
        assert_error(await knocked(site, origin, ("x-forwarded-host", other)), 403, "forbidden")
    # For a request a page may set this header, after a preflight.
    assert_error(await answered(site, origin, ("x-forwarded-host", "localhost:3000")), 403, "forbidden")


@pytest.mark.parametrize(
    ("origin", "port"),
    [
        ("http://localhost:3000", "3000"),
        ("http://[::1]:3000", "3000"),
        ("http://localhost", "80"),
        ("https://[::1]", "443"),
    ],
)
async def test_a_socket_whose_proxy_says_at_which_port_it_was_opened(open_site: Open, origin: str, port: str) -> None:
    """This is all that http-proxy, which Vite and Next.js use, says of a socket."""
    site = await open_site()
    forwarded = [("x-forwarded-for", "::ffff:127.0.0.1"), ("x-forwarded-proto", "ws")]
    assert (await knocked(site, ("origin", origin), *forwarded, ("x-forwarded-port", port))).status == 101
    for other in ("3001", "1", "", str(site.port)):
        reply = await knocked(site, ("origin", origin), *forwarded, ("x-forwarded-port", other))
        assert_error(reply, 403, "forbidden")
    assert_error(await knocked(site, ("origin", origin), *forwarded), 403, "forbidden")


@pytest.mark.parametrize(
    "by", [("origin", VITE), ("referer", f"{VITE}/chat?x=http://localhost:9"), ("referer", f"{VITE}/")]
)
async def test_a_socket_of_an_origin_that_is_known_to_forward(open_site: Open, by: Header) -> None:
    site, origin = await open_site(), ("origin", VITE)
    assert_error(await knocked(site, origin), 403, "forbidden")
    assert (await answered(site, by, SAME)).status == 200
    assert (await knocked(site, origin)).status == 101
    for other in ("http://localhost:5174", "https://localhost:5173", "http://127.0.0.1:5173", "http://localhost"):
        assert_error(await knocked(site, ("origin", other)), 403, "forbidden")
    for direct in ("same-site", "cross-site"):
        assert_error(await knocked(site, origin, ("sec-fetch-site", direct)), 403, "forbidden")
    assert_error(await answered(site, origin), 403, "forbidden")


@pytest.mark.parametrize(
    "headers",
    [
        [("origin", VITE), ("sec-fetch-site", "same-site")],
        [("referer", f"{VITE}/"), ("sec-fetch-site", "cross-site")],
        [("referer", f"{VITE}/")],
        [("referer", f"{VITE}.evil.com/"), SAME],
        [("referer", VITE), SAME],
    ],
)
async def test_a_page_that_calls_us_directly_does_not_become_known(open_site: Open, headers: Sequence[Header]) -> None:
    site = await open_site()
    await answered(site, *headers)
    assert_error(await knocked(site, ("origin", VITE)), 403, "forbidden")


async def test_a_user_vouches_for_no_origin_in_the_browsers_of_others(open_site: Open) -> None:
    site = await open_site(authenticate=by_header)
    ann, origin = ("x-user", "ann"), ("origin", VITE)
    assert (await answered(site, origin, SAME, ann)).status == 200
    assert_error(await knocked(site, origin, ann), 403, "forbidden")
    assert (await knocked(site, origin, ann, ("x-forwarded-host", "localhost:5173"))).status == 101


def connection(kind: str, client: str | None = "127.0.0.1", **headers: str) -> HTTPConnection:
    given = {"host": "localhost:8000", **{name.replace("_", "-"): value for name, value in headers.items()}}
    raw = [(name.encode(), value.encode()) for name, value in given.items()]
    return HTTPConnection({"type": kind, "headers": raw, "client": None if client is None else (client, 1)})


@pytest.mark.parametrize("client", ["192.168.0.2", "::ffff:192.168.0.2", None])
def test_a_client_of_another_machine(client: str | None) -> None:
    proxies = LocalProxies(remember=True)
    assert not proxies.has_forwarded(connection("http", client, origin=VITE, sec_fetch_site="same-origin"))
    assert not proxies.has_forwarded(connection("websocket", client, origin=VITE, x_forwarded_host="localhost:5173"))


def test_an_origin_is_forgotten() -> None:
    now = 0.0
    proxies = LocalProxies(remember=True, clock=lambda: now)
    assert proxies.has_forwarded(connection("http", origin=VITE, sec_fetch_site="same-origin"))
    now = 3600.0
    assert proxies.has_forwarded(connection("websocket", origin=VITE))
    now = 3601.0
    assert not proxies.has_forwarded(connection("websocket", origin=VITE))


def test_only_so_many_origins_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_proxies, "_MAX_ORIGINS", 2)
    proxies = LocalProxies(remember=True)
    for port in (1, 2, 1, 3):
        proxies.has_forwarded(connection("http", origin=f"http://localhost:{port}", sec_fetch_site="same-origin"))
    known = [
        port for port in (1, 2, 3) if proxies.has_forwarded(connection("websocket", origin=f"http://localhost:{port}"))
    ]
    assert known == [1, 3]


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("::ffff:127.0.0.1", True), ("::ffff:10.0.0.1", False), ("::", False)],
)
def test_addresses_of_this_machine(host: str, local: bool) -> None:
    assert is_loopback(host) is local
