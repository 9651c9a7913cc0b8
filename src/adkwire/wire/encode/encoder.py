"""The encoder: ADK events in, chunks out. Streams, live conversations, recovery and history all use this one mapping.

A message is a list of steps. **A new step begins** when the model sends content and no step is open, or when the open
step has a response, all of its calls are settled and no text is being written or spoken. Responses, approval requests
and events of the user never begin a step. So a continuation settles its calls before its first `start-step`; in any
other order the AI SDK's client would send the same answers again and again.

**Text is written once** (`written_text.py`). Partial events are written as they come. The complete event that follows
repeats their text: it closes the part, and only what was not streamed is added. The transcripts of what a live model
says are apart from the text that it writes (`spoken_text.py`). A response or an approval request in the middle of a
text does not close the text.

**A call** goes through the phases of `tool_calls.py`.

**Whatever was opened is closed** before an `error`, an `abort` or a `finish`.
"""

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

from adkwire.wire import chunks as c
from adkwire.wire.chunks import Chunk, json_text
from adkwire.wire.encode.event_parts import (
    action_chunks,
    audio_chunk,
    cited_sources,
    kind_of,
    media_chunks,
    response_media_chunks,
    shown_at,
    stamp_about,
    stamp_of,
    user_transcript_chunks,
)
from adkwire.wire.encode.message_facts import MessageFacts
from adkwire.wire.encode.outcome import Outcome
from adkwire.wire.encode.spoken_text import SpokenText
from adkwire.wire.encode.tool_calls import REQUEST_CONFIRMATION, ToolCall, ToolCalls
from adkwire.wire.encode.unsaved import Unsaved
from adkwire.wire.encode.written_text import Branch, WrittenText
from adkwire.wire.failures import Explain, Failure, explain_briefly

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.genai import types


