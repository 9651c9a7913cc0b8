"""Checks of configured values: a mistake is a `ConfigError` of one line: where, what value, what is expected."""

import json
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeGuard

from adkwire.errors import ConfigError


@dataclass(frozen=True)
class Shape:
    """A requirement on a value, and its text for error messages."""

    fits: Callable[[object], bool]
    expected: str


def one_of(names: Iterable[str]) -> Shape:
    """Return the requirement that a value is one of some words."""
    known = tuple(names)
    return Shape(lambda value: isinstance(value, str) and value in known, f"one of {', '.join(known)}")


def check(name: str, value: object, shape: Shape) -> None:
    """Raise `ConfigError` for a value that does not fit."""
    if not shape.fits(value):
        raise ConfigError(f"{name} is {quote(value)}; expected {shape.expected}")


@contextmanager
def at(place: str) -> Generator[None]:
    """Put a place in front of the messages of `ConfigError`s that are raised inside."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None


def quote(value: object) -> str:
    """Return a value for an error message: as it was written if that is short, else its type."""
    if is_object(value):
        return "an object" if value else "empty"
    if is_list(value):
        return "a list" if value else "an empty list"
    if isinstance(value, str | bool | float) or value is None or (isinstance(value, int) and abs(value) < 2**64):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) < 80 else f"{text[:79]}…"
    return f"of type {type(value).__name__}"


def is_object(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Return whether a value is an object of JSON."""
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is an array of JSON."""
    return isinstance(value, list | tuple)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number of JSON, which True, NaN and infinity are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf
