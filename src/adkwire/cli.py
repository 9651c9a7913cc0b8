"""The commands: `adkwire serve [TARGET]` serves an ADK agent, `adkwire replay FILE` serves a recording."""

import argparse
import asyncio
import contextlib
import logging
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import uvicorn
from pydantic import SecretStr

from adkwire.errors import ConfigError
from adkwire.server.sockets.uvicorn_protocol import UvicornProtocol
from adkwire.settings import Settings

_BACKLOG = 2048
_FORCED_CLOSE = 5.0
"""Seconds to wait for running tools after a second Ctrl-C: some do not end when they are cancelled."""
_FRAME_FACTOR = 2
"""How many times the limit a frame is still read, so that its sender gets an error; a larger one closes the socket."""
_PING = 10.0
"""Seconds between pings on a socket: they keep it open and detect lost clients."""
_COMMON = ("host", "port", "auth", "allow_origin", "allow_host", "ui")
"""The settings that every server takes as options."""
_PAGE = ("page_name", "page_logo", "page_welcome", "page_suggestions")
"""The settings of the owner's page."""
_DEFAULT_DB = ".adkwire/state.db"
"""The database of `adkwire serve` when neither an option nor the environment names one."""
_LEVELS = ("debug", "info", "warning", "error")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. A mistake of the server's owner prints one line and returns the exit code 2."""
    options = _parser().parse_args(argv)
    try:
        return _replay(options) if options.command == "replay" else _serve(options)
    except ConfigError as error:
        print(f"adkwire: {error}", file=sys.stderr)
        return 2


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports a wrong option in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"adkwire: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="adkwire", description="Connects Google ADK agents to AI SDK front ends.")
    parser.add_argument("--version", action="version", version=f"adkwire {version('adkwire')}")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve an agent, by default the built-in demo")
    add = serve.add_argument
    add("target", nargs="?", help="pkg.module:attribute, a Python file, or an ADK agent folder (default: the demo)")
    add("--db", help="SQLite file for chats, or memory: (default .adkwire/state.db)")
    add("--policy", metavar="FILE", help="TOML or YAML file with rules: which calls run, ask first or are refused")
    add("--record", metavar="DIR", help="write every chat into a file of this folder, for adkwire replay")
    add("--page-name", metavar="NAME", help="name that the page shows")
    add("--page-logo", metavar="FILE", help="PNG, JPEG, WebP or SVG file that the page shows beside the name")
    add("--page-welcome", metavar="TEXT", help="text of an empty chat")
    add(
        "--page-suggestion",
        dest="page_suggestions",
        action="append",
        metavar="TEXT",
        help="message that an empty chat offers",
    )
    add("--on-busy", choices=["replace", "refuse", "queue"], help="what a message does to a running answer")
    _add_common(serve)
    replay = commands.add_parser("replay", help="serve a recording instead of an agent")
    replay.add_argument("file", type=Path, help="a file that adkwire serve --record has written")
    replay.add_argument(
        "--speed",
        choices=("real", "fast", "step"),
        default="real",
        help="real: at the recorded speed (default); fast: at once; step: one chunk for each POST /api/replay/step",
    )
    _add_common(replay)
    return parser


