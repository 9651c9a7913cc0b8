"""GET /api/chats, GET, PATCH and DELETE /api/chats/{id}, GET /api/chats/{id}/audit and /api/chats/{id}/chunks."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from adkwire.errors import Unprocessable
from adkwire.runs import views
from adkwire.server.backend import Backend
from adkwire.server.responses import EventStream, json_response
from adkwire.server.security import read_json_body, user_of
from adkwire.wire.decode.decoder import check_chat_id
from adkwire.wire.decode.request_json import decode_json

DEFAULT_PAGE = 50
"""Entries in a page of a list."""
_MAX_PAGE = 1000
_MAX_TITLE = 200
"""Characters of a title."""
_MAX_TITLE_BODY = 10_000
"""Bytes of a body with a title."""


class _Title(msgspec.Struct):
    title: str


_title_body = msgspec.json.Decoder(_Title)


class ChatsRoutes:
    """The routes of the chat list and of one chat."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def index(self, request: Request) -> Response:
        """Respond with a page of the user's chats, newest first."""
        limit = page_limit(request) or DEFAULT_PAGE
        page = await self._backend.chats(user_of(request).id, limit=limit, before=_cursor(request))
        return json_response(page)

    async def show(self, request: Request) -> Response:
        """Respond with one chat and its messages."""
        history = await self._backend.history(
            user_of(request).id, _chat(request), limit=page_limit(request), before=request.query_params.get("before")
        )
        return json_response(history)

    async def rename(self, request: Request) -> Response:
        """Set the title of a chat."""
        return json_response(await self._backend.rename(user_of(request).id, _chat(request), await _title(request)))

    async def delete(self, request: Request) -> Response:
        """Delete a chat."""
        await self._backend.delete(user_of(request).id, _chat(request))
        return Response(status_code=204)

    async def audit(self, request: Request) -> Response:
        """Respond with the audit of a chat: who asked, who answered, and the outcome."""
        return json_response({"entries": await self._backend.audit(user_of(request).id, _chat(request))})

    async def chunks(self, request: Request) -> Response:
        """Respond with the recording of a chat, as a file to be saved."""
        chat = _chat(request)
        headers = {"cache-control": "no-store", "content-disposition": f'attachment; filename="{chat}.jsonl"'}
        blocks = await self._backend.recording(user_of(request).id, chat)
        return EventStream(blocks, headers, self._backend.settings.slow_reader, "application/x-ndjson")


def _chat(request: Request) -> str:
    return check_chat_id(request.path_params["chat"])


def _cursor(request: Request) -> str | None:
    text = request.query_params.get("before")
    return None if text is None else views.check_cursor(text)


def page_limit(request: Request) -> int | None:
    """Return the `limit` that a request asks for; None without one."""
    text = request.query_params.get("limit")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MAX_PAGE)) and 1 <= int(text) <= _MAX_PAGE):
        raise Unprocessable(f"`limit` is a number from 1 to {_MAX_PAGE}.")
    return int(text)


async def _title(request: Request) -> str:
    title = decode_json(_title_body, await read_json_body(request, _MAX_TITLE_BODY)).title.strip()
    if not 1 <= len(title) <= _MAX_TITLE:
        raise Unprocessable(f"A title has 1 to {_MAX_TITLE} characters.")
    return title
