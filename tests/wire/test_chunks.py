"""Each chunk against the schemas of the real packages, and what is sent to which client."""

import dataclasses
import datetime
import decimal
import enum
import json
import math
import types as python_types
import uuid
from collections.abc import Mapping
from typing import Any, get_args

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, decode_chunk, encode_chunk
from adkwire.wire.profiles import KnownSince, Profile, encode_chunks
from tests.wire.schemas import V6, V6_STRICT, V7, V7_STRICT, ChunkSchema

TYPES: tuple[type[Chunk], ...] = get_args(c.Chunk)
V7_ONLY = (c.ToolApprovalResponse, c.Custom, c.ReasoningFile, c.ResetStep, c.SteeringMessage)
AFTER_V7_0_0 = (c.ResetStep, c.SteeringMessage)
STRICTEST = Profile()
NEWEST = Profile(7, 1_000_000)

VALUES: dict[str, Any] = {
    "type": "data-x",
    "id": "i",
    "provider_metadata": {"google": {"k": [1, None]}},
    "tool_metadata": {"k": 1},
    "message_metadata": {"k": None},
    "citations": [{"source": {"type": "source", "sourceType": "url", "id": "s", "url": "https://a.test/"}}],
    "input_encoding": "json",
    "kind": "google.thing",
    "parts": [{"type": "text", "text": "t"}],
    "finish_reason": "length",
    "approved": True,
    "provider_executed": True,
    "dynamic": True,
    "preliminary": True,
    "transient": False,
    "is_automatic": True,
    "input": {"n": 1},
    "output": [1],
    "data": {"n": 1},
    "approval_descriptor": {"k": 1},
    "input_schema_input": {"k": 1},
    "url": "https://a.test/a.png",
    "media_type": "image/png",
}


def value_of(field: str) -> Any:
    return VALUES.get(field, f"a {field}")


def minimal(kind: type[Chunk]) -> Chunk:
    required = [field.name for field in msgspec.structs.fields(kind) if field.required]
    return kind(**{name: value_of(name) for name in required})


def full(kind: type[Chunk]) -> Chunk:
    return kind(**{field.name: value_of(field.name) for field in msgspec.structs.fields(kind)})


def type_name(kind: type[Chunk]) -> str:
    return "data-" if kind is c.Data else str(kind.__struct_config__.tag)


@st.composite
def any_chunk(draw: st.DrawFn) -> Chunk:
    """Any chunk with any choice of its optional fields."""
    kind = draw(st.sampled_from(TYPES))
    fields = msgspec.structs.fields(kind)
    names = [field.name for field in fields if field.required or draw(st.booleans())]
    values = {name: value_of(name) for name in names}
    if kind is c.Finish and "finish_reason" in values:
        values["finish_reason"] = draw(st.sampled_from(get_args(c.FinishReason)))
    return kind(**values)


class TestSchemas:
    @pytest.mark.parametrize("kind", TYPES, ids=type_name)
    @pytest.mark.parametrize("schema", [V6_STRICT, V6, V7_STRICT, V7], ids=lambda schema: schema.name)
    def test_the_minimal_form_is_valid_wherever_the_type_exists(self, kind: type[Chunk], schema: ChunkSchema) -> None:
        known = type_name(kind) in schema.types

        assert known or kind in V7_ONLY
        assert (schema.errors(minimal(kind)) == []) is known

    @pytest.mark.parametrize("kind", TYPES, ids=type_name)
    def test_the_full_form_is_valid_for_the_newest(self, kind: type[Chunk]) -> None:
        assert V7.errors(full(kind)) == []

    @pytest.mark.parametrize("kind", TYPES, ids=type_name)
    def test_fields_are_those_of_the_schema(self, kind: type[Chunk]) -> None:
        fields = {field.encode_name for field in msgspec.structs.fields(kind)} | {"type"}
        required = {field.encode_name for field in msgspec.structs.fields(kind) if field.required} | {"type"}

        schema = V7.types[type_name(kind)]
        assert fields == set(schema["properties"])
        assert required == set(schema["required"])

    def test_no_type_is_forgotten(self) -> None:
        assert {type_name(kind) for kind in TYPES} == set(V7.types)

    @settings(max_examples=300, deadline=None)
    @given(any_chunk())
    def test_every_fitted_chunk_is_valid_for_the_oldest_clients(self, chunk: Chunk) -> None:
        for profile, schema, missing in ((Profile(6, 0), V6_STRICT, V7_ONLY), (Profile(7, 0), V7_STRICT, AFTER_V7_0_0)):
            fitted = profile.fit(chunk)
            assert (fitted is None) is isinstance(chunk, missing)
            assert fitted is None or schema.errors(fitted) == []

    @settings(max_examples=200, deadline=None)
    @given(any_chunk(), st.integers(6, 7), st.integers(0, 400))
    def test_fitting_takes_away_and_never_adds(self, chunk: Chunk, major: int, patch: int) -> None:
        profile = Profile(major, patch)
        fitted = profile.fit(chunk)
        raw = profile.fit_encoded(encode_chunks([chunk])[0])

        assert (None if raw is None else decode_chunk(raw)) == fitted
        if fitted is None:
            return
        assert profile.fit(fitted) == fitted
        for name in chunk.__struct_fields__:
            kept = getattr(fitted, name)
            assert kept in (getattr(chunk, name), UNSET) or (name, kept) == ("finish_reason", "other")

    @given(any_chunk())
    def test_the_newest_client_gets_everything(self, chunk: Chunk) -> None:
        assert NEWEST.fit(chunk) == chunk


