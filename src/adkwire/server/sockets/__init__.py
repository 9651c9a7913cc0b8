"""The WebSockets of a server."""
