"""A drawing canvas in pure Python: blends convex shapes with smooth edges and encodes a PNG."""

import math
import struct
import zlib
from collections.abc import Callable

Colour = tuple[float, float, float]
Span = Callable[[float], tuple[float, float] | None]
"""A convex shape: a function from a height y to where the shape begins and ends there, or None outside the shape."""

_LINES = (0.125, 0.375, 0.625, 0.875)
"""Heights within a row of pixels at which shapes are sampled, for smooth edges."""


def ellipse(x: float, y: float, rx: float, ry: float) -> Span:
    """Return an ellipse around a centre."""

    def span(line: float) -> tuple[float, float] | None:
        share = 1 - ((line - y) / ry) ** 2
        return (x - rx * math.sqrt(share), x + rx * math.sqrt(share)) if share > 0 else None

    return span


def polygon(*points: tuple[float, float]) -> Span:
    """Return a convex polygon."""
    edges = list(zip(points, (*points[1:], points[0]), strict=True))

    def span(line: float) -> tuple[float, float] | None:
        hits = [
            x0 + (line - y0) / (y1 - y0) * (x1 - x0)
            for (x0, y0), (x1, y1) in edges
            if min(y0, y1) <= line < max(y0, y1)
        ]
        return (min(hits), max(hits)) if hits else None

    return span


def stroke(x0: float, y0: float, x1: float, y1: float, width: float) -> Span:
    """Return a straight line of a width."""
    length = math.hypot(x1 - x0, y1 - y0)
    dx, dy = (y1 - y0) / length * width / 2, (x1 - x0) / length * width / 2
    return polygon((x0 + dx, y0 - dy), (x1 + dx, y1 - dy), (x1 - dx, y1 + dy), (x0 - dx, y0 + dy))


class Canvas:
    """Rows of pixels. A row has three planes, so that one `bytes.translate` blends a whole span of it."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self._rows = [[bytearray(width) for _ in range(3)] for _ in range(height)]

    def gradient(self, top: Colour, bottom: Colour) -> None:
        """Fill everything from one colour at the top to another at the bottom."""
        for y, row in enumerate(self._rows):
            share = y / (self.height - 1)
            for plane, start, end in zip(row, top, bottom, strict=True):
                plane[:] = bytes([_byte(start + (end - start) * share)]) * self.width

    def fill(self, shape: Span, colour: Colour, alpha: float = 1.0) -> None:
        """Blend a shape into the canvas."""
        inside = [_blend(channel, alpha) for channel in colour]
        for y, row in enumerate(self._rows):
            spans = [shape(y + line) for line in _LINES]
            touched = [span for span in spans if span]
            if not touched:
                continue
            left, right = self._solid(touched) if len(touched) == len(spans) else (0, 0)
            for plane, table in zip(row, inside, strict=True):
                plane[left:right] = plane[left:right].translate(table)
            for x in self._edge(touched, left, right):
                covered = alpha * _coverage(touched, x)
                for plane, channel in zip(row, colour, strict=True):
                    plane[x] = _byte((plane[x] * (1 - covered)) / 255 + channel * covered)

    def png(self) -> bytes:
        """Return the canvas as a PNG file."""
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        pixels = zlib.compress(b"".join(self._scanlines()), 9)
        return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")

    def _solid(self, spans: list[tuple[float, float]]) -> tuple[int, int]:
        left = math.ceil(max(span[0] for span in spans))
        right = math.floor(min(span[1] for span in spans))
        left = min(max(left, 0), self.width)
        return left, max(min(right, self.width), left)

    def _edge(self, spans: list[tuple[float, float]], left: int, right: int) -> list[int]:
        first = max(math.floor(min(span[0] for span in spans)), 0)
        last = min(math.ceil(max(span[1] for span in spans)), self.width)
        if left == right:
            return list(range(first, last))
        return [*range(first, left), *range(right, last)]

    def _scanlines(self) -> list[bytes]:
        lines: list[bytes] = []
        for row in self._rows:
            line = bytearray(3 * self.width)
            for channel, plane in enumerate(row):
                line[channel::3] = plane
            lines.append(b"\x00" + line)
        return lines


def _coverage(spans: list[tuple[float, float]], x: int) -> float:
    return sum(max(0.0, min(end, x + 1) - max(start, x)) for start, end in spans) / len(_LINES)


def _blend(channel: float, alpha: float) -> bytes:
    return bytes(_byte(value / 255 * (1 - alpha) + channel * alpha) for value in range(256))


def _byte(share: float) -> int:
    return min(255, max(0, round(share * 255)))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
