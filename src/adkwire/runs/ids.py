"""Ids."""

import secrets


def new_id(kind: str) -> str:
    """An id that nobody can guess."""
    return f"{kind}-{secrets.token_hex(8)}"
