"""Live conversations with the real `ai` packages: our transport with both majors, and the stock one of AI SDK 7."""

import functools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance import demo_gate, gate_mixes, live_cases
from tests.conformance.cases import Case
from tests.conformance.judge import judge
from tests.conformance.records import EVERYWHERE, Record, drive, live_columns, with_ledger
from tests.conformance.test_conformance import ENVIRONMENT, TARGETS, Runs
from tests.servers import serve

STOCK = {column for column in live_columns() if "stock" in column}
OURS = live_columns().keys() - STOCK


@functools.cache
def cases(suite: str, column: str) -> list[Case]:
    """Return the cases of a client in live."""
    stock = column in STOCK
    if suite == "demo":
        asked = [case for case in demo_gate.CASES if "Japanese" not in case.name]
        return [*live_cases.PICTURES, *(asked if stock else map(live_cases.held, asked))]
    return live_cases.column(mixes(column), stock=stock)


def mixes(column: str, *, emulated: bool = False) -> list[Case]:
    """The mixes of verdicts that a client does on this model."""
    if EVERYWHERE:
        return gate_mixes.CASES
    columns = list(live_columns())
    return live_cases.mixes(columns.index(column) + len(columns) * emulated, 2 * len(columns))


def by_column(suite: str, columns: set[str]) -> pytest.MarkDecorator:
    """The cases of a suite for each client, whose name comes first."""
    every = [(column, case) for column in live_columns() if column in columns for case in cases(suite, column)]
    return pytest.mark.parametrize(("column", "case"), every, ids=[f"{column}-{case.name}" for column, case in every])


def _serve(suite: str, modality: str, folders: pytest.TempPathFactory) -> Iterator[Runs]:
    with ExitStack() as running:

        @functools.cache
        def server(db: str) -> tuple[str, Path]:
            folder = folders.mktemp("live")
            ledger = folder / "ledger.jsonl"
            env = {**ENVIRONMENT, "ADKWIRE_DB": db, "LEDGER": str(ledger), "ADKWIRE_LIVE_MODALITY": modality}
            return running.enter_context(serve(*TARGETS[suite], cwd=folder, env=env)).url, ledger

        @functools.cache
        def run(name: str) -> dict[str, Record]:
            column = live_columns()[name]
            url, ledger = server(column.db)
            jobs = [case.job(case.chat(name)) for case in cases(suite, name)]
            return with_ledger(drive(column, url, jobs), ledger)

        yield run


@pytest.fixture(scope="module")
def aloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The gated agent, answering in audio and text."""
    yield from _serve("gated", "audio", tmp_path_factory)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The gated agent, answering in text only."""
    yield from _serve("gated", "text", tmp_path_factory)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The demo, answering in audio and text; for a stock client, too."""
    yield from _serve("demo", "audio", tmp_path_factory)


@by_column("gated", OURS)
def test_our_transport(aloud: Runs, column: str, case: Case) -> None:
    judge(case, aloud(column)[case.name])


@by_column("gated", STOCK)
def test_a_stock_transport(written: Runs, column: str, case: Case) -> None:
    judge(case, written(column)[case.name])


@by_column("demo", OURS | STOCK)
def test_the_demo(demo: Runs, column: str, case: Case) -> None:
    judge(case, demo(column)[case.name])


@pytest.mark.parametrize("column", live_columns())
def test_names_are_unique(column: str) -> None:
    for suite in ("gated", "demo"):
        chats = [case.chat("") for case in cases(suite, column)]
        assert len(set(chats)) == len(chats)


def test_every_mix_is_done_by_one_client_on_one_model() -> None:
    done = [
        case.name
        for column in live_columns()
        for emulated in (False, True)
        for case in mixes(column, emulated=emulated)
    ]
    assert set(done) == {case.name for case in gate_mixes.CASES}
    assert EVERYWHERE or len(done) == len(gate_mixes.CASES)


def test_what_is_left_out_is_there() -> None:
    left_out = live_cases.NOT_IN_LIVE.keys() | live_cases.LEFT_TO_STOCK.keys()
    assert left_out <= {case.name for case in live_cases.GATE}
