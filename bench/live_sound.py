"""Live sound against a bare ADK live server: CPU per piece, sessions per core, and memory of an idle session."""

import asyncio
import resource
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TypeAlias

from bench.live_clients import PIECE, LiveClient, both_ways, connect_clients, down, p95, up
from bench.live_in_process import BareSession, BridgeSession
from bench.measure import Effort, Line, at_least, at_most, cpu_of, in_turn, process_cpu, ratios, spread
from bench.servers import LIVE_CONTENDERS, Server, serving

Talk: TypeAlias = Callable[[Sequence[LiveClient], int], Coroutine[None, None, None]]

_OURS, _THEIRS = LIVE_CONTENDERS
_SESSIONS, _PIECES = 20, 75
_WAYS: dict[str, Talk] = {"up": up, "down": down, "both ways": both_ways}
_ALONE = 400
_STEP, _MOST = 10, 150
_LAG = 0.02
_TRIES = 3
_IDLE = 200
_AT_REST, _LOOK = 0.02, 1.0
"""CPU seconds within so many seconds below which a server counts as idle: it still sends pings to its sockets."""


def lines(effort: Effort) -> list[Line]:
    """Measure CPU per piece, sessions that a core carries, and memory of an idle session."""
    return [
        *_in_process(effort.rounds(15, 5)),
        *_on_sockets(effort.rounds(9, 3)),
        _knee(effort.rounds(3, 1)),
        _memory(effort.rounds(3, 1)),
    ]


def _on_sockets(rounds: int) -> list[Line]:
    with serving(list(LIVE_CONTENDERS), memory=True, among=LIVE_CONTENDERS) as servers, asyncio.Runner() as runner:
        clients = {name: runner.run(connect_clients(server, _SESSIONS)) for name, server in servers.items()}

        def measured(way: Talk) -> dict[str, list[float]]:
            def of(name: str) -> Callable[[], float]:
                return lambda: _server_cpu(servers[name], lambda: runner.run(way(clients[name], _PIECES)))

            return in_turn({name: of(name) for name in servers}, rounds)

        costs = {name: measured(way) for name, way in _WAYS.items()}
    found = [
        _line(f"live sound {way}, {_SESSIONS} sessions on sockets", cost, _SESSIONS * _PIECES)
        for way, cost in costs.items()
    ]
    return [*found, _by_cpu(costs["both ways"])]


def _by_cpu(costs: dict[str, list[float]]) -> Line:
    """Divide a core's CPU time by the CPU time of one session."""
    own, other = (_PIECES * PIECE * _SESSIONS / spread(costs[name]).median for name in (_OURS, _THEIRS))
    measured = ratios(costs[_THEIRS], costs[_OURS])
    detail = f"{own:.0f} / {other:.0f} sessions"
    return Line("live sessions by CPU time", _THEIRS, measured, at_least(1), detail)


def _in_process(rounds: int) -> list[Line]:
    with asyncio.Runner() as runner:
        sides = {_OURS: runner.run(BridgeSession.opened()), _THEIRS: runner.run(BareSession.opened())}

        def measured(answers: int) -> dict[str, list[float]]:
            def of(name: str) -> Callable[[], float]:
                return lambda: cpu_of(lambda: runner.run(sides[name].send_pieces(_ALONE, answers)))

            return in_turn({name: of(name) for name in sides}, rounds, warm_up=2)

        found = [
            _line("live sound up, in process", measured(0), _ALONE),
            _line("live sound both ways, in process", measured(1), _ALONE),
        ]
        for side in sides.values():
            runner.run(side.close())
    return found


def _line(what: str, costs: dict[str, list[float]], pieces: int) -> Line:
    own, other = (spread(costs[name]).median / pieces * 1e6 for name in (_OURS, _THEIRS))
    measured = ratios(costs[_OURS], costs[_THEIRS])
    return Line(what, _THEIRS, measured, at_most(1.15), f"{own:.0f} / {other:.0f} us per 20 ms")


def _server_cpu(server: Server, work: Callable[[], object]) -> float:
    before = process_cpu(server.pid)
    work()
    return process_cpu(server.pid) - before


def _knee(rounds: int) -> Line:
    """Measure how many sessions can talk both ways until more than 1 of 20 pieces is answered later than 20 ms."""
    with serving(list(LIVE_CONTENDERS), memory=True, among=LIVE_CONTENDERS) as servers, asyncio.Runner() as runner:

        def of(name: str) -> Callable[[], float]:
            return lambda: runner.run(_carried(servers[name]))

        found = in_turn({name: of(name) for name in servers}, rounds, warm_up=0)
    own, other = (spread(found[name]).median for name in (_OURS, _THEIRS))
    measured = ratios(found[_OURS], found[_THEIRS])
    return Line(
        "live sessions that one core carries", _THEIRS, measured, at_least(1), f"{own:.0f} / {other:.0f} sessions"
    )


async def _carried(server: Server) -> float:
    clients, carried = list[LiveClient](), 0
    try:
        while carried < _MOST:
            clients += await connect_clients(server, _STEP)
            if not await _keeps_up(clients):
                break
            carried = len(clients)
    finally:
        for client in clients:
            client.close()
    return max(carried, 1)


async def _keeps_up(clients: Sequence[LiveClient]) -> bool:
    """Return whether the clients are answered in time. Tries a few times: other work on the machine may delay it."""
    for _ in range(_TRIES):
        if await p95(clients, round(1 / PIECE)) <= _LAG:
            return True
    return False


def _memory(rounds: int) -> Line:
    def of(name: str) -> Callable[[], float]:
        return lambda: _weight(name)

    silent = in_turn({name: of(name) for name in LIVE_CONTENDERS}, rounds, warm_up=0)
    own, other = (spread(silent[name]).median / 1e3 for name in (_OURS, _THEIRS))
    measured = ratios(silent[_OURS], silent[_THEIRS])
    return Line("idle live session, memory", _THEIRS, measured, at_most(1.2), f"{own:.0f} / {other:.0f} kB")


def _weight(name: str) -> float:
    with serving([name], memory=True, among=LIVE_CONTENDERS) as servers, asyncio.Runner() as runner:
        (server,) = servers.values()
        return runner.run(_weighed(server))


async def _weighed(server: Server) -> float:
    """Return the bytes of a server for each further session that has answered one piece and is idle."""
    first = await _silent(server, 5)
    before = _resident(server.pid)
    others = await _silent(server, _IDLE)
    after = _resident(server.pid)
    for client in (*first, *others):
        client.close()
    return (after - before) / _IDLE


async def _silent(server: Server, count: int) -> list[LiveClient]:
    """Return clients whose sessions are idle, after the server has become idle too."""
    clients: list[LiveClient] = []
    for _ in range(count):
        clients += await connect_clients(server, 1)
        clients[-1].stop()
    used = 0.0
    while (now := process_cpu(server.pid)) - used > _AT_REST:
        used = now
        await asyncio.sleep(_LOOK)
    return clients


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()
