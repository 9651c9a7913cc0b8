"""What clients send on a live socket: the frames of the chat socket, and what it takes to talk.

A client of ours asks for the subprotocol. All others get the official frames only, and never a binary one: the AI SDK's
transport ends at the first that it does not know.
"""

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Raw

from adkwire.errors import RequestError, TooLarge, Unprocessable, UnsupportedType
from adkwire.wire.decoder import CallBody, TurnInput, decode_call_answer, decode_json, decode_request
from adkwire.wire.frames import (
    AbortFrame,
    FrameLimits,
    Head,
    PingFrame,
    ResumeFrame,
    SendFrame,
    decode_frame,
)
from adkwire.wire.live_binary import BINARY, GENERATIONS, JPEG, PNG, POSITIONS, SOUND
from adkwire.wire.media import dimensions, sniff
from adkwire.wire.sound import BIT_DEPTH, CHANNELS, RATE, check_format, check_samples

LIVE_SUBPROTOCOL = "adkwire.live.v1"
"""What a client asks for that can talk; it understands what `adkwire.chat.v1` has, too."""
_PICTURES = {JPEG: "image/jpeg", PNG: "image/png"}
_ROOM = 1_000
"""Bytes of a frame around what it carries in base64."""
_SHOWN = 40
_CallId = Annotated[str, Meta(min_length=1, max_length=256)]
_VERDICTS = {"approved": True, "rejected": False, "denied": False}
_OFFICIAL = ("send", "resume", "abort", "ping")


class LiveLimits(NamedTuple):
    """How much one frame may carry."""

    frames: FrameLimits
    audio_bytes: int
    video_bytes: int


class MessageFrame(NamedTuple):
    """The same as `send`, in a form of its own."""

    request_id: str | None
    turn: TurnInput


class InterruptFrame(NamedTuple):
    """End what is being said."""

    reason: Literal["user_abort", "timeout", "error"] | None


class AudioControlFrame(NamedTuple):
    """The person begins or ends to speak: a key, or a detector, says so."""

    action: Literal["start", "stop"]
    source: Literal["ptt", "vad"]


class AudioFrame(NamedTuple):
    """A piece of what the microphone hears."""

    pcm: bytes
    rate: int


class VideoFrame(NamedTuple):
    """What the camera or the screen shows."""

    data: bytes
    media_type: str


class ToolResultFrame(NamedTuple):
    """An answer to a call."""

    call: str
    answer: CallBody


class PlayedFrame(NamedTuple):
    """How much of what was said was heard."""

    generation: int
    ms: int


class CloseFrame(NamedTuple):
    """End the conversation now."""


LiveFrame: TypeAlias = (
    SendFrame
    | ResumeFrame
    | AbortFrame
    | PingFrame
    | MessageFrame
    | InterruptFrame
    | AudioControlFrame
    | AudioFrame
    | VideoFrame
    | ToolResultFrame
    | PlayedFrame
    | CloseFrame
)


class _Message(msgspec.Struct):
    data: dict[str, Raw]


class _Interrupt(msgspec.Struct):
    reason: Literal["user_abort", "timeout", "error"] | None = None


class _AudioControl(msgspec.Struct):
    action: Literal["start", "stop"]
    source: Literal["ptt", "vad"] = "ptt"


