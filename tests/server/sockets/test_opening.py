"""Opening a socket: Host, Origin, tokens, other apps, and what is logged."""

import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from adkwire import Bridge, create_app
from adkwire.server.sockets.uvicorn_protocol import UvicornProtocol
from adkwire.testing import Say, ScriptedModel
from tests.server.app_server import Site, assert_error, opened, serving
from tests.server.conftest import Open
from tests.server.sockets.socket_client import OURS, open_socket, raw_handshake, send_frame, text_in
from tests.server.test_security import by_header, by_header_later
from tests.support.chats import scripted, settings

TOKEN = "canary-token-7b1f"


@pytest.fixture(scope="module")
async def token_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """One server that asks for a token."""
    folder = tmp_path_factory.mktemp("token")
    async with opened(folder, db="memory:", auth="token", token=TOKEN, sockets_per_user=50) as site:
        yield site


async def knocked(site: Site, *headers: tuple[str, str], path: str = "/api/chat/ws") -> Any:
    reply, wire = await raw_handshake(site.port, headers, path=path)
    wire.drop()
    return reply


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 101),
        ("localhost", 101),
        ("[::1]:{port}", 101),
        ("evil.com", 421),
        ("evil.com:{port}", 421),
        ("127.0.0.1.evil.com", 421),
        ("127.0.0.1@evil.com", 421),
        ("localhost.", 421),
        ("0.0.0.0:{port}", 421),
        (":{port}", 421),
        ("*", 421),
    ],
)
async def test_hosts(unchanged: Site, host: str, status: int) -> None:
    reply = await knocked(unchanged, ("host", host.format(port=unchanged.port)))
    if status == 101:
        assert reply.status == 101
    else:
        assert_error(reply, status, "misdirected")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:{port}", 101),
        ("https://127.0.0.1:{port}", 101),
        ("HTTP://127.0.0.1:{port}", 101),
        ("http://127.0.0.1:9", 403),
        ("http://127.0.0.1", 403),
        ("http://localhost:{port}", 403),
        ("ws://127.0.0.1:{port}", 403),
        ("http://evil.com", 403),
        ("http://127.0.0.1:{port}.evil.com", 403),
        ("http://evil.com/127.0.0.1:{port}", 403),
        ("http://127.0.0.1:{port}@evil.com", 403),
        ("null", 403),
        ("", 403),
        ("127.0.0.1:{port}", 403),
        ("file://", 403),
        ("chrome-extension://abcdef", 403),
    ],
)
async def test_origins(unchanged: Site, origin: str, status: int) -> None:
    host = ("host", f"127.0.0.1:{unchanged.port}")
    reply = await knocked(unchanged, host, ("origin", origin.format(port=unchanged.port)))
    if status == 101:
        assert reply.status == 101
    else:
        assert_error(reply, status, "forbidden")


async def test_a_page_that_is_allowed(open_site: Open) -> None:
    site = await open_site(allow_origin="https://app.example.com")
    async with open_socket(site, origin="https://app.example.com") as one:
        assert text_in(await one.ask(send_frame())) == "ok"
    host = ("host", "localhost")
    for origin in ("https://app.example.com.evil.com", "http://app.example.com", "https://app.example.com:8443"):
        assert_error(await knocked(site, host, ("origin", origin)), 403)


@pytest.mark.parametrize("path", ["/api/chat/wss", "/api/chat", "/", "/nothing"])
async def test_a_path_without_a_socket(unchanged: Site, site_with_page: Site, path: str) -> None:
    for site in (unchanged, site_with_page):
        error = assert_error(await knocked(site, ("host", "localhost"), path=path), 404, "not-found")
        assert "/api/chat/ws" in error["hint"]
        assert_error(await knocked(site, ("host", "evil.com"), path=path), 421)


async def test_a_request_that_asks_for_no_socket(unchanged: Site) -> None:
    reply = await unchanged.client.get("/api/chat/ws")
    assert "WebSocket client" in assert_error(reply, 426, "upgrade-required")["hint"]
    assert reply.headers["upgrade"] == "websocket"


async def test_two_hosts(unchanged: Site) -> None:
    assert_error(await knocked(unchanged, ("host", "localhost"), ("host", "evil.com")), 400, "malformed")


