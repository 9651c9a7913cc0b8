"""How far the chats of a replay have come, and what clients have of them."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET

from adkwire.runs import views
from adkwire.runs.run import Run
from adkwire.runs.sessions import ChatKey
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
from adkwire.wire.recordings import RecordedRun


@dataclass
class Playing:
    """A recorded run as it is played."""

    run: Run
    recorded: RecordedRun
    sent: int = 0
    task: "asyncio.Task[None] | None" = None


@dataclass
class PlayedChat:
    """How far a chat has come."""

    key: ChatKey
    title: str
    created: float
    updated: float
    next: int = 0
    messages: list[UIMessage] = field(default_factory=list[UIMessage])
    """What is over; the message that is being played is not there yet."""
    played: list[Playing] = field(default_factory=list[Playing])
    answered: set[str] = field(default_factory=set[str])

    @property
    def active(self) -> Playing | None:
        """What is being played."""
        return next((playing for playing in self.played if playing.run.active), None)


def closing(sent: Iterable[Chunk]) -> list[Chunk]:
    """The ends of the texts, thoughts and the step that are open."""
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


def go_back(chat: PlayedChat, wanted: set[str | None]) -> None:
    """Drop what comes behind a message that is said or answered again, and that message."""
    at = next((i for i, message in enumerate(chat.messages) if message.id in wanted), len(chat.messages))
    del chat.messages[at:]


def summary(chat: PlayedChat) -> views.ChatSummary:
    """A line of the chat list."""
    waiting = len(pending(chat))
    return views.ChatSummary(chat.key.chat, chat.title, iso(chat.updated), chat.active is not None, waiting)


def _sent(chat: PlayedChat, message: str) -> list[Chunk]:
    """All that was sent of a message."""
    mine = [playing for playing in chat.played if playing.recorded.message == message]
    return [decode_chunk(entry) for playing in mine for entry in playing.recorded.entries[: playing.sent]]


def prefix_of(chat: PlayedChat, message: str) -> Sequence[Chunk]:
    """What a message held before it goes on."""
    return [chunk for chunk in _sent(chat, message) if not isinstance(chunk, Start | Finish)]


def told(chat: PlayedChat, message: str) -> UIMessage | None:
    """The message as clients have it; None when what a killed server has left makes none."""
    try:
        return fold(_sent(chat, message))
    except BrokenStream:
        return None


def pending(chat: PlayedChat) -> list[views.Pending]:
    """The calls of the last message that somebody has to act on."""
    last = chat.messages[-1] if chat.messages and chat.active is None else None
    parts = [part for part in last.parts if isinstance(part, ToolPart)] if last is not None else []
    return [_waiting(part) for part in parts if _waits(part) and part.tool_call_id not in chat.answered]


def _waits(part: ToolPart) -> bool:
    return part.state in ("approval-requested", "input-available")


def _waiting(part: ToolPart) -> views.Pending:
    asked = part.state == "approval-requested"
    return views.Pending(
        tool_call_id=part.tool_call_id,
        tool=part.tool_name if part.tool_name is not UNSET else part.type.removeprefix("tool-"),
        input=None if part.input is UNSET else part.input,
        kind="approval" if asked else "client",
        approval_id=part.approval.id if asked and part.approval is not UNSET else UNSET,
    )