class _Sound(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    chunk: bytes
    sample_rate: int = RATE
    channels: int = CHANNELS
    bit_depth: int = BIT_DEPTH


class _AudioChunk(msgspec.Struct):
    data: _Sound


class _Picture(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    data: bytes
    media_type: str


class _VideoFrame(msgspec.Struct):
    data: _Picture


class _Named(msgspec.Struct, rename="camel"):
    tool_call_id: _CallId


class _About(msgspec.Struct):
    data: _Named


class _Answer(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    tool_call_id: _CallId
    status: Literal["approved", "rejected", "denied"] | None = None
    result: Raw = Raw()
    error: Raw = Raw()
    reason: Raw = Raw()
    args: Raw = Raw()
    payload: Raw = Raw()
    scope: Raw = Raw()
    approval_id: Raw = Raw()


class _ToolResult(msgspec.Struct):
    data: _Answer


class _Played(msgspec.Struct):
    generation: Annotated[int, Meta(ge=0, lt=GENERATIONS)]
    ms: Annotated[float, Meta(ge=0, lt=POSITIONS)]


_message = msgspec.json.Decoder(_Message)
_interrupt = msgspec.json.Decoder(_Interrupt)
_audio_control = msgspec.json.Decoder(_AudioControl)
_audio_chunk = msgspec.json.Decoder(_AudioChunk)
_video_frame = msgspec.json.Decoder(_VideoFrame)
_tool_result = msgspec.json.Decoder(_ToolResult)
_about = msgspec.json.Decoder(_About)
_played = msgspec.json.Decoder(_Played)


def is_sound(head: Head) -> bool:
    """Whether a frame brings sound, of which there are many."""
    return head.type == "audio_chunk"


def call_of(head: Head, raw: bytes) -> str | None:
    """The call that a frame answers, as far as that can be read, whatever is wrong with the rest."""
    if head.type != "tool_result":
        return None
    try:
        return decode_json(_about, raw).data.tool_call_id
    except RequestError:
        return None


def binary_name(raw: bytes) -> str:
    """What a binary frame would be called as a text."""
    kind = raw[0] if raw else 0
    return "audio_chunk" if kind == SOUND else "video_frame" if kind in _PICTURES else "binary"


def decode_live_frame(head: Head, raw: bytes, limits: LiveLimits, chat: str) -> LiveFrame:
    """Read a frame of a client of ours, on the socket of a chat."""
    if head.type in _OFFICIAL:
        return decode_frame(head, raw, limits.frames, ours=True)
    read = _READERS.get(head.type)
    if read is None:
        taken = ", ".join((*_OFFICIAL, *_READERS))
        raise Unprocessable(f"There is no frame of the type {head.type[:_SHOWN]!r}; taken are {taken}.")
    limit = _limit(head.type, limits)
    if len(raw) > limit:
        raise TooLarge(f"A frame of this type may have at most {limit} bytes.")
    return read(head, raw, limits, chat)


def _limit(kind: str, limits: LiveLimits) -> int:
    match kind:
        case "message":
            return limits.frames.send_bytes
        case "audio_chunk":
            return _in_base64(limits.audio_bytes)
        case "video_frame":
            return _in_base64(limits.video_bytes)
        case _:
            return limits.frames.control_bytes


def _in_base64(size: int) -> int:
    return (size + 2) // 3 * 4 + _ROOM


def _read_message(head: Head, raw: bytes, limits: LiveLimits, chat: str) -> MessageFrame:
    said: dict[str, object] = {"id": chat, **decode_json(_message, raw).data}
    return MessageFrame(head.request_id, decode_request(msgspec.json.encode(said), limits.frames.input))


def _read_interrupt(head: Head, raw: bytes, limits: LiveLimits, chat: str) -> InterruptFrame:
    return InterruptFrame(decode_json(_interrupt, raw).reason)


def _read_audio_control(head: Head, raw: bytes, limits: LiveLimits, chat: str) -> AudioControlFrame:
    wish = decode_json(_audio_control, raw)
    return AudioControlFrame(wish.action, wish.source)


def _read_audio_chunk(head: Head, raw: bytes, limits: LiveLimits, chat: str) -> AudioFrame:
    sound = decode_json(_audio_chunk, raw).data
    check_format(sound.sample_rate, sound.channels, sound.bit_depth)
    return _audio(sound.chunk, sound.sample_rate, limits)


def _read_video_frame(head: Head, raw: bytes, limits: LiveLimits, chat: str) -> VideoFrame:
    picture = decode_json(_video_frame, raw).data
    return _video(picture.data, picture.media_type, limits)


def _read_tool_result(head: Head, raw: bytes, limits: LiveLimits, chat: str) -> ToolResultFrame:
    said = decode_json(_tool_result, raw).data
    given = {"output": said.result, "error": said.error, "reason": said.reason}
    given |= {"args": said.args, "payload": said.payload, "scope": said.scope, "approvalId": said.approval_id}
    body: dict[str, object] = {name: value for name, value in given.items() if bytes(value) not in _NOTHING[name]}
    if said.status is not None:
        body["approved"] = _VERDICTS[said.status]
    if not body.keys() & {"approved", "output", "error"}:
        raise Unprocessable("The answer says nothing: give a `status`, or the `result` or `error` of a browser's call.")
    return ToolResultFrame(said.tool_call_id, decode_call_answer(msgspec.json.encode(body)))


_ABSENT = (b"", b"null")
_NOTHING = dict.fromkeys(("error", "reason", "args", "payload", "scope", "approvalId"), _ABSENT) | {"output": (b"",)}
"""What stands where nothing is said. A result may be null."""


def _read_played(head: Head, raw: bytes, limits: LiveLimits, chat: str) -> PlayedFrame:
    played = decode_json(_played, raw)
    return PlayedFrame(played.generation, int(played.ms))


def _read_close(head: Head, raw: bytes, limits: LiveLimits, chat: str) -> CloseFrame:
    return CloseFrame()


_READERS: dict[str, Callable[[Head, bytes, LiveLimits, str], LiveFrame]] = {
    "message": _read_message,
    "interrupt": _read_interrupt,
    "audio_control": _read_audio_control,
    "audio_chunk": _read_audio_chunk,
    "video_frame": _read_video_frame,
    "tool_result": _read_tool_result,
    "played": _read_played,
    "close": _read_close,
}


def decode_binary(raw: bytes, limits: LiveLimits) -> AudioFrame | VideoFrame:
    """Read a binary frame of a client; what its head says beyond the kind is for the other direction."""
    if len(raw) < BINARY.size:
        raise Unprocessable(f"A binary frame has a head of {BINARY.size} bytes.")
    kind, payload = raw[0], raw[BINARY.size :]
    if kind == SOUND:
        return _audio(payload, RATE, limits)
    if kind not in _PICTURES:
        raise Unprocessable(f"There is no binary frame of the kind {kind}; 1 is sound, 2 JPEG, 3 PNG.")
    return _video(payload, _PICTURES[kind], limits)


def _audio(pcm: bytes, rate: int, limits: LiveLimits) -> AudioFrame:
    if len(pcm) > limits.audio_bytes:
        raise TooLarge(f"A piece of sound may have at most {limits.audio_bytes} bytes.")
    check_samples(pcm)
    return AudioFrame(pcm, rate)


def _video(data: bytes, media_type: str, limits: LiveLimits) -> VideoFrame:
    if len(data) > limits.video_bytes:
        raise TooLarge(f"A picture of the camera may have at most {limits.video_bytes} bytes.")
    if media_type not in _PICTURES.values() or sniff(data) != media_type:
        raise UnsupportedType("A picture of the camera is a JPEG or a PNG, and what it says it is.")
    width, height = dimensions(media_type, data) or (0, 0)
    most = limits.frames.input.max_image_pixels
    if not 0 < width * height <= most:
        raise UnsupportedType(f"A picture of the camera has 1 to {most} pixels; this one says {width} x {height}.")
    return VideoFrame(data, media_type)
