"""The server of `adkwire replay`: all routes of a server, with a recording as the backend."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adkwire.recording.replay import ReplayBackend, Speed
from adkwire.server.app import app_of
from adkwire.server.responses import json_response
from adkwire.server.routes import Routes
from adkwire.settings import Settings
from adkwire.wire.recording_lines import Recording


def create_replay_app(recording: Recording, settings: Settings, speed: Speed = "real") -> Starlette:
    """Return a server that answers any client as the agent of the recording did."""
    replay = Replay(recording, speed, settings)
    step = Route("/api/replay/step", replay.api.guard().protect(replay.answer_step), methods=["POST"])
    return app_of(replay, replay.api, step)


class Replay(ReplayBackend):
    """A recording with the routes of a server, and one more that sends the next chunk."""

    def __init__(self, recording: Recording, speed: Speed, settings: Settings) -> None:
        super().__init__(recording, speed, settings)
        self.api = Routes(self)

    async def answer_step(self, request: Request) -> Response:
        """Send the next chunk: POST /api/replay/step."""
        return json_response(await self.step())

    async def close(self, *, drain: float | None = None) -> None:
        """Stop the replay and close the sockets."""
        await self.api.drain(0)
        await super().close()
