"""The examples do what they say."""

import importlib
import json
import re
import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from starlette.testclient import TestClient

from tests.docs.tables import ROOT
from tests.patience import PATIENCE
from tests.servers import clean_environment, serve, serve_anew

EXAMPLES = ROOT / "examples"


def ask(chat: str, text: str) -> dict[str, Any]:
    return {"id": chat, "messages": [{"id": f"{chat}-u", "role": "user", "parts": [{"type": "text", "text": text}]}]}


def chunks(stream: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def answer_text(stream: str) -> str:
    return "".join(chunk["delta"] for chunk in chunks(stream) if chunk["type"] == "text-delta")


def fetch(url: str, body: dict[str, Any] | None = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"content-type": "application/json"}), timeout=PATIENCE) as response:
        return response.read().decode()


def test_every_example_is_tested() -> None:
    tested = {"approval_agent.py", "fastapi_app.py", "live_client.py", "offline_agent.py", "weather_agent.py"}
    assert {file.name for file in EXAMPLES.glob("*.py")} == tested


def test_the_offline_agent_answers_without_a_key(tmp_path: Path) -> None:
    with serve_anew(str(EXAMPLES / "offline_agent.py"), cwd=tmp_path) as server:
        stream = fetch(f"{server.url}/api/chat", ask("c", "roll"))
    assert answer_text(stream) == "The die shows 6."
    kinds = {chunk["type"] for chunk in chunks(stream)}
    assert {"reasoning-delta", "tool-input-available", "tool-output-available"} <= kinds
    assert (tmp_path / ".adkwire/state.db").is_file()
    printed_in_docs = (ROOT / "docs/getting-started.md").read_text().partition("```text\n")[2].partition("```")[0]
    labels = re.compile(r"^(?:  (\w+) |adkwire is ready at )", re.MULTILINE)
    assert labels.findall(printed_in_docs) == labels.findall(server.output) != []


@pytest.fixture(scope="module")
def concierge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the approval agent, served as its docstring says."""
    target, policy = str(EXAMPLES / "approval_agent.py"), str(EXAMPLES / "policy.toml")
    with serve(target, "--policy", policy, cwd=tmp_path_factory.mktemp("concierge")) as server:
        yield server.url


def waiting(url: str, chat: str) -> list[dict[str, Any]]:
    return json.loads(fetch(f"{url}/api/chats/{chat}"))["pending"]


def last_message(url: str, chat: str) -> dict[str, Any]:
    return json.loads(fetch(f"{url}/api/chats/{chat}"))["messages"][-1]


def answered(url: str, chat: str, approved: bool) -> str:
    """Return what a stock client gets when it answers the only question of its last message."""
    message = last_message(url, chat)
    part = next(part for part in message["parts"] if part.get("state") == "approval-requested")
    part |= {"state": "approval-responded", "approval": {**part["approval"], "approved": approved}}
    return fetch(f"{url}/api/chat", {"id": chat, "messages": [message]})


@pytest.mark.parametrize(
    ("sentence", "chunk", "text"),
    [
        ("pay 20 to Bob", "tool-output-available", "'paid': 20"),
        ("pay 5000 to Bob", "tool-output-error", "Payments above 1000 are made at the bank."),
        ("delete my account", "tool-output-error", "not executed"),
    ],
)
def test_the_policy_decides_for_the_approval_agent(concierge: str, sentence: str, chunk: str, text: str) -> None:
    chat = sentence.replace(" ", "-")
    stream = fetch(f"{concierge}/api/chat", ask(chat, sentence))
    assert chunk in {each["type"] for each in chunks(stream)}
    assert text in answer_text(stream)
    assert waiting(concierge, chat) == []


@pytest.mark.parametrize(
    ("approved", "chunk", "text"),
    [(True, "tool-output-available", "'paid': 50"), (False, "tool-output-denied", "The user refused this call")],
)
def test_the_approval_agent_asks_before_it_pays(concierge: str, approved: bool, chunk: str, text: str) -> None:
    chat = f"eve-{approved}"
    asked = {each["type"] for each in chunks(fetch(f"{concierge}/api/chat", ask(chat, "pay 50 to Eve")))}
    assert "tool-approval-request" in asked
    assert "tool-output-available" not in asked
    stream = answered(concierge, chat, approved)
    assert chunk in {each["type"] for each in chunks(stream)}
    assert text in answer_text(stream)


def test_the_approval_agent_asks_from_inside(concierge: str) -> None:
    stream = fetch(f"{concierge}/api/chat", ask("table", "book a table"))
    (about,) = [each["data"] for each in chunks(stream) if each["type"] == "data-approval"]
    assert (about["hint"], about["payload"]) == ("Which day?", {"day": ["Friday", "Saturday"]})
    assert "'day': 'Friday'" in answer_text(answered(concierge, "table", approved=True))


def test_the_approval_agent_lets_the_page_find_out_where_it_is(concierge: str) -> None:
    fetch(f"{concierge}/api/chat", ask("where", "where am I"))
    released = answered(concierge, "where", approved=True)
    assert [each["type"] for each in chunks(released)] == ["start", "tool-input-available", "finish"]
    assert [call["kind"] for call in waiting(concierge, "where")] == ["client"]
    message = last_message(concierge, "where")
    part = next(part for part in message["parts"] if part["type"] == "tool-get_location")
    part |= {"state": "output-available", "output": {"latitude": 35.68, "longitude": 139.69}}
    assert "35.68" in answer_text(fetch(f"{concierge}/api/chat", {"id": "where", "messages": [message]}))


def in_the_terminal(url: str, chat: str, typed: str, cwd: Path) -> str:
    """Return the output of a live conversation; its audio is in `answer.wav`."""
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / "live_client.py"), url, chat, "answer.wav"],
        cwd=cwd,
        env=clean_environment(),
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return ended.stdout


def test_a_live_conversation_in_the_terminal(concierge: str, tmp_path: Path) -> None:
    printed = in_the_terminal(concierge, "terminal", "book a table\ny\npay 50 to Eve\nno\n", tmp_path)
    assert re.findall(r"May it (\w+)", printed) == ["book_table", "process_payment"]
    assert "'day': 'Friday'" in printed
    assert "The user refused this call" in printed
    messages = json.loads(fetch(f"{concierge}/api/chats/terminal"))["messages"]
    with wave.open(str(tmp_path / "answer.wav")) as sound:
        heard = sound.getnframes() / sound.getframerate() * 1000
    assert heard == sum(message["metadata"]["audio"]["ms"] for message in messages if message["role"] == "assistant")


def test_a_terminal_says_that_it_cannot_do_what_a_browser_does(concierge: str, tmp_path: Path) -> None:
    printed = in_the_terminal(concierge, "no-browser", "where am I\ny\npay 20 to Bob\n", tmp_path)
    asked, output, paid = printed.splitlines()
    assert asked == "May it get_location {}? (y/n) (get_location {} is for a browser, and this is a terminal)"
    assert output == "get_location: {'error': 'This client is a terminal, not a browser.'}."
    assert "'paid': 20" in paid
    assert waiting(concierge, "no-browser") == []


CLOCK = """
from google.adk.agents import LlmAgent
from adkwire import client_tool
from adkwire.testing import Call, Say, ScriptedModel

