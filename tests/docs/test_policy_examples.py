"""Every example of the policy page is executed, and decides what the table below it says."""

import ast
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from adkwire.gate.conditions import OPERATORS
from adkwire.gate.policy import Action, GrantCoverage, Policy, Rule
from tests.docs.tables import DOCS, ROOT, serve_options

PAGE = (DOCS / "policy.md").read_text()
EXAMPLES = ROOT / "examples"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n+((?:^\|[^\n]*\n)*)", re.DOTALL | re.MULTILINE)


class Example(NamedTuple):
    language: str
    text: str
    table: list[dict[str, str]]


def rows(table: str) -> list[dict[str, str]]:
    head, _, *lines = [
        [cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in table.splitlines()
    ]
    return [dict(zip(head, line, strict=True)) for line in lines]


def table_headed(head: str) -> list[str]:
    """The first cells of the table that begins with this line."""
    _, _, rest = PAGE.partition(f"\n{head}\n")
    found = rows(f"{head}\n" + rest.partition("\n\n")[0])
    return [next(iter(row.values())) for row in found]


BLOCKS = [(language, text, table) for language, text, table in _BLOCK.findall(PAGE) if language != "sh"]
CASES = [Example(language, text, rows(table)) for language, text, table in BLOCKS if table]


def policy_of(example: Example, folder: Path) -> Policy:
    if example.language == "python":
        names: dict[str, Any] = {"__name__": "example"}
        exec(compile(example.text, "policy.md", "exec"), names)
        return names["policy"]
    file = folder / f"policy.{example.language}"
    file.write_text(example.text)
    return Policy.load(file)


def call_of(text: str) -> tuple[str, dict[str, Any]]:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    return call.func.id, {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}


def decided(policy: Policy, row: dict[str, str]) -> tuple[str, str]:
    asks = {"yes": True, "no": False}[row.get("tool asks by itself", "no")]
    decision = policy.decide(*call_of(row["call"]), asks=asks)
    return decision.action, decision.rule


def test_every_block_has_its_table() -> None:
    assert len(CASES) == len(BLOCKS) == PAGE.count("```") / 2 - PAGE.count("```sh") > 6
    assert {example.language for example in CASES} == {"toml", "yaml", "python"}
    assert all(example.table for example in CASES)


@pytest.mark.parametrize("example", CASES, ids=[f"{each.language}-{n}" for n, each in enumerate(CASES, 1)])
def test_examples_decide_as_their_tables_say(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    policy = policy_of(example, tmp_path)
    decisions = [decided(policy, row) for row in example.table]
    assert decisions == [(row["decision"], row["decided by"]) for row in example.table]


def test_operators_actions_grants_and_keys_are_all_explained() -> None:
    assert table_headed("| operator | holds when the argument |") == [*OPERATORS]
    assert table_headed("| `action` | the call |") == [*get_args(Action)]
    grants = table_headed("| `grant` | a standing grant covers |")
    assert [cell.partition('"')[2].partition('"')[0] for cell in grants] == [*get_args(GrantCoverage)]
    assert table_headed("| key | value | what it does |") == [each.name for each in fields(Rule)]


def test_the_command_has_the_option() -> None:
    assert "--policy policy.toml" in PAGE
    assert ["--policy"] in [flags for flags, _ in serve_options()]


def test_the_quoted_mistake_is_what_is_said(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('[[rule]]\ntool = "a"\naction = "ask"\n[[rule]]\ntool = "b"\nacton = "ask"\n')
    with pytest.raises(Exception, match="rule 2") as error:
        Policy.load(tmp_path / "policy.toml")
    quoted = re.search(r"`(policy\.toml: .*?), \.\.\.`", PAGE)
    assert quoted is not None
    assert str(error.value).removeprefix(f"{tmp_path}/").startswith(quoted[1])


def test_the_two_example_files_say_the_same() -> None:
    assert Policy.load(EXAMPLES / "policy.toml") == Policy.load(EXAMPLES / "policy.yaml")


@pytest.mark.parametrize(
    ("call", "action", "rule"),
    [
        ('get_weather(location="Tokyo")', "allow", "auto_approve: get_weather"),
        ('process_payment(amount=20, currency="USD", recipient="Bob")', "allow", "rule 1: process_payment"),
        ('process_payment(amount=-20, currency="USD", recipient="Bob")', "ask", "rule 3: process_payment"),
        ('process_payment(amount=20, currency="USD", recipient="Eve")', "ask", "rule 3: process_payment"),
        ('process_payment(amount=1001, currency="USD", recipient="Bob")', "deny", "rule 2: process_payment"),
        ('process_payment(recipient="Bob")', "deny", "rule 2: process_payment"),
        ("delete_everything()", "deny", "deny: delete_*"),
        ("get_location()", "ask", "default"),
    ],
)
def test_the_example_files_do_what_their_comments_say(call: str, action: str, rule: str) -> None:
    policy = Policy.load(EXAMPLES / "policy.toml")
    decision = policy.decide(*call_of(call), asks=True)
    assert (decision.action, decision.rule) == (action, rule)
