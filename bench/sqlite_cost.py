"""What it costs to keep chats in SQLite: adkwire against itself with `memory:`. There is no goal for it."""

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from adkwire import Settings
from adkwire.bridge import Bridge
from adkwire.stores.memory import MemoryStreamLog
from adkwire.stores.sqlite.streams import SqliteStreamLog
from adkwire.stores.stores import Stores
from bench.agents.flood.agent import root_agent
from bench.bridge_turn import bridged_turns
from bench.measure import Effort, Line, cpu_of, in_turn, ratios, spread
from bench.servers import serving
from bench.turns import CHUNKS, cpu_per_turn

_TURNS = 3


def lines(effort: Effort) -> list[Line]:
    """Compare the stream log alone, in process, and all stores, over HTTP."""
    return [
        *(_log_line(effort.rounds(15, 5), pacing=pacing) for pacing in (0, 30)),
        *_server_lines(1, effort.rounds(7, 3)),
        *_server_lines(10, effort.rounds(5, 1)),
    ]


def _server_lines(concurrency: int, rounds: int) -> list[Line]:
    ours = ["adkwire, no pacing", "adkwire"]
    with serving(ours) as with_file, serving(ours, memory=True) as in_memory:
        servers = {"SQLite": with_file, "memory": in_memory}
        count = max(4, concurrency)
        costs = in_turn(
            {
                f"{name}, {where}": cpu_per_turn(servers[where][name], count, concurrency)
                for name in ours
                for where in servers
            },
            rounds,
            warm_up=1,
        )

    def line(name: str, pacing: str) -> Line:
        file, memory = costs[f"{name}, SQLite"], costs[f"{name}, memory"]
        own, other = (1 / spread(cost).median for cost in (file, memory))
        what = f"turns per CPU second, {concurrency} at a time, SQLite, {pacing}"
        return Line(what, "adkwire --db memory:", ratios(memory, file), None, f"{own:.1f} / {other:.1f} turns")

    return [line("adkwire, no pacing", "not paced"), line("adkwire", "paced")]


def _log_line(rounds: int, *, pacing: float) -> Line:
    settings = Settings.load(db="memory:", events_per_second=pacing, ui=False)
    ttl, most, most_of_one = settings.stream_ttl, settings.stream_bytes, settings.stream_run_bytes
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        file = Path(folder) / "log.db"
        logs = {
            "SQLite": SqliteStreamLog(file, ttl=ttl, max_bytes=most, max_run_bytes=most_of_one),
            "memory": MemoryStreamLog(ttl=ttl, max_bytes=most, max_run_bytes=most_of_one),
        }
        bridges = {
            where: Bridge(root_agent, settings=settings, stores=replace(Stores.open(settings), log=log))
            for where, log in logs.items()
        }
        costs = in_turn({where: _timed(runner, bridge) for where, bridge in bridges.items()}, rounds, warm_up=2)
        for bridge in bridges.values():
            runner.run(bridge.close())
    own, other = (_TURNS / spread(costs[where]).median for where in logs)
    what = f"turns per CPU second, in process, stream log in SQLite, {'paced' if pacing else 'not paced'}"
    return Line(
        what, "stream log in memory", ratios(costs["memory"], costs["SQLite"]), None, f"{own:.1f} / {other:.1f} turns"
    )


def _timed(runner: asyncio.Runner, bridge: Bridge) -> Callable[[], float]:
    return lambda: cpu_of(lambda: runner.run(bridged_turns(bridge, CHUNKS, _TURNS)))
