"""The input of a user in a live conversation beside typed messages: speech, pictures, interruptions."""

import asyncio
from collections.abc import Awaitable, Callable

from google.genai import types

from adkwire.live.connection import Connector
from adkwire.live.listeners import TAKEN_OVER, Listener, Listeners
from adkwire.live.streamed_turn import ConversationTurns, TurnSignal
from adkwire.tasks import Tasks

_NOISE_TIMEOUT = 10.0
"""Seconds to wait for an answer to speech; then it was a noise, and the state is `listening` again."""


class UserInput:
    """The input of all clients of a conversation. One client at a time has the microphone: the last that spoke.

    `connect` opens a connection for speech; `lock` is the conversation's.
    """

    def __init__(
        self,
        connector: Connector,
        turns: ConversationTurns,
        listeners: Listeners,
        tasks: Tasks,
        lock: asyncio.Lock,
        connect: Callable[[], Awaitable[None]],
    ) -> None:
        self._connector = connector
        self._turns = turns
        self._listeners = listeners
        self._tasks = tasks
        self._lock = lock
        self._connect = connect
        self._microphone: Listener | None = None
        """The client whose audio goes to the model."""

    def audio(self, listener: Listener, pcm: bytes) -> bool:
        """Send 16 kHz audio to the model; return False if its client has not begun to speak."""
        connection = self._connector.current
        if self._microphone is not listener or connection is None or not connection.user_speaks:
            return False
        connection.queue.send_sound(pcm)
        connection.has_audio = True
        return True

    def frame(self, data: bytes, media_type: str) -> bool:
        """Send a picture to the model; return False if no connection is open."""
        connection = self._connector.open
        if connection is not None:
            connection.queue.send_realtime(types.Blob(data=data, mime_type=media_type))
        return connection is not None

    async def activity(self, listener: Listener, *, start: bool) -> None:
        """Begin or end the speech of a client. The one that begins takes the microphone."""
        if self._microphone is not listener:
            if not start:
                return
            before, self._microphone = self._microphone, listener
            if before is not None and before in self._listeners.all:
                before.notice("info", TAKEN_OVER, "The microphone is used in another window.")
        await (self._begin_speech() if start else self._end_speech())

    async def _begin_speech(self) -> None:
        await self.interrupt(by_speech=True)
        if self._connector.open is None:
            await self._connect()
        if (connection := self._connector.open) is not None:
            # Another client may be speaking: it has just lost the microphone.
            connection.end_speech()
            self._turns.router.begin_speech()
            connection.begin_speech()
            self._listeners.set_state("listening")

    async def _end_speech(self) -> None:
        connection = self._connector.current
        if connection is not None:
            if connection.user_speaks and connection.has_audio:
                self._listeners.set_state("thinking")
                self._tasks.start(self._listen_again(), "live-noise")
            connection.end_speech()

    async def _listen_again(self) -> None:
        """Set the state to `listening` if no answer comes: a model that has understood nothing sends nothing."""
        await asyncio.sleep(_NOISE_TIMEOUT)
        if self._listeners.state == "thinking" and not self._turns.streamed and not self._connector.user_speaks:
            self._listeners.set_state("listening")

    def leave(self, listener: Listener) -> None:
        """Take the microphone from a client that is gone."""
        if self._microphone is listener:
            self._microphone = None
            if self._connector.current is not None:
                self._connector.current.end_speech()

    async def interrupt(self, *, by_speech: bool = False) -> None:
        """Stop the model's speech. Held calls go on waiting."""
        streamed = self._turns.current
        if streamed is None or streamed.turn.is_all_stored:
            self._listeners.stop_playback()
            return
        if not streamed.run.active or (by_speech and not streamed.turn.has_spoken):
            return
        if streamed.turn.calls:
            if self._turns.router.mute(streamed.turn):
                self._listeners.interrupt(streamed)
                await streamed.show(TurnSignal.MUTE)
                self._stop_model(by_speech=by_speech)
            else:
                self._listeners.stop_playback()
            return
        self._listeners.interrupt(streamed)
        if streamed.turn.has_spoken and self._connector.open is not None:
            self._turns.router.cut(streamed.turn)
            self._turns.end_after_timeout(streamed.turn)
        else:
            async with self._lock:
                await self._connector.disconnect()
        streamed.put(TurnSignal.INTERRUPTED)
        await streamed.run.done.wait()
        self._stop_model(by_speech=by_speech)

    def _stop_model(self, *, by_speech: bool) -> None:
        """Make the model stop speaking; the user's speech does that by itself."""
        if not by_speech and (connection := self._connector.open) is not None:
            connection.stop_speaking()
