"""Live sound without sockets: through adkwire's live conversation, or through ADK's queue alone."""

import asyncio
import time
from abc import abstractmethod
from typing import Self

from google.adk.agents.live_request_queue import LiveRequestQueue

from adkwire import Settings
from adkwire.bridge import Bridge
from adkwire.live.conversations import Link
from adkwire.live.listeners import Listener
from bench.agents.voice.agent import HEARD, HEARING, MARK, root_agent
from bench.bare_live_server import BareLive, pcm_blob
from bench.http_client import new_chat

_PATIENCE = 60.0


class InProcessSession:
    """A live session in this process that sends pieces of audio one after the other and counts the answers."""

    def __init__(self) -> None:
        self.sent = 0
        self.received = 0
        self._answered = asyncio.Event()

    @abstractmethod
    def say(self, pcm: bytes) -> None:
        """Send a piece of audio to the model."""

    @abstractmethod
    async def close(self) -> None:
        """End the session."""

    def answer(self, pcm: bytes) -> None:
        """Receive a piece of audio from the model."""
        if pcm:
            (self.received,) = HEARD.unpack_from(pcm, MARK.size)
            self._answered.set()

    async def send_pieces(self, pieces: int, answers: int) -> None:
        """Send so many pieces, each with so many answers; the last piece has one answer."""
        async with asyncio.timeout(_PATIENCE):
            for number in range(pieces):
                await self._piece(answers if number < pieces - 1 else 1)
        if self.received != self.sent:
            raise RuntimeError(f"the model received {self.received} of {self.sent} pieces of audio")

    async def _piece(self, answers: int) -> None:
        self.sent += 1
        self._answered.clear()
        self.say(MARK.pack(answers, self.sent, time.perf_counter()).ljust(HEARING, b"\0"))
        if answers:
            await self._answered.wait()
        else:
            await asyncio.sleep(0)


class BareSession(InProcessSession):
    """A session of ADK's `run_live` without adkwire."""

    def __init__(self) -> None:
        super().__init__()
        self._queue = LiveRequestQueue()
        self._drained = asyncio.create_task(self._drain())

    @classmethod
    async def opened(cls) -> Self:
        """Return a session that has answered its first piece."""
        side = cls()
        side._queue.send_activity_start()
        await side.send_pieces(1, 1)
        return side

    def say(self, pcm: bytes) -> None:
        """Send a piece of audio through ADK's queue."""
        self._queue.send_realtime(pcm_blob(pcm))

    async def _drain(self) -> None:
        async for pcm in BareLive().sounds(new_chat(), self._queue):
            self.answer(pcm)

    async def close(self) -> None:
        """End the run."""
        self._queue.close()
        self._drained.cancel()
        await asyncio.wait([self._drained])


class BridgeSession(InProcessSession, Listener):
    """A session through adkwire's live conversation, with one listener that reads only the audio."""

    @property
    def talks(self) -> bool:
        """It takes all there is."""
        return True

    def __init__(self) -> None:
        super().__init__()
        self._bridge = Bridge(root_agent, settings=Settings.load(db="memory:", ui=False))
        self._link: Link | None = None

    @classmethod
    async def opened(cls) -> Self:
        """Return a session that has answered its first piece."""
        side = cls()
        side._link = await side._bridge.live.join("bench", new_chat(), side)
        await side._link.activity(start=True)
        await side.send_pieces(1, 1)
        return side

    def say(self, pcm: bytes) -> None:
        """Send a piece of audio as a socket does."""
        if self._link is None or not self._link.audio(pcm):
            raise RuntimeError("the conversation does not accept audio")

    def sound(self, pcm: bytes, generation: int, position: int, *, last: bool) -> None:
        """Receive a piece of audio from the model."""
        self.answer(pcm)

    async def close(self) -> None:
        """End the conversation and close the bridge."""
        if self._link is not None:
            await self._link.close()
        await self._bridge.close()
