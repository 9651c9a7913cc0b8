"""GET /healthz, /readyz and /api/info."""

from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import Response

from adkwire.errors import Unavailable
from adkwire.runs.serving import Serving
from adkwire.server.chats import as_json
from adkwire.server.security import error_response
from adkwire.settings import Settings
from adkwire.wire.sound import BIT_DEPTH, CHANNELS, ENCODING, RATE, SPEECH_RATE


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
        direct, talks = self._bridge.direct, self._bridge.talks
        return as_json(
            {
                "name": "adkwire",
                "version": version("adkwire"),
                "agent": self._bridge.agent_name,
                "model": self._bridge.model_name,
                "offline": self._bridge.offline,
                "modes": self._modes(),
                "gemini": {"model": direct.name, "offline": direct.offline} if direct.name is not None else None,
                "tools": [
                    {"name": tool.name, "kind": tool.kind, "asks": tool.asks, "schema": tool.schema}
                    for tool in await self._bridge.tools()
                ],
                "audio": {"input": _sound(RATE), "output": _sound(SPEECH_RATE)} if talks else None,
                "limits": _limits(self._bridge.settings),
            }
        )

    def _modes(self) -> list[str]:
        live = ["live"] if self._bridge.talks else []
        return ["sse", "websocket", *live, *(["gemini"] if self._bridge.direct.name is not None else [])]


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
