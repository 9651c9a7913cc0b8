"""The wire, judged by the real `ai` packages: stock clients of every pinned version against a running server."""

import functools
import os
import random
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
    socket_cases,
)
from tests.conformance.cases import Case
from tests.conformance.judge import judge
from tests.conformance.records import HERE, Record, columns, drive, newest, over_socket, packages, with_ledger
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
ON_SOCKETS = {"scripted": socket_cases.SCRIPTED, "gated": socket_cases.GATED}
ON_STOCK_SOCKETS = {"gated": socket_cases.STOCK}
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
    "ADKWIRE_SOCKETS_PER_USER": "1000",
    "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(AGENTS)])),
}

SEED = 6
SHARES = 3

Runs = Callable[[str], dict[str, Record]]


@functools.cache
def cases(suite: str, version: str) -> list[Case]:
    """What a client has to do: everything, but of the mixes only a share if others do them all."""
    left_out = mixes_left_out(version)
    every = SUITES[suite] if version in packages() else _on_sockets(suite, version)
    return [case for case in every if case.name not in left_out]


def mixes_left_out(version: str) -> set[str]:
    """None by the newest over HTTP and by the very newest over sockets; the others share them out among them."""
    last = list(newest())[-1]
    others = [known for known in columns() if known not in {*newest(), over_socket(last)}]
    if version not in others:
        return set()
    mixes = [case.name for case in gate_mixes.CASES]
    random.Random(SEED).shuffle(mixes)
    return set(mixes) - set(mixes[others.index(version) % SHARES :: SHARES])


def _on_sockets(suite: str, version: str) -> list[Case]:
    same = [case for case in SUITES[suite] if case.name not in socket_cases.LEFT_OUT]
    stock = [] if version.startswith("6.") else ON_STOCK_SOCKETS.get(suite, [])
    return [*same, *ON_SOCKETS.get(suite, []), *stock]


def by_column(suite: str) -> pytest.MarkDecorator:
    """The cases of a suite for each client. The version comes first in their names: it does all of them at once."""
    every = [(version, case) for version in columns() for case in cases(suite, version)]
    return pytest.mark.parametrize(
        ("version", "case"), every, ids=[f"{version}-{case.name}" for version, case in every]
    )


def _serve(suite: str, folder: Path) -> Iterator[Runs]:
    ledger = folder / "ledger.jsonl"
    with serve(*TARGETS[suite], cwd=folder, env={**ENVIRONMENT, "LEDGER": str(ledger)}) as server:

        @functools.cache
        def run(version: str) -> dict[str, Record]:
            jobs = [case.job(case.chat(version)) for case in cases(suite, version)]
            return with_ledger(drive(columns()[version], server.url, jobs), ledger)

        yield run


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The demo server; call it with a version for that client's records, made once."""
    yield from _serve("demo", tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The same with the scripted agent."""
    yield from _serve("scripted", tmp_path_factory.mktemp("scripted"))


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The same with the agent whose tools wait."""
    yield from _serve("gated", tmp_path_factory.mktemp("gated"))


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The same with a sequence of agents as the root."""
    yield from _serve("street", tmp_path_factory.mktemp("street"))


@pytest.fixture(scope="module")
def square(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The same with agents side by side as the root."""
    yield from _serve("square", tmp_path_factory.mktemp("square"))


@by_column("demo")
def test_the_demo(demo: Runs, version: str, case: Case) -> None:
    judge(case, demo(version)[case.name])


@by_column("scripted")
def test_a_scripted_agent(scripted: Runs, version: str, case: Case) -> None:
    judge(case, scripted(version)[case.name])


@by_column("gated")
def test_the_gate(gated: Runs, version: str, case: Case) -> None:
    judge(case, gated(version)[case.name])


@by_column("street")
def test_the_gate_in_a_sequence(street: Runs, version: str, case: Case) -> None:
    judge(case, street(version)[case.name])


@by_column("square")
def test_the_gate_side_by_side(square: Runs, version: str, case: Case) -> None:
    judge(case, square(version)[case.name])


@pytest.mark.parametrize("suite", SUITES)
def test_names_are_unique(suite: str) -> None:
    for version in columns():
        chats = [case.chat("") for case in cases(suite, version)]
        assert len(set(chats)) == len(chats)


@pytest.mark.parametrize("suite", SUITES)
def test_every_case_is_done_by_the_newest_and_by_two_at_least(suite: str) -> None:
    for case in SUITES[suite]:
        doing = {version for version in packages() if case in cases(suite, version)}
        assert newest().keys() <= doing, case.name
        assert len(doing) >= min(2, len(packages())), case.name


@pytest.mark.parametrize("suite", SUITES)
def test_what_the_newest_do_they_do_on_sockets_too(suite: str) -> None:
    for version in newest():
        left_out = {case.name for case in cases(suite, version)} - {
            case.name for case in cases(suite, over_socket(version))
        }
        assert left_out <= socket_cases.LEFT_OUT.keys() | mixes_left_out(over_socket(version))


def test_the_very_newest_leaves_no_mix_out() -> None:
    last = list(newest())[-1]
    assert (mixes_left_out(last), mixes_left_out(over_socket(last))) == (set(), set())


def test_what_is_left_out_is_there() -> None:
    assert {case.name for suite in SUITES.values() for case in suite} >= socket_cases.LEFT_OUT.keys()
