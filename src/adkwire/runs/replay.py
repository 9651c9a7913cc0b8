"""Replay: a recording answers instead of an agent.

Every chat begins at the beginning of the recording, whatever its id: each turn of the client gets the next answer, each
answer to calls the next continuation. What the client says does not matter.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET

from adkwire.errors import Conflict, NotFound, Unavailable
from adkwire.gate.records import AuditEntry, Given, PendingCall, State
from adkwire.runs import views
from adkwire.runs.adk import ToolInfo
from adkwire.runs.history import user_parts
from adkwire.runs.ids import new_id
from adkwire.runs.news import Item, News
from adkwire.runs.played import PlayedChat, Playing, closing, go_back, pending, prefix_of, summary, told
from adkwire.runs.reading import Place, Reading, check_place, first_of, not_recovered, read
from adkwire.runs.run import Run, fingerprint
from adkwire.runs.serving import NamedModel
from adkwire.runs.sessions import ChatKey
from adkwire.settings import Settings
from adkwire.stores.memory import MemoryStreamLog
from adkwire.wire.chunks import Abort, Finish, decode_chunk
from adkwire.wire.decoder import TurnInput, UserMessage
from adkwire.wire.encoder import Encoder
from adkwire.wire.javascript import iso
from adkwire.wire.messages import UIMessage
from adkwire.wire.profiles import encode_chunks
from adkwire.wire.recordings import RecordedRun, Recording

Speed = Literal["real", "fast", "step"]
_OVER = "The recording has no more answers."
_ANEW = "Open a new chat: it begins anew."


class Step(msgspec.Struct, frozen=True):
    """A chunk that was sent, and how many of its run are left."""

    chat: str
    run: str
    sequence: int
    left: int


class _NoModel(NamedTuple):
    """Nobody answers without the agent either."""

    name: str | None = None
    offline: bool = True


class ReplayedRuns:
    """What a Bridge is to the server, without an agent, a session or a gate: everything comes from a recording."""

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
        self._news = News()
        self._at: dict[ChatKey, PlayedChat] = {}
        self._closing = False
        self._sleep = sleep

    @property
    def agent_name(self) -> str:
        """What is replayed."""
        return f"replay of {self._recording.chat}"

    @property
    def model_name(self) -> None:
        """None: what was said was said."""
        return None

    @property
    def offline(self) -> bool:
        """No model is asked."""
        return True

    @property
    def talks(self) -> bool:
        """What was recorded can be read, not talked with."""
        return False

    @property
    def direct(self) -> NamedModel:
        """No model is asked directly."""
        return _NoModel()

    async def tools(self) -> list[ToolInfo]:
        """What a recording does not tell."""
        return []

    async def start(self, user: str, turn: TurnInput, *, direct: bool = False) -> Run:
        """Play the next answer; a repeated request gets the one it got before."""
        self._refuse_when_closing()
        if direct:
            raise Unavailable("A recording has no model to ask.", hint="Use /api/chat.")
        key, request = ChatKey(user, turn.chat), fingerprint(turn)
        chat = self._at.get(key)
        if chat is not None and (same := _repeated(chat, turn, request)) is not None:
            return same
        if turn.message is None and turn.answers is not None:
            if chat is None or self._next_of(chat, turn.answers.message) is None:
                raise Conflict("The recording does not go on with this message.", hint=_ANEW)
            return await self._play(chat, UserMessage("", ()), request)
        return await self._answer(key, turn, request)

    async def _answer(self, key: ChatKey, turn: TurnInput, request: bytes) -> Run:
        """The next answer to a user; what the recording says to calls that this user left open is passed over."""
        message = turn.message or UserMessage("", ())
        message = message if message.id else message._replace(id=new_id("user"))
        chat = self._at.get(key) or self._new(key, views.title_for(message))
        known = {playing.recorded.message for playing in chat.played}
        runs = self._recording.runs
        at = next((i for i in range(chat.next, len(runs)) if runs[i].message not in known), None)
        if at is None:
            raise Conflict(_OVER, hint=_ANEW)
        await self.stop(*key)
        self._at[key], chat.next = chat, at
        go_back(chat, {turn.replaces, message.id})
        if message.parts:
            chat.messages.append(UIMessage(id=message.id, role="user", parts=user_parts(message.parts)))
        return await self._play(chat, message, request)

    def _new(self, key: ChatKey, title: str) -> PlayedChat:
        now = time.time()
        return PlayedChat(key, title, now, now)

    def _next_of(self, chat: PlayedChat, message: str) -> RecordedRun | None:
        """The next run, if it goes on with this message."""
        runs = self._recording.runs
        found = runs[chat.next] if chat.next < len(runs) else None
        return found if found is not None and found.message == message else None

    async def _play(self, chat: PlayedChat, message: UserMessage, request: bytes = b"") -> Run:
        recorded = self._recording.runs[chat.next]
        chat.next += 1
        chat.answered.clear()
        prefix = prefix_of(chat, recorded.message)
        run = Run(new_id("run"), chat.key, message, Encoder(recorded.message), request=request, prefix=prefix)
        await run.open(self._log, [])
        chat.updated = time.time()
        chat.messages = [one for one in chat.messages if one.id != recorded.message]
        playing = Playing(run, recorded)
        chat.played.append(playing)
        self._news.publish(chat.key.user, Item(type="run-started", chat=chat.key.chat, run=run.id))
        if self._speed != "step":
            playing.task = asyncio.create_task(self._send_all(chat, playing), name=f"adkwire-replay-{run.id}")
        return run

    async def _send_all(self, chat: PlayedChat, playing: Playing) -> None:
        times = playing.recorded.times
        for at in range(len(playing.recorded.entries)):
            if self._speed == "real" and at:
                await self._sleep(max(0, times[at] - times[at - 1]) / 1000)
            await self._send(chat, playing)

    async def _send(self, chat: PlayedChat, playing: Playing) -> None:
        """One chunk more; the last one ends the run."""
        await self._log.append(playing.run.id, [playing.recorded.entries[playing.sent]])
        playing.sent += 1
        if playing.sent == len(playing.recorded.entries):
            await self._end(chat, playing)

    async def _end(self, chat: PlayedChat, playing: Playing) -> None:
        await self._log.close(playing.run.id)
        playing.run.done.set()
        chat.updated = time.time()
        message = told(chat, playing.recorded.message)
        if message is not None:
            chat.messages.append(message)
        self._news.publish(chat.key.user, Item(type="run-ended", chat=chat.key.chat, run=playing.run.id))

    async def step(self) -> Step:
        """Send the next chunk of what is being played, in the chat that went on last."""
        chats = sorted(self._at.values(), key=lambda chat: chat.updated, reverse=True)
        found = [(chat, chat.active) for chat in chats if self._speed == "step"]
        chat, playing = next(((chat, active) for chat, active in found if active is not None), (None, None))
        if chat is None or playing is None:
            hint = "Send a message first." if self._speed == "step" else "Start the replay with --speed step."
            raise Conflict("Nothing waits for a step.", hint=hint)
        number = playing.sent
        await self._send(chat, playing)
        return Step(chat.key.chat, playing.run.id, number, len(playing.recorded.entries) - playing.sent)

    async def answer(self, user: str, chat_id: str, call_id: str, given: Given) -> PendingCall:
        """Take an answer, whatever it says; when no call waits any more the message goes on."""
        chat = self._existing_chat(user, chat_id)
        waiting = {call.tool_call_id: call for call in pending(chat)}
        if call_id not in waiting:
            raise NotFound("There is no such call.")
        chat.answered.add(call_id)
        message = chat.messages[-1].id
        if len(waiting) == 1 and self._next_of(chat, message) is not None:
            await self._play(chat, UserMessage("", ()))
        call = waiting[call_id]
        return PendingCall(
            user=user,
            chat=chat_id,
            call=call_id,
            message=message,
            tool=call.tool,
            state=State.ANSWERED,
            input=call.input,
            bound="",
        )

    async def stop(self, user: str, chat_id: str, run_id: str | None = None) -> bool:
        """Leave out the rest of what is being played."""
        chat = self._at.get(ChatKey(user, chat_id))
        playing = chat.active if chat is not None else None
        if chat is None or playing is None or run_id not in (None, playing.run.id):
            return False
        await _cancel(playing)
        if playing.run.active:
            sent = map(decode_chunk, playing.recorded.entries[: playing.sent])
            await self._log.append(
                playing.run.id, encode_chunks([*closing(sent), Abort(), Finish(message_metadata={})])
            )
            await self._end(chat, playing)
        return True

    def running(self, user: str, chat_id: str) -> Run | None:
        """What is being played in a chat."""
        chat = self._at.get(ChatKey(user, chat_id))
        return chat.active.run if chat is not None and chat.active is not None else None

    async def follow(self, user: str, chat_id: str, after: Place | None = None) -> Reading | None:
        """Go on reading what is played, or was."""
        chat = self._at.get(ChatKey(user, chat_id))
        if after is None:
            running = self.running(user, chat_id)
            return None if running is None else self.reading(running, whole=True)
        run = next((one.run for one in chat.played if one.run.id == after.run), None) if chat is not None else None
        if run is None:
            raise not_recovered()
        await check_place(self._log, after)
        return self.reading(run, after=after.number)

    def reading(self, run: Run, *, after: int | None = None, whole: bool = False) -> Reading:
        """Read what is played from its beginning or from behind a number."""

        async def writes() -> bool:
            return run.active

        first = first_of(run, after, whole=whole)
        return Reading(run.id, read(self._log, run.id, first, self.settings.heartbeat, writes))

    async def chats(self, user: str, *, limit: int, before: str | None) -> views.ChatList:
        """The chats that have begun; at first the recorded one, to be opened and begun."""
        mine = [chat for key, chat in self._at.items() if key.user == user]
        first = self._new(ChatKey(user, self._recording.chat), self.agent_name)
        mine.sort(key=lambda chat: chat.updated, reverse=True)
        page = [summary(chat) for chat in mine or [first]] if before is None else []
        return views.ChatList(page[:limit], UNSET)

    async def history(
        self, user: str, chat_id: str, *, limit: int | None = None, before: str | None = None
    ) -> views.ChatHistory:
        """What has been played in a chat."""
        chat = self._existing_chat(user, chat_id)
        messages, more = views.page(chat.messages, limit, before)
        active = chat.active
        return views.ChatHistory(
            id=chat_id,
            title=chat.title,
            created_at=iso(chat.created),
            updated_at=iso(chat.updated),
            active=views.ActiveRun(active.run.id) if active is not None else None,
            messages=messages,
            pending=pending(chat),
            next=more,
        )

    def _existing_chat(self, user: str, chat_id: str) -> PlayedChat:
        key = ChatKey(user, chat_id)
        chat = self._at.get(key)
        if chat is None and chat_id == self._recording.chat:
            return self._new(key, self.agent_name)
        if chat is None:
            raise NotFound("There is no such chat.")
        return chat

    async def rename(self, user: str, chat_id: str, title: str) -> views.ChatSummary:
        """Give a chat another title."""
        chat = self._existing_chat(user, chat_id)
        chat.title = title
        return summary(chat)

    async def delete(self, user: str, chat_id: str) -> None:
        """Forget how far a chat has come."""
        self._existing_chat(user, chat_id)
        await self.stop(user, chat_id)
        await self._log.forget(user, chat_id)
        self._at.pop(ChatKey(user, chat_id), None)
        self._news.publish(user, Item(type="chat-updated", chat=chat_id))

    async def audit(self, user: str, chat_id: str) -> list[AuditEntry]:
        """Nobody has decided anything."""
        self._existing_chat(user, chat_id)
        return []

    async def news(self, user: str) -> AsyncGenerator[Item | None, None]:
        """What is played in a user's chats."""
        self._refuse_when_closing()
        async with aclosing(self._news.listen(user, self.settings.heartbeat)) as items:
            async for item in items:
                yield item

    def _refuse_when_closing(self) -> None:
        if self._closing:
            raise Unavailable("The server is going down.", hint="Try again in a moment.")

    def watch(self) -> None:
        """There is nothing to look after."""

    async def ready(self) -> bool:
        """Whether it plays."""
        return not self._closing

    @property
    def writing(self) -> list[Run]:
        """Nothing that is worth waiting for when the server goes down."""
        return []

    async def close(self, *, drain: float | None = None) -> None:
        """Stop playing."""
        await self.drain(0)

    async def drain(self, seconds: float) -> None:
        """Stop playing: nothing is lost by it."""
        self._closing = True
        self._news.close()
        for chat in self._at.values():
            await self.stop(*chat.key)


async def _cancel(playing: Playing) -> None:
    if playing.task is not None and not playing.task.done():
        playing.task.cancel()
        await asyncio.wait([playing.task])


def _repeated(chat: PlayedChat, turn: TurnInput, request: bytes) -> Run | None:
    """The run that the same request began. A regeneration may be meant anew once the last one has ended."""
    if turn.message is not None and not turn.message.id:
        return None
    same = next((playing.run for playing in chat.played if playing.run.request == request), None)
    return same if same is not None and (same.active or turn.trigger == "submit-message") else None
