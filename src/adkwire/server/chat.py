"""POST /api/chat, GET /api/chat/{id}/stream, POST /api/chat/{id}/stop and /api/chat/{id}/calls/{call}."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from adkwire.errors import Unprocessable
from adkwire.gate.records import UncheckedAnswer
from adkwire.runs.readers import Position, Reading
from adkwire.server.backend import Backend
from adkwire.server.limits import MessageRates, input_limits
from adkwire.server.responses import HEARTBEAT, STREAM_HEADERS, EventStream
from adkwire.server.security import read_body, read_json_body, user_of
from adkwire.stores.base import Batch
from adkwire.wire.decode.call_answers import CallBody, decode_call_answer
from adkwire.wire.decode.decoder import check_chat_id, decode_request
from adkwire.wire.decode.request_json import decode_json
from adkwire.wire.profiles import Profile
from adkwire.wire.recording_lines import Mode

_RUN = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_EVENT_ID = re.compile(rf"({_RUN.pattern}):(-?[0-9]{{1,9}})", re.ASCII)
_DONE = b"data: [DONE]\n\n"
_MAX_STOP_BODY = 10_000
"""Bytes of the body of a stop."""


class _StopBody(msgspec.Struct):
    run: str | None = None


_stop_body = msgspec.json.Decoder(_StopBody)


class ChatRoutes:
    """The routes that start, follow and stop runs, and answer calls."""

    def __init__(self, backend: Backend, rates: MessageRates) -> None:
        self._backend = backend
        self._limits = input_limits(backend.settings)
        self._rates = rates

    async def post(self, request: Request) -> Response:
        """Start a run for the newest user message, or find the run that it has started before, and stream it."""
        return await self._post(request, "sse")

    async def post_direct(self, request: Request) -> Response:
        """Do the same without the agent: the model answers by itself."""
        return await self._post(request, "gemini")

    async def _post(self, request: Request, mode: Mode) -> Response:
        user = user_of(request)
        body = await read_json_body(request, self._backend.settings.max_body_bytes)
        turn = decode_request(body, self._limits)
        self._rates.take(user.id)
        if self._backend.recorder is not None:
            self._backend.recorder.frame(user.id, turn.chat, mode, body)
        run = await self._backend.start(user.id, turn, direct=mode == "gemini")
        profile = Profile.declared(request.headers.get("x-adkwire-client") or turn.client)
        # A client that answers calls has the message that they are in.
        whole = turn.message is not None or turn.answers is None
        return self._stream(self._backend.reading(run, whole=whole), profile)

    async def resume(self, request: Request) -> Response:
        """Stream the chunks after a position; or a whole message: of a named run, or the one that is being written."""
        user, chat = user_of(request), check_chat_id(request.path_params["chat"])
        seen = request.headers.get("last-event-id") or request.query_params.get("after")
        run = request.query_params.get("run")
        reading = await self._backend.follow(
            user.id, chat, parse_position(seen) if seen else None, run=check_run_id(run) if run else None
        )
        if reading is None:
            return Response(status_code=204)
        return self._stream(reading, Profile.declared(request.headers.get("x-adkwire-client")))

    async def stop(self, request: Request) -> Response:
        """Stop a run, or all runs of a chat; respond when no more chunks can follow."""
        user, chat = user_of(request), check_chat_id(request.path_params["chat"])
        stopped = await self._backend.stop(user.id, chat, await _run_to_stop(request))
        return Response(msgspec.json.encode({"stopped": stopped}), 202, media_type="application/json")

    async def answer(self, request: Request) -> Response:
        """Answer one call: with a verdict, which may say more than that of a stock client, or with an output."""
        user, chat = user_of(request), check_chat_id(request.path_params["chat"])
        raw = await read_json_body(request, self._backend.settings.max_body_bytes)
        body = decode_call_answer(raw)
        self._rates.take(user.id)
        if self._backend.recorder is not None:
            self._backend.recorder.frame(user.id, chat, "sse", raw)
        call = await self._backend.answer(user.id, chat, request.path_params["call"], unchecked_answer(body))
        return Response(msgspec.json.encode({"state": call.state}), 202, media_type="application/json")

    def _stream(self, reading: Reading, profile: Profile) -> Response:
        headers = {**STREAM_HEADERS, "x-vercel-ai-ui-message-stream": "v1", "x-adkwire-run": reading.run}
        return EventStream(encode_sse(reading, profile), headers, self._backend.settings.slow_reader)


async def encode_sse(reading: Reading, profile: Profile) -> AsyncGenerator[bytes, None]:
    """Yield the batches of a run as server-sent events, whose ids are the positions of the chunks."""
    event = b"id: " + reading.run.encode() + b":%d\ndata: %b\n\n"
    async with aclosing(reading.batches) as batches:
        async for batch in batches:
            yield encode_batch(batch, event, profile) if batch.entries else HEARTBEAT
            if batch.closed:
                yield _DONE


def encode_batch(batch: Batch, event: bytes, profile: Profile) -> bytes:
    """Return the events of one batch. The number of a chunk that the client must not get is not used."""
    if len(batch.entries) == 1:
        data = profile.fit_encoded(batch.entries[0])
        return b"" if data is None else event % (batch.first, data)
    fitted = enumerate(map(profile.fit_encoded, batch.entries), batch.first)
    return b"".join([event % (number, data) for number, data in fitted if data is not None])


def unchecked_answer(body: CallBody) -> UncheckedAnswer:
    """Return the answer to a call as the gate takes it."""
    return UncheckedAnswer(
        approved=body.approved,
        reason=body.reason or "",
        args=body.args,
        payload=body.payload,
        scope=body.scope,
        output=body.output,
        error=UNSET if body.error is None else body.error,
        ask=body.approval_id,
    )


def parse_position(text: str) -> Position:
    """Return the position that an event id names."""
    found = _EVENT_ID.fullmatch(text)
    if found is None:
        raise Unprocessable("An event id looks like <run>:<number>.")
    return Position(found[1], int(found[2]))


def check_run_id(text: str) -> str:
    """Return the id of a run if it has the form of one."""
    if _RUN.fullmatch(text) is None:
        raise Unprocessable("A run id has 1 to 64 letters, digits, `_` or `-`: take it from `active` of the history.")
    return text


async def _run_to_stop(request: Request) -> str | None:
    body = await read_body(request, _MAX_STOP_BODY)
    return decode_json(_stop_body, body).run if body else None
