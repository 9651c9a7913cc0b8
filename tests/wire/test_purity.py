"""The wire package is pure: it imports neither ADK nor anything that does I/O."""

import json
import subprocess
import sys
from pathlib import Path

import adkwire
import adkwire.wire

WIRE = Path(adkwire.wire.__path__[0])
MODULES = sorted(
    ".".join(path.relative_to(WIRE).with_suffix("").parts) for path in WIRE.rglob("*.py") if path.stem != "__init__"
)
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


def test_the_wire_alone_imports_no_asyncio_logging_or_random() -> None:
    roots = imported_by(f"{BARE_PACKAGE}\nimport {IMPORTS}")

    assert "adkwire" in roots
    assert roots & IMPURE == set()


def test_there_is_something_to_import() -> None:
    assert {"chunks", "decode.decoder", "encode.encoder", "messages"} <= set(MODULES)
