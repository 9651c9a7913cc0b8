"""Every example of the approvals page is executed against the agent it is for."""

import json
import os
import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import pytest

from adkwire.adk.events import EXPIRED
from adkwire.gate.gate import REFUSED
from adkwire.gate.judge import _ALREADY_ANSWERED, _TOO_LATE  # pyright: ignore[reportPrivateUsage] - the words are quoted
from adkwire.wire.decode.call_answers import CallBody
from adkwire.wire.encode.tool_calls import UNFINISHED
from tests.docs.tables import DOCS, ROOT
from tests.patience import PATIENCE
from tests.servers import Server, serve

PAGE = (DOCS / "approvals.md").read_text()
WRITTEN_FOR = "http://127.0.0.1:8000"
_EXAMPLE = re.compile(r"<!-- say: (.+?) -->\n```sh\n(.*?)```\n\n```json\n(.*?)```", re.DOTALL)
_VOLATILE = re.compile(r"adk-[0-9a-f-]{36}|\d{4}-\d\d-\d\dT[\d:.]+Z")
_REFUSAL = re.compile(r"^\| `(\{.*?\})` \| (\d{3}) \| (.+) \|$", re.MULTILINE)


class Example(NamedTuple):
    sentence: str
    command: str
    gives: Any


EXAMPLES = [Example(sentence, command, json.loads(gives)) for sentence, command, gives in _EXAMPLE.findall(PAGE)]


class Reply(NamedTuple):
    status: int
    body: Any


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    examples = ROOT / "examples"
    policy = ["--policy", str(examples / "policy.toml")]
    with serve(
        str(examples / "approval_agent.py"), *policy, "--no-ui", cwd=tmp_path_factory.mktemp("served")
    ) as server:
        yield server


def send(url: str, body: str | None = None, method: str | None = None) -> Reply:
    data = None if body is None else body.encode()
    request = Request(url, data, {"content-type": "application/json"}, method=method)
    try:
        with urlopen(request, timeout=PATIENCE) as response:
            status, text = response.status, response.read().decode()
    except HTTPError as error:
        with error:
            status, text = error.code, error.read().decode()
    return Reply(status, json.loads(text) if text.startswith("{") else text)


def ask(server: Server, sentence: str) -> str:
    """Begin chat-1 anew with this; the id of the call that waits then."""
    send(f"{server.url}/api/chats/chat-1", method="DELETE")
    message = {"id": os.urandom(8).hex(), "role": "user", "parts": [{"type": "text", "text": sentence}]}
    send(f"{server.url}/api/chat", json.dumps({"id": "chat-1", "messages": [message]}))
    (pending,) = send(f"{server.url}/api/chats/chat-1").body["pending"]
    return pending["toolCallId"]


def run(server: Server, command: str, call: str) -> Reply:
    """Send the request of a `curl` command."""
    words = shlex.split(command.replace("\\\n", "").replace("$CALL", call))
    assert words[0] == "curl"
    url = words[1].replace(WRITTEN_FOR, server.url)
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert options.keys() <= {"-H", "-d"}
    assert options.get("-H", "content-type: application/json") == "content-type: application/json"
    return send(url, options.get("-d"))


def masked(value: Any) -> Any:
    return json.loads(_VOLATILE.sub("...", json.dumps(value)))


def test_all_commands_are_found() -> None:
    assert len(EXAMPLES) == PAGE.count("```sh\ncurl") >= 8


@pytest.mark.parametrize("example", EXAMPLES, ids=[f"{n}: {each.sentence}" for n, each in enumerate(EXAMPLES, 1)])
def test_commands_give_what_is_shown(server: Server, example: Example) -> None:
    call = ask(server, example.sentence)
    reply = run(server, example.command, call)
    documented_body = {name: reply.body[name] for name in example.gives}
    assert reply.status in (200, 202)
    if "entries" in documented_body:
        # The chat has had others of this name before: the audit outlives them.
        documented_body["entries"] = [entry for entry in documented_body["entries"] if entry["call"] == call]
    assert masked(documented_body) == masked(example.gives)


REFUSALS = [
    (body.replace(r"\|", "|"), int(status), message.replace(r"\|", "|"))
    for body, status, message in _REFUSAL.findall(PAGE)
]


@pytest.mark.parametrize(("body", "status", "message"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_refusals_have_the_documented_status_and_message(server: Server, body: str, status: int, message: str) -> None:
    call = ask(server, "pay 50 to Eve")
    reply = send(f"{server.url}/api/chat/chat-1/calls/{call}", body)
    assert (reply.status, reply.body["error"]["message"]) == (status, message)
    assert send(f"{server.url}/api/chats/chat-1").body["pending"][0]["toolCallId"] == call


WRONG_FIELDS = [
    (body, re.findall(r"`(/args/\w+)`", fields))
    for body, fields in re.findall(r"^\| `(\{.*?\})` \| (`/.+) \|$", PAGE, re.MULTILINE)
]


@pytest.mark.parametrize(("body", "pointers"), WRONG_FIELDS, ids=[row[0] for row in WRONG_FIELDS])
def test_wrong_fields_are_told_as_shown(server: Server, body: str, pointers: list[str]) -> None:
    call = ask(server, "pay 50 to Eve")
    reply = send(f"{server.url}/api/chat/chat-1/calls/{call}", body)
    assert reply.status == 422
    assert [field["pointer"] for field in reply.body["error"]["fields"]] == pointers != []


def test_there_are_refusals() -> None:
    assert len(WRONG_FIELDS) == 3
    assert len(REFUSALS) >= 7


def test_the_fields_of_an_answer_are_all_there() -> None:
    table = PAGE.partition("| field | value | meaning |\n|---|---|---|\n")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [
        each.encode_name for each in msgspec.structs.fields(CallBody)
    ]


def test_the_words_that_are_quoted_are_those_of_the_code() -> None:
    late = PAGE.partition("| the call | message |")[2].partition("\n\n")[0]
    documented = re.findall(r"^\| [^|]+ \| ([^|]+?) \|$", late, re.MULTILINE)
    assert sorted(documented) == sorted([*_TOO_LATE.values(), _ALREADY_ANSWERED])
    assert f"`{EXPIRED}`" in PAGE
    assert f"`{UNFINISHED}`" in PAGE
    assert REFUSED in PAGE
