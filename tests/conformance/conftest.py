"""Helpers of this folder assert too: let pytest show what their assertions compared."""

import pytest

pytest.register_assert_rewrite(
    "tests.conformance.demo_cases",
    "tests.conformance.demo_gate",
    "tests.conformance.expected",
    "tests.conformance.gate_browser",
    "tests.conformance.gate_cases",
    "tests.conformance.gate_expected",
    "tests.conformance.gate_mixes",
    "tests.conformance.gate_overtaken",
    "tests.conformance.gate_routes",
    "tests.conformance.judge",
    "tests.conformance.live_cases",
    "tests.conformance.records",
    "tests.conformance.scripted_cases",
    "tests.conformance.socket_cases",
)