class TestCoding:
    @given(any_chunk())
    def test_an_encoded_chunk_can_be_decoded(self, chunk: Chunk) -> None:
        assert decode_chunk(encode_chunk(chunk)) == chunk

    def test_an_empty_payload_is_null_and_an_absent_field_is_absent(self) -> None:
        chunk = c.ToolOutputAvailable(tool_call_id="c1", output=None)

        assert encode_chunk(chunk) == b'{"type":"tool-output-available","toolCallId":"c1","output":null}'
        assert encode_chunk(c.Data(type="data-x", data=None)) == b'{"type":"data-x","data":null}'

    @pytest.mark.parametrize(
        "raw", [b"{}", b'{"type":"nonsense"}', b'{"type":"text-start"}', b"[", b'{"type":"data-x"}']
    )
    def test_other_json_is_refused(self, raw: bytes) -> None:
        with pytest.raises(msgspec.DecodeError):
            decode_chunk(raw)

    def test_a_chunk_that_a_client_knows_is_not_changed(self) -> None:
        [raw] = encode_chunks([c.TextDelta(id="t", delta='{"type":"finish"')])

        assert STRICTEST.fit_encoded(raw) is raw


class Colour(enum.Enum):
    RED = "red"


class Model(pydantic.BaseModel):
    some_name: int = pydantic.Field(default=1, alias="someName")
    nothing: str | None = None


@dataclasses.dataclass
class Point:
    x: int
    inner: Model


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


