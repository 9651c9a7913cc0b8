"""Streamed arguments become JSON text, piece by piece."""

import json
from collections.abc import Iterator
from typing import Any, cast

from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from adkwire.wire.encode.argument_stream import ArgumentStream

Piece = types.PartialArg

_KEYS = st.text("abc_é 0", min_size=1, max_size=3)
_LEAVES = st.one_of(
    st.none(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), st.text('a"\\é\n😀', max_size=5)
)
_ARGUMENTS = st.dictionaries(
    _KEYS,
    st.recursive(
        _LEAVES,
        lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(_KEYS, inner, min_size=1, max_size=3),
        max_leaves=8,
    ),
    min_size=1,
    max_size=4,
)


def pieces_of(value: Any, path: str, cut: int) -> Iterator[Piece]:
    """The pairs Gemini sends for a value, in document order, strings in pieces."""
    match value:
        case dict():
            for key, inner in cast("dict[str, Any]", value).items():
                yield from pieces_of(inner, f"{path}['{key}']", cut)
        case list():
            for index, inner in enumerate(cast("list[Any]", value)):
                yield from pieces_of(inner, f"{path}[{index}]", cut)
        case str():
            yield Piece(json_path=path, string_value=value[:cut])
            for at in range(cut, len(value), cut):
                yield Piece(json_path=path, string_value=value[at : at + cut])
        case bool():
            yield Piece(json_path=path, bool_value=value)
        case float():
            yield Piece(json_path=path, number_value=value)
        case _:
            yield Piece(json_path=path, null_value="NULL_VALUE")


def closed(text: str) -> Any:
    """Parse a prefix of JSON by closing what it left open."""
    for tail in _endings(text):
        try:
            return json.loads(text + tail)
        except ValueError:
            continue
    raise AssertionError(f"not the beginning of a JSON text: {text!r}")


def _endings(text: str) -> Iterator[str]:
    stack: list[str] = []
    quoted = escaped = False
    for char in text:
        if quoted:
            quoted, escaped = escaped or char != '"', char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "{[":
            stack.append("}" if char == "{" else "]")
        elif char in "}]":
            assert stack.pop() == char
    yield ('"' if quoted else "") + "".join(reversed(stack))


@settings(deadline=None)
@given(_ARGUMENTS, st.integers(1, 3))
def test_pieces_in_order_make_the_whole_arguments(arguments: dict[str, Any], cut: int) -> None:
    stream = ArgumentStream()

    assert closed("".join(stream.add([piece]) for piece in pieces_of(arguments, "$", cut))) == arguments


@settings(deadline=None)
@given(_ARGUMENTS, st.data())
def test_pieces_in_any_order_are_still_the_beginning_of_json(arguments: dict[str, Any], data: st.DataObject) -> None:
    pieces = data.draw(st.permutations(list(pieces_of(arguments, "$", 2))))
    stream = ArgumentStream()
    text = ""
    for piece in pieces:
        text += stream.add([piece])
        assert not text or closed(text) is not None


def test_dotted_paths() -> None:
    stream = ArgumentStream()
    pieces = [
        Piece(json_path="$.to.name", string_value="Ann"),
        Piece(json_path="$.to.tags[0]", string_value="a"),
        Piece(json_path="$.to.tags[1].deep", bool_value=True),
        Piece(json_path="$.amount", number_value=5),
    ]

    assert stream.add(pieces) == '{"to":{"name":"Ann","tags":["a",{"deep":true}]},"amount":5.0'


def test_nothing_is_written_after_a_pair_out_of_order() -> None:
    for first, second in (
        ("$.a.b", "$.a"),
        ("$.a", "$.a.b"),
        ("$.a[1]", "$.a[0]"),
        ("$.a[0]", "$.a[2]"),
        ("$.a[0]", "$.a.b"),
    ):
        stream = ArgumentStream()
        stream.add([Piece(json_path=first, string_value="x")])

        assert stream.add([Piece(json_path=second, string_value="y")]) == ""
        assert stream.add([Piece(json_path="$.new", string_value="z")]) == ""


def test_only_strings_come_in_pieces() -> None:
    stream = ArgumentStream()

    assert stream.add([Piece(json_path="$.n", number_value=1)]) == '{"n":1.0'
    assert stream.add([Piece(json_path="$.n", number_value=2), Piece(json_path="$.m", number_value=3)]) == ""


def test_a_path_that_cannot_be_read_adds_nothing() -> None:
    stream = ArgumentStream()

    assert stream.add([Piece(json_path=None), Piece(json_path=""), Piece(json_path="a"), Piece(json_path="$")]) == ""
    assert stream.add([Piece(json_path="$.a", string_value="x"), Piece(json_path="$.a")]) == '{"a":"x'
