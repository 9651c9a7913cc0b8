"""Helpers of this folder assert too: let pytest show what their assertions compared."""

import pytest

pytest.register_assert_rewrite(
    "tests.conformance.demo_cases",
    "tests.conformance.expected",
    "tests.conformance.records",
    "tests.conformance.scripted_cases",
)
