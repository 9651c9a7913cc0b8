"""A server that is killed and started again on one SQLite file, and a page that uses it over real HTTP."""

import asyncio
import copy
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.patience import PATIENCE
from tests.server.app_server import answer_text, body
from tests.servers import READY, clean_environment

AGENTS = Path(__file__).parent / "agents"
ROOT = Path(__file__).parents[2]
ARGS = (str(AGENTS / "till.py"), "--policy", str(AGENTS / "policy.toml"))
_BORN = re.compile(r"born (\d+)")
_ENDED = re.compile(r"ended (-?\d+)")

Json = dict[str, Any]


@dataclass
class Place:
    """A folder with the state of a server, its ledger, and the order where its process is killed."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        names = {"ARMED": self.armed, "HELD": self.folder / "held", "LEDGER": self.folder / "ledger.jsonl"}
        return {"PYTHONPATH": str(ROOT), **{name: str(path) for name, path in names.items()}}

    @property
    def armed(self) -> Path:
        return self.folder / "armed"

    def arm(self, *order: object) -> None:
        """Order that the process is killed at this point."""
        draft = self.folder / "draft"
        draft.write_text(" ".join(map(str, order)))
        draft.rename(self.armed)

    def disarm(self) -> bool:
        """Remove the order; return True if it was still there."""
        try:
            self.armed.unlink()
        except FileNotFoundError:
            return False
        return True

    async def all_held(self, chats: set[str]) -> set[str]:
        """Wait until these chats are held at their points; return those that never reach them."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while missing := chats - self._held():
            if asyncio.get_running_loop().time() > end:
                break
            await asyncio.sleep(0.02)
        return missing

    def _held(self) -> set[str]:
        path = self.folder / "held"
        return set(path.read_text().splitlines()) if path.exists() else set[str]()

    def ledger(self, chat: str) -> list[Json]:
        """Return the executions of a chat."""
        path = self.folder / "ledger.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if line["chat"] == chat]

    def spent(self, chat: str) -> list[str]:
        return [line["what"] for line in self.ledger(chat)]


@dataclass
class Host(Place):
    """Starts servers, one after the other, all on the same file."""

    nursery: "subprocess.Popen[str]"
    lines: list[str] = field(default_factory=list[str])
    _queue: "queue.SimpleQueue[str]" = field(default_factory=lambda: queue.SimpleQueue[str]())

    def read(self) -> None:
        assert self.nursery.stdout is not None
        for line in self.nursery.stdout:
            self.lines.append(line)
            self._queue.put(line)
        self._queue.put("")

    def hear(self, pattern: re.Pattern[str]) -> str:
        """Wait for a line of output."""
        while line := self._queue.get(timeout=PATIENCE):
            if found := pattern.search(line):
                return found[1]
            assert not _ENDED.search(line), f"the server ended:\n{''.join(self.lines[-30:])}"
        raise AssertionError(f"the nursery ended:\n{''.join(self.lines[-30:])}")

    @contextmanager
    def life(self) -> Generator["Life"]:
        """Run a server until the block ends or it is killed."""
        life = self.born()
        try:
            life.url = self.hear(READY)
            yield life
        finally:
            life.kill()

    def born(self) -> "Life":
        """Start a process that will become a server."""
        assert self.nursery.stdin is not None
        self.nursery.stdin.write("live\n")
        self.nursery.stdin.flush()
        return Life(self, int(self.hear(_BORN)))

    def last_words(self) -> int:
        return int(self.hear(_ENDED))


def browser(url: str) -> httpx.AsyncClient:
    """An HTTP client without a limit of connections."""
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False, verify=False, limits=limits)


