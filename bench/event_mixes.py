"""The events that are converted: ADK events as a run yields them, and pydantic-ai's events with the same content."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from google.adk.events.event import Event
from google.genai import types
from pydantic_ai.messages import (
    AgentStreamEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
)

PIECE = "lorem ipsum dolor si"
ANSWER: dict[str, object] = {"location": "Tokyo", "temperature": 22, "condition": "sunny", "humidity": 60}


@dataclass(frozen=True)
class Mix:
    """Some turns, each with its own assistant message, as ADK events and as pydantic-ai events."""

    name: str
    adk: list[list[Event]]
    pydantic_ai: list[list[AgentStreamEvent]]
    text: str
    """All text that a correct converter sends."""
    calls: int

    @property
    def events(self) -> int:
        """The number of ADK events."""
        return sum(len(turn) for turn in self.adk)


def text_mix() -> Mix:
    """Return one answer: 1000 partial events and the complete one."""
    pieces = [PIECE] * 1000
    adk = [*(_partial(piece) for piece in pieces), _event([types.Part(text="".join(pieces))], finished=True)]
    return Mix("text mix", [adk], [list(_text_events(0, pieces))], "".join(pieces), 0)


def tool_mix() -> Mix:
    """Return 50 turns of 15 events: thoughts, a call, its response, text."""
    turns = range(50)
    return Mix(
        "tool mix",
        [_adk_tool_turn(f"call-{turn}") for turn in turns],
        [_pydantic_ai_tool_turn(f"call-{turn}") for turn in turns],
        PIECE * 8 * len(turns),
        len(turns),
    )


def sound_mix() -> list[Event]:
    """Return 500 events with 100 ms of audio each."""
    sounds = [types.Blob(data=random.Random(n).randbytes(4_800), mime_type="audio/pcm;rate=24000") for n in range(500)]
    return [_event([types.Part(inline_data=sound)]) for sound in sounds]


def _adk_tool_turn(call_id: str) -> list[Event]:
    call = types.FunctionCall(id=call_id, name="get_weather", args={"location": "Tokyo"})
    response = types.FunctionResponse(id=call_id, name="get_weather", response=ANSWER)
    return [
        *(_partial(PIECE, thought=True) for _ in range(4)),
        _event([types.Part(text=PIECE * 4, thought=True), types.Part(function_call=call)], finished=True),
        _event([types.Part(function_response=response)], role="user"),
        *(_partial(PIECE) for _ in range(8)),
        _event([types.Part(text=PIECE * 8)], finished=True),
    ]


def _pydantic_ai_tool_turn(call_id: str) -> list[AgentStreamEvent]:
    call = ToolCallPart("get_weather", {"location": "Tokyo"}, call_id)
    return [
        *_thought_events(0, [PIECE] * 4),
        PartStartEvent(index=1, part=call),
        PartEndEvent(index=1, part=call),
        FunctionToolCallEvent(part=call, args_valid=True),
        FunctionToolResultEvent(part=ToolReturnPart("get_weather", ANSWER, call_id)),
        *_text_events(0, [PIECE] * 8),
    ]


def _partial(text: str, *, thought: bool = False) -> Event:
    return _event([types.Part(text=text, thought=thought or None)], partial=True)


def _event(parts: list[types.Part], *, role: str = "model", partial: bool = False, finished: bool = False) -> Event:
    return Event(
        author="agent",
        invocation_id="invocation",
        content=types.Content(role=role, parts=parts),
        partial=partial,
        finish_reason=types.FinishReason.STOP if finished else None,
    )


def _text_events(index: int, pieces: list[str]) -> Iterator[AgentStreamEvent]:
    yield PartStartEvent(index=index, part=TextPart(pieces[0]))
    for piece in pieces[1:]:
        yield PartDeltaEvent(index=index, delta=TextPartDelta(piece))
    yield PartEndEvent(index=index, part=TextPart("".join(pieces)))


def _thought_events(index: int, pieces: list[str]) -> Iterator[AgentStreamEvent]:
    yield PartStartEvent(index=index, part=ThinkingPart(pieces[0]))
    for piece in pieces[1:]:
        yield PartDeltaEvent(index=index, delta=ThinkingPartDelta(content_delta=piece))
    yield PartEndEvent(index=index, part=ThinkingPart("".join(pieces)))
