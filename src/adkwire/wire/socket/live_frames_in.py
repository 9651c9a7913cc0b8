"""The frames that clients send on a live socket: those of the chat socket, and those for voice, camera and calls.

Only a client that asks for the live subprotocol may send them. All others use the official frames only and never get a
binary frame, because the AI SDK's transport closes the connection at the first frame that it does not know.
"""

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Raw

from adkwire.errors import RequestError, TooLarge, Unprocessable, UnsupportedType
from adkwire.wire.decode.call_answers import CallBody, decode_call_answer
from adkwire.wire.decode.decoder import TurnInput, decode_request
from adkwire.wire.decode.request_json import decode_json
from adkwire.wire.media import dimensions, sniff
from adkwire.wire.socket.audio import BIT_DEPTH, CHANNELS, INPUT_RATE, check_format, check_samples
from adkwire.wire.socket.binary_frames import AUDIO, BINARY_HEAD, GENERATIONS, JPEG, MILLISECONDS, PNG
from adkwire.wire.socket.frames_in import (
    AbortFrame,
    FrameHead,
    FrameLimits,
    PingFrame,
    ResumeFrame,
    SendFrame,
    decode_frame,
    unknown_frame,
)

LIVE_SUBPROTOCOL = "adkwire.live.v1"
"""The WebSocket subprotocol of clients that understand the live frames, and those of `adkwire.chat.v1` too."""
_IMAGES = {JPEG: "image/jpeg", PNG: "image/png"}
_OVERHEAD = 1_000
"""Bytes that a frame may have beside its base64 content."""
_CallId = Annotated[str, Meta(min_length=1, max_length=256)]
_VERDICTS = {"approved": True, "rejected": False, "denied": False}
_OFFICIAL = ("send", "resume", "abort", "ping")


class LiveLimits(NamedTuple):
    """The most bytes that one frame may carry."""

    frames: FrameLimits
    audio_bytes: int
    video_bytes: int


class MessageFrame(NamedTuple):
    """A request to run a turn, like `send`, but without the official form."""

    request_id: str | None
    turn: TurnInput


class InterruptFrame(NamedTuple):
    """A request to interrupt the model."""

    reason: Literal["user_abort", "timeout", "error"] | None


class AudioControlFrame(NamedTuple):
    """A sign that the user begins or stops speaking, by a key or by voice detection in the browser."""

    action: Literal["start", "stop"]
    source: Literal["ptt", "vad"]


class AudioFrame(NamedTuple):
    """A piece of audio of the microphone."""

    pcm: bytes
    rate: int


class VideoFrame(NamedTuple):
    """An image of the camera or the screen."""

    data: bytes
    media_type: str


class ToolResultFrame(NamedTuple):
    """An answer to a call."""

    call: str
    answer: CallBody


class PlayedFrame(NamedTuple):
    """How many milliseconds of a generation's audio the client has played."""

    generation: int
    ms: int


class CloseFrame(NamedTuple):
    """A request to end the conversation now."""


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


