"""The servers that are measured: each in a process of its own, on one core, with the client on another."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

ROOT = Path(__file__).parents[1]
AGENT = ROOT / "bench" / "agents" / "flood"
VOICE = ROOT / "bench" / "agents" / "voice"
MEMORY = "memory:"


@dataclass(frozen=True)
class Contender:
    """How a server is started, and the request for a turn of so many chunks in a new chat."""

    arguments: Sequence[str]
    path: str
    body: Callable[[str, int], dict[str, object]]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    def request(self, port: int, chat: str, chunks: int) -> bytes:
        """Return the bytes of one HTTP request."""
        body = orjson.dumps(self.body(chat, chunks))
        head = (
            f"POST {self.path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
            f"accept: text/event-stream\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


@dataclass(frozen=True)
class Server:
    """A running contender."""

    contender: Contender
    pid: int
    port: int


def _ai_sdk(chat: str, chunks: int) -> dict[str, object]:
    message = {"id": f"user-{chat}", "role": "user", "parts": [{"type": "text", "text": str(chunks)}]}
    return {"id": chat, "messages": [message], "trigger": "submit-message"}


def _run_sse(chat: str, chunks: int) -> dict[str, object]:
    message = {"role": "user", "parts": [{"text": str(chunks)}]}
    return {"appName": "flood", "userId": "bench", "sessionId": chat, "streaming": True, "newMessage": message}


def _ag_ui(chat: str, chunks: int) -> dict[str, object]:
    message = {"id": f"user-{chat}", "role": "user", "content": str(chunks)}
    rest: dict[str, object] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return {"threadId": chat, "runId": f"run-{chat}", "messages": [message], **rest}


def _nothing(chat: str, chunks: int) -> dict[str, object]:
    del chat, chunks
    return {}


def _serve(agent: Path) -> tuple[str, ...]:
    return ("adkwire.cli", "serve", str(agent), "--port", "0", "--no-ui", "--log-level", "error", "--db")


CONTENDERS = {
    "adkwire": Contender(_serve(AGENT), "/api/chat", _ai_sdk),
    "adkwire, no pacing": Contender(_serve(AGENT), "/api/chat", _ai_sdk, {"ADKWIRE_EVENTS_PER_SECOND": "0"}),
    "ADK /run_sse": Contender(("bench.peers", "adk"), "/run_sse", _run_sse),
    "ag-ui-adk": Contender(("bench.peers", "ag-ui-adk"), "/", _ag_ui),
}
LIVE_CONTENDERS = {
    "adkwire": Contender(_serve(VOICE), "/api/live?chat={chat}", _nothing),
    "ADK live pump": Contender(("bench.bare_live_server",), "/live/{chat}", _nothing),
}
"""Servers for live sound; their path is that of a WebSocket."""


@contextlib.contextmanager
def serving(
    names: Sequence[str], *, memory: bool = False, among: Mapping[str, Contender] = CONTENDERS
) -> Generator[dict[str, Server]]:
    """Run the named contenders until the block ends, each with its own SQLite file or with sessions in memory."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(_client_core())
        databases = [MEMORY if memory else str(folder / f"{number}.db") for number in range(len(names))]
        processes = {
            name: stack.enter_context(_process(among[name], database))
            for name, database in zip(names, databases, strict=True)
        }
        yield {name: Server(among[name], process.pid, _port(process)) for name, process in processes.items()}


@contextlib.contextmanager
def _process(contender: Contender, database: str) -> Generator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", *contender.arguments, database],
        cwd=ROOT,
        env={**environment(), **contender.environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    _pin(process.pid, first=True)
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process that this benchmark started."""
    process.kill()
    process.communicate()


def environment() -> dict[str, str]:
    """Return the caller's environment without keys of models and settings of adkwire, and without limits per user."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ADKWIRE_", "GOOGLE_", "GEMINI_"))}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**kept, "ADKWIRE_CHATS_PER_MINUTE": "0", "ADKWIRE_SOCKETS_PER_USER": "1000"}


def wait_ready(process: subprocess.Popen[str]) -> str:
    """Read a server's output up to the line that says where it is ready, and return that line."""
    assert process.stdout is not None
    for line in process.stdout:
        if "ready" in line:
            return line
    raise RuntimeError(f"{process.args} ended with {process.wait()} before it was ready")


def _port(process: subprocess.Popen[str]) -> int:
    return int(wait_ready(process).rsplit(":", 1)[1])


@contextlib.contextmanager
def _client_core() -> Generator[None]:
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    _pin(0, first=False)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


_CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _pin(pid: int, *, first: bool) -> None:
    """Pin servers to the first core and the client to the last, so that they do not take each other's time."""
    if len(_CORES) > 1:
        os.sched_setaffinity(pid, {_CORES[0] if first else _CORES[-1]})
