"""Helpers that tests of several packages share. pytest shows what their assertions compared."""

import pytest

pytest.register_assert_rewrite("tests.support.chats", "tests.support.gated_tools", "tests.support.pages")
