"""A real Chromium, driven by `driver.mjs` in one Node process: a scenario's name in, its verdict out."""

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from tests.patience import PATIENCE

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PAGE = ROOT / "src" / "adkwire" / "static" / "index.html"
NAMES = ("chromium", "chromium-browser", "google-chrome")


def scenario_names(file: str) -> list[str]:
    """Every scenario that a file of this folder exports."""
    return re.findall(r"^export async function (\w+)", (HERE / file).read_text("utf-8"), re.MULTILINE)


def find_chromium() -> str:
    """The browser to drive, or an error with the command that installs one."""
    if named := os.environ.get("CHROME_PATH"):
        if shutil.which(named):
            return named
        raise RuntimeError(f"CHROME_PATH is {named}, which cannot be run. Correct it, or unset it.")
    for name in NAMES:
        if found := shutil.which(name):
            return found
    raise RuntimeError(
        f"No Chromium found (looked for {', '.join(NAMES)} in PATH). Install one with "
        "`apt-get install --no-install-recommends chromium`, or set CHROME_PATH to a Chromium or Chrome."
    )


def need(path: Path, command: str) -> None:
    """Say which command makes a missing file."""
    if not path.exists():
        raise RuntimeError(f"{path.relative_to(ROOT)} is missing. Make it with `{command}`.")


@dataclass
class Browser:
    """The driver process."""

    process: subprocess.Popen[str]

    def play(self, scenario: str, url: str, mode: str | None = None) -> None:
        """Play one scenario in a browser profile of its own; raise with what the page showed when it fails.

        A scenario that takes a mode chooses it when it opens the page; by default it is SSE.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"scenario": scenario, "url": url, "mode": mode}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the driver ended with {self.process.wait(PATIENCE)}; its errors are above"
        verdict = json.loads(answer)
        assert verdict["ok"], verdict["error"]


@contextlib.contextmanager
def launch() -> Generator[Browser]:
    """Start the driver and its Chromium; end both with the block."""
    chromium = find_chromium()
    need(ROOT / "node_modules" / "playwright-core", "npm ci")
    need(PAGE, "npm run build")
    node = shutil.which("node")
    if node is None:
        raise RuntimeError("No Node.js found in PATH. Install Node.js 20.19 or newer.")
    process = subprocess.Popen(
        [node, str(HERE / "driver.mjs"), chromium],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Browser(process)
    finally:
        process.stdin.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE)
        process.stdout.close()
