"""A server from the nursery behaves like one that is started from a shell."""

import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from tests.patience import PATIENCE
from tests.server.app_server import answer_text, body
from tests.servers import Server, serve, serve_anew

Serve = Callable[..., AbstractContextManager[Server]]
AGENT = """
import json, os, sys
from google.adk.agents import LlmAgent
from adkwire.testing import Say, ScriptedModel
found = [os.getcwd(), os.environ["MINE"], os.environ["PYTHONPATH"], sorted(os.environ), sys.path]
root_agent = LlmAgent(name="found", model=ScriptedModel(script=lambda _: [Say(json.dumps(found))]))
"""


def found(serve: Serve, folder: Path) -> tuple[str, int, list[str]]:
    """Return what an agent finds at its start, the exit code of its server, and its output without the address."""
    env = {"PYTHONPATH": os.pathsep.join(["here", str(folder)]), "MINE": "yes"}
    with serve("agent.py", "--db", "memory:", cwd=folder, env=env) as server:
        answer = httpx.post(f"{server.url}/api/chat", json=body(), timeout=PATIENCE, trust_env=False)
        server.process.send_signal(signal.SIGTERM)
        return answer_text(answer.text), server.process.wait(PATIENCE), server.lines[1:]


def test_it_finds_and_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    assert found(serve, tmp_path) == found(serve_anew, tmp_path)


def test_one_that_cannot_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match=r"ended with 2:\nadkwire: There is no file none\.py"),
        serve("none.py", cwd=tmp_path),
    ):
        pass


def test_two_have_nothing_in_common(tmp_path: Path) -> None:
    with serve("--db", "memory:", cwd=tmp_path) as one, serve("--db", "memory:", cwd=tmp_path) as other:
        one.kill()
        assert one.process.returncode == -signal.SIGKILL
        assert other.process.poll() is None
        assert httpx.get(f"{other.url}/readyz", timeout=PATIENCE, trust_env=False).status_code == 200
    assert other.process.returncode in (0, -signal.SIGTERM)
