"""The tables of the documentation that are made from the code.

`python -m tests.docs.tables` writes them into the pages; `test_protocol.py` fails when a page is behind.
"""

import argparse
import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import NODEFAULT

from adkwire import cli, errors, settings
from adkwire.wire import chunks, profiles
from adkwire.wire.encode.adk_fields import IGNORED_FIELDS
from adkwire.wire.encode.outcome import FINISH_REASONS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


class Table(NamedTuple):
    """The place of a table, and the function that makes it."""

    page: str
    make: Callable[[], str]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def settings_table() -> str:
    rows = (
        (f"`{name}`", f"`ADKWIRE_{name.upper()}`", _default(settings.Settings.model_fields[name].default), text)
        for name, text in attribute_docs(settings.Settings).items()
    )
    return markdown(("field", "environment variable", "default", "what it does"), rows)


def options_table() -> str:
    rows = ((f"`{' '.join(flags)}`", text) for flags, text in serve_options())
    return markdown(("option", "what it does"), rows)


def errors_table() -> str:
    rows = [(f"{kind.status}", f"`{kind.code}`", first_line(kind)) for kind in request_errors()]
    rows.append(("500", "`internal`", "The server failed. The client gets no details; the log has them."))
    return markdown(("status", "`code`", "meaning"), sorted(rows))


def chunks_table() -> str:
    sent = sent_chunks()
    types: dict[type, profiles.KnownSince] = profiles._TYPES  # pyright: ignore[reportPrivateUsage] - it has no other reader
    rows = (
        (
            f"`{_tag(kind)}`",
            _fields(kind),
            _since(types.get(kind)),
            "yes" if kind in sent else "not yet",
            first_line(kind),
        )
        for kind in chunk_types()
    )
    return markdown(("type", "fields", "clients", "sent", "meaning"), rows)


def newer_fields_table() -> str:
    fields: dict[type, dict[str, profiles.KnownSince]] = profiles._FIELDS  # pyright: ignore[reportPrivateUsage]
    rows = (
        (f"`{_tag(kind)}`", f"`{_camel(name)}`", _since(since))
        for kind, named in fields.items()
        for name, since in named.items()
    )
    return markdown(("type", "field", "clients"), rows)


def ignored_table() -> str:
    by_reason: dict[str, list[str]] = {}
    for owner, fields in IGNORED_FIELDS.items():
        for name, reason in fields.items():
            by_reason.setdefault(reason, []).append(f"`{owner}.{name}`")
    rows = ((", ".join(names), reason) for reason, names in by_reason.items())
    return markdown(("ADK field", "why it is left out"), rows)


def finish_reasons_table() -> str:
    by_reason: dict[str, list[str]] = {}
    for gemini, reason in FINISH_REASONS.items():
        by_reason.setdefault(reason, []).append(f"`{gemini}`")
    rows = [(f"`{reason}`", ", ".join(names)) for reason, names in by_reason.items()]
    return markdown(("`finishReason` on the wire", "Gemini's reason"), [*rows, ("`other`", "every other one")])


TABLES = {
    "settings": Table("settings.md", settings_table),
    "options": Table("settings.md", options_table),
    "errors": Table("protocol.md", errors_table),
    "chunks": Table("protocol.md", chunks_table),
    "newer fields": Table("protocol.md", newer_fields_table),
    "ignored": Table("agents.md", ignored_table),
    "finish reasons": Table("agents.md", finish_reasons_table),
}


def attribute_docs(owner: type) -> dict[str, str]:
    """The annotated attributes of a class with the docstrings below them."""
    tree = ast.parse(inspect.getsource(owner)).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            assert isinstance(text, ast.Expr), f"{field.target.id} has no docstring"
            found[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found


def serve_options() -> Iterator[tuple[list[str], str]]:
    """The arguments of `adkwire serve` with their help."""
    parser = cli._parser()  # pyright: ignore[reportPrivateUsage] - what the command takes is what is documented
    for action in _subparser(parser, "serve")._actions:  # pyright: ignore[reportPrivateUsage] - argparse has no other way
        if not isinstance(action, argparse._HelpAction):  # pyright: ignore[reportPrivateUsage]
            yield list(action.option_strings) or [action.dest.upper()], action.help or ""


def request_errors() -> list[type[errors.RequestError]]:
    """Every refusal there is."""
    return errors.RequestError.__subclasses__()


def chunk_types() -> tuple[type[msgspec.Struct], ...]:
    return get_args(chunks.Tagged)


def sent_chunks() -> set[type]:
    """The chunk types that the encoder makes anywhere."""
    names: set[str] = set()
    for file in (ROOT / "src/adkwire/wire/encode").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
            ):
                names |= {node.func.attr} if node.func.value.id == "c" else set()
    return {getattr(chunks, name) for name in names}


def data_types() -> set[str]:
    """The `data-*` types that the wire floor names."""
    found: set[str] = set()
    for file in (ROOT / "src/adkwire/wire").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "type" and isinstance(node.value, ast.Constant):
                found |= {str(node.value.value)} if str(node.value.value).startswith("data-") else set()
    return found


def first_line(documented: type) -> str:
    return (documented.__doc__ or "").strip().partition("\n")[0]


def written(page: str, name: str) -> tuple[str, int, int]:
    """The text of a page, and where in it the body of a table begins and ends."""
    text = (DOCS / page).read_text()
    begin, end = f"<!-- table: {name} -->\n\n", "\n\n<!-- end of table -->"
    start = text.index(begin) + len(begin)
    return text, start, text.index(end, start - 2)


def _subparser(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    commands: Any = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))  # pyright: ignore
    return commands.choices[name]


def _default(value: object) -> str:
    if value is None or value == ():
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _tag(kind: type[Any]) -> str:
    return str(kind.__struct_config__.tag)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def _fields(kind: type[msgspec.Struct]) -> str:
    fields = msgspec.structs.fields(kind)
    return ", ".join(f"`{f.encode_name}{'' if f.default is NODEFAULT else '?'}`" for f in fields)


def _since(since: profiles.KnownSince | None) -> str:
    if since is None:
        return "all"
    majors = [f"{major}.0.{patch}" for major, patch in ((6, since.v6), (7, since.v7)) if patch is not None]
    return " and ".join(f"from {release}" for release in majors)


def main() -> None:
    """Write every table into its page."""
    for name, table in TABLES.items():
        text, start, end = written(table.page, name)
        (DOCS / table.page).write_text(text[:start] + table.make() + text[end:])


if __name__ == "__main__":
    main()
