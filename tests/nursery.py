"""Servers without the wait: `python -m tests.nursery FD` has ADK loaded, and forks for every server it is asked for.

A server is a process of its own, which runs `adkwire serve` from its first line to its exit code; only what it would
have imported first is there already, and that is most of what a start costs. It is asked for on the socket that FD is,
with where to print to, and where to say its pid and how it ended. When nobody can ask any more, the nursery ends.
"""

import contextlib
import importlib
import json
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from adkwire.adk.app import warm_up
from adkwire.cli import main
from tests.delays import install_if_wished

LOADED_LATE = ("adkwire.demo.agent", "adkwire.demo.offline_model", "adkwire.adk.load_target", "adkwire.server.app")
LONGEST = 1 << 20


class Report(Protocol):
    """A connection that gets a server's pid, and then its exit code."""

    def send(self, line: bytes, /) -> object: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Order:
    """A request for a server."""

    args: list[str]
    cwd: str
    env: dict[str, str]
    output: int
    report: Report

    def close(self) -> None:
        os.close(self.output)
        self.report.close()


def received(asked: socket.socket) -> Order | None:
    """Return the next order; None when the tests have ended."""
    data, fds, _, _ = socket.recv_fds(asked, LONGEST, 2)
    if not data:
        return None
    wanted: dict[str, Any] = json.loads(data)
    return Order(**wanted, output=fds[0], report=socket.socket(fileno=fds[1]))


def keep(order: Order) -> int | None:
    """Fork a server and report its pid and exit code; return None, but in the forked server its exit code."""
    pid = os.fork()
    if pid == 0:
        return live(order)
    os.close(order.output)
    order.report.send(str(pid).encode())
    _, status = os.waitpid(pid, 0)
    order.report.send(str(os.waitstatus_to_exitcode(status)).encode())
    return None


def given_paths() -> list[str]:
    """Return the folders of PYTHONPATH, which an interpreter has after the working directory in its path."""
    return [str(Path(folder).absolute()) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]


def live(order: Order) -> int:
    """Restore what a new interpreter would have, then run the command."""
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(order.output, 1)
    os.dup2(order.output, 2)
    order.close()
    inherited = 1 + len(given_paths())
    os.chdir(order.cwd)
    os.environ.clear()
    os.environ.update(order.env)
    sys.path[:inherited] = [order.cwd, *given_paths()]
    install_if_wished()
    return main(["serve", *order.args])


def run(asked: socket.socket) -> int:
    """Fork a server for each order until the orders end. A forked server leaves this function with its exit code."""
    while order := received(asked):
        if os.fork() == 0:
            asked.close()
            ended = keep(order)
            if ended is None:
                os._exit(0)
            return ended
        order.close()
        reap()
    reap()
    return 0


def reap() -> None:
    """Wait for the reporting processes that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def load() -> None:
    """Import all modules that a server needs."""
    for name in LOADED_LATE:
        importlib.import_module(name)
    warm_up()


if __name__ == "__main__":
    load()
    sys.exit(run(socket.socket(fileno=int(sys.argv[1]))))
