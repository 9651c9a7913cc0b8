"""Reconcile the stream log and the session of a run whose process died.

The log has the first chunks of the run, the session the events that ADK stored. Either may have more than the other:
partial text was sent and never stored, or the last events were stored and not yet sent. Both are summarized as texts
and calls in their order (`stream_summary.py`) and compared:

1. Content that the log has and the session has not becomes interrupted events, as at the end of every run.
2. Calls that nobody will answer any more get a response. A last event has the reason why the turn ends, unless the
   turn is complete or waits for an answer.
3. The encoder reads the events of the turn once more, old and new. The chunks that are not in the log are its tail.

So a reader of the log gets the message that history shows. Agents side by side may have sent their content in an order
that the session cannot give back; then the tail closes what is open in the stream and ends it with the error.
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

from adkwire.adk.events import INTERRUPTED, STOPPED, CallsWithoutResponse, Response, partial_event
from adkwire.adk.stamps import add_stamp
from adkwire.adk.turns import Turn, shown_at
from adkwire.runs.stream_summary import (
    ASKED,
    AVAILABLE,
    DECIDED,
    SETTLED,
    BoundaryChunk,
    CallChunk,
    CallItem,
    Item,
    OutputChunk,
    StreamSummary,
    TextChunk,
    TextItem,
    match_texts,
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
    """What ends a run in the session and in the stream log."""

    events: list[Event]
    """Events to append to the session."""
    tail: list[Chunk]
    """Chunks to append to the log; none when the log is complete."""


def reconcile(
    turn: Turn, logged: Sequence[Chunk], responses: Mapping[str, Response], explain: Explain, author: str = ""
) -> RunEnd:
    """Return what ends a run that was cut off.

    `turn` has the events of the session and `logged` the chunks of the log, with what the message held before the run.
    `responses` has the responses to calls whose outcome is known, also to calls that look pending and have no record at
    the gate. `author` is the author of new events when the session has none.
    """
    if any(isinstance(chunk, c.Finish | c.Error) for chunk in logged):
        return RunEnd([], [])
    author = _last_author(turn) or author
    log = StreamSummary(logged)
    unsaved = _unsaved_events(turn, log, author)
    events = [event for _, event in unsaved]
    encoder, chunks = replace(turn, events=_merged(turn.events, unsaved)).encoder(explain)
    for event in _last_events(turn, encoder, log, responses, has_unsaved=bool(unsaved), author=author):
        chunks += encoder.feed(event)
        events.append(event)
    history = [decode_chunk(encode_chunk(chunk)) for chunk in (*chunks, *encoder.end())]
    tail = _Tail(log, history).chunks
    settled = {chunk.tool_call_id for chunk in history if isinstance(chunk, OutputChunk)}
    # An output that the session never got is at the gate, where history finds it. With it come the denials of its step.
    from_gate = [chunk for chunk in logged if isinstance(chunk, OutputChunk) and chunk.tool_call_id not in settled]
    if not _agree([*logged, *tail], [*history, *from_gate]):
        tail = _closing_chunks(log, history, explain)
    if turn.user_event is None and not turn.events and not unsaved:
        events = []  # The session has nothing of this turn, so nothing in it has to be ended.
    return RunEnd(events, tail)


def _unsaved_events(turn: Turn, log: StreamSummary, author: str) -> list[tuple[int, Event]]:
    """Return events for logged content that is not stored, each with its index among the stored events."""
    stored, origins = _summarize(turn)
    matched = {item.id: origins[text] for text, item in match_texts(stored, log).items()}
    others = stored.others.copy()
    groups: list[_Group] = []
    for item in log.items:
        if isinstance(item, TextItem | CallItem):
            origin = matched.get(item.id) if isinstance(item, TextItem) else origins.get(item.id)
            if origin is not None:
                for group in groups:
                    group.next_stored = origin if group.next_stored is None else group.next_stored
                continue
        elif others[encode_chunk(item)] > 0:
            others[encode_chunk(item)] -= 1
            continue
        if not groups or not groups[-1].can_hold(item):
            groups.append(_Group())
        groups[-1].items.append(item)
    return [
        (len(turn.events) if group.next_stored is None else group.next_stored, _interrupted_event(turn, group, author))
        for group in groups
        if group.parts()
    ]


def _summarize(turn: Turn) -> tuple[StreamSummary, dict[str, int]]:
    """Return a summary of the stored events, and the index of the event that began each text and call."""
    encoder, summary, origins = Encoder(turn.message_id), StreamSummary(), dict[str, int]()
    for index, event in enumerate(turn.events):
        for chunk in encoder.feed(event):
            summary.add(decode_chunk(encode_chunk(chunk)))
        for item_id in (*summary.texts, *summary.calls):
            origins.setdefault(item_id, index)
    return summary, origins


@dataclass(slots=True)
class _Group:
    """Logged items that are not stored and that one event can hold."""

    items: list[Item] = field(default_factory=list[Item])
    next_stored: int | None = None
    """The index of the stored event whose content follows in the log."""

    def can_hold(self, item: Item) -> bool:
        """Return True if the encoder would send an event with this item too in the logged order and parts."""
        last = self.items[-1]
        if self.next_stored is not None or (_is_function_call(last) and not _is_function_call(item)):
            return False
        return not (isinstance(item, TextItem) and isinstance(last, TextItem) and item.kind == last.kind)

    def parts(self) -> list[tuple[str, str | types.Part]]:
        """Return the content of the event."""
        return [part for item in self.items for part in _parts_of(item)]


def _is_function_call(item: Item) -> bool:
    return isinstance(item, CallItem) and not item.provider


def _interrupted_event(turn: Turn, group: _Group, author: str) -> Event:
    stamp = turn.stamp
    if group.next_stored is not None:
        stamp["at"] = math.nextafter(shown_at(turn.events[group.next_stored]), 0.0)
    return partial_event(Unsaved(author, None, group.parts()), turn.invocation_id, stamp)


def _merged(stored: list[Event], unsaved: list[tuple[int, Event]]) -> list[Event]:
    """Return all events in the order in which history will have them."""
    merged: list[Event] = []
    for index in range(len(stored) + 1):
        merged += [event for before, event in unsaved if before == index]
        merged += stored[index : index + 1]
    return merged


def _parts_of(item: Item) -> list[tuple[str, str | types.Part]]:
    """Return an item as content of an event; nothing for items that only stored events can have."""
    match item:
        case TextItem(kind=kind, text=text):
            return [(kind, text)] if text else []
        case CallItem(provider=True):
            return [("tool", part) for part in _provider_parts(item)]
        case CallItem():
            call = types.FunctionCall(id=item.id, name=item.name, args={})
            return [("call", types.Part(function_call=call))]
        case c.File():
            return [("media", _file_part(item))]
        case c.Data(type="data-executable-code", data={"language": str(language), "code": str(code)}):
            executable = types.ExecutableCode(language=types.Language.__members__.get(language), code=code)
            return [("media", types.Part(executable_code=executable))]
        case c.Data(type="data-code-execution-result", data={"outcome": str(outcome), "output": str(output)}):
            result = types.CodeExecutionResult(outcome=types.Outcome.__members__.get(outcome), output=output)
            return [("media", types.Part(code_execution_result=result))]
        case _:
            return []


def _provider_parts(call: CallItem) -> Iterator[types.Part]:
    kind = types.ToolType.__members__.get(call.name)
    yield types.Part(tool_call=types.ToolCall(id=call.id, tool_type=kind, args=call.input))
    if call.rank == SETTLED:
        yield types.Part(tool_response=types.ToolResponse(id=call.id, tool_type=kind, response=call.output))


def _file_part(chunk: c.File) -> types.Part:
    head, _, data = chunk.url.partition(";base64,")
    if head == f"data:{chunk.media_type}":
        return types.Part(inline_data=types.Blob(mime_type=chunk.media_type, data=base64.b64decode(data)))
    return types.Part(file_data=types.FileData(mime_type=chunk.media_type, file_uri=chunk.url))


def _last_author(turn: Turn) -> str:
    """Return the agent whose turn it is after the stored events; empty when no agent has stored one."""
    last = next((event for event in reversed(turn.events) if event.author != "user"), None)
    return (last.actions.transfer_to_agent or last.author) if last is not None else ""


def _last_events(
    turn: Turn,
    encoder: Encoder,
    log: StreamSummary,
    responses: Mapping[str, Response],
    *,
    has_unsaved: bool,
    author: str,
) -> list[Event]:
    """Return responses to the calls that nobody will answer any more, and the reason why the turn ends if it needs one.

    With `has_unsaved` the log had content that the session had not, so the turn is not complete.
    """
    has_reason = encoder.failure is not None or encoder.aborted
    waits = any(call.id not in responses for call in encoder.pending_calls())
    complete = waits or (not encoder.unsettled_calls() and _is_complete(turn.events))
    is_cut_off = not has_reason and (has_unsaved or not complete)
    if is_cut_off or encoder.failure is not None:
        responses = {**_responses_to_withheld(encoder, log), **responses}
    unanswered = CallsWithoutResponse(encoder, author, turn.invocation_id, turn.stamp)
    seals = unanswered.sealed(responses, otherwise=STOPPED if encoder.aborted else None)
    return [*seals, _server_stopped(turn, author)] if is_cut_off else seals


def _responses_to_withheld(encoder: Encoder, log: StreamSummary) -> dict[str, Response]:
    """Return responses to the browser calls that were withheld until the end of a step that never ends."""
    withheld = [call.id for call in encoder.pending_calls() if call.phase is Phase.WITHHELD]
    offered = {call.id for call in log.calls.values() if call.rank >= AVAILABLE}
    return {call: {"error": UNFINISHED if call in offered else INTERRUPTED} for call in withheld}


def _server_stopped(turn: Turn, author: str) -> Event:
    """Return the event that ends a turn with the reason that the server stopped."""
    return Event(
        author=author,
        invocation_id=turn.invocation_id,
        error_code=SERVER_STOPPED,
        error_message=explain_briefly(Failure(SERVER_STOPPED, "")),
        custom_metadata=add_stamp(None, turn.stamp),
    )


def _is_complete(events: list[Event]) -> bool:
    """Return True if the last stored content is a final response, and no agent that leads others is still running."""
    leading: set[tuple[str, str | None]] = set()
    for event in events:
        if event.actions.agent_state is not None:
            leading.add((event.author, event.branch))
        if event.actions.end_of_agent:
            leading.discard((event.author, event.branch))
    last = next((event for event in reversed(events) if event.content or event.error_code or event.output), None)
    is_final = last is not None and last.author != "user" and not last.interrupted and last.is_final_response()
    return is_final and not leading


class _Tail:
    """The chunks of history that are not in the log."""

    def __init__(self, log: StreamSummary, history: list[Chunk]) -> None:
        self.chunks: list[Chunk] = []
        self._log = log
        self._read, self._history = StreamSummary(), StreamSummary(history)
        self._logged_texts = match_texts(self._history, log)
        self._skip = {text: len(logged.text) for text, logged in self._logged_texts.items()}
        """How many characters of each text of history are in the log and have not been passed yet."""
        self._boundaries, self._others = log.boundaries.copy(), log.others.copy()
        for chunk in history:
            self._read.add(chunk)
            self._add(chunk)

    def _add(self, chunk: Chunk) -> None:
        if isinstance(chunk, TextChunk):
            self._add_text(chunk)
        elif isinstance(chunk, CallChunk):
            self._add_call(chunk)
        elif isinstance(chunk, BoundaryChunk):
            self._add_unless_counted(self._boundaries, type(chunk), chunk)
        elif isinstance(chunk, c.Data) and chunk.id is not UNSET:
            self._add_data((chunk.type, chunk.id), chunk)
        elif not (isinstance(chunk, c.Data) and chunk.transient is True):
            self._add_unless_counted(self._others, encode_chunk(chunk), chunk)

    def _add_unless_counted(self, logged: Counter[Json], key: object, chunk: Chunk) -> None:
        if logged[key] > 0:
            logged[key] -= 1
        else:
            self.chunks.append(chunk)

    def _add_data(self, key: tuple[str, str], chunk: c.Data) -> None:
        encoded, logged = encode_chunk(chunk), self._log.latest_data.get(key)
        if logged is None or (encoded == self._history.latest_data[key] and encoded != logged):
            self.chunks.append(chunk)

    def _add_text(self, chunk: TextChunk) -> None:
        logged = self._logged_texts.get(chunk.id)
        if logged is None:
            self.chunks.append(chunk)
        elif isinstance(chunk, c.TextDelta | c.ReasoningDelta):
            rest = chunk.delta[self._skip[chunk.id] :]
            self._skip[chunk.id] -= len(chunk.delta) - len(rest)
            if rest:
                self.chunks.append(msgspec.structs.replace(chunk, id=logged.id, delta=rest))
        elif isinstance(chunk, c.TextEnd | c.ReasoningEnd) and logged.is_open:
            self.chunks.append(msgspec.structs.replace(chunk, id=logged.id))

    def _add_call(self, chunk: CallChunk) -> None:
        call = self._read.call_of(chunk)
        logged = self._log.calls.get(call.id)
        logged_rank, rank = logged.rank if logged is not None else -1, rank_of(call, chunk)
        if isinstance(chunk, c.ToolInputStart):
            return
        if isinstance(chunk, c.ToolInputDelta):
            # Arguments of which the log has a part begin again, as in the encoder.
            if rank > logged_rank or (rank == logged_rank and logged is not None and logged.text != call.text):
                self.chunks += [c.ToolInputStart(tool_call_id=call.id, tool_name=call.name), chunk]
        elif rank > logged_rank or (isinstance(chunk, c.ToolApprovalRequest) and self._lost_verdict(call.id)):
            self.chunks.append(chunk)

    def _lost_verdict(self, call: str) -> bool:
        """Return True if the log has a verdict that the session never got. The call is asked about again."""
        return self._log.calls[call].rank == DECIDED and self._history.calls[call].rank == ASKED


def _agree(stream: list[Chunk], history: list[Chunk]) -> bool:
    """Return True if clients make the same message of both, and every client accepts the stream."""
    in_step = False
    for chunk in stream:
        if isinstance(chunk, c.StartStep | c.FinishStep):
            if in_step == isinstance(chunk, c.StartStep):
                return False
            in_step = not in_step
    try:
        return not in_step and encode_chunk(fold(stream)) == encode_chunk(fold(history))
    except BrokenStream:
        return False


def _closing_chunks(log: StreamSummary, history: list[Chunk], explain: Explain) -> list[Chunk]:
    """Return chunks that close everything open in the log, and the error that ends it."""
    tail: list[Chunk] = [
        c.TextEnd(id=text.id) if text.kind == "text" else c.ReasoningEnd(id=text.id)
        for text in log.texts.values()
        if text.is_open
    ]
    summary = StreamSummary(history)
    unknown = [call.id for call in log.calls.values() if call.id not in summary.calls and call.rank < SETTLED]
    tail += [c.ToolOutputError(tool_call_id=call, error_text=UNFINISHED) for call in unknown]
    for chunk in history:
        if isinstance(chunk, c.ToolApprovalRequest | c.ToolApprovalResponse | OutputChunk):
            logged = log.calls.get(summary.call_of(chunk).id)
            if logged is not None and rank_of(logged, chunk) > logged.rank:
                tail.append(chunk)
    if log.in_step:
        tail.append(c.FinishStep())
    return [*tail, *last_metadata(history), c.Error(error_text=explain(Failure(SERVER_STOPPED, "")))]


def last_metadata(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return the metadata of a message's end, if it has one, as a chunk of its own."""
    ends = [chunk.message_metadata for chunk in chunks if isinstance(chunk, c.MessageMetadata | c.Finish)]
    return [c.MessageMetadata(message_metadata=ends[-1])] if ends else []
