"""The live connection to a model that plays steps: it receives the user's input and answers as Gemini Live does."""

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

from adkwire.testing.live_responses import INPUT_RATE, Manner, transcript_responses
from adkwire.testing.steps import Drop, Step
from adkwire.testing.turn_player import ModelConversation, TurnPlayer, is_response

MAX_SPEECH = INPUT_RATE * 2 * 300
"""Bytes of one speech that are kept, five minutes: an open microphone must not fill the memory."""


class ModelConnection(BaseLlmConnection):
    """One live connection to a model. Subclasses define the answers with `answer`."""

    def __init__(self, request: LlmRequest, model: str, manner: Manner, conversation: ModelConversation) -> None:
        audio_output = types.Modality.AUDIO in (request.live_connect_config.response_modalities or [])
        self.request = request
        self.conversation = conversation
        self.closed = False
        self.player = TurnPlayer(model, manner, conversation, audio_output=audio_output)
        self._model = model
        self._manner = manner
        self._task: asyncio.Task[None] | None = None
        self._interjections: deque[Sequence[Step]] = deque()
        self._unanswered = False
        """True when the user's last input has no answer yet."""
        self._speech = bytearray()
        """Audio of the user's current speech."""

    @abstractmethod
    def answer(self, request: LlmRequest) -> Iterable[Step]:
        """Return the steps of the answer to this request; its contents are the conversation."""

    def hear(self, sound: bytes) -> str:
        """Return the transcript of the user's speech."""
        return self._manner.hears(sound)

    def weigh(self, contents: Sequence[types.Content]) -> int:
        """Return the number of tokens in a prompt."""
        del contents
        return 0

    def interject(self, *steps: Step) -> None:
        """Play steps without an input of the user, after the current turn: `Drop(1011)` ends an idle connection."""
        self._interjections.append(steps)
        self._start_turn_if_due()

    async def send_history(self, history: list[types.Content]) -> None:
        """Replace the conversation by a history, and answer it if it ends with a user content."""
        self._check_connected()
        self.conversation.contents[:] = [content.model_copy(deep=True) for content in history]
        self._unanswered = bool(history) and history[-1].role == "user"
        self._start_turn_if_due()

    async def send_content(self, content: types.Content) -> None:
        """Receive a message of the user, which interrupts the model, or tool responses, which do not."""
        await self._send_content(content)

    async def _send_content(self, content: types.Content, *, partial: bool = False) -> None:
        self._check_connected()
        content = content.model_copy(deep=True)
        if is_response(content):
            self.conversation.respond(content.parts or [])
        else:
            if not partial:
                await self._interrupt()
            self.conversation.contents.append(content)
        self._unanswered = self._unanswered or not partial
        self._start_turn_if_due()

    # ADK's signature names blobs only, and then sends marks too.
    async def send_realtime(self, blob: RealtimeInput) -> None:
        """Receive audio, an image of a video, or a mark of where speech begins and ends."""
        self._check_connected()
        match blob:
            case types.ActivityStart():
                self._speech.clear()
                await self._interrupt()
            case types.ActivityEnd():
                self._end_speech()
            case types.LiveClientRealtimeInput():
                if blob.audio_stream_end:
                    self._end_speech()
            case types.Blob():
                if (blob.mime_type or "").startswith("audio/"):
                    self._speech += (blob.data or b"")[: MAX_SPEECH - len(self._speech)]

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        """Yield the responses up to the end of the next turn; none when the connection is closed."""
        while not self.closed:
            item = await self.player.out.get()
            # Responses that are left when a connection is closed must not reach the agent that took over from this one.
            if item is None or self.closed:
                return
            if isinstance(item, Exception):
                # The same instance may be raised many times: do not let tracebacks pile up on it.
                raise item.with_traceback(None)
            yield item
            if item.turn_complete:
                return

    async def close(self) -> None:
        """Stop the current turn and end `receive`."""
        self.closed = True
        await self._stop_turn()
        self.player.out.put_nowait(None)

    def _end_speech(self) -> None:
        speech = bytes(self._speech)
        self._speech.clear()
        # A client also sends the two marks without audio, to interrupt the model: there is nothing to answer then.
        if speech and (text := self.hear(speech)):
            self._add_transcript(text)
        self._start_turn_if_due()

    def _add_transcript(self, text: str) -> None:
        self.conversation.contents.append(types.Content(role="user", parts=[types.Part(text=text)]))
        self._unanswered = True
        transcript = transcript_responses(text, self._model)
        if self._manner.transcript == "early":
            self.player.put(*transcript)
        else:
            self.player.late_transcripts += transcript

    def _start_turn_if_due(self) -> None:
        if self._is_turn_due() and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._play_turns(), name=f"{self._model} live turns")

    def _is_turn_due(self) -> bool:
        if self.closed or self.player.lost:
            return False
        return bool(self._interjections) or (self._unanswered and not self._waits_for_responses())

    def _waits_for_responses(self) -> bool:
        contents = self.conversation.contents
        return bool(self.conversation.waiting) and (self._manner.blocking or is_response(contents[-1]))

    async def _play_turns(self) -> None:
        try:
            while self._is_turn_due():
                await self.player.turn(self._next_steps(), self.weigh(self.conversation.contents))
        except Exception as error:  # noqa: BLE001 - `receive` raises whatever the script raises
            self.player.fail(error)

    def _next_steps(self) -> Iterable[Step]:
        if self._interjections:
            return self._interjections.popleft()
        self._unanswered = False
        return self.answer(self.request.model_copy(update={"contents": self.conversation.copy()}))

    async def _interrupt(self) -> None:
        if self.player.in_turn:
            await self._stop_turn()
            self.player.interrupt()

    async def _stop_turn(self) -> None:
        if self._task and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    def _check_connected(self) -> None:
        if lost := self.player.lost:
            raise _connection_closed(lost)


def _connection_closed(lost: Drop) -> ConnectionClosedError:
    """Return the error that websockets raises when something is sent on a lost connection."""
    received = None if lost.code == 1006 else Close(lost.code, lost.reason)
    return ConnectionClosedError(received, None)
