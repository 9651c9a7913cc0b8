"""Messages between workers that share the stores."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import ClassVar, TypeVar

import msgspec

from adkwire.gate.records import StopReason
from adkwire.stores.base import Signals

logger = logging.getLogger("adkwire")


class Stop(msgspec.Struct, frozen=True):
    """A request to stop what is written in a chat, or one run of it."""

    topic: ClassVar[str] = "stop"

    user: str
    chat: str
    run: str | None = None
    why: StopReason = "stopped"


class Settled(msgspec.Struct, frozen=True):
    """The message that a call of a chat has its answer."""

    topic: ClassVar[str] = "settled"

    user: str
    chat: str
    call: str


M = TypeVar("M", Stop, Settled)


async def send(signals: Signals, message: Stop | Settled) -> None:
    """Send a message to all workers that listen, this one included."""
    await signals.send(message.topic, msgspec.json.encode(message))


async def handle_all(signals: Signals, kind: type[M], handle: Callable[[M], Awaitable[None]]) -> None:
    """Handle every message of a kind until the signals are closed. One that cannot be handled is logged."""
    async with aclosing(signals.listen(kind.topic)) as messages:
        async for message in messages:
            try:
                await handle(msgspec.json.decode(message, type=kind))
            except Exception:
                logger.exception("a message of another worker on topic %s was not handled", kind.topic)
