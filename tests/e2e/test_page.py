"""The page in the wheel, in a real browser, against the real server with the offline model."""

from collections.abc import Iterator

import pytest

from tests.e2e.browser import Browser, launch, scenario_names
from tests.servers import Server, serve

TOKEN = "correct horse/battery+staple="


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(cwd=tmp_path_factory.mktemp("page"), env={"ADKWIRE_CHATS_PER_MINUTE": "6000"}) as running:
        yield running


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve("--auth", "token", cwd=tmp_path_factory.mktemp("token"), env={"ADKWIRE_TOKEN": TOKEN}) as running:
        yield running


@pytest.mark.parametrize("scenario", scenario_names("scenarios.mjs"))
def test_page(browser: Browser, server: Server, scenario: str) -> None:
    browser.play(scenario, server.url + "/")


@pytest.mark.parametrize("scenario", scenario_names("token-scenarios.mjs"))
def test_token(browser: Browser, guarded_server: Server, scenario: str) -> None:
    browser.play(scenario, guarded_server.url + "/")
