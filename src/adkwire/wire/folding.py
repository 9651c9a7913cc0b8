"""`fold`: chunks in, a `UIMessage` out, as the AI SDK's client makes it.

Where the client would end the stream with an error, `fold` raises `BrokenStream`, so tests use it to check streams.
"""

from collections.abc import Iterable
from typing import Any, assert_never, cast

import msgspec
from msgspec import UNSET, UnsetType

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, Json
from adkwire.wire.messages import (
    Approval,
    CustomPart,
    DataPart,
    FilePart,
    Part,
    ReasoningFilePart,
    ReasoningPart,
    SourceDocumentPart,
    SourceUrlPart,
    SteeringPart,
    StepStartPart,
    TextPart,
    ToolPart,
    UIMessage,
)


class BrokenStream(ValueError):
    """A chunk that a client would not accept at this place of the stream."""


def fold(chunks: Iterable[Chunk], *, into: UIMessage | None = None) -> UIMessage:
    """Return the message that a client holds after these chunks; they continue the message `into`, if it is given."""
    folding = _Folding(into or UIMessage(id="", role="assistant", parts=[]))
    for chunk in chunks:
        folding.take(chunk)
    return folding.message


class _Folding:
    """The state of a client while it reads a stream."""

    def __init__(self, message: UIMessage) -> None:
        self.message = message
        self._texts: dict[str, TextPart] = {}
        self._reasonings: dict[str, ReasoningPart] = {}
        self._inputs: dict[str, str] = {}

    def take(self, chunk: Chunk) -> None:
        match chunk:
            case c.TextStart() | c.TextDelta() | c.TextEnd():
                self._text(chunk)
            case c.ReasoningStart() | c.ReasoningDelta() | c.ReasoningEnd():
                self._reasoning(chunk)
            case c.ToolInputStart() | c.ToolInputDelta() | c.ToolInputAvailable() | c.ToolInputError():
                self._tool_input(chunk)
            case c.ToolApprovalRequest() | c.ToolApprovalResponse():
                self._approval(chunk)
            case c.ToolOutputAvailable() | c.ToolOutputError() | c.ToolOutputDenied():
                self._tool_output(chunk)
            case c.Data():
                self._data(chunk)
            case c.Start():
                if chunk.message_id is not UNSET:
                    self.message.id = chunk.message_id
                self._merge(chunk.message_metadata)
            case c.Finish() | c.MessageMetadata():
                self._merge(chunk.message_metadata)
            case c.StartStep():
                self.message.parts.append(StepStartPart())
            case c.FinishStep():
                # Clients before 7.0.169 forget open parts here and fail at their next delta.
                if self._texts or self._reasonings:
                    raise BrokenStream("finish-step while a text or reasoning part is open")
            case c.ResetStep():
                self._reset_step()
            case c.Error() | c.Abort():
                pass
            case c.SourceUrl() | c.SourceDocument() | c.File() | c.ReasoningFile() | c.Custom() | c.SteeringMessage():
                self.message.parts.append(_whole(chunk))
            case _:
                assert_never(chunk)

    def _text(self, chunk: c.TextStart | c.TextDelta | c.TextEnd) -> None:
        if isinstance(chunk, c.TextStart):
            part = TextPart(text="", state="streaming", provider_metadata=chunk.provider_metadata)
            self._texts[chunk.id] = part
            self.message.parts.append(part)
            return
        part = self._texts.get(chunk.id)
        if part is None:
            raise BrokenStream(f"text part {chunk.id!r} is not open")
        if chunk.provider_metadata is not UNSET:
            part.provider_metadata = chunk.provider_metadata
        if isinstance(chunk, c.TextDelta):
            part.text += chunk.delta
            return
        part.state = "done"
        part.citations = chunk.citations
        del self._texts[chunk.id]

    def _reasoning(self, chunk: c.ReasoningStart | c.ReasoningDelta | c.ReasoningEnd) -> None:
        if isinstance(chunk, c.ReasoningStart):
            part = ReasoningPart(id=chunk.id, text="", state="streaming", provider_metadata=chunk.provider_metadata)
            self._reasonings[chunk.id] = part
            self.message.parts.append(part)
            return
        part = self._reasonings.get(chunk.id)
        if part is None:
            raise BrokenStream(f"reasoning part {chunk.id!r} is not open")
        if chunk.provider_metadata is not UNSET:
            part.provider_metadata = chunk.provider_metadata
        if isinstance(chunk, c.ReasoningDelta):
            part.text += chunk.delta
            return
        part.state = "done"
        del self._reasonings[chunk.id]

    def _tool_input(self, chunk: c.ToolInputStart | c.ToolInputDelta | c.ToolInputAvailable | c.ToolInputError) -> None:
        if isinstance(chunk, c.ToolInputDelta):
            if chunk.tool_call_id not in self._inputs:
                raise BrokenStream(f"tool-input-delta for {chunk.tool_call_id!r}, which was not started")
            part = self._call(chunk.tool_call_id)
            text = self._inputs[chunk.tool_call_id] = self._inputs[chunk.tool_call_id] + chunk.input_text_delta
            part.raw_input = text
            part.input = _parsed(text)
            return
        part = self._announced(chunk)
        part.call_provider_metadata = chunk.provider_metadata
        if isinstance(chunk, c.ToolInputStart):
            self._inputs[chunk.tool_call_id] = ""
            part.state = "input-streaming"
            part.input_encoding = chunk.input_encoding
            return
        self._inputs.pop(chunk.tool_call_id, None)
        part.input, part.raw_input, part.input_encoding = chunk.input, UNSET, UNSET
        part.output, part.preliminary = UNSET, UNSET
        if isinstance(chunk, c.ToolInputAvailable):
            part.state, part.error_text = "input-available", UNSET
        else:
            part.state, part.error_text = "output-error", chunk.error_text

    def _announced(self, chunk: c.ToolInputStart | c.ToolInputAvailable | c.ToolInputError) -> ToolPart:
        for part in reversed(self.message.parts):
            if isinstance(part, StepStartPart):
                break
            if isinstance(part, ToolPart) and part.tool_call_id == chunk.tool_call_id:
                if chunk.provider_executed is not UNSET:
                    part.provider_executed = chunk.provider_executed
                return part
        if any(isinstance(p, ToolPart) and p.tool_call_id == chunk.tool_call_id for p in self.message.parts):
            raise BrokenStream(f"call {chunk.tool_call_id!r} is announced again in a later step")
        dynamic = chunk.dynamic is True
        part = ToolPart(
            type="dynamic-tool" if dynamic else f"tool-{chunk.tool_name}",
            tool_name=chunk.tool_name if dynamic else UNSET,
            tool_call_id=chunk.tool_call_id,
            state="input-streaming",
            title=chunk.title,
            tool_metadata=chunk.tool_metadata,
            provider_executed=chunk.provider_executed,
        )
        self.message.parts.append(part)
        return part

    def _call(self, call_id: str) -> ToolPart:
        for part in reversed(self.message.parts):
            if isinstance(part, ToolPart) and part.tool_call_id == call_id:
                return part
        raise BrokenStream(f"No tool invocation found for tool call ID {call_id!r}")

    def _approval(self, chunk: c.ToolApprovalRequest | c.ToolApprovalResponse) -> None:
        if isinstance(chunk, c.ToolApprovalRequest):
            part = self._call(chunk.tool_call_id)
            part.state, part.raw_input = "approval-requested", UNSET
            part.approval = Approval(
                id=chunk.approval_id,
                request_reason=chunk.reason,
                is_automatic=chunk.is_automatic,
                descriptor=chunk.approval_descriptor,
                input_schema_input=chunk.input_schema_input,
                signature=chunk.signature,
            )
            return
        for part in self.message.parts:
            if isinstance(part, ToolPart) and part.approval is not UNSET and part.approval.id == chunk.approval_id:
                part.state = "approval-responded"
                part.approval.approved = chunk.approved
                part.approval.reason = chunk.reason
                return
        raise BrokenStream(f"No tool invocation found for approval ID {chunk.approval_id!r}")

    def _tool_output(self, chunk: c.ToolOutputAvailable | c.ToolOutputError | c.ToolOutputDenied) -> None:
        part = self._call(chunk.tool_call_id)
        # Some clients keep the text of the arguments on such a part, others never have it.
        part.raw_input = UNSET
        if isinstance(chunk, c.ToolOutputDenied):
            part.state = "output-denied"
            return
        part.result_provider_metadata = chunk.provider_metadata
        if chunk.provider_executed is not UNSET:
            part.provider_executed = chunk.provider_executed
        if isinstance(chunk, c.ToolOutputAvailable):
            part.state, part.output, part.preliminary = "output-available", chunk.output, chunk.preliminary
        else:
            part.state, part.error_text = "output-error", chunk.error_text
            part.output, part.preliminary = UNSET, UNSET

    def _data(self, chunk: c.Data) -> None:
        if chunk.transient is True:
            return
        if chunk.id is not UNSET:
            for part in self.message.parts:
                if isinstance(part, DataPart) and part.type == chunk.type and part.id == chunk.id:
                    part.data = chunk.data
                    return
        self.message.parts.append(DataPart(type=chunk.type, id=chunk.id, data=chunk.data))

    def _reset_step(self) -> None:
        parts = self.message.parts
        while parts and not isinstance(parts[-1], StepStartPart):
            parts.pop()
        self._texts.clear()
        self._reasonings.clear()

    def _merge(self, metadata: Json | UnsetType) -> None:
        if metadata is UNSET or metadata is None:
            return
        old = self.message.metadata
        self.message.metadata = metadata if old is UNSET or old is None else _merged(old, metadata)


