"""The smallest headers of each kind of image, with any width and height."""

import base64
import struct


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x06\0\0\0"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0"


def jpeg(width: int, height: int, *, before: bytes = b"", marker: int = 0xC0) -> bytes:
    size = struct.pack(">BBHBHH", 0xFF, marker, 11, 8, height, width)
    return b"\xff\xd8\xff\xe0\0\x10" + b"JFIF\0".ljust(14, b"\0") + before + size + b"\x01\0\0"


def webp_lossy(width: int, height: int) -> bytes:
    frame = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width | 0x4000, height)
    return _riff(b"VP8 ", frame)


def webp_lossless(width: int, height: int) -> bytes:
    return _riff(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14))


def webp_extended(width: int, height: int) -> bytes:
    return _riff(b"VP8X", b"\0\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"))


def _riff(kind: bytes, chunk: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(chunk) + 12) + b"WEBP" + kind + struct.pack("<I", len(chunk)) + chunk


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
