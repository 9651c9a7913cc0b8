"""Work that swallows every cancellation, as a tool or the connection to a model may."""

import asyncio
from types import TracebackType


class Stubborn:
    """Work that goes on when it is cancelled, until it is released; leaving the `async with` releases it."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.cancelled = asyncio.Event()
        """Set when the work was cancelled for the first time."""
        self.ended = asyncio.Event()
        self._released = asyncio.Event()

    async def work(self) -> None:
        """Wait until the work is released, whoever cancels it."""
        self.began.set()
        while not self._released.is_set():
            try:
                await self._released.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
        self.ended.set()

    async def release(self) -> None:
        """Let the work return, and wait until it did."""
        self._released.set()
        if self.began.is_set():
            await self.ended.wait()

    async def __aenter__(self) -> "Stubborn":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.release()
