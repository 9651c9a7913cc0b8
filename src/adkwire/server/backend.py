"""Backend: the interface that the routes of a server use; a Bridge has it, and so has a replay."""

from collections.abc import AsyncGenerator
from typing import Protocol

from adkwire.adk.app import ToolInfo
from adkwire.gate.records import AuditEntry, CallRecord, UncheckedAnswer
from adkwire.recording.recorder import Recorder
from adkwire.runs.chat_events import ChatEvent
from adkwire.runs.readers import Position, Reading
from adkwire.runs.run import Run
from adkwire.runs.views import ChatHistory, ChatList, ChatSummary, GrantList
from adkwire.settings import Settings
from adkwire.wire.decode.decoder import TurnInput


class NamedModel(Protocol):
    """The name of a model, as clients get it."""

    @property
    def name(self) -> str | None:
        """The name; None when there is no model."""
        ...

    @property
    def offline(self) -> bool:
        """True if the model needs no network."""
        ...


class Backend(Protocol):
    """Starts, follows and stops runs, answers calls, and keeps chats."""

    settings: Settings

    @property
    def recorder(self) -> Recorder | None:
        """Writes every chat to a file; None where recording is off."""
        ...

    @property
    def agent_name(self) -> str:
        """The name of the agent."""
        ...

    @property
    def model_name(self) -> str | None:
        """The name of the agent's model; None where it has none."""
        ...

    @property
    def offline(self) -> bool:
        """True if the agent's model needs no network."""
        ...

    @property
    def supports_live(self) -> bool:
        """True if the agent can hold live conversations."""
        ...

    @property
    def direct(self) -> NamedModel:
        """The model without the agent."""
        ...

    async def tools(self) -> list[ToolInfo]:
        """Return the agent's tools."""
        ...

    async def start(self, user: str, turn: TurnInput, *, direct: bool = False) -> Run:
        """Start the run of a turn, or return the run that an earlier request for it has started."""
        ...

    async def answer(self, user: str, chat_id: str, call_id: str, answer: UncheckedAnswer) -> CallRecord:
        """Answer one pending call."""
        ...

    async def stop(self, user: str, chat_id: str, run_id: str | None = None) -> bool:
        """Stop the runs and seal the pending calls of a chat, or stop one run; return False if there was nothing."""
        ...

    async def follow(
        self, user: str, chat_id: str, after: Position | None = None, *, run: str | None = None
    ) -> Reading | None:
        """Read the chunks after a position, the message of a run, or the one being written; None when there is none."""
        ...

    def reading(self, run: Run, *, whole: bool = False) -> Reading:
        """Read a run from its beginning; with `whole` also what earlier runs wrote in its message."""
        ...

    async def chats(self, user: str, *, limit: int, before: str | None) -> ChatList:
        """Return a page of the user's chats, newest first."""
        ...

    async def history(
        self, user: str, chat_id: str, *, limit: int | None = None, before: str | None = None
    ) -> ChatHistory:
        """Return a chat with its messages, all or a page of them."""
        ...

    async def rename(self, user: str, chat_id: str, title: str) -> ChatSummary:
        """Set the title of a chat."""
        ...

    async def delete(self, user: str, chat_id: str) -> None:
        """Stop the runs of a chat and delete it."""
        ...

    async def audit(self, user: str, chat_id: str) -> list[AuditEntry]:
        """Return who asked, who answered and the outcome of each call of a chat."""
        ...

    async def recording(self, user: str, chat_id: str) -> AsyncGenerator[bytes, None]:
        """Return the recording of a chat in blocks."""
        ...

    async def grants(self, user: str, *, limit: int, before: int | None) -> GrantList:
        """Return a page of the user's standing grants, newest first."""
        ...

    async def revoke(self, user: str, grant_id: int) -> None:
        """Take a standing grant of the user back."""
        ...

    def events(self, user: str) -> AsyncGenerator[ChatEvent | None, None]:
        """Yield the chat events of a user from now on; None is a heartbeat."""
        ...

    def watch(self) -> None:
        """Start the background tasks of this process."""
        ...

    async def ready(self) -> bool:
        """Return False while the server drains; raise `Unavailable` when something that a turn needs does not work."""
        ...

    async def drain(self, seconds: float) -> None:
        """Refuse new turns, and wait up to so many seconds for the running ones."""
        ...

    async def close(self, *, drain: float | None = None) -> None:
        """Drain, and close everything that is open."""
        ...
