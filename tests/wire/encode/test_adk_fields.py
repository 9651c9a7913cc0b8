"""Nothing that ADK can say is dropped by accident: every field is mapped, or left out for a written reason."""

from collections.abc import Mapping
from typing import Any

import pytest
from google.adk.events.event import Event, NodeInfo
from google.adk.events.event_actions import EventActions
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types
from pydantic import BaseModel

from adkwire.wire.encode.adk_fields import IGNORED_FIELDS, MAPPED_FIELDS
from adkwire.wire.failures import explain_fully
from tests.wire.adk_events import (
    answered,
    asked,
    call,
    gated,
    heard,
    image,
    model,
    partial,
    response,
    response_of,
    spoken,
    text,
    wire,
)

CLASSES: dict[str, type[BaseModel]] = {
    "Event": Event,
    "EventActions": EventActions,
    "Part": types.Part,
    "FunctionCall": types.FunctionCall,
    "FunctionResponse": types.FunctionResponse,
}
PARTIAL_ARGUMENTS = [types.PartialArg(json_path="$.n", number_value=1)]
BLOB = types.FunctionResponsePart(inline_data=types.FunctionResponseBlob(mime_type="image/png", data=b"png"))
FAILED: dict[str, Any] = {"error_code": "X"}
CALL: dict[str, Any] = {"id": "c1", "name": "tool"}
RESPONSE: dict[str, Any] = {**CALL, "response": {"r": 1}}


def unlisted(name: str, kind: type[BaseModel]) -> set[str]:
    """The fields of a class that neither table knows."""
    return set(kind.model_fields) - MAPPED_FIELDS[name] - set(IGNORED_FIELDS[name])


def part(**fields: Any) -> Event:
    return model(types.Part(**fields))


def function(**fields: Any) -> list[Event]:
    return [partial(types.Part(function_call=types.FunctionCall(**CALL | fields)))]


def called(**fields: Any) -> list[Event]:
    return [model(types.Part(function_call=types.FunctionCall(**CALL | fields)))]


def returned(**fields: Any) -> list[Event]:
    value = types.FunctionResponse(**RESPONSE | fields)
    return [model(call("c1")), answered(types.Part(function_response=value))]


def acted(**fields: Any) -> list[Event]:
    return [model(actions=EventActions(**fields))]


def with_question(**fields: Any) -> list[Event]:
    events = [model(call("c1")), answered(response("c1", {"error": "wait"}), actions=EventActions(**fields))]
    return [*events, asked(gated("c1"))]


def workflow(**fields: Any) -> list[Event]:
    whole: dict[str, Any] = {"author": "flow", "output": "done", "node_info": NodeInfo(output_for=["flow@1"])}
    return [Event(**whole | fields)]


