"""The results of Node clients as Python values; one process for each `ai` package runs a list of jobs."""

import atexit
import functools
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PINNED = ("6.0.0", "6.0.100", "6.0.326", "7.0.31", "7.0.169")
NODE_TIMEOUT = 6 * PATIENCE
"""Seconds for all scenarios of a Node process together; each one has limits of its own."""

Json = Any
Message = dict[str, Any]
Chunk = dict[str, Any]


OURS = "adkwire"
EVERYWHERE = bool(os.environ.get("EVERYWHERE"))
"""True when every client does everything on every store, as `matrix` says."""
MEMORY, SQLITE = "memory:", ".adkwire/state.db"


@dataclass(frozen=True)
class Column:
    """A client: a module with the `ai` package, and where its transports for sockets are, if it is to use one.

    One that is live knows the other ways too. `db` is the store of the server that it talks to.
    """

    module: str
    sockets: str | None = None
    live: str | None = None
    db: str = MEMORY


@dataclass(frozen=True)
class Page:
    """One stock client at the end of a scenario."""

    messages: list[Message]
    status: str
    statuses: list[str]
    error: str | None
    errors: list[str]
    finishes: list[dict[str, Any]]
    tool_calls: list[dict[str, Any]]
    data: list[dict[str, Any]]
    executions: list[dict[str, Any]]
    requests: list[dict[str, Any]]
    strange: list[str]
    live_frames: list[dict[str, Any]]
    """The frames that only a live socket of ours gets, besides those of requests."""
    sent_types: list[str]
    """The types of all frames that were sent on a socket, besides requests."""
    sounds: int

    @property
    def answer(self) -> Message:
        """The last message, which must be the assistant's."""
        assert self.messages, "the page is empty"
        assert self.messages[-1]["role"] == "assistant", self.messages[-1]
        return self.messages[-1]

    @property
    def text(self) -> str:
        """The visible text of the last answer."""
        return text_of(self.answer)

    @property
    def chunks(self) -> list[Chunk]:
        """Every chunk that reached this page, over all its requests."""
        return [chunk for request in self.requests if request["stream"] for chunk in request["stream"]["chunks"]]

    @property
    def runs(self) -> list[str | None]:
        """The run named by each response; the official frames of a socket name none."""
        return [request["run"] for request in self.requests if request["stream"]]


@dataclass(frozen=True)
class Record:
    """One scenario: its pages, the server's history afterwards, what a driver noted on the way, and what tools did."""

    name: str
    chat: str
    failure: str | None
    pages: dict[str, Page]
    history: dict[str, Any]
    seen: dict[str, Any]
    ledger: tuple[dict[str, str], ...] = ()

    @property
    def page(self) -> Page:
        """The page the scenario began in."""
        return self.pages["page"]


def text_of(message: Message) -> str:
    """The text parts of a message, joined."""
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def parts_of(message: Message, kind: str) -> list[dict[str, Any]]:
    """The parts of one type."""
    return [part for part in message["parts"] if part["type"] == kind]


def packages() -> dict[str, str]:
    """Version -> module to import: the pinned aliases, or `ADKWIRE_AI_VERSIONS=7.0.200=/dir/ai-7.mjs,...`."""
    if given := os.environ.get("ADKWIRE_AI_VERSIONS"):
        return dict(item.split("=", 1) for item in given.split(","))
    return {version: f"ai-{version.replace('.', '-')}" for version in PINNED}


def newest() -> dict[str, str]:
    """Return the newest version of each major, and its module."""
    known = packages()
    by_number = sorted(known, key=lambda version: [int(number) for number in re.findall(r"\d+", version)])
    latest = {version.partition(".")[0]: version for version in by_number}
    return {version: known[version] for version in latest.values()}


def thorough() -> list[str]:
    """The versions that do every scenario over HTTP: the oldest, and the newest of each major."""
    return [version for version in packages() if version in {next(iter(packages())), *newest()}]


def over_socket(version: str) -> str:
    """The name of the column in which this version talks over sockets."""
    return f"{version} socket"


