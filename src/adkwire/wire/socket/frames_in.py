"""The frames that clients send on a chat socket: those of the AI SDK's `WebSocketChatTransport`, and `ping`.

Upstream: `websocket-chat-transport.ts` of ai 7.0.135 to 7.0.169. A client that offers the subprotocol may also send
`ping`, and a position in `after`.
"""

from typing import Annotated, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Raw

from adkwire.errors import RequestError, TooLarge, Unprocessable
from adkwire.wire.decode.decoder import InputLimits, TurnInput, check_chat_id, decode_request
from adkwire.wire.decode.request_json import decode_json

SUBPROTOCOL = "adkwire.chat.v1"
"""The WebSocket subprotocol of clients that understand more than the official frames."""

_MAX_REQUEST_ID = 256
_MAX_QUOTED = 40
"""Characters of an unknown frame type that the error text repeats."""
_SAFE_INTEGER = 2**53 - 1
_Sequence = Annotated[int, Meta(ge=0, le=_SAFE_INTEGER)]


class FrameLimits(NamedTuple):
    """The most bytes that one frame may have."""

    control_bytes: int
    send_bytes: int
    input: InputLimits


class FrameHead(NamedTuple):
    """The type and the request id of a frame, before the rest of it is read. The type is empty when it has none."""

    type: str
    request_id: str | None


class SendFrame(NamedTuple):
    """A request to run a turn."""

    request_id: str
    turn: TurnInput
    client: str | None
    """The release that the client declares, such as `ai/7.0.169`."""


class ResumeFrame(NamedTuple):
    """A request to follow the active run of a chat, from a chunk number or from a position, or a named run."""

    request_id: str
    chat: str
    last_sequence: int | None
    after: str | None
    run: str | None
    """The run whose whole message is requested, also when the run has ended."""
    client: str | None


class AbortFrame(NamedTuple):
    """A request to stop the run of the request with this id."""

    request_id: str


class PingFrame(NamedTuple):
    """A ping; the server answers it with a pong."""

    timestamp: float | None


ClientFrame: TypeAlias = SendFrame | ResumeFrame | AbortFrame | PingFrame


class _Head(msgspec.Struct, rename="camel"):
    type: Raw = Raw()
    request_id: Raw = Raw()


class _Body(msgspec.Struct):
    client: Raw = Raw()
    run: Raw = Raw()


class _Send(msgspec.Struct):
    body: _Body | None = None


class _Resume(msgspec.Struct, rename="camel"):
    id: str
    last_sequence: _Sequence | None = None
    after: str | None = None
    body: _Body | None = None


class _Ping(msgspec.Struct):
    timestamp: int | float | None = None


_head = msgspec.json.Decoder(_Head)
_send = msgspec.json.Decoder(_Send)
_resume = msgspec.json.Decoder(_Resume)
_ping = msgspec.json.Decoder(_Ping)
_string = msgspec.json.Decoder(str)


def decode_head(raw: bytes) -> FrameHead:
    """Read the type and the request id of a frame, so that an error in the rest can name its request."""
    head = decode_json(_head, raw)
    request_id = _string_or_none(head.request_id) or ""
    valid_id = request_id if 1 <= len(request_id) <= _MAX_REQUEST_ID else None
    return FrameHead(_string_or_none(head.type) or "", valid_id)


def decode_frame(head: FrameHead, raw: bytes, limits: FrameLimits, *, ours: bool) -> ClientFrame:
    """Read a frame of a client; `ours` when the client has asked for the subprotocol."""
    limit = limits.send_bytes if head.type == "send" else limits.control_bytes
    if len(raw) > limit:
        raise TooLarge(f"A frame of this type may have at most {limit} bytes.")
    if head.type == "ping" and ours:
        return PingFrame(decode_json(_ping, raw).timestamp)
    if head.type not in ("send", "resume", "abort"):
        raise unknown_frame(head, ("send", "resume", "abort", "ping") if ours else ("send", "resume", "abort"))
    if head.request_id is None:
        raise Unprocessable(f"A frame needs a requestId of 1 to {_MAX_REQUEST_ID} characters.")
    if head.type == "abort":
        return AbortFrame(head.request_id)
    if head.type == "resume":
        return _resume_frame(head.request_id, decode_json(_resume, raw))
    client = _client(decode_json(_send, raw).body)
    return SendFrame(head.request_id, decode_request(raw, limits.input), client)


def unknown_frame(head: FrameHead, known: tuple[str, ...]) -> Unprocessable:
    """Return the error for a frame whose type is not one of the known ones."""
    types = ", ".join(known)
    return Unprocessable(f"There is no frame of the type {head.type[:_MAX_QUOTED]!r}; the known types are {types}.")


def _resume_frame(request_id: str, frame: _Resume) -> ResumeFrame:
    run = _string_or_none(frame.body.run) if frame.body is not None else None
    client = _client(frame.body)
    return ResumeFrame(request_id, check_chat_id(frame.id), frame.last_sequence, frame.after, run or None, client)


def _client(body: _Body | None) -> str | None:
    return _string_or_none(body.client) if body is not None else None


def _string_or_none(raw: Raw) -> str | None:
    """Return the value if it is a string. A page may send a `client` of its own, which is not a string, in its body."""
    try:
        return decode_json(_string, bytes(raw))
    except RequestError:
        return None
