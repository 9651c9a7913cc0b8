"""adkwire connects Google ADK agents to AI SDK front ends."""

from typing import TYPE_CHECKING, Any

from adkwire.errors import AdkwireError, ConfigError, Forbidden, RequestError, Unauthorized, Unavailable

if TYPE_CHECKING:
    from adkwire.bridge import Bridge
    from adkwire.gate.client_tool import ClientTool, client_tool
    from adkwire.gate.policy import Policy, Rule
    from adkwire.server.app import create_app
    from adkwire.server.security import Authenticate, User
    from adkwire.settings import Settings
    from adkwire.stores.base import Batch, CallRow, Closed, GateStore, GrantRow, RunHead, Signals, StreamLog
    from adkwire.stores.stores import Stores

__all__ = [
    "AdkwireError",
    "Authenticate",
    "Batch",
    "Bridge",
    "CallRow",
    "ClientTool",
    "Closed",
    "ConfigError",
    "Forbidden",
    "GateStore",
    "GrantRow",
    "Policy",
    "RequestError",
    "Rule",
    "RunHead",
    "Settings",
    "Signals",
    "Stores",
    "StreamLog",
    "Unauthorized",
    "Unavailable",
    "User",
    "client_tool",
    "create_app",
]

_LOADED_LATE = {
    "adkwire.bridge": ("Bridge",),
    "adkwire.gate.client_tool": ("ClientTool", "client_tool"),
    "adkwire.gate.policy": ("Policy", "Rule"),
    "adkwire.server.app": ("create_app",),
    "adkwire.server.security": ("Authenticate", "User"),
    "adkwire.settings": ("Settings",),
    "adkwire.stores.base": ("Batch", "CallRow", "Closed", "GateStore", "GrantRow", "RunHead", "Signals", "StreamLog"),
    "adkwire.stores.stores": ("Stores",),
}
"""Public names by module; a module is imported when a name of it is first used, so that `import adkwire` is fast."""
_MODULES = {name: module for module, names in _LOADED_LATE.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load the module of a public name."""
    if name not in _MODULES:
        raise AttributeError(f"module 'adkwire' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
