"""The folders of the page: who may import whom, and what the first visit loads."""

import gzip
import re
from pathlib import Path

from tests.e2e.browser import PAGE, ROOT

SRC = ROOT / "web" / "app" / "src"
FOLDERS = [
    "preferences",
    "strings",
    "design",
    "transport",
    "sync",
    "browser-tools",
    "calls",
    "message",
    "composer",
    "list",
    "settings",
    "chat",
    "shell",
]
"""A folder imports only from those before it."""
FIRST_LOAD = 350_000
"""Bytes, compressed, that a first visit may load."""


def imports(file: Path) -> list[str]:
    """Return the folders of the page that a file imports from."""
    paths = re.findall(r'(?:from|import) "(\.[^"]+)"', file.read_text("utf-8"))
    return [(file.parent / path).resolve().relative_to(SRC).parts[0] for path in paths]


def test_every_folder_has_its_place() -> None:
    assert sorted(path.name for path in SRC.iterdir() if path.is_dir()) == sorted(FOLDERS)


def test_folders_import_from_those_before_them() -> None:
    upwards = [
        f"{file.relative_to(SRC)} imports from {target}"
        for folder in FOLDERS
        for file in (SRC / folder).rglob("*.ts*")
        for target in imports(file)
        if FOLDERS.index(target) > FOLDERS.index(folder)
    ]
    assert upwards == []


def test_a_first_visit_loads_little() -> None:
    loaded = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', PAGE.read_text("utf-8"))
    assert len(loaded) >= 2
    sizes = {name: len(gzip.compress((PAGE.parent / name).read_bytes())) for name in loaded}
    assert sum(sizes.values()) <= FIRST_LOAD, sizes
