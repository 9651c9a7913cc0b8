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

from adkwire import Policy, create_app
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
