"""python -m bench [--quick] [--only ROW ...]: measure, then print one table."""

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence

from bench import convert, drained, file, first, live, readers, startup, turns
from bench.measure import Effort, Line, settle
from bench.report import machine, table

ROWS: dict[str, Callable[[Effort], list[Line]]] = {
    "convert": convert.lines,
    "turns": turns.lines,
    "first": first.lines,
    "drained": drained.lines,
    "readers": readers.lines,
    "file": file.lines,
    "live": live.lines,
    "startup": startup.lines,
}
"""A row is a name and a function that measures; a new one is a new entry."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what was asked for. A missed goal is told, not failed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures adkwire against its peers.")
    parser.add_argument("--quick", action="store_true", help="a third of the time: fewer rounds")
    parser.add_argument("--only", action="append", choices=list(ROWS), help="only this row; may be repeated")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.ERROR)
    settle()
    effort, lines = Effort(quick=options.quick), list[Line]()
    for name in options.only or ROWS:
        started = time.monotonic()
        print(f"measuring {name} ...", end="", file=sys.stderr, flush=True)
        lines += ROWS[name](effort)
        print(f" {time.monotonic() - started:.0f} s", file=sys.stderr)
    print(f"{table(lines)}\n\n{machine()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
