"""Servers without the wait, one after the other: `python -m tests.faults.nursery ARGS`.

For each line that it reads it forks a process which runs `adkwire serve ARGS`, says its pid, and says how it ended.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.nursery import Order, keep, load


class Lines:
    """Prints the reports of a process as lines."""

    def __init__(self) -> None:
        self._words: Iterator[str] = iter(("born", "ended"))

    def send(self, report: bytes, /) -> None:
        print(next(self._words), report.decode(), flush=True)

    def close(self) -> None:
        """Do nothing: all processes share the output."""


def run(args: list[str]) -> int:
    """Fork a server for each line of input. A forked server leaves this function with its exit code."""
    for _ in sys.stdin:
        order = Order([*args, "--port", "0"], str(Path.cwd()), dict(os.environ), os.dup(1), Lines())
        ended = keep(order)
        if ended is not None:
            return ended
    return 0


if __name__ == "__main__":
    load()
    sys.exit(run(sys.argv[1:]))
