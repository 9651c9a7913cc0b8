"""GET /api/events: the chat events of a user, as they happen."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from adkwire.runs.chat_events import ChatEvent
from adkwire.server.backend import Backend
from adkwire.server.responses import HEARTBEAT, STREAM_HEADERS, EventStream
from adkwire.server.security import user_of
from adkwire.wire.chunks import encode_chunk


class EventsRoute:
    """The route of chat events."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def stream(self, request: Request) -> Response:
        """Stream the chat events of the user from now on."""
        events = self._backend.events(user_of(request).id)
        # The first step raises while the server shuts down; later it would be too late for a status.
        await anext(events)
        return EventStream(_encode(events), STREAM_HEADERS, self._backend.settings.slow_reader)


async def _encode(events: AsyncGenerator[ChatEvent | None, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        yield HEARTBEAT
        async for event in events:
            yield HEARTBEAT if event is None else b"data: %b\n\n" % encode_chunk(event)
