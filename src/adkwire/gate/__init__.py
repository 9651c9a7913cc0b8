"""Waiting for a person or a browser."""
