"""What a server says on a live socket, beside the frames of the chat socket; none of it to a stock client."""

from collections.abc import Collection
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from adkwire.wire.breaks import is_break
from adkwire.wire.chunks import Chunk, Data, ToolInputAvailable, decode_chunk, encode_chunk
from adkwire.wire.frames import ChunkFrames, Level
from adkwire.wire.profiles import Profile
from adkwire.wire.sound import BIT_DEPTH, CHANNELS, RATE, SPEECH_RATE

VERSION = "1.0"

Origin: TypeAlias = Literal["voice", "server"]
LiveState: TypeAlias = Literal["listening", "thinking", "speaking", "waiting"]


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
