"""Replay: a recording answers in the place of an agent.

Every chat begins at the beginning of the recording, whatever its id: each user message gets the next recorded answer,
each answer to calls the next recorded continuation. The content of the client's messages does not matter.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET

from adkwire.adk.app import ToolInfo
from adkwire.adk.turns import user_parts
from adkwire.errors import Conflict, NotFound, Unavailable
from adkwire.gate.records import AuditEntry, CallRecord, State, UncheckedAnswer
from adkwire.recording import replay_chat
from adkwire.recording.replay_chat import ReplayedChat, ReplayedRun
from adkwire.runs import views
from adkwire.runs.chat_events import ChatEvent, ChatEvents
from adkwire.runs.readers import Position, Reading, check_position, first_number, not_recovered, read
from adkwire.runs.run import Run, fingerprint, new_id
from adkwire.settings import Settings
from adkwire.stores.base import ChatKey
from adkwire.stores.memory import MemoryStreamLog
from adkwire.wire.chunks import Abort, Finish, decode_chunk
from adkwire.wire.decode.decoder import TurnInput, UserMessage
from adkwire.wire.encode.encoder import Encoder
from adkwire.wire.messages import UIMessage
from adkwire.wire.profiles import encode_chunks
from adkwire.wire.recording_lines import RecordedRun, Recording

Speed = Literal["real", "fast", "step"]
_NO_MORE_ANSWERS = "The recording has no more answers."
_HINT = "Open a new chat: it replays the recording from its beginning."


class SentStep(msgspec.Struct, frozen=True):
    """The chunk that `POST /api/replay/step` sent, and how many chunks of its run are left."""

    chat: str
    run: str
    sequence: int
    left: int


class NoModel(NamedTuple):
    """No model: a recording has none to ask directly."""

    name: str | None = None
    offline: bool = True


class ReplayBackend:
    """Answers the server in the place of a `Bridge`, without an agent, a session or a gate: from a recording."""

    recorder = None

    def __init__(
        self,
        recording: Recording,
        speed: Speed,
        settings: Settings,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.settings = settings
        self._recording = recording
        self._speed = speed
        self._log = MemoryStreamLog(ttl=settings.stream_ttl, max_bytes=settings.stream_bytes)
        self._chat_events = ChatEvents()
        self._chats: dict[ChatKey, ReplayedChat] = {}
        self._closing = False
        self._sleep = sleep

    @property
    def agent_name(self) -> str:
        """The name of the recording."""
        return f"replay of {self._recording.chat}"

    @property
    def model_name(self) -> None:
        """None: a recording has no model."""
        return None

    @property
    def offline(self) -> bool:
        """True: no model is asked."""
        return True

    @property
    def supports_live(self) -> bool:
        """False: a recording cannot be talked with live."""
        return False

    @property
    def direct(self) -> NoModel:
        """No model: a recording has none to ask directly."""
        return NoModel()

    async def tools(self) -> list[ToolInfo]:
        """Return no tools: a recording does not contain them."""
        return []

    async def start(self, user: str, turn: TurnInput, *, direct: bool = False) -> Run:
        """Replay the next answer; a repeated request gets the run that it started before."""
        self._refuse_when_closing()
        if direct:
            raise Unavailable("A recording has no model to ask.", hint="Use /api/chat.")
        key, request = ChatKey(user, turn.chat), fingerprint(turn)
        chat = self._chats.get(key)
        if chat is not None and (same := _repeated(chat, turn, request)) is not None:
            return same
        if turn.message is None and turn.answers is not None:
            if chat is None or self._next_of(chat, turn.answers.message) is None:
                raise Conflict("The recording does not go on with this message.", hint=_HINT)
            return await self._replay(chat, UserMessage("", ()), request)
        return await self._answer(key, turn, request)

    async def _answer(self, key: ChatKey, turn: TurnInput, request: bytes) -> Run:
        """Replay the next answer to a user message. Continuations of calls that were not answered are left out."""
        message = turn.message or UserMessage("", ())
        message = message if message.id else message._replace(id=new_id("user"))
        chat = self._chats.get(key) or self._new(key, views.title_for(message))
        known = {replayed.recorded.message for replayed in chat.runs}
        runs = self._recording.runs
        at = next((i for i in range(chat.next, len(runs)) if runs[i].message not in known), None)
        if at is None:
            raise Conflict(_NO_MORE_ANSWERS, hint=_HINT)
        await self.stop(*key)
        self._chats[key], chat.next = chat, at
        replay_chat.drop_messages_from(chat, {turn.replaces, message.id})
        if message.parts:
            chat.messages.append(UIMessage(id=message.id, role="user", parts=user_parts(message.parts)))
        return await self._replay(chat, message, request)

    def _new(self, key: ChatKey, title: str) -> ReplayedChat:
        now = time.time()
        return ReplayedChat(key, title, now, now)

    def _next_of(self, chat: ReplayedChat, message: str) -> RecordedRun | None:
        """Return the next recorded run if it continues this message."""
        runs = self._recording.runs
        found = runs[chat.next] if chat.next < len(runs) else None
        return found if found is not None and found.message == message else None

    async def _replay(self, chat: ReplayedChat, message: UserMessage, request: bytes = b"") -> Run:
        recorded = self._recording.runs[chat.next]
        chat.next += 1
        chat.answered.clear()
        prefix = replay_chat.prefix_of(chat, recorded.message)
        run = Run(new_id("run"), chat.key, message, Encoder(recorded.message), request=request, prefix=prefix)
        await run.open(self._log, [])
        chat.updated = time.time()
        chat.messages = [one for one in chat.messages if one.id != recorded.message]
        replayed = ReplayedRun(run, recorded)
        chat.runs.append(replayed)
        self._chat_events.publish(chat.key.user, ChatEvent(type="run-started", chat=chat.key.chat, run=run.id))
        if self._speed != "step":
            replayed.task = asyncio.create_task(self._send_all(chat, replayed), name=f"adkwire-replay-{run.id}")
        return run

    async def _send_all(self, chat: ReplayedChat, replayed: ReplayedRun) -> None:
        times = replayed.recorded.times
        for at in range(len(replayed.recorded.entries)):
            if self._speed == "real" and at:
                await self._sleep(max(0, times[at] - times[at - 1]) / 1000)
            await self._send(chat, replayed)

    async def _send(self, chat: ReplayedChat, replayed: ReplayedRun) -> None:
        """Send the next chunk; the last chunk ends the run."""
        await self._log.append(replayed.run.id, [replayed.recorded.entries[replayed.sent]])
        replayed.sent += 1
        if replayed.sent == len(replayed.recorded.entries):
            await self._end(chat, replayed)

    async def _end(self, chat: ReplayedChat, replayed: ReplayedRun) -> None:
        # Before the log is closed: a client that has read the end must not find the run active.
        replayed.run.done.set()
        chat.updated = time.time()
        message = replay_chat.message_of(chat, replayed.recorded.message)
        if message is not None:
            chat.messages.append(message)
        await self._log.close(replayed.run.id)
        self._chat_events.publish(chat.key.user, ChatEvent(type="run-ended", chat=chat.key.chat, run=replayed.run.id))

    async def step(self) -> SentStep:
        """Send the next chunk of the run that is being replayed, in the chat that was updated last."""
        chats = sorted(self._chats.values(), key=lambda chat: chat.updated, reverse=True)
        found = [(chat, chat.active) for chat in chats if self._speed == "step"]
        chat, replayed = next(((chat, active) for chat, active in found if active is not None), (None, None))
        if chat is None or replayed is None:
            hint = "Send a message first." if self._speed == "step" else "Start the replay with --speed step."
            raise Conflict("No run waits for a step.", hint=hint)
        number = replayed.sent
        await self._send(chat, replayed)
        return SentStep(chat.key.chat, replayed.run.id, number, len(replayed.recorded.entries) - replayed.sent)

    async def answer(self, user: str, chat_id: str, call_id: str, answer: UncheckedAnswer) -> CallRecord:
        """Accept any answer to a pending call; after the last one replay the continuation of the message."""
        chat = self._existing_chat(user, chat_id)
        pending = {call.tool_call_id: call for call in replay_chat.pending(chat)}
        if call_id not in pending:
            raise NotFound("There is no such call.")
        chat.answered.add(call_id)
        message = chat.messages[-1].id
        if len(pending) == 1 and self._next_of(chat, message) is not None:
            await self._replay(chat, UserMessage("", ()))
        call = pending[call_id]
        return CallRecord(
            user=user,
            chat=chat_id,
            call=call_id,
            message=message,
            tool=call.tool,
            state=State.ANSWERED,
            input=call.input,
            args_hash="",
        )

    async def stop(self, user: str, chat_id: str, run_id: str | None = None) -> bool:
        """Stop the run that is being replayed: the rest of its chunks is not sent."""
        chat = self._chats.get(ChatKey(user, chat_id))
        replayed = chat.active if chat is not None else None
        if chat is None or replayed is None or run_id not in (None, replayed.run.id):
            return False
        await _cancel(replayed)
        if replayed.run.active:
            sent = map(decode_chunk, replayed.recorded.entries[: replayed.sent])
            await self._log.append(
                replayed.run.id,
                encode_chunks(
                    [*replay_chat.closing_chunks(sent), Abort(), Finish(message_metadata={"ended": "stopped"})]
                ),
            )
            await self._end(chat, replayed)
        return True

    def running(self, user: str, chat_id: str) -> Run | None:
        """Return the run that is being replayed in a chat."""
        chat = self._chats.get(ChatKey(user, chat_id))
        return chat.active.run if chat is not None and chat.active is not None else None

    async def follow(
        self, user: str, chat_id: str, after: Position | None = None, *, run: str | None = None
    ) -> Reading | None:
        """Return a reading of the active run, of a run after a position, or of the whole message of a run."""
        named = after.run if after is not None else run
        if named is None:
            running = self.running(user, chat_id)
            return None if running is None else self.reading(running, whole=True)
        chat = self._chats.get(ChatKey(user, chat_id))
        runs = [replayed.run for replayed in chat.runs] if chat is not None else []
        found = next((one for one in runs if one.id == named), None)
        if found is None or await self._log.head(named) is None:
            raise not_recovered()
        if after is None:
            newest = next(one for one in reversed(runs) if one.message_id == found.message_id)
            return self.reading(newest, whole=True)
        await check_position(self._log, after)
        return self.reading(found, after=after.number)

    def reading(self, run: Run, *, after: int | None = None, whole: bool = False) -> Reading:
        """Read a run from its beginning, or after a number."""

        async def is_written() -> bool:
            return run.active

        first = first_number(run, after, whole=whole)
        return Reading(run.id, read(self._log, run.id, first, self.settings.heartbeat, is_written))

    async def chats(self, user: str, *, limit: int, before: str | None) -> views.ChatList:
        """Return the user's chats; before the first one has begun, the recorded chat, so that a page can open it."""
        begun = [chat for key, chat in self._chats.items() if key.user == user]
        recorded = self._new(ChatKey(user, self._recording.chat), self.agent_name)
        begun.sort(key=lambda chat: chat.updated, reverse=True)
        page = [replay_chat.summary(chat) for chat in begun or [recorded]] if before is None else []
        return views.ChatList(page[:limit], UNSET)

    async def history(
        self, user: str, chat_id: str, *, limit: int | None = None, before: str | None = None
    ) -> views.ChatHistory:
        """Return what has been replayed in a chat."""
        return replay_chat.history(self._existing_chat(user, chat_id), limit=limit, before=before)

    def _existing_chat(self, user: str, chat_id: str) -> ReplayedChat:
        key = ChatKey(user, chat_id)
        chat = self._chats.get(key)
        if chat is None and chat_id == self._recording.chat:
            return self._new(key, self.agent_name)
        if chat is None:
            raise NotFound("There is no such chat.")
        return chat

    async def rename(self, user: str, chat_id: str, title: str) -> views.ChatSummary:
        """Set the title of a chat."""
        chat = self._existing_chat(user, chat_id)
        chat.title = title
        return replay_chat.summary(chat)

    async def delete(self, user: str, chat_id: str) -> None:
        """Delete a chat: the next message in it begins at the beginning of the recording."""
        self._existing_chat(user, chat_id)
        await self.stop(user, chat_id)
        await self._log.forget(user, chat_id)
        self._chats.pop(ChatKey(user, chat_id), None)
        self._chat_events.publish(user, ChatEvent(type="chat-updated", chat=chat_id))

    async def audit(self, user: str, chat_id: str) -> list[AuditEntry]:
        """Return no entries: a replay decides nothing."""
        self._existing_chat(user, chat_id)
        return []

    async def recording(self, user: str, chat_id: str) -> AsyncGenerator[bytes, None]:
        """Raise `NotFound`: a replay is not recorded again."""
        raise NotFound("A replay is not recorded.")

    async def grants(self, user: str, *, limit: int, before: int | None) -> views.GrantList:
        """Return no grants: a replay decides nothing."""
        return views.GrantList([])

    async def revoke(self, user: str, grant_id: int) -> None:
        """Raise `NotFound`: there are no grants."""
        raise NotFound("There is no such grant.")

    async def events(self, user: str) -> AsyncGenerator[ChatEvent | None, None]:
        """Yield the chat events of a user; None is a heartbeat."""
        self._refuse_when_closing()
        async with aclosing(self._chat_events.listen(user, self.settings.heartbeat)) as items:
            async for item in items:
                yield item

    def _refuse_when_closing(self) -> None:
        if self._closing:
            raise Unavailable("The server is going down.", hint="Try again in a moment.")

    def watch(self) -> None:
        """Do nothing: there are no calls or runs to look after."""

    async def ready(self) -> bool:
        """Return whether the server can start a run."""
        return not self._closing

    @property
    def active_runs(self) -> list[Run]:
        """No runs: nothing is lost when the server goes down."""
        return []

    async def close(self, *, drain: float | None = None) -> None:
        """Stop all runs."""
        await self.drain(0)

    async def drain(self, seconds: float) -> None:
        """Stop all runs at once: nothing is lost by it."""
        self._closing = True
        self._chat_events.close()
        for chat in self._chats.values():
            await self.stop(*chat.key)


async def _cancel(replayed: ReplayedRun) -> None:
    if replayed.task is not None and not replayed.task.done():
        replayed.task.cancel()
        await asyncio.wait([replayed.task])


def _repeated(chat: ReplayedChat, turn: TurnInput, request: bytes) -> Run | None:
    """Return the run that the same request started. The same regeneration after that run's end is a new request."""
    if turn.message is not None and not turn.message.id:
        return None
    same = next((replayed.run for replayed in chat.runs if replayed.run.request == request), None)
    return same if same is not None and (same.active or turn.trigger == "submit-message") else None
