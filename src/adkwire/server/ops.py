"""GET /healthz, /readyz and /api/info."""

from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import Response

from adkwire.errors import Unavailable
from adkwire.runs.serving import Serving
from adkwire.server.chats import as_json
from adkwire.server.security import error_response


class OpsRoutes:
    """What operators and pages ask first."""

    def __init__(self, bridge: Serving) -> None:
        self._bridge = bridge

    async def healthz(self, request: Request) -> Response:
        """The process lives."""
        return as_json({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """A turn could be served now."""
        try:
            ready = await self._bridge.ready()
        except Unavailable as error:
            return error_response(error)
        return as_json({"status": "ready"}) if ready else error_response(Unavailable("The server is going down."))

    async def info(self, request: Request) -> Response:
        """What this server is and can do."""
        settings, direct = self._bridge.settings, self._bridge.direct
        return as_json(
            {
                "name": "adkwire",
                "version": version("adkwire"),
                "agent": self._bridge.agent_name,
                "model": self._bridge.model_name,
                "offline": self._bridge.offline,
                "modes": ["sse", "websocket", *(["gemini"] if direct.name is not None else [])],
                "gemini": {"model": direct.name, "offline": direct.offline} if direct.name is not None else None,
                "tools": [
                    {"name": tool.name, "kind": tool.kind, "asks": tool.asks, "schema": tool.schema}
                    for tool in await self._bridge.tools()
                ],
                "audio": None,
                "limits": {
                    "bodyBytes": settings.max_body_bytes,
                    "partBytes": settings.max_part_bytes,
                    "parts": settings.max_parts,
                    "imagePixels": settings.max_image_pixels,
                    "outputBytes": settings.max_output_bytes,
                    "chatsPerMinute": settings.chats_per_minute,
                },
            }
        )
