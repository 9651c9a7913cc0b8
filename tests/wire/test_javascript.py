"""Values that a JavaScript client sends back, and which of them count as the same."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adkwire.errors import Unprocessable
from adkwire.wire.chunks import encode_chunk
from adkwire.wire.javascript import MAX_DEPTH, iso, same_value, storable, whole_text

NAN, INFINITY = float("nan"), float("inf")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def as_browser(text: str) -> Any:
    """`JSON.parse`: every number is a double, and one out of range is sent back as null."""
    return json.loads(text, parse_int=_number, parse_float=_number)


def _number(text: str) -> float | None:
    number = float(text)
    return number + 0.0 if abs(number) < INFINITY else None  # It has no minus zero in JSON.


@pytest.mark.parametrize(
    ("issued", "echoed"),
    [
        (None, None),
        (True, True),
        ("a", "a"),
        (5.0, 5),
        (5, 5.0),
        (-0.0, 0),
        (2**53 + 1, 2**53),
        (12345678901234567890, 12345678901234567000),
        (10**30, 1e30),
        (10**400, None),
        (NAN, None),
        (INFINITY, None),
        (-INFINITY, None),
        ([1, [2]], [1, [2]]),
        ((1, 2), [1, 2]),
        ({"a": 1, "b": {"c": [5.0]}}, {"b": {"c": [5]}, "a": 1}),
        ({}, {}),
        ("half \ud83d", "half ?"),
        ({"\udc00": 1}, {"?": 1}),
    ],
    ids=lambda one: ascii(one)[:30],
)
def test_the_same(issued: Any, echoed: Any) -> None:
    assert same_value(issued, echoed)
    assert same_value(echoed, issued)


@pytest.mark.parametrize(
    ("issued", "echoed"),
    [
        (1, True),
        (0, False),
        (0, None),
        (None, False),
        (1, "1"),
        ("", None),
        ("a", "A"),
        (5, 5.000001),
        (2**53, 2**53 + 2),
        ([], {}),
        ([], None),
        ([1], [1, 2]),
        ([1, 2], [2, 1]),
        ([1], [True]),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": 1, "b": None}),
        ({"a": 1, "b": None}, {"a": 1}),
        ({"a": 1}, {"b": 1}),
        ({"0": 1}, [1]),
        ({"a": [{"b": 1}]}, {"a": [{"b": "1"}]}),
    ],
    ids=str,
)
def test_not_the_same(issued: Any, echoed: Any) -> None:
    assert not same_value(issued, echoed)
    assert not same_value(echoed, issued)


def test_depth_does_not_matter() -> None:
    assert same_value(nested(5_000), nested(5_000))
    assert not same_value(nested(5_000), nested(5_001))


@given(VALUES)
def test_what_a_browser_sends_back_of_what_it_was_sent_is_the_same(value: Any) -> None:
    assert same_value(value, as_browser(encode_chunk(value).decode()))


@given(VALUES, VALUES)
def test_what_is_the_same_looks_the_same_in_a_browser(one: Any, other: Any) -> None:
    seen = [as_browser(encode_chunk(value).decode()) for value in (one, other)]

    assert same_value(one, other) == (json.dumps(seen[0], sort_keys=True) == json.dumps(seen[1], sort_keys=True))


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert whole_text("a\ud83db\U0001f600") == "a?b\U0001f600"


def test_times() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(1_700_000_000.1239) == "2023-11-14T22:13:20.123Z"


class TestStorable:
    @given(VALUES)
    def test_every_encoder_takes_it_and_it_is_the_same(self, value: Any) -> None:
        kept = storable(value)

        assert same_value(kept, value)
        assert msgspec.msgpack.encode(kept)

    def test_integers_keep_what_64_bits_hold(self) -> None:
        assert storable([2**64 - 1, -(2**63), 2**64, 10**400, True]) == [2**64 - 1, -(2**63), float(2**64), None, True]
        assert storable(True) is True

    def test_the_limit_of_depth_is_the_limit(self) -> None:
        assert storable(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
        assert storable({"a": nested(MAX_DEPTH - 1)}) == {"a": nested(MAX_DEPTH - 1)}
        with pytest.raises(Unprocessable, match="deeper than 100 levels"):
            storable(nested(MAX_DEPTH + 1))