def columns() -> dict[str, Column]:
    """Return the clients of a scenario: each version over HTTP, and the newest of each major over sockets."""
    first, last = next(iter(newest())), next(reversed(newest()))
    over_http = {version: Column(module, db=_db(version == last)) for version, module in packages().items()}
    over_sockets = {
        over_socket(version): Column(module, _sockets(version), db=_db(version == first))
        for version, module in newest().items()
    }
    return _on_both_stores(over_http | over_sockets)


def over_live(version: str) -> str:
    """The name of the column in which this version is live, by our transport."""
    return f"{version} live"


def over_stock_live(version: str) -> str:
    """The name of the column in which this version is live, by its own transport."""
    return f"{version} stock live"


def live_columns() -> dict[str, Column]:
    """The newest of each major with our live transport, and the one that has a transport for sockets with that."""
    last = next(reversed(newest()))
    ours = {
        over_live(version): Column(module, _sockets(version), OURS, _db(version == last))
        for version, module in newest().items()
    }
    stock = {
        over_stock_live(version): Column(module, module, module)
        for version, module in newest().items()
        if not version.startswith("6.")
    }
    return _on_both_stores(ours | stock)


def _db(lasts: bool) -> str:
    return SQLITE if lasts else MEMORY


def _on_both_stores(columns: dict[str, Column]) -> dict[str, Column]:
    """Return these clients; with EVERYWHERE each of them also on the other store."""
    if not EVERYWHERE:
        return columns
    other = {SQLITE: MEMORY, MEMORY: SQLITE}
    return columns | {
        f"{name} on {'SQLite' if column.db == MEMORY else 'memory'}": replace(column, db=other[column.db])
        for name, column in columns.items()
    }


def _sockets(version: str) -> str:
    """AI SDK 7 has a transport of its own for sockets; to AI SDK 6 it comes with our npm package."""
    return OURS if version.startswith("6.") else packages()[version]


@functools.cache
def npm_package() -> str:
    """Our npm package as it is now. Not in its `dist`: others may be building that."""
    folder = tempfile.TemporaryDirectory(prefix="adkwire-npm-")
    compiler, project = ROOT / "node_modules/.bin/tsc", ROOT / "web/client/tsconfig.build.json"
    subprocess.run([compiler, "-p", project, "--outDir", folder.name], check=True)
    Path(folder.name, "package.json").write_text('{"type": "module"}')
    atexit.register(folder.cleanup)
    return f"{folder.name}/index.js"


def drive(column: Column, base: str, jobs: Iterable[Mapping[str, Json]]) -> dict[str, Record]:
    """Run the jobs in one Node process with this `ai`; the records by name."""
    ways = [npm_package() if way == OURS else way for way in (column.sockets, column.live) if way]
    done = subprocess.run(
        ["node", "client.mjs", column.module, base, *ways],
        cwd=HERE,
        input=json.dumps(list(jobs)),
        capture_output=True,
        encoding="utf-8",
        timeout=NODE_TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, f"node ended with {done.returncode}:\n{done.stderr}"
    # Not splitlines(): it would also cut at U+2028, which JSON leaves as it is.
    records = (_record(json.loads(line)) for line in done.stdout.split("\n") if line)
    return {record.name: record for record in records}


def with_ledger(records: Mapping[str, Record], ledger: Path) -> dict[str, Record]:
    """The records, each with the lines that the tools of its chat wrote."""
    lines = [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
    return {
        name: replace(record, ledger=tuple(line for line in lines if line["chat"] == record.chat))
        for name, record in records.items()
    }


def _record(line: dict[str, Any]) -> Record:
    clients = line.pop("clients")
    return Record(pages={name: _page(client) for name, client in clients.items()}, **line)


def _page(client: dict[str, Any]) -> Page:
    camel = {"tool_calls": "toolCalls", "live_frames": "liveFrames", "sent_types": "sentTypes"}
    return Page(**{name: client.pop(key) for name, key in camel.items()}, **client)
