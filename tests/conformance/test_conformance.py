"""The wire, judged by the real `ai` packages: stock clients of every pinned version against a running server."""

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance import (
    demo_cases,
    demo_gate,
    gate_browser,
    gate_cases,
    gate_mixes,
    gate_overtaken,
    gate_routes,
    scripted_cases,
)
from tests.conformance.cases import Case
from tests.conformance.judge import judge
from tests.conformance.records import HERE, Record, drive, packages, with_ledger
from tests.servers import serve

SUITES = {
    "demo": [*demo_cases.CASES, *demo_gate.CASES],
    "scripted": scripted_cases.CASES,
    "gated": [
        *gate_cases.CASES,
        *gate_browser.CASES,
        *gate_overtaken.CASES,
        *gate_routes.CASES,
        *gate_mixes.CASES,
    ],
    "street": gate_cases.STREET,
    "square": gate_cases.SQUARE,
}
AGENTS = HERE / "agents"
TARGETS = {
    "demo": (),
    "scripted": (str(AGENTS / "scripted.py"),),
    "gated": (str(AGENTS / "gated.py"), "--policy", str(AGENTS / "policy.toml")),
    "street": ("gated:street",),
    "square": ("gated:square",),
}
# No limit on how fast a suite may talk; comments often enough to meet one.
ENVIRONMENT = {
    "ADKWIRE_CHATS_PER_MINUTE": "0",
    "ADKWIRE_HEARTBEAT": "0.2",
    "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(AGENTS)])),
}

Runs = Callable[[str], dict[str, Record]]


def _serve(suite: str, folder: Path) -> Iterator[Runs]:
    ledger = folder / "ledger.jsonl"
    with serve(*TARGETS[suite], cwd=folder, env={**ENVIRONMENT, "LEDGER": str(ledger)}) as server:

        @functools.cache
        def run(version: str) -> dict[str, Record]:
            jobs = [case.job(case.chat(version)) for case in SUITES[suite]]
            return with_ledger(drive(packages()[version], server.url, jobs), ledger)

        yield run


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The demo server; call it with a version for that client's records, made once."""
    yield from _serve("demo", tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The same with the scripted agent."""
    yield from _serve("scripted", tmp_path_factory.mktemp("scripted"))


@pytest.fixture(scope="session")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The same with the agent whose tools wait."""
    yield from _serve("gated", tmp_path_factory.mktemp("gated"))


@pytest.fixture(scope="session")
def street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The same with a sequence of agents as the root."""
    yield from _serve("street", tmp_path_factory.mktemp("street"))


@pytest.fixture(scope="session")
def square(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The same with agents side by side as the root."""
    yield from _serve("square", tmp_path_factory.mktemp("square"))


@pytest.mark.parametrize("case", SUITES["demo"], ids=lambda case: case.name)
@pytest.mark.parametrize("version", packages())
def test_the_demo(demo: Runs, version: str, case: Case) -> None:
    judge(case, demo(version)[case.name])


@pytest.mark.parametrize("case", SUITES["scripted"], ids=lambda case: case.name)
@pytest.mark.parametrize("version", packages())
def test_a_scripted_agent(scripted: Runs, version: str, case: Case) -> None:
    judge(case, scripted(version)[case.name])


@pytest.mark.parametrize("case", SUITES["gated"], ids=lambda case: case.name)
@pytest.mark.parametrize("version", packages())
def test_the_gate(gated: Runs, version: str, case: Case) -> None:
    judge(case, gated(version)[case.name])


@pytest.mark.parametrize("case", SUITES["street"], ids=lambda case: case.name)
@pytest.mark.parametrize("version", packages())
def test_the_gate_in_a_sequence(street: Runs, version: str, case: Case) -> None:
    judge(case, street(version)[case.name])


@pytest.mark.parametrize("case", SUITES["square"], ids=lambda case: case.name)
@pytest.mark.parametrize("version", packages())
def test_the_gate_side_by_side(square: Runs, version: str, case: Case) -> None:
    judge(case, square(version)[case.name])


@pytest.mark.parametrize("suite", SUITES)
def test_names_are_unique(suite: str) -> None:
    chats = [case.chat("") for case in SUITES[suite]]
    assert len(set(chats)) == len(chats)
