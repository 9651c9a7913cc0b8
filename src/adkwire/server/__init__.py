"""ASGI, thin: parse, ask the bridge, write. No logic, no ADK."""
