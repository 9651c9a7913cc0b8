"""The page in the wheel, in a real browser, against the real server with the offline model."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.e2e.browser import HERE, Browser, launch, scenario_names
from tests.servers import Server, serve

PAGE_SCENARIOS = (
    "scenarios.mjs",
    "approval-scenarios.mjs",
    "browser-tool-scenarios.mjs",
    "tabs-scenarios.mjs",
    "settings-scenarios.mjs",
)
# The scenarios of the page that are also played in the other modes, which they take as a parameter.
IN_OTHER_MODES = {
    "WebSocket": (
        "approved_payment_is_made_once",
        "two_payments_get_an_answer_each",
        "typing_over_a_card_withdraws_it",
        "location_is_given_when_approved",
        "uploaded_image_is_described",
        "escape_stops_only_what_runs",
    ),
    "Live": (
        "approved_payment_is_made_once",
        "denial_reaches_the_model_with_its_reason",
        "two_payments_get_an_answer_each",
        "two_payments_denied_then_approved",
        "card_that_waits_survives_a_reload",
        "typing_over_a_card_withdraws_it",
        "location_is_given_when_approved",
        "location_refused_by_the_browser",
        "music_plays_switches_and_stops",
        "three_kinds_of_call_in_one_step",
        "uploaded_image_is_described",
        "draw_a_cat_shows_an_image",
    ),
}
# Scenarios of one server see each other's chats, so each group has a server and a browser of its own.
GROUPS = 3
TOKEN = "correct horse/battery+staple="
POLICY = """
[[rule]]
tool = "process_payment"
action = "deny"
when = { amount = { gt = 1000 } }
reason = "Large payments are made at the bank."

[[rule]]
tool = "process_payment"
action = "ask"
timeout = 15
hint = "Money leaves your account at once."
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # Five sockets: a scenario opens one tab too many.
    env = {"ADKWIRE_CHATS_PER_MINUTE": "6000", "ADKWIRE_SOCKETS_PER_USER": "5"}
    with serve(cwd=tmp_path_factory.mktemp("page"), env=env) as running:
        yield running


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve("--auth", "token", cwd=tmp_path_factory.mktemp("token"), env={"ADKWIRE_TOKEN": TOKEN}) as running:
        yield running


@pytest.fixture(scope="module")
def ruled_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("policy")
    (folder / "policy.toml").write_text(POLICY, "utf-8")
    with serve("--policy", "policy.toml", cwd=folder) as running:
        yield running


@pytest.fixture(scope="module")
def echo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(str(HERE / "echo_agent.py"), cwd=tmp_path_factory.mktemp("echo")) as running:
        yield running


@pytest.fixture(scope="module")
def form_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(str(HERE / "form_agent.py"), cwd=tmp_path_factory.mktemp("form")) as running:
        yield running


def grouped(*files: str) -> list[ParameterSet]:
    """Every scenario of these files, dealt out to the groups, whose number comes first in its name."""
    names = [name for file in files for name in scenario_names(file)]
    return [pytest.param(name, id=f"{index % GROUPS}-{name}") for index, name in enumerate(names)]


@pytest.mark.parametrize("scenario", grouped(*PAGE_SCENARIOS))
def test_page(browser: Browser, server: Server, scenario: str) -> None:
    browser.play(scenario, server.url + "/")


def in_other_modes() -> list[ParameterSet]:
    """Every scenario that is played in other modes, dealt out to the groups, with its mode."""
    pairs = [(name, mode) for mode, names in IN_OTHER_MODES.items() for name in names]
    return [pytest.param(name, mode, id=f"{i % GROUPS}-{mode}-{name}") for i, (name, mode) in enumerate(pairs)]


@pytest.mark.parametrize(("scenario", "mode"), in_other_modes())
def test_mode(browser: Browser, server: Server, scenario: str, mode: str) -> None:
    browser.play(scenario, server.url + "/", mode)


@pytest.mark.parametrize("scenario", scenario_names("live-scenarios.mjs"))
def test_live(browser: Browser, server: Server, scenario: str) -> None:
    browser.play(scenario, server.url + "/")


@pytest.mark.parametrize("scenario", scenario_names("policy-scenarios.mjs"))
def test_policy(browser: Browser, ruled_server: Server, scenario: str) -> None:
    browser.play(scenario, ruled_server.url + "/")


@pytest.mark.parametrize("scenario", scenario_names("markdown-scenarios.mjs"))
def test_markdown(browser: Browser, echo_server: Server, scenario: str) -> None:
    browser.play(scenario, echo_server.url + "/")


@pytest.mark.parametrize("scenario", scenario_names("form-scenarios.mjs"))
def test_form(browser: Browser, form_server: Server, scenario: str) -> None:
    browser.play(scenario, form_server.url + "/")


def test_a_question_outlives_the_server(browser: Browser, tmp_path: Path) -> None:
    for scenario in scenario_names("restart-scenarios.mjs"):
        with serve(cwd=tmp_path) as server:
            browser.play(scenario, server.url + "/")


@pytest.mark.parametrize("scenario", scenario_names("token-scenarios.mjs"))
def test_token(browser: Browser, guarded_server: Server, scenario: str) -> None:
    browser.play(scenario, guarded_server.url + "/")
