"""The pages say what the code does: nothing missing, nothing made up."""

import inspect
import re
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import msgspec
import pytest
from google.adk.agents import LlmAgent
from google.adk.events.event import Event
from google.adk.models.cache_metadata import CacheMetadata
from google.genai import types
from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient

import adkwire
import adkwire.testing
from adkwire import Settings, cli, create_app
from adkwire.gate.records import AuditEntry, State
from adkwire.live.listeners import TAKEN_OVER
from adkwire.runs.chat_events import ChatEvent
from adkwire.runs.views import Pending
from adkwire.server import security
from adkwire.server.security import error_response
from adkwire.server.sockets import chat as chat_socket
from adkwire.server.sockets import endings, live, media_input, outbox, uvicorn_protocol
from adkwire.testing import GeminiLiveStep, GeminiStep, Say, ScriptedModel, steps
from adkwire.wire.encode.event_parts import STAMP
from adkwire.wire.encode.message_facts import MessageFacts
from adkwire.wire.encode.outcome import Outcome
from adkwire.wire.failures import SERVER_STOPPED, explain_briefly
from adkwire.wire.profiles import Profile
from adkwire.wire.socket import audio, binary_frames, frames_in, frames_out, live_frames_in, live_frames_out
from tests.docs import tables
from tests.docs.tables import DOCS, ROOT, TABLES, written

SOURCE = ROOT / "src/adkwire"
_CELL = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def page(name: str) -> str:
    return (DOCS / name).read_text()


def section(text: str, title: str) -> str:
    """Return the text under a heading, up to the next heading of its level or above."""
    level, _, _ = title.partition(" ")
    _, _, rest = text.partition(f"\n{title}\n")
    assert rest, f"there is no heading {title!r}"
    return re.split(rf"\n#{{1,{len(level)}}} ", rest)[0]


def first_cells(text: str) -> set[str]:
    return set(_CELL.findall(text))


def app() -> Starlette:
    agent = LlmAgent(name="a", model=ScriptedModel(turns=[[Say("a")]]))
    return create_app(agent, settings=Settings(db="memory:", ui=False))


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_as_the_code_makes_them(name: str) -> None:
    table = TABLES[name]
    text, start, end = written(table.page, name)
    assert text[start:end] == table.make(), f"{table.page} is behind: run `python -m tests.docs.tables`"


def test_every_table_in_a_page_is_made_from_the_code() -> None:
    marked = {name for file in DOCS.rglob("*.md") for name in re.findall(r"<!-- table: (.+) -->", file.read_text())}
    assert marked == set(TABLES)


def test_routes_are_those_of_the_server() -> None:
    served = app()
    routers = [*served.routes, *served.state.bridge.router().routes]
    methods = {(route.path, method) for route in routers if isinstance(route, Route) for method in route.methods or ()}
    routes = {f"{method} {path}" for path, method in methods if method not in ("HEAD", "OPTIONS")}
    routes |= {f"WS {route.path}" for route in routers if isinstance(route, WebSocketRoute)}
    assert {"POST /api/chat", "GET /readyz", "WS /api/chat/ws"} < routes
    assert first_cells(section(page("protocol.md"), "## Routes")) == routes
    assert {path for path, method in methods if method == "OPTIONS"} == {p for p, _ in methods if p.startswith("/api")}


def test_the_internal_error_is_as_documented() -> None:
    response = error_response(None)
    code = msgspec.json.decode(bytes(response.body))["error"]["code"]
    assert f"| {response.status_code} | `{code}` |" in tables.errors_table()


def test_every_refusal_has_a_code_of_its_own() -> None:
    kinds = tables.request_errors()
    assert len({(kind.status, kind.code) for kind in kinds}) == len(kinds) > 10


def test_data_chunks_are_those_of_the_encoder() -> None:
    assert first_cells(section(page("protocol.md"), "### Data chunks")) == tables.data_types() != set()


