"""The wire, judged by the real `ai` packages: stock clients of every pinned version against a running server."""

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance import demo_cases, scripted_cases
from tests.conformance.cases import Case
from tests.conformance.judge import complaints
from tests.conformance.records import HERE, Record, drive, packages
from tests.servers import serve

SUITES = {"demo": demo_cases.CASES, "scripted": scripted_cases.CASES}
AGENTS = {"demo": (), "scripted": (str(HERE / "agents" / "scripted.py"),)}
# No limit on how fast a suite may talk; comments often enough to meet one.
ENVIRONMENT = {"ADKWIRE_CHATS_PER_MINUTE": "0", "ADKWIRE_HEARTBEAT": "0.2"}

Runs = Callable[[str], dict[str, Record]]


def _serve(suite: str, folder: Path) -> Iterator[Runs]:
    with serve(*AGENTS[suite], cwd=folder, env=ENVIRONMENT) as server:

        @functools.cache
        def run(version: str) -> dict[str, Record]:
            jobs = [case.job(_chat(version, case)) for case in SUITES[suite]]
            return drive(packages()[version], server.url, jobs)

        yield run


def _chat(version: str, case: Case) -> str:
    return re.sub(r"\W+", "-", f"{version}-{case.name}")


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The demo server; call it with a version for that client's records, made once."""
    yield from _serve("demo", tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The same with the scripted agent."""
    yield from _serve("scripted", tmp_path_factory.mktemp("scripted"))


@pytest.mark.parametrize("case", SUITES["demo"], ids=lambda case: case.name)
@pytest.mark.parametrize("version", packages())
def test_the_demo(demo: Runs, version: str, case: Case) -> None:
    _judge(case, demo(version)[case.name])


@pytest.mark.parametrize("case", SUITES["scripted"], ids=lambda case: case.name)
@pytest.mark.parametrize("version", packages())
def test_a_scripted_agent(scripted: Runs, version: str, case: Case) -> None:
    _judge(case, scripted(version)[case.name])


@pytest.mark.parametrize("suite", SUITES)
def test_names_are_unique(suite: str) -> None:
    names = [case.name for case in SUITES[suite]]
    assert len(set(names)) == len(names)


def _judge(case: Case, record: Record) -> None:
    found = complaints(case, record)
    assert not found, "\n".join(found)
    case.check(record)
