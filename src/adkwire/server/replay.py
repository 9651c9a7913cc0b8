"""The server of `adkwire replay`: all routes of any server, with a recording behind them."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adkwire.runs.replay import ReplayedRuns, Speed
from adkwire.server.app import served
from adkwire.server.chats import as_json
from adkwire.server.doors import Doors
from adkwire.settings import Settings
from adkwire.wire.recordings import Recording


def create_replay_app(recording: Recording, settings: Settings, speed: Speed = "real") -> Starlette:
    """A server that any client can talk to as if the agent of the recording were there."""
    replay = Replay(recording, speed, settings)
    step = Route("/api/replay/step", replay.doors.guard().protect(replay.answer_step), methods=["POST"])
    return served(replay, replay.doors, step)


class Replay(ReplayedRuns):
    """A recording with the doors of a server, and one to go on by a chunk."""

    def __init__(self, recording: Recording, speed: Speed, settings: Settings) -> None:
        super().__init__(recording, speed, settings)
        self.doors = Doors(self)

    async def answer_step(self, request: Request) -> Response:
        """POST /api/replay/step."""
        return as_json(await self.step())

    async def close(self, *, drain: float | None = None) -> None:
        """Stop playing, and close the sockets."""
        await self.doors.drain(0)
        await super().close()
