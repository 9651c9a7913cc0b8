"""Starts a real `adkwire serve` for a test and stops it: free port, awaited by its own ready line."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

READY = re.compile(r"adkwire is ready at (http://\S+)")
START_TIMEOUT = 60.0
STOP_TIMEOUT = 20.0


@dataclass
class Server:
    """A running server: where it answers, what it has printed, its process."""

    url: str
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list[str])

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def kill(self) -> None:
        """`kill -9`: no goodbye."""
        self.process.kill()
        self.process.wait(STOP_TIMEOUT)


@contextlib.contextmanager
def serve(*args: str, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run `adkwire serve *args` in `cwd` on a free port until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "adkwire.cli", "serve", *args, "--port", "0"],
        cwd=cwd,
        env=clean_environment(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    server = Server("", process)
    ready = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            server.lines.append(line)
            if found := READY.search(line):
                server.url = found[1]
                ready.set()
        ready.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert ready.wait(START_TIMEOUT), f"not ready in {START_TIMEOUT} s:\n{server.output}"
        assert server.url, f"the server ended with {process.wait(STOP_TIMEOUT)}:\n{server.output}"
        yield server
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_TIMEOUT)
        reader.join(STOP_TIMEOUT)
        assert process.stdout is not None
        process.stdout.close()


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment without anything that would reach a real model or change our settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ADKWIRE_", "GOOGLE_", "GEMINI_"))}
    return {**kept, "ADKWIRE_CHATS_PER_MINUTE": "0", **(extra or {})}
