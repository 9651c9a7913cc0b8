"""Host, Origin, identity and rates, and what an unknown client can see."""

import asyncio
import logging
from typing import Any

import httpx
import pytest
from starlette.requests import HTTPConnection

from adkwire import ConfigError, Forbidden, Settings, Unauthorized, User, create_app
from adkwire.errors import TooMany
from adkwire.server.limits import MessageRates
from adkwire.testing import Say, ScriptedModel, Wait
from tests.server.app_server import Site, answer_text, assert_error, body
from tests.server.conftest import Open
from tests.support.chats import scripted, settings, texts_in

TOKEN = "canary-token-7b1f"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:{port}",
        "127.0.0.1",
        "127.0.0.1:9",
        "localhost:{port}",
        "LocalHost:{port}",
        "[::1]:{port}",
        "[::1]",
    ],
)
async def test_names_of_this_machine(unchanged: Site, host: str) -> None:
    reply = await unchanged.raw("GET", "/api/chats", [("host", host.format(port=unchanged.port))])
    assert reply.status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "evil.com:{port}",
        "127.0.0.1.evil.com",
        "localhost.evil.com:{port}",
        "evil.com@127.0.0.1",
        "127.0.0.1@evil.com",
        "127.0.0.2:{port}",
        "0.0.0.0:{port}",
        "127.1",
        "2130706433",
        "localhost.",
        "",
        ":{port}",
        "[::1].evil.com",
        "[::1",
        "[::ffff:127.0.0.1]",
        "::1",
        "localhost:evil.com",
        "local host",
        "*",
    ],
)
async def test_names_of_others(unchanged: Site, host: str) -> None:
    for path in ("/api/chats", "/api/info", "/api/chat/kept/stream"):
        reply = await unchanged.raw("GET", path, [("host", host.format(port=unchanged.port))])
        assert_error(reply, 421, "misdirected")


@pytest.mark.parametrize("hosts", [("localhost", "evil.com"), ("evil.com", "localhost"), ("localhost", "localhost")])
async def test_two_hosts(unchanged: Site, hosts: tuple[str, str]) -> None:
    reply = await unchanged.raw("GET", "/api/chats", [("host", host) for host in hosts])
    assert_error(reply, 400, "malformed")


async def test_no_host_at_all(unchanged: Site) -> None:
    assert (await unchanged.raw("GET", "/api/chats", [])).status in (400, 421)


async def test_the_page_is_behind_the_host_check_too(site_with_page: Site) -> None:
    assert_error(await site_with_page.raw("GET", "/", [("host", "evil.com")]), 421)


async def test_a_name_that_is_allowed(open_site: Open) -> None:
    site = await open_site(allow_host="chat.example.com, Other.example.com")
    for host, status in (("chat.example.com", 200), ("other.example.com:443", 200), ("evil.example.com", 421)):
        assert (await site.raw("GET", "/api/chats", [("host", host)])).status == status


@pytest.mark.parametrize(
    "origin",
    [
        "http://127.0.0.1:9",
        "http://127.0.0.1",
        "http://localhost:{port}",
        "http://evil.com",
        "http://127.0.0.1:{port}.evil.com",
        "http://evil.com/127.0.0.1:{port}",
        "http://evil.com#127.0.0.1:{port}",
        "http://127.0.0.1:{port}@evil.com",
        "http://evil.com@127.0.0.1:{port}",
        "http://evil.com\\@127.0.0.1:{port}",
        "null",
        "",
        "127.0.0.1:{port}",
        "//127.0.0.1:{port}",
        "file://",
        "http://[",
        "http://[::1",
        "chrome-extension://abcdef",
        "http://x,http://127.0.0.1:{port}",
    ],
)
async def test_pages_of_other_sites(unchanged: Site, origin: str) -> None:
    headers = [("host", f"127.0.0.1:{unchanged.port}"), ("origin", origin.format(port=unchanged.port))]
    for method, path in (("GET", "/api/chats"), ("DELETE", "/api/chats/kept"), ("OPTIONS", "/api/chat")):
        reply = await unchanged.raw(method, path, headers)
        assert_error(reply, 403, "forbidden")
        assert not [name for name in reply.headers if name.startswith("access-control-")]


