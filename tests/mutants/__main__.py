"""Do the tests notice when a rule is broken? Each mutant breaks one, in a copy of the source, and a test must fail.

`python -m tests.mutants` tries all mutants, `python -m tests.mutants NAME...` some of them. First the tests of the
mutants run on an unchanged copy, where they must pass. The command fails when a mutant survives, when its text is not
in the source exactly once (the source has changed: write the mutant anew), when one of its tests does not exist, and
when the changed code does not load. With `--check` no test runs: only the mutants themselves are checked.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.mutants import adk, bridge, gate, live, page, recording, runs, server, stores, wire
from tests.mutants.mutant import Mutant
from tests.mutants.plugin import COPY

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "adkwire"
TIME = 300.0
"""Seconds for the tests of one mutant; a mutant whose tests take longer is not killed."""
PATIENCE = "60"
"""Seconds that these tests wait for an event: a mutant may well be noticed by one that never comes."""


MUTANTS = [
    *adk.MUTANTS,
    *bridge.MUTANTS,
    *gate.MUTANTS,
    *live.MUTANTS,
    *page.MUTANTS,
    *recording.MUTANTS,
    *runs.MUTANTS,
    *server.MUTANTS,
    *stores.MUTANTS,
    *wire.MUTANTS,
]


def copied(folder: Path) -> Path:
    """Copy the source into a folder and return the path of the copy."""
    return Path(shutil.copytree(SOURCE, folder / SOURCE.name))


def is_in_page(mutant: Mutant) -> bool:
    """Return whether a mutant is in the page, which has to be built."""
    return mutant.file.startswith("web/")


def with_broken_page(mutant: Mutant, copy: Path) -> str | None:
    """Build a page with the mutant into a copy of the source; return what is wrong with it, or None."""
    folder = copy.parent
    shutil.copytree(ROOT / "web", folder / "web", ignore=shutil.ignore_patterns("node_modules", "dist"))
    for modules in ("node_modules", "web/app/node_modules", "web/client/node_modules"):
        if (ROOT / modules).exists():
            (folder / modules).symlink_to(ROOT / modules)
    if wrong := broken(mutant, folder):
        return wrong
    vite = [ROOT / "node_modules/.bin/vite", "build", "--logLevel=error", "--emptyOutDir", "--outDir", copy / "static"]
    done = subprocess.run(vite, cwd=folder / "web/app", capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"the page cannot be built: {done.stderr}"


def broken(mutant: Mutant, copy: Path) -> str | None:
    """Put the mutant into a copy; return what is wrong with it, or None."""
    path = copy / mutant.file
    text = path.read_text(encoding="utf-8")
    if (times := text.count(mutant.old)) != 1:
        return f"its text is in {mutant.file} {times} times"
    changed = text.replace(mutant.old, mutant.new)
    try:
        if path.suffix == ".py":
            compile(changed, path, "exec")
    except SyntaxError as error:
        return f"it is not valid Python: {error}"
    path.write_text(changed, encoding="utf-8")
    return None


def tested(copy: Path, tests: Iterable[str], *options: str) -> tuple[int | None, str]:
    """Run tests on a copy; return pytest's exit code (None if it did not end) and its output."""
    folder = str(copy.parent)
    env = {
        **os.environ,
        "PYTHONPATH": folder,
        COPY: folder,
        "HYPOTHESIS_STORAGE_DIRECTORY": folder,
        "PATIENCE": PATIENCE,
    }
    wanted = [f"tests/{test}" for test in tests]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.mutants.plugin",
        "-p",
        "no:cacheprovider",
        *options,
        *wanted,
    ]
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=TIME, check=False)
    except subprocess.TimeoutExpired:
        return None, f"the tests did not end in {TIME:.0f} s"
    return done.returncode, done.stdout + done.stderr


def unbroken(mutants: Iterable[Mutant]) -> str | None:
    """Run all tests of the mutants without a mutant; return pytest's output if they fail, else None."""
    tests = dict.fromkeys(test for mutant in mutants for test in mutant.tests.split())
    with tempfile.TemporaryDirectory(prefix="adkwire-mutant-") as folder:
        ended, output = tested(copied(Path(folder)), tests)
    return None if ended == 0 else output


def verdict(mutant: Mutant) -> tuple[bool, str]:
    """Return whether a mutant is killed, and by which test; else why not."""
    with tempfile.TemporaryDirectory(prefix="adkwire-mutant-") as folder:
        copy = copied(Path(folder))
        if wrong := with_broken_page(mutant, copy) if is_in_page(mutant) else broken(mutant, copy):
            return False, wrong
        ended, output = tested(copy, mutant.tests.split(), "-x")
    if ended == 0:
        return False, f"it survives {mutant.tests}"
    if ended != 1:
        return False, output
    failed = re.search(r"^(?:FAILED|ERROR) (tests/\S+)", output, re.MULTILINE)
    return True, failed[1] if failed else ""


def missing_tests(mutant: Mutant, known: set[str]) -> str | None:
    """Return an error that names the tests of a mutant that do not exist, or None."""
    named = re.findall(r"::(test_\w+)", mutant.tests)
    missing = [name for name in named if name not in known]
    return f"there is no {', '.join(missing)}" if missing else None


def unfit(mutants: Iterable[Mutant]) -> list[str]:
    """Return what is wrong with the mutants themselves; no test runs."""
    found: list[str] = []
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    tests = {name for source in sources for name in re.findall(r"def (test_\w+)", source)}
    for mutant in mutants:
        with tempfile.TemporaryDirectory(prefix="adkwire-mutant-") as folder:
            path = Path(folder) / mutant.file
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy((ROOT if is_in_page(mutant) else SOURCE) / mutant.file, path)
            wrong = broken(mutant, Path(folder)) or missing_tests(mutant, tests)
        if wrong is not None:
            found.append(f"{mutant.name}: {wrong}")
    return found


def main(names: list[str], *, check: bool) -> int:
    """Try the named mutants, or all; with `check` only check that they fit the source and the tests."""
    known = {mutant.name: mutant for mutant in MUTANTS}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"No such mutant: {', '.join(unknown)}. Known: {', '.join(known)}.")
    chosen = [known[name] for name in names] or MUTANTS
    if wrong := unfit(chosen):
        print(*wrong, sep="\n")
        return 1
    if check:
        return 0
    began = time.monotonic()
    if (output := unbroken(chosen)) is not None:
        print(f"{output}\nThe tests fail without any mutant.")
        return 1
    alive = 0
    for mutant in chosen:
        killed, why = verdict(mutant)
        alive += not killed
        print(f"{'killed' if killed else 'ALIVE '}  {mutant.name}: {why}", flush=True)
    print(f"{len(chosen) - alive} of {len(chosen)} killed in {time.monotonic() - began:.0f} s")
    return 1 if alive else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants to try; all without any")
    parser.add_argument("--check", action="store_true", help="only check that they fit the source and the tests")
    options = parser.parse_args()
    sys.exit(main(options.names, check=options.check))
