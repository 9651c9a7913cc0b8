"""Outbox: the one way out of a socket."""

import asyncio
from typing import NamedTuple

from starlette.websockets import WebSocket, WebSocketDisconnect

_SLICE = 256_000
"""Bytes for which a reader gets the patience of the settings: a large picture may take longer."""


def patience(seconds: float, size: int) -> float:
    """How long a client may take for so many bytes."""
    return seconds * (1 + size // _SLICE)


class Ending(NamedTuple):
    """Why a socket ends, as its client gets to know it."""

    code: int
    reason: str


GONE = Ending(1006, "the client is gone")
SLOW = Ending(4408, "slow reader")


class Outbox:
    """Sends what others put into it: keeps the order, and notices when nothing is taken any more."""

    def __init__(self, socket: WebSocket, patience: float) -> None:
        self._socket = socket
        self._patience = patience
        self._waiting: asyncio.Queue[tuple[list[str], asyncio.Future[None]]] = asyncio.Queue()

    def put(self, *frames: str) -> "asyncio.Future[None]":
        """Send frames behind all others; done when they are sent, which those with much to say must await."""
        sent = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((list(frames), sent))
        return sent

    async def run(self) -> Ending:
        """Send what there is to send; ends when that cannot be done."""
        unread = 0
        try:
            while True:
                frames, sent = await self._waiting.get()
                size = sum(map(len, frames))
                # A server takes what it is given at once, and only then makes the next wait.
                async with asyncio.timeout(patience(self._patience, unread + size)):
                    for frame in frames:
                        await self._socket.send_text(frame)
                unread = size
                if not sent.done():
                    sent.set_result(None)
        except TimeoutError:
            return SLOW
        except (WebSocketDisconnect, RuntimeError):
            # The latter when the server has closed it by itself and we do not know yet.
            return GONE