def names_in(title: str) -> set[str]:
    """Return all names in backticks in the first cells of a section's table."""
    cells = [line.split("|")[1] for line in section(page("protocol.md"), title).splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


class Row(NamedTuple):
    cells: list[str]

    def names(self, column: int) -> set[str]:
        return set(re.findall(r"`([^`]+)`", self.cells[column]))


def rows_of(title: str) -> list[Row]:
    lines = [line for line in section(page("protocol.md"), title).splitlines() if re.match(r"\| [`\d]", line)]
    return [Row([cell.strip() for cell in line.strip("|").split("|")]) for line in lines]


def test_frames_of_the_client_are_those_of_the_code() -> None:
    known = {kind.__name__.removesuffix("Frame").lower() for kind in get_args(frames_in.ClientFrame)}
    assert {row.cells[0].strip("`") for row in rows_of("### Frames of the client")} == known


MADE: dict[str, tuple[Callable[[], str] | None, Callable[[], str]]] = {
    "start": (lambda: frames_out.start_frame("r"), lambda: frames_out.start_frame("r")),
    "end": (lambda: frames_out.end_frame("r"), lambda: frames_out.end_frame("r")),
    "no-active": (lambda: frames_out.no_active_frame("r"), lambda: frames_out.no_active_frame("r")),
    "error": (lambda: frames_out.error_frame("r", "no"), lambda: frames_out.error_frame("r", "no", "conflict")),
    "notice": (None, lambda: frames_out.notice_frame("info", "c", "t")),
    "pong": (None, lambda: frames_out.pong_frame(1, 2)),
    "chunk": (lambda: chunk_frame(None), lambda: chunk_frame("run")),
}


def chunk_frame(run: str | None) -> str:
    frames = frames_out.ChunkFrames("r", Profile.declared(None), run=run).encode(0, [b'{"type":"start-step"}'])
    return frames[0]


def keys(frame: str) -> set[str]:
    decoded: dict[str, Any] = msgspec.json.decode(frame)
    return set(decoded) - {"type"}


def test_frames_of_the_server_are_those_of_the_code() -> None:
    source = (ROOT / "src/adkwire/wire/socket/frames_out.py").read_text()
    rows = {row.cells[0].strip("`"): row for row in rows_of("### Frames of the server")}
    assert set(rows) == set(MADE) == set(re.findall(r'"type": ?"([a-z-]+)"', source))
    for name, (official, ours) in MADE.items():
        stock = keys(official()) if official is not None else set[str]()
        assert rows[name].names(1) == stock, name
        assert rows[name].names(2) == keys(ours()) - stock, name


def fields_in(cell: str) -> set[str]:
    """All names in a cell, also those inside of others, with their question marks."""
    return {name for quoted in re.findall(r"`([^`]+)`", cell) for name in re.findall(r"\w+\??", quoted)}


def fields_of(kind: type[Any]) -> set[str]:
    """The fields of a struct and of those in it; what may be absent has a question mark."""
    found: set[str] = set()
    for field in msgspec.structs.fields(kind):
        found.add(field.encode_name + ("" if field.required else "?"))
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            found |= fields_of(field.type)
    return found


def test_live_frames_of_the_client_are_those_of_the_code() -> None:
    kinds: dict[str, type[Any]] = {
        "message": live_frames_in._Message,  # pyright: ignore[reportPrivateUsage] - what is read is what is documented
        "interrupt": live_frames_in._Interrupt,  # pyright: ignore[reportPrivateUsage]
        "audio_control": live_frames_in._AudioControl,  # pyright: ignore[reportPrivateUsage]
        "audio_chunk": live_frames_in._AudioChunk,  # pyright: ignore[reportPrivateUsage]
        "video_frame": live_frames_in._VideoFrame,  # pyright: ignore[reportPrivateUsage]
        "tool_result": live_frames_in._ToolResult,  # pyright: ignore[reportPrivateUsage]
        "played": live_frames_in._Played,  # pyright: ignore[reportPrivateUsage]
    }
    rows = {row.cells[0].strip("`"): row.cells[1] for row in rows_of("### Live frames of the client")}
    assert set(rows) == set(live_frames_in._READERS) == {*kinds, "close"}  # pyright: ignore[reportPrivateUsage]
    rows["message"] = rows["message"].replace("`requestId?`, ", "").replace(": {messages}", "")
    for name, kind in kinds.items():
        assert fields_in(rows[name]) == fields_of(kind), name


def test_live_frames_of_the_server_are_those_of_the_code() -> None:
    text = section(page("protocol.md"), "### Live frames of the server").partition("| notice |")[0]
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| ([^|]*) \|", text, re.MULTILINE))
    kinds: dict[str, Any] = {kind.__struct_config__.tag: kind for kind in get_args(live_frames_out.ServerFrame)}
    assert set(rows) == set(kinds)
    for name, kind in kinds.items():
        fields = [field for field in msgspec.structs.fields(kind) if field.encode_name != "version"]
        expected = {field.encode_name + ("?" if field.default is msgspec.UNSET else "") for field in fields}
        assert fields_in(rows[name]) == expected, name
    assert f'`version: "{live_frames_out.LIVE_VERSION}"`' in section(page("protocol.md"), "## Live")


def test_notices_are_those_of_the_code() -> None:
    text = section(page("protocol.md"), "### Live frames of the server").partition("| notice |")[2]
    documented = {
        name for cell in re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE) for name in re.findall(r"`(.+?)`", cell)
    }
    source = "".join(file.read_text() for file in SOURCE.rglob("*.py"))
    sent = re.findall(r'notice\("\w+", "([a-z-]+)"', source) + re.findall(r'_notice\("([a-z-]+)"', source)
    assert documented == {*sent, TAKEN_OVER, chat_socket.RESTART_NOTICE[0]}


