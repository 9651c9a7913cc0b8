"""History out of a session: which events are alive, which turn each belongs to, and the messages they make.

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

from adkwire.wire.chunks import Chunk
from adkwire.wire.encoder import Encoder
from adkwire.wire.failures import SERVER_STOPPED, Explain, explain_briefly
from adkwire.wire.folding import fold
from adkwire.wire.media import Media
from adkwire.wire.messages import FilePart, Part, TextPart, UIMessage
from adkwire.wire.parts import STAMP, data_url, shown_at, stamp_of


def mark_of(message: str, user: str) -> dict[str, Any]:
    """What the stamp of every event of a turn says."""
    return {"message": message, "user": user}


def marked(metadata: dict[str, Any] | None, mark: dict[str, Any]) -> dict[str, Any]:
    """An event's metadata with more in its stamp; what the stamp already says stays."""
    old = metadata or {}
    return {**old, STAMP: {**mark, **old.get(STAMP, {})}}


@dataclass
class Turn:
    """One user message and the events that answered it."""

    message_id: str
    user_id: str
    invocation_id: str
    asked: Event | None = None
    """What the user typed or, as far as it was understood, said."""
    events: list[Event] = field(default_factory=list[Event])
    spoken: bool = False
    """Whether it belongs to a conversation by voice: it has a user message, also when nothing was understood."""

    @property
    def mark(self) -> dict[str, Any]:
        """What makes an event part of this turn."""
        return mark_of(self.message_id, self.user_id)

    @property
    def is_unheard(self) -> bool:
        """Whether the server stopped before the agent got to know of it."""
        return bool(self.events) and all(
            event.error_code == SERVER_STOPPED and event.content is None for event in self.events
        )

    def encoder(self, explain: Explain = explain_briefly) -> tuple[Encoder, list[Chunk]]:
        """An encoder that has read the turn, and the chunks it made: the way back into a message."""
        encoder = Encoder(self.message_id, explain=explain)
        chunks: list[Chunk] = [encoder.start()]
        for event in self.events:
            chunks += encoder.feed(event)
        return encoder, chunks

    def messages(self, since: "Since | None" = None) -> list[UIMessage]:
        """The user's message and the answer, as `useChat` holds them, with what happened since it was stored."""
        encoder, chunks = self.encoder()
        sealed, answered = since(self, encoder) if since is not None else ([], [])
        for event in sealed:
            chunks += encoder.feed(event)
        chunks += encoder.end()
        # Behind the end: an answer that waits for its siblings must not look like a call that did not finish.
        for event in answered:
            chunks += encoder.feed(event)
        return [*self.question(), fold(chunks)]

    def question(self) -> list[UIMessage]:
        """The user's message, if the turn began with one."""
        if self.asked is None and not self.spoken:
            return []
        parts = user_parts(said_in(self.asked)) if self.asked is not None else []
        return [UIMessage(id=self.user_id, role="user", parts=parts or ([TextPart(text="")] if self.spoken else []))]


Since: TypeAlias = Callable[[Turn, Encoder], tuple[list[Event], list[Event]]]
"""What happened to a turn's calls and is not in the session: those that are over, and those that have an answer."""


def alive(events: Iterable[Event]) -> list[Event]:
    """The events that no rewind has cut away."""
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
    """The turns of a session, in their order."""
    found: dict[str, Turn] = {}
    heard: dict[str, list[Event]] = {}
    for event in map(shown, alive(events)):
        mark = stamp_of(event)
        if mark.get("aside") is True:
            continue
        message_id = mark.get("message") or f"answer-{event.invocation_id}"
        turn = found.get(message_id)
        if turn is None:
            if not mark and not _shows(event):
                continue
            turn = found[message_id] = Turn(message_id, mark.get("user") or event.id, event.invocation_id)
        turn.spoken = turn.spoken or mark.get("spoken") is True or event.input_transcription is not None
        if event.input_transcription is not None:
            heard.setdefault(message_id, []).append(event)
        elif turn.asked is None and _is_question(event):
            turn.asked = event
        else:
            turn.events.append(event)
    for message_id, turn in found.items():
        turn.events.sort(key=shown_at)
        turn.asked = _with_speech(turn.asked, sorted(heard.get(message_id, ()), key=shown_at))
    return list(found.values())


def shown(event: Event) -> Event:
    """An event as it was shown: calls of an agent inside a tool are kept beside what the model reads."""
    inner: dict[str, Any] | None = stamp_of(event).get("inner")
    if inner is None:
        return event
    content = types.Content.model_validate(inner["content"])
    calls = [part.function_call.id for part in content.parts or () if part.function_call is not None]
    return event.model_copy(update={"content": content, "long_running_tool_ids": calls if inner["browser"] else []})


def _with_speech(asked: Event | None, heard: list[Event]) -> Event | None:
    """The question of a turn with what was said aloud in it, as one text behind what was typed."""
    said = " ".join(text for event in heard if (text := _understood(event)))
    if not said:
        return asked
    typed = (asked.content.parts if asked is not None and asked.content is not None else None) or []
    content = types.Content(role="user", parts=[*typed, types.Part(text=said)])
    return (asked or heard[0]).model_copy(update={"content": content, "input_transcription": None})


def _understood(event: Event) -> str:
    said = event.input_transcription
    return (said.text or "").strip() if said is not None and said.finished else ""


def _shows(event: Event) -> bool:
    said = event.input_transcription or event.output_transcription
    return any(shown is not None for shown in (event.content, event.error_code, event.output, said))


def _is_question(event: Event) -> bool:
    parts = event.content.parts if event.author == "user" and event.content else None
    return bool(parts) and all(part.function_response is None for part in parts or ())


def user_parts(said: Iterable[str | Media]) -> list[Part]:
    """A user's text and files as parts of a UIMessage."""
    return [TextPart(text=part) if isinstance(part, str) else _file_part(part) for part in said]


def _file_part(media: Media) -> FilePart:
    url = data_url(media.media_type, media.data)
    return FilePart(media_type=media.media_type, url=url, filename=media.filename or UNSET)


def said_in(event: Event) -> Iterator[str | Media]:
    """The text and files of the question of a turn, or of another event of the user."""
    if event.input_transcription is not None and event.input_transcription.text:
        yield event.input_transcription.text
    for part in (event.content.parts if event.content else None) or ():
        if part.text:
            yield part.text
        elif part.inline_data is not None:
            blob = part.inline_data
            yield Media(blob.mime_type or "application/octet-stream", blob.data or b"", blob.display_name)
