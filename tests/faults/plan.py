"""The faults of the connections of a `FaultProxy`, and after how many bytes they come; fixed by a seed."""

import enum
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self


class End(enum.StrEnum):
    """The fault that ends a connection.

    `CUT`: both ends get a FIN. `RESET`: both ends get an RST. `HOLE`: nothing passes this way any more, not even the
    end. `HALF_OPEN`: the end that sends this way is gone, the other one is never told and talks to nobody.
    """

    CUT = "cut"
    RESET = "reset"
    HOLE = "hole"
    HALF_OPEN = "half-open"


class Direction(enum.StrEnum):
    """`UP` is from the client to the server."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True)
class Way:
    """One direction of a connection.

    Every piece is late by `latency` and up to `jitter` seconds more, and overtakes no other. No more than `rate` bytes
    pass in a second. The `end` comes when exactly `after` bytes have passed.
    """

    latency: float = 0.0
    jitter: float = 0.0
    rate: float | None = None
    end: End | None = None
    after: int = 0


@dataclass(frozen=True)
class Line:
    """A connection. For `away` seconds from its fault on, new ones are refused."""

    up: Way = field(default_factory=Way)
    down: Way = field(default_factory=Way)
    away: float = 0.0

    def way(self, direction: Direction) -> Way:
        return self.up if direction is Direction.UP else self.down


@dataclass(frozen=True)
class Faults:
    """The lines that connections get, in the order in which they come; all that come later get `then`."""

    lines: tuple[Line, ...] = ()
    then: Line = field(default_factory=Line)
    seed: int = 0

    @classmethod
    def seeded(cls, seed: int, count: int, within: int, ends: tuple[End, ...] = (End.CUT, End.RESET)) -> Self:
        """Return `count` connections that each break within so many bytes from the server; the same for a seed."""
        chance = random.Random(seed)
        ways = [Way(end=chance.choice(ends), after=chance.randrange(within)) for _ in range(count)]
        return cls(tuple(Line(down=way) for way in ways), seed=seed)

    def line(self, number: int) -> Line:
        return self.lines[number] if number < len(self.lines) else self.then

    def delays(self, number: int, direction: Direction) -> Callable[[], float]:
        """Yield the delay of each piece."""
        way, chance = self.line(number).way(direction), random.Random(f"{self.seed} {number} {direction}")
        return lambda: way.latency + way.jitter * chance.random()