@pytest.mark.parametrize(
    ("query", "protocols", "header", "status"),
    [
        ("", (), "", 401),
        ("?token=wrong", (), "", 401),
        (f"?token={TOKEN}x", (), "", 401),
        (f"?Token={TOKEN}", (), "", 401),
        ("?token=", ("adkwire.token.",), "Bearer ", 401),
        ("", ("adkwire.token.wrong",), "", 401),
        ("", (TOKEN,), "", 401),
        ("", (*OURS, "adkwire.token.wrong"), "", 401),
        ("", (), f"Basic {TOKEN}", 401),
        ("", (), f"Bearer {TOKEN}x", 401),
        (f"?token={TOKEN}", (), "", 101),
        (f"?client=ai/7.0.169&token={TOKEN}", (), "", 101),
        ("", (f"adkwire.token.{TOKEN}",), "", 101),
        ("", (*OURS, f"adkwire.token.{TOKEN}"), "", 101),
        ("", (f"adkwire.token.{TOKEN}", *OURS), "", 101),
        ("", (), f"Bearer {TOKEN}", 101),
    ],
)
async def test_tokens(
    token_site: Site,
    query: str,
    protocols: tuple[str, ...],
    header: str,
    status: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    headers = [("host", "localhost")]
    headers += [("authorization", header)] if header else []
    headers += [("sec-websocket-protocol", ", ".join(protocols))] if protocols else []
    reply = await knocked(token_site, *headers, path=f"/api/chat/ws{query}")
    assert reply.status == status
    if status == 401:
        assert_error(reply, 401, "unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"
    else:
        # A browser that offers subprotocols gives up when none of them is chosen.
        expected = OURS[0] if OURS[0] in protocols else (protocols or (None,))[0]
        assert reply.headers.get("sec-websocket-protocol") == expected
    logged = [record.getMessage() for record in caplog.records]
    assert any("/api/chat/ws" in text for text in logged)
    assert not any("canary" in text for text in logged)


async def test_a_token_of_odd_bytes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    agent = scripted(ScriptedModel(turns=[[Say("ok")]]))
    app = create_app(agent, settings=settings(tmp_path, auth="token", token=TOKEN))
    async with serving(app, ws=UvicornProtocol) as site:
        for odd in ("adkwire.token.\u00e4", "adkwire.token.\U0001f511", "adkwire.token.a b", ",,", "adkwire.token.a@b"):
            reply = await knocked(site, ("host", "localhost"), ("sec-websocket-protocol", odd))
            assert reply.status in (400, 401)
        assert (await knocked(site, ("host", "localhost"), path="/api/chat/ws?token=%ff%00")).status == 401
        reply = await knocked(site, ("host", "localhost"), ("authorization", "Bearer \u00e4"))
        assert reply.status == 401
    await app.state.bridge.close()
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_token_in_the_address_is_for_sockets_only(token_site: Site) -> None:
    assert_error(await token_site.client.get(f"/api/chats?token={TOKEN}"), 401)


@pytest.mark.parametrize("authenticate", [by_header, by_header_later], ids=["sync", "async"])
async def test_an_identity_of_the_owners_own(open_site: Open, authenticate: Any) -> None:
    site = await open_site(authenticate=authenticate)
    assert_error(await knocked(site, ("host", "localhost")), 401)
    assert_error(await knocked(site, ("host", "localhost"), ("x-user", "mallory")), 403)
    async with open_socket(site, headers={"x-user": "ann"}) as ann:
        assert text_in(await ann.ask(send_frame())) == "ok"
    lists = {
        name: (await site.client.get("/api/chats", headers={"x-user": name})).json()["chats"] for name in ("ann", "bob")
    }
    assert [chat["id"] for chat in lists["ann"]] == ["chat"]
    assert lists["bob"] == []


@pytest.mark.parametrize("failure", [KeyError("canary-secret"), TimeoutError("canary-secret")], ids=["bug", "timeout"])
async def test_an_identity_that_fails(open_site: Open, failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
    def broken(connection: Any) -> Any:
        raise failure

    site = await open_site(authenticate=broken)
    error = assert_error(await knocked(site, ("host", "localhost")), 500, "internal")
    assert "canary" not in str(error)
    assert [record.name for record in caplog.records if record.exc_info] == ["adkwire"]


def in_fastapi(bridge: Bridge) -> Any:
    app = FastAPI()
    app.include_router(bridge.router())
    return app


def in_starlette(bridge: Bridge) -> Any:
    return Starlette(routes=bridge.routes())


@pytest.mark.parametrize("home", [create_app, in_fastapi, in_starlette])
async def test_in_every_home(tmp_path: Path, home: Callable[[Bridge], Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    given = settings(tmp_path, auth="token", token=TOKEN, ui=False)
    bridge = Bridge(scripted(ScriptedModel(script=lambda _: [Say("ok")])), settings=given)
    async with serving(home(bridge)) as site:
        async with open_socket(site, query=f"?token={TOKEN}", subprotocols=OURS) as one:
            frames = await one.ask(send_frame())
            assert text_in(frames) == "ok"
            assert "id" in frames[1]
        assert_error(await knocked(site, ("host", "localhost")), 401)
        assert_error(await knocked(site, ("host", "evil.com"), path=f"/api/chat/ws?token={TOKEN}"), 421)
        refused = await knocked(site, ("host", "localhost"), ("origin", "http://evil.com"))
        assert_error(refused, 403)
        await bridge.close()
    assert "canary" not in caplog.text


async def test_under_a_prefix(tmp_path: Path) -> None:
    bridge = Bridge(scripted(ScriptedModel(script=lambda _: [Say("ok")])), settings=settings(tmp_path))
    app = FastAPI()
    app.include_router(bridge.router(), prefix="/bot")
    async with serving(app) as site, open_socket(site, path="/bot/api/chat/ws") as one:
        assert text_in(await one.ask(send_frame())) == "ok"
        await bridge.close()


def test_a_server_that_can_refuse_in_http_and_one_that_cannot(tmp_path: Path) -> None:
    """In process, as other people's tests do it."""
    agent, host = scripted(ScriptedModel(turns=[[Say("ok")]])), {"host": "localhost"}
    given = settings(tmp_path, auth="token", token="t")
    with TestClient(create_app(agent, settings=given)) as client:
        with pytest.raises(WebSocketDenialResponse) as denied, client.websocket_connect("/api/chat/ws", headers=host):
            pass
        assert denied.value.status_code == 401
        assert denied.value.json()["error"]["code"] == "unauthorized"
    with TestClient(_without_extension(create_app(agent, settings=given))) as client:
        with pytest.raises(WebSocketDisconnect) as closed, client.websocket_connect("/api/chat/ws", headers=host):
            pass
        assert (closed.value.code, closed.value.reason) == (1008, "unauthorized")


def _without_extension(app: Any) -> Any:
    async def plain(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "extensions": None}, receive, send)

    return plain
