"""Streamed tool arguments as JSON text.

Gemini streams arguments as pairs of JSONPath and value; AI SDK clients expect pieces of one JSON text. The text is
written as the pairs come, as long as they come in document order. After a pair out of order nothing more is written:
the complete arguments follow in `tool-input-available` anyway.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from google.genai import types

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")


class ArgumentStream:
    """The JSON text of one call's arguments as far as they have come."""

    def __init__(self) -> None:
        self._path: list[str | int] = []
        self._in_string = False
        self._begun = False
        self._out_of_order = False

    def add(self, pieces: "Iterable[types.PartialArg]") -> str:
        """Return the text that these pieces add; empty when they add none."""
        return "".join(self._piece(piece) for piece in pieces)

    def _piece(self, piece: "types.PartialArg") -> str:
        path = _parse(piece.json_path)
        if self._out_of_order or not path:
            return ""
        if path == self._path:
            return self._more(piece)
        opening = self._move(path)
        if opening is None:
            self._out_of_order = True
            return ""
        return opening + self._value(piece)

    def _more(self, piece: "types.PartialArg") -> str:
        if not self._in_string:
            self._out_of_order = True
            return ""
        return _inside(piece.string_value or "")

    def _value(self, piece: "types.PartialArg") -> str:
        self._in_string = piece.string_value is not None
        if piece.string_value is not None:
            return '"' + _inside(piece.string_value)
        if piece.number_value is not None:
            return msgspec.json.encode(piece.number_value).decode()
        if piece.bool_value is not None:
            return "true" if piece.bool_value else "false"
        return "null"

    def _move(self, path: list[str | int]) -> str | None:
        """Return the text that leads from the last path to `path`; None when `path` is out of order."""
        shared = 0
        while shared < min(len(path), len(self._path)) and path[shared] == self._path[shared]:
            shared += 1
        if shared == len(path) or (self._begun and shared == len(self._path)):
            return None
        text = '"' if self._in_string else ""
        for key in reversed(self._path[shared + 1 :]):
            text += "]" if isinstance(key, int) else "}"
        if self._begun:
            if not _follows(path[shared], self._path[shared]):
                return None
            text += "," + _key(path[shared])
        else:
            text += _opening(path[shared])
        self._begun = True
        text += "".join(_opening(key) for key in path[shared + 1 :])
        self._path = path
        return text


def _parse(json_path: str | None) -> list[str | int]:
    if not json_path or not json_path.startswith("$"):
        return []
    return [int(m[2]) if m[2] else m[1] or m[3] for m in _STEP.finditer(json_path)]


def _follows(new: str | int, old: str | int) -> bool:
    """Return True if `new` can follow `old` in the same object or list."""
    if isinstance(new, int) and isinstance(old, int):
        return new == old + 1
    return isinstance(new, str) and isinstance(old, str)


def _opening(key: str | int) -> str:
    return "[" if isinstance(key, int) else "{" + _key(key)


def _key(key: str | int) -> str:
    return "" if isinstance(key, int) else msgspec.json.encode(key).decode() + ":"


def _inside(text: str) -> str:
    return msgspec.json.encode(text).decode()[1:-1]
