"""Fixtures that every floor may use, and how tests are dealt out to the workers of `pytest -n`."""

import pytest
from xdist.remote import Producer  # pyright: ignore[reportMissingTypeStubs]
from xdist.scheduler import LoadScopeScheduling  # pyright: ignore[reportMissingTypeStubs]

from tests.delays import install_if_wished
from tests.support.fixtures import make, open_page

__all__ = ["make", "open_page"]

install_if_wished()

SPLIT = (
    "tests/conformance/test_conformance.py",
    "tests/conformance/test_live.py",
    "tests/conformance/test_live_gemini.py",
    "tests/e2e/test_page.py",
)
"""Files that take so long that several workers share each."""
FIRST = (
    "tests/e2e/",
    "tests/conformance/",
    "tests/faults/",
    "tests/runs/test_stateful.py",
    "tests/docs/",
    "tests/test_",
)
"""Tests that take longest. What begins last must be short, or one worker would work alone at the end."""


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


class Scheduling(LoadScopeScheduling):
    """Assigns whole files to workers, so that module fixtures are made once.

    Of the files in `SPLIT` a worker takes those tests together whose parameters begin alike, up to the first dash.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        group, dash, _ = test.partition("[")[2].partition("-")
        return f"{file}[{group}" if dash and file in SPLIT else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    # As they were collected: `pytest_collection_modifyitems` has put them in order.
    config.option.loadscopereorder = False
    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files that take longest first; within a file the order is kept."""
    items.sort(key=lambda item: next((i for i, start in enumerate(FIRST) if item.nodeid.startswith(start)), len(FIRST)))
