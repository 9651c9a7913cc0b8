"""Our transports with both majors of `ai`: wherever connections are cut, a chat gets every chunk once and in order.

`SEED=7 pytest tests/faults/test_cuts.py` for other conversations, `make soak` for many.
"""

import os
from collections.abc import AsyncGenerator

import pytest

from tests.faults.cuts import Round, Stage, stage_in
from tests.faults.cuts_judge import Verdict
from tests.faults.cuts_plan import plans

SEED = int(os.environ.get("SEED", "1"))
CONVERSATIONS = 30
KILLS = 4


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    async with stage_in(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


def assert_exact(verdict: Verdict) -> None:
    print(verdict)
    assert not verdict.complaints, "\n".join(verdict.complaints)
    assert (verdict.lost, verdict.doubled, verdict.reordered) == (0, 0, 0)


async def test_cuts_are_not_noticed(stage: Stage) -> None:
    cut = Round(stage, plans(SEED, CONVERSATIONS, turns=1))
    verdict = await cut.play(SEED)
    assert_exact(verdict)
    assert verdict.stopped == 0
    assert cut.cuts > 4 * CONVERSATIONS
    assert verdict.resumes > 2 * CONVERSATIONS


async def test_an_answer_whose_server_is_killed_ends_with_an_error_and_the_chat_goes_on(stage: Stage) -> None:
    killed = Round(stage, plans(SEED + 1, CONVERSATIONS, turns=1), KILLS)
    verdict = await killed.play(SEED)
    assert_exact(verdict)
    assert verdict.stopped > KILLS
    assert killed.cuts > 4 * CONVERSATIONS
