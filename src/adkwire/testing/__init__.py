"""For tests of agents and front ends: models without a network, and a judge of streams."""

from typing import TYPE_CHECKING, Any

from adkwire.testing.scripted import ScriptedModel, ScriptExhaustedError
from adkwire.testing.steps import Call, Cite, ErrorCode, Fail, Raw, Say, Show, Source, Step, Think, Wait

if TYPE_CHECKING:
    from adkwire.testing.valid_stream import assert_valid_stream

__all__ = [
    "Call",
    "Cite",
    "ErrorCode",
    "Fail",
    "Raw",
    "Say",
    "ScriptExhaustedError",
    "ScriptedModel",
    "Show",
    "Source",
    "Step",
    "Think",
    "Wait",
    "assert_valid_stream",
]


def __getattr__(name: str) -> Any:
    """Load the judge when it is asked for: who only needs a model does not pay for it."""
    if name == "assert_valid_stream":
        from adkwire.testing.valid_stream import assert_valid_stream

        return assert_valid_stream
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
