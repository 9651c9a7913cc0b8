"""The frames that the server sends on a live socket beside those of the chat socket, to clients of ours only."""

from collections.abc import Collection
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from adkwire.wire.breaks import is_break
from adkwire.wire.chunks import Chunk, Data, ToolInputAvailable, decode_chunk, encode_chunk
from adkwire.wire.profiles import Profile
from adkwire.wire.socket.audio import BIT_DEPTH, CHANNELS, INPUT_RATE, OUTPUT_RATE
from adkwire.wire.socket.frames_out import ChunkFrames, NoticeLevel

LIVE_VERSION = "1.0"
"""The version of the live frames, which every one of them names."""

LiveState: TypeAlias = Literal["listening", "thinking", "speaking", "waiting"]


class _Frame(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    version: str = LIVE_VERSION


class AudioFormat(msgspec.Struct, frozen=True, rename="camel"):
    """The format of audio in one direction."""

    rate: int
    channels: int = CHANNELS
    bit_depth: int = BIT_DEPTH


class AudioFormats(msgspec.Struct, frozen=True):
    """The formats of audio in both directions."""

    input: AudioFormat = AudioFormat(INPUT_RATE)
    output: AudioFormat = AudioFormat(OUTPUT_RATE)


class Ready(_Frame, frozen=True, tag="ready"):
    """The first frame of a connection: the chat, its active run and the audio formats."""

    chat: str
    run: str | None
    generation: int
    resumed: bool
    """True when the conversation went on while no client was connected."""
    audio: AudioFormats = AudioFormats()


class Pong(_Frame, frozen=True, tag="pong"):
    """The answer to a ping."""

    timestamp: float | None
    server_time: int


class TurnPushed(_Frame, frozen=True, tag="turn"):
    """The start of a turn that this client has not asked for; its chunks follow."""

    request_id: str
    message_id: str
    user_message_id: str
    origin: Literal["voice", "server"]


class UserTranscript(_Frame, frozen=True, tag="user-transcript"):
    """The transcript of the user's speech so far."""

    user_message_id: str
    text: str
    final: bool


class StateChanged(_Frame, frozen=True, tag="state"):
    """The new state of the conversation."""

    state: LiveState


class Interrupted(_Frame, frozen=True, tag="interrupted"):
    """An interruption: audio of older generations must not be played."""

    request_id: str
    generation: int
    kept: str | UnsetType = UNSET
    """The text of the answer that the user heard, when the rest is taken out of the message."""


class CallSettled(_Frame, frozen=True, tag="call-settled"):
    """The answer to a call arrived, from this client or from another one."""

    tool_call_id: str
    state: str
    approval_id: str | UnsetType = UNSET
    """The approval request, if there was one: a later call may have the same call id."""


class Notice(_Frame, frozen=True, tag="notice"):
    """A message to the user that belongs to no request."""

    level: NoticeLevel
    code: str
    text: str


class Refusal(_Frame, frozen=True, tag="error"):
    """An error about a frame of the client that has no request id."""

    code: str
    text: str
    frame: str | UnsetType = UNSET
    """The type of the client's frame."""
    tool_call_id: str | UnsetType = UNSET
    """The call that the client's frame was about."""


ServerFrame: TypeAlias = (
    Ready | Pong | TurnPushed | UserTranscript | StateChanged | Interrupted | CallSettled | Notice | Refusal
)


def encode_live_frame(frame: ServerFrame) -> str:
    """Return the JSON of a frame."""
    return encode_chunk(msgspec.to_builtins(frame)).decode()


def pcm_chunk(pcm: bytes) -> Data:
    """Return a piece of the model's audio as a chunk, for a client that takes no binary frames."""
    # The bytes become base64 when the chunk becomes JSON, which costs half as much as doing it here.
    audio = {"chunk": pcm, "sampleRate": OUTPUT_RATE, "channels": CHANNELS, "bitDepth": BIT_DEPTH}
    return Data(type="data-pcm", data=audio, transient=True)


class LiveChunkFrames(ChunkFrames):
    """The `chunk` frames of one request on a live socket, between which chunks may stand that are in no stream log.

    A client that has `executed` some calls gets no `tool-input-available` of them again, because that would make it
    execute them once more.
    """

    def __init__(
        self,
        request_id: str,
        profile: Profile,
        *,
        run: str | None = None,
        first: int = 0,
        behind: int = -1,
        executed: Collection[str] = (),
    ) -> None:
        super().__init__(request_id, profile, run=run, first=first, behind=behind)
        if executed:
            self._fit = lambda entry: None if _offers(entry, executed) else profile.fit_encoded(entry)

    def encode_unlogged(self, *chunks: Chunk) -> list[str]:
        """Return the frames of chunks that only this reader gets: numbered like all, but without a position."""
        frames: list[str] = []
        for chunk in chunks:
            parts = (self._head, b"%d" % self._next, b',"chunk":', encode_chunk(chunk), b"}")
            frames.append(b"".join(parts).decode())
            self._next += 1
        return frames


def _offers(entry: bytes, calls: Collection[str]) -> bool:
    """Return True for the `tool-input-available` of one of these calls."""
    if is_break(entry):
        return False
    chunk = decode_chunk(entry)
    return isinstance(chunk, ToolInputAvailable) and chunk.tool_call_id in calls
