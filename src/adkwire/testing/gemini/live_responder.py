"""The model's side of an emulated Live session: plays the steps of each turn and sends the messages to the client."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from adkwire.testing.gemini.generate_content import Json, Send
from adkwire.testing.gemini.live_protocol import (
    GeminiLiveStep,
    Generated,
    Hear,
    Interrupt,
    ServerContent,
    Setup,
    Sound,
    server_content,
    server_contents,
)
from adkwire.testing.gemini.session_conversation import SessionConversation, UnansweredInput, usage
from adkwire.testing.steps import Call, Cite, Drop, GoAway, Resumption, Say, Show, Think, Wait

_MAX_REASON = 120
"""Bytes of a reason that fit into a close frame."""


class ClientSocket:
    """The connection to the client, for sending."""

    def __init__(self, socket: WebSocket, cut: Callable[[], None], sent: list[Json]) -> None:
        self._socket = socket
        self._cut = cut
        self._sent = sent
        self._closed = False

    async def send(self, message: Mapping[str, Any] | bytes) -> None:
        """Send a message in a binary frame, as Google does."""
        if self._closed:
            raise WebSocketDisconnect
        if isinstance(message, bytes):
            await self._socket.send_bytes(message)
            return
        await self._socket.send_bytes(json.dumps(dict(message)).encode())
        self._sent.append(dict(message))

    async def drop(self, drop: Drop) -> None:
        """Close the connection with a code, or abort it for code 1006."""
        if self._closed:
            return
        self._closed = True
        if drop.code == 1006:
            self._cut()
        else:
            await self._socket.close(drop.code, drop.reason.encode()[:_MAX_REASON].decode(errors="ignore"))


class SharedState(Protocol):
    """State of the emulator that all its sessions share."""

    discards: bool
    """True when an interruption cancels the calls without a response."""

    def new_handle(self, conversation: SessionConversation) -> str:
        """Return a new resumption handle for a conversation."""
        ...

    def new_call_id(self) -> str:
        """Return a new id for a call."""
        ...


class LiveResponder:
    """Answers the unanswered input of a conversation, one turn at a time."""

    def __init__(
        self,
        client: ClientSocket,
        setup: Setup,
        conversation: SessionConversation,
        shared: SharedState,
        script: Callable[[UnansweredInput], Iterable[GeminiLiveStep]],
    ) -> None:
        self.conversation = conversation
        self.unanswered = UnansweredInput()
        self._client = client
        self._setup = setup
        self._shared = shared
        self._script = script
        self._turn: asyncio.Task[None] | None = None
        self._turn_open = False
        """True from the beginning of a turn until `turnComplete` was sent."""
        self._answer_again = False
        """True when input came during the turn that needs an answer after it."""
        self._generated = False
        """True when `generationComplete` was sent in this turn."""
        self._pieces = 0
        """Content messages sent in this turn, for its usage."""

    def answer(self) -> None:
        """Begin a turn: now, or when the current turn is over and all responses that the model waits for have come."""
        if self.conversation.pending:
            return
        if self._turn is not None:
            self._answer_again = True
            return
        unanswered, self.unanswered = self.unanswered, UnansweredInput()
        self.conversation.begin_answer()
        self._turn_open = True
        self._turn = asyncio.create_task(self._play(unanswered), name="gemini-emulator-live")

    async def interrupt(self) -> None:
        """Interrupt the model's turn, if there is one."""
        if self._turn_open:
            await self.do(Interrupt())

    async def stop(self) -> None:
        """Stop the turn that is being played."""
        turn, self._turn, self._answer_again = self._turn, None, False
        if turn is not None:
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)

    async def do(self, step: GeminiLiveStep) -> None:
        """Play a step now, beside the turn that is being played."""
        if isinstance(step, Interrupt):
            await self.stop()
        await self._step(step)

    async def _play(self, unanswered: UnansweredInput) -> None:
        try:
            await self._play_steps(self._script(unanswered))
        except WebSocketDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the test of a script that fails in any way must see the failure
            await self._client.drop(Drop(1008, f"The script failed: {error!r}"))
            return
        self._turn = None
        if self._answer_again:
            self._answer_again = False
            self.answer()

    async def _play_steps(self, steps: Iterable[GeminiLiveStep]) -> None:
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
        if self._turn_open and not self.conversation.pending:
            if self._pieces and not self._generated:
                await self._step(Generated())
            await self._complete()

    async def _step(self, step: GeminiLiveStep) -> None:
        match step:
            case Wait(event):
                await event.wait()
            case Generated():
                self._generated = True
                await self._client.send(server_content({"generationComplete": True}))
            case Interrupt():
                await self._end_interrupted()
            case Resumption(resumable):
                update = self._resumption_update() if resumable else {}
                await self._client.send({"sessionResumptionUpdate": update})
            case GoAway(seconds):
                await self._client.send({"goAway": {"timeLeft": f"{seconds:g}s"}})
            case Drop():
                await self._client.drop(step)
            case Send(data):
                await self._client.send(data)
            case Hear(text):
                self.conversation.replace_speech(text)
                await self._send_contents(server_contents(step, self._setup))
            case Say() | Think() | Show() | Sound() | Cite():
                if self.conversation.pending:
                    raise ValueError(f"{step} follows a call, and the model is silent until it has the response")
                await self._send_contents(server_contents(step, self._setup))
            case Call():
                await self._call([step])

    def _resumption_update(self) -> Json:
        return {"newHandle": self._shared.new_handle(self.conversation), "resumable": True}

    async def _send_contents(self, contents: Iterable[ServerContent]) -> None:
        for message, part in contents:
            self._turn_open = True
            await self._client.send(message)
            self._pieces += 1
            if part is not None:
                self.conversation.add_model_part(part)

    async def _call(self, steps: Sequence[Call]) -> None:
        """Send calls together. A 2.5 model ends its turn with them; a 3.x model ends it after the final answer."""
        if not steps:
            return
        calls: list[Json] = [
            {"name": step.name, "args": dict(step.args), "id": step.id or self._shared.new_call_id()} for step in steps
        ]
        for call in calls:
            self.conversation.calls[call["id"]] = call["name"]
            self.conversation.add_model_part({"functionCall": call})
            if self._setup.blocking(call["name"]):
                self.conversation.pending[call["id"]] = None
        await self._client.send({"toolCall": {"functionCalls": calls}})
        if not self._setup.is_3x:
            await self._complete()

    async def _end_interrupted(self) -> None:
        if self._shared.discards and (cancelled := self.conversation.discard()):
            await self._client.send({"toolCallCancellation": {"ids": cancelled}})
        await self._client.send(server_content({"interrupted": True}))
        await self._complete()

    async def _complete(self) -> None:
        self._turn_open = False
        tokens = usage(self.conversation, self._pieces)
        await self._client.send({**server_content({"turnComplete": True}), "usageMetadata": tokens})
        if self._setup.resumable:
            await self._step(Resumption())
