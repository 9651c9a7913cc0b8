"""What a server's routes ask of whatever answers behind them: a Bridge with its agent, or a recording."""

from collections.abc import AsyncGenerator
from typing import Protocol

from adkwire.gate.records import AuditEntry, Given, PendingCall
from adkwire.runs.adk import ToolInfo
from adkwire.runs.news import Item
from adkwire.runs.reading import Place, Reading
from adkwire.runs.recording import Recorder
from adkwire.runs.run import Run
from adkwire.runs.views import ChatHistory, ChatList, ChatSummary
from adkwire.settings import Settings
from adkwire.wire.decoder import TurnInput


class NamedModel(Protocol):
    """A model, as far as it is told to clients."""

    @property
    def name(self) -> str | None:
        """What it is called; None when there is none."""
        ...

    @property
    def offline(self) -> bool:
        """Whether it is the offline one."""
        ...


class Serving(Protocol):
    """One run per chat: start, answer, follow, stop, history; and what it is that answers."""

    settings: Settings

    @property
    def recorder(self) -> Recorder | None:
        """What writes everything down, if somebody asked for it."""
        ...

    @property
    def agent_name(self) -> str:
        """Who answers."""
        ...

    @property
    def model_name(self) -> str | None:
        """The model behind it."""
        ...

    @property
    def offline(self) -> bool:
        """Whether that model is the offline one."""
        ...

    @property
    def talks(self) -> bool:
        """Whether it can be talked with live."""
        ...

    @property
    def direct(self) -> NamedModel:
        """The model without the agent."""
        ...

    async def tools(self) -> list[ToolInfo]:
        """What the agent can do."""
        ...

    async def start(self, user: str, turn: TurnInput, *, direct: bool = False) -> Run:
        """Run a turn, or find the run that already does."""
        ...

    async def answer(self, user: str, chat_id: str, call_id: str, given: Given) -> PendingCall:
        """Answer one call that waits."""
        ...

    async def stop(self, user: str, chat_id: str, run_id: str | None = None) -> bool:
        """Stop what runs or waits in a chat, or only the named run; says whether there was something to stop."""
        ...

    async def follow(self, user: str, chat_id: str, after: Place | None = None) -> Reading | None:
        """Go on reading behind a place, or what is being written; None when nothing is."""
        ...

    def reading(self, run: Run, *, whole: bool = False) -> Reading:
        """Read a run from its beginning; `whole` with what its message held before."""
        ...

    async def chats(self, user: str, *, limit: int, before: str | None) -> ChatList:
        """The user's chats, newest first."""
        ...

    async def history(
        self, user: str, chat_id: str, *, limit: int | None = None, before: str | None = None
    ) -> ChatHistory:
        """A chat with its messages, all or a page of them."""
        ...

    async def rename(self, user: str, chat_id: str, title: str) -> ChatSummary:
        """Give a chat another title."""
        ...

    async def delete(self, user: str, chat_id: str) -> None:
        """Stop what runs in a chat and forget it."""
        ...

    async def audit(self, user: str, chat_id: str) -> list[AuditEntry]:
        """Who asked, who answered and what came of it, in one chat."""
        ...

    def news(self, user: str) -> AsyncGenerator[Item | None, None]:
        """What happens in a user's chats from now on; None is a heartbeat."""
        ...

    def watch(self) -> None:
        """Look after what was there when this process began."""
        ...

    async def ready(self) -> bool:
        """Whether a turn could be served now."""
        ...

    async def drain(self, seconds: float) -> None:
        """Take no more turns, and give the running ones their time."""
        ...

    async def close(self, *, drain: float | None = None) -> None:
        """Drain, and let go of everything."""
        ...