@client_tool
def clock(zone: str) -> dict[str, str]:
    'Read the clock of the device.'
    raise NotImplementedError

model = ScriptedModel(turns=[[Call("clock", {"zone": "UTC"}, "t1")], [Say("Nobody knows.")]])
root_agent = LlmAgent(name="clock", model=model, tools=[clock])
"""


def test_a_terminal_is_not_asked_about_what_a_browser_does_by_itself(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(CLOCK)
    with serve("agent.py", cwd=tmp_path) as server:
        printed = in_the_terminal(server.url, "clock", "what time is it\n", tmp_path)
        [part] = [part for part in last_message(server.url, "clock")["parts"] if part["type"] == "tool-clock"]
    assert printed == '(clock {"zone":"UTC"} is for a browser, and this is a terminal)\nNobody knows.\n'
    assert (part["state"], part["errorText"]) == ("output-error", "This client is a terminal, not a browser.")


def test_the_weather_agent_is_served_with_a_key(tmp_path: Path) -> None:
    with serve(str(EXAMPLES / "weather_agent.py"), cwd=tmp_path, env={"GOOGLE_API_KEY": "none"}) as server:
        info = json.loads(fetch(f"{server.url}/api/info"))
    assert info["agent"] == "weather"
    assert info["model"].startswith("gemini")
    assert [tool["name"] for tool in info["tools"]] == ["get_weather"]


def test_the_weather_agent_says_that_it_needs_a_key(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "adkwire.cli", "serve", str(EXAMPLES / "weather_agent.py"), "--port", "0"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert "GOOGLE_API_KEY" in ended.stderr


async def test_the_weather_tool_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    get_weather = importlib.import_module("weather_agent").get_weather
    assert (await get_weather("Tokyo"))["condition"] == "cloudy"
    assert set(await get_weather("Nowhere")) == {"error"}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    monkeypatch.setenv("API_KEYS", "alice=first,bob=second")
    for name in ("fastapi_app", "offline_agent"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    app = importlib.import_module("fastapi_app").app
    with TestClient(app, base_url="http://chat.example.com") as client:
        yield client


def as_user(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_the_app_serves_its_own_routes_and_ours(client: TestClient) -> None:
    assert client.get("/hello").json() == {"hello": "world"}
    response = client.post("/api/chat", json=ask("c", "roll"), headers=as_user("first"))
    assert answer_text(response.text) == "The die shows 6."


def test_the_app_keeps_its_users_apart(client: TestClient) -> None:
    client.post("/api/chat", json=ask("c", "roll"), headers=as_user("first"))
    assert client.get("/api/chats/c", headers=as_user("first")).status_code == 200
    assert client.get("/api/chats/c", headers=as_user("second")).status_code == 404
    assert client.get("/api/chats", headers=as_user("second")).json() == {"chats": []}


@pytest.mark.parametrize("headers", [{}, as_user(""), as_user("third"), as_user("alice=first")])
def test_the_app_refuses_strangers(client: TestClient, headers: dict[str, str]) -> None:
    response = client.post("/api/chat", json=ask("c", "roll"), headers=headers)
    assert response.status_code == 401
    assert response.json()["error"]["message"] == "A valid key is needed."


def test_the_app_answers_to_its_own_names_only(client: TestClient) -> None:
    assert client.get("/api/info", headers={"host": "evil.example", **as_user("first")}).status_code == 421
    allowed = client.get("/api/info", headers={"origin": "http://localhost:3000", **as_user("first")})
    assert allowed.headers["access-control-allow-origin"] == "http://localhost:3000"
