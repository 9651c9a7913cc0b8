"""Tools for tests of agents and servers: a scripted model, an emulator of the Gemini API, and a check of streams."""

import importlib
from typing import TYPE_CHECKING, Any

from adkwire.testing.live_responses import Manner
from adkwire.testing.scripted import ScriptedConnection, ScriptedModel, ScriptExhaustedError
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
    from adkwire.testing.gemini.emulator import GeminiEmulator
    from adkwire.testing.gemini.generate_content import (
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
    from adkwire.testing.gemini.live_protocol import GeminiLiveStep, Generated, Hear, Interrupt, Sound
    from adkwire.testing.gemini.live_sessions import GeminiLive, LiveReceived, LiveSession, LiveTurn
    from adkwire.testing.gemini.session_conversation import Frame
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

_LAZY = {
    "assert_valid_stream": "valid_stream",
    "GeminiEmulator": "gemini.emulator",
    "Frame": "gemini.session_conversation",
    **dict.fromkeys(("GeminiLive", "LiveReceived", "LiveSession", "LiveTurn"), "gemini.live_sessions"),
    **dict.fromkeys(("GeminiLiveStep", "Generated", "Hear", "Interrupt", "Sound"), "gemini.live_protocol"),
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
        "gemini.generate_content",
    ),
}
"""Names that are imported on first use, by module: a test that needs only a model does not import a server."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"adkwire.testing.{_LAZY[name]}"), name)
