"""The wire floor is pure: it brings nothing along that does I/O, and not ADK."""

import json
import subprocess
import sys
from pathlib import Path

import adkwire
import adkwire.wire

MODULES = sorted(path.stem for path in Path(adkwire.wire.__path__[0]).glob("*.py") if path.stem != "__init__")
IMPORTS = ", ".join(f"adkwire.wire.{name}" for name in MODULES)
SERVER = {"google", "fastapi", "starlette", "uvicorn", "anyio", "httpx"}
IMPURE = SERVER | {"asyncio", "logging", "random", "uuid", "secrets", "socket", "threading", "pydantic"}
BARE_PACKAGE = f"""
import types
sys.modules["adkwire"] = package = types.ModuleType("adkwire")
package.__path__ = [{str(Path(adkwire.__path__[0]))!r}]
"""


def imported_by(code: str) -> set[str]:
    """The top-level packages that running the code imports, beyond what msgspec and the basics do."""
    before = "import base64, json, msgspec, re, struct, sys\nbefore = set(sys.modules)\n"
    after = "\nprint(json.dumps([*sys.modules.keys() - before]))"
    done = subprocess.run([sys.executable, "-c", before + code + after], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_importing_the_wire_imports_no_adk_and_no_server() -> None:
    roots = imported_by(f"import {IMPORTS}")

    assert "adkwire" in roots
    assert roots & SERVER == set()


def test_the_wire_by_itself_imports_nothing_that_waits_logs_or_is_random() -> None:
    roots = imported_by(f"{BARE_PACKAGE}\nimport {IMPORTS}")

    assert "adkwire" in roots
    assert roots & IMPURE == set()


def test_there_is_something_to_import() -> None:
    assert {"chunks", "decoder", "encoder", "messages"} <= set(MODULES)
