"""Which release of the AI SDK's client understands what.

A client may only be sent what its release knows: before 6.0.231 and 7.0.32 one unknown field ends the whole stream, in
every release one unknown type does. `Profile` is that knowledge as a table.
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
        if is_break(raw):
            return None
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
