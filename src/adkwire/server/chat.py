"""POST /api/chat, GET /api/chat/{id}/stream, POST /api/chat/{id}/stop and /api/chat/{id}/calls/{call}."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from adkwire.errors import Unprocessable
from adkwire.gate.records import Given
from adkwire.runs.bridge import Bridge
from adkwire.runs.run import Run
from adkwire.server.security import Rates, read_body, read_json_body, user_of
from adkwire.stores.base import UNNUMBERED, Batch
from adkwire.wire.decoder import InputLimits, check_chat_id, decode_call_answer, decode_json, decode_request
from adkwire.wire.profiles import Profile

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

    def __init__(self, bridge: Bridge) -> None:
        settings = bridge.settings
        self._bridge = bridge
        self._limits = InputLimits(settings.max_parts, settings.max_part_bytes, settings.max_image_pixels)
        self._rates = Rates(settings.chats_per_minute)

    async def post(self, request: Request) -> Response:
        """Run the newest user message, or go on with the run that already does."""
        user = user_of(request)
        body = await read_json_body(request, self._bridge.settings.max_body_bytes)
        turn = decode_request(body, self._limits)
        self._rates.take(user.id)
        run = await self._bridge.start(user.id, turn)
        profile = Profile.declared(request.headers.get("x-adkwire-client") or turn.client)
        # Who answers calls has their message already.
        return self._stream(run, -1, profile, whole=turn.message is not None or turn.answers is None)

    async def resume(self, request: Request) -> Response:
        """Go on with a running answer: from its start, or from behind what the client already has."""
        user, chat = user_of(request), check_chat_id(request.path_params["chat"])
        profile = Profile.declared(request.headers.get("x-adkwire-client"))
        seen = request.headers.get("last-event-id") or request.query_params.get("after")
        if seen:
            run_id, after = _event_id(seen)
            if (run := await self._bridge.recent(user.id, chat, run_id)) is not None:
                return self._stream(run, after, profile)
        run = self._bridge.running(user.id, chat)
        return Response(status_code=204) if run is None else self._stream(run, -1, profile, whole=True)

    async def stop(self, request: Request) -> Response:
        """Stop what runs; the answer comes when nothing more can."""
        user, chat = user_of(request), check_chat_id(request.path_params["chat"])
        stopped = await self._bridge.stop(user.id, chat, await _stop_wish(request))
        return Response(msgspec.json.encode({"stopped": stopped}), 202, media_type="application/json")

    async def answer(self, request: Request) -> Response:
        """Answer one call: a verdict, with more than a stock client can say, or a browser's output."""
        user, chat = user_of(request), check_chat_id(request.path_params["chat"])
        body = decode_call_answer(await read_json_body(request, self._bridge.settings.max_body_bytes))
        self._rates.take(user.id)
        given = Given(
            approved=body.approved,
            reason=body.reason or "",
            args=body.args,
            payload=body.payload,
            scope=body.scope,
            output=body.output,
            error=UNSET if body.error is None else body.error,
        )
        call = await self._bridge.answer(user.id, chat, request.path_params["call"], given)
        return Response(msgspec.json.encode({"state": call.state}), 202, media_type="application/json")

    def _stream(self, run: Run, after: int, profile: Profile, *, whole: bool = False) -> Response:
        headers = {**_STREAM_HEADERS, "x-adkwire-run": run.id}
        body = sse(self._bridge.follow(run, after, whole=whole), run.id, profile)
        return StreamingResponse(body, headers=headers, media_type="text/event-stream")


async def sse(batches: AsyncGenerator[Batch, None], run_id: str, profile: Profile) -> AsyncGenerator[bytes, None]:
    """Batches as server-sent events: one write each, the chunk's number as its id."""
    event = b"id: " + run_id.encode() + b":%d\ndata: %b\n\n"
    async with aclosing(batches):
        async for batch in batches:
            yield frame(batch, event, profile) if batch.entries else _HEARTBEAT
            if batch.closed:
                yield _DONE


def frame(batch: Batch, event: bytes, profile: Profile) -> bytes:
    """The events of one batch; a chunk this client must not see leaves its number out."""
    if batch.first == UNNUMBERED:
        return b"".join(
            [b"data: %b\n\n" % data for data in map(profile.fit_encoded, batch.entries) if data is not None]
        )
    if len(batch.entries) == 1:
        data = profile.fit_encoded(batch.entries[0])
        return b"" if data is None else event % (batch.first, data)
    fitted = enumerate(map(profile.fit_encoded, batch.entries), batch.first)
    return b"".join([event % (number, data) for number, data in fitted if data is not None])


def _event_id(text: str) -> tuple[str, int]:
    run, _, number = text.rpartition(":")
    if not run or not number.isascii() or not number.isdigit() or len(number) > 9:
        raise Unprocessable("An event id looks like <run>:<number>.")
    return run, int(number)


async def _stop_wish(request: Request) -> str | None:
    body = await read_body(request, _STOP_BODY)
    return decode_json(_stop, body).run if body else None
