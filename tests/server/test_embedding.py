"""The router in another app, the page, and the routes for operators."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool
from google.adk.workflow import START, BaseNode, Workflow

from adkwire import Bridge, Settings, User, create_app
from adkwire.testing import Say, ScriptedModel
from tests.server.app_server import answer_text, assert_error, body, serving
from tests.server.conftest import Open
from tests.support.chats import AGENT, scripted, settings


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def somebody_elses(bridge: Bridge, *, first: bool, started: list[str]) -> FastAPI:
    """An app with routes and a life of its own."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        started.append("theirs")
        yield
        started.append("ended")

    app = FastAPI(lifespan=lifespan)
    if first:
        app.include_router(bridge.router())

    @app.get("/api/orders")
    async def orders() -> dict[str, str]:
        return {"orders": "none"}

    @app.options("/api/orders")
    async def options() -> dict[str, str]:
        return {"options": "theirs"}

    if not first:
        app.include_router(bridge.router())
    return app


@pytest.mark.parametrize("first", [True, False])
async def test_in_another_app(tmp_path: Path, first: bool) -> None:
    bridge = Bridge(scripted(ScriptedModel(script=lambda _: [Say("ok")])), settings=settings(tmp_path))
    started: list[str] = []
    app = somebody_elses(bridge, first=first, started=started)
    async with app.router.lifespan_context(app), serving(app) as site:
        assert started == ["theirs"]
        assert answer_text((await site.client.post("/api/chat", json=body())).text) == "ok"
        assert (await site.client.get("/api/orders")).json() == {"orders": "none"}
        assert (await site.client.options("/api/orders")).json() == {"options": "theirs"}
        assert (await site.client.get("/api/orders", headers={"host": "evil.com"})).status_code == 200
        assert_error(await site.client.get("/api/chats", headers={"host": "evil.com"}), 421)
        assert_error(await site.client.get("/api/chats", headers={"origin": "http://evil.com"}), 403)
        assert_error(await site.client.post("/api/chat", content=b"x"), 415)
        assert (await site.client.get("/api/nothing")).json() == {"detail": "Not Found"}
        assert (await site.client.get("/")).status_code == 404
        schema = (await site.client.get("/openapi.json")).json()
        assert set(schema["paths"]) == {"/api/orders"}
    assert started == ["theirs", "ended"]
    assert not await bridge.ready()


async def test_two_bridges_in_one_app_under_their_own_prefixes(tmp_path: Path) -> None:
    app = FastAPI()
    bridges = {
        name: Bridge(
            scripted(ScriptedModel(script=lambda _, name=name: [Say(f"I am {name}")])),
            settings=settings(tmp_path, db=str(tmp_path / f"{name}.db")),
        )
        for name in ("one", "two")
    }
    for name, bridge in bridges.items():
        app.include_router(bridge.router(), prefix=f"/{name}")
    async with serving(app) as site:
        for name in bridges:
            assert answer_text((await site.client.post(f"/{name}/api/chat", json=body())).text) == f"I am {name}"
    for bridge in bridges.values():
        await bridge.close()


async def test_create_app_takes_a_bridge(tmp_path: Path) -> None:
    bridge = Bridge(scripted(ScriptedModel(turns=[[Say("ok")]])), settings=settings(tmp_path))
    app = create_app(bridge)
    assert app.state.bridge is bridge
    async with serving(app) as site:
        assert answer_text((await site.client.post("/api/chat", json=body())).text) == "ok"
    await bridge.close()


async def test_a_bridge_has_its_settings_already(tmp_path: Path) -> None:
    given = settings(tmp_path)
    bridge = Bridge(scripted(ScriptedModel(turns=[[]])), settings=given)
    with pytest.raises(TypeError, match="Bridge"):
        create_app(bridge, settings=given)
    with pytest.raises(TypeError, match="Bridge"):
        create_app(bridge, authenticate=lambda _: User("ann"))
    await bridge.close()


async def test_the_life_of_an_app_closes_its_bridge(tmp_path: Path) -> None:
    app = create_app(scripted(ScriptedModel(turns=[[Say("ok")]])), settings=settings(tmp_path))
    async with app.router.lifespan_context(app):
        assert await app.state.bridge.ready()
    assert not await app.state.bridge.ready()


async def test_a_server_that_goes_down(open_site: Open, tmp_path: Path) -> None:
    app = create_app(scripted(ScriptedModel(turns=[[Say("ok")]])), settings=settings(tmp_path))
    async with serving(app) as site:
        await app.state.bridge.close()
        assert_error(await site.client.post("/api/chat", json=body()), 503, "unavailable")
        assert_error(await site.client.get("/readyz"), 503)
        assert (await site.client.get("/healthz")).status_code == 200
    await app.state.bridge.close()