def test_the_head_of_a_binary_frame_is_that_of_the_code() -> None:
    text = section(page("protocol.md"), "### Binary frames")
    head: struct.Struct = binary_frames.BINARY_HEAD
    sizes = [int(size) for size in re.findall(r"^\| (\d) \|", text, re.MULTILINE)]
    assert sizes == [struct.calcsize(f"<{letter}") for letter in head.format.removeprefix("<")]
    assert f"a head of {head.size} bytes" in text
    kinds = binary_frames.AUDIO, binary_frames.JPEG, binary_frames.PNG
    assert re.findall(r"(\d) (?:audio|JPEG|PNG)", text) == [str(kind) for kind in kinds]


def test_the_fixed_limits_of_a_live_socket() -> None:
    text = section(page("protocol.md"), "## Live")
    errors, seconds = live._MAX_AUDIO_ERRORS, live._AUDIO_ERROR_SECONDS  # pyright: ignore[reportPrivateUsage]
    assert f"at most {errors} times in {seconds:g} s" in text
    assert (
        f"from {audio.MIN_RATE // 1000} to {audio.MAX_RATE // 1000} kHz are converted to {audio.INPUT_RATE // 1000} kHz"
        in text
    )
    assert f"{audio.INPUT_RATE} and {audio.OUTPUT_RATE}" in text
    assert media_input._PICTURE_SECONDS == 1  # pyright: ignore[reportPrivateUsage] - "one a second"
    assert outbox._MAX_AUDIO_BYTES == 60 * audio.OUTPUT_RATE * 2  # pyright: ignore[reportPrivateUsage] - "a minute of it"
    assert f"| `{live_frames_in.LIVE_SUBPROTOCOL}` |" in text


def test_the_limits_of_the_info_are_documented() -> None:
    with TestClient(app(), base_url="http://localhost", client=("127.0.0.1", 1)) as client:
        info = client.get("/api/info").json()
    documented = section(page("protocol.md"), "## Routes").partition("`limits` has")[2].partition("times in seconds")[0]
    assert set(re.findall(r"`(\w+)`", documented)) == set(info["limits"])


def test_close_codes_are_those_of_the_code() -> None:
    known = {value for value in vars(endings).values() if isinstance(value, endings.Ending)} - {endings.GONE}
    documented = {(int(row.cells[0]), row.cells[1].strip("`")) for row in rows_of("### Close codes")}
    others = {(1007, "invalid UTF-8"), (1009, "of the server below"), (1011, "keepalive ping timeout")}
    assert documented == known | others | {(1011, "the server failed")}
    assert '"invalid UTF-8"' in inspect.getsource(uvicorn_protocol)
    assert '"the server failed"' in inspect.getsource(security)


def test_what_our_socket_does_about_a_close_code() -> None:
    source = (ROOT / "web/client/src/socket/socket-close-codes.ts").read_text()
    sets = {
        name: set(map(int, codes.split(", "))) for name, codes in re.findall(r"(\w+) = new Set\(\[([\d, ]+)\]", source)
    }
    for row in rows_of("### Close codes"):
        code = int(row.cells[0])
        does = "refused" if code in sets["REFUSED"] else "rest" if code in sets["RESTING"] else "again"
        assert row.cells[3] == does, row.cells


def test_the_fixed_limits_of_a_socket() -> None:
    text = section(page("protocol.md"), "## Sockets")
    assert f"a `requestId` of 1 to {frames_in._MAX_REQUEST_ID} characters" in text  # pyright: ignore[reportPrivateUsage]
    tolerated, minutes = chat_socket._MAX_MALFORMED, chat_socket._MALFORMED_SECONDS / 60  # pyright: ignore[reportPrivateUsage]
    assert f"{tolerated} of them in {minutes:g} minutes are tolerated" in text
    assert f"those of {chat_socket._BURST_SECONDS:g} s may come at once" in text  # pyright: ignore[reportPrivateUsage]
    assert f"pings every {cli._PING:g} s" in text  # pyright: ignore[reportPrivateUsage]
    assert f"The subprotocol is `{frames_in.SUBPROTOCOL}`" in text
    assert f"`{security._TOKEN_PROTOCOL}<token>`" in text  # pyright: ignore[reportPrivateUsage]


def test_the_states_of_a_call_are_those_of_the_gate() -> None:
    assert first_cells(section(page("protocol.md"), "### States of a call")) == set(State)


