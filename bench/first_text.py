"""The time until the first event and the first text of a short turn, one turn at a time, with default settings."""

import asyncio
from collections.abc import Callable

from bench.http_client import Latency, turn
from bench.measure import Effort, Line, at_most, in_turn, ratios, spread
from bench.servers import Server, serving

CHUNKS = 5


def lines(effort: Effort) -> list[Line]:
    """Compare with the same session service in memory for both, and with SQLite as each ships it."""
    rounds = effort.rounds(41, 15)
    return [*_lines("memory", rounds, memory=True), *_lines("SQLite", rounds, memory=False)]


def _lines(sessions: str, rounds: int, *, memory: bool) -> list[Line]:
    with serving(["adkwire", "ADK /run_sse"], memory=memory) as servers:
        waits = in_turn({name: _one(server) for name, server in servers.items()}, rounds, warm_up=10)
    ours, theirs = waits["adkwire"], waits["ADK /run_sse"]
    return [
        _line(f"first chunk, {sessions}", [wait.chunk for wait in ours], [wait.chunk for wait in theirs], 0.1),
        _line(f"first text, {sessions}", [wait.text for wait in ours], [wait.text for wait in theirs], 0.6),
    ]


def _line(what: str, ours: list[float], theirs: list[float], limit: float) -> Line:
    """Compare wall time instead of CPU time, because a person waits by the clock."""
    own, other = (spread(values).median * 1e3 for values in (ours, theirs))
    detail = f"{own:.1f} / {other:.1f} ms"
    return Line(what, "ADK /run_sse", ratios(ours, theirs), at_most(limit), detail)


def _one(server: Server) -> Callable[[], Latency]:
    return lambda: asyncio.run(turn(server, CHUNKS))
