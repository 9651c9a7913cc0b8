"""Files of the user: the checked bytes of a data URL.

The type of a file is read from its first bytes, and the declared type must agree. The dimensions of an image are read
from its header without decoding it, so an image that would unpack to gigabytes is refused after a few bytes.
"""

import base64
import binascii
import re
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from adkwire.errors import TooLarge, Unprocessable, UnsupportedType

_DATA_URL = re.compile(r"^data:([\w.+-]+/[\w.+-]+)((?:;[\w.+-]+=[\w.+-]+)*)(;base64)?,", re.ASCII)
_ACCEPTED = "Only PNG, JPEG, WebP and GIF images are accepted."


class Media(NamedTuple):
    """A file that a user attached."""

    media_type: str
    data: bytes
    filename: str | None = None


def read_data_url(url: str, *, declared: str, filename: str | None, max_bytes: int, max_pixels: int) -> Media:
    """Return the file in a data URL, or refuse it."""
    found = _DATA_URL.match(url)
    if found is None:
        raise Unprocessable(
            "A file part must have its bytes in a data: URL.",
            hint="adkwire never fetches a URL for a client; read the file in the browser and send it as a data URL.",
        )
    if not found[3]:
        raise Unprocessable("A data: URL must be base64.")
    body = len(url) - found.end()
    if body * 3 // 4 > max_bytes + 2:
        raise TooLarge(f"A file may have at most {max_bytes} bytes.")
    try:
        data = base64.b64decode(url[found.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise Unprocessable("The file is not valid base64.") from None
    if len(data) > max_bytes:
        raise TooLarge(f"A file may have at most {max_bytes} bytes.")
    kind = sniff(data)
    if kind is None or kind != _same(found[1]) or (declared not in ("", "image") and _same(declared) != kind):
        raise UnsupportedType(f"The file is not an image of the type {declared or found[1]}.", hint=_ACCEPTED)
    _check_dimensions(kind, data, max_pixels)
    return Media(kind, data, filename)


def sniff(data: bytes) -> str | None:
    """Return the image type that the first bytes show, or None."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def dimensions(kind: str, data: bytes) -> tuple[int, int] | None:
    """Return width and height of an image from its header, or None when the header is cut short or invalid."""
    try:
        return _READERS[kind](data)
    except (struct.error, IndexError):
        return None


def _same(media_type: str) -> str:
    lowered = media_type.lower()
    return "image/jpeg" if lowered == "image/jpg" else lowered


def _check_dimensions(kind: str, data: bytes, max_pixels: int) -> None:
    size = dimensions(kind, data)
    if size is None or 0 in size:
        raise UnsupportedType("The image's header cannot be read.", hint=_ACCEPTED)
    if size[0] * size[1] > max_pixels:
        raise TooLarge(f"An image may have at most {max_pixels} pixels; this one has {size[0]} x {size[1]}.")


def _png(data: bytes) -> tuple[int, int] | None:
    return struct.unpack(">II", data[16:24]) if data[12:16] == b"IHDR" else None


def _gif(data: bytes) -> tuple[int, int] | None:
    return struct.unpack("<HH", data[6:10])


def _webp(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L" and data[20:21] == b"\x2f":
        (bits,) = struct.unpack("<I", data[21:25])
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None


_MAX_SEGMENTS = 10_000
"""Segments of a JPEG that are searched for its size; real images have some dozens, a hostile one has millions."""
_SIZE_MARKERS = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


def _jpeg(data: bytes) -> tuple[int, int] | None:
    for marker, at in _jpeg_segments(data):
        if marker in _SIZE_MARKERS:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
    return None


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, int]]:
    at = 2
    for _ in range(_MAX_SEGMENTS):
        if data[at] != 0xFF:
            return
        if data[at + 1] == 0xFF:
            at += 1
            continue
        yield data[at + 1], at
        (length,) = struct.unpack(">H", data[at + 2 : at + 4])
        at += 2 + length


_READERS: dict[str, Callable[[bytes], tuple[int, int] | None]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
