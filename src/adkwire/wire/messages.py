"""`UIMessage` and its parts, as the AI SDK's client holds them and as history returns them."""

from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from adkwire.wire.chunks import Json, ProviderMetadata


class _Part(msgspec.Struct, kw_only=True, rename="camel", tag_field="type"):
    """The base of parts with a fixed type."""


class TextPart(_Part, tag="text"):
    """Text, complete or still being written."""

    text: str
    state: Literal["streaming", "done"] | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET
    citations: list[Json] | UnsetType = UNSET


class ReasoningPart(_Part, tag="reasoning"):
    """The model's reasoning."""

    text: str
    id: str | UnsetType = UNSET
    state: Literal["streaming", "done"] | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class StepStartPart(_Part, tag="step-start"):
    """The beginning of a step."""


class FilePart(_Part, tag="file"):
    """A file of the user or of the model."""

    media_type: str
    url: str
    filename: str | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class ReasoningFilePart(_Part, tag="reasoning-file"):
    """A file that belongs to the reasoning."""

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
    """The approval request for a call, and its answer."""

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
    """A tool call and its result. The type is `tool-<name>`, or `dynamic-tool` with `toolName`."""

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
