"""Helpers of this folder assert too: let pytest show what their assertions compared."""

import pytest

pytest.register_assert_rewrite("tests.runs.chats", "tests.runs.gated", "tests.runs.pages")
