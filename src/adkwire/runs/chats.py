"""The state of chats in this process. It can be made again from the session, the stream log and the gate's store."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from google.adk.events.event import Event

from adkwire.adk.events import CallsWithoutResponse
from adkwire.gate.records import CallRecord
from adkwire.runs.run import Run
from adkwire.stores.base import ChatKey

_KEPT_CHATS = 1000
_KEPT_RUNS = 16
"""Runs of a chat that a repeated request finds again."""
_ALLOWED_REPEATS = 3
"""How often in a row a client may send answers that change nothing."""


class Live(Protocol):
    """The live conversation of a chat, as far as runs need it."""

    @property
    def attached(self) -> bool:
        """True while a client is connected."""
        ...

    def writes(self, message: str) -> bool:
        """Return True if a turn of the conversation writes the message."""
        ...

    def announce(self, run: Run) -> None:
        """Notify all clients of a run that continues a message whose calls were answered."""
        ...

    async def park(self) -> None:
        """End the conversation: its held calls become parked ones."""
        ...

    def go_on(
        self,
        key: ChatKey,
        calls: Sequence[CallRecord],
        with_verdict: Collection[str],
        stamp: dict[str, Any],
        abort: asyncio.Event,
    ) -> AsyncGenerator[Event, None]:
        """Give the agent the answers to parked calls and yield the events that follow.

        `with_verdict` are the calls whose verdict is in the session.
        """
        ...


@dataclass
class Chat:
    """The state of one chat in this process."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    last: Run | None = None
    """The newest run, ended or not."""
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    """Recent runs by the id of the user message they answer, so that a repeated request finds its stream."""
    known_user_messages: set[str] = field(default_factory=set[str])
    """The ids of the user messages that have a turn."""
    undelivered: set[str] = field(default_factory=set[str])
    """The ids of the user messages that never reached the agent; they may be sent again."""
    loaded: bool = False
    """True once the fields above were read from the session. Set back when another worker may have changed it."""
    unsealed: list[Run] = field(default_factory=list[Run])
    """Runs, oldest first, whose calls may still have to be sealed."""
    unanswered: list[CallsWithoutResponse] = field(default_factory=list[CallsWithoutResponse])
    """The calls of turns that have ended; they may have to be sealed before the next turn begins."""
    live: "Live | None" = None
    """The live conversation of the chat, while there is one."""
    repeats: int = 0
    """How often in a row answers came that changed nothing."""

    @property
    def idle(self) -> bool:
        """True while neither a run nor a live conversation can write in the chat."""
        return not self.active and self.live is None

    @property
    def active(self) -> list[Run]:
        """Runs that have not ended, oldest first: more than one while one is replaced or others queue."""
        return [run for run in self.unsealed if run.active]

    def run_of_message(self, message_id: str) -> Run | None:
        """Return the run that is writing this message."""
        return next((run for run in self.active if run.message_id == message_id), None)

    def find(self, run_id: str) -> Run | None:
        """Return a recent run by its id."""
        return next((run for run in (*self.runs.values(), *self.unsealed) if run.id == run_id), None)

    def reset(self) -> None:
        """Drop what was read of the chat: another worker may have changed it since."""
        self.loaded = False
        self.runs.clear()
        self.last = None
        self.unsealed, self.unanswered = self.active, []

    def collect_unanswered_calls(self) -> None:
        """Move the calls of runs that have ended from `unsealed` to `unanswered`."""
        self.unanswered += [run.unanswered_calls() for run in self.unsealed if not run.active]
        self.unsealed = self.active

    def add(self, run: Run) -> None:
        """Add a run that begins; drop the oldest ended runs when there are too many."""
        self.last = self.runs[run.user_message.id] = run
        self.unsealed.append(run)
        self.known_user_messages.add(run.user_message.id)
        ended = [user_message for user_message, old in self.runs.items() if not old.active]
        for user_message in ended[: max(0, len(self.runs) - _KEPT_RUNS)]:
            del self.runs[user_message]

    def add_ended(self, runs: Sequence[Run]) -> None:
        """Add runs, oldest first, that ended on another worker or before a restart."""
        for run in runs[-_KEPT_RUNS:]:
            self.last = self.runs[run.user_message.id] = run

    def continue_with(self, run: Run) -> None:
        """Add a run that continues a message. It has all calls of the message, so that older runs need no sealing."""
        self.unanswered = []
        self.unsealed = [old for old in self.unsealed if old.message_id != run.message_id]
        self.add(run)

    def count_repeat(self) -> bool:
        """Count answers that changed nothing; return False when they came too often in a row."""
        self.repeats += 1
        return self.repeats <= _ALLOWED_REPEATS


class Chats:
    """The chats of this process, the one used last at the end; a bounded number of idle ones."""

    def __init__(self) -> None:
        self._chats: dict[ChatKey, Chat] = {}

    def get(self, key: ChatKey) -> Chat | None:
        """Return a chat; None when this process has no state of it."""
        return self._chats.get(key)

    def active(self, key: ChatKey) -> list[Run]:
        """Return the runs of a chat that have not ended."""
        chat = self._chats.get(key)
        return chat.active if chat is not None else []

    def producing(self, key: ChatKey) -> list[Run]:
        """Return the runs of a chat that are writing, without those that wait for an answer to a call."""
        return [run for run in self.active(key) if not run.waits]

    def running(self, key: ChatKey) -> Run | None:
        """Return the run that is writing in a chat, rather one that goes on than one that is being stopped."""
        writing = self.producing(key)
        return next((run for run in writing if not run.stopping), writing[0] if writing else None)

    def last(self, key: ChatKey) -> Run | None:
        """Return the newest run of a chat, ended or not."""
        chat = self._chats.get(key)
        return chat.last if chat is not None else None

    def all_active(self) -> list[Run]:
        """Return the runs of all chats that have not ended."""
        return [run for chat in self._chats.values() for run in chat.active]

    def all_open(self) -> list[Run]:
        """Return the runs of all chats whose stream is not closed."""
        return [run for chat in self._chats.values() for run in chat.unsealed if not run.closed]

    def forget(self, key: ChatKey) -> None:
        """Drop a chat that was deleted."""
        self._chats.pop(key, None)

    @asynccontextmanager
    async def locked(self, key: ChatKey) -> AsyncGenerator[Chat, None]:
        """Lock a chat in this process. A caller that waited while the chat was deleted gets a new one."""
        while True:
            chat = self._chats.get(key)
            if chat is None:
                if len(self._chats) >= _KEPT_CHATS:
                    self._forget_idle()
                chat = self._chats[key] = Chat()
            async with chat.lock:
                if self._chats.get(key) is chat:
                    self._chats[key] = self._chats.pop(key)
                    try:
                        yield chat
                    finally:
                        if chat.idle and not chat.loaded and self._chats.get(key) is chat:
                            # Nothing was read of it: it was deleted, or another worker owns it.
                            del self._chats[key]
                    return

    def _forget_idle(self) -> None:
        """Drop up to half of the chats: idle ones, those first that were used longest ago."""
        idle = [key for key, chat in self._chats.items() if chat.idle and not chat.lock.locked()]
        for key in idle[: _KEPT_CHATS // 2]:
            del self._chats[key]
