"""`adkwire serve`: every form of a target, one clear line for what is wrong, a clean end."""

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import httpx
import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.workflow import Workflow

import adkwire
from adkwire import Settings, cli
from adkwire.adk.load_target import check_models, load_target
from adkwire.cli import main
from adkwire.errors import ConfigError
from tests.patience import PATIENCE
from tests.server.app_server import answer_text, body, events
from tests.servers import Server, clean_environment, serve, serve_anew

AGENT = """
from google.adk.agents import LlmAgent
from adkwire.testing import Say, ScriptedModel
{name} = LlmAgent(name="{agent}", model=ScriptedModel(script=lambda _: [Say("I am {agent}.")]))
"""
APP = (
    AGENT.format(name="inner", agent="inside")
    + "from google.adk.apps import App\napp = App(name='an_app', root_agent=inner)\n"
)
WORKFLOW = """
from google.adk.workflow import START, Workflow
def hello(node_input: str) -> str:
    return f"hello {node_input}"
root_agent = Workflow(name="flow", edges=[(START, hello)])
"""
GEMINI = 'from google.adk.agents import LlmAgent\nroot_agent = LlmAgent(name="gem", model="gemini-2.5-flash")\n'


@pytest.fixture
def process_as_before() -> Iterator[None]:
    """Restore what the command changes in its process: variables of an agent's `.env`, and log levels."""
    environment = dict(os.environ)
    loggers = [logging.getLogger(name) for name in (None, "uvicorn.error", "google_adk")]
    levels = [logger.level for logger in loggers]
    yield
    os.environ.clear()
    os.environ.update(environment)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture(autouse=True)
