"""What is left of a run whose process died: what the session has to be told, and how its stream ends.

The log holds the first chunks of the run, the session the events that ADK stored. Either may know more than the other:
partial text was shown and never stored, or the last events were stored and not yet shown. Both are brought into one
form, parts and calls in their order, and compared:

1. What was shown and is not in the session becomes interrupted events, as at the end of every run.
2. Calls that nobody will answer are answered, and why the turn ends is said, unless it is whole or waits for someone.
3. The turn is told again from all these events. What of it was not shown yet is the tail of the log.

So a reader of the log ends up with what history shows. Agents side by side may have been shown in an order that the
session cannot give back; then whatever is open in the stream is closed and it ends with the error.
"""

import base64
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec
from google.adk.events.event import Event
from google.genai import types
from msgspec import UNSET

from adkwire.adk.events import INTERRUPTED, STOPPED, Response, UnansweredCalls, partial_event
from adkwire.adk.stamps import add_stamp
from adkwire.adk.turns import Turn, shown_at
from adkwire.runs.stream_summary import (
    ANSWERED,
    ASKED,
    AVAILABLE,
    SETTLED,
    CallChunk,
    Called,
    End,
    Item,
    Output,
    Said,
    StreamSummary,
    Text,
    matches,
    rank_of,
)
from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, Json, decode_chunk, encode_chunk
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.tool_calls import UNFINISHED, Phase
from adkwire.wire.encode.unsaved import Unsaved
from adkwire.wire.failures import SERVER_STOPPED, Explain, Failure, explain_briefly
from adkwire.wire.folding import BrokenStream, fold


class RunEnd(NamedTuple):
    """How a run is brought to its end."""

    events: list[Event]
    """To be appended to the session, in this order."""
    tail: list[Chunk]
    """To be appended to the log; nothing when the log has its end already."""


def reconcile(
    turn: Turn, shown: Sequence[Chunk], known: Mapping[str, Response], explain: Explain, author: str = ""
) -> RunEnd:
    """Close a run that was cut off.

    `turn` is what the session has of it and `shown` what its readers may have seen, including what its message held
    before. `known` has the answers for calls whose fate is known, also for those that seem to wait and that the gate
    does not have. `author` speaks when the session names nobody.
    """
    if any(isinstance(chunk, c.Finish | c.Error) for chunk in shown):
        return RunEnd([], [])
    seen = StreamSummary(shown)
    unsaved = _unsaved(turn, seen, _author(turn) or author)
    events = [event for _, event in unsaved]
    encoder, chunks = replace(turn, events=_merged(turn.events, unsaved)).encoder(explain)
    for event in _last_events(turn, encoder, seen, known, unfinished=bool(unsaved), author=_author(turn) or author):
        chunks += encoder.feed(event)
        events.append(event)
    told = [decode_chunk(encode_chunk(chunk)) for chunk in (*chunks, *encoder.end())]
    tail = _Tail(seen, told).chunks
    waiting = {call.id for call in encoder.pending_calls()}
    given = [chunk for chunk in shown if isinstance(chunk, Output) and chunk.tool_call_id in waiting]
    if not _agree([*shown, *tail], [*told, *given]):
        tail = _shut(seen, told, explain)
    if turn.user_event is None and not turn.events and not unsaved:
        events = []  # Of this turn the session knows nothing, so there is nothing to bring to an end.
    return RunEnd(events, tail)


def _unsaved(turn: Turn, seen: StreamSummary, author: str) -> list[tuple[int, Event]]:
    """Events for what was shown and not stored, each with the place among the stored ones where it was shown."""
    told, owners = _told(turn)
    matched = {shown.id: owners[part] for part, shown in matches(told, seen).items()}
    stored = told.others.copy()
    groups: list[_Group] = []
    for item in seen.items:
        if isinstance(item, Said | Called):
            owner = matched.get(item.id) if isinstance(item, Said) else owners.get(item.id)
            if owner is not None:
                _place(groups, owner)
                continue
        elif stored[encode_chunk(item)] > 0:
            stored[encode_chunk(item)] -= 1
            continue
        if not groups or not groups[-1].takes(item):
            groups.append(_Group())
        groups[-1].items.append(item)
    return [(group.place(len(turn.events)), _interrupted(turn, group, author)) for group in groups if group.parts()]


