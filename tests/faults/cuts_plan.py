"""Conversations on bad networks, each fixed by its seed: the messages, the transport, and where connections break."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tests.faults.plan import End, Faults, Line, Way

Over = Literal["sse", "socket"]
Major = Literal[6, 7]
KINDS: tuple[tuple[Over, Major], ...] = (("sse", 6), ("socket", 6), ("sse", 7), ("socket", 7))
CONNECTIONS = 400
"""Connections of a conversation that break: more than it makes."""
WITHIN = 5000
"""Bytes from the server before the line breaks: from nothing at all to some thirty chunks."""


@dataclass(frozen=True)
class Plan:
    """One conversation."""

    name: str
    over: Over
    major: Major
    turns: list[str]
    faults: Faults

    @property
    def client(self) -> str:
        return {6: "ai/6.0.326", 7: "ai/7.0.169"}[self.major]


def plans(seed: int, count: int, turns: int) -> list[Plan]:
    """Return so many conversations, equally many of every kind."""
    return [_plan(f"{seed}-{number}", *KINDS[number % len(KINDS)], turns) for number in range(count)]


def _plan(name: str, over: Over, major: Major, turns: int) -> Plan:
    chance = random.Random(name)
    inputs = [_turn(chance, ("tell", "count")[turn % 2]) for turn in range(turns)]
    # A black hole is found out by silence. Over HTTP the time for a message to be taken is a minute, too long for here.
    ends = (End.CUT, End.RESET, End.RESET, End.HOLE) if over == "socket" else (End.CUT, End.RESET)
    lines = tuple(_line(chance, ends) for _ in range(CONNECTIONS))
    return Plan(f"{name}-{over}-{major}", over, major, inputs, Faults(lines))


def _turn(chance: random.Random, kind: str) -> str:
    counts = [chance.randint(5, 18) for _ in range(3)] if kind == "tell" else [chance.randint(10, 30)]
    return " ".join(map(str, [kind, chance.randint(0, 8), *counts]))


def _line(chance: random.Random, ends: Sequence[End]) -> Line:
    """Return a connection that breaks, in either direction; after some, new connections are refused for a while."""
    down = Way(end=chance.choice(ends), after=chance.randrange(WITHIN))
    up = Way(end=chance.choice(ends), after=chance.randrange(WITHIN // 3)) if chance.random() < 0.2 else Way()
    return Line(up, down, away=chance.random() * 0.2 if chance.random() < 0.1 else 0.0)
