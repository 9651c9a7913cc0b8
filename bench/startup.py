"""What a start costs: the import of `adkwire.wire`, and `adkwire serve` until ready against ADK's Runner alone."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.measure import Effort, Line, at_most, in_turn, process_cpu, ratios, spread
from bench.servers import end, environment, wait_ready

_IMPORT_WIRE = """
import sys, time
started = time.process_time()
import adkwire.wire.decode.decoder, adkwire.wire.encode.encoder, adkwire.wire.messages
print(time.process_time() - started, any(name.startswith("google.adk") for name in sys.modules))
"""
_IMPORT_RUNNER = "from google.adk.runners import Runner; print('ready', flush=True); input()"


class Start(NamedTuple):
    """Seconds until a process printed that it is ready."""

    cpu: float
    wall: float


def lines(effort: Effort) -> list[Line]:
    """Measure import and start in new processes."""
    rounds = effort.rounds(5, 2)
    return [_wire_line(rounds), _serve_line(rounds)]


def _wire_line(rounds: int) -> Line:
    costs = [_wire_import() for _ in range(rounds)]
    measured = spread([cost * 1e3 for cost in costs])
    return Line("import of adkwire.wire", "no ADK in it", measured, at_most(100, " ms"), "CPU of the import alone")


def _wire_import() -> float:
    out = subprocess.run([sys.executable, "-c", _IMPORT_WIRE], env=environment(), capture_output=True, check=True)
    seconds, with_adk = out.stdout.split()
    if with_adk == b"True":
        raise RuntimeError("importing adkwire.wire imports ADK")
    return float(seconds)


def _serve_line(rounds: int) -> Line:
    serve = ["-m", "adkwire.cli", "serve", "--port", "0", "--db", "memory:"]
    starts = in_turn({"adkwire": _until_ready(serve), "ADK": _until_ready(["-c", _IMPORT_RUNNER])}, rounds, warm_up=0)
    ours, theirs = starts["adkwire"], starts["ADK"]
    measured = ratios([start.cpu for start in ours], [start.cpu for start in theirs])
    own, other = (_both(values) for values in (ours, theirs))
    return Line("adkwire serve until ready", "import of ADK's Runner", measured, at_most(1.3), f"{own} / {other}")


def _both(starts: Sequence[Start]) -> str:
    cpu, wall = spread([start.cpu for start in starts]).median, spread([start.wall for start in starts]).median
    return f"{cpu:.2f} s CPU ({wall:.2f} s)"


def _until_ready(arguments: Sequence[str]) -> Callable[[], Start]:
    def start() -> Start:
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=folder,
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            try:
                wait_ready(process)
                return Start(process_cpu(process.pid), time.perf_counter() - began)
            finally:
                end(process)

    return start
