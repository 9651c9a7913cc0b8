"""The private and undocumented names of other packages that adkwire uses: one list, and one test for each name.

A test that fails here says what breaks when a release of the package has renamed or removed the name.
"""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import adkwire

SOURCE = Path(adkwire.__file__).parent
PACKAGES = ("google", "uvicorn", "websockets", "aiosqlite")
SQLITE = "google.adk.sessions.sqlite_session_service:SqliteSessionService"
SOCKET = "uvicorn.protocols.websockets.websockets_sansio_impl:WebSocketsSansIOProtocol"
HTTP = "uvicorn.protocols.http.h11_impl:H11Protocol"
SESSIONS, PROTOCOL, EMULATOR = "adk/sessions.py", "server/sockets/uvicorn_protocol.py", "testing/gemini/emulator.py"
DROPS = "the emulator of Gemini cannot drop a connection"
WARM_UP = "nothing but speed: the first turn imports what `warm_up` would have imported"


class Name(NamedTuple):
    """A name, the class or module it belongs to, the files that use it, and what breaks without it."""

    owner: str
    name: str
    files: str
    breaks: str


NAMES = [
    Name(
        SQLITE, "_get_db_connection", SESSIONS, "ADK opens a connection per operation: slow, and `database is locked`"
    ),
    Name(SQLITE, "_db_connect_path", SESSIONS, "the one connection to the session file cannot be opened"),
    Name(SQLITE, "_db_connect_uri", SESSIONS, "the one connection to the session file cannot be opened"),
    Name("aiosqlite:Connection", "_thread", SESSIONS, "a program that does not close its bridge never ends"),
    Name(
        "google.adk.tools.base_tool:BaseTool",
        "_get_declaration",
        "adk/call_records.py gate/client_tool.py",
        "arguments that a person edits are not checked, and a browser tool is not declared to the model",
    ),
    Name(
        "google.adk.tools.function_tool:FunctionTool",
        "_require_confirmation",
        "adk/app.py",
        "`/api/info` does not list which tools ask",
    ),
    Name(
        "google.adk.agents.live_request_queue:LiveRequestQueue",
        "_queue",
        "adk/live_queue.py",
        "sound that nobody takes in time is not dropped, and a dead send task is not noticed",
    ),
    Name(
        "google.adk.models.base_llm_connection:BaseLlmConnection",
        "_send_content",
        "testing/model_connection.py testing/scripted.py",
        "scripted and emulated live models do not get what is typed",
    ),
    Name("google.adk.agents", "remote_a2a_agent", "adk/app.py", "nothing but speed: ADK tries the import in each turn"),
    Name("google.adk.agents", "_agent_router", "adk/app.py", WARM_UP),
    Name("google.adk.workflow", "_workflow", "adk/app.py", WARM_UP),
    Name("google.adk.workflow", "_dynamic_node_scheduler", "adk/app.py", WARM_UP),
    Name("google.adk.workflow", "_llm_agent_wrapper", "adk/app.py", WARM_UP),
    Name("uvicorn:Server", "startup", "cli.py", "the start does not print that the server is ready"),
    Name("uvicorn:Server", "shutdown", "cli.py", "a stopped server cuts running answers off"),
    Name("uvicorn:Server", "started", "cli.py", "the start does not print that the server is ready"),
    Name("uvicorn:Server", "force_exit", "cli.py", "a second Ctrl-C does not stop running answers at once"),
    Name(SOCKET, "handle_connect", PROTOCOL, "a header that is not ASCII fails the server, not the client"),
    Name(SOCKET, "handshake_complete", PROTOCOL, "each refused socket is logged as an error of the app"),
    Name(SOCKET, "close_sent", PROTOCOL, "a refused handshake is refused twice"),
    Name(SOCKET, "transport", PROTOCOL, "a client that does not read keeps a closed socket open"),
    Name(SOCKET, "send", PROTOCOL, "a close frame waits behind what a slow client has not read"),
    Name(SOCKET, "writable", PROTOCOL, "a close frame waits behind what a slow client has not read"),
    Name(SOCKET, "run_asgi", PROTOCOL, "a client that does not read keeps a closed socket open"),
    Name(SOCKET, "disconnected", PROTOCOL, "a client that does not read keeps a closed socket open"),
    Name(SOCKET, "loop", PROTOCOL, "a client that does not read keeps a closed socket open"),
    Name(SOCKET, "close_timeout", PROTOCOL, "a client that does not read keeps a closed socket open"),
    Name(SOCKET, "connection_lost", PROTOCOL, "a timer outlives its socket"),
    Name(SOCKET, "send_receive_event_to_app", PROTOCOL, "text that is no UTF-8 is an error of the server"),
    Name(SOCKET, "curr_msg_data_type", PROTOCOL, "text that is no UTF-8 is an error of the server"),
    Name(SOCKET, "frames", PROTOCOL, "text that is no UTF-8 is an error of the server"),
    Name(SOCKET, "conn", PROTOCOL, "text that is no UTF-8 is an error of the server"),
    Name(SOCKET, "handle_parser_exception", PROTOCOL, "text that is no UTF-8 is an error of the server"),
    Name(SOCKET, "data_received", PROTOCOL, "a client that sends one long message is cut as if it were gone"),
    Name(SOCKET, "pong_timer", PROTOCOL, "a client that sends one long message is cut as if it were gone"),
    Name(SOCKET, "ping_timeout", PROTOCOL, "a client that sends one long message is cut as if it were gone"),
    Name(SOCKET, "keepalive_timeout", PROTOCOL, "a client that sends one long message is cut as if it were gone"),
    *(Name(SOCKET, name, EMULATOR, DROPS) for name in ("connection_lost", "app_state", "client")),
    *(Name(HTTP, name, EMULATOR, DROPS) for name in ("connection_made", "connection_lost", "app_state", "client")),
    Name("uvicorn.server", "ServerState", EMULATOR, "the emulator of Gemini does not start"),
]


