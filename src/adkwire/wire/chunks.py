"""Every UIMessageChunk of AI SDK 6 and 7 as a frozen struct, and the closed union.

Upstream: `ui-message-chunks.ts` of ai 6.0.0 to 6.0.326 and 7.0.0 to 7.0.169.

An optional field that has no value is absent, never null (`UNSET`), because old clients reject null; a payload
(`input`, `output`, `data`) is always present, even when it is null. Which client knows what is in `profiles.py`.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, UnsetType

from adkwire.wire.javascript import whole_text

Json: TypeAlias = Any
ProviderMetadata: TypeAlias = dict[str, dict[str, Json]]
FinishReason: TypeAlias = Literal["stop", "length", "content-filter", "tool-calls", "error", "other", "interrupted"]


class _Chunk(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """The base of all chunks: camelCase on the wire, the type as a tag, frozen."""


class Start(_Chunk, frozen=True, tag="start"):
    """The beginning of a message, or of the continuation of the message with this id."""

    message_id: str | UnsetType = UNSET
    message_metadata: Json | UnsetType = UNSET


class StartStep(_Chunk, frozen=True, tag="start-step"):
    """The beginning of a step."""


class FinishStep(_Chunk, frozen=True, tag="finish-step"):
    """The end of a step; every text and reasoning part is closed."""


class TextStart(_Chunk, frozen=True, tag="text-start"):
    """The beginning of a text part."""

    id: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class TextDelta(_Chunk, frozen=True, tag="text-delta"):
    """More of an open text part."""

    id: str
    delta: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class TextEnd(_Chunk, frozen=True, tag="text-end"):
    """The end of a text part."""

    id: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET
    citations: list[Json] | UnsetType = UNSET


class ReasoningStart(_Chunk, frozen=True, tag="reasoning-start"):
    """The beginning of a reasoning part."""

    id: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class ReasoningDelta(_Chunk, frozen=True, tag="reasoning-delta"):
    """More of an open reasoning part."""

    id: str
    delta: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class ReasoningEnd(_Chunk, frozen=True, tag="reasoning-end"):
    """The end of a reasoning part."""

    id: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class ToolInputStart(_Chunk, frozen=True, tag="tool-input-start"):
    """The beginning of a call whose arguments follow as text."""

    tool_call_id: str
    tool_name: str
    input_encoding: Literal["json", "text"] | UnsetType = UNSET
    provider_executed: bool | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET
    tool_metadata: dict[str, Json] | UnsetType = UNSET
    dynamic: bool | UnsetType = UNSET
    title: str | UnsetType = UNSET


class ToolInputDelta(_Chunk, frozen=True, tag="tool-input-delta"):
    """More of the argument text of an announced call."""

    tool_call_id: str
    input_text_delta: str


class ToolInputAvailable(_Chunk, frozen=True, tag="tool-input-available"):
    """All arguments of a call. It makes the browser call `onToolCall`."""

    tool_call_id: str
    tool_name: str
    input: Json
    provider_executed: bool | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET
    tool_metadata: dict[str, Json] | UnsetType = UNSET
    dynamic: bool | UnsetType = UNSET
    title: str | UnsetType = UNSET


class ToolInputError(_Chunk, frozen=True, tag="tool-input-error"):
    """Arguments of a call that cannot be used."""

    tool_call_id: str
    tool_name: str
    input: Json
    error_text: str
    provider_executed: bool | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET
    tool_metadata: dict[str, Json] | UnsetType = UNSET
    dynamic: bool | UnsetType = UNSET
    title: str | UnsetType = UNSET


class ToolApprovalRequest(_Chunk, frozen=True, tag="tool-approval-request"):
    """The question to a person whether a call may run."""

    approval_id: str
    tool_call_id: str
    approval_descriptor: Json | UnsetType = UNSET
    input_schema_input: Json | UnsetType = UNSET
    signature: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    is_automatic: bool | UnsetType = UNSET


class ToolApprovalResponse(_Chunk, frozen=True, tag="tool-approval-response"):
    """The answer to an approval request."""

    approval_id: str
    approved: bool
    reason: str | UnsetType = UNSET
    provider_executed: bool | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class ToolOutputAvailable(_Chunk, frozen=True, tag="tool-output-available"):
    """The result of a call, or with `preliminary` a result that another one follows."""

    tool_call_id: str
    output: Json
    provider_executed: bool | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET
    tool_metadata: dict[str, Json] | UnsetType = UNSET
    dynamic: bool | UnsetType = UNSET
    preliminary: bool | UnsetType = UNSET


class ToolOutputError(_Chunk, frozen=True, tag="tool-output-error"):
    """The error of a call that failed."""

    tool_call_id: str
    error_text: str
    provider_executed: bool | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET
    tool_metadata: dict[str, Json] | UnsetType = UNSET
    dynamic: bool | UnsetType = UNSET


class ToolOutputDenied(_Chunk, frozen=True, tag="tool-output-denied"):
    """The end of a call that a person denied; it did not run."""

    tool_call_id: str


class SourceUrl(_Chunk, frozen=True, tag="source-url"):
    """A web page that is a source of the answer."""

    source_id: str
    url: str
    title: str | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class SourceDocument(_Chunk, frozen=True, tag="source-document"):
    """A document that is a source of the answer."""

    source_id: str
    media_type: str
    title: str
    filename: str | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class File(_Chunk, frozen=True, tag="file"):
    """An image or other media, as a data URL or a link."""

    url: str
    media_type: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class ReasoningFile(_Chunk, frozen=True, tag="reasoning-file"):
    """Media that belong to the model's reasoning."""

    url: str
    media_type: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class Custom(_Chunk, frozen=True, tag="custom"):
    """Provider-specific content."""

    kind: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class ResetStep(_Chunk, frozen=True, tag="reset-step"):
    """The request to drop the parts of the current step."""


