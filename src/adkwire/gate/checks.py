"""Checks of what an owner configures: a mistake is one line that says where it is, what came and what is expected."""

import json
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeGuard

from adkwire.errors import ConfigError


@dataclass(frozen=True)
class Shape:
    """What a value must be like, and how that is said."""

    fits: Callable[[object], bool]
    expected: str


def one_of(names: Iterable[str]) -> Shape:
    """One of some words."""
    known = tuple(names)
    return Shape(lambda value: isinstance(value, str) and value in known, f"one of {', '.join(known)}")


def check(name: str, value: object, shape: Shape) -> None:
    """Refuse a value that does not fit."""
    if not shape.fits(value):
        raise ConfigError(f"{name} is {shown(value)}; expected {shape.expected}")


@contextmanager
def at(place: str) -> Generator[None]:
    """Put the place before what is wrong there."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None


def shown(value: object) -> str:
    """A value as a person wrote it, when it is short enough for one line."""
    if is_object(value):
        return "an object" if value else "empty"
    if is_list(value):
        return "a list" if value else "an empty list"
    if isinstance(value, str | bool | float) or value is None or (isinstance(value, int) and abs(value) < 2**64):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) < 80 else f"{text[:79]}…"
    return f"of type {type(value).__name__}"


def is_object(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether it is what JSON calls an object."""
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether it is what JSON calls an array."""
    return isinstance(value, list | tuple)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is what JSON calls a number. True is none, and neither are NaN and infinity."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf
