"""The front-end starters of `examples/`: built, started as their READMEs say, and used in a real Chromium.

Next.js is too large to be installed for every run of all tests: `make starters` plays the scenarios there, too
(`other_starters.py`). What needs no Next.js of its starter is compiled here.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.browser import ROOT, Browser, launch, scenario_names
from tests.patience import PATIENCE
from tests.servers import Server, clean_environment, serve, start

EXAMPLES = ROOT / "examples"
VITE, ASSISTANT_UI, NEXT = EXAMPLES / "vite", EXAMPLES / "assistant-ui", EXAMPLES / "next"
SOURCES = {VITE: VITE / "src", ASSISTANT_UI: ASSISTANT_UI / "src", NEXT: NEXT / "app"}
SHARED = ("agent-chat.ts", "browser-tools.ts", "history.ts", "style.css")
LOCAL = re.compile(r"Local:\s+(http://\S+?)/?\s*$")
SCENARIOS = scenario_names("starter-scenarios.mjs")


def package(folder: Path) -> dict[str, dict[str, str]]:
    return json.loads((folder / "package.json").read_text())


def script(folder: Path, name: str) -> list[list[str]]:
    """The commands of a script in a package.json, without npm around them."""
    commands = [shlex.split(command) for command in package(folder)["scripts"][name].split("&&")]
    return [[_binary(folder, program), *args] for program, *args in commands]


def _binary(folder: Path, program: str) -> str:
    return next(str(found) for where in (folder, ROOT) if (found := where / "node_modules/.bin" / program).exists())


def build(folder: Path, env: dict[str, str] | None = None) -> None:
    for command in script(folder, "build"):
        done = subprocess.run(
            command,
            cwd=folder,
            env=clean_environment(env),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(cwd=tmp_path_factory.mktemp("starters")) as running:
        yield running


@pytest.fixture(scope="module")
def vite(server: Server) -> Iterator[str]:
    """The address of the Vite starter on its development server."""
    [command] = script(VITE, "dev")
    env = {"ADKWIRE_URL": server.url, "NO_COLOR": "1"}
    with start(*command, "--host", "127.0.0.1", "--port", "0", cwd=VITE, env=env, ready=LOCAL) as running:
        yield running.url


@pytest.fixture(scope="module")
def assistant_ui(server: Server) -> Iterator[str]:
    """The address of the assistant-ui starter, built and served."""
    build(ASSISTANT_UI)
    [command] = script(ASSISTANT_UI, "preview")
    env = {"ADKWIRE_URL": server.url, "NO_COLOR": "1"}
    with start(*command, "--host", "127.0.0.1", "--port", "0", cwd=ASSISTANT_UI, env=env, ready=LOCAL) as running:
        yield running.url


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_vite(browser: Browser, vite: str, scenario: str) -> None:
    browser.play(scenario, f"{vite}/")


@pytest.mark.parametrize("scenario", ["starter_asks_and_runs_browser_tools", "starter_keeps_an_answer"])
def test_vite_over_a_websocket(browser: Browser, vite: str, scenario: str) -> None:
    browser.play(scenario, f"{vite}/?websocket")


def test_vite_builds() -> None:
    build(VITE)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_assistant_ui(browser: Browser, assistant_ui: str, scenario: str) -> None:
    browser.play(scenario, f"{assistant_ui}/")


def test_the_chat_of_the_next_starter_compiles() -> None:
    options = ["--noEmit", "--ignoreConfig", "--jsx", "react-jsx", "--strict", "--skipLibCheck", "--types", ""]
    target = ["--target", "ES2023", "--module", "ESNext", "--moduleResolution", "Bundler"]
    tsc = [_binary(ROOT, "tsc"), *options, *target, str(SOURCES[NEXT] / "chat-view.tsx")]
    done = subprocess.run(tsc, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_the_starters_share_is_the_same() -> None:
    for name in SHARED:
        assert len({(source / name).read_text() for source in SOURCES.values()}) == 1, name


@pytest.mark.parametrize("folder", SOURCES, ids=lambda folder: folder.name)
def test_a_starter_is_small_and_pinned(folder: Path) -> None:
    assert len((SOURCES[folder] / "chat-view.tsx").read_text().splitlines()) < 60
    assert len((folder / "README.md").read_text().splitlines()) <= 15
    assert not [version for version in package(folder)["dependencies"].values() if not version[0].isdigit()]
    ours = package(ROOT / "web/app")["dependencies"]
    assert {
        name: version for name, version in package(folder)["dependencies"].items() if name in ours
    }.items() <= ours.items()
