"""The live column on ADK's real `Gemini` class: the emulator speaks both dialects, with sound and with text."""

import functools
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance import live_cases
from tests.conformance.cases import Case
from tests.conformance.judge import judge
from tests.conformance.records import Record, drive, live_columns, with_ledger
from tests.conformance.test_conformance import AGENTS, ENVIRONMENT, Runs
from tests.conformance.test_live import STOCK
from tests.servers import serve

MODELS = {
    "2.5": ("gemini-2.5-flash-native-audio-preview-12-2025", "audio"),
    "3.x": ("gemini-3.1-flash-live-preview", "text"),
}
CHOSEN = {
    "approved",
    "denied with a reason",
    "in the next step",
    "one payment after the other",
    "two: approve, deny",
    "two: deny, approve, backwards",
    "browser call",
    "gated browser call approved",
    "mixed: approve",
    "typed over",
    "not paid, found, told: pay where clock",
    "live: interrupted, then asked again",
    "live: the second one first",
    "live: lost while it waits",
    "live: spoken",
    "live: spoken and typed in one chat, and asked",
    "live: approved elsewhere",
    "live: two pages, approved in the second",
    "switch: asked live, approved over http",
    "switch: asked over http, approved live",
    "switch: all the ways round",
}
IN_THE_HOLD = {"live: interrupted at the card", "live: spoken to at the card", "typed over a browser call"}
"""What the model does with a call that has no response yet when it is interrupted shows here."""


@functools.cache
def cases(column: str) -> list[Case]:
    """The chosen ones, and those of a call that waits with both habits of the model."""
    stock = column in STOCK
    known = [*(live_cases.stock() if stock else live_cases.ours()), *live_cases.switches(stock=stock)]
    chosen = [case for case in known if case.name in CHOSEN]
    held = [case for case in known if case.name in IN_THE_HOLD]
    return [*chosen, *held, *(replace(case, name=f"{KEPT}{case.name}") for case in held)]


KEPT = "not discarded: "


def _say(url: str, text: str) -> None:
    message = {"id": text, "role": "user", "parts": [{"type": "text", "text": text}]}
    body = json.dumps({"id": text.replace(" ", "-"), "messages": [message], "trigger": "submit-message"}).encode()
    asked = urllib.request.Request(f"{url}/api/chat", body, {"content-type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        answer.read()


def _serve(dialect: str, folder: Path) -> Iterator[Runs]:
    ledger = folder / "ledger.jsonl"
    model, modality = MODELS[dialect]
    environment = {**ENVIRONMENT, "LEDGER": str(ledger), "MODEL": model, "ADKWIRE_LIVE_MODALITY": modality}
    with serve(str(AGENTS / "emulated.py"), "--policy", str(AGENTS / "policy.toml"), cwd=folder, env=environment) as on:

        def some(column: str, *, kept: bool) -> dict[str, Record]:
            _say(on.url, f"discards {'no' if kept else 'yes'}")
            jobs = [case.job(case.chat(column)) for case in cases(column) if case.name.startswith(KEPT) == kept]
            return drive(live_columns()[column], on.url, jobs)

        @functools.cache
        def run(column: str) -> dict[str, Record]:
            return with_ledger(some(column, kept=False) | some(column, kept=True), ledger)

        yield run


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Gemini 2.5, with sound."""
    yield from _serve("2.5", tmp_path_factory.mktemp("gemini-2"))


@pytest.fixture(scope="module")
def third(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Gemini 3.x, with text."""
    yield from _serve("3.x", tmp_path_factory.mktemp("gemini-3"))


OLDER, NEWER = sorted(live_columns().keys() - STOCK)
"""Our transport with each major: one for each dialect is enough, since both do everything on the scripted model."""


def by_column(*columns: str) -> pytest.MarkDecorator:
    """The cases of these clients."""
    every = [(column, case) for column in columns for case in cases(column)]
    return pytest.mark.parametrize(("column", "case"), every, ids=[f"{column}-{case.name}" for column, case in every])


@by_column(OLDER, *STOCK)
def test_the_second_dialect(second: Runs, column: str, case: Case) -> None:
    judge(case, second(column)[case.name])


@by_column(NEWER, *STOCK)
def test_the_third_dialect(third: Runs, column: str, case: Case) -> None:
    judge(case, third(column)[case.name])


def test_what_is_chosen_is_there() -> None:
    names = {case.name for column in live_columns() for case in cases(column)}
    assert names >= CHOSEN | IN_THE_HOLD