PAIRS: Mapping[str, tuple[list[Event], list[Event]]] = {
    "Event.actions": ([model()], acted(transfer_to_agent="b")),
    "Event.author": ([model(text("x"))], [model(text("x"), author="other")]),
    "Event.branch": (
        [partial(text("a")), partial(text("b"))],
        [partial(text("a")), partial(text("b"), branch="second")],
    ),
    "Event.cache_metadata": (
        [model(text("x"))],
        [model(text("x"), cache_metadata={"fingerprint": "f", "contents_count": 1})],
    ),
    "Event.custom_metadata": (
        [model(call("c1")), asked(gated("c1"))],
        [model(call("c1")), asked(gated("c1"), c1={"scopes": ["once"]})],
    ),
    "Event.citation_metadata": (
        [model(text("x"))],
        [model(text("x"), citation_metadata=types.CitationMetadata(citations=[types.Citation(title="A")]))],
    ),
    "Event.content": ([model()], [model(text("x"))]),
    "Event.error_code": ([model()], [model(**FAILED)]),
    "Event.error_message": ([model(**FAILED)], [model(**FAILED, error_message="why")]),
    "Event.finish_reason": ([model(text("x"))], [model(text("x"), finish_reason=types.FinishReason.MAX_TOKENS)]),
    "Event.grounding_metadata": (
        [model(text("x"))],
        [model(text("x"), grounding_metadata=types.GroundingMetadata(web_search_queries=["q"]))],
    ),
    "Event.input_transcription": ([model()], [heard("x")]),
    "Event.interrupted": (
        [model(**FAILED), model(text("x"))],
        [model(**FAILED), model(text("x"), interrupted=True)],
    ),
    "Event.long_running_tool_ids": ([model(call("c1"))], [model(call("c1"), long_running_tool_ids={"c1"})]),
    "Event.model_version": ([model(text("x"))], [model(text("x"), model_version="g-1")]),
    "Event.node_info": (workflow(node_info=NodeInfo()), workflow()),
    "Event.output": (workflow(output=None), workflow()),
    "Event.output_transcription": ([model()], [spoken("x", finished=True)]),
    "Event.partial": ([model(call("c1"))], [partial(call("c1"))]),
    "Event.timestamp": (
        [model(text("x"), timestamp=2.0), model(text("y"), timestamp=3.0, author="other")],
        [model(text("x"), timestamp=2.0), model(text("y"), timestamp=1.0, author="other")],
    ),
    "Event.usage_metadata": (
        [model(text("x"))],
        [model(text("x"), usage_metadata=types.GenerateContentResponseUsageMetadata(total_token_count=1))],
    ),
    "EventActions.artifact_delta": (acted(), acted(artifact_delta={"a": 1})),
    "EventActions.requested_tool_confirmations": (
        with_question(),
        with_question(requested_tool_confirmations={"c1": ToolConfirmation()}),
    ),
    "EventActions.state_delta": (acted(), acted(state_delta={"k": 1})),
    "EventActions.transfer_to_agent": (acted(), acted(transfer_to_agent="b")),
    "Part.code_execution_result": ([part()], [part(code_execution_result=types.CodeExecutionResult(output="2"))]),
    "Part.executable_code": ([part()], [part(executable_code=types.ExecutableCode(code="1"))]),
    "Part.file_data": ([part()], [part(file_data=types.FileData(file_uri="gs://a/b"))]),
    "Part.function_call": ([part()], called()),
    "Part.function_response": ([model(call("c1"))], returned()),
    "Part.inline_data": ([part()], [model(image())]),
    "Part.text": ([part()], [part(text="x")]),
    "Part.thought": ([part(text="x")], [part(text="x", thought=True)]),
    "Part.tool_call": ([part()], [part(tool_call=types.ToolCall(id="p1"))]),
    "Part.tool_response": (
        [part(tool_call=types.ToolCall(id="p1"))],
        [part(tool_call=types.ToolCall(id="p1")), part(tool_response=types.ToolResponse(id="p1", response={}))],
    ),
    "FunctionCall.args": (called(), called(args={"n": 1})),
    "FunctionCall.id": (called(), called(id="c2")),
    "FunctionCall.name": (called(), called(name="other")),
    "FunctionCall.partial_args": (function(), function(partial_args=PARTIAL_ARGUMENTS)),
    "FunctionCall.will_continue": (function(), function(will_continue=True)),
    "FunctionResponse.id": (returned(), returned(id="c2")),
    "FunctionResponse.name": (returned(), returned(name="adk_request_confirmation")),
    "FunctionResponse.parts": (returned(), returned(parts=[BLOB])),
    "FunctionResponse.response": (returned(), returned(response={"r": 2})),
    "FunctionResponse.will_continue": (returned(), returned(will_continue=True)),
}
"""For each mapped field, events without it and with it."""


@pytest.mark.parametrize("name", CLASSES)
def test_every_field_is_mapped_or_left_out_for_a_reason(name: str) -> None:
    assert unlisted(name, CLASSES[name]) == set()


@pytest.mark.parametrize("name", CLASSES)
def test_a_new_field_would_be_noticed(name: str) -> None:
    grown = type("Grown", (CLASSES[name],), {"__annotations__": {"brand_new": str | None}, "brand_new": None})

    assert unlisted(name, grown) == {"brand_new"}


@pytest.mark.parametrize("name", CLASSES)
def test_no_field_is_both_and_every_reason_is_written(name: str) -> None:
    assert MAPPED_FIELDS[name] & IGNORED_FIELDS[name].keys() == set()
    assert all(IGNORED_FIELDS[name].values())


def test_the_tables_speak_of_the_same_classes() -> None:
    assert MAPPED_FIELDS.keys() == IGNORED_FIELDS.keys() == CLASSES.keys()


def test_each_mapped_field_has_an_example() -> None:
    assert {f"{name}.{field}" for name, fields in MAPPED_FIELDS.items() for field in fields} == PAIRS.keys()


@pytest.mark.parametrize("field", PAIRS)
def test_a_mapped_field_makes_a_difference(field: str) -> None:
    without, with_it = PAIRS[field]

    assert wire(response_of(*without, explain=explain_fully)) != wire(response_of(*with_it, explain=explain_fully))
