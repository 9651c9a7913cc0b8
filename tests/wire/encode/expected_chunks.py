"""The chunks that tests of the encoder expect, in few words."""

from typing import Any

from google.adk.events.event import Event

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.failures import Explain, Failure, explain_briefly
from adkwire.wire.folding import fold
from adkwire.wire.messages import ToolPart
from tests.wire.adk_events import (
    MESSAGE,
    fed,
)

START = c.Start(message_id=MESSAGE)
PNG = "data:image/png;base64,cG5n"


def finish(reason: c.FinishReason = "stop", author: str | None = "agent", **metadata: Any) -> c.Finish:
    """The end of every response; `finishReason` in the metadata is ADK's own word, if it has one."""
    by = {"author": author} if author else {}
    return c.Finish(finish_reason=reason, message_metadata=by | metadata)


def failed_answer(failure: Failure, author: str | None = "agent", explain: Explain = explain_briefly) -> list[Chunk]:
    """The end of a response that failed."""
    text = explain(failure)
    by = {"author": author} if author else {}
    metadata = {**by, "ended": "failed", "error": {"code": failure.code, "text": text}}
    return [c.MessageMetadata(message_metadata=metadata), c.Error(error_text=text)]


def text_part(part: str, *deltas: str) -> list[Chunk]:
    return [c.TextStart(id=part), *(c.TextDelta(id=part, delta=delta) for delta in deltas), c.TextEnd(id=part)]


def thought_of(part: str, *deltas: str) -> list[Chunk]:
    pieces = [c.ReasoningDelta(id=part, delta=delta) for delta in deltas]
    return [c.ReasoningStart(id=part), *pieces, c.ReasoningEnd(id=part)]


def available(call_id: str, name: str = "tool", **args: Any) -> c.ToolInputAvailable:
    return c.ToolInputAvailable(tool_call_id=call_id, tool_name=name, input=args)


def held(call_id: str, arguments: str, name: str = "tool") -> list[Chunk]:
    return [
        c.ToolInputStart(tool_call_id=call_id, tool_name=name),
        c.ToolInputDelta(tool_call_id=call_id, input_text_delta=arguments),
    ]


def output(call_id: str, value: Any) -> c.ToolOutputAvailable:
    return c.ToolOutputAvailable(tool_call_id=call_id, output=value)


def failed(call_id: str, why: str) -> c.ToolOutputError:
    return c.ToolOutputError(tool_call_id=call_id, error_text=why)


def request(call_id: str) -> c.ToolApprovalRequest:
    return c.ToolApprovalRequest(approval_id=f"ask-{call_id}", tool_call_id=call_id)


def replied(call_id: str, approved: bool, **more: Any) -> c.ToolApprovalResponse:
    return c.ToolApprovalResponse(approval_id=f"ask-{call_id}", approved=approved, **more)


def about(call_id: str, **data: Any) -> c.Data:
    return c.Data(type="data-approval", id=f"ask-{call_id}", data={"toolCallId": call_id, **data})


def denied(call_id: str) -> c.ToolOutputDenied:
    return c.ToolOutputDenied(tool_call_id=call_id)


def continued(*stored: Event) -> Encoder:
    """An encoder that has read the stored events of a message, as a continuation needs it."""
    encoder = Encoder(MESSAGE)
    fed(encoder, stored)
    encoder.pause()
    return encoder


def tool_of(chunks: list[Chunk]) -> ToolPart:
    [part] = [part for part in fold(chunks).parts if isinstance(part, ToolPart)]
    return part
