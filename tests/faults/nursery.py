"""Servers without the wait, one after the other: `python -m tests.faults.nursery ARGS`.

For each line that it reads it forks a process which runs `adkwire serve ARGS`, says its pid, and says how it ended.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.nursery import Order, keep, load


class Lines:
    """Says what is reported of a life in lines."""

    def __init__(self) -> None:
        self._words: Iterator[str] = iter(("born", "ended"))

    def send(self, said: bytes, /) -> None:
        print(next(self._words), said.decode(), flush=True)

    def close(self) -> None:
        """There is nothing to close: all lives share the output."""


def run(args: list[str]) -> int:
    """Keep a life for each line; also the way out of all that is forked."""
    for _ in sys.stdin:
        order = Order([*args, "--port", "0"], str(Path.cwd()), dict(os.environ), os.dup(1), Lines())
        ended = keep(order)
        if ended is not None:
            return ended
    return 0


if __name__ == "__main__":
    load()
    sys.exit(run(sys.argv[1:]))
