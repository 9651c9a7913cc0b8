"""One nursery for the tests of a module."""

from collections.abc import Generator

import pytest

from tests.faults.lives import ARGS, Host, hosting


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Generator[Host]:
    with hosting(tmp_path_factory.mktemp("host"), *ARGS) as host:
        yield host