class _Audio(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    chunk: bytes
    sample_rate: int = INPUT_RATE
    channels: int = CHANNELS
    bit_depth: int = BIT_DEPTH


class _AudioChunk(msgspec.Struct):
    data: _Audio


class _Image(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    data: bytes
    media_type: str


class _VideoFrame(msgspec.Struct):
    data: _Image


class _CallIdOnly(msgspec.Struct, rename="camel"):
    tool_call_id: _CallId


class _AnyToolResult(msgspec.Struct):
    data: _CallIdOnly


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
    ms: Annotated[float, Meta(ge=0, lt=MILLISECONDS)]


_message = msgspec.json.Decoder(_Message)
_interrupt = msgspec.json.Decoder(_Interrupt)
_audio_control = msgspec.json.Decoder(_AudioControl)
_audio_chunk = msgspec.json.Decoder(_AudioChunk)
_video_frame = msgspec.json.Decoder(_VideoFrame)
_tool_result = msgspec.json.Decoder(_ToolResult)
_any_tool_result = msgspec.json.Decoder(_AnyToolResult)
_played = msgspec.json.Decoder(_Played)


def is_audio(head: FrameHead) -> bool:
    """Return True for a frame with audio, of which there are many."""
    return head.type == "audio_chunk"


def answered_call(head: FrameHead, raw: bytes) -> str | None:
    """Return the id of the call that a frame answers, even when the rest of the frame is wrong; None if it has none."""
    if head.type != "tool_result":
        return None
    try:
        return decode_json(_any_tool_result, raw).data.tool_call_id
    except RequestError:
        return None


def binary_frame_type(raw: bytes) -> str:
    """Return the type of the text frame that carries the same as this binary frame."""
    kind = raw[0] if raw else 0
    return "audio_chunk" if kind == AUDIO else "video_frame" if kind in _IMAGES else "binary"


def decode_live_frame(head: FrameHead, raw: bytes, limits: LiveLimits, chat: str) -> LiveFrame:
    """Read a frame of a client of ours on the live socket of a chat."""
    if head.type in _OFFICIAL:
        return decode_frame(head, raw, limits.frames, ours=True)
    read = _READERS.get(head.type)
    if read is None:
        raise unknown_frame(head, (*_OFFICIAL, *_READERS))
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
    return (size + 2) // 3 * 4 + _OVERHEAD


def _read_message(head: FrameHead, raw: bytes, limits: LiveLimits, chat: str) -> MessageFrame:
    request: dict[str, object] = {"id": chat, **decode_json(_message, raw).data}
    return MessageFrame(head.request_id, decode_request(msgspec.json.encode(request), limits.frames.input))


def _read_interrupt(head: FrameHead, raw: bytes, limits: LiveLimits, chat: str) -> InterruptFrame:
    return InterruptFrame(decode_json(_interrupt, raw).reason)


def _read_audio_control(head: FrameHead, raw: bytes, limits: LiveLimits, chat: str) -> AudioControlFrame:
    control = decode_json(_audio_control, raw)
    return AudioControlFrame(control.action, control.source)


def _read_audio_chunk(head: FrameHead, raw: bytes, limits: LiveLimits, chat: str) -> AudioFrame:
    audio = decode_json(_audio_chunk, raw).data
    check_format(audio.sample_rate, audio.channels, audio.bit_depth)
    return _audio(audio.chunk, audio.sample_rate, limits)


def _read_video_frame(head: FrameHead, raw: bytes, limits: LiveLimits, chat: str) -> VideoFrame:
    image = decode_json(_video_frame, raw).data
    return _video(image.data, image.media_type, limits)


def _read_tool_result(head: FrameHead, raw: bytes, limits: LiveLimits, chat: str) -> ToolResultFrame:
    answer = decode_json(_tool_result, raw).data
    fields = {"output": answer.result, "error": answer.error, "reason": answer.reason}
    fields |= {"args": answer.args, "payload": answer.payload, "scope": answer.scope, "approvalId": answer.approval_id}
    body: dict[str, object] = {name: value for name, value in fields.items() if bytes(value) not in _ABSENT[name]}
    if answer.status is not None:
        body["approved"] = _VERDICTS[answer.status]
    if not body.keys() & {"approved", "output", "error"}:
        raise Unprocessable("The answer says nothing: send a `status`, or the `result` or `error` of a browser call.")
    return ToolResultFrame(answer.tool_call_id, decode_call_answer(msgspec.json.encode(body)))


_MISSING = (b"", b"null")
_ABSENT = dict.fromkeys(("error", "reason", "args", "payload", "scope", "approvalId"), _MISSING) | {"output": (b"",)}
"""The values of each field that mean that the field is absent. A null `result` is a result."""


def _read_played(head: FrameHead, raw: bytes, limits: LiveLimits, chat: str) -> PlayedFrame:
    played = decode_json(_played, raw)
    return PlayedFrame(played.generation, int(played.ms))


def _read_close(head: FrameHead, raw: bytes, limits: LiveLimits, chat: str) -> CloseFrame:
    return CloseFrame()


_READERS: dict[str, Callable[[FrameHead, bytes, LiveLimits, str], LiveFrame]] = {
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
    """Read a binary frame of a client. Of its head only the kind counts in this direction."""
    if len(raw) < BINARY_HEAD.size:
        raise Unprocessable(f"A binary frame begins with a head of {BINARY_HEAD.size} bytes; this one is shorter.")
    kind, payload = raw[0], raw[BINARY_HEAD.size :]
    if kind == AUDIO:
        return _audio(payload, INPUT_RATE, limits)
    if kind not in _IMAGES:
        raise Unprocessable(f"There is no binary frame of the kind {kind}; 1 is audio, 2 JPEG, 3 PNG.")
    return _video(payload, _IMAGES[kind], limits)


def _audio(pcm: bytes, rate: int, limits: LiveLimits) -> AudioFrame:
    if len(pcm) > limits.audio_bytes:
        raise TooLarge(f"A piece of audio may have at most {limits.audio_bytes} bytes.")
    check_samples(pcm)
    return AudioFrame(pcm, rate)


def _video(data: bytes, media_type: str, limits: LiveLimits) -> VideoFrame:
    if len(data) > limits.video_bytes:
        raise TooLarge(f"A video frame may have at most {limits.video_bytes} bytes.")
    if media_type not in _IMAGES.values() or sniff(data) != media_type:
        raise UnsupportedType("A video frame must be a JPEG or a PNG, as its media type says.")
    width, height = dimensions(media_type, data) or (0, 0)
    max_pixels = limits.frames.input.max_image_pixels
    if not 0 < width * height <= max_pixels:
        raise UnsupportedType(f"A video frame may have 1 to {max_pixels} pixels; this one has {width} x {height}.")
    return VideoFrame(data, media_type)
