"""Live sound without sockets: into adkwire's live run, or into ADK's queue, and out of what comes of it."""

import asyncio
import time
from abc import abstractmethod
from typing import Self

from google.adk.agents.live_request_queue import LiveRequestQueue

from adkwire import Settings
from adkwire.runs.audience import Listener
from adkwire.runs.bridge import Bridge
from adkwire.runs.lives import Link
from bench.agents.voice.agent import HEARD, HEARING, MARK, root_agent
from bench.client import new_chat
from bench.pump import Pump, heard

_PATIENCE = 60.0


class Side:
    """One of both: says pieces, each when the one before was taken or answered."""

    def __init__(self) -> None:
        self.said = 0
        self.heard = 0
        self._answered = asyncio.Event()

    @abstractmethod
    def say(self, pcm: bytes) -> None:
        """A piece of sound for the model."""

    @abstractmethod
    async def close(self) -> None:
        """End it."""

    def answer(self, pcm: bytes) -> None:
        """A piece of sound from the model."""
        if pcm:
            (self.heard,) = HEARD.unpack_from(pcm, MARK.size)
            self._answered.set()

    async def talk(self, pieces: int, answers: int) -> None:
        """Say so many pieces; the last one is always answered."""
        async with asyncio.timeout(_PATIENCE):
            for number in range(pieces):
                await self._piece(answers if number < pieces - 1 else 1)
        if self.heard != self.said:
            raise RuntimeError(f"of {self.said} pieces of sound {self.heard} were heard")

    async def _piece(self, answers: int) -> None:
        self.said += 1
        self._answered.clear()
        self.say(MARK.pack(answers, self.said, time.perf_counter()).ljust(HEARING, b"\0"))
        if answers:
            await self._answered.wait()
        else:
            await asyncio.sleep(0)


class Bare(Side):
    """ADK alone."""

    def __init__(self) -> None:
        super().__init__()
        self._queue = LiveRequestQueue()
        self._drained = asyncio.create_task(self._drain())

    @classmethod
    async def opened(cls) -> Self:
        """One that is ready to listen."""
        side = cls()
        side._queue.send_activity_start()
        await side.talk(1, 1)
        return side

    def say(self, pcm: bytes) -> None:
        """Into the queue."""
        self._queue.send_realtime(heard(pcm))

    async def _drain(self) -> None:
        async for pcm in Pump().sounds(new_chat(), self._queue):
            self.answer(pcm)

    async def close(self) -> None:
        """Stop listening."""
        self._queue.close()
        self._drained.cancel()
        await asyncio.wait([self._drained])


class Bridged(Side, Listener):
    """adkwire: the same through a live run with its turns, with one client that listens to the sound alone."""

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
        """One that is ready to listen."""
        side = cls()
        side._link = await side._bridge.live.join("bench", new_chat(), side)
        await side._link.activity(start=True)
        await side.talk(1, 1)
        return side

    def say(self, pcm: bytes) -> None:
        """By the way that a socket takes."""
        if self._link is None or not self._link.audio(pcm):
            raise RuntimeError("nobody takes the sound")

    def sound(self, pcm: bytes, generation: int, position: int, *, last: bool) -> None:
        """A piece of what the model says."""
        self.answer(pcm)

    async def close(self) -> None:
        """End the conversation."""
        if self._link is not None:
            await self._link.close()
        await self._bridge.close()
