"""StreamSummary: the content of a list of chunks, texts and calls in their order.

The same content can be sent in different chunks: a text in one delta or in many, under another id. Summaries of two
lists can be compared.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import UNSET

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, Json, encode_chunk


@dataclass(slots=True)
class TextItem:
    """A text or reasoning part."""

    id: str
    kind: str
    """`text` or `reasoning`."""
    deltas: list[str] = field(default_factory=list[str])
    is_open: bool = True
    """True until its `text-end` or `reasoning-end`."""

    @property
    def text(self) -> str:
        """The text of all deltas so far."""
        return "".join(self.deltas)


@dataclass(slots=True)
class CallItem:
    """A tool call."""

    id: str
    name: str
    rank: int = -1
    """The highest `rank_of` its chunks; -1 before the first one."""
    text: str = ""
    """The arguments that were streamed since the last `tool-input-start`."""
    input: Json = None
    output: Json = UNSET
    provider: bool = False
    """True when the model's provider executes it."""
    has_verdict: bool = False
    """True once a `tool-approval-response` has come."""


AVAILABLE, ASKED, DECIDED, SETTLED = 1, 2, 3, 6
_INPUT_AFTER_VERDICT = 4
"""Added to the rank of arguments that follow a verdict: a page gets edited arguments again."""

Item: TypeAlias = TextItem | CallItem | Chunk
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
OutputChunk: TypeAlias = c.ToolOutputAvailable | c.ToolOutputError | c.ToolOutputDenied
TextChunk: TypeAlias = c.TextStart | c.TextDelta | c.TextEnd | c.ReasoningStart | c.ReasoningDelta | c.ReasoningEnd
BoundaryChunk: TypeAlias = c.Start | c.StartStep | c.FinishStep | c.MessageMetadata | c.Abort | c.Finish | c.Error
"""Chunks that begin or end a message or a step, and its metadata. Two of one type count as equal."""


class StreamSummary:
    """The content of chunks, independent of how it is divided into chunks."""

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        self.items: list[Item] = []
        """Texts, calls and all other content, in the order in which they began."""
        self.texts: dict[str, TextItem] = {}
        self.calls: dict[str, CallItem] = {}
        self._call_by_approval: dict[str, str] = {}
        self.boundaries: Counter[type[Chunk]] = Counter()
        """How many boundary chunks of each type came."""
        self.others: Counter[bytes] = Counter()
        """How often each other chunk came, by its encoded form: files, sources, data."""
        self.latest_data: dict[tuple[str, str], bytes] = {}
        """The newest data chunk of each type and id; it replaces the older ones."""
        for chunk in chunks:
            self.add(chunk)

    @property
    def in_step(self) -> bool:
        """True while a step is open."""
        return self.boundaries[c.StartStep] > self.boundaries[c.FinishStep]

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk. Transient data is left out: no message holds it."""
        if isinstance(chunk, TextChunk):
            self._add_text(chunk)
        elif isinstance(chunk, CallChunk):
            self._add_call(chunk)
        elif isinstance(chunk, BoundaryChunk):
            self.boundaries[type(chunk)] += 1
        elif not (isinstance(chunk, c.Data) and chunk.transient is True):
            self.others[encode_chunk(chunk)] += 1
            self.items.append(chunk)
            if isinstance(chunk, c.Data) and chunk.id is not UNSET:
                self.latest_data[chunk.type, chunk.id] = encode_chunk(chunk)

    def _add_text(self, chunk: TextChunk) -> None:
        if isinstance(chunk, c.TextStart | c.ReasoningStart):
            item = TextItem(chunk.id, "text" if isinstance(chunk, c.TextStart) else "reasoning")
            self.texts[chunk.id] = item
            self.items.append(item)
        elif isinstance(chunk, c.TextDelta | c.ReasoningDelta):
            self.texts[chunk.id].deltas.append(chunk.delta)
        else:
            self.texts[chunk.id].is_open = False

    def _add_call(self, chunk: CallChunk) -> None:
        call = self.call_of(chunk)
        call.rank = max(call.rank, rank_of(call, chunk))
        if isinstance(chunk, c.ToolInputStart):
            call.text = ""
        elif isinstance(chunk, c.ToolInputDelta):
            call.text += chunk.input_text_delta
        elif isinstance(chunk, c.ToolInputAvailable):
            call.input, call.provider = chunk.input, chunk.provider_executed is True
        elif isinstance(chunk, c.ToolApprovalRequest):
            self._call_by_approval[chunk.approval_id] = call.id
        elif isinstance(chunk, c.ToolApprovalResponse):
            call.has_verdict = True
        elif isinstance(chunk, c.ToolOutputAvailable):
            call.output = chunk.output

    def call_of(self, chunk: CallChunk) -> CallItem:
        """Return the call that a chunk belongs to; a new call is added."""
        if isinstance(chunk, c.ToolApprovalResponse):
            return self.calls[self._call_by_approval[chunk.approval_id]]
        call = self.calls.get(chunk.tool_call_id)
        if call is None:
            name = chunk.tool_name if isinstance(chunk, c.ToolInputStart | c.ToolInputAvailable) else ""
            call = self.calls[chunk.tool_call_id] = CallItem(chunk.tool_call_id, name)
            self.items.append(call)
        return call


def rank_of(call: CallItem, chunk: CallChunk) -> int:
    """Return the place of a call's chunk in the order in which the encoder sends them."""
    match chunk:
        case c.ToolInputStart() | c.ToolInputDelta():
            return _INPUT_AFTER_VERDICT if call.has_verdict else 0
        case c.ToolInputAvailable():
            return _INPUT_AFTER_VERDICT + AVAILABLE if call.has_verdict else AVAILABLE
        case c.ToolApprovalRequest():
            return ASKED
        case c.ToolApprovalResponse():
            return DECIDED
        case c.ToolOutputAvailable(preliminary=True):
            return call.rank
        case _:
            return SETTLED


def match_texts(history: StreamSummary, logged: StreamSummary) -> dict[str, TextItem]:
    """Return the logged texts that history has too, by their ids in history. An open one may still be incomplete."""
    free = list(logged.texts.values())
    found: dict[str, TextItem] = {}
    for text in history.texts.values():
        alike = [item for item in free if item.kind == text.kind and _is_beginning(item, text.text)]
        if alike:
            # Of two agents side by side, one may just have begun the same text that the other has completed.
            match = found[text.id] = min(alike, key=lambda item: item.is_open)
            free.remove(match)
    return found


def _is_beginning(logged: TextItem, text: str) -> bool:
    return text.startswith(logged.text) if logged.is_open else text == logged.text
