"""The HTTP and WebSocket routes: they parse requests, call the backend and write responses. No logic, no ADK."""
