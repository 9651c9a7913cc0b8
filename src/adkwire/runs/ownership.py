"""Ownership: one worker at a time writes in a chat, the one that has its lease.

A worker that takes over a chat first ends the runs of its last owner and corrects the records of its calls.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from adkwire.errors import Conflict, RequestError, Unavailable
from adkwire.gate.records import CallRecord
from adkwire.runs.chat_events import ChatEvent
from adkwire.runs.chats import Chat
from adkwire.runs.recovery import Recovery, recover_calls
from adkwire.runs.run import STOP_PATIENCE, Prepare, Run, Source
from adkwire.runs.sealing import Sealing, last_delivered, paused_encoder, unanswered_in
from adkwire.runs.services import RunServices
from adkwire.runs.worker_messages import Stop, send
from adkwire.stores.base import ChatKey, RunHead
from adkwire.tasks import Tasks, end

logger = logging.getLogger("adkwire")

PATIENCE = 2 * STOP_PATIENCE
"""Seconds to wait for another worker to release a chat."""
_HANG_UP_SECONDS = 0.5
"""Seconds to wait for another worker to notice that the last client has left its live conversation."""
_BETWEEN_CHECKS = 15.0
"""Seconds between two checks for runs whose worker is gone."""
_RETRY = 5.0
"""Seconds after which a lease is released again that the store did not release."""
_LIVE = "This chat is in a live conversation."
_USE_LIVE = "Use the live connection, or close it."


class Ownership:
    """The leases that this worker has on chats."""

    def __init__(self, services: RunServices, sealing: Sealing) -> None:
        self._services = services
        self._recovery = Recovery(services, sealing)
        self._draining = asyncio.Event()
        self.on_calls_found: Callable[[CallRecord], None] = lambda call: None
        """Called with each call that has not begun in a chat that this worker takes over: its message may continue."""
        self._tasks = Tasks()

    @property
    def draining(self) -> bool:
        """True once the server goes down: no new work is taken."""
        return self._draining.is_set()

    def drain(self) -> None:
        """Take no new work from now on, and refuse the requests that wait for a chat of another worker."""
        self._draining.set()

    def refuse_when_draining(self) -> None:
        """Raise `Unavailable` if the server goes down."""
        if self.draining:
            raise Unavailable("The server is going down.", hint="Try again in a moment.")

    @asynccontextmanager
    async def owned(
        self, key: ChatKey, *, stop: Stop | None = None, patience: float = PATIENCE
    ) -> AsyncGenerator[Chat, None]:
        """Lock a chat in this process and take its lease; the runs of its last owner are ended first.

        While another worker owns it, wait up to `patience` seconds for its release; `stop` is sent to that worker.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + patience
        while True:
            async with self._services.chats.locked(key) as chat:
                owned = True
                try:
                    if owned := await self._acquire(key, chat):
                        await self._load(key, chat)
                        yield chat
                        return
                finally:
                    if owned and chat.idle:
                        await self._release(key)
            # Wait without the lock: requests that read the chat need it, too.
            self.refuse_when_draining()
            if stop is not None:
                await send(self._services.signals, stop)
                stop = None
            if not await self.wait_free(key, until - clock()):
                self.refuse_when_draining()
                raise Conflict("Another worker is busy with this chat.", hint="Wait for it, or stop it.")

    async def wait_free(self, key: ChatKey, seconds: float = PATIENCE) -> bool:
        """Wait until no other worker owns a chat; return False after `seconds`, or when the server goes down."""
        free = asyncio.create_task(self._services.signals.wait_free(_lease(key), seconds), name="adkwire-lease")
        draining = asyncio.create_task(self._draining.wait(), name="adkwire-lease-drain")
        try:
            await asyncio.wait([free, draining], return_when=asyncio.FIRST_COMPLETED)
            return free.done() and free.result()
        finally:
            await end(free, draining)

    async def load_when_new(self, key: ChatKey) -> None:
        """Load a chat that this process has no state of, unless another worker owns it: its crashed runs are ended."""
        chat = self._services.chats.get(key)
        if (chat is None or not chat.loaded) and not await self.is_owned_elsewhere(key) and await self.exists(key):
            async with self.owned(key):
                pass

    async def exists(self, key: ChatKey) -> bool:
        """Return True if a chat has a session or a run. Nothing is done or kept for a chat that does not exist."""
        return await self._services.runner.exists(key) or bool(await self._services.log.unclosed(*key))

    async def run_elsewhere(self, key: ChatKey) -> RunHead | None:
        """Return the run that another worker writes in a chat. Runs of workers that died are closed."""
        head = next(iter(await self.runs_elsewhere(*key)), None)
        if head is None or await self.is_owned_elsewhere(key):
            return head
        async with self.owned(key) as chat:
            await self._recovery.close_crashed(key, chat, await self._services.runner.turns(key))
        return None

    async def close_crashed_runs(self) -> None:
        """Close the runs of all chats whose worker has died, now and at every check from then on."""
        while True:
            for head in await self._services.log.unclosed():
                try:
                    await self.run_elsewhere(ChatKey(head.user, head.chat))
                except Exception:
                    # The runs of other chats are closed all the same.
                    logger.exception("run %s was cut off when its server ended, and cannot be closed yet", head.run)
            await asyncio.sleep(_BETWEEN_CHECKS)

    async def runs_elsewhere(self, user: str, chat: str | None = None) -> list[RunHead]:
        """Return the runs of a user, or of one chat, that have no end and that this process does not write."""
        return [head for head in await self._services.log.unclosed(user, chat) if self.local_run(head) is None]

    def local_run(self, head: RunHead) -> Run | None:
        """Return the run of this process that `head` describes; None if another one writes it."""
        chat = self._services.chats.get(ChatKey(head.user, head.chat))
        return chat.find(head.run) if chat is not None else None

    async def is_owned_elsewhere(self, key: ChatKey) -> bool:
        """Return True if another worker has the lease of the chat."""
        return await self._services.signals.holder(_lease(key)) not in (None, self._services.signals.worker)

    async def _acquire(self, key: ChatKey, chat: Chat) -> bool:
        """Take the lease of a chat; return False if another worker has it."""
        last = await self._services.signals.acquire(_lease(key))
        if last not in (None, self._services.signals.worker):
            # Another worker had it since, or it was deleted.
            chat.reset()
        return last is not None

    async def _release(self, key: ChatKey) -> None:
        """Release the lease of a chat; while the store is away, try again until it is released."""
        try:
            await self._services.signals.release(_lease(key))
        except RequestError as error:
            logger.warning("the lease of chat %s could not be released yet: %s", key.chat, error.message)
            self.release_when_idle(key, _RETRY)

    def release_when_idle(self, key: ChatKey, delay: float = 0) -> None:
        """Start a task that releases the lease of a chat after `delay` seconds, unless something writes in it then."""
        self._tasks.start(self._release_idle(key, delay), f"release-{key.chat}")

    async def _release_idle(self, key: ChatKey, delay: float) -> None:
        if not self.draining:
            await asyncio.sleep(delay)
        async with self._services.chats.locked(key) as chat:
            if chat.idle:
                await self._release(key)

    async def forget(self, key: ChatKey) -> None:
        """Delete the leases of a chat that was deleted."""
        await self._services.signals.forget(_lease(key))
        await self._services.signals.forget(_live_lease(key))

    async def _load(self, key: ChatKey, chat: Chat) -> None:
        """Read a chat from its session, unless that was done already, and end the crashed runs of its last owner."""
        if chat.loaded:
            return
        turns = await self._services.runner.turns(key)
        last = last_delivered(turns)
        await recover_calls(self._services.gate, key, paused_encoder(last) if last is not None else None)
        if await self._recovery.close_crashed(key, chat, turns):
            turns = await self._services.runner.turns(key)
        chat.unanswered = unanswered_in(turns)
        chat.undelivered = {turn.user_id for turn in turns[-1:] if turn.never_reached_agent}
        chat.known_user_messages = {turn.user_id for turn in turns} - chat.undelivered
        chat.add_ended(
            [
                Run.read_only(head)
                for head in await self._services.log.runs(*key)
                if head.user_message in chat.known_user_messages
            ]
        )
        chat.loaded = True
        for call in await self._services.gate.not_started(*key):
            self.on_calls_found(call)

    async def note_live(self, key: ChatKey, *, here: bool) -> None:
        """Note for all workers whether a client is connected to the live conversation of a chat on this one."""
        name = _live_lease(key)
        await (self._services.signals.acquire(name) if here else self._services.signals.release(name))

    async def refuse_when_live_elsewhere(self, key: ChatKey) -> None:
        """Raise `Conflict` while a client is connected to the chat's live conversation on another worker."""
        if not await self._services.signals.wait_free(_live_lease(key), _HANG_UP_SECONDS):
            raise Conflict(_LIVE, hint=_USE_LIVE)

    async def stop_elsewhere(self, key: ChatKey, head: RunHead, wish: Stop) -> bool:
        """Have another worker stop a run; return True if that worker keeps the chat, for a live conversation."""
        clock, after = asyncio.get_running_loop().time, -1
        until = clock() + PATIENCE
        await send(self._services.signals, wish)
        while (batch := await self._services.log.read(head.run, after, until - clock())) is not None:
            if batch.closed or clock() >= until:
                break
            after = batch.first + len(batch.entries) - 1
        return await self.is_owned_elsewhere(key)

    async def park_live(self, chat: Chat) -> None:
        """End the live conversation of a chat; raise `Conflict` while a client is connected to it."""
        if chat.live is not None:
            if chat.live.attached:
                raise Conflict(_LIVE, hint=_USE_LIVE)
            await chat.live.park()

    async def begin(
        self, run: Run, chat: Chat, source: Source, *, prepare: Prepare | None = None, goes_on: bool = False
    ) -> Run:
        """Begin a run in a chat that this worker owns; with `goes_on` it continues a message."""
        run.on_done, run.on_closed = self._publish_end, lambda run: self.release_when_idle(run.key)
        await run.begin(
            self._services.runner, self._services.gate, self._services.log, self._services.tap(run.key, source), prepare
        )
        if goes_on:
            chat.continue_with(run)
        else:
            chat.add(run)
        if self.draining:
            await run.stop()
        self.refuse_when_draining()
        self.stop_when_unread(run)
        self._services.events.publish(run.key.user, ChatEvent(type="run-started", chat=run.key.chat, run=run.id))
        logger.info("run %s started in chat %s", run.id, run.key.chat)
        return run

    def _publish_end(self, run: Run) -> None:
        self._services.events.publish(run.key.user, ChatEvent(type="run-ended", chat=run.key.chat, run=run.id))

    def stop_when_unread(self, run: Run) -> None:
        """Stop a run that has no reader after `Settings.stop_without_reader` seconds, if that is set."""
        if self._services.settings.stop_without_reader and not run.readers:
            run.abort_after(self._services.settings.stop_without_reader)

    async def close(self) -> None:
        """End the background tasks. Leases that are left end when this worker shows no sign of life any more."""
        await self._tasks.close()


def _live_lease(key: ChatKey) -> str:
    return f"live {key.user}\n{key.chat}"


def _lease(key: ChatKey) -> str:
    return f"chat {key.user}\n{key.chat}"