class Encoder:
    """The encoder of one assistant message. Feed it the events of the message in their order; it keeps no event."""

    def __init__(self, message_id: str, *, explain: Explain = explain_briefly) -> None:
        self.message_id = message_id
        self._explain = explain
        self._part_numbers = count(1)
        self._written = WrittenText(self._open_step, self._part_numbers)
        self._spoken = SpokenText(self._open_spoken_part)
        self._calls = ToolCalls(self._open_step)
        self._now = 0.0
        """When the event at hand was first sent to readers, in seconds since 1970."""
        self._in_step = False
        self._sources: set[str] = set()
        self._facts = MessageFacts()
        self._outcome = Outcome()

    def start(self) -> Chunk:
        """Return the chunk that begins every response."""
        return c.Start(message_id=self.message_id)

    @property
    def failure(self) -> Failure | None:
        """The error with which the message ends, if it fails."""
        return self._outcome.failure

    @property
    def aborted(self) -> bool:
        """True when the run was stopped."""
        return self._outcome.aborted

    def running_calls(self) -> list[tuple[str, str]]:
        """Return ids and names of ADK's calls that are neither settled nor pending."""
        return [(call.id, call.name) for call in self._calls.running() if not call.provider]

    def unsettled_calls(self) -> list[tuple[str, str]]:
        """Return ids and names of ADK's calls without a result, running or pending."""
        return [(call.id, call.name) for call in self._calls.unsettled() if not call.provider]

    def pending_calls(self) -> list[ToolCall]:
        """Return the calls that wait for a person or a browser."""
        return self._calls.pending()

    def unsaved(self) -> list[Unsaved]:
        """Return the content that was streamed and that ADK has not stored yet."""
        return self._written.unsaved() + self._spoken.unsaved()

    @property
    def is_waiting(self) -> bool:
        """True while no more content can come until somebody answers a call, so that a response may end here."""
        return self._calls.is_waiting and not self._written.is_open and not self._spoken.is_open

    def break_chunks(self) -> list[Chunk]:
        """Return the chunks that end a response here while the message goes on. They do not change the encoder."""
        end: list[Chunk] = [c.FinishStep()] if self._in_step else []
        return [*end, c.Finish(finish_reason="tool-calls", message_metadata=self._facts.as_metadata())]

    def offer(self, call_id: str) -> list[Chunk]:
        """Return the chunk that lets the browser execute a call that was withheld from it."""
        out: list[Chunk] = []
        self._calls.offer(call_id, out)
        return out

    def feed(self, event: "Event") -> list[Chunk]:
        """Return the chunks that an event adds to the message."""
        out: list[Chunk] = []
        content = event.content
        if event.partial:
            self._now = event.timestamp
            if content is not None:
                self._partial(event, content.parts or (), out)
            else:
                self._transcription(event, out)
            return out
        if event.custom_metadata and stamp_of(event).get("aside") is True:
            return out
        self._now = shown_at(event) if event.custom_metadata else event.timestamp
        if content is None:
            self._transcription(event, out)
        if content is not None and content.parts:
            self._complete(event, content.parts, out)
        elif event.output is not None and event.author != "user":
            self._workflow_output(event, out)
        self._facts.learn(event)
        self._outcome.learn(event)
        self._cite(event, out)
        out += action_chunks(event)
        return out

    def pause(self) -> list[Chunk]:
        """Close all open parts and the step, and offer the withheld calls to the browser. The message may go on."""
        out: list[Chunk] = []
        self._close_parts(out)
        self._calls.offer_all(out)
        self._close_step(out)
        return out

    def end(self) -> list[Chunk]:
        """Close everything and finish the response."""
        out: list[Chunk] = []
        outcome = self._outcome
        self._close_parts(out)
        if outcome.failure is not None or outcome.aborted:
            self._calls.seal_withheld(out)
        self._calls.offer_all(out)
        self._calls.seal(out)
        out += self.pause()
        waiting = self._calls.step_waits
        metadata = self._facts.as_metadata() | outcome.as_metadata(self._explain, waiting=waiting)
        if outcome.failure is not None and not outcome.aborted:
            out.append(c.MessageMetadata(message_metadata=metadata))
            out.append(c.Error(error_text=self._explain(outcome.failure)))
            return out
        if self._calls.step_has_calls and not waiting:
            # All calls of the last step are settled. Without another step clients would send their answers again.
            out += [c.StartStep(), c.FinishStep()]
            self._calls.begin_step()
        if outcome.aborted:
            out.append(c.Abort())
        out.append(c.Finish(finish_reason=outcome.finish_reason(waiting=waiting), message_metadata=metadata))
        return out

    def _transcription(self, event: "Event", out: list[Chunk]) -> None:
        """Encode a transcript of the model's or the user's speech."""
        if (transcript := event.output_transcription) is not None:
            finished = transcript.finished is True
            self._spoken.end_others(event, out)
            began = self._spoken.add(event, transcript.text or "", finished=finished, out=out)
            if finished:
                self._outcome.recover(event, began)
        elif event.input_transcription is not None:
            out += user_transcript_chunks(event)

    def _open_spoken_part(self, out: list[Chunk]) -> str:
        self._open_step(out, within=self._written.goes_on(self._now))
        part = f"text-{next(self._part_numbers)}"
        out.append(c.TextStart(id=part))
        return part

    def _partial(self, event: "Event", parts: "Sequence[types.Part]", out: list[Chunk]) -> None:
        """Encode the parts of a partial event."""
        for part in parts:
            if text := part.text:
                kind = "reasoning" if part.thought else "text"
                if not self._written.add_delta(event, kind, text, out):
                    self._spoken.end_others(event, out)
                    self._written.stream_text(event, kind, text, out)
            elif part.function_call is not None:
                if self._calls.stream(part.function_call, out):
                    # An open text stays open: the complete event has the calls after all text.
                    self._written.keep_call(event, part, part.function_call)
            elif part.function_response is not None:
                self._calls.preview(part.function_response, out)
            elif part.tool_call is not None or part.tool_response is not None:
                self._provider_tool(event, part, out)
                self._written.keep_tool_part(event, part)
            elif (kind := kind_of(part)) == "audio":
                self._written.branch_of(event).has_audio = True
                out.append(audio_chunk(part))
            elif kind is not None:
                self._written.stream_media(event, kind, part, self._now, out)

    def _complete(self, event: "Event", parts: "list[types.Part]", out: list[Chunk]) -> None:
        """Encode the parts of a complete event."""
        responses = [part.function_response for part in parts if part.function_response is not None]
        if len(responses) < len(parts) and event.author != "user":
            self._content(event, parts, out)
        if responses and event.author == "user" and stamp_of(event).get("held") is not True:
            # Only a paused run is answered by the user, and the pause has ended the step.
            self._close_step(out)
        for response in responses:
            self._response(event, response, out)

    def _content(self, event: "Event", parts: "list[types.Part]", out: list[Chunk]) -> None:
        if stamp_of(event).get("speech") is True:
            self._spoken.add(event, "".join([part.text or "" for part in parts]), finished=True, out=out)
            return
        began = 0.0
        if not all(_is_approval_request(part) for part in parts):
            self._spoken.end_others(event, out)
            branch = self._written.branch_of(event)
            began = branch.began if branch.streamed else self._now
            if branch.kind and all(part.inline_data is not None for part in parts):
                self._media_beside_text(branch, parts, out)
            else:
                self._complete_content(event, branch, parts, out)
        self._outcome.recover(event, began)
        self._call(event, parts, out)

    def _media_beside_text(self, branch: Branch, parts: "list[types.Part]", out: list[Chunk]) -> None:
        """Encode audio and images that a live model sends while it writes; the open text goes on after them."""
        for part in parts:
            if kind_of(part) == "media":
                out += media_chunks(part)
            elif not branch.has_audio:
                out.append(audio_chunk(part))

    def _complete_content(self, event: "Event", branch: Branch, parts: "list[types.Part]", out: list[Chunk]) -> None:
        """Encode what the partial events before this complete event did not stream, and close the branch's part."""
        streamed = branch.streamed_kinds()
        for kind in ("reasoning", "text"):
            if kind in streamed and (rest := branch.missing_text(kind, parts)):
                self._written.write(branch, kind, rest, out)
        for part in parts:
            kind = kind_of(part)
            if part.tool_call is not None or part.tool_response is not None:
                self._provider_tool(event, part, out)
            elif kind is None or kind in streamed:
                continue
            elif kind == "audio":
                if not branch.has_audio:
                    out.append(audio_chunk(part))
            elif kind == "media":
                self._written.show(branch, part, self._now, out)
            else:
                self._written.write(branch, kind, part.text or "", out)
        self._written.complete(branch, event.timestamp, out)

    def _call(self, event: "Event", parts: "list[types.Part]", out: list[Chunk]) -> None:
        for part in parts:
            if (call := part.function_call) is None:
                continue
            if call.name == REQUEST_CONFIRMATION:
                self._calls.ask(call, stamp_about(event, "asks", call.id), out)
            else:
                browser = call.id in (event.long_running_tool_ids or ())
                self._calls.call(call, browser=browser, cut_off=event.interrupted is True, out=out)

    def _response(self, event: "Event", response: "types.FunctionResponse", out: list[Chunk]) -> None:
        if response.name == REQUEST_CONFIRMATION:
            if event.author == "user":  # ADK itself answers its request when a run is aborted: that is no verdict.
                self._calls.decide(response, stamp_about(event, "verdicts", response.id), out)
            return
        if response.id in event.actions.requested_tool_confirmations:
            self._calls.take_back(response.id)
            return
        bare = stamp_about(event, "outputs", response.id).get("bare") is True
        if self._calls.respond(response, out, bare=bare):
            out += response_media_chunks(response)

    def _provider_tool(self, event: "Event", part: "types.Part", out: list[Chunk]) -> None:
        self._written.close(self._written.branch_of(event), out)
        self._calls.add_provider_part(part, out)

    def _workflow_output(self, event: "Event", out: list[Chunk]) -> None:
        """Write the result of a workflow of plain functions. Only that of the whole graph is the answer."""
        if not any("/" not in path for path in event.node_info.output_for or ()):
            return
        branch = self._written.branch_of(event)
        text = event.output if isinstance(event.output, str) else json_text(event.output)
        self._written.write(branch, "text", text, out)
        self._written.close(branch, out)
        self._outcome.recover(event, self._now)

    def _cite(self, event: "Event", out: list[Chunk]) -> None:
        if event.grounding_metadata is None and event.citation_metadata is None:
            return
        for source in cited_sources(event):
            if source.key not in self._sources:
                self._sources.add(source.key)
                out.append(source.chunk(f"source-{len(self._sources)}"))

    def _open_step(self, out: list[Chunk], *, within: bool = False) -> None:
        """Begin a new step where one is due; `within` when the content belongs into the open step."""
        if self._in_step:
            if within or not self._calls.step_is_over or self._spoken.goes_on(self._now):
                return
            out += self.pause()
        out.append(c.StartStep())
        self._in_step = True
        self._calls.begin_step()

    def _close_step(self, out: list[Chunk]) -> None:
        self._close_parts(out)
        if self._in_step:
            out.append(c.FinishStep())
            self._in_step = False

    def _close_parts(self, out: list[Chunk]) -> None:
        self._written.close_all(out)
        self._spoken.close_all(out)


def _is_approval_request(part: "types.Part") -> bool:
    return part.function_call is not None and part.function_call.name == REQUEST_CONFIRMATION
