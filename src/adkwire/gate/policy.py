"""Policy: ordered rules that allow, ask about or deny calls; the first rule that matches a call decides.

A condition that cannot be judged never lets a call run: an `allow` rule does not match then, `ask` and `deny` rules do.
"""

import copy
import inspect
import tomllib
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeGuard, get_args

import yaml

from adkwire.errors import ConfigError
from adkwire.gate import conditions
from adkwire.gate.checks import Shape, at, check, is_list, is_number, is_object, one_of, quote

Action = Literal["allow", "ask", "deny"]
GrantCoverage = Literal["tool", "same-arguments", "never"]
"""What a standing approval covers: a tool with any arguments, a tool with the same arguments, or nothing."""
When = Mapping[str, Any] | Callable[[dict[str, Any]], bool]
"""The conditions of a rule: operators by argument, or a function of the arguments."""

_MAX_TIMEOUT = 10 * 365 * 24 * 3600
"""Seconds that a question may wait at most, since its end must be a date; without a timeout it waits for ever."""
_TEXT = Shape(lambda value: value is None or (isinstance(value, str) and value.strip() != ""), "a text")
_SHAPES = {
    "tool": Shape(
        lambda value: isinstance(value, str) and value != "" and not any(map(str.isspace, value)),
        "one tool's name or a glob, without spaces",
    ),
    "action": one_of(get_args(Action)),
    "grant": one_of(get_args(GrantCoverage)),
    "timeout": Shape(
        lambda value: value is None or (is_number(value) and 0 < value <= _MAX_TIMEOUT),
        f"seconds, more than 0 and at most {_MAX_TIMEOUT} (ten years)",
    ),
    "hint": _TEXT,
    "reason": _TEXT,
    "retry": Shape(lambda value: isinstance(value, bool), "true or false"),
}


@dataclass(frozen=True)
class Rule:
    """An action for the calls of some tools, with or without conditions.

    Attributes:
        tool: The tool's name or a glob such as `delete_*`; upper and lower case differ.
        action: `allow` runs the call, `ask` waits for a person, `deny` refuses it.
        when: Conditions that must all hold: each an argument's name with its value, or with a mapping of operators.
            Or a plain function that gets the arguments and returns a bool.
        grant: What the answers "for this chat" and "always" cover: the `tool` with any arguments, only the
            `same-arguments`, or `never` anything, so that each call asks.
        timeout: Seconds until an unanswered question expires.
        hint: The text that the approval request shows to the user.
        reason: The text for the model and the page when the rule denies a call.
        retry: Whether a person may let a call run again when a crash left it unknown whether it was executed.
    """

    tool: str
    action: Action
    _: KW_ONLY
    when: When | None = None
    grant: GrantCoverage = "tool"
    timeout: float | None = None
    hint: str | None = None
    reason: str | None = None
    retry: bool = False

    def __post_init__(self) -> None:
        for name, shape in _SHAPES.items():
            check(name, getattr(self, name), shape)
        object.__setattr__(self, "when", _read_when(self.when))

    def applies(self, tool: str, args: Mapping[str, Any]) -> bool:
        """Return whether the rule matches a call."""
        if not fnmatchcase(tool, self.tool):
            return False
        if self.when is None:
            return True
        if not is_object(self.when):
            return self._judged_by_function(args)
        each = ((name, *condition) for name, operators in self.when.items() for condition in operators.items())
        return all(self._judged(args, *condition) for condition in each)

    def _judged(self, args: Mapping[str, Any], name: str, operator: str, operand: Any) -> bool:
        try:
            return conditions.judge(args, name, operator, operand)
        except conditions.Unclear:
            return self.action != "allow"

    def _judged_by_function(self, args: Mapping[str, Any]) -> bool:
        function: Any = self.when
        try:
            # A copy: the function must not change the call.
            answer = function(copy.deepcopy(dict(args)))
        except Exception:  # noqa: BLE001 - a function that fails has not judged the call
            answer = None
        # Anything but a bool is a mistake: a missing `return`, or a coroutine, which would count as true.
        return answer if isinstance(answer, bool) else self.action != "allow"


@dataclass(frozen=True)
class Decision:
    """The action for one call, with the settings of the rule that decided; `rule` names it."""

    action: Action
    grant: GrantCoverage = "tool"
    timeout: float | None = None
    hint: str | None = None
    reason: str | None = None
    retry: bool = False
    rule: str = "default"