def _told(turn: Turn) -> tuple[StreamSummary, dict[str, int]]:
    """What the stored events say, and which of them says what."""
    encoder, told, owners = Encoder(turn.message_id), StreamSummary(), dict[str, int]()
    for index, event in enumerate(turn.events):
        for chunk in encoder.feed(event):
            told.take(decode_chunk(encode_chunk(chunk)))
        for name in (*told.said, *told.calls):
            owners.setdefault(name, index)
    return told, owners


@dataclass(slots=True)
class _Group:
    """Things shown one after the other that one event can hold."""

    items: list[Item] = field(default_factory=list[Item])
    before: int | None = None
    """The stored event that was shown next."""

    def takes(self, item: Item) -> bool:
        """Whether an event that has both would be shown in this order, and as two things."""
        last = self.items[-1]
        if self.before is not None or (_is_function(last) and not _is_function(item)):
            return False
        return not (isinstance(item, Said) and isinstance(last, Said) and item.kind == last.kind)

    def place(self, end: int) -> int:
        return end if self.before is None else self.before

    def parts(self) -> list[tuple[str, str | types.Part]]:
        return [part for item in self.items for part in _parts_of(item)]


def _place(groups: list[_Group], owner: int) -> None:
    for group in groups:
        if group.before is None:
            group.before = owner


def _is_function(item: Item) -> bool:
    return isinstance(item, Called) and not item.provider


def _interrupted(turn: Turn, group: _Group, author: str) -> Event:
    stamp = turn.stamp
    if group.before is not None:
        stamp["at"] = math.nextafter(shown_at(turn.events[group.before]), 0.0)
    return partial_event(Unsaved(author, None, group.parts()), turn.invocation_id, stamp)


def _merged(stored: list[Event], unsaved: list[tuple[int, Event]]) -> list[Event]:
    """All events in the order in which history will have them."""
    merged: list[Event] = []
    for index in range(len(stored) + 1):
        merged += [event for place, event in unsaved if place == index]
        merged += stored[index : index + 1]
    return merged


def _parts_of(item: Item) -> list[tuple[str, str | types.Part]]:
    """What the session should hold of something that was shown; nothing when only a stored event can have shown it."""
    match item:
        case Said(kind=kind, text=text):
            return [(kind, text)] if text else []
        case Called(provider=True):
            return [("tool", part) for part in _provided(item)]
        case Called():
            call = types.FunctionCall(id=item.id, name=item.name, args={})
            return [("call", types.Part(function_call=call))]
        case c.File():
            return [("media", _file(item))]
        case c.Data(type="data-executable-code", data={"language": str(language), "code": str(code)}):
            known = types.Language.__members__.get(language)
            return [("media", types.Part(executable_code=types.ExecutableCode(language=known, code=code)))]
        case c.Data(type="data-code-execution-result", data={"outcome": str(outcome), "output": str(output)}):
            result = types.CodeExecutionResult(outcome=types.Outcome.__members__.get(outcome), output=output)
            return [("media", types.Part(code_execution_result=result))]
        case _:
            return []


def _provided(call: Called) -> Iterator[types.Part]:
    kind = types.ToolType.__members__.get(call.name)
    yield types.Part(tool_call=types.ToolCall(id=call.id, tool_type=kind, args=call.input))
    if call.rank == SETTLED:
        yield types.Part(tool_response=types.ToolResponse(id=call.id, tool_type=kind, response=call.output))


