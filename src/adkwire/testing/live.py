"""The live connection of a model that plays scripts: it listens, and answers the way Gemini Live does."""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence

from google.adk.models.base_llm_connection import BaseLlmConnection, RealtimeInput
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close

from adkwire.testing.speech import INPUT_RATE, Manner, transcribed
from adkwire.testing.steps import Drop, Step
from adkwire.testing.talking import Conversation, Talker, is_response

LONGEST = INPUT_RATE * 2 * 300
"""What is said after five minutes without a pause is not listened to: an open microphone must not fill the memory."""


class LiveConnection(BaseLlmConnection):
    """One live connection. What it answers is up to `answer`."""

    def __init__(self, request: LlmRequest, model: str, manner: Manner, conversation: Conversation) -> None:
        aloud = types.Modality.AUDIO in (request.live_connect_config.response_modalities or [])
        self.request = request
        self.conversation = conversation
        self.closed = False
        self.talker = Talker(model, manner, conversation, aloud=aloud)
        self._model = model
        self._manner = manner
        self._task: asyncio.Task[None] | None = None
        self._unasked: deque[Sequence[Step]] = deque()
        self._due = False
        self._sound = bytearray()

    @abstractmethod
    def answer(self, request: LlmRequest) -> Iterable[Step]:
        """The steps of the answer to this request, whose contents are the conversation."""

    def hear(self, sound: bytes) -> str:
        """The transcript of what was said."""
        return self._manner.hears(sound)

    def weigh(self, contents: Sequence[types.Content]) -> int:
        """How many tokens a prompt has."""
        del contents
        return 0

    def interject(self, *steps: Step) -> None:
        """Play steps that nobody asked for, after what is being said: `Drop(1011)` cuts an idle connection."""
        self._unasked.append(steps)
        self._go_on()

    async def send_history(self, history: list[types.Content]) -> None:
        """Take over a conversation; if the user has the last word in it, answer."""
        self._check()
        self.conversation.contents[:] = [content.model_copy(deep=True) for content in history]
        self._due = bool(history) and history[-1].role == "user"
        self._go_on()

    async def send_content(self, content: types.Content) -> None:
        """Take a message, which interrupts, or responses of tools, which do not."""
        await self._send_content(content)

    async def _send_content(self, content: types.Content, *, partial: bool = False) -> None:
        self._check()
        content = content.model_copy(deep=True)
        if is_response(content):
            self.conversation.respond(content.parts or [])
        else:
            if not partial:
                await self._interrupt()
            self.conversation.contents.append(content)
        self._due = self._due or not partial
        self._go_on()

    # ADK's signature names blobs only, and then sends marks too.
    async def send_realtime(self, blob: RealtimeInput) -> None:
        """Take sound, a frame of video, or a mark of where speech begins and ends."""
        self._check()
        match blob:
            case types.ActivityStart():
                self._sound.clear()
                await self._interrupt()
            case types.ActivityEnd():
                self._listen()
            case types.LiveClientRealtimeInput():
                if blob.audio_stream_end:
                    self._listen()
            case types.Blob():
                if (blob.mime_type or "").startswith("audio/"):
                    self._sound += (blob.data or b"")[: LONGEST - len(self._sound)]

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        """The responses up to the end of the next turn; none when the connection is closed."""
        while not self.closed:
            item = await self.talker.out.get()
            # What is left when a connection is closed must not reach the agent that took over from this one.
            if item is None or self.closed:
                return
            if isinstance(item, Exception):
                # The same instance may be raised many times: do not let tracebacks pile up on it.
                raise item.with_traceback(None)
            yield item
            if item.turn_complete:
                return

    async def close(self) -> None:
        """Stop talking; `receive` ends."""
        self.closed = True
        await self._hush()
        self.talker.out.put_nowait(None)

    def _listen(self) -> None:
        sound = bytes(self._sound)
        self._sound.clear()
        # Marks without sound between them are how a client interrupts: there is nothing to answer.
        if sound and (text := self.hear(sound)):
            self._heard(text)
        self._go_on()

    def _heard(self, text: str) -> None:
        self.conversation.contents.append(types.Content(role="user", parts=[types.Part(text=text)]))
        self._due = True
        transcript = transcribed(text, self._model)
        if self._manner.transcript == "early":
            self.talker.put(*transcript)
        else:
            self.talker.late += transcript

    def _go_on(self) -> None:
        if self._is_due() and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._talk(), name=f"{self._model} talks")

    def _is_due(self) -> bool:
        if self.closed or self.talker.lost:
            return False
        return bool(self._unasked) or (self._due and not self._is_held())

    def _is_held(self) -> bool:
        said = self.conversation.contents
        return bool(self.conversation.waiting) and (self._manner.blocking or is_response(said[-1]))

    async def _talk(self) -> None:
        try:
            while self._is_due():
                await self.talker.turn(self._next_steps(), self.weigh(self.conversation.contents))
        except Exception as error:  # noqa: BLE001 - whatever the script raises is raised to the reader
            self.talker.fail(error)

    def _next_steps(self) -> Iterable[Step]:
        if self._unasked:
            return self._unasked.popleft()
        self._due = False
        return self.answer(self.request.model_copy(update={"contents": self.conversation.copy()}))

    async def _interrupt(self) -> None:
        if self.talker.speaking:
            await self._hush()
            self.talker.cut()

    async def _hush(self) -> None:
        if self._task and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    def _check(self) -> None:
        if lost := self.talker.lost:
            raise _closed(lost)


def _closed(lost: Drop) -> ConnectionClosedError:
    """What websockets raises when something is sent on a connection that broke."""
    received = None if lost.code == 1006 else Close(lost.code, lost.reason)
    return ConnectionClosedError(received, None)
