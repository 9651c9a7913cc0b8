"""What chunks say, without how they say it: parts and calls in their order, so that two tellings can be compared."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import UNSET

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, Json, encode_chunk


@dataclass(slots=True)
class Said:
    """A text or reasoning part."""

    id: str
    kind: str
    pieces: list[str] = field(default_factory=list[str])
    is_open: bool = True

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self.pieces)


@dataclass(slots=True)
class Called:
    """A call, and how far it has come: the ranks are the order in which its chunks leave the encoder."""

    id: str
    name: str
    rank: int = -1
    text: str = ""
    """Its arguments as text, since they were last begun."""
    input: Json = None
    output: Json = UNSET
    provider: bool = False
    answered: bool = False


AVAILABLE, ASKED, ANSWERED, SETTLED = 1, 2, 3, 6
_AGAIN = 4
"""What arguments rank higher once the question about them is answered: they are told anew."""

Item: TypeAlias = Said | Called | Chunk
CallChunk: TypeAlias = (
    c.ToolInputStart
    | c.ToolInputDelta
    | c.ToolInputAvailable
    | c.ToolApprovalRequest
    | c.ToolApprovalResponse
    | c.ToolOutputAvailable
    | c.ToolOutputError
    | c.ToolOutputDenied
)
Output: TypeAlias = c.ToolOutputAvailable | c.ToolOutputError | c.ToolOutputDenied
Text: TypeAlias = c.TextStart | c.TextDelta | c.TextEnd | c.ReasoningStart | c.ReasoningDelta | c.ReasoningEnd
End: TypeAlias = c.MessageMetadata | c.Abort | c.Finish | c.Error


class StreamSummary:
    """What chunks say, without how they say it."""

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        self.items: list[Item] = []
        self.said: dict[str, Said] = {}
        self.calls: dict[str, Called] = {}
        self.asks: dict[str, str] = {}
        """The calls by the ids of their questions."""
        self.once: Counter[type[Chunk]] = Counter()
        """How often a chunk came that says nothing but its type."""
        self.others: Counter[bytes] = Counter()
        self.latest: dict[tuple[str, str], bytes] = {}
        """What data with an id says now: it is told anew in its place."""
        for chunk in chunks:
            self.take(chunk)

    @property
    def in_step(self) -> bool:
        """Whether a step is open."""
        return self.once[c.StartStep] > self.once[c.FinishStep]

    def take(self, chunk: Chunk) -> None:
        """One more chunk."""
        if isinstance(chunk, Text):
            self._take_text(chunk)
        elif isinstance(chunk, CallChunk):
            self._take_call(chunk)
        elif isinstance(chunk, c.Start | c.StartStep | c.FinishStep | End):
            self.once[type(chunk)] += 1
        elif not (isinstance(chunk, c.Data) and chunk.transient is True):
            self.others[encode_chunk(chunk)] += 1
            self.items.append(chunk)
            if isinstance(chunk, c.Data) and chunk.id is not UNSET:
                self.latest[chunk.type, chunk.id] = encode_chunk(chunk)

    def _take_text(self, chunk: Text) -> None:
        if isinstance(chunk, c.TextStart | c.ReasoningStart):
            said = Said(chunk.id, "text" if isinstance(chunk, c.TextStart) else "reasoning")
            self.said[chunk.id] = said
            self.items.append(said)
        elif isinstance(chunk, c.TextDelta | c.ReasoningDelta):
            self.said[chunk.id].pieces.append(chunk.delta)
        else:
            self.said[chunk.id].is_open = False

    def _take_call(self, chunk: CallChunk) -> None:
        call = self.call_of(chunk)
        call.rank = max(call.rank, rank_of(call, chunk))
        if isinstance(chunk, c.ToolInputStart):
            call.text = ""
        elif isinstance(chunk, c.ToolInputDelta):
            call.text += chunk.input_text_delta
        elif isinstance(chunk, c.ToolInputAvailable):
            call.input, call.provider = chunk.input, chunk.provider_executed is True
        elif isinstance(chunk, c.ToolApprovalRequest):
            self.asks[chunk.approval_id] = call.id
        elif isinstance(chunk, c.ToolApprovalResponse):
            call.answered = True
        elif isinstance(chunk, c.ToolOutputAvailable):
            call.output = chunk.output

    def call_of(self, chunk: CallChunk) -> Called:
        """The call that a chunk is about."""
        if isinstance(chunk, c.ToolApprovalResponse):
            return self.calls[self.asks[chunk.approval_id]]
        call = self.calls.get(chunk.tool_call_id)
        if call is None:
            name = chunk.tool_name if isinstance(chunk, c.ToolInputStart | c.ToolInputAvailable) else ""
            call = self.calls[chunk.tool_call_id] = Called(chunk.tool_call_id, name)
            self.items.append(call)
        return call


def rank_of(call: Called, chunk: CallChunk) -> int:
    """How far a chunk brings its call."""
    match chunk:
        case c.ToolInputStart() | c.ToolInputDelta():
            return _AGAIN if call.answered else 0
        case c.ToolInputAvailable():
            return _AGAIN + AVAILABLE if call.answered else AVAILABLE
        case c.ToolApprovalRequest():
            return ASKED
        case c.ToolApprovalResponse():
            return ANSWERED
        case c.ToolOutputAvailable(preliminary=True):
            return call.rank
        case _:
            return SETTLED


def matches(told: StreamSummary, seen: StreamSummary) -> dict[str, Said]:
    """The parts that were shown, whole or in part, by the ids they have when the turn is told again."""
    free = list(seen.said.values())
    found: dict[str, Said] = {}
    for part in told.said.values():
        alike = [one for one in free if one.kind == part.kind and _is_beginning(one, part.text)]
        if alike:
            # Of agents side by side one may just have begun to say what another has said.
            match = found[part.id] = min(alike, key=lambda one: one.is_open)
            free.remove(match)
    return found


def _is_beginning(shown: Said, text: str) -> bool:
    return text.startswith(shown.text) if shown.is_open else text == shown.text