def _file(chunk: c.File) -> types.Part:
    head, _, data = chunk.url.partition(";base64,")
    if head == f"data:{chunk.media_type}":
        return types.Part(inline_data=types.Blob(mime_type=chunk.media_type, data=base64.b64decode(data)))
    return types.Part(file_data=types.FileData(mime_type=chunk.media_type, file_uri=chunk.url))


def _author(turn: Turn) -> str:
    """Who speaks when the stored events are over."""
    last = next((event for event in reversed(turn.events) if event.author != "user"), None)
    return (last.actions.transfer_to_agent or last.author) if last is not None else ""


def _last_events(
    turn: Turn, encoder: Encoder, seen: StreamSummary, known: Mapping[str, Response], *, unfinished: bool, author: str
) -> list[Event]:
    """Answers for the calls that nobody will answer any more, and why the turn ends if nothing has told it."""
    told = encoder.failure is not None or encoder.aborted
    waits = any(call.id not in known for call in encoder.pending_calls())
    complete = waits or (not encoder.unsettled_calls() and _is_whole(turn.events))
    stops = not told and (unfinished or not complete)
    if stops or encoder.failure is not None:
        known = {**_held(encoder, seen), **known}
    ends = UnansweredCalls(encoder, author, turn.invocation_id, turn.stamp)
    seals = ends.sealed(known, otherwise=STOPPED if encoder.aborted else None)
    return [*seals, _stop(turn, author)] if stops else seals


def _held(encoder: Encoder, seen: StreamSummary) -> dict[str, Response]:
    """Answers for the calls that were to be given to a browser once all was well."""
    held = [call.id for call in encoder.pending_calls() if call.phase is Phase.WITHHELD]
    given = {call.id for call in seen.calls.values() if call.rank >= AVAILABLE}
    return {call: {"error": UNFINISHED if call in given else INTERRUPTED} for call in held}


def _stop(turn: Turn, author: str) -> Event:
    return Event(
        author=author,
        invocation_id=turn.invocation_id,
        error_code=SERVER_STOPPED,
        error_message=explain_briefly(Failure(SERVER_STOPPED, "")),
        custom_metadata=add_stamp(None, turn.stamp),
    )


def _is_whole(events: list[Event]) -> bool:
    """Whether the last thing stored is an answer, and no agent that leads others has begun and not ended."""
    leading: set[tuple[str, str | None]] = set()
    for event in events:
        if event.actions.agent_state is not None:
            leading.add((event.author, event.branch))
        if event.actions.end_of_agent:
            leading.discard((event.author, event.branch))
    last = next((event for event in reversed(events) if event.content or event.error_code or event.output), None)
    answers = last is not None and last.author != "user" and not last.interrupted and last.is_final_response()
    return answers and not leading


