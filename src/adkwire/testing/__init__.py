"""For tests of agents and front ends: models without a network, Gemini's wire, and a judge of streams."""

import importlib
from typing import TYPE_CHECKING, Any

from adkwire.testing.scripted import ScriptedModel, ScriptExhaustedError
from adkwire.testing.steps import Call, Cite, ErrorCode, Fail, Raw, Say, Show, Source, Step, Think, Wait

if TYPE_CHECKING:
    from adkwire.testing.gemini import GeminiEmulator
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
    "ErrorCode",
    "Fail",
    "Finish",
    "GeminiEmulator",
    "GeminiRequest",
    "GeminiStep",
    "HttpError",
    "Quote",
    "Raw",
    "RunCode",
    "Say",
    "ScriptExhaustedError",
    "ScriptedModel",
    "Send",
    "Show",
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