async def test_the_page_of_this_site_and_no_page_at_all(unchanged: Site) -> None:
    host = ("host", f"127.0.0.1:{unchanged.port}")
    own = await unchanged.raw("GET", "/api/chats", [host, ("origin", f"http://127.0.0.1:{unchanged.port}")])
    none = await unchanged.raw("GET", "/api/chats", [host])
    assert own.status == none.status == 200
    assert "access-control-allow-origin" not in own.headers


async def test_an_origin_that_is_allowed(open_site: Open) -> None:
    site = await open_site(allow_origin="https://app.example.com/, http://other.example.com:3000")
    for origin in ("https://app.example.com", "http://other.example.com:3000"):
        reply = await site.client.post("/api/chat", json=body(), headers={"origin": origin})
        assert reply.status_code == 200
        assert reply.headers["access-control-allow-origin"] == origin
        assert "x-adkwire-run" in reply.headers["access-control-expose-headers"]
        assert "Origin" in reply.headers["vary"]
    refused = await site.client.post("/api/chat", content=b"nonsense", headers={"origin": "https://app.example.com"})
    assert_error(refused, 415)
    assert refused.headers["access-control-allow-origin"] == "https://app.example.com"
    for origin in ("https://app.example.com.evil.com", "http://app.example.com", "https://app.example.com:8443"):
        reply = await site.client.get("/api/chats", headers={"origin": origin})
        assert_error(reply, 403)
        assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize(
    "path", ["/api/chat", "/api/chat/x/stream", "/api/chat/x/stop", "/api/chats", "/api/chats/x", "/api/info"]
)
async def test_a_preflight(open_site: Open, path: str) -> None:
    site = await open_site(allow_origin="https://app.example.com", auth="token", token=TOKEN)
    asked = {
        "origin": "https://app.example.com",
        "access-control-request-method": "PATCH",
        "access-control-request-headers": "authorization,content-type,last-event-id",
    }
    reply = await site.client.options(path, headers=asked)
    assert (reply.status_code, reply.content) == (204, b"")
    assert reply.headers["access-control-allow-origin"] == "https://app.example.com"
    assert {"authorization", "content-type", "last-event-id"} <= set(
        reply.headers["access-control-allow-headers"].replace(" ", "").split(",")
    )
    assert "PATCH" in reply.headers["access-control-allow-methods"]
    refused = await site.client.options(path, headers={**asked, "origin": "https://evil.com"})
    assert_error(refused, 403)
    assert not [name for name in refused.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(
    ("client", "status"),
    [
        ("127.0.0.1", 200),
        ("127.8.9.1", 200),
        ("::1", 200),
        ("10.0.0.5", 401),
        ("192.168.1.2", 401),
        ("2001:db8::1", 401),
    ],
)
async def test_without_identity_only_this_machine_is_answered(tmp_path: Any, client: str, status: int) -> None:
    app = create_app(scripted(ScriptedModel(turns=[[]])), settings=settings(tmp_path))
    transport = httpx.ASGITransport(app, client=(client, 1234))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as one:
        reply = await one.get("/api/chats")
        assert reply.status_code == status
        if status == 401:
            assert_error(reply, 401, "unauthorized")
    await app.state.bridge.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "::", "example.com"])
def test_without_identity_only_loopback_may_be_bound(tmp_path: Any, host: str) -> None:
    with pytest.raises(ConfigError, match="--auth token"):
        create_app(scripted(ScriptedModel(turns=[[]])), settings=settings(tmp_path, host=host))


