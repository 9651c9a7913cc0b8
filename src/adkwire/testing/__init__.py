"""For tests of agents and front ends: models without a network, Gemini's wire, and a judge of streams."""

import importlib
from typing import TYPE_CHECKING, Any

from adkwire.testing.scripted import ScriptedConnection, ScriptedModel, ScriptExhaustedError
from adkwire.testing.speech import Manner
from adkwire.testing.steps import (
    Call,
    Cite,
    Drop,
    ErrorCode,
    Fail,
    GoAway,
    Raw,
    Resumption,
    Say,
    Show,
    Source,
    Step,
    Think,
    Wait,
)

if TYPE_CHECKING:
    from adkwire.testing.gemini import GeminiEmulator
    from adkwire.testing.gemini_live import GeminiLive, LiveReceived, LiveSession, LiveTurn
    from adkwire.testing.gemini_live_wire import GeminiLiveStep, Generated, Hear, Interrupt, Sound
    from adkwire.testing.gemini_talk import Frame
    from adkwire.testing.gemini_wire import (
        Block,
        Cut,
        Finish,
        GeminiRequest,
        GeminiStep,
        HttpError,
        Quote,
        RunCode,
        Send,
        StreamCall,
    )
    from adkwire.testing.valid_stream import assert_valid_stream

__all__ = [
    "Block",
    "Call",
    "Cite",
    "Cut",
    "Drop",
    "ErrorCode",
    "Fail",
    "Finish",
    "Frame",
    "GeminiEmulator",
    "GeminiLive",
    "GeminiLiveStep",
    "GeminiRequest",
    "GeminiStep",
    "Generated",
    "GoAway",
    "Hear",
    "HttpError",
    "Interrupt",
    "LiveReceived",
    "LiveSession",
    "LiveTurn",
    "Manner",
    "Quote",
    "Raw",
    "Resumption",
    "RunCode",
    "Say",
    "ScriptExhaustedError",
    "ScriptedConnection",
    "ScriptedModel",
    "Send",
    "Show",
    "Sound",
    "Source",
    "Step",
    "StreamCall",
    "Think",
    "Wait",
    "assert_valid_stream",
]

_LATE = {
    "assert_valid_stream": "valid_stream",
    "GeminiEmulator": "gemini",
    "Frame": "gemini_talk",
    **dict.fromkeys(("GeminiLive", "LiveReceived", "LiveSession", "LiveTurn"), "gemini_live"),
    **dict.fromkeys(("GeminiLiveStep", "Generated", "Hear", "Interrupt", "Sound"), "gemini_live_wire"),
    **dict.fromkeys(
        (
            "Block",
            "Cut",
            "Finish",
            "GeminiRequest",
            "GeminiStep",
            "HttpError",
            "Quote",
            "RunCode",
            "Send",
            "StreamCall",
        ),
        "gemini_wire",
    ),
}
"""Loaded when they are asked for: who only needs a model does not pay for a server or a judge."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"adkwire.testing.{_LATE[name]}"), name)
