"""GET /api/chats, GET, PATCH and DELETE /api/chats/{id}, GET /api/chats/{id}/audit and GET /api/events."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from adkwire.errors import Unprocessable
from adkwire.runs import views
from adkwire.runs.news import Item
from adkwire.runs.serving import Serving
from adkwire.server.chat import EventStream
from adkwire.server.security import read_json_body, user_of
from adkwire.wire.chunks import encode_chunk
from adkwire.wire.decoder import check_chat_id, decode_json

_DEFAULT_PAGE = 50
_MAX_PAGE = 1000
_MAX_TITLE = 200


class _Title(msgspec.Struct):
    title: str


_title_body = msgspec.json.Decoder(_Title)


class ChatsRoutes:
    """The chat list and one chat's history."""

    def __init__(self, bridge: Serving) -> None:
        self._bridge = bridge

    async def index(self, request: Request) -> Response:
        """The user's chats, newest first."""
        limit = _limit(request) or _DEFAULT_PAGE
        page = await self._bridge.chats(user_of(request).id, limit=limit, before=_cursor(request))
        return as_json(page)

    async def show(self, request: Request) -> Response:
        """One chat with its messages."""
        history = await self._bridge.history(
            user_of(request).id, _chat(request), limit=_limit(request), before=request.query_params.get("before")
        )
        return as_json(history)

    async def rename(self, request: Request) -> Response:
        """Set a chat's title."""
        return as_json(await self._bridge.rename(user_of(request).id, _chat(request), await _title(request)))

    async def delete(self, request: Request) -> Response:
        """Forget a chat."""
        await self._bridge.delete(user_of(request).id, _chat(request))
        return Response(status_code=204)

    async def audit(self, request: Request) -> Response:
        """Who asked, who answered and what came of it."""
        return as_json({"entries": await self._bridge.audit(user_of(request).id, _chat(request))})

    async def events(self, request: Request) -> Response:
        """What happens in the user's chats, as it happens."""
        news = self._bridge.news(user_of(request).id)
        await anext(news)  # a server that goes down refuses it here, while it still can
        headers = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
        return EventStream(_as_sse(news), headers, self._bridge.settings.slow_reader)


async def _as_sse(news: AsyncGenerator[Item | None, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(news):
        yield b": keep-alive\n\n"
        async for item in news:
            yield b": keep-alive\n\n" if item is None else b"data: %b\n\n" % encode_chunk(item)


def as_json(value: object) -> Response:
    """A value as a JSON response that no cache keeps."""
    return Response(encode_chunk(value), headers={"cache-control": "no-store"}, media_type="application/json")


def _chat(request: Request) -> str:
    return check_chat_id(request.path_params["chat"])


def _cursor(request: Request) -> str | None:
    text = request.query_params.get("before")
    return None if text is None else views.check_cursor(text)


def _limit(request: Request) -> int | None:
    text = request.query_params.get("limit")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MAX_PAGE)) and 1 <= int(text) <= _MAX_PAGE):
        raise Unprocessable(f"`limit` is a number from 1 to {_MAX_PAGE}.")
    return int(text)


async def _title(request: Request) -> str:
    title = decode_json(_title_body, await read_json_body(request, 10_000)).title.strip()
    if not 1 <= len(title) <= _MAX_TITLE:
        raise Unprocessable(f"A title has 1 to {_MAX_TITLE} characters.")
    return title