class SteeringMessage(_Chunk, frozen=True, tag="steering-message"):
    """A user message that steers a running answer."""

    id: str
    parts: list[Json]


class MessageMetadata(_Chunk, frozen=True, tag="message-metadata"):
    """Metadata to merge into the message."""

    message_metadata: Json


class Error(_Chunk, frozen=True, tag="error"):
    """The error of a run that failed. The client ignores all chunks after it."""

    error_text: str


class Abort(_Chunk, frozen=True, tag="abort"):
    """The end of a run that was stopped."""

    reason: str | UnsetType = UNSET


class Finish(_Chunk, frozen=True, tag="finish"):
    """The end of a response."""

    finish_reason: FinishReason | UnsetType = UNSET
    message_metadata: Json | UnsetType = UNSET


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """A `data-*` chunk. All of its content is in `data`: a strict client fails at any other field."""

    type: str
    data: Json
    id: str | UnsetType = UNSET
    transient: bool | UnsetType = UNSET


Tagged: TypeAlias = (
    Start
    | StartStep
    | FinishStep
    | TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolInputStart
    | ToolInputDelta
    | ToolInputAvailable
    | ToolInputError
    | ToolApprovalRequest
    | ToolApprovalResponse
    | ToolOutputAvailable
    | ToolOutputError
    | ToolOutputDenied
    | SourceUrl
    | SourceDocument
    | File
    | ReasoningFile
    | Custom
    | ResetStep
    | SteeringMessage
    | MessageMetadata
    | Error
    | Abort
    | Finish
)
Chunk: TypeAlias = Tagged | Data


def to_plain(value: object) -> object:
    """Return a JSON value for one that JSON does not know, such as an object that a tool returns."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    return str(value)


_encode = msgspec.json.Encoder(enc_hook=to_plain).encode
_tagged_decoder = msgspec.json.Decoder(Tagged)
_data_decoder = msgspec.json.Decoder(Data)
_DATA = re.compile(rb'^\s*\{\s*"type"\s*:\s*"data-')
_MAX_DEPTH = 100


def encode_chunk(chunk: object) -> bytes:
    """Return the JSON of a chunk. It never fails: values that JSON cannot carry are replaced."""
    try:
        return _encode(chunk)
    except (ValueError, RecursionError):
        return _encode(_cleaned(chunk, _MAX_DEPTH))


def json_text(value: object) -> str:
    """Return any value as JSON text."""
    return encode_chunk(value).decode()


def _cleaned(value: object, depth: int) -> object:
    """Return a copy without what JSON cannot carry: lone surrogates, endless nesting."""
    if isinstance(value, str):
        return whole_text(value)
    if depth == 0:
        return "..."
    if isinstance(value, _Chunk | Data):
        fields = {name: _cleaned(getattr(value, name), depth) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return {_cleaned(str(key), depth): _cleaned(one, depth - 1) for key, one in pairs}
    if isinstance(value, list | tuple | set | frozenset):
        return [_cleaned(one, depth - 1) for one in cast("list[object]", value)]
    if value is None or isinstance(value, bool | int | float | UnsetType):
        return value
    return _cleaned(to_plain(value), depth - 1)


def decode_chunk(raw: bytes) -> Chunk:
    """Read a chunk that `encode_chunk` wrote; raises `msgspec.ValidationError` for anything else."""
    return _data_decoder.decode(raw) if _DATA.match(raw) else _tagged_decoder.decode(raw)
