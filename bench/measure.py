"""How everything here is measured: contenders in turn, round by round, and ratios taken within a round.

A neighbour on the machine slows a whole round, not one contender, so the ratio of two costs of one round says more
than two averages. The order rotates, so that nobody always runs behind the same one.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

T = TypeVar("T")


class Effort(NamedTuple):
    """How long to measure."""

    quick: bool = False

    def rounds(self, full: int, quick: int) -> int:
        """The number of rounds for this effort."""
        return quick if self.quick else full


class Spread(NamedTuple):
    """A median between its quartiles, over so many rounds."""

    low: float
    median: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Goal:
    """What the product promises itself."""

    limit: float
    direction: Literal["at least", "at most"]
    unit: str = "x"

    def met(self, value: float) -> bool:
        """Whether a value reaches it."""
        return value >= self.limit if self.direction == "at least" else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.direction == 'at least' else '≤'} {self.limit:g}{self.unit}"


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    what: str
    against: str
    measured: Spread
    goal: Goal | None
    """None for what is only told."""
    detail: str


def at_least(limit: float) -> Goal:
    """A goal for how many times better than a peer."""
    return Goal(limit, "at least")


def at_most(limit: float, unit: str = "x") -> Goal:
    """A goal for how many times the cost of something else."""
    return Goal(limit, "at most", unit)


def in_turn(contenders: Mapping[str, Callable[[], T]], rounds: int, *, warm_up: int = 1) -> dict[str, list[T]]:
    """Let everybody run once per round, in rotating order; the first rounds only warm up."""
    names = list(contenders)
    results: dict[str, list[T]] = {name: [] for name in names}
    for number in range(-warm_up, rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            result = contenders[name]()
            if number >= 0:
                results[name].append(result)
    return results


def settle() -> None:
    """Take what is loaded by now out of the garbage collector's sight: walking it empties the processor's caches."""
    gc.collect()
    gc.freeze()


def cpu_of(work: Callable[[], object]) -> float:
    """CPU seconds this process spends on some work."""
    gc.collect()  # cheap after `settle`; so that nobody pays for the garbage of the one before
    started = time.process_time()
    work()
    return time.process_time() - started


def process_cpu(pid: int) -> float:
    """CPU seconds another process has spent so far, by its kernel clock: nanoseconds, ended threads included."""
    return time.clock_gettime((~pid << 3) | 2)


def ratios(above: Sequence[float], below: Sequence[float]) -> Spread:
    """The spread of the ratios of two contenders, each taken within one round."""
    return spread([a / b for a, b in zip(above, below, strict=True)])


def spread(values: Sequence[float]) -> Spread:
    """The median and the quartiles of some values."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], 1)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(low, median, high, len(values))
