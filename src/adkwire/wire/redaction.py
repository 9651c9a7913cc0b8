"""Redaction of recordings: the values of fields with the names of secrets, and known secrets anywhere."""

import re
from collections.abc import Iterable, Mapping
from operator import is_
from typing import cast
from urllib.parse import quote

import msgspec

from adkwire.wire.chunks import Json

HIDDEN = "[redacted]"
_HIDDEN = HIDDEN.encode()
_MAX_MEDIA = 1_000
"""Bytes of media that are kept; larger media are replaced by their size."""
_SHORTEST = 6
"""Characters of the shortest secret that is searched for; shorter ones would be found in ordinary words."""

# `partialArgs`: streamed arguments come in pieces, in which names and values cannot be matched.
_WORDS = (
    r"authori[sz]ation|cookie|passw|passphrase|secret|credential|bearer|(?:api|access|private)[-_ .]?key|partialargs"
)
_SUSPICIOUS = re.compile(rf"{_WORDS}|token".encode(), re.IGNORECASE)
_SECRET_NAME = re.compile(_WORDS, re.IGNORECASE)
_TOKEN_NAME = re.compile(r"tokens?$", re.IGNORECASE)


def is_suspicious(raw: bytes) -> bool:
    """Return True if JSON may contain a name that `redact` looks for; most chunks need no closer look."""
    return _SUSPICIOUS.search(raw) is not None


def redact(value: object) -> object:
    """Return a value without the values of secret names and without the bytes of media; the same object if it has none.

    Token counts are kept. JSON inside a string is redacted too.
    """
    if isinstance(value, Mapping):
        return _redact_items(cast(Mapping[object, object], value))
    if isinstance(value, list | tuple):
        items = list(cast("list[object] | tuple[object, ...]", value))
        new = [redact(item) for item in items]
        return cast(object, value) if all(map(is_, items, new)) else new
    if isinstance(value, str):
        return _redact_text(value)
    if isinstance(value, bytes) and len(value) > _MAX_MEDIA:
        return f"[{len(value)} bytes]"
    return value


def _redact_items(value: Mapping[object, object]) -> object:
    new = {name: HIDDEN if _hides(name, item) else redact(item) for name, item in value.items()}
    return value if all(new[name] is item for name, item in value.items()) else new


def _hides(name: object, item: object) -> bool:
    if item is None or not isinstance(name, str):
        return False
    if _SECRET_NAME.search(name):
        return True
    return _TOKEN_NAME.search(name) is not None and not isinstance(item, int | float)


def _redact_text(text: str) -> str:
    if text[:1] not in ("{", "[") or not is_suspicious(text.encode(errors="replace")):
        return text
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
    new = redact(value)
    return text if new is value else msgspec.json.encode(new).decode()


def without_media(value: object) -> object:
    """Return a value with long data URLs cut off."""
    if isinstance(value, str):
        return f"{value[:40]}... [{len(value)} characters]" if _is_long_data_url(value) else value
    if isinstance(value, dict):
        return {name: without_media(item) for name, item in cast(dict[str, object], value).items()}
    return [without_media(item) for item in cast(list[object], value)] if isinstance(value, list) else value


def _is_long_data_url(text: str) -> bool:
    return len(text) > _MAX_MEDIA and text.startswith("data:")


class Secrets:
    """Known secrets, such as the server's own keys."""

    def __init__(self, values: Iterable[str | None]) -> None:
        self._values = sorted({value for value in values if value and len(value) >= _SHORTEST}, key=len, reverse=True)
        self._forms = sorted({form for value in self._values for form in _forms(value)}, key=len, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._values)

    def cover(self, raw: bytes) -> bytes:
        """Return encoded JSON without the secrets."""
        for form in self._forms:
            raw = raw.replace(form, _HIDDEN)
        return raw

    def cover_text(self, text: str) -> str:
        """Return a text without the secrets."""
        for value in self._values:
            text = text.replace(value, HIDDEN)
        return text

    def begun_at_end(self, text: str) -> str:
        """Return the end of a text that is the beginning of a secret; empty when there is none."""
        starts = (value[:size] for value in self._values for size in range(len(value) - 1, 0, -1))
        return max((start for start in starts if text.endswith(start)), key=len, default="")


def _forms(value: str) -> set[bytes]:
    """Return a secret as it is in JSON, in JSON inside a string, and in a URL."""
    once = msgspec.json.encode(value)[1:-1]
    return {once, msgspec.json.encode(once.decode())[1:-1], quote(value, safe="").encode()}
