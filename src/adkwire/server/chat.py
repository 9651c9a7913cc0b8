"""POST /api/chat, GET /api/chat/{id}/stream, POST /api/chat/{id}/stop and /api/chat/{id}/calls/{call}."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Send

from adkwire.errors import Unprocessable
from adkwire.gate.records import Given
from adkwire.runs.reading import Place, Reading
from adkwire.runs.serving import Serving
from adkwire.server.limits import Rates
from adkwire.server.outbox import patience
from adkwire.server.security import read_body, read_json_body, user_of
from adkwire.stores.base import Batch
from adkwire.wire.decoder import CallBody, InputLimits, check_chat_id, decode_call_answer, decode_json, decode_request
from adkwire.wire.profiles import Profile
from adkwire.wire.recordings import Mode

logger = logging.getLogger("adkwire")

_PLACE = re.compile(r"([A-Za-z0-9_-]{1,64}):(-?[0-9]{1,9})", re.ASCII)
_HEARTBEAT = b": keep-alive\n\n"
_DONE = b"data: [DONE]\n\n"
_STREAM_HEADERS = {
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
    "x-vercel-ai-ui-message-stream": "v1",
}
_STOP_BODY = 10_000


class _Stop(msgspec.Struct):
    run: str | None = None


_stop = msgspec.json.Decoder(_Stop)


class ChatRoutes:
    """The routes of a conversation."""

    def __init__(self, bridge: Serving, rates: Rates) -> None:
        settings = bridge.settings
        self._bridge = bridge
        self._limits = InputLimits(settings.max_parts, settings.max_part_bytes, settings.max_image_pixels)
        self._rates = rates

    async def post(self, request: Request) -> Response:
        """Run the newest user message, or go on with the run that already does."""
        return await self._post(request, "sse")

    async def post_direct(self, request: Request) -> Response:
        """The same without the agent: the model answers by itself."""
        return await self._post(request, "gemini")

    async def _post(self, request: Request, mode: Mode) -> Response:
        user = user_of(request)
        body = await read_json_body(request, self._bridge.settings.max_body_bytes)
        turn = decode_request(body, self._limits)
        self._rates.take(user.id)
        if self._bridge.recorder is not None:
            self._bridge.recorder.frame(user.id, turn.chat, mode, body)
        run = await self._bridge.start(user.id, turn, direct=mode == "gemini")
        profile = Profile.declared(request.headers.get("x-adkwire-client") or turn.client)
        # Who answers calls has their message already.
        whole = turn.message is not None or turn.answers is None
        return self._stream(self._bridge.reading(run, whole=whole), profile)

    async def resume(self, request: Request) -> Response:
        """Go on with a running answer from its start, or with any that is kept from behind what the client has."""
        user, chat = user_of(request), check_chat_id(request.path_params["chat"])
        seen = request.headers.get("last-event-id") or request.query_params.get("after")
        reading = await self._bridge.follow(user.id, chat, place(seen) if seen else None)
        if reading is None:
            return Response(status_code=204)
        return self._stream(reading, Profile.declared(request.headers.get("x-adkwire-client")))

    async def stop(self, request: Request) -> Response:
        """Stop what runs; the answer comes when nothing more can."""
        user, chat = user_of(request), check_chat_id(request.path_params["chat"])
        stopped = await self._bridge.stop(user.id, chat, await _stop_wish(request))
        return Response(msgspec.json.encode({"stopped": stopped}), 202, media_type="application/json")

    async def answer(self, request: Request) -> Response:
        """Answer one call: a verdict, with more than a stock client can say, or a browser's output."""
        user, chat = user_of(request), check_chat_id(request.path_params["chat"])
        raw = await read_json_body(request, self._bridge.settings.max_body_bytes)
        body = decode_call_answer(raw)
        self._rates.take(user.id)
        if self._bridge.recorder is not None:
            self._bridge.recorder.frame(user.id, chat, "sse", raw)
        call = await self._bridge.answer(user.id, chat, request.path_params["call"], given_in(body))
        return Response(msgspec.json.encode({"state": call.state}), 202, media_type="application/json")

    def _stream(self, reading: Reading, profile: Profile) -> Response:
        headers = {**_STREAM_HEADERS, "x-adkwire-run": reading.run}
        return EventStream(sse(reading, profile), headers, self._bridge.settings.slow_reader)


class EventStream(StreamingResponse):
    """Server-sent events for somebody who reads them: a connection that takes nothing for too long is cut."""

    def __init__(self, events: AsyncGenerator[bytes, None], headers: Mapping[str, str], patience: float) -> None:
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._events = events
        self._patience = patience

    async def stream_response(self, send: Send) -> None:
        """Write, as long as what is written is taken."""
        loop = asyncio.get_running_loop()
        untaken = 0
        try:
            async with asyncio.timeout(None) as limit:

                async def patiently(message: Message) -> None:
                    nonlocal untaken
                    # A server takes what it is given at once, and only then makes the next wait.
                    size = len(message.get("body", b""))
                    limit.reschedule(loop.time() + patience(self._patience, untaken + size))
                    await send(message)
                    limit.reschedule(None)
                    untaken = size

                async with aclosing(self._events):
                    await super().stream_response(patiently)
        except TimeoutError:
            logger.info("a slow reader was cut: it took nothing for %g s", self._patience)


async def sse(reading: Reading, profile: Profile) -> AsyncGenerator[bytes, None]:
    """Batches as server-sent events: one write each, the chunk's place as its id."""
    event = b"id: " + reading.run.encode() + b":%d\ndata: %b\n\n"
    async with aclosing(reading.batches) as batches:
        async for batch in batches:
            yield frame(batch, event, profile) if batch.entries else _HEARTBEAT
            if batch.closed:
                yield _DONE


def frame(batch: Batch, event: bytes, profile: Profile) -> bytes:
    """The events of one batch; a chunk this client must not see leaves its number out."""
    if len(batch.entries) == 1:
        data = profile.fit_encoded(batch.entries[0])
        return b"" if data is None else event % (batch.first, data)
    fitted = enumerate(map(profile.fit_encoded, batch.entries), batch.first)
    return b"".join([event % (number, data) for number, data in fitted if data is not None])


def given_in(body: CallBody) -> Given:
    """What an answer says, for the gate."""
    return Given(
        approved=body.approved,
        reason=body.reason or "",
        args=body.args,
        payload=body.payload,
        scope=body.scope,
        output=body.output,
        error=UNSET if body.error is None else body.error,
        ask=body.approval_id,
    )


def place(text: str) -> Place:
    """The place that an event id names."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise Unprocessable("An event id looks like <run>:<number>.")
    return Place(found[1], int(found[2]))


async def _stop_wish(request: Request) -> str | None:
    body = await read_body(request, _STOP_BODY)
    return decode_json(_stop, body).run if body else None
