"""ADK events in, chunks out: the one mapping that streams, replays and history share.

A message is a list of steps. **A step begins** when model content arrives and none is open, or when a response was
seen in the open one, no call of it is unanswered and no text goes on. Responses, questions and user events never begin
a step: so a continuation settles its calls before its first `start-step`, which is the order clients need not to loop.

**Text is said once.** Partial events are spoken as they come; the complete event that follows is their copy and only
closes the part (what it has beyond them is added). Speakers are told apart by branch, so parallel agents do not mix.
What is said aloud (`transcripts.py`) is apart from what is written. An answer or a question in mid-text closes nothing.

**A call** goes through the phases of `calls.py`.

Whatever was opened is closed before an `error`, an `abort` or a `finish` leaves.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adkwire.wire import chunks as c
from adkwire.wire.calls import ASK, Call, Calls
from adkwire.wire.chunks import Chunk, FinishReason
from adkwire.wire.failures import Explain, Failure, explain_briefly
from adkwire.wire.parts import (
    FINISH_REASONS,
    MessageFacts,
    as_text,
    enum_name,
    file,
    heard,
    kind_of,
    link,
    media,
    shown_at,
    sound,
    sources,
    stamp_of,
    stamped,
)
from adkwire.wire.speakers import Said, Speaker, Unsaved, beyond, parts_of, without_arguments
from adkwire.wire.transcripts import Transcripts

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.genai import types

ABORTED = "INVOCATION_ABORTED"
OWN_STATE = "adkwire:"
"""Session state keys with this prefix are ours and are not shown."""

_EMPTY_ANSWER = "MODEL_RETURNED_NO_CONTENT"


class Encoder:
    """Turns the events of one assistant message into chunks. Feed it in order; it keeps no event."""

    def __init__(self, message_id: str, *, explain: Explain = explain_briefly) -> None:
        self.message_id = message_id
        self._explain = explain
        self._speakers: dict[str | None, Speaker] = {}
        self._calls = Calls(self._step)
        self._transcripts = Transcripts(self._open_transcript)
        self._now = 0.0
        self._in_step = False
        self._parts = 0
        self._sources: set[str] = set()
        self._facts = MessageFacts()
        self._finish: FinishReason = "stop"
        self._failure: Failure | None = None
        self._aborted = False
        self._interrupted: float | None = None

    def start(self) -> Chunk:
        """The chunk every response begins with."""
        return c.Start(message_id=self.message_id)

    @property
    def failure(self) -> Failure | None:
        """The error the events told of, if they did."""
        return self._failure

    @property
    def aborted(self) -> bool:
        """Whether the events told of a stop."""
        return self._aborted

    def open_calls(self) -> list[tuple[str, str]]:
        """Ids and names of ADK's calls that are neither settled nor waiting for someone."""
        return [(call.id, call.name) for call in self._calls.running() if not call.provider]

    def unsettled_calls(self) -> list[tuple[str, str]]:
        """Ids and names of all of ADK's calls without a result, also those that wait for someone."""
        return [(call.id, call.name) for call in self._calls.unsettled() if not call.provider]

    def waiting(self) -> list[Call]:
        """The calls that a person or a browser has to act on before they can go on."""
        return self._calls.waiting()

    def unsaved(self) -> list[Unsaved]:
        """What was shown since the last complete event of each speaker."""
        written = [
            Unsaved(speaker.author, branch, parts_of(speaker), speaker.began)
            for branch, speaker in self._speakers.items()
            if speaker.said or speaker.calls
        ]
        return written + [
            Unsaved(author, branch, [("text", text)], at, speech=True)
            for author, branch, text, at in self._transcripts.unsaved()
        ]

    @property
    def is_held(self) -> bool:
        """Whether nothing can come before somebody acts on a call: a response that has to end may end here."""
        writing = any(speaker.kind for speaker in self._speakers.values())
        return self._calls.is_held and not writing and not self._transcripts.is_open

    def interlude(self) -> list[Chunk]:
        """How a response ends where the message goes on in another one. This encoder goes on as if it had not."""
        end: list[Chunk] = [c.FinishStep()] if self._in_step else []
        return [*end, c.Finish(finish_reason="tool-calls", message_metadata=self._facts.as_metadata())]

    def release(self, call_id: str) -> list[Chunk]:
        """Let the browser have a call that was held for it."""
        out: list[Chunk] = []
        self._calls.offer(call_id, out)
        return out

    def feed(self, event: "Event") -> list[Chunk]:
        """The chunks this event adds."""
        out: list[Chunk] = []
        content = event.content
        if event.partial:
            self._now = event.timestamp
            if content is not None:
                self._partial(event, content.parts or (), out)
            else:
                self._speech(event, out)
            return out
        if event.custom_metadata and stamp_of(event).get("aside") is True:
            return out
        self._now = shown_at(event) if event.custom_metadata else event.timestamp
        parts = content.parts if content is not None else self._speech(event, out)
        if parts:
            self._complete(event, parts, out)
        elif event.output is not None and event.author != "user":
            self._workflow_output(event, out)
        self._facts.learn(event)
        self._learn_end(event)
        self._sources_of(event, out)
        self._actions(event, out)
        return out

    def _speech(self, event: "Event", out: list[Chunk]) -> None:
        """What was said aloud, by the model or to it."""
        if event.output_transcription is not None:
            self._transcribed(event, event.output_transcription, out)
        elif event.input_transcription is not None:
            out += heard(event)

    def pause(self) -> list[Chunk]:
        """Close what is open, and let the browser have the calls that were held for it. The message may go on."""
        out: list[Chunk] = []
        self._close_parts(out)
        self._calls.release(out)
        self._close_step(out)
        return out

    def end(self) -> list[Chunk]:
        """Close everything and finish the response."""
        out: list[Chunk] = []
        self._close_parts(out)
        if self._failure is not None or self._aborted:
            self._calls.seal_held(out)
        self._calls.release(out)
        self._calls.seal(out)
        out += self.pause()
        metadata = self._facts.as_metadata()
        if self._failure is not None and not self._aborted:
            if metadata:
                out.append(c.MessageMetadata(message_metadata=metadata))
            out.append(c.Error(error_text=self._explain(self._failure)))
            return out
        waiting = self._calls.step_waits
        if self._calls.step_has_calls and not waiting:
            # The last step holds settled calls only: without a written step behind it clients send again, for ever.
            out += [c.StartStep(), c.FinishStep()]
            self._calls.begin_step()
        if self._aborted:
            out.append(c.Abort())
        out.append(c.Finish(finish_reason=self._finish_reason(waiting), message_metadata=metadata))
        return out

    def _finish_reason(self, waiting: bool) -> FinishReason:
        if self._aborted:
            return "interrupted"
        if waiting:
            return "tool-calls"
        return self._finish if self._interrupted is None else "interrupted"

    def _transcribed(self, event: "Event", said: "types.Transcription", out: list[Chunk]) -> None:
        finished = said.finished is True
        self._transcripts.end_others(event, out)
        began = self._transcripts.take(event, said.text or "", finished=finished, out=out)
        if finished:
            self._recover(event, began)

    def _open_transcript(self, out: list[Chunk]) -> str:
        if not any(self._writes(speaker) for speaker in self._speakers.values()):
            self._step(out)
        self._parts += 1
        part = f"text-{self._parts}"
        out.append(c.TextStart(id=part))
        return part

    def _writes(self, speaker: Speaker) -> bool:
        """Whether a text of this speaker goes on, or went on when this was shown, which no step may cut in two."""
        return self._in_step and (speaker.kind != "" or speaker.until > self._now)

    def _partial(self, event: "Event", parts: "Sequence[types.Part]", out: list[Chunk]) -> None:
        for part in parts:
            text = part.text
            if text:
                self._partial_text(event, "reasoning" if part.thought else "text", text, out)
            elif part.function_call is not None:
                if self._calls.stream(part.function_call, out):
                    # An open text stays open: the complete event has the calls behind all text.
                    self._keeping(event).calls.append(without_arguments(part, part.function_call))
            elif part.function_response is not None:
                self._calls.preview(part.function_response, out)
            elif part.tool_call is not None or part.tool_response is not None:
                self._provided(event, part, out)
                self._keeping(event).said.append(Said("tool", [], part))
            else:
                self._partial_media(event, part, out)

    def _partial_text(self, event: "Event", kind: str, text: str, out: list[Chunk]) -> None:
        speaker = self._speakers.get(event.branch) or self._speaker(event)
        if speaker.kind == kind:
            speaker.said[-1].texts.append(text)
            out.append(c.TextDelta(speaker.part, text) if kind == "text" else c.ReasoningDelta(speaker.part, text))
            return
        self._transcripts.end_others(event, out)
        self._keeping(event).said.append(Said(kind, [text]))
        self._say(speaker, kind, text, out)

    def _partial_media(self, event: "Event", part: "types.Part", out: list[Chunk]) -> None:
        kind = kind_of(part)
        if kind == "sound":
            self._speaker(event).sounded = True
            out.append(sound(part))
        elif kind is not None:
            speaker = self._keeping(event)
            self._show(speaker, part, out)
            speaker.said.append(Said(kind, [], part))

    def _complete(self, event: "Event", parts: "list[types.Part]", out: list[Chunk]) -> None:
        responses = [part.function_response for part in parts if part.function_response is not None]
        if len(responses) < len(parts) and event.author != "user":
            self._content(event, parts, out)
        if responses and event.author == "user" and stamp_of(event).get("held") is not True:
            # Somebody answers only what has paused: what comes next is a step of its own, as it was when streamed.
            self._close_step(out)
        for response in responses:
            self._response(event, response, out)

    def _content(self, event: "Event", parts: "list[types.Part]", out: list[Chunk]) -> None:
        if stamp_of(event).get("speech") is True:
            self._transcripts.take(event, "".join([part.text or "" for part in parts]), finished=True, out=out)
            return
        began = 0.0
        if not all(_is_question(part) for part in parts):
            self._transcripts.end_others(event, out)
            speaker = self._speaker(event)
            began = speaker.began if speaker.said else self._now
            if speaker.kind and all(part.inline_data is not None for part in parts):
                self._beside(speaker, parts, out)
            else:
                self._whole(event, speaker, parts, out)
        self._recover(event, began)
        self._call(event, parts, out)

    def _beside(self, speaker: Speaker, parts: "list[types.Part]", out: list[Chunk]) -> None:
        """A live model's sound and pictures come while it writes; its text goes on behind them."""
        for part in parts:
            if kind_of(part) == "media":
                out += media(part)
            elif not speaker.sounded:
                out.append(sound(part))

    def _whole(self, event: "Event", speaker: Speaker, parts: "list[types.Part]", out: list[Chunk]) -> None:
        streamed = {said.kind for said in speaker.said}
        for kind in ("reasoning", "text"):
            if kind in streamed and (rest := beyond(speaker, kind, parts)):
                self._say(speaker, kind, rest, out)
        for part in parts:
            kind = kind_of(part)
            if part.tool_call is not None or part.tool_response is not None:
                self._provided(event, part, out)
            elif kind is None or kind in streamed:
                continue
            elif kind == "sound":
                if not speaker.sounded:
                    out.append(sound(part))
            elif kind == "media":
                self._show(speaker, part, out)
            else:
                self._say(speaker, kind, part.text or "", out)
        speaker.sounded = False
        speaker.said.clear()
        speaker.calls.clear()
        self._close(speaker, out)
        speaker.until = max(speaker.until, event.timestamp)

    def _call(self, event: "Event", parts: "list[types.Part]", out: list[Chunk]) -> None:
        for part in parts:
            if (fc := part.function_call) is None:
                continue
            if fc.name == ASK:
                self._calls.ask(fc, stamped(event, "asks", fc.id), out)
            else:
                browser = fc.id in (event.long_running_tool_ids or ())
                self._calls.call(fc, browser=browser, cut_off=event.interrupted is True, out=out)

    def _keeping(self, event: "Event") -> Speaker:
        """The speaker of something that ADK has not stored yet."""
        speaker = self._speaker(event)
        if not (speaker.said or speaker.calls):
            speaker.began = event.timestamp
        return speaker

    def _speaker(self, event: "Event") -> Speaker:
        speaker = self._speakers.get(event.branch)
        if speaker is None:
            speaker = self._speakers[event.branch] = Speaker(event.author)
        speaker.author = event.author
        return speaker

    def _say(self, speaker: Speaker, kind: str, text: str, out: list[Chunk]) -> None:
        if speaker.kind != kind:
            self._close(speaker, out)
            self._step(out)
            self._parts += 1
            speaker.kind, speaker.part = kind, f"{kind}-{self._parts}"
            out.append(c.TextStart(id=speaker.part) if kind == "text" else c.ReasoningStart(id=speaker.part))
        if kind == "text":
            out.append(c.TextDelta(id=speaker.part, delta=text))
        else:
            out.append(c.ReasoningDelta(id=speaker.part, delta=text))

    def _show(self, speaker: Speaker, part: "types.Part", out: list[Chunk]) -> None:
        self._close(speaker, out)
        if not self._writes(speaker):
            self._step(out)
        out += media(part)

    def _close(self, speaker: Speaker, out: list[Chunk]) -> None:
        if speaker.kind:
            out.append(c.TextEnd(id=speaker.part) if speaker.kind == "text" else c.ReasoningEnd(id=speaker.part))
            speaker.kind = ""

    def _close_parts(self, out: list[Chunk]) -> None:
        for speaker in self._speakers.values():
            self._close(speaker, out)
        self._transcripts.close(out)

    def _close_step(self, out: list[Chunk]) -> None:
        self._close_parts(out)
        if self._in_step:
            out.append(c.FinishStep())
            self._in_step = False

    def _step(self, out: list[Chunk]) -> None:
        """Make sure that model content has a step of its own to go to."""
        if self._in_step:
            if not self._calls.step_is_over or self._transcripts.goes_on(self._now):
                return
            out += self.pause()
        out.append(c.StartStep())
        self._in_step = True
        self._calls.begin_step()

    def _response(self, event: "Event", fr: "types.FunctionResponse", out: list[Chunk]) -> None:
        if fr.name == ASK:
            if event.author == "user":  # ADK itself answers its question when a run is aborted: that is no verdict
                self._calls.decide(fr, stamped(event, "verdicts", fr.id), out)
            return
        if fr.id in event.actions.requested_tool_confirmations:
            self._calls.leave(fr.id)
            return
        bare = stamped(event, "outputs", fr.id).get("bare") is True
        if not self._calls.respond(fr, out, bare=bare):
            return
        for part in fr.parts or ():
            if part.inline_data is not None:
                out += file(part.inline_data.mime_type, part.inline_data.data)
            elif part.file_data is not None:
                out += link(part.file_data.mime_type, part.file_data.file_uri)

    def _provided(self, event: "Event", part: "types.Part", out: list[Chunk]) -> None:
        self._close(self._speaker(event), out)
        self._calls.provided(part, out)

    def _workflow_output(self, event: "Event", out: list[Chunk]) -> None:
        """A workflow of plain functions says its result in `output`; only the one of the whole graph is the answer."""
        if not any("/" not in path for path in event.node_info.output_for or ()):
            return
        speaker = self._speaker(event)
        self._say(speaker, "text", event.output if isinstance(event.output, str) else as_text(event.output), out)
        self._close(speaker, out)
        self._recover(event, self._now)

    def _recover(self, event: "Event", began: float) -> None:
        """A node that failed and was tried again has done it; what an interrupted one leaves behind is no recovery.
        Nor is what it had begun to say before it was interrupted."""
        if not event.interrupted:
            self._failure, self._aborted = None, False
            if self._interrupted is not None and began >= self._interrupted:
                self._interrupted = None

    def _learn_end(self, event: "Event") -> None:
        if event.finish_reason is not None:
            self._finish = FINISH_REASONS.get(enum_name(event.finish_reason), "other")
        if event.interrupted:
            self._interrupted = max(self._interrupted or 0.0, event.timestamp)
        if event.error_code == ABORTED:
            self._aborted = True
        elif event.error_code and event.error_code != _EMPTY_ANSWER and not _is_cut_short(event):
            self._failure = Failure(event.error_code, event.error_message or "")

    def _sources_of(self, event: "Event", out: list[Chunk]) -> None:
        if event.grounding_metadata is None and event.citation_metadata is None:
            return
        for source in sources(event):
            if source.key not in self._sources:
                self._sources.add(source.key)
                out.append(source.chunk(f"source-{len(self._sources)}"))

    def _actions(self, event: "Event", out: list[Chunk]) -> None:
        actions = event.actions
        if actions.transfer_to_agent:
            out.append(c.Data(type="data-transfer", data={"from": event.author, "to": actions.transfer_to_agent}))
        if actions.state_delta:
            shown = {k: v for k, v in actions.state_delta.items() if not k.startswith(("temp:", OWN_STATE))}
            if shown:
                out.append(c.Data(type="data-state", data={"delta": shown}))
        if actions.artifact_delta:
            out.append(c.Data(type="data-artifact", data={"versions": dict(actions.artifact_delta)}))


def _is_question(part: "types.Part") -> bool:
    return part.function_call is not None and part.function_call.name == ASK


def _is_cut_short(event: "Event") -> bool:
    """Whether the error is only the reason why the model ended early; what it said until then is an answer."""
    said = event.content is not None and bool(event.content.parts)
    return said and event.error_code == enum_name(event.finish_reason)