class TestAnyOutput:
    """A tool returns what it likes; the stream must not break over it."""

    @pytest.mark.parametrize(
        ("value", "sent"),
        [
            (math.nan, None),
            (math.inf, None),
            ({"a": [-math.inf]}, {"a": [None]}),
            (Model(), {"someName": 1}),
            ({"deep": [Model(someName=2)]}, {"deep": [{"someName": 2}]}),
            (Point(1, Model()), {"x": 1, "inner": {"someName": 1}}),
            ({3}, [3]),
            (frozenset({3}), [3]),
            ((1, 2), [1, 2]),
            (b"\xff", "/w=="),
            (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "2026-01-02T00:00:00Z"),
            (datetime.date(2026, 1, 2), "2026-01-02"),
            (decimal.Decimal("1.10"), "1.10"),
            (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
            (Colour.RED, "red"),
            (2**80, 2**80),
            ({1: 2, None: 3}, {"1": 2, "None": 3}),
            (python_types.MappingProxyType({"a": Model()}), {"a": {"someName": 1}}),
            (1j, "1j"),
            ("\ud800 half", "? half"),
            (
                {"\udfff": ["\udfff", 1, None, {Colour.RED}, Model()]},
                {"?": ["?", 1, None, ["Colour.RED"], {"someName": 1}]},
            ),
        ],
        ids=str,
    )
    def test_it_arrives_as_json(self, value: Any, sent: Any) -> None:
        chunk = c.ToolOutputAvailable(tool_call_id="c1", output=value)

        assert json.loads(encode_chunk(chunk))["output"] == sent
        assert V6_STRICT.errors(chunk) == []

    def test_endless_nesting_is_cut(self) -> None:
        loop: dict[str, Any] = {}
        loop["me"] = loop

        for endless in (nested(5_000), loop):
            sent = encode_chunk(c.Data(type="data-state", data=endless))
            assert b'"..."' in sent
            assert decode_chunk(sent)

    def test_a_cleaned_chunk_keeps_its_other_fields(self) -> None:
        chunk = c.ToolOutputAvailable(tool_call_id="c1", output="\ud800", preliminary=True)

        assert decode_chunk(encode_chunk(chunk)) == c.ToolOutputAvailable(
            tool_call_id="c1", output="?", preliminary=True
        )


class TestProfile:
    @pytest.mark.parametrize(
        ("header", "profile"),
        [
            ("ai/7.0.169", Profile(7, 169)),
            ("ai/6.0.231", Profile(6, 231)),
            ("ai/6.0.0", Profile(6, 0)),
            ("ai/5.0.277", STRICTEST),
            ("ai/8.1.0", NEWEST),
            ("ai/7.1.0", NEWEST),
            ("ai/6.2.3", Profile(6, 1_000_000)),
            ("ai/7.0.12-beta.3", Profile(7, 12)),
            ("ai/7.0.12+build", Profile(7, 12)),
            ("ai/7.0", STRICTEST),
            ("ai/7.0.x", STRICTEST),
            ("ai/7.0.1 evil", STRICTEST),
            ("ai/99999999.0.0", STRICTEST),
            ("langchain/7.0.169", STRICTEST),
            ("", STRICTEST),
            (None, STRICTEST),
        ],
    )
    def test_declared(self, header: str | None, profile: Profile) -> None:
        assert Profile.declared(header) == profile

    @pytest.mark.parametrize(
        ("chunk", "since"),
        [
            (c.Abort(reason="x"), KnownSince(15, 0)),
            (c.ToolInputAvailable(tool_call_id="c", tool_name="t", input=1, tool_metadata={}), KnownSince(176, 0)),
            (c.ToolOutputError(tool_call_id="c", error_text="t", provider_metadata={}), KnownSince(231, 0)),
            (c.ToolApprovalRequest(approval_id="a", tool_call_id="c", signature="s"), KnownSince(202, 0)),
            (c.ToolApprovalRequest(approval_id="a", tool_call_id="c", approval_descriptor={}), KnownSince(274, 87)),
            (c.ToolApprovalRequest(approval_id="a", tool_call_id="c", reason="s"), KnownSince(None, 82)),
            (c.ToolApprovalRequest(approval_id="a", tool_call_id="c", is_automatic=True), KnownSince(None, 0)),
            (c.ToolInputStart(tool_call_id="c", tool_name="t", input_encoding="json"), KnownSince(308, 142)),
            (c.TextEnd(id="t", citations=[]), KnownSince(None, 138)),
            (c.ToolApprovalResponse(approval_id="a", approved=True), KnownSince(None, 0)),
            (c.ResetStep(), KnownSince(None, 70)),
            (c.SteeringMessage(id="s", parts=[]), KnownSince(None, 163)),
            (c.Finish(finish_reason="interrupted"), KnownSince(None, 149)),
        ],
        ids=repr,
    )
    def test_each_release_gets_what_it_knows(self, chunk: Chunk, since: KnownSince) -> None:
        for major, first in ((6, since.v6), (7, since.v7)):
            for patch in range(330):
                assert (Profile(major, patch).fit(chunk) == chunk) is (first is not None and patch >= first)


def test_the_table_of_values_covers_every_field() -> None:
    """So that a new field with a type of its own is not tested with a string by accident."""
    strings = {name for kind in TYPES for name in kind.__struct_fields__ if name not in VALUES}

    for kind in TYPES:
        hints: Mapping[str, Any] = {field.name: field.type for field in msgspec.structs.fields(kind)}
        assert all(str in (hints[name], *get_args(hints[name])) for name in strings & hints.keys())
