"""The turns of a session: which events belong to which turn, and the messages they make.

The session is the only truth. Every event of a run carries a stamp (`custom_metadata["adkwire"]`) that names the
assistant message it belongs to and the user message that was answered, so no table of our own is needed. Events
without a stamp, from other programs that use the same session, are grouped by invocation.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from google.adk.events.event import Event
from google.genai import types
from msgspec import UNSET

from adkwire.adk.stamps import turn_stamp, with_inner_call
from adkwire.wire.chunks import Chunk
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.encode.event_parts import data_url, shown_at, stamp_of
from adkwire.wire.failures import SERVER_STOPPED, Explain, explain_briefly
from adkwire.wire.folding import fold
from adkwire.wire.media import Media
from adkwire.wire.messages import FilePart, Part, TextPart, UIMessage


@dataclass
class Turn:
    """One user message and the events that answered it."""

    message_id: str
    user_id: str
    invocation_id: str
    user_event: Event | None = None
    """The user's message: typed text and files, and the transcript of what was spoken."""
    events: list[Event] = field(default_factory=list[Event])
    spoken: bool = False
    """True for a turn of a voice conversation: it has a user message, also when no speech was understood."""

    @property
    def stamp(self) -> dict[str, Any]:
        """The stamp of every event of this turn."""
        return turn_stamp(self.message_id, self.user_id)

    @property
    def never_reached_agent(self) -> bool:
        """True when the server stopped before the agent got the message."""
        return bool(self.events) and all(
            event.error_code == SERVER_STOPPED and event.content is None for event in self.events
        )

    def encoder(self, explain: Explain = explain_briefly) -> tuple[Encoder, list[Chunk]]:
        """Return an encoder that was fed the events of the turn, and the chunks it made."""
        encoder = Encoder(self.message_id, explain=explain)
        chunks: list[Chunk] = [encoder.start()]
        for event in self.events:
            chunks += encoder.feed(event)
        return encoder, chunks

    def messages(self, since: "LaterEvents | None" = None, explain: Explain = explain_briefly) -> list[UIMessage]:
        """Return the user's message and the answer as `useChat` holds them, with the `since` events of the gate."""
        encoder, chunks = self.encoder(explain)
        sealed, answered = since(self, encoder) if since is not None else ([], [])
        for event in sealed:
            chunks += encoder.feed(event)
        chunks += encoder.end()
        # Behind the end: an answer that waits for its siblings must not look like a call that did not finish.
        for event in answered:
            chunks += encoder.feed(event)
        return [*self.user_message(), fold(chunks)]

    def user_message(self) -> list[UIMessage]:
        """Return the user's message, if the turn began with one."""
        if self.user_event is None and not self.spoken:
            return []
        parts = user_parts(text_and_files(self.user_event)) if self.user_event is not None else []
        return [UIMessage(id=self.user_id, role="user", parts=parts or ([TextPart(text="")] if self.spoken else []))]


LaterEvents: TypeAlias = Callable[[Turn, Encoder], tuple[list[Event], list[Event]]]
"""Returns events about calls of a turn that the session does not have: calls that are over, and answers."""


def without_rewound(events: Iterable[Event]) -> list[Event]:
    """Return the events without those that a rewind has removed."""
    kept: list[Event] = []
    for event in events:
        back_to = event.actions.rewind_before_invocation_id
        if back_to is None:
            kept.append(event)
            continue
        first = next((i for i, old in enumerate(kept) if old.invocation_id == back_to), len(kept))
        del kept[first:]
    return kept


def turns(events: Iterable[Event]) -> list[Turn]:
    """Return the turns of a session, in their order."""
    found: dict[str, Turn] = {}
    transcripts: dict[str, list[Event]] = {}
    for event in map(with_inner_call, without_rewound(events)):
        stamp = stamp_of(event)
        if stamp.get("aside") is True:
            continue
        message_id = stamp.get("message") or f"answer-{event.invocation_id}"
        turn = found.get(message_id)
        if turn is None:
            if not stamp and not _shows(event):
                continue
            turn = found[message_id] = Turn(message_id, stamp.get("user") or event.id, event.invocation_id)
        turn.spoken = turn.spoken or stamp.get("spoken") is True or event.input_transcription is not None
        if event.input_transcription is not None:
            transcripts.setdefault(message_id, []).append(event)
        elif turn.user_event is None and _is_user_message(event):
            turn.user_event = event
        else:
            turn.events.append(event)
    for message_id, turn in found.items():
        turn.events.sort(key=shown_at)
        turn.user_event = _with_speech(turn.user_event, sorted(transcripts.get(message_id, ()), key=shown_at))
    return list(found.values())


def _with_speech(typed: Event | None, transcripts: list[Event]) -> Event | None:
    """Return the user's event of a turn with all its transcripts as one text behind the typed parts."""
    spoken = " ".join(text for event in transcripts if (text := _finished_text(event)))
    if not spoken:
        return typed
    parts = (typed.content.parts if typed is not None and typed.content is not None else None) or []
    content = types.Content(role="user", parts=[*parts, types.Part(text=spoken)])
    return (typed or transcripts[0]).model_copy(update={"content": content, "input_transcription": None})


def _finished_text(event: Event) -> str:
    transcript = event.input_transcription
    return (transcript.text or "").strip() if transcript is not None and transcript.finished else ""


def _shows(event: Event) -> bool:
    transcript = event.input_transcription or event.output_transcription
    return any(each is not None for each in (event.content, event.error_code, event.output, transcript))


def _is_user_message(event: Event) -> bool:
    parts = event.content.parts if event.author == "user" and event.content else None
    return bool(parts) and all(part.function_response is None for part in parts or ())


def user_parts(content: Iterable[str | Media]) -> list[Part]:
    """Return a user's text and files as parts of a UIMessage."""
    return [TextPart(text=part) if isinstance(part, str) else _file_part(part) for part in content]


def _file_part(media: Media) -> FilePart:
    url = data_url(media.media_type, media.data)
    return FilePart(media_type=media.media_type, url=url, filename=media.filename or UNSET)


def text_and_files(event: Event) -> Iterator[str | Media]:
    """Yield the text and files of an event of the user."""
    if event.input_transcription is not None and event.input_transcription.text:
        yield event.input_transcription.text
    for part in (event.content.parts if event.content else None) or ():
        if part.text:
            yield part.text
        elif part.inline_data is not None:
            blob = part.inline_data
            yield Media(blob.mime_type or "application/octet-stream", blob.data or b"", blob.display_name)
