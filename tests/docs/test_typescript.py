"""The TypeScript of the documentation is accepted by the compiler, against the real packages."""

import re
import subprocess
from pathlib import Path

from tests.docs.tables import DOCS, ROOT
from tests.docs.test_docs import PAGES, name

_FENCE = re.compile(r"```(tsx?)\n(.*?)```", re.DOTALL)
_CONFIG = """{
  "compilerOptions": {
    "target": "ES2023", "lib": ["ES2023", "DOM", "DOM.Iterable"], "module": "ESNext", "moduleResolution": "Bundler",
    "jsx": "react-jsx", "strict": true, "skipLibCheck": true, "noEmit": true, "types": []
  },
  "include": ["*"]
}
"""


def blocks() -> dict[str, str]:
    """Every block as a file of its own; `transport.ts` is the one that others import."""
    found: dict[str, str] = {}
    for page in PAGES:
        for index, (language, code) in enumerate(_FENCE.findall(page.read_text()), 1):
            is_transport = page == DOCS / "front-end.md" and "export const transport" in code
            file = "transport.ts" if is_transport else f"{name(page).replace('/', '-')}-{index}.{language}"
            found[file] = code if re.search(r"^(import|export) ", code, re.MULTILINE) else f"{code}\nexport {{}};\n"
    return found


def test_the_blocks_compile(tmp_path: Path) -> None:
    code = blocks()
    assert "transport.ts" in code
    assert len(code) > 7
    for file, text in code.items():
        (tmp_path / file).write_text(text)
    (tmp_path / "tsconfig.json").write_text(_CONFIG)
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    compiled = subprocess.run(
        [ROOT / "node_modules/.bin/tsc", "-p", tmp_path], capture_output=True, text=True, check=False
    )
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
