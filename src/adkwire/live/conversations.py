"""The live conversations of this process, and the links of clients to them.

A conversation lasts as long as a client is linked to it, and for a grace time after the last one has left. Then it is
parked: the connection to the model is closed, the current answer ends, and held calls become parked calls, which can be
answered in any mode.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from adkwire.errors import Conflict, RequestError, Unprocessable
from adkwire.gate.records import CallRecord
from adkwire.live.conversation import Conversation
from adkwire.live.listeners import TAKEN_OVER, Listener
from adkwire.runs.chats import Chat
from adkwire.runs.continuation import RunContinuer
from adkwire.runs.ownership import Ownership
from adkwire.runs.run import Run
from adkwire.runs.sealing import Sealing
from adkwire.runs.services import RunServices
from adkwire.runs.start import RunStarter
from adkwire.runs.worker_messages import Stop
from adkwire.stores.base import ChatKey
from adkwire.tasks import Tasks
from adkwire.wire.decode.decoder import TurnInput
from adkwire.wire.socket.live_frames_out import LiveState

logger = logging.getLogger("adkwire")

_NOT_LIVE = "Use /api/chat: a live mode needs a model with a live side."
_RETRY = 5.0
"""Seconds until a store that did not answer is asked again."""
"""Reason of a stop: another worker deletes the chat."""


class RunToRead(NamedTuple):
    """The run that answers what a client has sent, and where the client begins to read it."""

    run: Run
    after: int | None = None
    """The number after which the client reads on; None for the whole run."""
    last_break: int = -1
    """The last break at which the calls that it answers were still pending."""
    executed: frozenset[str] = frozenset()
    """The calls that the client has executed."""


class Link:
    """The connection of one client to a conversation. What the client sends goes through here."""

    def __init__(
        self, conversations: "Conversations", conversation: Conversation, listener: Listener, *, resumed: bool
    ) -> None:
        running = conversation.running()
        self.chat = conversation.key.chat
        self.run = running.id if running is not None else None
        self.generation = conversation.listeners.generation
        self.state: LiveState = conversation.listeners.state
        self.resumed = resumed
        self._conversations = conversations
        self._conversation = conversation
        self._user = conversation.user
        self._listener = listener

    async def send(self, turn: TurnInput) -> RunToRead:
        """Send a typed message, or answers to calls."""
        return await self._conversations.send(self._conversation, self._listener, turn)

    def audio(self, pcm: bytes) -> bool:
        """Send 16 kHz audio to the model; return False if this client has not begun to speak."""
        return self._user.audio(self._listener, pcm)

    async def activity(self, *, start: bool) -> None:
        """Begin or end to speak. The client that begins takes the microphone."""
        await self._user.activity(self._listener, start=start)

    def frame(self, data: bytes, media_type: str) -> bool:
        """Send a picture of the camera or the screen; return False if no connection to the model is open."""
        return self._user.frame(data, media_type)

    async def interrupt(self) -> None:
        """Stop the model's speech."""
        await self._user.interrupt()

    def played(self, generation: int, ms: int) -> None:
        """Note how much of the sound this client has played."""
        self._conversation.listeners.played(generation, ms)

    async def close(self) -> None:
        """Leave and end the conversation now, unless other clients are connected."""
        self.leave(grace=0)
        await self._conversations.park(self._conversation)

    def leave(self, *, grace: float | None = None) -> None:
        """Leave the conversation. After the last client it goes on for `grace` seconds, or as the settings say."""
        self._conversations.leave(self._conversation, self._listener, grace)