def place(process_as_before: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory and a clean environment; what was imported from there is forgotten again."""
    for name in list(os.environ):
        if name.startswith(("ADKWIRE_", "GOOGLE_", "GEMINI_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    before = dict(sys.modules)
    yield tmp_path
    mine = [
        name for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).startswith(str(tmp_path))
    ]
    for name in mine:
        del sys.modules[name]
    sys.modules.update({name: module for name, module in before.items() if name not in sys.modules})


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))
    return path


def agent(name: str = "root_agent", called: str = "helper") -> str:
    return AGENT.format(name=name, agent=called)


@pytest.mark.parametrize("name", ["app", "root_agent", "agent"])
def test_a_file_without_an_attribute(place: Path, name: str) -> None:
    write(place / "mine.py", agent(name))
    found = load_target("mine.py")
    assert isinstance(found, LlmAgent)
    assert found.name == "helper"


def test_a_file_with_an_attribute(place: Path) -> None:
    path = write(place / "deep" / "mine.py", agent("root_agent") + agent("second", "other"))
    found = load_target(f"{path}:second")
    assert isinstance(found, LlmAgent)
    assert found.name == "other"


def test_a_file_may_import_its_neighbour(place: Path) -> None:
    write(place / "deep" / "neighbour_of_mine.py", "NAME = 'neighbour'\n")
    write(place / "deep" / "mine.py", "from neighbour_of_mine import NAME\n" + agent())
    assert isinstance(load_target("deep/mine.py"), LlmAgent)


def test_a_file_that_is_called_as_we_are(place: Path) -> None:
    write(place / "adkwire.py", agent())
    assert isinstance(load_target("adkwire.py"), LlmAgent)
    assert sys.modules["adkwire"] is adkwire


def test_a_module_and_an_attribute(place: Path) -> None:
    write(place / "some_package" / "__init__.py", "")
    write(place / "some_package" / "some_module.py", agent("assistant"))
    found = load_target("some_package.some_module:assistant")
    assert isinstance(found, LlmAgent)


@pytest.mark.parametrize("slash", ["", "/"])
def test_an_adk_folder_with_agent_py(place: Path, slash: str) -> None:
    write(place / "folder_a" / "__init__.py", "from . import agent\n")
    write(place / "folder_a" / "agent.py", "from .parts import NAME\n" + agent())
    write(place / "folder_a" / "parts.py", "NAME = 1\n")
    write(place / "folder_a" / ".env", "FROM_ENV=yes\nPATH=never\n")
    path = os.environ["PATH"]
    assert isinstance(load_target(f"folder_a{slash}"), LlmAgent)
    assert os.environ.pop("FROM_ENV") == "yes"
    assert os.environ["PATH"] == path


def test_an_adk_folder_without_init(place: Path) -> None:
    write(place / "folder_b" / "agent.py", agent())
    assert isinstance(load_target(str(place / "folder_b")), LlmAgent)


def test_an_adk_folder_with_init_only(place: Path) -> None:
    write(place / "folder_c" / "__init__.py", agent())
    assert isinstance(load_target("folder_c"), LlmAgent)


def test_an_app_and_a_workflow(place: Path) -> None:
    write(place / "an_app.py", APP)
    write(place / "a_flow.py", WORKFLOW)
    assert isinstance(load_target("an_app.py"), App)
    assert isinstance(load_target("a_flow.py"), Workflow)


def test_the_key_in_the_folders_env_is_found(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(place / "folder_d" / "agent.py", GEMINI)
    write(place / "folder_d" / ".env", "GOOGLE_API_KEY=from-the-folder\n")
    target = load_target("folder_d")
    monkeypatch.setenv("GOOGLE_API_KEY", os.environ["GOOGLE_API_KEY"])
    check_models(target, os.environ)
    with pytest.raises(ConfigError, match="GOOGLE_API_KEY"):
        check_models(target, {})
    check_models(target, {"GOOGLE_GENAI_USE_VERTEXAI": "TRUE"})


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """Run the command; it must end with code 2 and one line."""
    try:
        code = main(["serve", "--port", "0", *args])
    except SystemExit as ended:
        code = ended.code
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert "Traceback" not in captured.err
    [line] = captured.err.splitlines()
    assert line.startswith("adkwire")
    return line


FILES = {
    "empty.py": "",
    "number.py": "root_agent = 5\n",
    "broken.py": "def (:\n",
    "raises.py": "raise RuntimeError('first line\\nsecond line')\n",
    "imports.py": "import no_such_module_anywhere\n",
    "gemini.py": GEMINI,
    "child.py": GEMINI.replace("root_agent", "child") + agent().replace('"helper",', '"helper", sub_agents=[child],'),
    "plain.txt": "hello\n",
    "noagent/other.py": "",
    "badfolder/agent.py": "raise ValueError('bad')\n",
    "unknown_model.py": GEMINI.replace("gemini-2.5-flash", "nonsense"),
    "exits.py": "import sys\nsys.exit('go away')\n",
}


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nothing.py", "no file nothing.py"),
        ("nothing", "neither a file, a folder nor"),
        ("no.such.module:agent", "No module named"),
        ("json:no_such_name", "json:no_such_name has no no_such_name"),
        ("json:dumps", "not an ADK Agent, App or Workflow"),
        ("empty.py", "has no app or root_agent or agent"),
        ("empty.py:mine", "has no mine"),
        ("number.py", "root_agent is of type int"),
        ("broken.py", "SyntaxError"),
        ("raises.py", "RuntimeError: first line second line"),
        ("imports.py", "no_such_module_anywhere"),
        ("plain.txt", "plain.txt is not a Python file"),
        ("noagent", "no agent.py"),
        ("badfolder", "ValueError: bad"),
        ("gemini.py", "GOOGLE_API_KEY"),
        ("child.py", "GOOGLE_API_KEY"),
        ("unknown_model.py", "nonsense"),
        ("exits.py", "exits.py"),
        ("", ""),
        (":x", ""),
        ("..", ""),
    ],
)
def test_a_target_that_cannot_be_served(
    place: Path, capsys: pytest.CaptureFixture[str], target: str, words: str
) -> None:
    for name, text in FILES.items():
        write(place / name, text)
    assert words in refused(capsys, target)


def test_a_busy_port(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(capsys, "--port", str(port))
    assert str(port) in line
    assert "--port" in line


def test_a_port_is_taken_before_the_agent_is_loaded(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first server loads a file that starts a second one; it is refused though the first does not answer yet."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    write(place / "second.py", f"import adkwire.cli\nCODE = adkwire.cli.main(['serve', 'no.py', '--port', '{port}'])\n")
    assert main(["serve", "second.py", "--port", port]) == 2
    second, first = capsys.readouterr().err.splitlines()
    assert f"Cannot listen on 127.0.0.1 port {port}" in second
    assert "second.py has no app" in first


@pytest.mark.parametrize("db", ["postgresql://user:secret@host/x", "sqlite://user:secret@host/x"])
@pytest.mark.parametrize("by", ["option", "environment"])
def test_another_database_is_refused_without_repeating_its_password(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, db: str, by: str
) -> None:
    if by == "environment":
        monkeypatch.setenv("ADKWIRE_DB", db)
    line = refused(capsys, "nothing.py", *(["--db", db] if by == "option" else []))
    assert "ADKWIRE_DB" in line
    assert "SQLite" in line
    assert "secret" not in line


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--port", "70000"], "port"),
        (["--port", "-1"], "port"),
        (["--port", "http"], "--port"),
        (["--host", "no-such-host.invalid"], "no-such-host.invalid"),
        (["--host", "203.0.113.7"], "203.0.113.7"),
        (["--host", "0.0.0.0"], "--auth token"),
        (["--auth", "password"], "--auth"),
        (["--on-busy", "shout"], "--on-busy"),
        (["--no-such-option"], "--no-such-option"),
        (["--db", "/proc/no/such.db"], "--db"),
        (["--db", "/"], "--db"),
        (["--record", "/proc/no/recordings"], "--record"),
        (["--record", "/dev/null"], "--record"),
        (["--page-name", ""], "page_name"),
        (["--page-suggestion", "x" * 201], "page_suggestions"),
        (["--page-logo", "/proc/no/logo.png"], "--page-logo"),
        (["--log-level", "loud"], "--log-level"),
        (["one.py", "two.py"], "two.py"),
    ],
)
def test_a_wrong_option(capsys: pytest.CaptureFixture[str], args: list[str], words: str) -> None:
    assert words in refused(capsys, *args)


def test_a_wrong_value_in_the_environment(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKWIRE_HEARTBEAT", "soon")
    assert "ADKWIRE_HEARTBEAT" in refused(capsys)


def test_a_token_that_no_header_can_carry(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKWIRE_TOKEN", "geh\u00e4im")
    line = refused(capsys, "--auth", "token")
    assert "ADKWIRE_TOKEN does not fit into a header" in line
    assert "geh" not in line


def test_an_empty_token(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKWIRE_TOKEN", "")
    assert "ADKWIRE_TOKEN" in refused(capsys, "--auth", "token")


@pytest.mark.parametrize(("args", "word"), [([], "serve"), (["serve"], "--record"), (["replay"], "--speed")])
def test_help(capsys: pytest.CaptureFixture[str], args: list[str], word: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*args, "--help"])
    assert ended.value.code == 0
    assert word in capsys.readouterr().out


def test_a_refusal_of_the_real_command_is_one_line(place: Path) -> None:
    write(place / "raises.py", FILES["raises.py"])
    done = subprocess.run(
        [sys.executable, "-m", "adkwire.cli", "serve", "raises.py", "--port", "0"],
        cwd=place,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "adkwire: raises.py cannot be loaded: RuntimeError: first line second line\n"


HELD = """
import asyncio
from pathlib import Path
from google.adk.agents import LlmAgent
from adkwire.testing import Call, Say, ScriptedModel

async def wait() -> str:
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return "waited"

root_agent = LlmAgent(
    name="held", model=ScriptedModel(turns=[[Say("one "), Call("wait")], [Say("two")]]), tools=[wait]
)
"""


def test_a_terminated_server_lets_the_answer_end(place: Path) -> None:
    write(place / "held.py", HELD)
    with (
        serve_anew("held.py", cwd=place) as server,
        httpx.Client(base_url=server.url, timeout=PATIENCE, trust_env=False) as client,
    ):
        with client.stream("POST", "/api/chat", json=body()) as stream:
            assert "server" not in stream.headers
            pieces = stream.iter_text()
            text = ""
            while "tool-input-available" not in text:
                text += next(pieces)
            server.process.send_signal(signal.SIGTERM)
            while client.get("/readyz").status_code != 503:
                pass
            assert client.post("/api/chat", json=body(chat="late")).status_code == 503
            (place / "go").touch()
            text += "".join(pieces)
        code = server.process.wait(PATIENCE)
        assert (place / ".adkwire" / "state.db").is_file()
    assert "  agent  held" in server.output
    assert answer_text(text) == "one two"
    assert events(text)[-1].data == "[DONE]"
    assert code in (0, -signal.SIGTERM)
    assert "Traceback" not in server.output
    assert server.lines[3] == "  record nothing (see --record)\n"
    assert server.lines[4:] == ["adkwire lets the running answers end; Ctrl-C again stops them now\n"], server.output


def printed(server: Server, pattern: str) -> str:
    """Wait until the server has printed this."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if found := re.search(pattern, server.output):
            return found[1]
        time.sleep(0.01)
    raise AssertionError(server.output)


def test_a_token_is_made_and_printed_and_works(place: Path) -> None:
    write(place / "an_app.py", APP)
    options = ("--auth", "token", "--host", "0.0.0.0", "--db", "memory:", "--no-ui")
    with serve_anew("an_app.py", *options, cwd=place) as server:
        token = printed(server, r"#token=(\S+)\n")
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        with httpx.Client(base_url=url, timeout=PATIENCE, trust_env=False) as client:
            assert client.get("/api/info").status_code == 401
            client.headers["authorization"] = f"Bearer {token}"
            assert client.get("/api/info").json()["agent"] == "inside"
            assert answer_text(client.post("/api/chat", json=body()).text) == "I am inside."
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 0
    assert not (place / ".adkwire").exists()
    assert "Traceback" not in server.output


HANGING = """
import asyncio
from google.adk.agents import LlmAgent
from adkwire.testing import Say, ScriptedModel, Wait
root_agent = LlmAgent(name="hanging", model=ScriptedModel(script=lambda _: [Say("one "), Wait(asyncio.Event())]))
"""


def test_a_second_interrupt_does_not_wait_for_an_answer_that_hangs(place: Path) -> None:
    write(place / "hanging.py", HANGING)
    with (
        serve("hanging.py", "--db", "memory:", cwd=place, env={"ADKWIRE_DRAIN": "600"}) as server,
        httpx.Client(base_url=server.url, timeout=PATIENCE, trust_env=False) as client,
        client.stream("POST", "/api/chat", json=body()) as stream,
    ):
        pieces = stream.iter_text()
        text = ""
        while "text-delta" not in text:
            text += next(pieces)
        server.process.send_signal(signal.SIGINT)
        printed(server, r"(Ctrl-C again)")
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 0
    assert "Traceback" not in server.output


def test_what_was_recorded_is_replayed(place: Path) -> None:
    write(place / "mine.py", agent())
    with serve("mine.py", "--record", "recordings", cwd=place) as server:
        printed(server, r"  record into (.*)")
        was = httpx.post(f"{server.url}/api/chat", json=body(chat="Mine"), timeout=PATIENCE).text
    assert f"  record into {place / 'recordings'}" in server.output
    command = [sys.executable, "-m", "adkwire.cli", "replay", "recordings/Mine.jsonl", "--speed", "fast", "--port", "0"]
    command += ["--auth", "token", "--allow-host", "mine.example"]
    with subprocess.Popen(command, cwd=place, env=clean_environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            startup_lines = [process.stdout.readline() for _ in range(4)]
            url, token = startup_lines.pop().split()[-1].split("/#token=")
            headers = {"authorization": f"Bearer {token}", "host": "mine.example"}
            refused = httpx.post(f"{url}/api/chat", json=body(chat="another"), timeout=PATIENCE)
            again = httpx.post(f"{url}/api/chat", json=body(chat="another"), headers=headers, timeout=PATIENCE).text
        finally:
            process.terminate()
            process.wait(PATIENCE)
    assert refused.status_code == 401
    assert answer_text(again) == answer_text(was) == "I am helper."
    assert [event.data for event in events(again)] == [event.data for event in events(was)]
    assert startup_lines[1:] == [f"  replay {place / 'recordings' / 'Mine.jsonl'}\n", "  runs   1, speed fast\n"]


def replay_refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    try:
        code = main(["replay", "--port", "0", *args])
    except SystemExit as ended:
        code = ended.code
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    [line] = captured.err.splitlines()
    return line


def test_a_recording_that_cannot_be_replayed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "file" in replay_refused(capsys)
    assert "Cannot read none.jsonl: No such file" in replay_refused(capsys, "none.jsonl")
    assert "Cannot read .: Is a directory" in replay_refused(capsys, ".")
    write(place / "notes.txt", "hello\n")
    assert "notes.txt cannot be replayed, line 1: is not JSON" in replay_refused(capsys, "notes.txt")
    assert "--speed" in replay_refused(capsys, "notes.txt", "--speed", "slow")


def test_a_replay_for_everybody_wants_a_token(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunk = '{"type":"start","messageId":"m1"}'
    where = '"chat":"c","mode":"sse","location":"server-chunk","direction":"out"'
    write(place / "c.jsonl", f'{{"timestamp":0,{where},"sequence":0,"chunk":{chunk}}}\n')
    assert "--auth token" in replay_refused(capsys, "c.jsonl", "--host", "0.0.0.0")


@pytest.mark.parametrize(
    ("given", "path"), [({}, ".adkwire/state.db"), ({"db": "deep/er/state.db"}, "deep/er/state.db")]
)
def test_serve_makes_the_folder_of_its_database(
    given: dict[str, str], path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ADKWIRE_DB", raising=False)
    settings = cli._with_database(Settings.load(**given))  # pyright: ignore[reportPrivateUsage]
    assert settings.db_path == Path(path)
    assert Path(path).parent.is_dir()
