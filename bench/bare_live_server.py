"""python -m bench.bare_live_server DATABASE: serves ADK's live run on a socket with the least code.

The client's bytes go into a LiveRequestQueue, the audio that `run_live` yields goes back, and there is nothing else: no
turns, no text, no limits, no second client. The port is a free one. The database is not used: sessions are in memory.
"""

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.agents.run_config import RunConfig
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from bench.agents.voice.agent import root_agent
from bench.peers import serve


class BareLive:
    """ADK's live runs without anything around them."""

    def __init__(self) -> None:
        self._runner = Runner(app_name="voice", agent=root_agent, session_service=InMemorySessionService())
        self._config = RunConfig(response_modalities=[types.Modality.AUDIO])

    async def sounds(self, chat: str, queue: LiveRequestQueue) -> AsyncGenerator[bytes, None]:
        """Yield the model's audio until the queue is closed."""
        await self._runner.session_service.create_session(app_name="voice", user_id="bench", session_id=chat)
        events = self._runner.run_live(
            user_id="bench", session_id=chat, live_request_queue=queue, run_config=self._config.model_copy()
        )
        async for event in events:
            for pcm in _sounds_in(event):
                yield pcm

    async def serve_client(self, socket: WebSocket) -> None:
        """Serve one client."""
        await socket.accept()
        queue = LiveRequestQueue()
        listening = asyncio.create_task(_listen(socket, queue))
        try:
            async for pcm in self.sounds(socket.path_params["chat"], queue):
                await socket.send_bytes(pcm)
        finally:
            listening.cancel()


async def _listen(socket: WebSocket, queue: LiveRequestQueue) -> None:
    """Put the client's audio into the queue; an empty message means that the client stops speaking."""
    queue.send_activity_start()
    try:
        while True:
            if pcm := await socket.receive_bytes():
                queue.send_realtime(pcm_blob(pcm))
            else:
                queue.send_activity_end()
    except WebSocketDisconnect:
        queue.close()


def pcm_blob(pcm: bytes) -> types.Blob:
    """Return a piece of the microphone's audio as ADK takes it."""
    return types.Blob(data=pcm, mime_type="audio/pcm;rate=16000")


def _sounds_in(event: Event) -> list[bytes]:
    parts = (event.content.parts if event.content else None) or []
    return [part.inline_data.data for part in parts if part.inline_data and part.inline_data.data]


if __name__ == "__main__":
    serve(Starlette(routes=[WebSocketRoute("/live/{chat}", BareLive().serve_client)]))
