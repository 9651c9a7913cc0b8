"""Standing answers in the page, against a server that can list them and take them back."""

from pathlib import Path

import pytest

from tests.e2e.browser import HERE, launch, scenario_names
from tests.servers import serve


@pytest.mark.parametrize("scenario", scenario_names("grant-scenarios.mjs"))
def test_grants(tmp_path: Path, scenario: str) -> None:
    with launch() as browser, serve(str(HERE / "form_agent.py"), cwd=tmp_path) as server:
        browser.play(scenario, server.url + "/")
