"""What the bridge adds to an ADK run, in process: the run through run and stream log to bytes, and its events alone."""

import asyncio
import time
from collections.abc import Callable, Coroutine

from adkwire import Policy, Settings
from adkwire.adk.runner import AgentRunner, Services
from adkwire.bridge import Bridge
from adkwire.gate.gate import ToolGate
from adkwire.stores.base import ChatKey
from adkwire.stores.memory import MemoryGateStore
from adkwire.wire.decode.decoder import UserMessage
from bench.agents.flood.agent import root_agent
from bench.bridge_turn import bridged_turn
from bench.http_client import new_chat
from bench.measure import Effort, Line, at_most, cpu_of, in_turn, ratios, spread

CHUNKS = 200


def lines(effort: Effort) -> list[Line]:
    """Compare a turn of 200 chunks through the bridge with the same ADK run whose events are dropped."""
    settings = Settings.load(db="memory:", events_per_second=0, ui=False)
    with asyncio.Runner() as runner:
        gate = ToolGate(MemoryGateStore(), Policy(), clock=time.time)
        adk, bridge = AgentRunner(root_agent, settings, Services(), gate), Bridge(root_agent, settings=settings)
        contenders = {
            "bridge": _timed(runner, lambda: bridged_turn(bridge, CHUNKS)),
            "drained": _timed(runner, lambda: _adk_turn(adk)),
        }
        costs = in_turn(contenders, effort.rounds(31, 7), warm_up=2)
    ours, theirs = (spread(costs[name]).median / CHUNKS * 1e6 for name in contenders)
    measured = ratios(costs["bridge"], costs["drained"])
    detail = f"{ours:.0f} / {theirs:.0f} us per chunk"
    return [Line("a run through the bridge, in process", "ADK run drained", measured, at_most(1.1), detail)]


async def _adk_turn(adk: AgentRunner) -> None:
    key, message = ChatKey("bench", new_chat()), UserMessage("user-1", (str(CHUNKS),))
    await adk.create(key, title="", created=0)
    async for _ in adk.turn(key, message, {}, asyncio.Event()):
        pass


def _timed(runner: asyncio.Runner, turn: Callable[[], Coroutine[None, None, None]]) -> Callable[[], float]:
    return lambda: cpu_of(lambda: runner.run(turn()))