class _Tail:
    """The chunks of a turn, told again, that were not shown."""

    def __init__(self, seen: StreamSummary, told: list[Chunk]) -> None:
        self.chunks: list[Chunk] = []
        self._seen = seen
        self._told, self._whole = StreamSummary(), StreamSummary(told)
        self._shown = matches(self._whole, seen)
        self._skip = {part: len(shown.text) for part, shown in self._shown.items()}
        self._once, self._others = seen.once.copy(), seen.others.copy()
        for chunk in told:
            self._told.take(chunk)
            self._take(chunk)

    def _take(self, chunk: Chunk) -> None:
        if isinstance(chunk, Text):
            self._text(chunk)
        elif isinstance(chunk, CallChunk):
            self._call(chunk)
        elif isinstance(chunk, c.Start | c.StartStep | c.FinishStep | End):
            self._unless_shown(self._once, type(chunk), chunk)
        elif isinstance(chunk, c.Data) and chunk.id is not UNSET:
            self._data((chunk.type, chunk.id), chunk)
        elif not (isinstance(chunk, c.Data) and chunk.transient is True):
            self._unless_shown(self._others, encode_chunk(chunk), chunk)

    def _unless_shown(self, shown: Counter[Json], key: object, chunk: Chunk) -> None:
        if shown[key] > 0:
            shown[key] -= 1
        else:
            self.chunks.append(chunk)

    def _data(self, key: tuple[str, str], chunk: c.Data) -> None:
        said, shown = encode_chunk(chunk), self._seen.latest.get(key)
        if shown is None or (said == self._whole.latest[key] and said != shown):
            self.chunks.append(chunk)

    def _text(self, chunk: Text) -> None:
        shown = self._shown.get(chunk.id)
        if shown is None:
            self.chunks.append(chunk)
        elif isinstance(chunk, c.TextDelta | c.ReasoningDelta):
            rest = chunk.delta[self._skip[chunk.id] :]
            self._skip[chunk.id] -= len(chunk.delta) - len(rest)
            if rest:
                self.chunks.append(msgspec.structs.replace(chunk, id=shown.id, delta=rest))
        elif isinstance(chunk, c.TextEnd | c.ReasoningEnd) and shown.is_open:
            self.chunks.append(msgspec.structs.replace(chunk, id=shown.id))

    def _call(self, chunk: CallChunk) -> None:
        told = self._told.call_of(chunk)
        shown = self._seen.calls.get(told.id)
        at, rank = shown.rank if shown is not None else -1, rank_of(told, chunk)
        if isinstance(chunk, c.ToolInputStart):
            return
        if isinstance(chunk, c.ToolInputDelta):
            # Of one whose arguments were streamed in part they are all told again, as the encoder does.
            if rank > at or (rank == at and shown is not None and shown.text != told.text):
                self.chunks += [c.ToolInputStart(tool_call_id=told.id, tool_name=told.name), chunk]
        elif rank > at or (isinstance(chunk, c.ToolApprovalRequest) and self._is_asked_again(told.id)):
            self.chunks.append(chunk)

    def _is_asked_again(self, call: str) -> bool:
        """Whether an answer was shown that the session never got. Nothing was done about it."""
        return self._seen.calls[call].rank == ANSWERED and self._whole.calls[call].rank == ASKED


def _agree(chunks: list[Chunk], told: list[Chunk]) -> bool:
    """Whether a reader of both has the same message, and the first can be read by everyone."""
    in_step = False
    for chunk in chunks:
        if isinstance(chunk, c.StartStep | c.FinishStep):
            if in_step == isinstance(chunk, c.StartStep):
                return False
            in_step = not in_step
    try:
        return not in_step and encode_chunk(fold(chunks)) == encode_chunk(fold(told))
    except BrokenStream:
        return False


def _shut(seen: StreamSummary, told: list[Chunk], explain: Explain) -> list[Chunk]:
    """Close what is open and say that it is not the whole."""
    tail: list[Chunk] = [
        c.TextEnd(id=part.id) if part.kind == "text" else c.ReasoningEnd(id=part.id)
        for part in seen.said.values()
        if part.is_open
    ]
    again = StreamSummary(told)
    unknown = [call.id for call in seen.calls.values() if call.id not in again.calls and call.rank < SETTLED]
    tail += [c.ToolOutputError(tool_call_id=call, error_text=UNFINISHED) for call in unknown]
    for chunk in told:
        if isinstance(chunk, c.ToolApprovalRequest | c.ToolApprovalResponse | Output):
            shown = seen.calls.get(again.call_of(chunk).id)
            if shown is not None and rank_of(shown, chunk) > shown.rank:
                tail.append(chunk)
    if seen.in_step:
        tail.append(c.FinishStep())
    return [*tail, *last_metadata(told), c.Error(error_text=explain(Failure(SERVER_STOPPED, "")))]


def last_metadata(told: Sequence[Chunk]) -> list[Chunk]:
    """Return the metadata of a message's end, if it has one, as a chunk of its own."""
    ends = [chunk.message_metadata for chunk in told if isinstance(chunk, c.MessageMetadata | c.Finish)]
    return [c.MessageMetadata(message_metadata=ends[-1])] if ends else []
