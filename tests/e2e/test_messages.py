"""Messages and the chat list of the page, in a real browser, against the real server with the offline model."""

from collections.abc import Iterator

import pytest

from tests.e2e.browser import Browser, launch, scenario_names
from tests.servers import Server, serve


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # A server of their own: the scenarios of the list clear the history.
    with serve(cwd=tmp_path_factory.mktemp("messages"), env={"ADKWIRE_CHATS_PER_MINUTE": "6000"}) as running:
        yield running


@pytest.mark.parametrize("scenario", scenario_names("message-scenarios.mjs"))
def test_messages(browser: Browser, server: Server, scenario: str) -> None:
    browser.play(scenario, server.url + "/")


@pytest.mark.parametrize("scenario", scenario_names("list-scenarios.mjs"))
def test_list(browser: Browser, server: Server, scenario: str) -> None:
    browser.play(scenario, server.url + "/")
