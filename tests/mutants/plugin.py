"""A pytest plugin: refuse to test anything but the mutated copy of the source."""

import os
from pathlib import Path

import pytest

COPY = "MUTANT_COPY"
"""The environment variable that names the folder with the copy."""
OTHER_SOURCE = 77
"""pytest's exit code when it would have tested something else than the copy."""


def pytest_collection_finish() -> None:
    """As a plugin of pytest: only the copy is tested."""
    import adkwire

    if not Path(adkwire.__file__).is_relative_to(os.environ[COPY]):
        pytest.exit(f"{adkwire.__file__} is not the copy", returncode=OTHER_SOURCE)
