"""Stock `useChat`, rendered by React in a DOM: with no option at all, and with what the SDK shows for tools."""

import json
import subprocess
from typing import Any

import pytest

from tests.conformance.expected import STEP, bare, denied, shape, text, tool
from tests.conformance.gate_expected import TOLD, paid
from tests.conformance.records import HERE, MEMORY, NODE_TIMEOUT
from tests.servers import serve

# @ai-sdk/react 3.0.0 brings ai 6.0.0; 4.0.167 brings ai 7.0.163, and no release of it is nearer to 7.0.169.
HOOKS = ("use-chat-3-0-0", "use-chat-4-0-167")
HELPERS = {"use-chat-3-0-0": "ai-6-0-0", "use-chat-4-0-167": "ai-7-0-169"}


Page = dict[str, Any]


def _pages(hook: str, server: str, gated: str) -> list[dict[str, Any]]:
    """Return the pages of this hook, by server."""
    return [
        {"name": "tool", "base": server, "texts": ["several steps", "hello"]},
        {"name": "grows", "base": server, "texts": [f"hold for {hook}"]},
        {"name": "fails", "base": server, "texts": ["fail in mid-text"]},
        {"name": "approved", "base": gated, "gate": True, "texts": ["pay 5 + clock", "press Yes"]},
        {"name": "denied", "base": gated, "gate": True, "texts": ["pay 5", "press No"]},
    ]


def render(hook: str, pages: list[dict[str, Any]]) -> dict[str, Page]:
    """Use the pages, one after the other, in one Node process; React must have nothing to warn about."""
    done = subprocess.run(
        ["node", "use-chat.mjs", hook, HELPERS[hook]],
        cwd=HERE,
        input=json.dumps(pages),
        capture_output=True,
        encoding="utf-8",
        timeout=NODE_TIMEOUT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = [json.loads(line) for line in done.stdout.split("\n") if line]
    return {page["name"]: page for page in found}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Page]]:
    """All pages of all hooks, by hook and name."""
    folder = tmp_path_factory.mktemp("use-chat")
    agents = HERE / "agents"
    env = {"LEDGER": str(folder / "ledger.jsonl"), "ADKWIRE_DB": MEMORY}
    with (
        serve(str(agents / "scripted.py"), cwd=folder, env=env) as server,
        serve(str(agents / "gated.py"), cwd=folder, env=env) as gated,
    ):
        return {hook: render(hook, _pages(hook, server.url, gated.url)) for hook in HOOKS}


@pytest.fixture
def page(pages: dict[str, dict[str, Page]], hook: str, name: str) -> Page:
    """Return one page by hook and name."""
    found = pages[hook][name]
    assert "failure" not in found, found["failure"]
    return found


def on_page(name: str) -> pytest.MarkDecorator:
    """The page of this name for each hook."""
    return pytest.mark.parametrize(("hook", "name"), [(hook, name) for hook in HOOKS], ids=HOOKS)


@on_page("tool")
def test_type_stream_tool_done(page: Page) -> None:
    assert (page["status"], page["error"]) == ("ready", None)
    assert [item["role"] for item in page["visible"]] == ["user", "assistant", "user", "assistant"]
    assert shape(page["messages"][1]) == [
        *(STEP, text("First. "), tool("add", {"a": 1, "b": 2}, {"result": 3})),
        *(STEP, text("Second. "), tool("look", {"place": "Rome"}, {"place": "Rome", "seen": True})),
        *(STEP, text("Third.")),
    ]
    assert page["visible"][3]["text"] == "Hello to you."
    assert len(page["requests"]) == 2


@on_page("grows")
def test_the_page_sees_it_grow(page: Page) -> None:
    assert {"status": "streaming", "text": "One "} in page["frames"]
    assert page["frames"][-1] == {"status": "ready", "text": "One two."}


@on_page("fails")
def test_a_failure_is_shown(page: Page) -> None:
    assert page["status"] == "error"
    assert page["error"].startswith("The agent could not answer")
    assert page["visible"][1]["text"] == "One two three "


@on_page("approved")
def test_approve_in_a_page(page: Page) -> None:
    assert (page["status"], page["error"]) == ("ready", None)
    assert bare(page["messages"][1]) == [STEP, paid(5), TOLD, STEP]
    assert page["visible"][1]["text"].endswith('clock {"time": "noon"}; pay {"paid": 5}')
    assert (len(page["requests"]), len(page["executions"])) == (2, 1)


@on_page("denied")
def test_deny_in_a_page(page: Page) -> None:
    assert (page["status"], page["error"]) == ("ready", None)
    assert bare(page["messages"][1]) == [STEP, denied("pay", {"amount": 5}), STEP]
    assert len(page["requests"]) == 2
