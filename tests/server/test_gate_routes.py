"""The routes of the gate over real HTTP: what a page or a phone can rely on."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.function_tool import FunctionTool

from adkwire import Policy, Rule, create_app
from adkwire.stores.sqlite.gate import SqliteGateStore
from adkwire.testing import Call, Say, ScriptedModel, Step, Wait
from tests.server.app_server import Site, chunks, message, serving
from tests.support.chats import settings

CALLS = "/api/chat/chat/calls"


def pay(amount: float) -> dict[str, float]:
    """Pay."""
    return {"paid": amount}


class Counter:
    """An agent that asks before it pays, and says no word about it before it is let."""

    def __init__(self) -> None:
        self.may_speak = asyncio.Event()
        tools: list[Any] = [FunctionTool(pay, require_confirmation=True)]
        self.agent = LlmAgent(name="counter", model=ScriptedModel(script=self._say), tools=tools)

    def _say(self, request: LlmRequest) -> Iterable[Step]:
        if len(request.contents) == 1:
            return [Call("pay", {"amount": 5}, "c1")]
        return [Wait(self.may_speak), Say("Paid.")]


async def ask(site: Site) -> list[dict[str, Any]]:
    return chunks((await site.client.post("/api/chat", json={"id": "chat", "message": message("pay")})).text)


async def test_the_continuation_runs_when_the_answer_is_acknowledged(tmp_path: Path) -> None:
    counter = Counter()
    async with serving(create_app(counter.agent, settings=settings(tmp_path, ui=False, db="memory:"))) as site:
        asked = await ask(site)
        reply = await site.client.post(f"{CALLS}/c1", json={"approved": True})
        assert (reply.status_code, reply.json()) == (202, {"state": "answered"})
        async with site.client.stream("GET", "/api/chat/chat/stream") as stream:
            assert stream.status_code == 200
            counter.may_speak.set()
            received = [json.loads(line[6:]) async for line in stream.aiter_lines() if line.startswith("data: {")]
        # Whole, for a page that has nothing of the message: what was asked, then what came of it.
        kinds = [chunk["type"] for chunk in received]
        assert received[0] == asked[0]
        assert kinds[1:4] == ["start-step", "tool-input-available", "tool-approval-request"]
        assert {"type": "tool-output-available", "toolCallId": "c1", "output": {"paid": 5}} in received
        assert kinds[-1] == "finish"
        history = (await site.client.get("/api/chats/chat")).json()
        assert (history["pending"], history["active"]) == ([], None)


async def test_events_of_a_call_reach_all_listeners(tmp_path: Path) -> None:
    counter = Counter()
    counter.may_speak.set()
    async with (
        serving(create_app(counter.agent, settings=settings(tmp_path, ui=False, db="memory:"))) as site,
        site.client.stream("GET", "/api/events") as events,
    ):
        assert events.headers["content-type"].startswith("text/event-stream")
        lines = events.aiter_lines()
        assert (await anext(lines)).startswith(":")
        asked = await ask(site)
        await site.client.post(f"{CALLS}/c1", json={"approved": True})
        heard: list[dict[str, Any]] = []
        async for line in lines:
            if line.startswith("data: "):
                heard.append(json.loads(line.removeprefix("data: ")))
            if [item["type"] for item in heard].count("run-ended") == 2:
                break
    assert {item["chat"] for item in heard} == {"chat"}
    assert [(item["type"], item.get("state")) for item in heard] == [
        ("run-started", None),
        ("chat-updated", None),
        ("call-asked", "asked"),
        ("run-ended", None),
        ("call-settled", "answered"),
        ("run-started", None),
        ("call-settled", "executed"),
        ("run-ended", None),
    ]
    assert asked[-1]["finishReason"] == "tool-calls"


async def test_the_audit_and_the_list(tmp_path: Path) -> None:
    counter = Counter()
    counter.may_speak.set()
    policy = Policy(require_approval=["pay"])
    async with serving(
        create_app(counter.agent, settings=settings(tmp_path, ui=False, db="memory:"), policy=policy)
    ) as site:
        await ask(site)
        [chat] = (await site.client.get("/api/chats")).json()["chats"]
        assert chat["pending"] == 1
        await site.client.post(f"{CALLS}/c1", json={"approved": False, "reason": "too dear"})
        await _until_settled(site.client)
        entries = (await site.client.get("/api/chats/chat/audit")).json()["entries"]
        assert [(entry["actor"], entry["verdict"], entry["outcome"]) for entry in entries] == [
            ("agent", "asked", "waiting"),
            ("local", "denied", "waiting"),
            ("local", "denied", "not executed"),
        ]
        assert entries[1]["reason"] == "too dear"
        assert (await site.client.get("/api/chats/other/audit")).status_code == 404


async def _until_settled(client: httpx.AsyncClient) -> None:
    async with client.stream("GET", "/api/chat/chat/stream") as stream:
        await stream.aread()


async def test_events_are_refused_by_a_server_that_shuts_down(tmp_path: Path) -> None:
    app = create_app(Counter().agent, settings=settings(tmp_path, ui=False, db="memory:"))
    async with serving(app) as site:
        await app.state.bridge.close()
        reply = await site.client.get("/api/events")
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "unavailable")


async def test_grants_are_listed_and_taken_back(tmp_path: Path) -> None:
    model = ScriptedModel(turns=[[Call("pay", {"amount": 5}, "c1")], [Say("Paid.")]])
    agent = LlmAgent(name="counter", model=model, tools=[pay])
    policy = Policy([Rule("pay", "ask", grant="same-arguments")])
    async with serving(create_app(agent, settings=settings(tmp_path, ui=False), policy=policy), lifespan="on") as site:
        assert (await site.client.get("/api/grants")).json() == {"grants": []}
        await ask(site)
        await site.client.post(f"{CALLS}/c1", json={"approved": True, "scope": "chat"})
        await _until_settled(site.client)
        [grant] = (await site.client.get("/api/grants")).json()["grants"]
        assert grant.pop("at").endswith("Z")
        assert grant == {
            "id": "1",
            "tool": "pay",
            "scope": "chat",
            "chat": "chat",
            "chatTitle": "pay",
            "sameArguments": True,
            "input": {"amount": 5},
        }
        taken_back = await site.client.delete("/api/grants/1")
        assert (taken_back.status_code, taken_back.content) == (204, b"")
        assert (await site.client.get("/api/grants")).json() == {"grants": []}
        again = await site.client.delete("/api/grants/1")
        assert (again.status_code, again.json()["error"]["code"]) == (404, "not-found")
        entries = (await site.client.get("/api/chats/chat/audit")).json()["entries"]
        assert (entries[-1]["actor"], entries[-1]["verdict"], entries[-1]["input"]) == (
            "local",
            "revoked",
            {"amount": 5},
        )


async def test_pages_of_grants(tmp_path: Path) -> None:
    app = create_app(Counter().agent, settings=settings(tmp_path, ui=False))
    async with serving(app, lifespan="on") as site:
        store = SqliteGateStore(tmp_path / "state.db")
        for number in range(3):
            await store.grant("local", "gone" if number else "", f"tool-{number}")
        await store.grant("eve", "", "hers")
        await store.close()
        first = (await site.client.get("/api/grants", params={"limit": 2})).json()
        assert first == {
            "grants": [
                {"id": "3", "tool": "tool-2", "scope": "chat", "sameArguments": False, "chat": "gone"},
                {"id": "2", "tool": "tool-1", "scope": "chat", "sameArguments": False, "chat": "gone"},
            ],
            "next": "2",
        }
        rest = (await site.client.get("/api/grants", params={"limit": 2, "before": first["next"]})).json()
        assert rest == {"grants": [{"id": "1", "tool": "tool-0", "scope": "always", "sameArguments": False}]}
        for wrong in ("x", "-1", "1" * 19, "²"):
            assert (await site.client.get("/api/grants", params={"before": wrong})).status_code == 422
            assert (await site.client.delete(f"/api/grants/{wrong}")).status_code == 404
        assert (await site.client.delete("/api/grants/4")).status_code == 404  # Eve's.
        assert (await site.client.get("/api/grants", params={"limit": 0})).status_code == 422