async def test_info(open_site: Open) -> None:
    site = await open_site(ScriptedModel(turns=[[]]), add, max_parts=7)
    info: dict[str, Any] = (await site.client.get("/api/info")).json()
    assert {
        "name",
        "version",
        "agent",
        "model",
        "offline",
        "modes",
        "gemini",
        "tools",
        "recording",
        "page",
        "audio",
        "limits",
    } == set(info)
    assert (info["name"], info["agent"], info["model"], info["offline"]) == ("adkwire", AGENT, "scripted", False)
    [tool] = info["tools"]
    assert (tool["name"], tool["kind"], tool["asks"]) == ("add", "server", False)
    assert set(tool["schema"]["properties"]) == {"a", "b"}
    assert info["limits"]["parts"] == 7
    assert info["limits"]["bodyBytes"] == Settings().max_body_bytes


async def test_info_has_the_audio_formats(open_site: Open) -> None:
    site = await open_site(ScriptedModel(turns=[[]]), live_grace=7, audio_per_second=55)
    info: dict[str, Any] = (await site.client.get("/api/info")).json()
    sound = {"channels": 1, "bitDepth": 16, "encoding": "pcm_s16le"}
    assert info["modes"] == ["sse", "websocket", "live"]
    assert info["audio"] == {"input": {"rate": 16_000, **sound}, "output": {"rate": 24_000, **sound}}
    limits = {"liveGrace": 7, "audioPerSecond": 55, "audioBytes": Settings().max_audio_bytes}
    assert limits.items() <= info["limits"].items()


class Silent(BaseLlm):
    """A model without a live connection."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse()


@pytest.mark.parametrize(
    "target",
    [
        LlmAgent(name="silent", model=Silent(model="silent")),
        Workflow(name="flow", edges=[(START, add)]),
    ],
    ids=["model", "workflow"],
)
async def test_info_has_no_live_mode_without_a_live_model(target: BaseNode, tmp_path: Path) -> None:
    async with serving(create_app(target, settings=settings(tmp_path))) as site:
        info = (await site.client.get("/api/info")).json()
    assert ("live" in info["modes"], info["audio"]) == (False, None)


async def test_info_names_the_tools_that_ask(open_site: Open) -> None:
    site = await open_site(ScriptedModel(turns=[[]]), FunctionTool(add, require_confirmation=True))
    [tool] = (await site.client.get("/api/info")).json()["tools"]
    assert (tool["name"], tool["asks"]) == ("add", True)


PAGE = Path(str(files("adkwire") / "static")) / "index.html"


@pytest.mark.skipif(not PAGE.is_file(), reason="the page is not built")
async def test_the_page(open_site: Open) -> None:
    site = await open_site(ui=True)
    page = await site.client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    policy = {part.split()[0]: part.split()[1:] for part in page.headers["content-security-policy"].split(";")}
    assert policy["default-src"] == ["'self'"]
    assert policy["connect-src"] == ["'self'"]
    assert policy["object-src"] == policy["base-uri"] == policy["frame-ancestors"] == ["'none'"]
    assert "script-src" not in policy or policy["script-src"] == ["'self'"]
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "no-cache"
    script = next(path for path in (PAGE.parent / "assets").iterdir() if path.suffix == ".js")
    asset = await site.client.get(f"/assets/{script.name}")
    assert asset.status_code == 200
    assert "immutable" in asset.headers["cache-control"]
    assert_error(await site.client.get("/assets/nothing.js"), 404)
    assert_error(await site.client.post("/"), 405)
    assert "http://" not in page.text.replace("http://www.w3.org", "")


async def test_without_the_page(open_site: Open) -> None:
    site = await open_site(ui=False)
    assert_error(await site.client.get("/"), 404)


async def test_the_page_asks_for_no_token(open_site: Open) -> None:
    """Its address carries the token behind the #, which no browser sends."""
    site = await open_site(ui=True, auth="token", token="t")
    assert (await site.client.get("/")).status_code in (200, 503)


def test_services_of_the_owner_are_used(tmp_path: Path) -> None:
    service = InMemorySessionService()
    bridge = Bridge(scripted(ScriptedModel(turns=[[]])), settings=settings(tmp_path), session_service=service)
    assert bridge.agent_name == AGENT
    assert not (tmp_path / "state.db").exists()


async def test_a_request_without_a_server_behind_it(tmp_path: Path) -> None:
    """As other people's tests do it: in process, without a lifespan."""
    app = create_app(scripted(ScriptedModel(turns=[[Say("ok")]])), settings=settings(tmp_path))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        assert answer_text((await client.post("/api/chat", json=body())).text) == "ok"
    await app.state.bridge.close()
