"""python -m bench.peers adk|ag-ui-adk DATABASE: serves a peer on a free port, set up as its documentation says.

Both peers have what adkwire's server has: uvicorn with uvloop and httptools, the same ADK session service, sessions
made on the fly, no access log; and each has the settings that make it fastest.
"""

import logging
import socket
import sys
import warnings

import uvicorn
from ag_ui_adk import ADKAgent, add_adk_fastapi_endpoint  # pyright: ignore[reportMissingTypeStubs]
from fastapi import FastAPI
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from starlette.types import ASGIApp

from bench.agents.flood.agent import root_agent
from bench.servers import AGENT, MEMORY


def adk(database: str) -> FastAPI:
    """Return ADK's own API server, which has the route `/run_sse`."""
    return get_fast_api_app(
        agents_dir=str(AGENT.parent),
        session_service_uri="memory://" if database == MEMORY else f"sqlite:///{database}",
        artifact_service_uri="memory://",
        memory_service_uri="memory://",
        use_local_storage=False,
        web=False,
        auto_create_session=True,
    )


def ag_ui_adk(database: str) -> FastAPI:
    """Return ag-ui-adk's endpoint with a limit of 1000 runs instead of 10, and with sessions found by id."""
    agent = ADKAgent(
        adk_agent=root_agent,
        app_name="flood",
        user_id="bench",
        session_service=InMemorySessionService() if database == MEMORY else SqliteSessionService(database),
        use_thread_id_as_session_id=True,
        max_concurrent_executions=1000,
    )
    app = FastAPI()
    add_adk_fastapi_endpoint(app, agent, path="/")
    return app


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            print(f"ready at http://127.0.0.1:{listener.getsockname()[1]}", flush=True)


def main(peer: str, database: str) -> None:
    """Serve a peer until the process is stopped."""
    logging.basicConfig(level=logging.ERROR)
    warnings.simplefilter("ignore", UserWarning)
    serve(adk(database) if peer == "adk" else ag_ui_adk(database))


def serve(app: ASGIApp) -> None:
    """Serve an app on a free port, with the WebSocket settings that use the least CPU."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=2,
            ws="websockets-sansio",
            ws_per_message_deflate=False,
        )
        _Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
