"""`make soak`: conversations of the real clients, until the server was killed KILLS times and their lines CUTS times;
then FRAMES wrong frames on live sockets.

Round after round, each fixed by its number, from SEED on: a part of it, or one round again, is `SEED=17 KILLS=10 CUTS=1
FRAMES=0 make soak`. It prints how it is getting on, and at the end what was lost, doubled and out of order, and what
should not have come of the frames.
"""

import asyncio
import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from adkwire import create_app
from adkwire.server.sockets.uvicorn_protocol import UvicornProtocol
from adkwire.testing import Say, ScriptedModel
from tests.faults.cuts import Round, Stage, stage_in
from tests.faults.cuts_judge import Verdict
from tests.faults.cuts_plan import plans
from tests.faults.live_fuzz import Fuzzed, fuzz
from tests.server.app_server import serving
from tests.support.chats import scripted, settings
from tests.support.fixtures import leaked_since

SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "1000"))
CUTS = int(os.environ.get("CUTS", "10000"))
FRAMES = int(os.environ.get("FRAMES", "100000"))
CONVERSATIONS = 8
EACH = 10
"""Kills in one round."""
FRAMES_EACH = 5_000
LIMITS = {"controls_per_second": 200, "max_body_bytes": 200_000, "sockets_per_user": 50, "live_grace": 0}
SETTLED = 20.0
"""Seconds for a server to end what sockets have left."""


async def soak(stage: Stage) -> Verdict:
    """Play rounds until it is enough."""
    total, kills, cuts, seed = Verdict(), 0, 0, SEED
    while kills < KILLS or cuts < CUTS:
        played = Round(stage, plans(seed, CONVERSATIONS, turns=2), min(EACH, KILLS - kills))
        verdict = await played.play(seed)
        for complaint in verdict.complaints:
            print(f"SEED={seed}: {complaint}")
        total, kills, cuts, seed = total + verdict, kills + played.kills, cuts + played.cuts, seed + 1
        print(f"round {seed - 1}: {_progress(total, kills, cuts)}", flush=True)
    return total


def _progress(total: Verdict, kills: int, cuts: int) -> str:
    zeros = f"lost {total.lost}, doubled {total.doubled}, reordered {total.reordered}"
    done = f"{kills} kills, {cuts} cuts, {total.resumes} resumes, {total.chunks} chunks"
    return f"{zeros} ({done}, {total.stopped} answers ended by a kill, {total.paid} payments)"


async def wrong_frames(folder: Path) -> list[str]:
    """Fuzz a new server in each round; return what was wrong."""
    complaints, sent, seed = list[str](), 0, SEED
    while sent < FRAMES:
        found = await fuzz_round(folder, min(FRAMES_EACH, FRAMES - sent), seed)
        for complaint in found.complaints:
            print(f"SEED={seed}: {complaint}")
        complaints += found.complaints
        sent, seed = sent + found.frames, seed + 1
        print(f"round {seed - 1}: {sent} wrong frames, {len(complaints)} complaints; {dict(found.closes)}", flush=True)
    return complaints


async def fuzz_round(folder: Path, frames: int, seed: int) -> Fuzzed:
    """Fuzz a new server for one round, and check that no task is left."""
    before, failed = asyncio.all_tasks(), Failures()
    logging.getLogger().addHandler(failed)
    given = settings(folder, db="memory:", ui=False, chats_per_minute=0, **LIMITS)
    app = create_app(scripted(ScriptedModel(script=lambda _: [Say("ok")])), settings=given)
    try:
        async with serving(app, ws=UvicornProtocol, ws_max_size=400_000) as site:
            found = await fuzz(site.port, frames, seed)
        await app.state.bridge.close()
        await _settled(before)
        found.complaints += [f"left running: {name}" for name in leaked_since(before)]
        found.complaints += failed.messages
        return found
    finally:
        logging.getLogger().removeHandler(failed)


async def _settled(before: set[asyncio.Task[Any]]) -> None:
    if left := asyncio.all_tasks() - before:
        await asyncio.wait(left, timeout=SETTLED)


class Failures(logging.Handler):
    """Keeps what a server logs as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


async def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        async with stage_in(Path(folder)) as stage:
            total = await soak(stage)
        wrong = await wrong_frames(Path(folder))
    complaints = [*total.complaints, *wrong]
    print(f"lost {total.lost}, doubled {total.doubled}, reordered {total.reordered}")
    print(f"{len(complaints)} complaints" if complaints else "no complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
