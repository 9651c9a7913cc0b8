"""The model's side of an emulated Live session: it takes the word, plays its steps, and gives the word up."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from adkwire.testing.gemini_live_wire import (
    GeminiLiveStep,
    Generated,
    Hear,
    Interrupt,
    Setup,
    Sound,
    Spoken,
    content,
    spoken,
)
from adkwire.testing.gemini_talk import Conversation, News, usage
from adkwire.testing.gemini_wire import Json, Send
from adkwire.testing.steps import Call, Cite, Drop, GoAway, Resumption, Say, Show, Think, Wait

_REASON = 120
"""A close frame holds no more, in bytes."""


class Line:
    """The way to the client."""

    def __init__(self, socket: WebSocket, cut: Callable[[], None], sent: list[Json]) -> None:
        self._socket = socket
        self._cut = cut
        self._sent = sent
        self._over = False

    async def send(self, message: Mapping[str, Any] | bytes) -> None:
        """Send a message, in a binary frame as Google does."""
        if self._over:
            raise WebSocketDisconnect
        if isinstance(message, bytes):
            await self._socket.send_bytes(message)
            return
        await self._socket.send_bytes(json.dumps(dict(message)).encode())
        self._sent.append(dict(message))

    async def drop(self, drop: Drop) -> None:
        """End the connection."""
        if self._over:
            return
        self._over = True
        if drop.code == 1006:
            self._cut()
        else:
            await self._socket.close(drop.code, drop.reason.encode()[:_REASON].decode(errors="ignore"))


class House(Protocol):
    """What all sessions share."""

    discards: bool

    def keep(self, conversation: Conversation) -> str:
        """A new handle for a conversation."""
        ...

    def call_id(self) -> str:
        """A new id for a call."""
        ...


class Speaker:
    """Answers what is new in a conversation, one answer at a time."""

    def __init__(
        self,
        line: Line,
        wants: Setup,
        talk: Conversation,
        house: House,
        script: Callable[[News], Iterable[GeminiLiveStep]],
    ) -> None:
        self.talk = talk
        self.new = News()
        self._line = line
        self._wants = wants
        self._house = house
        self._script = script
        self._playing: asyncio.Task[None] | None = None
        self._open = False  # the model has the word: it has not completed its turn
        self._again = False  # something came meanwhile that wants an answer
        self._generated = False
        self._pieces = 0

    def answer(self) -> None:
        """Let the model speak: now, or when it is done and has all the responses it waits for."""
        if self.talk.pending:
            return
        if self._playing is not None:
            self._again = True
            return
        new, self.new = self.new, News()
        self.talk.take_the_word()
        self._open = True
        self._playing = asyncio.create_task(self._play(new), name="gemini-emulator-live")

    async def interrupt(self) -> None:
        """The user takes the word, if the model has it."""
        if self._open:
            await self.do(Interrupt())

    async def stop(self) -> None:
        """End what is being played."""
        playing, self._playing, self._again = self._playing, None, False
        if playing is not None:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)

    async def do(self, step: GeminiLiveStep) -> None:
        """Do this now, whatever is being played."""
        if isinstance(step, Interrupt):
            await self.stop()
        await self._step(step)

    async def _play(self, new: News) -> None:
        try:
            await self._perform(self._script(new))
        except WebSocketDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - a script may fail in any way, and its test should see it
            await self._line.drop(Drop(1008, f"The script failed: {error!r}"))
            return
        self._playing = None
        if self._again:
            self._again = False
            self.answer()

    async def _perform(self, steps: Iterable[GeminiLiveStep]) -> None:
        self._pieces, self._generated = 0, False
        calls: list[Call] = []
        for step in steps:
            if isinstance(step, Call):
                calls.append(step)
                continue
            await self._call(calls)
            calls = []
            await self._step(step)
            if isinstance(step, Interrupt | Drop):
                return
        await self._call(calls)
        if self._open and not self.talk.pending:
            if self._pieces and not self._generated:
                await self._step(Generated())
            await self._complete()

    async def _step(self, step: GeminiLiveStep) -> None:
        match step:
            case Wait(event):
                await event.wait()
            case Generated():
                self._generated = True
                await self._line.send(content({"generationComplete": True}))
            case Interrupt():
                await self._give_up()
            case Resumption(resumable):
                update = {"newHandle": self._house.keep(self.talk), "resumable": True} if resumable else {}
                await self._line.send({"sessionResumptionUpdate": update})
            case GoAway(seconds):
                await self._line.send({"goAway": {"timeLeft": f"{seconds:g}s"}})
            case Drop():
                await self._line.drop(step)
            case Send(data):
                await self._line.send(data)
            case Hear(text):
                self.talk.understand(text)
                await self._say(spoken(step, self._wants))
            case Say() | Think() | Show() | Sound() | Cite():
                if self.talk.pending:
                    raise ValueError(f"{step} behind a call: the model is silent until it has the response")
                await self._say(spoken(step, self._wants))
            case Call():
                await self._call([step])

    async def _say(self, said: Iterable[Spoken]) -> None:
        for message, part in said:
            self._open = True
            await self._line.send(message)
            self._pieces += 1
            if part is not None:
                self.talk.say(part)

    async def _call(self, steps: Sequence[Call]) -> None:
        """Calls that are made together. A 2.5 model ends its turn with them; a 3.x model ends it after the answer."""
        if not steps:
            return
        calls: list[Json] = [
            {"name": step.name, "args": dict(step.args), "id": step.id or self._house.call_id()} for step in steps
        ]
        for call in calls:
            self.talk.calls[call["id"]] = call["name"]
            self.talk.say({"functionCall": call})
            if self._wants.blocking(call["name"]):
                self.talk.pending[call["id"]] = None
        await self._line.send({"toolCall": {"functionCalls": calls}})
        if not self._wants.third:
            await self._complete()

    async def _give_up(self) -> None:
        if self._house.discards and (void := self.talk.discard()):
            await self._line.send({"toolCallCancellation": {"ids": void}})
        await self._line.send(content({"interrupted": True}))
        await self._complete()

    async def _complete(self) -> None:
        self._open = False
        cost = usage(self.talk, self._pieces)
        await self._line.send({**content({"turnComplete": True}), "usageMetadata": cost})
        if self._wants.resumes:
            await self._step(Resumption())
