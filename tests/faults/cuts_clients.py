"""The real clients of both majors of `ai` with our transports, many in one Node process."""

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.cuts_judge import Report
from tests.faults.cuts_plan import Plan
from tests.faults.lives import ROOT

PROGRAM = Path(__file__).parent / "cuts-clients.mjs"
LONGEST_LINE = 1 << 26


@dataclass
class Clients:
    """The process, and what it has told of its conversations."""

    process: asyncio.subprocess.Process
    opened: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    reports: "dict[str, asyncio.Future[Report]]" = field(default_factory=dict[str, "asyncio.Future[Report]"])

    def talk(self, plan: Plan, url: str) -> "asyncio.Future[Report]":
        """Begin a conversation; its report when it has ended."""
        self.opened[plan.name] = asyncio.Event()
        self.reports[plan.name] = report = asyncio.get_running_loop().create_future()
        what = {"name": plan.name, "url": url, "over": plan.over, "major": plan.major, "turns": plan.turns}
        self._order({"do": "talk", **what})
        return report

    def enough(self, plan: Plan) -> None:
        """Let a conversation end."""
        self._order({"do": "enough", "name": plan.name})

    async def listen(self) -> None:
        """Take note of what is told, until the process ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            fields = json.loads(line)
            name = fields.pop("name")
            self.opened[name].set()
            if "opened" not in fields:
                self.reports.pop(name).set_result(Report(**fields))
        for name, report in self.reports.items():
            self.opened[name].set()
            report.set_exception(RuntimeError("the clients ended"))

    def _order(self, order: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{json.dumps(order)}\n".encode())


@asynccontextmanager
async def clients_in(folder: Path) -> AsyncGenerator[Clients]:
    """The clients with the npm package as it is now, until the block ends."""
    await _compile(folder)
    process = await asyncio.create_subprocess_exec(
        "node", PROGRAM, folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=LONGEST_LINE
    )
    assert process.stdin is not None
    clients = Clients(process)
    async with asyncio.TaskGroup() as group:
        group.create_task(clients.listen(), name="clients")
        try:
            yield clients
        finally:
            process.stdin.close()
            await process.wait()


async def _compile(folder: Path) -> None:
    """Not into `dist`: others may be building that."""
    compiler, project = ROOT / "node_modules/.bin/tsc", ROOT / "web/client/tsconfig.build.json"
    process = await asyncio.create_subprocess_exec(compiler, "-p", project, "--outDir", folder)
    assert await process.wait() == 0
    (folder / "package.json").write_text('{"type": "module"}')
