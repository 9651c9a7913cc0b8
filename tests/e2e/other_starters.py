"""The front ends that `make test` leaves out, since each needs an installation of its own: `make starters`.

The Next.js starter, on its development server and built; the components for Vue and Svelte in `docs/starters.md`.
"""

import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.browser import HERE, ROOT, Browser, launch
from tests.e2e.test_starters import ASSISTANT_UI, LOCAL, NEXT, SCENARIOS, SOURCES, build, script
from tests.servers import serve, start

FRAMEWORKS = HERE / "frameworks"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch() as running:
        yield running


@pytest.fixture(scope="module", params=["dev", "start"])
def next_js(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.create_server(("localhost", 0)) as free:
        port = str(free.getsockname()[1])
    with serve(cwd=tmp_path_factory.mktemp("next")) as server:
        env = {"ADKWIRE_URL": server.url, "NO_COLOR": "1", "NEXT_TELEMETRY_DISABLED": "1"}
        if request.param == "start":
            build(NEXT, env)  # the address of adkwire is a part of the build
        [command] = script(NEXT, request.param)
        with start(*command, "--port", port, cwd=NEXT, env=env, ready=LOCAL) as running:
            yield running.url


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_next(browser: Browser, next_js: str, scenario: str) -> None:
    browser.play(scenario, f"{next_js}/")


def app_of(framework: str, folder: Path) -> None:
    """Write an app of the documentation's component and the files that it says to take."""
    shutil.copytree(FRAMEWORKS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    (folder / "node_modules").symlink_to(FRAMEWORKS / "node_modules")
    for name in ("agent-chat.ts", "browser-tools.ts", "history.ts", "transport.ts"):
        text = (SOURCES[ASSISTANT_UI] / name).read_text()
        (folder / name).write_text(text.replace("@ai-sdk/react", f"@ai-sdk/{framework}"))
    shutil.copy(folder / f"main-{framework}.ts", folder / "main.ts")
    component = re.search(rf"```{framework}\n(.*?)```", (ROOT / "docs/starters.md").read_text(), re.DOTALL)
    assert component is not None
    (folder / f"ChatView.{framework}").write_text(component[1])


@pytest.fixture(scope="module", params=["vue", "svelte"])
def documented(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp(request.param)
    app_of(request.param, folder)
    vite = str(FRAMEWORKS / "node_modules/.bin/vite")
    with serve(cwd=tmp_path_factory.mktemp("server")) as server:
        env = {"ADKWIRE_URL": server.url, "FRAMEWORK": request.param, "NO_COLOR": "1"}
        with start(vite, "--host", "127.0.0.1", "--port", "0", cwd=folder, env=env, ready=LOCAL) as running:
            yield running.url


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_component_of_the_documentation(browser: Browser, documented: str, scenario: str) -> None:
    browser.play(scenario, f"{documented}/")
