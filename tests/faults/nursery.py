"""Servers without the wait: `python -m tests.faults.nursery ARGS` has ADK loaded and forks for every life.

For each line that it reads it forks a process which runs `adkwire serve ARGS`, says its pid, and says how it ended. The
process is as real as one started anew, with the interpreter's start left out.
"""

import os
import sys
from pathlib import Path

from adkwire.cli import main
from adkwire.runs.adk import warm_up
from adkwire.server import app

__all__ = ["app"]


def live() -> None:
    """One life, from a fork to its end."""
    pid = os.fork()
    if pid == 0:
        with Path(os.devnull).open() as nothing:
            os.dup2(nothing.fileno(), 0)
        code = main(["serve", *sys.argv[1:], "--port", "0"])
        sys.stdout.flush()
        os._exit(code)
    print(f"born {pid}", flush=True)
    _, status = os.waitpid(pid, 0)
    print(f"ended {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    warm_up()
    for _ in sys.stdin:
        live()
