"""The live column once more, on ADK's real `Gemini` class: the emulator speaks both dialects, aloud and in writing.

The stock client does all of it; ours share it out, and with which model it is done goes round (`matrix`).
"""

import functools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conformance import gate_mixes, live_cases
from tests.conformance.cases import Case
from tests.conformance.judge import judge
from tests.conformance.records import EVERYWHERE, MEMORY, Record, drive, live_columns, with_ledger
from tests.conformance.test_conformance import AGENTS, ENVIRONMENT
from tests.conformance.test_live import STOCK, mixes
from tests.conformance.test_live import cases as live_demo_cases
from tests.servers import Server, serve

SILENT = "Gemini is silent until it has the response of a function that is declared as usual; `order` is not."
NOT_ON_GEMINI = {"live: the model speaks while it waits": SILENT, "live: interrupted while it waits": SILENT}
NOT_IN_TEXT = {**NOT_ON_GEMINI, "live: sound and text": "What is written makes no sound."}


@dataclass(frozen=True)
class Gemini:
    """A model, how it answers, and whether an interruption makes the calls void that have no response yet."""

    name: str
    modality: str
    discards: bool
    left_out: Mapping[str, str]
    """The cases that are impossible with this model, and why."""


SECOND, THIRD = "gemini-2.5-flash-native-audio-preview-12-2025", "gemini-3.1-flash-live-preview"
MODELS = {
    "2.5": Gemini(SECOND, "audio", discards=True, left_out=NOT_ON_GEMINI),
    "2.5 that keeps calls": Gemini(SECOND, "audio", discards=False, left_out=NOT_ON_GEMINI),
    "3.x": Gemini(THIRD, "audio", discards=True, left_out=NOT_ON_GEMINI),
    "3.x in text that keeps calls": Gemini(THIRD, "text", discards=False, left_out=NOT_IN_TEXT),
}
IN_THE_HOLD = {"live: interrupted at the card", "live: spoken to at the card", "typed over a browser call"}
"""What the model does with a call that has no response yet when it is interrupted shows here: done with each model."""

OURS = sorted(live_columns().keys() - STOCK)
AT_HOME = dict.fromkeys(STOCK, "2.5")
"""The model of a client that does everything with one; others go from one to the next."""
LEDGER = "ledger.jsonl"
MIXES = {case.name for case in gate_mixes.CASES}

Runs = Callable[[str, str], dict[str, Record]]
Cases = Callable[[str, str], list[Case]]


@functools.cache
def known(column: str) -> list[Case]:
    """Return all cases of a client."""
    return live_cases.column(mixes(column, emulated=True), stock=column in STOCK)


@functools.cache
def cases(model: str, column: str) -> list[Case]:
    """Return the cases of a client with this model."""
    return [case for index, case in enumerate(known(column)) if model in _places(column, case, index)]


@functools.cache
def demo_cases(model: str, column: str) -> list[Case]:
    """Return the cases of a client on the demo with this model."""
    if EVERYWHERE:
        return live_demo_cases("demo", column)
    return live_cases.PICTURES if model == AT_HOME.get(column, "3.x") else []


def _places(column: str, case: Case, index: int) -> list[str]:
    """Return the models with which a client does the case that has this place in its list."""
    able = [model for model, gemini in MODELS.items() if case.name not in gemini.left_out]
    if EVERYWHERE or case.name in IN_THE_HOLD or not able:
        return able
    if column in AT_HOME:
        return [AT_HOME[column]]
    turn, hand = divmod(index, len(OURS))
    is_mine = hand == OURS.index(column) or case.name in MIXES
    return [able[turn % len(able)]] if is_mine else []


AGENT = (str(AGENTS / "emulated.py"), "--policy", str(AGENTS / "policy.toml"))
DEMO = (str(AGENTS / "emulated_demo.py"),)


def _serve(agent: Sequence[str], gemini: Gemini, folder: Path) -> AbstractContextManager[Server]:
    environment = {
        **ENVIRONMENT,
        "ADKWIRE_DB": MEMORY,
        "LEDGER": str(folder / LEDGER),
        "MODEL": gemini.name,
        "DISCARDS": "yes" if gemini.discards else "",
        "ADKWIRE_LIVE_MODALITY": gemini.modality,
    }
    return serve(*agent, cwd=folder, env=environment)


@contextmanager
def _running(agent: Sequence[str], cases: Cases, folders: pytest.TempPathFactory) -> Generator[Runs]:
    with ExitStack() as running:

        @functools.cache
        def house(model: str) -> tuple[str, Path]:
            folder = folders.mktemp("gemini")
            return running.enter_context(_serve(agent, MODELS[model], folder)).url, folder

        @functools.cache
        def run(model: str, column: str) -> dict[str, Record]:
            url, folder = house(model)
            jobs = [case.job(case.chat(column)) for case in cases(model, column)]
            return with_ledger(drive(live_columns()[column], url, jobs), folder / LEDGER)

        yield run


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The agents whose tools wait. Call it with a model and a client for that one's records, made once."""
    with _running(AGENT, cases, tmp_path_factory) as runs:
        yield runs


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The demo. Call it with a model and a client for the records, made once."""
    with _running(DEMO, demo_cases, tmp_path_factory) as runs:
        yield runs


def by_model(cases: Cases) -> pytest.MarkDecorator:
    """The cases for each model and client, whose names come first."""
    every = [(model, column, case) for model in MODELS for column in live_columns() for case in cases(model, column)]
    names = [f"{model}-{column}-{case.name}" for model, column, case in every]
    return pytest.mark.parametrize(("model", "column", "case"), every, ids=names)


@by_model(cases)
def test_a_real_gemini(emulated: Runs, model: str, column: str, case: Case) -> None:
    judge(case, emulated(model, column)[case.name])


@by_model(demo_cases)
def test_the_demo(demo: Runs, model: str, column: str, case: Case) -> None:
    judge(case, demo(model, column)[case.name])


@pytest.mark.parametrize("clients", [OURS, sorted(STOCK)], ids=["ours", "stock"])
def test_nothing_is_left_out_but_what_cannot_happen(clients: list[str]) -> None:
    done = {case.name for column in clients for model in MODELS for case in cases(model, column)}
    assert {case.name for column in clients for case in known(column)} - done <= NOT_ON_GEMINI.keys()


@pytest.mark.parametrize("model", MODELS)
def test_every_client_of_ours_meets_every_model(model: str) -> None:
    assert all(cases(model, column) for column in OURS)


def test_what_is_named_is_there() -> None:
    names = {case.name for column in live_columns() for case in known(column)}
    assert names >= IN_THE_HOLD | NOT_IN_TEXT.keys()
