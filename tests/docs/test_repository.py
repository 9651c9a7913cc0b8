"""No file of the repository names a registry, a machine or a folder outside of it."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.tables import ROOT

# Written in pieces, so that this file does not name them itself.
_HOSTS = [
    re.escape(".".join(parts))
    for parts in (("npmjs", "org"), ("npmjs", "com"), ("pypi", "org"), ("pythonhosted", "org"))
]
_FORBIDDEN = {
    "a registry": re.compile(
        "|".join(_HOSTS) + r"|\bindex-url\b|\bregistry\s*=\s*.?http|\"resolved\": \"http", re.IGNORECASE
    ),
    "a path of some machine": re.compile(r"(?<![\w.~-])/(?:" + "wo" + r"rk|home|Users|root)/\w"),
    "this checkout": re.compile(re.escape(str(ROOT)) + r"\b"),
    "a folder beside the repository": re.compile(r"\.\./" + "shared" + r"\b"),
}


def files() -> list[Path]:
    """Return all files that git has or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [file for file in (ROOT / name for name in listed.stdout.split("\0") if name) if file.is_file()]


@pytest.mark.parametrize("what", _FORBIDDEN)
def test_no_file_names(what: str) -> None:
    found: list[str] = []
    for file in files():
        text = file.read_bytes().decode(errors="ignore")
        found += [f"{file.relative_to(ROOT)}: {match[0]}" for match in _FORBIDDEN[what].finditer(text)]
    assert not found


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a registry", '"resolved": "' + 'https://example.com/a.tgz"'),
        ("a registry", "--index-" + "url https://example.com"),
        ("a path of some machine", "see /ho" + "me/someone/notes"),
        ("a folder beside the repository", "see ../sha" + "red/notes.md"),
    ],
)
def test_the_patterns_find_what_they_should(what: str, text: str) -> None:
    assert _FORBIDDEN[what].search(text)


def test_all_files_are_looked_at() -> None:
    assert {ROOT / "README.md", ROOT / "pyproject.toml", ROOT / "package-lock.json"} <= set(files())
