"""Starts a real `adkwire serve` for a test and stops it: free port, awaited by its own ready line."""

import atexit
import contextlib
import functools
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[1]
READY = re.compile(r"adkwire is ready at (http://\S+)")


class Process(Protocol):
    """The methods of a server process that tests use."""

    pid: int

    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...


@dataclass
class Server:
    """A running server: where it answers, what it has printed, its process."""

    url: str
    process: Process
    lines: list[str] = field(default_factory=list[str])

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def kill(self) -> None:
        """Kill the server with `kill -9`."""
        self.process.kill()
        self.process.wait(PATIENCE)


@contextlib.contextmanager
def serve(*args: str, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run `adkwire serve *args` in `cwd` on a free port until the block ends; it comes from the nursery."""
    process, output = _born([*args, "--port", "0"], cwd, clean_environment(env))
    with process, output, _running(process, output) as server:
        yield server


@contextlib.contextmanager
def serve_anew(*args: str, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run `adkwire serve` in a new interpreter, as from a shell."""
    with start(sys.executable, "-m", "adkwire.cli", "serve", *args, "--port", "0", cwd=cwd, env=env) as server:
        yield server


@contextlib.contextmanager
def start(
    *command: str, cwd: Path, env: Mapping[str, str] | None = None, ready: re.Pattern[str] = READY
) -> Iterator[Server]:
    """Run a command until the block ends; `ready` finds the address of its server in a line that it prints."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=clean_environment(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout, _running(process, process.stdout, ready) as server:
        yield server


@contextlib.contextmanager
def _running(process: Process, output: IO[str], address: re.Pattern[str] = READY) -> Iterator[Server]:
    server = Server("", process)
    ready = threading.Event()

    def read() -> None:
        for line in output:
            server.lines.append(line)
            if found := address.search(line):
                server.url = found[1]
                ready.set()
        ready.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert ready.wait(PATIENCE), f"not ready in {PATIENCE} s:\n{server.output}"
        assert server.url, f"the server ended with {process.wait(PATIENCE)}:\n{server.output}"
        yield server
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(PATIENCE)
        reader.join(PATIENCE)


class _Born(contextlib.AbstractContextManager["_Born"]):
    """A process of the nursery, which reports its exit code; any number of tests may wait for it."""

    def __init__(self, report: socket.socket) -> None:
        self._report = report
        self.pid = int(report.recv(64))
        self._code: int | None = None

    def __exit__(self, *_: object) -> None:
        self._report.close()

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("adkwire serve", timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self._code is None and select.select([self._report], [], [], timeout)[0]:
            self._code = int(self._report.recv(64, socket.MSG_PEEK))
        return self._code


def _born(args: list[str], cwd: Path, env: dict[str, str]) -> tuple[_Born, IO[str]]:
    heard, printed = os.pipe()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    order = json.dumps({"args": args, "cwd": str(cwd), "env": env}).encode()
    with theirs:
        socket.send_fds(_nursery(), [order], [printed, theirs.fileno()])
    os.close(printed)
    return _Born(ours), os.fdopen(heard)


@functools.cache
def _nursery() -> socket.socket:
    """Start the nursery, which runs as long as the tests, and return the socket for orders."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery", str(theirs.fileno())],
            cwd=ROOT,
            env=clean_environment(),
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait(PATIENCE)

    return ours


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment without anything that would reach a real model or change our settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ADKWIRE_", "GOOGLE_", "GEMINI_"))}
    return {**kept, "ADKWIRE_CHATS_PER_MINUTE": "0", **(extra or {})}
