"""What the owner puts on the page: its name, logo, welcome text and suggestions; and GET /api/page/logo."""

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from adkwire.errors import ConfigError, NotFound
from adkwire.settings import Settings
from adkwire.wire.media import sniff

LOGO_PATH = "/api/page/logo"
_MAX_LOGO = 500_000
"""Bytes of a logo: it is kept in memory, and every visitor loads it."""
_TYPES = frozenset({"image/png", "image/jpeg", "image/webp"})
_SVG = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:\s|<\?xml[^>]*\?>|<!--.*?-->|<!DOCTYPE[^>\[]*>)*<svg[\s>]", re.DOTALL)
_LOGO_HEADERS = {
    # An SVG that is opened by itself is a document of this origin: it must load and run nothing.
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "cache-control": "public, max-age=86400",
}


class Logo(NamedTuple):
    """A checked image."""

    media_type: str
    data: bytes

    @property
    def url(self) -> str:
        """The address of the logo, which changes with its content."""
        return f"{LOGO_PATH}?v={hashlib.sha256(self.data).hexdigest()[:12]}"


class OwnerPage:
    """What the owner has set for the page. The logo is read once: a mistake stops the start."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._logo = None if settings.page_logo is None else _read_logo(settings.page_logo)

    def as_info(self) -> dict[str, object]:
        """Return what `/api/info` says about it; what is not set is left out."""
        settings = self._settings
        page = {
            "name": settings.page_name,
            "logo": self._logo.url if self._logo is not None else None,
            "welcome": settings.page_welcome,
            "suggestions": list(settings.page_suggestions),
        }
        return {name: value for name, value in page.items() if value}

    async def logo(self, request: Request) -> Response:
        """Respond with the logo."""
        if self._logo is None:
            raise NotFound("This page has no logo.", hint="Set one with --page-logo FILE.")
        return Response(self._logo.data, headers=_LOGO_HEADERS, media_type=self._logo.media_type)


def _read_logo(path: Path) -> Logo:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_LOGO + 1)
    except OSError as error:
        raise ConfigError(f"Cannot read the logo {path}: {error.strerror or error}. See --page-logo.") from None
    if len(data) > _MAX_LOGO:
        raise ConfigError(f"The logo {path} has more than {_MAX_LOGO} bytes. Choose a smaller one with --page-logo.")
    kind = "image/svg+xml" if _SVG.match(data) else sniff(data)
    if kind not in _TYPES | {"image/svg+xml"}:
        raise ConfigError(f"The logo {path} is no PNG, JPEG, WebP or SVG. Choose another one with --page-logo.")
    return Logo(kind, data)
