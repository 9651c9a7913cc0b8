"""Frames of a live socket: those of the chat socket, and what it takes to talk.

A client of ours asks for the subprotocol. All others get the official frames only, and never a binary one: the AI SDK's
transport ends at the first that it does not know.

A binary frame has a head of 8 bytes, little endian, and then sound or a picture:

| bytes | what            |                                                                             |
|-------|-----------------|-----------------------------------------------------------------------------|
| 1     | kind            | 1 sound (16 bit, one channel; up 16 kHz, down the rate of `ready`), 2 JPEG, 3 PNG |
| 1     | flags           | bit 0: the last of a turn                                                   |
| 2     | generation      | sound of an older one than `interrupted` names is void                      |
| 4     | position        | where in its generation it begins, in milliseconds                          |
"""

import struct
from collections.abc import Callable, Collection
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from adkwire.errors import RequestError, TooLarge, Unprocessable, UnsupportedType
from adkwire.wire.breaks import is_break
from adkwire.wire.chunks import Chunk, Data, ToolInputAvailable, decode_chunk, encode_chunk
from adkwire.wire.decoder import CallBody, TurnInput, decode_call_answer, decode_json, decode_request
from adkwire.wire.frames import (
    AbortFrame,
    ChunkFrames,
    FrameLimits,
    Head,
    Level,
    PingFrame,
    ResumeFrame,
    SendFrame,
    decode_frame,
)
from adkwire.wire.media import dimensions, sniff
from adkwire.wire.profiles import Profile
from adkwire.wire.sound import BIT_DEPTH, CHANNELS, RATE, SPEECH_RATE, check_format, check_samples

LIVE_SUBPROTOCOL = "adkwire.live.v1"
"""What a client asks for that can talk; it understands what `adkwire.chat.v1` has, too."""
VERSION = "1.0"

Origin: TypeAlias = Literal["voice", "server"]
LiveState: TypeAlias = Literal["listening", "thinking", "speaking", "waiting"]

_BINARY = struct.Struct("<BBHI")
_SOUND, _JPEG, _PNG = 1, 2, 3
_PICTURES = {_JPEG: "image/jpeg", _PNG: "image/png"}
_LAST = 1
_GENERATIONS = 2**16
_POSITIONS = 2**32
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
    generation: Annotated[int, Meta(ge=0, lt=_GENERATIONS)]
    ms: Annotated[float, Meta(ge=0, lt=_POSITIONS)]


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
    return "audio_chunk" if kind == _SOUND else "video_frame" if kind in _PICTURES else "binary"


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
    if len(raw) < _BINARY.size:
        raise Unprocessable(f"A binary frame has a head of {_BINARY.size} bytes.")
    kind, payload = raw[0], raw[_BINARY.size :]
    if kind == _SOUND:
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


def encode_sound(pcm: bytes, generation: int, position: int, *, last: bool) -> bytes:
    """A piece of what is said, as a binary frame."""
    flags = _LAST if last else 0
    return _BINARY.pack(_SOUND, flags, generation % _GENERATIONS, position % _POSITIONS) + pcm


def is_older(generation: int, than: int) -> bool:
    """Whether a generation came before another; they are counted in 16 bits, and begin anew."""
    return 0 < (than - generation) % _GENERATIONS < _GENERATIONS // 2


class _Frame(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    version: str = VERSION


class AudioFormat(msgspec.Struct, frozen=True, rename="camel"):
    """How sound is written."""

    rate: int
    channels: int = CHANNELS
    bit_depth: int = BIT_DEPTH


class AudioFormats(msgspec.Struct, frozen=True):
    """How sound is written both ways."""

    input: AudioFormat = AudioFormat(RATE)
    output: AudioFormat = AudioFormat(SPEECH_RATE)


class Ready(_Frame, frozen=True, tag="ready"):
    """The first frame: where things stand."""

    chat: str
    run: str | None
    generation: int
    resumed: bool
    """Whether the conversation went on while no socket was there."""
    audio: AudioFormats = AudioFormats()


class Pong(_Frame, frozen=True, tag="pong"):
    """The answer to a ping."""

    timestamp: float | None
    server_time: int


class TurnPushed(_Frame, frozen=True, tag="turn"):
    """A turn that this client has not asked for; its chunks follow."""

    request_id: str
    message_id: str
    user_message_id: str
    origin: Origin


class UserTranscript(_Frame, frozen=True, tag="user-transcript"):
    """What the person said, as far as it was understood."""

    user_message_id: str
    text: str
    final: bool


class StateChanged(_Frame, frozen=True, tag="state"):
    """What the agent does now."""

    state: LiveState


class Interrupted(_Frame, frozen=True, tag="interrupted"):
    """Sound of older generations is void."""

    request_id: str
    generation: int
    kept: str | UnsetType = UNSET
    """What was heard of the answer, when the rest does not count as said."""


class CallSettled(_Frame, frozen=True, tag="call-settled"):
    """A call has its answer, from wherever it came."""

    tool_call_id: str
    state: str
    approval_id: str | UnsetType = UNSET
    """The question, when it was asked about: a later call may have the same id."""


class Notice(_Frame, frozen=True, tag="notice"):
    """Something a person should know."""

    level: Level
    code: str
    text: str


class Refusal(_Frame, frozen=True, tag="error"):
    """A frame of the client that was not obeyed."""

    code: str
    text: str
    frame: str | UnsetType = UNSET
    """Its type."""
    tool_call_id: str | UnsetType = UNSET
    """The call that it was about."""


LiveServerFrame: TypeAlias = (
    Ready | Pong | TurnPushed | UserTranscript | StateChanged | Interrupted | CallSettled | Notice | Refusal
)


def encode_live_frame(frame: LiveServerFrame) -> str:
    """A frame as it is sent."""
    return encode_chunk(msgspec.to_builtins(frame)).decode()


def pcm_chunk(pcm: bytes) -> Data:
    """A piece of what is said, for a client that takes no binary frames."""
    # Bytes become base64 where the chunk becomes JSON, which costs half of doing it here.
    sound = {"chunk": pcm, "sampleRate": SPEECH_RATE, "channels": CHANNELS, "bitDepth": BIT_DEPTH}
    return Data(type="data-pcm", data=sound, transient=True)


class LiveChunkFrames(ChunkFrames):
    """The chunks of an answer as frames of one request, between which others may stand that are in no log.

    A client that has given the outputs of some calls gets no `tool-input-available` of these any more, wherever its
    answer begins: it would execute them once more.
    """

    def __init__(
        self,
        request_id: str,
        profile: Profile,
        *,
        run: str | None = None,
        first: int = 0,
        behind: int = -1,
        given: Collection[str] = (),
    ) -> None:
        super().__init__(request_id, profile, run=run, first=first, behind=behind)
        if given:
            self._fit = lambda entry: None if _offers(entry, given) else profile.fit_encoded(entry)

    def beside(self, *chunks: Chunk) -> list[str]:
        """Frames of chunks that this reader alone gets: numbered as all, but with no place in the run."""
        frames: list[str] = []
        for chunk in chunks:
            parts = (self._head, b"%d" % self._next, b',"chunk":', encode_chunk(chunk), b"}")
            frames.append(b"".join(parts).decode())
            self._next += 1
        return frames


def _offers(entry: bytes, calls: Collection[str]) -> bool:
    """Whether an entry of a log lets a browser have one of these calls."""
    if is_break(entry):
        return False
    chunk = decode_chunk(entry)
    return isinstance(chunk, ToolInputAvailable) and chunk.tool_call_id in calls
