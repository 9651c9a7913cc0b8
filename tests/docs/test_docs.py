"""The documentation builds, its links lead somewhere, its code is code, and it asks nothing of the network."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.tables import DOCS, ROOT

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(DOCS.rglob("*.md"))
_FENCE = re.compile(r"(<!-- runnable -->\n)?```python\n(.*?)```", re.DOTALL)
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_CSS_URL = re.compile(rb"(?:@import\s+|url\()[\"']?(?:https?:)?//", re.IGNORECASE)
_LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "link": "href",
}


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


class Html(HTMLParser):
    """Collects what a page loads, what it links to, and the anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        if "id" in found:
            self.ids.add(found["id"])
        if tag in _LOADS and found.get(_LOADS[tag]):
            self.loads.append(found[_LOADS[tag]])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Html]:
    found = {file: Html(file.read_text()) for file in site.rglob("*.html")}
    assert len(found) > 15
    return found


def test_the_site_loads_nothing_from_elsewhere(site: Path, pages: dict[Path, Html]) -> None:
    loads = {(file.relative_to(site).as_posix(), url) for file, html in pages.items() for url in html.loads}
    assert loads
    assert not [load for load in loads if urlsplit(load[1]).netloc]
    assert not [file.name for file in site.rglob("*.css") if _CSS_URL.search(file.read_bytes())]


def test_no_page_has_a_block_that_would_fetch_a_renderer(pages: dict[Path, Html]) -> None:
    assert not [file.parent.name for file in pages if 'class="mermaid"' in file.read_text()]


def test_what_the_site_loads_and_links_is_there(site: Path, pages: dict[Path, Html]) -> None:
    missing = [
        f"{file.relative_to(site)}: {url}"
        for file, html in pages.items()
        for url in html.loads + html.links
        if not urlsplit(url).scheme and not urlsplit(url).netloc and not _is_there(site, pages, file, url)
    ]
    assert not missing


def _is_there(site: Path, pages: dict[Path, Html], file: Path, url: str) -> bool:
    parts = urlsplit(url)
    path = unquote(parts.path)
    target = file if not path else site / path[1:] if path.startswith("/") else file.parent / path
    target = Path(os.path.normpath(target))
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return False
    return not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].ids | {"__top"}


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=name)
def test_links_outside_the_site_lead_to_files(page: Path) -> None:
    found: list[str] = _LINK.findall(page.read_text())
    links = [link for link in found if not urlsplit(link).scheme]
    missing = [link for link in links if link.partition("#")[0] and not (page.parent / link.partition("#")[0]).exists()]
    anchors = [link[1:] for link in links if link.startswith("#")]
    headings = {_anchor(line) for line in page.read_text().splitlines() if line.startswith("#")}
    assert not missing
    assert set(anchors) <= headings


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w-]", "", heading.lstrip("# ").lower().replace(" ", "-"))


def blocks() -> Iterator[tuple[str, bool, str]]:
    for page in PAGES:
        for index, found in enumerate(_FENCE.finditer(page.read_text()), 1):
            yield f"{name(page)}:{index}", bool(found[1]), found[2]


CODE = list(blocks())
RUNNABLE = [(where, code) for where, runnable, code in CODE if runnable]


def test_there_is_code_to_check() -> None:
    assert len(CODE) > 8
    assert len(RUNNABLE) >= 2


@pytest.mark.parametrize(("where", "code"), [(where, code) for where, _, code in CODE], ids=[c[0] for c in CODE])
def test_python_blocks_compile(where: str, code: str) -> None:
    compile(code, where, "exec")


@pytest.mark.parametrize(("where", "code"), RUNNABLE, ids=[r[0] for r in RUNNABLE])
def test_runnable_blocks_run(where: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, where, "exec"), {"__name__": "__main__"})


def test_the_changelog_has_room_for_the_next_change() -> None:
    unreleased = (ROOT / "CHANGELOG.md").read_text().partition("\n## [Unreleased]\n")[2]
    assert re.search(r"^### (Added|Changed|Deprecated|Removed|Fixed|Security)$", unreleased, re.MULTILINE)


def test_the_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_tests_named_in_the_readme_are_those_of_continuous_integration() -> None:
    assert "make test" in (ROOT / "README.md").read_text()
    assert (ROOT / ".ci/run").read_text().rstrip().endswith("make test")


def test_the_commands_that_are_named_can_be_made() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for page in PAGES for word in re.findall(r"`(?:[A-Z_]+=\S+ )*make ([a-z]+)", page.read_text())}
    assert {"run", "test", "build"} <= named
    assert not named - targets


def test_the_readme_tries_the_sentences_of_the_page() -> None:
    offered = re.search(r"INTENTS = \[(.+?)\]", (ROOT / "web/app/src/chat/welcome.tsx").read_text(), re.DOTALL)
    tried = (ROOT / "README.md").read_text().partition(" Say ")[2].partition("\n")[0]
    assert offered is not None
    assert re.findall(r"`([^`]+)`", tried) == re.findall(r'"([^"]+)"', offered[1])


def test_the_tested_releases_are_those_that_are_installed() -> None:
    installed = set(re.findall(r'"npm:ai@([\d.]+)"', (ROOT / "tests/conformance/package.json").read_text()))
    listed = (ROOT / "README.md").read_text().partition("The real npm packages")[2].partition("\n")[0]
    assert set(re.findall(r"\d+\.\d+\.\d+", listed)) == installed
    assert installed <= set(re.findall(r"\d+\.\d+\.\d+", (DOCS / "front-end.md").read_text()))
