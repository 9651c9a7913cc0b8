"""python -m bench [--quick] [--only NAME ...]: measures adkwire against its peers and prints one table."""

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence

from bench import bridge_overhead, event_to_bytes, first_text, live_sound, readers, sqlite_cost, startup, turns
from bench.measure import Effort, Line, settle
from bench.report import machine, table

ROWS: dict[str, Callable[[Effort], list[Line]]] = {
    "event-to-bytes": event_to_bytes.lines,
    "turns": turns.lines,
    "first-text": first_text.lines,
    "bridge-overhead": bridge_overhead.lines,
    "readers": readers.lines,
    "sqlite-cost": sqlite_cost.lines,
    "live-sound": live_sound.lines,
    "startup": startup.lines,
}
"""The measurements by name. Each returns lines of the table; a new one is a new entry."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurements and print the table. A missed goal is printed and is not an error."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures adkwire against its peers.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, a third of the time")
    parser.add_argument("--only", action="append", choices=list(ROWS), help="only this measurement; may be repeated")
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