def _whole(
    chunk: c.SourceUrl | c.SourceDocument | c.File | c.ReasoningFile | c.Custom | c.SteeringMessage,
) -> Part:
    match chunk:
        case c.SourceUrl(source_id=source, url=url, title=title, provider_metadata=metadata):
            return SourceUrlPart(source_id=source, url=url, title=title, provider_metadata=metadata)
        case c.SourceDocument():
            return SourceDocumentPart(
                source_id=chunk.source_id,
                media_type=chunk.media_type,
                title=chunk.title,
                filename=chunk.filename,
                provider_metadata=chunk.provider_metadata,
            )
        case c.File(url=url, media_type=media, provider_metadata=metadata):
            return FilePart(media_type=media, url=url, provider_metadata=metadata)
        case c.ReasoningFile(url=url, media_type=media, provider_metadata=metadata):
            return ReasoningFilePart(media_type=media, url=url, provider_metadata=metadata)
        case c.Custom(kind=kind, provider_metadata=metadata):
            return CustomPart(kind=kind, provider_metadata=metadata)
        case c.SteeringMessage(id=id_, parts=parts):
            return SteeringPart(id=id_, parts=parts)
        case _:
            assert_never(chunk)


def _parsed(text: str) -> Json | UnsetType:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return UNSET


def _merged(old: Json, new: Json) -> Json:
    """Merge objects deeply and replace everything else, as the client does."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    merged = dict(cast("dict[str, Any]", old))
    for key, value in cast("dict[str, Any]", new).items():
        merged[key] = _merged(merged[key], value) if key in merged else value
    return merged
