"""Fixtures that every floor may use, and how tests are dealt out to the workers of `pytest -n`."""

import pytest
from xdist.remote import Producer  # pyright: ignore[reportMissingTypeStubs]
from xdist.scheduler import LoadScopeScheduling  # pyright: ignore[reportMissingTypeStubs]

SPLIT = {"tests/conformance/test_conformance.py", "tests/e2e/test_page.py"}


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


class Scheduling(LoadScopeScheduling):
    """A worker takes a file as a whole, so that what its tests share is made once.

    Of the files that take longest it takes those tests together whose parameters begin alike, up to the first dash.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        name, _, parameters = test.partition("[")
        group, dash, _ = parameters.partition("-")
        return f"{file}::{name}[{group}" if dash and file in SPLIT else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    # In the order of the folders: what takes longest happens to come first.
    config.option.loadscopereorder = False
    return Scheduling(config, log)
