"""What each further reader of a run costs: a turn of 200 chunks with 1, 2, 6 and 11 readers, not paced.

With pacing only three chunks of this model's answer would be left. All readers are connected while the answer is
written; a reader that connects later gets it in few large pieces, which is cheaper.
"""

import asyncio
from collections.abc import Callable, Sequence

from adkwire import Settings
from adkwire.bridge import Bridge
from bench.agents.flood.agent import root_agent
from bench.bridge_turn import bridged_turns
from bench.measure import Effort, Line, at_most, cpu_of, in_turn, process_cpu, spread
from bench.reader_clients import ReadTogether, by_socket, by_sse
from bench.servers import Server, serving

CHUNKS = 200
READERS = (1, 2, 6, 11)
_FULL = READERS[1:]
_TURNS = 3
_TRIES = 20


def lines(effort: Effort) -> list[Line]:
    """Measure in process, over HTTP with the log in memory, where every chunk is a write, and with SQLite."""
    rounds = effort.rounds(11, 3)
    return [*_in_process(rounds), *_over_http("memory", rounds), *_over_http("SQLite", rounds)]


def _over_http(log: str, rounds: int) -> list[Line]:
    with serving(["adkwire, no pacing"], memory=log == "memory") as servers:
        (server,) = servers.values()
        by_http = _measured(lambda readers: _cpu_of_turns(server, by_sse, readers), rounds)
        on_sockets = _measured(lambda readers: _cpu_of_turns(server, by_socket, readers), rounds)
    return [*_lines(f"SSE, {log}", by_http, _FULL), *_lines(f"sockets, {log}", on_sockets, _FULL[-1:])]


def _in_process(rounds: int) -> list[Line]:
    with asyncio.Runner() as runner:
        bridge = Bridge(root_agent, settings=Settings.load(db="memory:", events_per_second=0, ui=False))
        costs = _measured(
            lambda readers: cpu_of(lambda: runner.run(bridged_turns(bridge, CHUNKS, _TURNS, readers))), rounds
        )
        runner.run(bridge.close())
    return _lines("in process, memory", costs, _FULL)


def _measured(cost: Callable[[int], float], rounds: int) -> dict[int, list[float]]:
    def of(readers: int) -> Callable[[], float]:
        return lambda: cost(readers)

    costs = in_turn({str(readers): of(readers) for readers in READERS}, rounds, warm_up=1)
    return {int(readers): values for readers, values in costs.items()}


def _lines(where: str, costs: dict[int, list[float]], shown: Sequence[int]) -> list[Line]:
    return [_line(f"each of {count - 1} further readers, {where}", costs, count) for count in shown]


def _line(what: str, costs: dict[int, list[float]], count: int) -> Line:
    alone = costs[1]
    each = [(many - one) / (count - 1) for many, one in zip(costs[count], alone, strict=True)]
    measured = spread([more / one for more, one in zip(each, alone, strict=True)])
    own, run = (spread(values).median / _TURNS * 1e3 for values in (each, alone))
    return Line(what, "the run with one", measured, at_most(0.1), f"{own:.1f} / {run:.0f} ms CPU")


def _cpu_of_turns(server: Server, read_together: ReadTogether, readers: int) -> float:
    """Return the server's CPU for a few turns; tries again when a reader connected too late."""
    for _ in range(_TRIES):
        before = process_cpu(server.pid)
        if asyncio.run(_all_in_time(server, read_together, readers)):
            return process_cpu(server.pid) - before
    raise RuntimeError(f"{readers} readers never connected in time: the machine is too busy to measure this")


async def _all_in_time(server: Server, read_together: ReadTogether, readers: int) -> bool:
    async with asyncio.timeout(60):
        return all([await read_together(server, CHUNKS, readers) for _ in range(_TURNS)])
