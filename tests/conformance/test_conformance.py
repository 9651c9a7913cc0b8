"""The wire, judged by the real `ai` packages: stock clients of every pinned version against a running server."""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
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
from tests.conformance.matrix import shared_out, traits
from tests.conformance.records import (
    EVERYWHERE,
    HERE,
    Record,
    columns,
    drive,
    newest,
    over_socket,
    packages,
    thorough,
    with_ledger,
)
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

KINDS_OF_CHUNKS = {
    *("start", "start-step", "finish-step", "finish", "message-metadata", "error", "abort", "file", "source-url"),
    *("text-start", "text-delta", "text-end", "reasoning-start", "reasoning-delta", "reasoning-end"),
    *("tool-input-start", "tool-input-delta", "tool-input-available", "tool-approval-request"),
    *("tool-output-available", "tool-output-denied", "tool-output-error"),
    *("data-approval", "data-transfer", "data-state", "data-artifact", "data-pcm"),
    *("data-executable-code", "data-code-execution-result"),
}

Runs = Callable[[str], dict[str, Record]]


@functools.cache
def cases(suite: str, name: str) -> list[Case]:
    """Return what a client does, in the terms of `matrix`."""
    column = columns()[name]
    if column.sockets:
        return _over_sockets(suite, name)
    sharing = [version for version in packages() if version not in thorough()]
    version = name.partition(" ")[0]
    if version in sharing:
        return shared_out(SUITES[suite], sharing.index(version), len(sharing))
    return SUITES[suite]


def _over_sockets(suite: str, name: str) -> list[Case]:
    hands = list(map(over_socket, newest()))
    left_out = {*socket_cases.LEFT_OUT, *_mixes_left_out(hands.index(name.partition(" on ")[0]), len(hands))}
    same = [case for case in SUITES[suite] if case.name not in left_out]
    stock = [] if name.startswith("6.") else ON_STOCK_SOCKETS.get(suite, [])
    return [*same, *ON_SOCKETS.get(suite, []), *stock]


def _mixes_left_out(hand: int, hands: int) -> set[str]:
    """Return the mixes that another client does over sockets; the answers travel as they do over HTTP."""
    mixes = [case.name for case in gate_mixes.CASES]
    return set[str]() if EVERYWHERE else set(mixes) - set(mixes[hand::hands])


def by_column(suite: str) -> pytest.MarkDecorator:
    """The cases of a suite for each client. The version comes first in their names: it does all of them at once."""
    every = [(version, case) for version in columns() for case in cases(suite, version)]
    return pytest.mark.parametrize(
        ("version", "case"), every, ids=[f"{version}-{case.name}" for version, case in every]
    )


def serving(suite: str, folders: pytest.TempPathFactory) -> Iterator[Runs]:
    """Servers of a suite, one for each store, made when a client needs one; call it with a client for its records."""
    with ExitStack() as running:

        @functools.cache
        def server(db: str) -> tuple[str, Path]:
            folder = folders.mktemp(suite)
            ledger = folder / "ledger.jsonl"
            env = {**ENVIRONMENT, "ADKWIRE_DB": db, "LEDGER": str(ledger)}
            return running.enter_context(serve(*TARGETS[suite], cwd=folder, env=env)).url, ledger

        @functools.cache
        def run(version: str) -> dict[str, Record]:
            column = columns()[version]
            url, ledger = server(column.db)
            jobs = [case.job(case.chat(version)) for case in cases(suite, version)]
            return with_ledger(drive(column, url, jobs), ledger)

        yield run


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The demo server."""
    yield from serving("demo", tmp_path_factory)


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The scripted agent."""
    yield from serving("scripted", tmp_path_factory)


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The gated agent."""
    yield from serving("gated", tmp_path_factory)


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """A sequence of agents as the root."""
    yield from serving("street", tmp_path_factory)


@pytest.fixture(scope="module")
def square(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Parallel agents as the root."""
    yield from serving("square", tmp_path_factory)


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


@pytest.mark.parametrize("version", columns(), ids=[f"{version}-all" for version in columns()])
def test_every_client_meets_every_kind_of_chunk(demo: Runs, scripted: Runs, gated: Runs, version: str) -> None:
    """Sharing scenarios out leaves no client without a kind of chunk; `matrix.ONLY_ONE` names what it must not miss."""
    records = [record for runs in (demo, scripted, gated) for record in runs(version).values()]
    met = {chunk["type"] for record in records for page in record.pages.values() for chunk in page.chunks}
    assert met == KINDS_OF_CHUNKS


@pytest.mark.parametrize("suite", SUITES)
def test_names_are_unique(suite: str) -> None:
    for version in columns():
        chats = [case.chat("") for case in cases(suite, version)]
        assert len(set(chats)) == len(chats)


@pytest.mark.parametrize("suite", SUITES)
def test_the_thorough_do_everything_and_the_others_together(suite: str) -> None:
    every = {case.name for case in SUITES[suite]}
    for version in thorough():
        assert {case.name for case in cases(suite, version)} == every
    sharing = [version for version in packages() if version not in thorough()]
    assert {case.name for version in sharing for case in cases(suite, version)} == (every if sharing else set())


@pytest.mark.parametrize("suite", SUITES)
def test_every_client_meets_every_trait(suite: str) -> None:
    every = {trait for case in SUITES[suite] for trait in traits(case)}
    for version in packages():
        assert {trait for case in cases(suite, version) for trait in traits(case)} == every


@pytest.mark.parametrize("suite", SUITES)
def test_sockets_leave_out_only_what_is_named(suite: str) -> None:
    done = [{case.name for case in cases(suite, over_socket(version))} for version in newest()]
    every = {case.name for case in SUITES[suite]} - socket_cases.LEFT_OUT.keys()
    assert set[str]().union(*done) >= every
    mixes = {case.name for case in gate_mixes.CASES}
    for one in done:
        assert one >= every - mixes


def test_what_is_left_out_is_there() -> None:
    assert {case.name for suite in SUITES.values() for case in suite} >= socket_cases.LEFT_OUT.keys()
