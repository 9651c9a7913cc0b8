"""Frames of a chat socket: those of the AI SDK's `WebSocketChatTransport`, and a few more for clients of ours.

Upstream: `websocket-chat-transport.ts` of ai 7.0.135 to 7.0.169. It ends the connection, with all chats on it, at the
first frame it does not know: whatever is added goes only to those who asked for the subprotocol.

A chunk is encoded once for all readers, so a frame is put together around its bytes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Raw

from adkwire.errors import RequestError, TooLarge, Unprocessable
from adkwire.wire.chunks import encode_chunk
from adkwire.wire.decoder import InputLimits, TurnInput, check_chat_id, decode_json, decode_request
from adkwire.wire.profiles import Profile

SUBPROTOCOL = "adkwire.chat.v1"
"""What a client asks for that understands more than the official frames."""

Level: TypeAlias = Literal["info", "warning", "error"]

_MAX_REQUEST_ID = 256
_SHOWN = 40
_LAST = re.compile(rb' ?\{"type":"(?:error|finish)"')
_SAFE_INTEGER = 2**53 - 1
_Sequence = Annotated[int, Meta(ge=0, le=_SAFE_INTEGER)]


class FrameLimits(NamedTuple):
    """How much one frame may carry."""

    control_bytes: int
    send_bytes: int
    input: InputLimits


class Head(NamedTuple):
    """What a frame says first: what it is, and whose. Both may be wrong or missing."""

    type: str
    request_id: str | None


class SendFrame(NamedTuple):
    """Run a turn."""

    request_id: str
    turn: TurnInput
    client: str | None
    """What the client says it is."""


class ResumeFrame(NamedTuple):
    """Go on with what is being written in a chat, or behind a place."""

    request_id: str
    chat: str
    last_sequence: int | None
    after: str | None
    client: str | None


class AbortFrame(NamedTuple):
    """Stop the run of a request."""

    request_id: str


class PingFrame(NamedTuple):
    """Are you there?"""

    timestamp: float | None


ClientFrame: TypeAlias = SendFrame | ResumeFrame | AbortFrame | PingFrame


class _Head(msgspec.Struct, rename="camel"):
    type: Raw = Raw()
    request_id: Raw = Raw()


class _Body(msgspec.Struct):
    client: Raw = Raw()


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


def decode_head(raw: bytes) -> Head:
    """Read what a frame is, so that whoever sent it can be told what is wrong with the rest."""
    head = decode_json(_head, raw)
    request_id = _text(head.request_id) or ""
    return Head(_text(head.type) or "", request_id if 1 <= len(request_id) <= _MAX_REQUEST_ID else None)


def decode_frame(head: Head, raw: bytes, limits: FrameLimits, *, ours: bool) -> ClientFrame:
    """Read a frame of a client, `ours` if it has asked for the subprotocol."""
    limit = limits.send_bytes if head.type == "send" else limits.control_bytes
    if len(raw) > limit:
        raise TooLarge(f"A frame of this type may have at most {limit} bytes.")
    if head.type == "ping" and ours:
        return PingFrame(decode_json(_ping, raw).timestamp)
    if head.type not in ("send", "resume", "abort"):
        taken = "send, resume, abort and ping" if ours else "send, resume and abort"
        raise Unprocessable(f"There is no frame of the type {head.type[:_SHOWN]!r}; {taken} are taken.")
    if head.request_id is None:
        raise Unprocessable(f"A frame needs a requestId of 1 to {_MAX_REQUEST_ID} characters.")
    if head.type == "abort":
        return AbortFrame(head.request_id)
    if head.type == "resume":
        return _resume_frame(head.request_id, decode_json(_resume, raw))
    client = _client(decode_json(_send, raw).body)
    return SendFrame(head.request_id, decode_request(raw, limits.input), client)


def _resume_frame(request_id: str, frame: _Resume) -> ResumeFrame:
    return ResumeFrame(request_id, check_chat_id(frame.id), frame.last_sequence, frame.after, _client(frame.body))


def _client(body: _Body | None) -> str | None:
    return _text(body.client) if body is not None else None


def _text(raw: Raw) -> str | None:
    """A text, if it is one: a page may have a `client` of its own in its body."""
    try:
        return decode_json(_string, bytes(raw))
    except RequestError:
        return None


def start_frame(request_id: str) -> str:
    """The answer to a request begins."""
    return _frame({"type": "start", "requestId": request_id})


def end_frame(request_id: str) -> str:
    """Nothing more comes for a request."""
    return _frame({"type": "end", "requestId": request_id})


def no_active_frame(request_id: str) -> str:
    """There is nothing to go on with."""
    return _frame({"type": "no-active", "requestId": request_id})


def error_frame(request_id: str, text: str, code: str | None = None, call: str | None = None) -> str:
    """A request is refused, or has failed; the code, and the call that it was about, are for clients of ours."""
    frame = {"type": "error", "requestId": request_id, "errorText": text}
    more = {"code": code, "toolCallId": call}
    return _frame(frame | {name: value for name, value in more.items() if value is not None})


def notice_frame(level: Level, code: str, text: str) -> str:
    """Something that belongs to no request; for clients of ours."""
    return _frame({"type": "notice", "level": level, "code": code, "text": text})


def pong_frame(timestamp: float | None, server_time: float) -> str:
    """The answer to a ping, with the time here in milliseconds; for clients of ours."""
    return _frame({"type": "pong", "timestamp": timestamp, "serverTime": server_time})


def _frame(value: Mapping[str, object]) -> str:
    return encode_chunk(value).decode()


def is_last(entry: bytes) -> bool:
    """Whether a chunk is one behind which a run writes nothing more."""
    return _LAST.match(entry) is not None


class ChunkFrames:
    """The chunks of an answer as frames of one request, as its client may see them, numbered without gaps."""

    def __init__(
        self, request_id: str, profile: Profile, *, run: str | None = None, first: int = 0, behind: int = -1
    ) -> None:
        """The first chunk gets the number `first`; those up to number `behind` are counted, but the client has them.

        With a `run` the frames also say each chunk's place in it.
        """
        self._fit: Callable[[bytes], bytes | None] = profile.fit_encoded
        self._next = first
        self._behind = behind
        self._head = b'{"type":"chunk","requestId":' + encode_chunk(request_id) + b',"sequence":'
        self._place = b"" if run is None else b',"id":"' + run.encode() + b":"

    def of(self, first: int, entries: Sequence[bytes]) -> list[str]:
        """The frames of these entries, of which the first has the number `first` in the run."""
        frames: list[str] = []
        for number, entry in enumerate(entries, first):
            chunk = self._fit(entry)
            if chunk is None:
                continue
            if self._next > self._behind:
                frames.append(self._frame(number, chunk))
            self._next += 1
        return frames

    def _frame(self, number: int, chunk: bytes) -> str:
        place = self._place + b'%d"' % number if self._place else b""
        return b"".join((self._head, b"%d" % self._next, place, b',"chunk":', chunk, b"}")).decode()
