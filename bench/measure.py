"""How everything is measured: all contenders once per round, and ratios of costs within one round.

Other work on the machine slows a whole round and not one contender, so the ratio of two costs of one round says more
than two averages. The order rotates, so that no contender always runs behind the same other one.
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
        """Return the number of rounds for this effort."""
        return quick if self.quick else full


class Spread(NamedTuple):
    """A median between its quartiles, over so many rounds."""

    low: float
    median: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Goal:
    """The ratio that adkwire should reach."""

    limit: float
    direction: Literal["at least", "at most"]
    unit: str = "x"

    def met(self, value: float) -> bool:
        """Return whether a value reaches the goal."""
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
    """None for a measurement without a goal."""
    detail: str


def at_least(limit: float) -> Goal:
    """Return a goal for how many times better than a peer."""
    return Goal(limit, "at least")


def at_most(limit: float, unit: str = "x") -> Goal:
    """Return a goal for how many times the cost of something else."""
    return Goal(limit, "at most", unit)


def in_turn(contenders: Mapping[str, Callable[[], T]], rounds: int, *, warm_up: int = 1) -> dict[str, list[T]]:
    """Run every contender once per round, in rotating order; the results of the first rounds are dropped."""
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
    """Exclude the objects that exist now from garbage collection: walking them empties the processor's caches."""
    gc.collect()
    gc.freeze()


def cpu_of(work: Callable[[], object]) -> float:
    """Return the CPU seconds that this process spends on some work."""
    gc.collect()  # So that the garbage of the contender before does not count. Cheap after `settle`.
    started = time.process_time()
    work()
    return time.process_time() - started


def process_cpu(pid: int) -> float:
    """Return the CPU seconds that another process has spent so far, by its kernel clock, with ended threads."""
    return time.clock_gettime((~pid << 3) | 2)


def ratios(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Return the spread of the ratios of two contenders, each taken within one round."""
    return spread([a / b for a, b in zip(above, below, strict=True)])


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the quartiles of some values."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], 1)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(low, median, high, len(values))
