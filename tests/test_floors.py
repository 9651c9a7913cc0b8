"""Only `adk/` knows how ADK works: elsewhere the types of its events, contents and services are enough."""

import ast
from collections.abc import Iterator
from pathlib import Path

import adkwire

SOURCE = Path(adkwire.__file__).parent
FREE = ("adk/", "demo/", "testing/", "gate/client_tool.py")
"""Files that may import anything of ADK: the package adk, and code that a user of adkwire could have written."""
EVERYWHERE = {"google.adk.events.event", "google.genai.types"}
SERVICES = {
    "google.adk.artifacts.BaseArtifactService",
    "google.adk.memory.BaseMemoryService",
    "google.adk.models.base_llm.BaseLlm",
    "google.adk.sessions.BaseSessionService",
}
"""The types in the signature of Bridge."""
SESSION = {"google.adk.sessions.session.Session"}
ALSO = {"bridge.py": SERVICES, "runs/continuation.py": SESSION, "runs/history.py": SESSION, "runs/views.py": SESSION}


def imports() -> Iterator[tuple[str, str]]:
    """Yield file and whole name of everything of google's that is imported outside of the free files."""
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        if not file.startswith(FREE):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                yield from ((file, name) for name in _names(node) if name.split(".")[0] == "google")


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def test_only_event_content_and_service_types_of_adk_are_imported_outside_of_adk() -> None:
    found = list(imports())
    allowed = {(file, name) for file, name in found if name.rpartition(".")[0] in EVERYWHERE or name in EVERYWHERE}
    allowed |= {(file, name) for file, name in found if name in ALSO.get(file, ())}
    assert set(found) - allowed == set()
    assert {name for file, name in found if file == "bridge.py"} == SERVICES
