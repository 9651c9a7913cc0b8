"""The state of each chat in a replay, and the messages, pending calls and views that follow from it."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET

from adkwire.runs import views
from adkwire.runs.run import Run
from adkwire.stores.base import ChatKey
from adkwire.wire.chunks import (
    Chunk,
    Finish,
    FinishStep,
    ReasoningEnd,
    ReasoningStart,
    Start,
    StartStep,
    TextEnd,
    TextStart,
    decode_chunk,
)
from adkwire.wire.folding import BrokenStream, fold
from adkwire.wire.javascript import iso
from adkwire.wire.messages import ToolPart, UIMessage
from adkwire.wire.recording_lines import RecordedRun


@dataclass
class ReplayedRun:
    """A recorded run that is being replayed, or was."""

    run: Run
    recorded: RecordedRun
    sent: int = 0
    """Number of recorded chunks that were sent."""
    task: "asyncio.Task[None] | None" = None
    """The task that sends the chunks; None at speed `step`."""


@dataclass
class ReplayedChat:
    """A chat in which a recording is replayed."""

    key: ChatKey
    title: str
    created: float
    updated: float
    next: int = 0
    """Index of the recorded run that is replayed next."""
    messages: list[UIMessage] = field(default_factory=list[UIMessage])
    """The complete messages, without the one that is being replayed."""
    runs: list[ReplayedRun] = field(default_factory=list[ReplayedRun])
    answered: set[str] = field(default_factory=set[str])
    """Ids of the calls that were answered since the last run began."""

    @property
    def active(self) -> ReplayedRun | None:
        """The run that is being replayed."""
        return next((replayed for replayed in self.runs if replayed.run.active), None)


def closing_chunks(sent: Iterable[Chunk]) -> list[Chunk]:
    """Return the chunks that end the texts, thoughts and the step that are open."""
    ends: dict[str, Chunk] = {}
    for chunk in sent:
        match chunk:
            case TextStart(id=part):
                ends[part] = TextEnd(id=part)
            case ReasoningStart(id=part):
                ends[part] = ReasoningEnd(id=part)
            case TextEnd(id=part) | ReasoningEnd(id=part):
                ends.pop(part, None)
            case StartStep():
                ends[""] = FinishStep()
            case FinishStep():
                ends.pop("", None)
            case _:
                pass
    step = ends.pop("", None)
    return [*ends.values(), *([step] if step is not None else [])]


def drop_messages_from(chat: ReplayedChat, ids: set[str | None]) -> None:
    """Drop the first message with one of these ids, which is sent or answered anew, and all messages after it."""
    at = next((i for i, message in enumerate(chat.messages) if message.id in ids), len(chat.messages))
    del chat.messages[at:]


def summary(chat: ReplayedChat) -> views.ChatSummary:
    """Return the chat's entry in the chat list."""
    waiting = len(pending(chat))
    return views.ChatSummary(chat.key.chat, chat.title, iso(chat.updated), chat.active is not None, waiting)


def history(chat: ReplayedChat, *, limit: int | None, before: str | None) -> views.ChatHistory:
    """Return the chat with its messages, all or a page of them."""
    messages, more = views.page(chat.messages, limit, before)
    active = chat.active
    return views.ChatHistory(
        id=chat.key.chat,
        title=chat.title,
        created_at=iso(chat.created),
        updated_at=iso(chat.updated),
        active=views.ActiveRun(active.run.id) if active is not None else None,
        messages=messages,
        pending=pending(chat),
        next=more,
    )


def _sent(chat: ReplayedChat, message: str) -> list[Chunk]:
    """Return all chunks of a message that were sent."""
    runs = [replayed for replayed in chat.runs if replayed.recorded.message == message]
    return [decode_chunk(entry) for replayed in runs for entry in replayed.recorded.entries[: replayed.sent]]


def prefix_of(chat: ReplayedChat, message: str) -> Sequence[Chunk]:
    """Return the chunks of a message that were sent before its continuation."""
    return [chunk for chunk in _sent(chat, message) if not isinstance(chunk, Start | Finish)]


def message_of(chat: ReplayedChat, message: str) -> UIMessage | None:
    """Return a message as clients have it; None when a killed server recorded too little of it."""
    try:
        return fold(_sent(chat, message))
    except BrokenStream:
        return None


def pending(chat: ReplayedChat) -> list[views.Pending]:
    """Return the calls of the last message that have no answer yet."""
    last = chat.messages[-1] if chat.messages and chat.active is None else None
    parts = [part for part in last.parts if isinstance(part, ToolPart)] if last is not None else []
    return [_pending_call(part) for part in parts if _is_pending(part) and part.tool_call_id not in chat.answered]


def _is_pending(part: ToolPart) -> bool:
    return part.state in ("approval-requested", "input-available")


def _pending_call(part: ToolPart) -> views.Pending:
    asked = part.state == "approval-requested"
    return views.Pending(
        tool_call_id=part.tool_call_id,
        tool=part.tool_name if part.tool_name is not UNSET else part.type.removeprefix("tool-"),
        input=None if part.input is UNSET else part.input,
        kind="approval" if asked else "client",
        approval_id=part.approval.id if asked and part.approval is not UNSET else UNSET,
    )