def _add_common(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--host", help="address to listen on (default 127.0.0.1)")
    add("--port", type=int, help="port to listen on, 0 for a free one (default 8000)")
    add("--auth", choices=["none", "token"], help="who may talk: none (loopback only) or token (ADKWIRE_TOKEN)")
    add("--allow-origin", action="append", metavar="ORIGIN", help="another site whose pages may call the API")
    add("--allow-host", action="append", metavar="NAME", help="another name this server answers to")
    add("--no-ui", dest="ui", action="store_false", default=None, help="do not serve the page")
    add("--log-level", choices=_LEVELS, default="warning", help="how much to log (default warning)")


def _serve(options: argparse.Namespace) -> int:
    chosen = _chosen(options, *_COMMON, *_PAGE, "db", "policy", "record", "on_busy")
    settings, generated = _with_token(_for_this_machine(_with_database(Settings.load(**chosen))))
    _log(options.log_level)
    with _listen(settings) as listener:
        # Imports ADK, which takes seconds: wrong options are reported before.
        app, name = _app(options.target, settings)
        kept = "in memory" if settings.db_path is None else settings.db_path.resolve()
        recorded = "nothing (see --record)" if settings.record is None else f"into {settings.record.resolve()}"
        lines = [f"  agent  {name}", f"  chats  {kept}", f"  record {recorded}"]
        return _run(app, listener, settings, lines, show_token=generated)


def _replay(options: argparse.Namespace) -> int:
    from adkwire.recording.files import load_recording

    recording = load_recording(options.file)
    chosen = _chosen(options, *_COMMON)
    settings, generated = _with_token(Settings.load(db="memory:", record=None, chats_per_minute=0, **chosen))
    _log(options.log_level)
    with _listen(settings) as listener:
        from adkwire.server.replay import create_replay_app

        app = create_replay_app(recording, settings, options.speed)
        lines = [f"  replay {options.file.resolve()}", f"  runs   {len(recording.runs)}, speed {options.speed}"]
        return _run(app, listener, settings, lines, show_token=generated)


def _chosen(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return those of the named options that were set on the command line."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def _with_database(settings: Settings) -> Settings:
    """Return settings with the default database unless one was named; make the folder of the database."""
    if "db" not in settings.model_fields_set:
        settings = settings.model_copy(update={"db": _DEFAULT_DB})
    path = settings.db_path
    try:
        if path is not None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"Cannot keep chats in {path}: {error}. Choose another file with --db.") from None
    return settings


def _with_token(settings: Settings) -> tuple[Settings, bool]:
    """Return settings that have a token if they need one, and True if the token was made here and must be printed."""
    if settings.auth != "token" or settings.token is not None:
        return settings, False
    return settings.model_copy(update={"token": SecretStr(secrets.token_urlsafe(24))}), True


def _app(target: str | None, settings: Settings) -> tuple[Any, str]:
    from adkwire.demo.offline_model import OfflineModel
    from adkwire.server.app import create_app

    policy = None
    if target is None:
        from adkwire.demo.agent import POLICY, build_agent

        agent = build_agent(os.environ)
        policy = POLICY if settings.policy is None else None
    else:
        from adkwire.adk.load_target import check_models, load_target

        agent = load_target(target)
        check_models(agent, os.environ)
    app = create_app(agent, settings=settings, policy=policy, offline_model=OfflineModel())
    return app, app.state.bridge.agent_name


def _log(level: str) -> None:
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # At the level DEBUG uvicorn logs the content of sockets, and tokens with it.
    logging.getLogger("uvicorn.error").setLevel(max(logging.INFO, logging.getLogger().level))
    if level != "debug":
        # ADK logs each failure several times before it reaches adkwire, which logs it once.
        logging.getLogger("google_adk").setLevel(logging.CRITICAL)


def _for_this_machine(settings: Settings) -> Settings:
    """Return settings that show the texts of exceptions if the only user is at this machine, unless that is set."""
    if settings.auth != "none" or "error_detail" in settings.model_fields_set:
        return settings
    return settings.model_copy(update={"error_detail": True})


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # IPPROTO_TCP is named because asyncio turns Nagle's delay off only for sockets that have it.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Connections inherit it: the system closes a connection whose client reads nothing, and drops unread data.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(2000 * settings.slow_reader))
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise ConfigError(
            f"Cannot listen on {settings.host} port {settings.port}: {reason}. "
            "Choose another with --port or ADKWIRE_PORT."
        ) from None
    return listener


class _Server(uvicorn.Server):
    """A uvicorn server that prints when it is ready, and lets running answers end before it closes connections."""

    def __init__(self, config: uvicorn.Config, app: Any, lines: list[str]) -> None:
        super().__init__(config)
        self._app = app
        self._lines = lines

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print("\n".join(self._lines), flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        bridge = self._app.state.bridge
        if bridge.active_runs:
            print("adkwire lets the running answers end; Ctrl-C again stops them now", flush=True)
        closing = asyncio.create_task(bridge.close(), name="adkwire-close")
        while not closing.done() and not self.force_exit:
            await asyncio.wait([closing], timeout=0.1)
        if not closing.done():
            closing.cancel()
            await asyncio.wait([closing])
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(bridge.close(drain=0), _FORCED_CLOSE)
            self.force_exit = False  # else uvicorn would end the rest with a traceback
        await super().shutdown(sockets)


def _run(app: Any, listener: socket.socket, settings: Settings, lines: list[str], *, show_token: bool) -> int:
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    lines = [f"adkwire is ready at {url}", *lines]
    if show_token and settings.token is not None:
        lines.append(f"  open   {url}/#token={settings.token.get_secret_value()}")
    config = uvicorn.Config(
        app,
        loop="auto",
        http="auto",
        ws=UvicornProtocol,
        ws_max_size=_FRAME_FACTOR * settings.max_body_bytes,
        ws_ping_interval=_PING,
        ws_ping_timeout=settings.slow_reader,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
        ws_per_message_deflate=False,
    )
    server = _Server(config, app, lines)
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    return 0 if server.started else 1


if __name__ == "__main__":
    sys.exit(main())
