"""docs/architecture.md names files that exist, and every package of the source."""

import re
from pathlib import Path

import pytest

from tests.docs.tables import ROOT

SOURCE = ROOT / "src/adkwire"
PAGE = (ROOT / "docs/architecture.md").read_text()
NAMED = sorted(set(re.findall(r"`((?:\w+/)*\w+\.py|(?:[\w-]+/)+)`", PAGE)))
WALKS = [
    "text delta",
    "approval over HTTP",
    "approval in a live",
    "spoken turn",
    "Coming back",
    "crash",
    "Stop",
    "History",
]


def packages() -> list[str]:
    inside = [path for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE]
    return sorted(path.parent.name for path in inside)


@pytest.mark.parametrize("name", NAMED)
def test_the_files_it_names_exist(name: str) -> None:
    assert any((base / name).exists() for base in (SOURCE, ROOT)), name


def test_it_names_every_package() -> None:
    assert [name for name in packages() if f"{name}/" not in PAGE] == []


@pytest.mark.parametrize("words", WALKS)
def test_it_has_the_walks(words: str) -> None:
    assert re.search(rf"^### \d\. .*{words}", PAGE, re.MULTILINE), words


def folders() -> list[Path]:
    roots = (SOURCE, ROOT / "web/client/src")
    return sorted({file.parent for root in roots for kind in ("*.py", "*.ts") for file in root.rglob(kind)})


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: str(folder.relative_to(ROOT)))
def test_no_folder_is_crowded(folder: Path) -> None:
    files = [file for file in folder.iterdir() if file.suffix in (".py", ".ts") and file.name != "__init__.py"]
    assert len(files) <= 16, sorted(file.name for file in files)


def test_no_class_name_stands_twice() -> None:
    """Steps of a script have names of their own in `adkwire.testing`, such as `Finish`: they are not counted."""
    found: dict[str, list[str]] = {}
    for file in (file for file in SOURCE.rglob("*.py") if "testing" not in file.relative_to(SOURCE).parts):
        for name in re.findall(r"^class ([A-Z]\w+)", file.read_text(), re.MULTILINE):
            found.setdefault(name, []).append(str(file.relative_to(SOURCE)))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}