@dataclass(frozen=True)
class Policy:
    """Rules that allow, ask about or deny calls: the first rule that matches a call decides.

    Without a match a tool that declares a confirmation asks, and any other runs.

    Attributes:
        rules: The rules in their order.
        auto_approve: Tools or globs to allow. The three lists are short for rules without conditions; they come after
            `rules`, in the order `deny`, `require_approval`, `auto_approve`.
        require_approval: Tools or globs to ask for.
        deny: Tools or globs to deny.
    """

    rules: Sequence[Rule] = ()
    _: KW_ONLY
    auto_approve: Collection[str] = ()
    require_approval: Collection[str] = ()
    deny: Collection[str] = ()
    _named: tuple[tuple[str, Rule], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("rules", *_LISTS):
            object.__setattr__(self, name, _listed(name, getattr(self, name)))
        for rule in self.rules:
            check("rules", rule, Shape(lambda each: isinstance(each, Rule), "Rule objects only"))
        named = [(f"rule {number}: {rule.tool}", rule) for number, rule in enumerate(self.rules, 1)]
        for name, action in _LISTS.items():
            with at(name):
                named += [(f"{name}: {tool}", Rule(tool, action)) for tool in getattr(self, name)]
        object.__setattr__(self, "_named", tuple(named))

    def decide(self, tool: str, args: Mapping[str, Any], *, asks: bool) -> Decision:
        """Return what to do with a call; `asks` is True if the tool itself declares a confirmation for it."""
        for name, rule in self._named:
            if rule.applies(tool, args):
                return Decision(rule.action, rule.grant, rule.timeout, rule.hint, rule.reason, rule.retry, name)
        return Decision("ask" if asks else "allow")

    @classmethod
    def load(cls, path: str | Path) -> "Policy":
        """Read a policy from a TOML or YAML file; a `ConfigError` names the file, the rule and what is expected."""
        with at(str(path)):
            try:
                return _policy(_parsed(Path(path)))
            except RecursionError:
                raise ConfigError("is nested too deeply") from None


_LISTS: dict[str, Action] = {"deny": "deny", "require_approval": "ask", "auto_approve": "allow"}
_FILE_KEYS = one_of(["rule", *_LISTS])
_RULE_KEYS = one_of(each.name for each in fields(Rule))


def _read_when(when: When | None) -> When | None:
    if inspect.iscoroutinefunction(when):
        raise ConfigError("when is an async function; expected a plain one")
    if when is None or callable(when):
        return when
    check("when", when, Shape(lambda each: is_object(each) and len(each) > 0, "conditions, or a function"))
    return conditions.read(when)


def _is_collection(value: object) -> TypeGuard[Iterable[Any]]:
    # A string is a collection of letters, too, and one of them may be the glob that matches every tool.
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _listed(name: str, value: object) -> tuple[Any, ...]:
    if not _is_collection(value):
        raise ConfigError(f"{name} is {quote(value)}; expected a list")
    return tuple(value)


class _YamlLoader(yaml.SafeLoader):
    """A safe loader that also refuses duplicate keys, of which YAML would silently drop the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {quote(key.value)} is there twice", problem_mark=key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def _yaml(text: str) -> object:
    loaded: object = yaml.load(text, _YamlLoader)  # noqa: S506 - it is a safe loader
    return {} if loaded is None else loaded


_PARSERS: dict[str, Callable[[str], object]] = {".toml": tomllib.loads, ".yaml": _yaml, ".yml": _yaml}


def _parsed(path: Path) -> object:
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        raise ConfigError(f"expected a file whose name ends in {', '.join(_PARSERS)}")
    try:
        return parse(path.read_text(encoding="utf-8-sig"))
    except RecursionError:
        raise
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text") from None
    except Exception as error:  # noqa: BLE001 - PyYAML raises whatever it happens to for a value that belies its tag
        raise ConfigError(f"cannot be understood: {_explained(error)}") from None


def _explained(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return " ".join(str(error).split())


def _policy(table: object) -> Policy:
    keys = _checked(table, _FILE_KEYS)
    entries: Any = keys.pop("rule", [])
    check("rule", entries, Shape(is_list, "a list of rules ([[rule]] in TOML)"))
    rules: list[Rule] = []
    for number, entry in enumerate(entries, 1):
        with at(f"rule {number}"):
            rules.append(_rule(entry))
    return Policy(rules, **keys)


def _rule(entry: object) -> Rule:
    keys = _checked(entry, _RULE_KEYS)
    for name in ("tool", "action"):
        if name not in keys:
            raise ConfigError(f'the key "{name}" is missing')
    return Rule(**keys)


def _checked(table: object, known: Shape) -> dict[str, Any]:
    """Return a table whose keys are all known and have values; a key without a value in YAML is a mistake."""
    if not is_object(table):
        raise ConfigError(f"is {quote(table)}; expected keys with values")
    for key, value in table.items():
        if not known.fits(key):
            raise ConfigError(f"unknown key {quote(key)}; expected {known.expected}")
        if value is None:
            raise ConfigError(f"{key} has no value; leave the key out or give it one")
    return dict(table)
