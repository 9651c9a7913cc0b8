"""Turns per CPU second over HTTP: 200 chunks each, one, ten and fifty at a time, every turn in a new chat."""

import asyncio
import contextlib
from collections.abc import Callable, Generator

from bench.http_client import turns
from bench.measure import Effort, Goal, Line, at_least, in_turn, process_cpu, ratios, spread
from bench.servers import CONTENDERS, Server, serving

CHUNKS = 200


def lines(effort: Effort) -> list[Line]:
    """Measure without and with pacing, against both peers, at each concurrency.

    In memory all have the same session service. On SQLite each has its own: adkwire's keeps one connection and a
    write-ahead log, ADK's does not, and at fifty turns at a time fails some of them with `database is locked`.
    """
    found = list[Line]()
    with _warm_servers(memory=True) as servers:
        found += _lines(servers, 1, effort.rounds(7, 3), "memory")
        found += _lines(servers, 10, effort.rounds(3, 1), "memory")
        found += [] if effort.quick else _lines(servers, 50, 3, "memory")
    if not effort.quick:
        with _warm_servers(memory=False) as servers:
            found += _lines(servers, 10, 3, "SQLite")
    return found


@contextlib.contextmanager
def _warm_servers(*, memory: bool) -> Generator[dict[str, Server]]:
    with serving(list(CONTENDERS), memory=memory) as servers:
        for server in servers.values():
            asyncio.run(turns(server, CHUNKS, 3, 1))
        yield servers


def _lines(servers: dict[str, Server], concurrency: int, rounds: int, sessions: str) -> list[Line]:
    count = max(4, concurrency)
    costs = in_turn(
        {name: cpu_per_turn(server, count, concurrency) for name, server in servers.items()}, rounds, warm_up=0
    )

    def line(ours: str, peer: str, goal: Goal) -> Line:
        own, other = (1 / spread(costs[name]).median for name in (ours, peer))
        pacing = "not paced" if "no pacing" in ours else "paced"
        what = f"turns per CPU second, {concurrency} at a time, {sessions}, {pacing}"
        return Line(what, peer, ratios(costs[peer], costs[ours]), goal, f"{own:.1f} / {other:.1f} turns")

    return [
        line("adkwire, no pacing", "ADK /run_sse", at_least(1.3)),
        line("adkwire, no pacing", "ag-ui-adk", at_least(1.5)),
        line("adkwire", "ADK /run_sse", at_least(3)),
        line("adkwire", "ag-ui-adk", at_least(3)),
    ]


def cpu_per_turn(server: Server, count: int, concurrency: int) -> Callable[[], float]:
    """Return a function that measures the CPU of a server per turn, so many at a time."""

    def measured() -> float:
        before = process_cpu(server.pid)
        asyncio.run(turns(server, CHUNKS, count, concurrency))
        return (process_cpu(server.pid) - before) / count

    return measured