def owner_of(path: str) -> Any:
    module, _, name = path.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found


def has(owner: Any, name: str) -> bool:
    """Return whether a module has a name or submodule, or a class a method or an attribute that it sets itself."""
    if inspect.ismodule(owner):
        modules = getattr(owner, "__path__", ())
        return hasattr(owner, name) or name in {module.name for module in pkgutil.iter_modules(modules)}
    return hasattr(owner, name) or any(
        re.search(rf"\bself\.{name}\b[^=\n]*=", inspect.getsource(each))
        for each in owner.__mro__
        if each.__module__.split(".")[0] in PACKAGES
    )


@pytest.mark.parametrize("entry", NAMES, ids=lambda entry: f"{entry.owner.rpartition(':')[2]}.{entry.name}")
def test_a_name_still_exists(entry: Name) -> None:
    assert has(owner_of(entry.owner), entry.name), f"Without it: {entry.breaks}."


def test_no_other_private_name_is_used() -> None:
    listed = {(file, entry.name) for entry in NAMES for file in entry.files.split()}
    used = set(used_names())
    assert used - listed == set(), "list them in NAMES, with what breaks without them"
    assert listed - used == set(), "they are no longer used"


def used_names() -> Iterator[tuple[str, str]]:
    """Yield file and name of every use: by import, by attribute, by text, and in subclasses of foreign classes."""
    for path in sorted(SOURCE.rglob("*.py")):
        file, tree = path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text("utf-8"))
        if any(_packages_in(node) for node in ast.walk(tree)):
            for node in ast.walk(tree):
                yield from ((file, name) for name in _private_in(node))
    for module in pkgutil.walk_packages(adkwire.__path__, "adkwire."):
        if module.name.endswith("__main__"):
            continue
        for cls in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(cls) and cls.__module__ == module.name:
                file = module.name.removeprefix("adkwire.").replace(".", "/") + ".py"
                yield from ((file, name) for name in _inherited_in(cls))


def _packages_in(node: ast.AST) -> bool:
    modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    return any(module.split(".")[0] in PACKAGES for module in modules)


def _private_in(node: ast.AST) -> Iterator[str]:
    """Yield the private names of other packages in a node that is not part of `self`."""
    names: list[str] = []
    if isinstance(node, ast.ImportFrom) and _packages_in(node):
        names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        # Classes of uvicorn's server are not documented.
        yield from (alias.name for alias in node.names if node.module == "uvicorn.server")
    elif isinstance(node, ast.Attribute) and not _is_own(node.value):
        names = [node.attr] if node.attr != "_replace" else []
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w.]+", node.value):
        names = (
            node.value.split(".") if node.value.startswith(PACKAGES) else [node.value] if node.value[0] == "_" else []
        )
        yield from (name for name in names if name == "remote_a2a_agent")
    yield from (name for name in names if re.match(r"_[a-z]", name))


def _is_own(value: ast.expr) -> bool:
    is_super = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"
    return is_super or (isinstance(value, ast.Name) and value.id in ("self", "cls"))


def _inherited_in(cls: type) -> Iterator[str]:
    """Yield the names of its foreign base classes that a class uses: of uvicorn all, of others the private ones."""
    foreign = [base for base in cls.__mro__ if base.__module__.split(".")[0] in PACKAGES]
    if not foreign:
        return
    tree = _class_tree(cls)
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_own(node.value)}
    used |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    is_uvicorn = foreign[0].__module__.startswith("uvicorn")
    for name in sorted(used):
        if (
            not name.startswith("__")
            and (is_uvicorn or name.startswith("_"))
            and any(has(base, name) for base in foreign)
        ):
            yield name


def _class_tree(cls: type) -> ast.AST:
    tree = ast.parse(Path(inspect.getfile(cls)).read_text("utf-8"))
    return next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == cls.__name__)
