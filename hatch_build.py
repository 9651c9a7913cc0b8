"""Puts the web page into wheel and sdist: builds it when it is not there yet."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MISSING_NPM = (
    "The web page is not built (src/adkwire/static/index.html is missing) and npm was not found. "
    "Install Node.js 20.19 or newer, or run `npm ci && npm run build` elsewhere and copy src/adkwire/static here."
)


class PageBuildHook(BuildHookInterface[Any]):
    """Builds the page with npm, unless it exists or the install is editable."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects the files."""
        root = Path(self.root)
        page = root / "src" / "adkwire" / "static" / "index.html"
        if version == "editable" or page.exists():
            return
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError(MISSING_NPM)
        if not (root / "node_modules").exists():
            subprocess.run([npm, "ci"], cwd=root, check=True)
        subprocess.run([npm, "run", "build"], cwd=root, check=True)
        if not page.exists():
            raise RuntimeError(f"`npm run build` ended well but did not write {page}.")
