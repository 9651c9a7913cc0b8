"""UIMessage: what history hands out, and `fold`, which makes one from chunks as the AI SDK's client does.

`fold` is strict where the client would end the stream with an error: it raises `BrokenStream`. So it also serves as
the judge of a stream in tests.
"""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, assert_never, cast

import msgspec
from msgspec import UNSET, UnsetType

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, Json, ProviderMetadata


class BrokenStream(ValueError):
    """A chunk that a client would refuse at this place of the stream."""


class _Part(msgspec.Struct, kw_only=True, rename="camel", tag_field="type"):
    """What parts with a fixed type share."""


class TextPart(_Part, tag="text"):
    """Text, whole or still being written."""

    text: str
    state: Literal["streaming", "done"] | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET
    citations: list[Json] | UnsetType = UNSET


class ReasoningPart(_Part, tag="reasoning"):
    """What the model thought."""

    text: str
    id: str | UnsetType = UNSET
    state: Literal["streaming", "done"] | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class StepStartPart(_Part, tag="step-start"):
    """The border between two steps."""


class FilePart(_Part, tag="file"):
    """Media in or out."""

    media_type: str
    url: str
    filename: str | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class ReasoningFilePart(_Part, tag="reasoning-file"):
    """Media of a thought."""

    media_type: str
    url: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class CustomPart(_Part, tag="custom"):
    """Provider-specific content."""

    kind: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class SteeringPart(_Part, tag="steering-message"):
    """A user message that steered the answer."""

    id: str
    parts: list[Json]


class SourceUrlPart(_Part, tag="source-url"):
    """A web source."""

    source_id: str
    url: str
    title: str | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class SourceDocumentPart(_Part, tag="source-document"):
    """A document source."""

    source_id: str
    media_type: str
    title: str
    filename: str | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class Approval(msgspec.Struct, kw_only=True, rename="camel"):
    """The question a call waits on, and its answer."""

    id: str
    approved: bool | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    request_reason: str | UnsetType = UNSET
    is_automatic: bool | UnsetType = UNSET
    descriptor: Json | UnsetType = UNSET
    input_schema_input: Json | UnsetType = UNSET
    signature: str | UnsetType = UNSET


ToolState: TypeAlias = Literal[
    "input-streaming",
    "input-available",
    "approval-requested",
    "approval-responded",
    "output-available",
    "output-error",
    "output-denied",
]


class ToolPart(msgspec.Struct, kw_only=True, rename="camel"):
    """One call and what came of it. Its type is `tool-<name>`, or `dynamic-tool` with `toolName`."""

    type: str
    tool_name: str | UnsetType = UNSET
    tool_call_id: str
    state: ToolState
    title: str | UnsetType = UNSET
    tool_metadata: dict[str, Json] | UnsetType = UNSET
    input: Json | UnsetType = UNSET
    input_encoding: Literal["json", "text"] | UnsetType = UNSET
    raw_input: Json | UnsetType = UNSET
    output: Json | UnsetType = UNSET
    error_text: str | UnsetType = UNSET
    provider_executed: bool | UnsetType = UNSET
    preliminary: bool | UnsetType = UNSET
    approval: Approval | UnsetType = UNSET
    call_provider_metadata: ProviderMetadata | UnsetType = UNSET
    result_provider_metadata: ProviderMetadata | UnsetType = UNSET


class DataPart(msgspec.Struct, kw_only=True):
    """A `data-*` part."""

    type: str
    id: str | UnsetType = UNSET
    data: Json


Part: TypeAlias = (
    TextPart
    | ReasoningPart
    | StepStartPart
    | FilePart
    | ReasoningFilePart
    | CustomPart
    | SteeringPart
    | SourceUrlPart
    | SourceDocumentPart
    | ToolPart
    | DataPart
)


class UIMessage(msgspec.Struct, kw_only=True):
    """One message of a chat, as `useChat` holds it."""

    id: str
    role: Literal["user", "assistant"]
    metadata: Json | UnsetType = UNSET
    parts: list[Part]


def fold(chunks: Iterable[Chunk], *, into: UIMessage | None = None) -> UIMessage:
    """Make the message a client holds after these chunks, from nothing or by continuing `into`."""
    folding = _Folding(into or UIMessage(id="", role="assistant", parts=[]))
    for chunk in chunks:
        folding.take(chunk)
    return folding.message


class _Folding:
    """The client's state while it reads a stream."""

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
                # Clients before 7.0.169 forget what is open here and choke on the next delta.
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
        # Some clients leave the text of the arguments behind on such a part; others never have it.
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
    """Objects are merged deeply, everything else is replaced: as the client does."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    merged = dict(cast("dict[str, Any]", old))
    for key, value in cast("dict[str, Any]", new).items():
        merged[key] = _merged(merged[key], value) if key in merged else value
    return merged