@pytest.mark.parametrize(("title", "kind"), [("### Pending calls", Pending), ("### Audit entries", AuditEntry)])
def test_fields_are_those_of_the_code(title: str, kind: type[msgspec.Struct]) -> None:
    assert names_in(title) == {field.encode_name for field in msgspec.structs.fields(kind)}


def test_events_are_those_of_the_server() -> None:
    text = section(page("protocol.md"), "## Events")
    named = {field.encode_name: field.type for field in msgspec.structs.fields(ChatEvent)}
    assert names_in("## Events") - {"type"} == set(get_args(named.pop("type")))
    assert all(f"`{name}`" in text for name in named)


def test_message_metadata_is_what_the_encoder_learns() -> None:
    facts = MessageFacts()
    facts.learn(
        Event(
            author="agent",
            custom_metadata={STAMP: {"audio": {"chunks": 1, "ms": 20}}},
            content=types.Content(role="model", parts=[types.Part(text="a")]),
            model_version="m",
            finish_reason=types.FinishReason.STOP,
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=1,
                candidates_token_count=1,
                total_token_count=2,
                thoughts_token_count=1,
                cached_content_token_count=1,
            ),
            grounding_metadata=types.GroundingMetadata(web_search_queries=["q"]),
            citation_metadata=types.CitationMetadata(),
            cache_metadata=CacheMetadata(fingerprint="f", contents_count=1),
        )
    )
    outcome = Outcome()
    outcome.learn(Event(author="agent", error_code="X", error_message=""))
    ended = outcome.as_metadata(explain_briefly, waiting=False)
    metadata = facts.as_metadata() | ended
    text = section(page("protocol.md"), "### Message metadata")
    assert first_cells(text) == set(metadata)
    assert "{" + ", ".join(metadata["usage"]) + "}" in text
    assert "{" + ", ".join(metadata["audio"]) + "}" in text
    assert "{" + ", ".join(ended["error"]) + "}" in text
    assert f"`{SERVER_STOPPED}`" in text


def test_numbers_are_the_defaults() -> None:
    rows = re.findall(r"\| `(\w+)` \| (\d+)(?: s)? \|", section(page("protocol.md"), "## Numbers"))
    assert len(rows) > 5
    for name, value in rows:
        assert float(value) == Settings.model_fields[name].default, name


def test_settings_and_options_are_all_there() -> None:
    assert first_cells(section(page("settings.md"), "## All settings")) == set(Settings.model_fields)
    options = first_cells(section(page("settings.md"), "## Options of `adkwire serve`"))
    assert {"TARGET", "--port", "--no-ui"} <= options


@pytest.mark.parametrize("name", ["allow_origin", "allow_host"])
def test_lists_in_the_environment_are_separated_by_commas(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"ADKWIRE_{name.upper()}", "https://one.example, https://two.example")
    assert getattr(Settings.load(), name) == ("https://one.example", "https://two.example")


def test_stream_headers_are_as_documented() -> None:
    message = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    with TestClient(app(), base_url="http://localhost", client=("127.0.0.1", 1)) as client:
        response = client.post("/api/chat", json={"id": "c", "messages": [message]})
    headers = section(page("protocol.md"), "## The stream").partition("One chunk is one event")[0]
    documented = dict(re.findall(r"^\| `([^`]+)` \| `?([^`|]+?)`? \|$", headers, re.MULTILINE))
    assert documented.pop("x-adkwire-run")
    assert documented.items() <= dict(response.headers).items()
    assert len(documented) == 4
    run = response.headers["x-adkwire-run"]
    assert response.text.startswith(f'id: {run}:0\ndata: {{"type":"start","messageId":"msg-')
    assert response.text.endswith("data: [DONE]\n\n")


def test_reference_has_the_public_names_and_no_others() -> None:
    pages = page("reference.md") + page("stores.md")
    listed = set(re.findall(r"^::: (\S+)$", pages, re.MULTILINE))
    public = {f"adkwire.{name}" for name in adkwire.__all__}
    assert listed == public | {f"adkwire.testing.{name}" for name in adkwire.testing.__all__}


def test_the_steps_of_a_script_are_explained() -> None:
    explained = {cell.partition("(")[0] for row in first_cells_of_steps() for cell in row}
    assert explained == {
        step.__name__ for step in (*get_args(steps.Step), *get_args(GeminiStep), *get_args(GeminiLiveStep))
    }


def first_cells_of_steps() -> list[list[str]]:
    rows = [line.split("|")[1] for line in page("testing.md").splitlines() if re.match(r"\| `[A-Z]\w+\(", line)]
    return [re.findall(r"`([^`]+)`", row) for row in rows]
