"""Conditions on the arguments of a call.

The arguments come from a model, which may send anything. So a condition has three outcomes: it holds, it does not hold,
or it cannot be judged (`Unclear`), because the argument is missing or is of another type than the condition speaks of.
The rule decides what that means for the call.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from adkwire.errors import ConfigError
from adkwire.gate.checks import Shape, at, check, is_list, is_number, is_object, one_of, quote

Conditions = dict[str, dict[str, Any]]
"""Argument name → operator → operand."""


class Unclear(Exception):
    """Raised when a condition cannot be judged."""


def read(when: Mapping[Any, Any]) -> Conditions:
    """Return checked copies of configured conditions; a plain value is short for `eq`."""
    conditions: Conditions = {}
    for name, configured in when.items():
        with at(f"when {quote(name)}"):
            conditions[_name(name)] = _operators(name, configured)
    return conditions


def judge(args: Mapping[str, Any], name: str, operator: str, operand: Any) -> bool:
    """Return whether one condition holds; raise `Unclear` when it cannot be judged."""
    return OPERATORS[operator].judge(_reach(args, name), operand)


def _reach(args: Mapping[str, Any], name: str) -> Any:
    # A dot always goes one object deeper: a key "a.b" that a model made up must not replace b inside a.
    found: Any = args
    for key in name.split("."):
        if not is_object(found) or key not in found:
            raise Unclear
        found = found[key]
    return found


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "text"
        case _ if is_number(value):
            return "number"
        case _ if is_list(value):
            return "list"
        case _ if is_object(value):
            return "object"
        case _:
            raise Unclear


def _of_kind(kind: str, value: Any) -> Any:
    if _kind(value) != kind:
        raise Unclear
    return value


def _equal(value: Any, wanted: Any) -> bool:
    if wanted is None:
        return value is None
    _of_kind(_kind(wanted), value)
    if is_object(wanted):
        return value.keys() == wanted.keys() and all(_equal(value[key], wanted[key]) for key in wanted)
    if is_list(wanted):
        return len(value) == len(wanted) and all(map(_equal, value, wanted))
    return value == wanted


def _among(value: Any, wanted: Sequence[Any]) -> bool:
    alike = [each for each in wanted if _kind(each) == _kind(value)]
    if not alike:
        raise Unclear
    return any(_equal(value, each) for each in alike)


@dataclass(frozen=True)
class _Operator:
    takes: Shape
    judge: Callable[[Any, Any], bool]


_VALUE = Shape(lambda _: True, "a value")
_NUMBER = Shape(is_number, "a number")
_LIST = Shape(lambda operand: is_list(operand) and len(operand) > 0, "a list with at least one value")
_GLOB = Shape(lambda operand: isinstance(operand, str), "a text, with * and ? for what may vary")
OPERATORS = {
    "eq": _Operator(_VALUE, _equal),
    "ne": _Operator(_VALUE, lambda value, wanted: not _equal(value, wanted)),
    "lt": _Operator(_NUMBER, lambda value, limit: _of_kind("number", value) < limit),
    "le": _Operator(_NUMBER, lambda value, limit: _of_kind("number", value) <= limit),
    "gt": _Operator(_NUMBER, lambda value, limit: _of_kind("number", value) > limit),
    "ge": _Operator(_NUMBER, lambda value, limit: _of_kind("number", value) >= limit),
    "in": _Operator(_LIST, _among),
    "not_in": _Operator(_LIST, lambda value, wanted: not _among(value, wanted)),
    "matches": _Operator(_GLOB, lambda value, glob: fnmatchcase(_of_kind("text", value), glob)),
}
_SCALAR = Shape(
    lambda value: value is None or isinstance(value, str | bool) or is_number(value),
    "a text, a finite number, true, false, null, or a list or object of these",
)


def _name(name: object) -> str:
    if not isinstance(name, str) or not all(name.split(".")):
        raise ConfigError("expected an argument's name, or names with dots between them for a nested one")
    return name


def _operators(name: str, configured: object) -> dict[str, Any]:
    if configured is None or configured == {}:
        raise ConfigError(f"is {quote(configured)}; expected a value, or operators such as eq")
    operators = configured if is_object(configured) else {"eq": configured}
    return {operator: _operand(name, operator, operand) for operator, operand in operators.items()}


def _operand(name: str, operator: Any, operand: object) -> Any:
    known = one_of(OPERATORS)
    if not known.fits(operator):
        nested = f'"{name}.{operator}"'
        raise ConfigError(
            f"unknown operator {quote(operator)}; expected {known.expected} (a nested argument is written {nested})"
        )
    check(operator, operand, OPERATORS[operator].takes)
    with at(operator):
        return _copy(operand)


def _copy(value: object) -> Any:
    """Return a copy of a JSON value, so that a rule cannot be changed later."""
    if is_list(value):
        return [_copy(each) for each in value]
    if is_object(value) and all(isinstance(key, str) for key in value):
        return {key: _copy(each) for key, each in value.items()}
    check("value", value, _SCALAR)
    return value
