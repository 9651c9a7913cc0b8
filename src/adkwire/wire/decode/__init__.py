"""Requests of clients to `TurnInput`."""
