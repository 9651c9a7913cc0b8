"""Every reason for which a call is not executed has its texts: for the model, for a late answer, and on the page."""

import re
from typing import get_args

import pytest

from adkwire.adk.events import SUPERSEDED, not_executed_text
from adkwire.gate.judge import too_late_text
from adkwire.gate.records import VoidReason
from tests.docs.tables import ROOT

REASONS = get_args(VoidReason)
PAGE_TEXTS = dict(re.findall(r'\["([\w-]+)", "(.+)"\]', (ROOT / "web/client/src/live/settled-part.ts").read_text()))


@pytest.mark.parametrize("reason", REASONS)
def test_the_page_shows_the_text_of_the_model(reason: str) -> None:
    assert PAGE_TEXTS[reason] == not_executed_text(reason)


def test_no_two_reasons_have_the_same_text() -> None:
    assert len({not_executed_text(reason) for reason in REASONS}) == len(REASONS)
    assert len({too_late_text(reason) for reason in REASONS} - {too_late_text("executed")}) == len(REASONS)


def test_a_reason_that_is_not_known_is_no_guess() -> None:
    assert not_executed_text("?") != SUPERSEDED
