"""GET /healthz, /readyz and /api/info."""

from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import Response

from adkwire.errors import Unavailable
from adkwire.server.backend import Backend
from adkwire.server.owner_page import OwnerPage
from adkwire.server.responses import json_response
from adkwire.server.security import error_response
from adkwire.settings import Settings
from adkwire.wire.socket.audio import BIT_DEPTH, CHANNELS, ENCODING, INPUT_RATE, OUTPUT_RATE


class OpsRoutes:
    """The routes about the server itself: is it alive, is it ready, what can it do."""

    def __init__(self, backend: Backend, page: OwnerPage) -> None:
        self._backend = backend
        self._page = page

    async def healthz(self, request: Request) -> Response:
        """Respond: the process is alive."""
        return json_response({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Respond whether a turn could be served now; an error says why not."""
        try:
            ready = await self._backend.ready()
        except Unavailable as error:
            return error_response(error)
        return (
            json_response({"status": "ready"}) if ready else error_response(Unavailable("The server is shutting down."))
        )

    async def info(self, request: Request) -> Response:
        """Respond what this server is and can do."""
        direct, talks = self._backend.direct, self._backend.supports_live
        return json_response(
            {
                "name": "adkwire",
                "version": version("adkwire"),
                "agent": self._backend.agent_name,
                "model": self._backend.model_name,
                "offline": self._backend.offline,
                "modes": self._modes(),
                "gemini": {"model": direct.name, "offline": direct.offline} if direct.name is not None else None,
                "tools": [
                    {"name": tool.name, "kind": tool.kind, "asks": tool.asks, "schema": tool.schema}
                    for tool in await self._backend.tools()
                ],
                "page": self._page.as_info(),
                "recording": self._backend.recorder is not None,
                "audio": {"input": _sound(INPUT_RATE), "output": _sound(OUTPUT_RATE)} if talks else None,
                "limits": _limits(self._backend.settings),
            }
        )

    def _modes(self) -> list[str]:
        live = ["live"] if self._backend.supports_live else []
        return ["sse", "websocket", *live, *(["gemini"] if self._backend.direct.name is not None else [])]


def _sound(rate: int) -> dict[str, object]:
    return {"rate": rate, "channels": CHANNELS, "bitDepth": BIT_DEPTH, "encoding": ENCODING}


def _limits(settings: Settings) -> dict[str, float]:
    return {
        "bodyBytes": settings.max_body_bytes,
        "partBytes": settings.max_part_bytes,
        "parts": settings.max_parts,
        "imagePixels": settings.max_image_pixels,
        "outputBytes": settings.max_output_bytes,
        "chatsPerMinute": settings.chats_per_minute,
        "controlBytes": settings.max_control_bytes,
        "audioBytes": settings.max_audio_bytes,
        "audioPerSecond": settings.audio_per_second,
        "videoBytes": settings.max_video_bytes,
        "liveGrace": settings.live_grace,
        "liveApprovalTimeout": settings.live_approval_timeout,
        "clientToolTimeout": settings.client_tool_timeout,
    }