def test_a_token_is_needed_to_ask_for_one(tmp_path: Any) -> None:
    for token in (None, ""):
        with pytest.raises(ConfigError, match="ADKWIRE_TOKEN"):
            create_app(scripted(ScriptedModel(turns=[[]])), settings=settings(tmp_path, auth="token", token=token))


@pytest.mark.parametrize(
    "token", ["canary-\u00e4", "canary-\U0001f511", "canary\t1", "canary\n1", " canary", "canary "]
)
def test_a_token_that_no_header_can_carry(tmp_path: Any, token: str) -> None:
    with pytest.raises(ConfigError, match="ADKWIRE_TOKEN") as refused:
        create_app(scripted(ScriptedModel(turns=[[]])), settings=settings(tmp_path, auth="token", token=token))
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN.upper()}",
        "Bearer t\u00f6ken",
        "Bearer \U0001f511",
    ],
)
async def test_a_wrong_token(open_site: Open, value: str | None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    site = await open_site(auth="token", token=TOKEN)
    headers = [("host", "localhost"), ("content-type", "application/json"), ("content-length", "0")]
    if value is not None:
        headers.append(("authorization", value))
    for method, path in (
        ("POST", "/api/chat"),
        ("GET", "/api/chats"),
        ("GET", "/api/info"),
        ("GET", "/api/chat/x/stream"),
    ):
        reply = await site.raw(method, path, headers)
        error = assert_error(reply, 401, "unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"
        assert "canary" not in str(error)
    assert TOKEN not in caplog.text


async def test_the_right_token(open_site: Open, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    site = await open_site(auth="token", token=TOKEN)
    for scheme in ("Bearer", "bearer"):
        headers = {"authorization": f"{scheme} {TOKEN}"}
        reply = await site.client.post("/api/chat", json=body("canary-text"), headers=headers)
        assert answer_text(reply.text) == "ok"
        assert TOKEN not in str(reply.headers) + reply.text
    ours = [record for record in caplog.records if record.name.startswith(("adkwire", "uvicorn"))]
    assert ours
    assert "canary" not in "".join(record.getMessage() for record in ours)
    assert TOKEN not in "".join(record.getMessage() for record in caplog.records if "http" not in record.name)
    assert TOKEN not in repr(Settings.load(token=TOKEN))


async def test_health_needs_no_token(open_site: Open) -> None:
    site = await open_site(auth="token", token=TOKEN)
    assert (await site.client.get("/healthz")).json() == {"status": "ok"}
    assert (await site.client.get("/readyz")).json() == {"status": "ready"}


def by_header(connection: HTTPConnection) -> User:
    """Trust the name a proxy gives."""
    name = connection.headers.get("x-user")
    if name is None:
        raise Unauthorized("Who are you?")
    if name == "mallory":
        raise Forbidden("You may not.")
    return User(name)


async def by_header_later(connection: HTTPConnection) -> User:
    await asyncio.sleep(0)
    return by_header(connection)


@pytest.mark.parametrize("authenticate", [by_header, by_header_later], ids=["sync", "async"])
async def test_an_identity_of_the_owners_own(open_site: Open, authenticate: Any) -> None:
    site = await open_site(authenticate=authenticate)
    assert_error(await site.client.get("/api/chats"), 401)
    assert_error(await site.client.get("/api/chats", headers={"x-user": "mallory"}), 403)
    assert (await site.client.post("/api/chat", json=body(), headers={"x-user": "ann"})).status_code == 200
    lists = {
        name: (await site.client.get("/api/chats", headers={"x-user": name})).json()["chats"] for name in ("ann", "bob")
    }
    assert [chat["id"] for chat in lists["ann"]] == ["chat"]
    assert lists["bob"] == []


async def test_a_strangers_chat_is_not_there(open_site: Open) -> None:
    held = asyncio.Event()
    site = await open_site(
        ScriptedModel(script=lambda _: [Say("ann's "), Wait(held), Say("secret")]), authenticate=by_header
    )
    ann, bob = {"x-user": "ann"}, {"x-user": "bob"}
    async with site.client.stream("POST", "/api/chat", json=body(), headers=ann) as running:
        run = running.headers["x-adkwire-run"]
        assert_error(await site.client.get("/api/chats/chat", headers=bob), 404, "not-found")
        assert_error(await site.client.patch("/api/chats/chat", json={"title": "mine"}, headers=bob), 404, "not-found")
        assert_error(await site.client.delete("/api/chats/chat", headers=bob), 404, "not-found")
        reply = await site.client.get("/api/chat/chat/stream", headers=bob)
        assert (reply.status_code, reply.content) == (204, b"")
        for place in (f"{run}:0", "run-that-never-was:0"):
            assert_error(
                await site.client.get(f"/api/chat/chat/stream?after={place}", headers=bob), 410, "not-recovered"
            )
        for wish in ({}, {"run": run}):
            reply = await site.client.post("/api/chat/chat/stop", json=wish, headers=bob)
            assert (reply.status_code, reply.json()) == (202, {"stopped": False})
        unknown = await site.client.get("/api/chats/never-was", headers=bob)
        theirs = await site.client.get("/api/chats/chat", headers=bob)
        assert unknown.content == theirs.content
        held.set()
        assert answer_text("".join([text async for text in running.aiter_text()])) == "ann's secret"


async def test_two_users_with_the_same_chat_id_never_meet(open_site: Open) -> None:
    model = ScriptedModel(script=lambda request: [Say("to " + texts_in(request.contents)[-1][1])])
    site = await open_site(model, authenticate=by_header)
    for name in ("ann", "bob", "ann:chat", "ann/chat"):
        reply = await site.client.post("/api/chat", json=body(name), headers={"x-user": name})
        assert answer_text(reply.text) == f"to {name}"
    assert [len(request) for request in model.requests] == [1, 1, 1, 1]
    await site.client.delete("/api/chats/chat", headers={"x-user": "bob"})
    history = await site.client.get("/api/chats/chat", headers={"x-user": "ann"})
    assert [part["text"] for message in history.json()["messages"] for part in message["parts"] if "text" in part] == [
        "ann",
        "to ann",
    ]


async def test_too_many_messages(open_site: Open) -> None:
    site = await open_site(chats_per_minute=3, authenticate=by_header)
    ann, bob = {"x-user": "ann"}, {"x-user": "bob"}
    for number in range(3):
        assert (await site.client.post("/api/chat", json=body(message_id=f"u{number}"), headers=ann)).status_code == 200
    refused = await site.client.post("/api/chat", json=body(message_id="u4"), headers=ann)
    assert_error(refused, 429, "too-many")
    assert 1 <= int(refused.headers["retry-after"]) <= 20
    assert (await site.client.post("/api/chat", json=body(), headers=bob)).status_code == 200
    assert (await site.client.get("/api/chats", headers=ann)).status_code == 200
    history = (await site.client.get("/api/chats/chat", headers=ann)).json()
    assert len(history["messages"]) == 6


def test_the_bucket_fills_again() -> None:
    now = 0.0
    rates = MessageRates(2, clock=lambda: now)
    rates.take("ann")
    rates.take("ann")
    with pytest.raises(TooMany) as refused:
        rates.take("ann")
    assert refused.value.retry_after == pytest.approx(30)
    now = 30.0
    rates.take("ann")
    now = 10_000.0
    for _ in range(2):
        rates.take("ann")
    with pytest.raises(TooMany):
        rates.take("ann")


def test_users_who_are_gone_are_forgotten() -> None:
    now = 0.0
    rates = MessageRates(1, clock=lambda: now)
    for number in range(10_001):
        now += 0.01
        rates.take(str(number))
    kept = len(rates._buckets)  # pyright: ignore[reportPrivateUsage] - what it keeps is the question
    assert kept < 10_001
