"""A pytest plugin: refuse to test anything but the mutated copy of the source."""

import os
from pathlib import Path

import pytest

COPY = "MUTANT_COPY"
"""The environment variable that names the folder with the copy."""
OTHER_SOURCE = 77
"""The exit code of pytest if the tests would import another source than the copy."""


def pytest_collection_finish() -> None:
    """End pytest if the tests would import another source than the copy."""
    import adkwire

    if not Path(adkwire.__file__).is_relative_to(os.environ[COPY]):
        pytest.exit(f"{adkwire.__file__} is not the copy", returncode=OTHER_SOURCE)
