"""GET /api/grants and DELETE /api/grants/{id}."""

from starlette.requests import Request
from starlette.responses import Response

from adkwire.errors import NotFound, Unprocessable
from adkwire.server.backend import Backend
from adkwire.server.chats import DEFAULT_PAGE, page_limit
from adkwire.server.responses import json_response
from adkwire.server.security import user_of

_LONGEST_ID = 18
"""Digits of a grant's id at most."""


class GrantsRoutes:
    """The routes of the user's standing grants."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def index(self, request: Request) -> Response:
        """Respond with a page of the user's standing grants, newest first."""
        text = request.query_params.get("before")
        before = None if text is None else _grant_id(text)
        if text is not None and before is None:
            raise Unprocessable("`before` is the `next` of the page before.")
        limit = page_limit(request) or DEFAULT_PAGE
        return json_response(await self._backend.grants(user_of(request).id, limit=limit, before=before))

    async def revoke(self, request: Request) -> Response:
        """Take a standing grant back."""
        grant = _grant_id(request.path_params["grant"])
        if grant is None:
            raise NotFound("There is no such grant.")
        await self._backend.revoke(user_of(request).id, grant)
        return Response(status_code=204)


def _grant_id(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_ID else None
