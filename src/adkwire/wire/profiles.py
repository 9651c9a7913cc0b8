"""The chunks and fields that each release of the AI SDK's client knows.

A client may only be sent what its release knows. An unknown chunk type ends the whole stream in every release; an
unknown field does so before 6.0.231 and 7.0.32.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from adkwire.wire.breaks import is_break
from adkwire.wire.chunks import (
    Abort,
    Chunk,
    Custom,
    Finish,
    ReasoningFile,
    ResetStep,
    SteeringMessage,
    TextEnd,
    ToolApprovalRequest,
    ToolApprovalResponse,
    ToolInputAvailable,
    ToolInputError,
    ToolInputStart,
    ToolOutputAvailable,
    ToolOutputError,
    decode_chunk,
    encode_chunk,
)


class KnownSince(NamedTuple):
    """The first patch of each major version that knows a chunk type or a field; None when no patch does."""

    v6: int | None
    v7: int | None


_ALWAYS_V7 = KnownSince(None, 0)
_TYPES: dict[type[Chunk], KnownSince] = {
    ToolApprovalResponse: _ALWAYS_V7,
    Custom: _ALWAYS_V7,
    ReasoningFile: _ALWAYS_V7,
    ResetStep: KnownSince(None, 70),
    SteeringMessage: KnownSince(None, 163),
}
_TOOL_METADATA = KnownSince(176, 0)
_RESULT_METADATA = KnownSince(231, 0)
_FIELDS: dict[type[Chunk], dict[str, KnownSince]] = {
    TextEnd: {"citations": KnownSince(None, 138)},
    Abort: {"reason": KnownSince(15, 0)},
    ToolInputStart: {
        "tool_metadata": _TOOL_METADATA,
        "input_encoding": KnownSince(308, 142),
        "provider_metadata": KnownSince(100, 0),
    },
    ToolInputAvailable: {"tool_metadata": _TOOL_METADATA},
    ToolInputError: {"tool_metadata": _TOOL_METADATA},
    ToolOutputAvailable: {"tool_metadata": _TOOL_METADATA, "provider_metadata": _RESULT_METADATA},
    ToolOutputError: {"tool_metadata": _TOOL_METADATA, "provider_metadata": _RESULT_METADATA},
    ToolApprovalRequest: {
        "signature": KnownSince(202, 0),
        "approval_descriptor": KnownSince(274, 87),
        "input_schema_input": KnownSince(274, 87),
        "reason": KnownSince(None, 82),
        "is_automatic": _ALWAYS_V7,
    },
}
_INTERRUPTED = KnownSince(None, 149)


_VERSIONED = frozenset({Finish, *_TYPES, *_FIELDS})
_MARK = b" "
"""The first byte of an entry that not every client gets unchanged."""


def encode_chunks(chunks: Iterable[Chunk]) -> list[bytes]:
    """Encode chunks for a stream log, once for all readers.

    A chunk that not every client gets unchanged begins with a space: JSON ignores it, `Profile.fit_encoded` reads it.
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
    """A release of the AI SDK's client. The default is the strictest one, 6.0.0."""

    major: int = 6
    patch: int = 0

    @classmethod
    def declared(cls, header: str | None) -> "Profile":
        """Read a header such as `ai/7.0.169`; anything else counts as the strictest release."""
        found = _DECLARED.match(header or "")
        if not found:
            return cls()
        major, minor, patch = (int(group) for group in found.groups())
        if major < 6:
            return cls()
        return cls(min(major, 7), _NEWEST if major > 7 or minor else patch)

    def knows(self, since: KnownSince) -> bool:
        """Return True if this release knows what was added in `since`."""
        first = since.v7 if self.major >= 7 else since.v6
        return first is not None and self.patch >= first

    def fit_encoded(self, raw: bytes) -> bytes | None:
        """Do the same as `fit` for an entry that `encode_chunks` wrote; most entries need not be decoded for it."""
        if not raw.startswith(_MARK):
            return raw
        if is_break(raw):
            return None
        chunk = self.fit(decode_chunk(raw))
        return None if chunk is None else encode_chunk(chunk)

    def fit(self, chunk: Chunk) -> Chunk | None:
        """Return the chunk as this client may get it, or None when it must not get it."""
        kind = type(chunk)
        if (since := _TYPES.get(kind)) and not self.knows(since):
            return None
        if isinstance(chunk, Finish):
            unknown = chunk.finish_reason == "interrupted" and not self.knows(_INTERRUPTED)
            return msgspec.structs.replace(chunk, finish_reason="other") if unknown else chunk
        unknown = [name for name, since in _FIELDS.get(kind, {}).items() if not self.knows(since)]
        return msgspec.structs.replace(chunk, **dict.fromkeys(unknown, UNSET)) if unknown else chunk
