"""`make soak`: conversations of the real clients, until the server was killed KILLS times and their lines CUTS times.

Round after round, each fixed by its number, from SEED on: a part of it, or one round again, is `SEED=17 KILLS=10 CUTS=1
make soak`. It prints how it is getting on, and at the end what was lost, doubled and out of order.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.faults.cuts import Round, Stage, stage_in
from tests.faults.cuts_judge import Verdict
from tests.faults.cuts_plan import plans

SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "1000"))
CUTS = int(os.environ.get("CUTS", "10000"))
CONVERSATIONS = 8
EACH = 10
"""Kills in one round."""


async def soak(stage: Stage) -> Verdict:
    """Play rounds until it is enough."""
    total, kills, cuts, seed = Verdict(), 0, 0, SEED
    while kills < KILLS or cuts < CUTS:
        played = Round(stage, plans(seed, CONVERSATIONS, turns=2), min(EACH, KILLS - kills))
        verdict = await played.play(seed)
        for complaint in verdict.complaints:
            print(f"SEED={seed}: {complaint}")
        total, kills, cuts, seed = total + verdict, kills + played.kills, cuts + played.cuts, seed + 1
        print(f"round {seed - 1}: {_told(total, kills, cuts)}", flush=True)
    return total


def _told(total: Verdict, kills: int, cuts: int) -> str:
    zeros = f"lost {total.lost}, doubled {total.doubled}, reordered {total.reordered}"
    done = f"{kills} kills, {cuts} cuts, {total.resumes} resumes, {total.chunks} chunks"
    return f"{zeros} ({done}, {total.stopped} answers ended by a kill, {total.paid} payments)"


async def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        async with stage_in(Path(folder)) as stage:
            total = await soak(stage)
    print(f"lost {total.lost}, doubled {total.doubled}, reordered {total.reordered}")
    print(f"{len(total.complaints)} complaints" if total.complaints else "no complaints")
    return 1 if total.complaints else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
