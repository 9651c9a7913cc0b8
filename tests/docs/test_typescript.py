"""The TypeScript of the documentation is accepted by the compiler, against the real packages."""

import json
import re
import subprocess
from pathlib import Path

from tests.docs.tables import DOCS, ROOT
from tests.docs.test_docs import PAGES, name

_FENCE = re.compile(r"(<!-- ai 6 -->\n)?```(tsx?)\n(.*?)```", re.DOTALL)
_OPTIONS = {
    "target": "ES2023",
    "lib": ["ES2023", "DOM", "DOM.Iterable"],
    "module": "ESNext",
    "moduleResolution": "Bundler",
    "jsx": "react-jsx",
    "strict": True,
    "skipLibCheck": True,
    "noEmit": True,
    "types": [],
}
_OURS = {"adkwire": [str(ROOT / "web/client/src/index.ts")]}
_AI_6 = {"ai": [str(ROOT / "node_modules/ai-6-0-326/dist/index.d.ts")]}


def blocks(*, ai_6: bool = False) -> dict[str, str]:
    """Every block as a file of its own; `transport.ts` is the one that others import."""
    found: dict[str, str] = {}
    for page in PAGES:
        for index, (older, language, code) in enumerate(_FENCE.findall(page.read_text()), 1):
            is_transport = page == DOCS / "front-end.md" and "transport = new DefaultChatTransport" in code
            file = "transport.ts" if is_transport else f"{name(page).replace('/', '-')}-{index}.{language}"
            if bool(older) == ai_6:
                found[file] = code if re.search(r"^(import|export) ", code, re.MULTILINE) else f"{code}\nexport {{}};\n"
    return found


def compiled(folder: Path, code: dict[str, str], paths: dict[str, list[str]]) -> str:
    """Return the output of the compiler."""
    for file, text in code.items():
        (folder / file).write_text(text)
    config = {"compilerOptions": {**_OPTIONS, "paths": paths}, "include": ["*"]}
    (folder / "tsconfig.json").write_text(json.dumps(config))
    (folder / "node_modules").symlink_to(ROOT / "node_modules")
    tsc = [ROOT / "node_modules/.bin/tsc", "-p", folder]
    done = subprocess.run(tsc, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_blocks_compile(tmp_path: Path) -> None:
    code = blocks()
    assert "transport.ts" in code
    assert len(code) > 15
    assert compiled(tmp_path, code, _OURS) == ""


def test_the_blocks_for_ai_6_compile(tmp_path: Path) -> None:
    code = blocks(ai_6=True)
    assert len(code) >= 1
    assert compiled(tmp_path, code, {**_OURS, **_AI_6}) == ""


def test_a_mistake_is_found(tmp_path: Path) -> None:
    wrong = 'import { chatOptions } from "adkwire";\nexport const { transport } = chatOptions({ mode: "telepathy" });\n'
    assert "telepathy" in compiled(tmp_path, {"wrong.ts": wrong}, _OURS)


def test_the_table_of_auto_send_is_that_of_the_package() -> None:
    table = re.compile(r"\| last step \| message is sent \|\n(?:\|.*\|\n)+")
    documented = table.search((DOCS / "front-end.md").read_text())
    tested = table.search((ROOT / "web/client/README.md").read_text())
    assert documented is not None
    assert tested is not None
    assert documented[0] == tested[0]
