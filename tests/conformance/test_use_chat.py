"""Stock `useChat`, rendered by React in a DOM: with no option at all, and with what the SDK shows for tools."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.expected import STEP, bare, denied, shape, text, tool
from tests.conformance.gate_expected import TOLD, paid
from tests.conformance.records import HERE, NODE_TIMEOUT
from tests.servers import Server, serve

# @ai-sdk/react 3.0.0 brings ai 6.0.0; 4.0.167 brings ai 7.0.163, and no release of it is nearer to 7.0.169.
HOOKS = ("use-chat-3-0-0", "use-chat-4-0-167")
HELPERS = {"use-chat-3-0-0": "ai-6-0-0", "use-chat-4-0-167": "ai-7-0-169"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(str(HERE / "agents" / "scripted.py"), cwd=tmp_path_factory.mktemp("use-chat")) as running:
        yield running


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("use-chat-gated")
    with serve(str(HERE / "agents" / "gated.py"), cwd=folder, env={"LEDGER": str(folder / "ledger.jsonl")}) as running:
        yield running


def render(hook: str, base: str, *texts: str) -> dict[str, Any]:
    """Use the page in a Node process of its own; React must have nothing to warn about."""
    done = subprocess.run(
        ["node", "use-chat.mjs", hook, base, *texts],
        cwd=HERE,
        capture_output=True,
        encoding="utf-8",
        timeout=NODE_TIMEOUT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize("hook", HOOKS)
def test_type_stream_tool_done(server: Server, hook: str) -> None:
    page = render(hook, server.url, "several steps", "hello")
    assert (page["status"], page["error"]) == ("ready", None)
    assert [item["role"] for item in page["visible"]] == ["user", "assistant", "user", "assistant"]
    assert shape(page["messages"][1]) == [
        *(STEP, text("First. "), tool("add", {"a": 1, "b": 2}, {"result": 3})),
        *(STEP, text("Second. "), tool("look", {"place": "Rome"}, {"place": "Rome", "seen": True})),
        *(STEP, text("Third.")),
    ]
    assert page["visible"][3]["text"] == "Hello to you."
    assert len(page["requests"]) == 2


@pytest.mark.parametrize("hook", HOOKS)
def test_the_page_sees_it_grow(server: Server, hook: str) -> None:
    page = render(hook, server.url, f"hold for {hook}")
    assert {"status": "streaming", "text": "One "} in page["frames"]
    assert page["frames"][-1] == {"status": "ready", "text": "One two."}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_failure_is_shown(server: Server, hook: str) -> None:
    page = render(hook, server.url, "fail in mid-text")
    assert page["status"] == "error"
    assert page["error"].startswith("The agent could not answer")
    assert page["visible"][1]["text"] == "One two three "


@pytest.mark.parametrize("hook", HOOKS)
def test_approve_in_a_page(gated: Server, hook: str) -> None:
    page = render(hook, gated.url, f"--gate={HELPERS[hook]}", "pay 5 + clock", "press Yes")
    assert (page["status"], page["error"]) == ("ready", None)
    assert bare(page["messages"][1]) == [STEP, paid(5), TOLD, STEP]
    assert page["visible"][1]["text"].endswith('clock {"time": "noon"}; pay {"paid": 5}')
    assert (len(page["requests"]), len(page["executions"])) == (2, 1)


@pytest.mark.parametrize("hook", HOOKS)
def test_deny_in_a_page(gated: Server, hook: str) -> None:
    page = render(hook, gated.url, f"--gate={HELPERS[hook]}", "pay 5", "press No")
    assert (page["status"], page["error"]) == ("ready", None)
    assert bare(page["messages"][1]) == [STEP, denied("pay", {"amount": 5}), STEP]
    assert len(page["requests"]) == 2
