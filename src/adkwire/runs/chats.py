"""What this process knows about chats; everything lasting is in the session and in the gate's store."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from google.adk.events.event import Event

from adkwire.adk.events import UnansweredCalls
from adkwire.gate.records import PendingCall
from adkwire.runs.run import Run
from adkwire.stores.base import ChatKey

_KEPT_CHATS = 1000
_KEPT_RUNS = 16
_PATIENCE = 3
"""How often a client may send answers that change nothing."""


class Live(Protocol):
    """A live conversation, as those see it who want to write in its chat."""

    @property
    def attached(self) -> bool:
        """Whether somebody is connected to it."""
        ...

    def writes(self, message: str) -> bool:
        """Whether it writes a message."""
        ...

    def begun(self, run: Run) -> None:
        """A message goes on with it that somebody has answered the calls of."""
        ...

    async def park(self) -> None:
        """Give the chat free."""
        ...

    def go_on(
        self,
        key: ChatKey,
        calls: Sequence[PendingCall],
        told: Collection[str],
        stamp: dict[str, Any],
        abort: asyncio.Event,
    ) -> AsyncGenerator[Event, None]:
        """Bring the answers to parked calls to the agent."""
        ...


@dataclass
class Chat:
    """One chat."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    last: Run | None = None
    """The run that began last, ended or not."""
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    """Recent runs by the user message they answer, so that a repeated request finds its stream."""
    answered: set[str] = field(default_factory=set[str])
    """The user messages that have a turn."""
    unheard: set[str] = field(default_factory=set[str])
    """The user messages that never reached the agent; they may come again."""
    read: bool = False
    """Whether the session was read since this process met the chat."""
    unsealed: list[Run] = field(default_factory=list[Run])
    """Runs in the order they began, until their calls are known to need no answer any more."""
    unanswered: list[UnansweredCalls] = field(default_factory=list[UnansweredCalls])
    """Turns that have ended and whose calls may need answers before the next one begins."""
    live: "Live | None" = None
    """The live conversation that has the chat."""
    repeats: int = 0
    """How often in a row answers came that changed nothing."""

    @property
    def idle(self) -> bool:
        """Whether nothing writes in it, nor is about to."""
        return not self.active and self.live is None

    @property
    def active(self) -> list[Run]:
        """Runs that have not ended, oldest first: more than one while one is replaced or others queue."""
        return [run for run in self.unsealed if run.active]

    def writing(self, message_id: str) -> Run | None:
        """The run that is writing this message."""
        return next((run for run in self.active if run.message_id == message_id), None)

    def find(self, run_id: str) -> Run | None:
        """A recent run by its id."""
        return next((run for run in (*self.runs.values(), *self.unsealed) if run.id == run_id), None)

    def read_anew(self) -> None:
        """Another worker has had the chat since: what is known of it may be old."""
        self.read = False
        self.runs.clear()
        self.last = None
        self.unsealed, self.unanswered = self.active, []

    def collect_unanswered_calls(self) -> None:
        """Note the runs that have ended: they may have left calls unanswered."""
        self.unanswered += [run.unanswered_calls() for run in self.unsealed if not run.active]
        self.unsealed = self.active

    def remember(self, run: Run) -> None:
        """A run begins."""
        self.last = self.runs[run.message.id] = run
        self.unsealed.append(run)
        self.answered.add(run.message.id)
        ended = [uid for uid, old in self.runs.items() if not old.active]
        for uid in ended[: max(0, len(self.runs) - _KEPT_RUNS)]:
            del self.runs[uid]

    def recall(self, runs: Sequence[Run]) -> None:
        """Runs that ended before this process met the chat, oldest first."""
        for run in runs[-_KEPT_RUNS:]:
            self.last = self.runs[run.message.id] = run

    def continue_with(self, run: Run) -> None:
        """A run goes on with a message: it knows of all its calls, so those before it need not be asked."""
        self.unanswered = []
        self.unsealed = [old for old in self.unsealed if old.message_id != run.message_id]
        self.remember(run)

    def is_looping(self) -> bool:
        """Whether the client sends the same again and again."""
        self.repeats += 1
        return self.repeats > _PATIENCE


class Chats:
    """The chats this process has met, the one touched last standing last."""

    def __init__(self) -> None:
        self._known: dict[ChatKey, Chat] = {}

    def get(self, key: ChatKey) -> Chat | None:
        """What is known of a chat, if anything is."""
        return self._known.get(key)

    def active(self, key: ChatKey) -> list[Run]:
        """The runs of a chat that have not ended."""
        chat = self._known.get(key)
        return chat.active if chat is not None else []

    def writing(self, key: ChatKey) -> list[Run]:
        """Return the runs of a chat that are writing, without those that only wait for somebody."""
        return [run for run in self.active(key) if not run.waits]

    def running(self, key: ChatKey) -> Run | None:
        """Return the run that is writing in a chat, rather one that goes on than one that is being stopped."""
        writing = self.writing(key)
        return next((run for run in writing if not run.stopping), writing[0] if writing else None)

    def last(self, key: ChatKey) -> Run | None:
        """The run of a chat that began last."""
        chat = self._known.get(key)
        return chat.last if chat is not None else None

    def all_active(self) -> list[Run]:
        """All runs that have not ended."""
        return [run for chat in self._known.values() for run in chat.active]

    def all_open(self) -> list[Run]:
        """All runs whose stream has not ended."""
        return [run for chat in self._known.values() for run in chat.unsealed if not run.closed]

    def forget(self, key: ChatKey) -> None:
        """The chat is gone."""
        self._known.pop(key, None)

    @asynccontextmanager
    async def locked(self, key: ChatKey) -> AsyncGenerator[Chat, None]:
        """Lock a chat in this process. A caller that waited while the chat was deleted gets a new one."""
        while True:
            chat = self._known.get(key)
            if chat is None:
                if len(self._known) >= _KEPT_CHATS:
                    self._forget_idle()
                chat = self._known[key] = Chat()
            async with chat.lock:
                if self._known.get(key) is chat:
                    self._known[key] = self._known.pop(key)
                    try:
                        yield chat
                    finally:
                        if chat.idle and not chat.read and self._known.get(key) is chat:
                            # Nothing is known of it: it was deleted, or belongs to another worker.
                            del self._known[key]
                    return

    def _forget_idle(self) -> None:
        """Make room: the chats that have been quiet for longest go first, and half of them stay."""
        idle = [key for key, chat in self._known.items() if chat.idle and not chat.lock.locked()]
        for key in idle[: _KEPT_CHATS // 2]:
            del self._known[key]
