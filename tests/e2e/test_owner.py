"""The page as its owner has set it up, by options of the server and without another build."""

from pathlib import Path

import pytest

from tests.e2e.browser import launch, scenario_names
from tests.servers import serve

LOGO = '<svg xmlns="http://www.w3.org/2000/svg" width="24" height="24"><circle cx="12" cy="12" r="10"/></svg>'


@pytest.mark.parametrize("scenario", scenario_names("owner-scenarios.mjs"))
def test_owner(tmp_path: Path, scenario: str) -> None:
    (tmp_path / "logo.svg").write_text(LOGO)
    options = ["--page-name", "Acme <b>Bank</b>", "--page-logo", "logo.svg"]
    options += ["--page-welcome", "Ask about <i>your</i> account."]
    options += ["--page-suggestion", "weather in Oslo", "--page-suggestion", "weather in Bern"]
    with launch() as browser, serve(*options, cwd=tmp_path) as server:
        browser.play(scenario, server.url + "/")
