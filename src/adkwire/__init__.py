"""adkwire connects Google ADK agents to AI SDK front ends."""

from typing import TYPE_CHECKING, Any

from adkwire.errors import AdkwireError, ConfigError, Forbidden, RequestError, Unauthorized

if TYPE_CHECKING:
    from adkwire.gate.client_tool import ClientTool, client_tool
    from adkwire.gate.policy import Policy, Rule
    from adkwire.server.app import Bridge, create_app
    from adkwire.server.security import User
    from adkwire.settings import Settings

__all__ = [
    "AdkwireError",
    "Bridge",
    "ClientTool",
    "ConfigError",
    "Forbidden",
    "Policy",
    "RequestError",
    "Rule",
    "Settings",
    "Unauthorized",
    "User",
    "client_tool",
    "create_app",
]

_LAZY = {
    "Bridge": "adkwire.server.app",
    "ClientTool": "adkwire.gate.client_tool",
    "Policy": "adkwire.gate.policy",
    "Rule": "adkwire.gate.policy",
    "client_tool": "adkwire.gate.client_tool",
    "create_app": "adkwire.server.app",
    "Settings": "adkwire.settings",
    "User": "adkwire.server.security",
}


def __getattr__(name: str) -> Any:
    """Load what is heavy only when it is asked for, so that `adkwire.wire` stays light."""
    if name not in _LAZY:
        raise AttributeError(f"module 'adkwire' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
