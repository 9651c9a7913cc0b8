"""Values as a JavaScript client holds them and sends them back.

JavaScript's numbers are doubles, and JSON has null for those that are not finite. Lone surrogates are never sent.
"""

import math
from datetime import UTC, datetime
from typing import Any, cast

from adkwire.errors import Unprocessable

MAX_DEPTH = 100
"""Levels to which a value from a client may be nested: code that stores and sends it is recursive."""

_INTEGERS = range(-(2**63), 2**64)


def same_value(issued: Any, echoed: Any) -> bool:
    """Return True if an honest client that got `issued` can send `echoed` back."""
    pairs: list[tuple[Any, Any]] = [(issued, echoed)]
    while pairs:
        ours, theirs = (_in_javascript(one) for one in pairs.pop())
        if type(ours) is not type(theirs):
            return False
        if isinstance(ours, dict):
            if ours.keys() != theirs.keys():
                return False
            pairs += [(one, theirs[name]) for name, one in cast("dict[str, Any]", ours).items()]
        elif isinstance(ours, list):
            if len(cast("list[Any]", ours)) != len(theirs):
                return False
            pairs += zip(cast("list[Any]", ours), theirs, strict=True)
        elif ours != theirs:
            return False
    return True


def iso(seconds: float) -> str:
    """Return a time in seconds since 1970 as JavaScript's `toISOString` writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def whole_text(text: str) -> str:
    """Return a text that can be sent, with a question mark for each lone surrogate."""
    return text.encode(errors="replace").decode()


def storable(value: Any, levels: int = MAX_DEPTH) -> Any:
    """Return a decoded value that every encoder accepts: not nested too deep, with integers of at most 64 bits.

    Larger integers become doubles, which they were in the client.
    """
    if isinstance(value, int):
        return value if value in _INTEGERS else _double(value)
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        raise Unprocessable(f"A value is nested deeper than {MAX_DEPTH} levels.")
    if isinstance(value, dict):
        return {name: storable(one, levels - 1) for name, one in cast("dict[str, Any]", value).items()}
    return [storable(one, levels - 1) for one in cast("list[Any]", value)]


def _in_javascript(value: Any) -> Any:
    """Return a value as JavaScript has it; the values inside an object or a list are not changed."""
    if isinstance(value, dict):
        return {whole_text(str(name)): one for name, one in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return list(cast("list[Any]", value))
    if isinstance(value, str):
        return whole_text(value)
    return _double(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _double(value: float) -> float | None:
    try:
        double = float(value)
    except OverflowError:
        return None
    return double if math.isfinite(double) else None