@contextmanager
def hosting(folder: Path, *args: str, settings: Mapping[str, str] | None = None) -> Generator[Host]:
    """A host for `adkwire serve *args` in a folder, until the block ends."""
    nursery = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.nursery", *args],
        cwd=folder,
        env=clean_environment({**Place(folder).environment, **(settings or {})}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    host = Host(folder, nursery)
    reader = threading.Thread(target=host.read, daemon=True)
    reader.start()
    try:
        yield host
    finally:
        # All of them: whoever waits for a life to begin or to end is not waited for.
        os.killpg(nursery.pid, signal.SIGKILL)
        nursery.wait(PATIENCE)
        reader.join(PATIENCE)
        for pipe in (nursery.stdin, nursery.stdout):
            assert pipe is not None
            pipe.close()


@dataclass
class Life:
    """One server process of a host."""

    host: Host
    pid: int
    url: str = ""
    code: int | None = None

    @asynccontextmanager
    async def page(self, chat: str) -> AsyncGenerator["Page"]:
        async with browser(self.url) as client:
            yield Page(client, chat)

    def kill(self) -> None:
        """Kill the process with `kill -9`, unless it has ended."""
        if self.code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.code = self.host.last_words()

    def died(self) -> None:
        """Wait until the process has killed itself."""
        assert not self.host.armed.exists(), "the server has not come to where it should die"
        if self.code is None:
            self.code = self.host.last_words()
        assert self.code == -signal.SIGKILL


@dataclass
class Page:
    """A page in one chat."""

    client: httpx.AsyncClient
    chat: str

    async def say(self, text: str, message: str) -> str:
        """Send a message and return the text of the answer."""
        reply = await self.client.post("/api/chat", json=body(text, chat=self.chat, message_id=message))
        assert reply.status_code == 200, reply.text
        return answer_text(reply.text)

    async def ask(self, text: str) -> list[Json]:
        """Send a message whose calls need an approval; return the messages."""
        await self.say(text, "u1")
        return (await self.history())["messages"]

    async def history(self) -> Json:
        reply = await self.client.get(f"/api/chats/{self.chat}")
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def part(self) -> Json:
        """The only call of the first answer."""
        [part] = parts((await self.history())["messages"])
        return part

    async def at_rest(self) -> Json:
        """Return the history when no run is active and no call is answered but not delivered."""
        return await self.until(is_quiet)

    async def until(self, holds: Callable[[Json], bool]) -> Json:
        """Return the history when no run is active and the condition is true."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while True:
            history = await self.history()
            if history["active"]:
                await self.client.get(f"/api/chat/{self.chat}/stream")
            elif holds(history):
                return history
            assert asyncio.get_running_loop().time() < end, f"chat {self.chat} never came to this: {history}"
            await asyncio.sleep(0.02)

    async def post(self, messages: list[Json]) -> str:
        """Post the messages with answers, as a stock client does."""
        sent = {"id": self.chat, "trigger": "submit-message", "messages": messages}
        reply = await self.client.post("/api/chat", json={**sent, "messageId": messages[-1]["id"]})
        assert reply.status_code == 200, reply.text
        return reply.text

    async def cut(self, messages: list[Json]) -> None:
        """Post the messages, and cut the connection after the first bytes of the response."""
        sent = {"id": self.chat, "trigger": "submit-message", "messages": messages}
        async with self.client.stream("POST", "/api/chat", json=sent) as reply:
            async for _ in reply.aiter_bytes():
                return

    async def answer(self, call: str, **given: Any) -> httpx.Response:
        """Answer by the calls route."""
        return await self.client.post(f"/api/chat/{self.chat}/calls/{call}", json=given)

    async def audit(self, call: str) -> list[Json]:
        reply = await self.client.get(f"/api/chats/{self.chat}/audit")
        return [entry for entry in reply.json()["entries"] if entry["call"] == call]

    async def outcome(self, call: str) -> str:
        """Return the outcome of a call in the audit, without refused answers."""
        return [entry["outcome"] for entry in await self.audit(call) if entry["verdict"] != "refused"][-1]


def parts(messages: list[Json]) -> list[Json]:
    """The calls of the first answer."""
    return [part for part in messages[1]["parts"] if part["type"].startswith("tool-")]


def is_quiet(history: Json) -> bool:
    states = {part["state"] for part in parts(history["messages"])} if len(history["messages"]) > 1 else set[str]()
    return "approval-responded" not in states or "approval-requested" in states


def answered(messages: list[Json], approved: bool = True, **more: Any) -> list[Json]:
    """The messages of a page in which a person has pressed the buttons."""
    messages = copy.deepcopy(messages[:2])
    for part in parts(messages):
        part["state"] = "approval-responded"
        part["approval"] = {"id": part["approval"]["id"], "approved": approved, **more}
    return messages


def performed(messages: list[Json], output: Any) -> list[Json]:
    """The messages of a page that has executed its call."""
    messages = copy.deepcopy(messages[:2])
    for part in parts(messages):
        part.update(state="output-available", output=output)
    return messages
