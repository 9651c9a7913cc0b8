"""The server of `adkwire replay`: all routes of any server, with a recording behind them."""

from typing import cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from adkwire.runs.adk import Target
from adkwire.runs.replay import ReplayedRuns, Speed
from adkwire.server.app import Bridge, create_app
from adkwire.server.chats import as_json
from adkwire.settings import Settings
from adkwire.wire.recordings import Recording


def create_replay_app(recording: Recording, settings: Settings, speed: Speed = "real") -> Starlette:
    """A server that any client can talk to as if the agent of the recording were there."""
    return create_app(Replay(recording, settings, speed))


class _Runs(ReplayedRuns):
    """`ReplayedRuns`, made the way a server's Bridge makes the floor below it."""

    def __init__(self, played: tuple[Recording, Speed], *, settings: Settings, **others: object) -> None:
        super().__init__(*played, settings)


class Replay(Bridge, _Runs):
    """A server's Bridge on `ReplayedRuns`: what it asks of the floor below is answered there."""

    def __init__(self, recording: Recording, settings: Settings, speed: Speed = "real") -> None:
        super().__init__(cast(Target, (recording, speed)), settings=settings)

    def routes(self) -> list[BaseRoute]:
        """The routes of any server, and one to go on by a chunk."""
        step = self.guard().protect(self._step)
        return [*super().routes(), Route("/api/replay/step", step, methods=["POST"], include_in_schema=False)]

    async def _step(self, request: Request) -> Response:
        return as_json(await self.step())
