"""Every UIMessageChunk of AI SDK 6 and 7 as a frozen struct, the closed union, and client profiles.

Upstream: `ui-message-chunks.ts` of ai 6.0.0 to 6.0.326 and 7.0.0 to 7.0.169.

Two rules of the wire live here. An optional field that has no value is absent, never null (`UNSET`), because old
clients reject null; a payload (`input`, `output`, `data`) is always present, even when it is null. And a client may
only be sent what its release knows: before 6.0.231 and 7.0.32 one unknown field ends the whole stream, in every
release one unknown type does. `Profile` is that knowledge as a table.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET, UnsetType

Json: TypeAlias = Any
ProviderMetadata: TypeAlias = dict[str, dict[str, Json]]
FinishReason: TypeAlias = Literal["stop", "length", "content-filter", "tool-calls", "error", "other", "interrupted"]


class _Chunk(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """What all chunks share: camelCase on the wire, the type as a tag, closed and frozen."""


class Start(_Chunk, frozen=True, tag="start"):
    """Opens a message, or continues the one with this id."""

    message_id: str | UnsetType = UNSET
    message_metadata: Json | UnsetType = UNSET


class StartStep(_Chunk, frozen=True, tag="start-step"):
    """One model step begins."""


class FinishStep(_Chunk, frozen=True, tag="finish-step"):
    """The step ends; every text and reasoning part is closed."""


class TextStart(_Chunk, frozen=True, tag="text-start"):
    """Opens a text part."""

    id: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class TextDelta(_Chunk, frozen=True, tag="text-delta"):
    """More of an open text part."""

    id: str
    delta: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class TextEnd(_Chunk, frozen=True, tag="text-end"):
    """Closes a text part."""

    id: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET
    citations: list[Json] | UnsetType = UNSET


class ReasoningStart(_Chunk, frozen=True, tag="reasoning-start"):
    """Opens a reasoning part."""

    id: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class ReasoningDelta(_Chunk, frozen=True, tag="reasoning-delta"):
    """More of an open reasoning part."""

    id: str
    delta: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class ReasoningEnd(_Chunk, frozen=True, tag="reasoning-end"):
    """Closes a reasoning part."""

    id: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class ToolInputStart(_Chunk, frozen=True, tag="tool-input-start"):
    """Announces a call whose arguments follow as text."""

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
    """The whole arguments of a call. This is what triggers `onToolCall` in the browser."""

    tool_call_id: str
    tool_name: str
    input: Json
    provider_executed: bool | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET
    tool_metadata: dict[str, Json] | UnsetType = UNSET
    dynamic: bool | UnsetType = UNSET
    title: str | UnsetType = UNSET


class ToolInputError(_Chunk, frozen=True, tag="tool-input-error"):
    """The arguments of a call could not be used."""

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
    """Asks the person whether an announced call may run."""

    approval_id: str
    tool_call_id: str
    approval_descriptor: Json | UnsetType = UNSET
    input_schema_input: Json | UnsetType = UNSET
    signature: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    is_automatic: bool | UnsetType = UNSET


class ToolApprovalResponse(_Chunk, frozen=True, tag="tool-approval-response"):
    """What was answered to an approval request."""

    approval_id: str
    approved: bool
    reason: str | UnsetType = UNSET
    provider_executed: bool | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class ToolOutputAvailable(_Chunk, frozen=True, tag="tool-output-available"):
    """The result of a call, or with `preliminary` a first look at it."""

    tool_call_id: str
    output: Json
    provider_executed: bool | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET
    tool_metadata: dict[str, Json] | UnsetType = UNSET
    dynamic: bool | UnsetType = UNSET
    preliminary: bool | UnsetType = UNSET


class ToolOutputError(_Chunk, frozen=True, tag="tool-output-error"):
    """The call failed."""

    tool_call_id: str
    error_text: str
    provider_executed: bool | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET
    tool_metadata: dict[str, Json] | UnsetType = UNSET
    dynamic: bool | UnsetType = UNSET


class ToolOutputDenied(_Chunk, frozen=True, tag="tool-output-denied"):
    """The person said no; the call did not run."""

    tool_call_id: str


class SourceUrl(_Chunk, frozen=True, tag="source-url"):
    """A web page the answer rests on."""

    source_id: str
    url: str
    title: str | UnsetType = UNSET
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class SourceDocument(_Chunk, frozen=True, tag="source-document"):
    """A document the answer rests on."""

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
    """Media the model made while thinking."""

    url: str
    media_type: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class Custom(_Chunk, frozen=True, tag="custom"):
    """Provider-specific content."""

    kind: str
    provider_metadata: ProviderMetadata | UnsetType = UNSET


class ResetStep(_Chunk, frozen=True, tag="reset-step"):
    """Drops what the current step has written."""


class SteeringMessage(_Chunk, frozen=True, tag="steering-message"):
    """A user message that steers a running answer."""

    id: str
    parts: list[Json]


class MessageMetadata(_Chunk, frozen=True, tag="message-metadata"):
    """Metadata to merge into the message."""

    message_metadata: Json


class Error(_Chunk, frozen=True, tag="error"):
    """The run failed. The client ignores whatever follows."""

    error_text: str


class Abort(_Chunk, frozen=True, tag="abort"):
    """The run was stopped."""

    reason: str | UnsetType = UNSET


class Finish(_Chunk, frozen=True, tag="finish"):
    """The response is complete."""

    finish_reason: FinishReason | UnsetType = UNSET
    message_metadata: Json | UnsetType = UNSET


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """A `data-*` chunk. Everything it says is inside `data`: a field beside it would end a strict client."""

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
    """Turn what a tool may return, and JSON does not know, into something JSON does."""
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
    """The JSON of a chunk. What a tool returned never fails it: at worst it arrives mended."""
    try:
        return _encode(chunk)
    except (ValueError, RecursionError):
        return _encode(_mended(chunk, _MAX_DEPTH))


def _mended(value: object, depth: int) -> object:
    """A copy without what JSON cannot carry: lone surrogates, endless nesting."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if depth == 0:
        return "..."
    if isinstance(value, _Chunk | Data):
        fields = {name: _mended(getattr(value, name), depth) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return {_mended(str(key), depth): _mended(one, depth - 1) for key, one in pairs}
    if isinstance(value, list | tuple | set | frozenset):
        return [_mended(one, depth - 1) for one in cast("list[object]", value)]
    if value is None or isinstance(value, bool | int | float | UnsetType):
        return value
    return _mended(to_plain(value), depth - 1)


def decode_chunk(raw: bytes) -> Chunk:
    """Read back one chunk that `encode_chunk` wrote; `msgspec.ValidationError` says what is wrong with others."""
    return _data_decoder.decode(raw) if _DATA.match(raw) else _tagged_decoder.decode(raw)


class Since(NamedTuple):
    """The first patch of each major that knows a thing; None is never."""

    v6: int | None
    v7: int | None


_ALWAYS_V7 = Since(None, 0)
_TYPES: dict[type[Chunk], Since] = {
    ToolApprovalResponse: _ALWAYS_V7,
    Custom: _ALWAYS_V7,
    ReasoningFile: _ALWAYS_V7,
    ResetStep: Since(None, 70),
    SteeringMessage: Since(None, 163),
}
_TOOL_METADATA = Since(176, 0)
_RESULT_METADATA = Since(231, 0)
_FIELDS: dict[type[Chunk], dict[str, Since]] = {
    TextEnd: {"citations": Since(None, 138)},
    Abort: {"reason": Since(15, 0)},
    ToolInputStart: {
        "tool_metadata": _TOOL_METADATA,
        "input_encoding": Since(308, 142),
        "provider_metadata": Since(100, 0),
    },
    ToolInputAvailable: {"tool_metadata": _TOOL_METADATA},
    ToolInputError: {"tool_metadata": _TOOL_METADATA},
    ToolOutputAvailable: {"tool_metadata": _TOOL_METADATA, "provider_metadata": _RESULT_METADATA},
    ToolOutputError: {"tool_metadata": _TOOL_METADATA, "provider_metadata": _RESULT_METADATA},
    ToolApprovalRequest: {
        "signature": Since(202, 0),
        "approval_descriptor": Since(274, 87),
        "input_schema_input": Since(274, 87),
        "reason": Since(None, 82),
        "is_automatic": _ALWAYS_V7,
    },
}
_INTERRUPTED = Since(None, 149)


_VERSIONED = frozenset({Finish, *_TYPES, *_FIELDS})
_MARK = b" "


def encode_chunks(chunks: Iterable[Chunk]) -> list[bytes]:
    """Chunks for a stream log, encoded once for all readers.

    One that not every client takes as it is begins with a space: JSON ignores it, `Profile.fit_encoded` does not.
    """
    return [
        encode_chunk(chunk) if type(chunk) not in _VERSIONED or _is_plain(chunk) else _MARK + encode_chunk(chunk)
        for chunk in chunks
    ]


def _is_plain(chunk: Chunk) -> bool:
    kind = type(chunk)
    if isinstance(chunk, Finish):
        return chunk.finish_reason != "interrupted"
    return kind not in _TYPES and all(getattr(chunk, name) is UNSET for name in _FIELDS[kind])


_NEWEST = 1_000_000
_DECLARED = re.compile(r"^ai/(\d{1,4})\.(\d{1,6})\.(\d{1,6})(?:[-+].*)?$")


class Profile(NamedTuple):
    """What one client release understands. The default is the strictest one, 6.0.0."""

    major: int = 6
    patch: int = 0

    @classmethod
    def declared(cls, header: str | None) -> "Profile":
        """Read `ai/7.0.169` from a client; anything unreadable is treated as the strictest."""
        found = _DECLARED.match(header or "")
        if not found:
            return cls()
        major, minor, patch = (int(group) for group in found.groups())
        if major < 6:
            return cls()
        return cls(min(major, 7), _NEWEST if major > 7 or minor else patch)

    def knows(self, since: Since) -> bool:
        """Whether this release has a thing that entered at `since`."""
        first = since.v7 if self.major >= 7 else since.v6
        return first is not None and self.patch >= first

    def fit_encoded(self, raw: bytes) -> bytes | None:
        """`fit` for bytes that `encode_chunks` wrote; nearly all of them pass without being looked into."""
        if not raw.startswith(_MARK):
            return raw
        chunk = self.fit(decode_chunk(raw))
        return None if chunk is None else encode_chunk(chunk)

    def fit(self, chunk: Chunk) -> Chunk | None:
        """Return the chunk as this client may see it, or None when it may not see it at all."""
        kind = type(chunk)
        if (since := _TYPES.get(kind)) and not self.knows(since):
            return None
        if isinstance(chunk, Finish):
            unknown = chunk.finish_reason == "interrupted" and not self.knows(_INTERRUPTED)
            return msgspec.structs.replace(chunk, finish_reason="other") if unknown else chunk
        unknown = [name for name, since in _FIELDS.get(kind, {}).items() if not self.knows(since)]
        return msgspec.structs.replace(chunk, **dict.fromkeys(unknown, UNSET)) if unknown else chunk


STRICTEST = Profile()