class Conversations:
    """All live conversations of this process."""

    def __init__(
        self,
        services: RunServices,
        ownership: Ownership,
        sealing: Sealing,
        starter: RunStarter,
        continuer: RunContinuer,
    ) -> None:
        self._services = services
        self._ownership = ownership
        self._sealing = sealing
        self._starter = starter
        self._continuer = continuer
        self._all: dict[ChatKey, Conversation] = {}
        self._ends: dict[ChatKey, asyncio.TimerHandle] = {}
        self._tasks = Tasks()

    @property
    def count(self) -> int:
        """The number of conversations."""
        return len(self._all)

    async def join(self, user: str, chat_id: str, listener: Listener) -> Link:
        """Link a client to the conversation of a chat, which begins if there is none."""
        key = ChatKey(user, chat_id)
        self._ownership.refuse_when_draining()
        if not self._services.runner.supports_live:
            raise Conflict("This agent cannot be talked with live.", hint=_NOT_LIVE)
        stop = Stop(user, chat_id, why="taken-over")
        async with self._ownership.owned(key, stop=stop) as chat:
            try:
                await self._ownership.note_live(key, here=True)
                self._ownership.refuse_when_draining()
            except BaseException:
                # Otherwise other workers would think that a client is connected here.
                await self._detach(key)
                raise
            # Nothing is awaited from here on: a listener that is added always gets a link to leave by.
            return self._linked(key, chat, listener)

    def _linked(self, key: ChatKey, chat: Chat, listener: Listener) -> Link:
        resumed = chat.live is not None
        conversation = self._all.get(key)
        if conversation is None or chat.live is not conversation:
            conversation = self._all[key] = Conversation(
                key, self._services, self._ownership, self._sealing, self._parked
            )
            chat.live = conversation
        if (end := self._ends.pop(key, None)) is not None:
            end.cancel()
        conversation.listeners.all.append(listener)
        return Link(self, conversation, listener, resumed=resumed)

    async def send(self, conversation: Conversation, listener: Listener, turn: TurnInput) -> RunToRead:
        """Start the turn of a typed message, or answer calls."""
        if turn.trigger != "submit-message" or turn.replaces is not None:
            raise Unprocessable(
                "A live conversation goes on; it is not answered again.", hint="Use /api/chat to regenerate or edit."
            )
        if turn.message is None and turn.answers is not None:
            with conversation.streamer.answering(listener):
                run = await self._continuer.repost(conversation.key, turn.answers, live=True)
            breaks = run.find_breaks({*turn.answers.denied, *(answer.call for answer in turn.answers.calls)})
            if breaks is not None:
                return RunToRead(run, *breaks, turn.answers.executed)
            if run.active:
                conversation.listeners.turn(run, "server", besides=listener)
            return RunToRead(run)
        # A message that came just before its conversation was parked is answered by a streamed run.
        by = conversation if self._all.get(conversation.key) is conversation else self._services.runner
        before = conversation.running()
        run = await self._starter.start(conversation.key, turn, by)
        if run is not before and run.active:
            conversation.listeners.turn(run, "typed", besides=listener)
        return RunToRead(run)

    def leave(self, conversation: Conversation, listener: Listener, grace: float | None) -> None:
        """Remove a client; after the last one the grace time begins."""
        conversation.leave(listener)
        if conversation.attached:
            return
        key = conversation.key
        self._tasks.start(self._detach(key), "live-detach")
        if self._all.get(key) is conversation and key not in self._ends:
            self._end_in(self._services.settings.live_grace if grace is None else grace, conversation)

    def _end_in(self, seconds: float, conversation: Conversation) -> None:
        self._ends[conversation.key] = asyncio.get_running_loop().call_later(seconds, self._end_soon, conversation)

    def _end_soon(self, conversation: Conversation) -> None:
        self._ends.pop(conversation.key, None)
        self._tasks.start(self.park(conversation), "live-park")

    async def _detach(self, key: ChatKey) -> None:
        """Note for all workers that no client is connected, unless one has come meanwhile."""
        conversation = self._all.get(key)
        if conversation is None or not conversation.attached:
            try:
                await self._ownership.note_live(key, here=False)
            except RequestError as error:
                logger.warning("that no client is connected to chat %s could not be noted: %s", key.chat, error.message)
                self._tasks.start(self._detach_later(key), "live-detach-later")

    async def _detach_later(self, key: ChatKey) -> None:
        await asyncio.sleep(_RETRY)
        await self._detach(key)

    async def park(self, conversation: Conversation) -> None:
        """End a conversation if no client is connected to it."""
        try:
            async with self._ownership.owned(conversation.key) as chat:
                if chat.live is conversation and not conversation.attached:
                    await conversation.park()
        except RequestError as error:
            logger.warning("the conversation in chat %s is not ended yet: %s", conversation.key.chat, error.message)
            if not conversation.attached:
                self._end_in(_RETRY, conversation)

    def _parked(self, conversation: Conversation) -> None:
        """Forget a conversation that has ended. The caller owns its chat."""
        chat = self._services.chats.get(conversation.key)
        if chat is not None and chat.live is conversation:
            chat.live = None
        self._all.pop(conversation.key, None)
        if (end := self._ends.pop(conversation.key, None)) is not None:
            end.cancel()

    def changed(self, call: CallRecord) -> None:
        """Notify the listeners of a call whose record at the gate has changed."""
        conversation = self._all.get(ChatKey(call.user, call.chat))
        if conversation is not None:
            conversation.listeners.settled(call)

    def handle_stop(self, stop: Stop) -> None:
        """Send the listeners away if another worker takes over or deletes the chat; end a conversation without any."""
        conversation = self._all.get(ChatKey(stop.user, stop.chat))
        if conversation is None:
            return
        if stop.why == "taken-over":
            conversation.listeners.notice("info", TAKEN_OVER, "The conversation goes on in another window.")
        if stop.why in ("taken-over", "deleted"):
            conversation.listeners.end(deleted=stop.why == "deleted")
            self._tasks.start(self._detach(conversation.key), "live-detach")
        if not conversation.attached:
            self._end_soon(conversation)

    def ignores_stop(self, stop: Stop) -> bool:
        """Return True if the chat has a conversation that a stop from another worker leaves alone."""
        conversation = self._all.get(ChatKey(stop.user, stop.chat))
        return conversation is not None and stop.why not in ("stopped", "deleted")

    async def end(self, chat: Chat) -> None:
        """End the conversation of a chat that is being deleted."""
        conversation = next((conversation for conversation in self._all.values() if conversation is chat.live), None)
        if conversation is not None:
            await self._dismiss(conversation, deleted=True)

    async def drain(self) -> None:
        """End all conversations but those in the middle of an answer: the server goes down."""
        await self._dismiss_all([conversation for conversation in self._all.values() if not conversation.is_speaking])

    async def _dismiss(self, conversation: Conversation, *, deleted: bool = False) -> None:
        conversation.listeners.end(deleted=deleted)
        await self._detach(conversation.key)
        await conversation.park()

    async def _dismiss_all(self, conversations: Sequence[Conversation]) -> None:
        ends = await asyncio.gather(*map(self._dismiss, conversations), return_exceptions=True)
        for failure in ends:
            if failure is not None:
                logger.error("a live conversation could not be parked", exc_info=failure)

    async def close(self) -> None:
        """End all conversations."""
        await self._dismiss_all(list(self._all.values()))
        for end in self._ends.values():
            end.cancel()
        await self._tasks.close()
