"""Draws a picture for any subject: an evening landscape whose colours and shapes depend on the subject's name."""

import colorsys
import hashlib
import math
from collections.abc import Iterator

from adkwire.demo.canvas import Canvas, Colour, ellipse, polygon, stroke

WIDTH, HEIGHT = 512, 320

_CATS = ("cat", "kitten", "猫", "ネコ", "ねこ", "子猫")


def paint(subject: str) -> bytes:
    """Return a PNG of the subject; the same subject gives the same picture."""
    chance = _chances(subject.strip().casefold())
    hue = next(chance)
    canvas = Canvas(WIDTH, HEIGHT)
    canvas.gradient(_colour(hue, 0.55, 0.35), _colour(hue + 0.09, 0.45, 0.98))
    _stars(canvas, chance)
    _sun(canvas, 90 + 320 * next(chance), 70 + 50 * next(chance), 26 + 14 * next(chance))
    _hills(canvas, hue, chance)
    if is_cat(subject):
        _cat(canvas, 256, 300, _colour(hue + 0.5, 0.35, 0.22))
    else:
        _trees(canvas, hue, chance)
    return canvas.png()


def is_cat(subject: str) -> bool:
    """Return whether the subject is a cat, in English or Japanese."""
    words = subject.casefold().replace("cats", "cat").replace("kittens", "kitten").split()
    return any(cat in words if cat.isascii() else cat in subject for cat in _CATS)


def _chances(seed: str) -> Iterator[float]:
    """Yield endless numbers from 0 to 1, the same for the same seed in every process."""
    block = 0
    while True:
        yield from (byte / 255 for byte in hashlib.sha256(f"{block}:{seed}".encode()).digest())
        block += 1


def _colour(hue: float, saturation: float, value: float) -> Colour:
    return colorsys.hsv_to_rgb(hue % 1, saturation, value)


def _stars(canvas: Canvas, chance: Iterator[float]) -> None:
    for _ in range(40):
        x, y, size = next(chance) * WIDTH, next(chance) * 150, 0.7 + 1.1 * next(chance)
        canvas.fill(ellipse(x, y, size, size), (1, 1, 1), 0.75 * (1 - y / 180))


def _sun(canvas: Canvas, x: float, y: float, radius: float) -> None:
    for ring in range(9, 0, -1):
        glow = radius * (1 + ring * 0.28)
        canvas.fill(ellipse(x, y, glow, glow), (1, 0.95, 0.8), 0.05)
    canvas.fill(ellipse(x, y, radius, radius), (1, 0.97, 0.88))


def _hills(canvas: Canvas, hue: float, chance: Iterator[float]) -> None:
    for layer in range(4):
        colour = _colour(hue + 0.05 - 0.03 * layer, 0.4 + 0.08 * layer, 0.78 - 0.17 * layer)
        for column in range(-1, 4):
            x = (column + next(chance)) * WIDTH / 3
            top = 175 + 35 * layer + 30 * next(chance)
            canvas.fill(ellipse(x, top + 190, 150 + 90 * next(chance), 190), colour)


def _trees(canvas: Canvas, hue: float, chance: Iterator[float]) -> None:
    colour = _colour(hue - 0.08, 0.6, 0.16)
    for _ in range(9):
        x, foot, height = next(chance) * WIDTH, 285 + 30 * next(chance), 45 + 60 * next(chance)
        canvas.fill(
            polygon((x - 2, foot - height * 0.2), (x + 2, foot - height * 0.2), (x + 2, foot), (x - 2, foot)), colour
        )
        for level in range(3):
            tip, half = foot - height + level * height * 0.22, height * (0.14 + 0.06 * level)
            canvas.fill(polygon((x, tip), (x + half, tip + height * 0.4), (x - half, tip + height * 0.4)), colour)


def _cat(canvas: Canvas, x: float, ground: float, fur: Colour) -> None:
    _cat_tail(canvas, x, ground, fur)
    canvas.fill(ellipse(x, ground - 45, 52, 62), fur)
    for side in (-1, 1):
        canvas.fill(ellipse(x + side * 24, ground + 8, 20, 11), fur)
    _cat_head(canvas, x, ground - 125, fur)


def _cat_tail(canvas: Canvas, x: float, ground: float, fur: Colour) -> None:
    for at in range(60):
        turn = at / 59
        curl = math.sin(turn * math.pi * 0.8)
        canvas.fill(ellipse(x + 38 + 62 * curl, ground - 5 - 95 * turn, 10 - 3 * turn, 10 - 3 * turn), fur)


def _cat_head(canvas: Canvas, x: float, y: float, fur: Colour) -> None:
    pink = (0.95, 0.62, 0.64)
    light = tuple(channel + (1 - channel) * 0.25 for channel in fur)
    for side in (-1, 1):
        canvas.fill(polygon((x + side * 50, y - 68), (x + side * 54, y - 8), (x + side * 10, y - 36)), fur)
        canvas.fill(polygon((x + side * 45, y - 54), (x + side * 46, y - 18), (x + side * 20, y - 35)), pink)
    canvas.fill(ellipse(x, y, 58, 48), fur)
    for side in (-1, 1):
        canvas.fill(ellipse(x + side * 12, y + 22, 17, 13), (light[0], light[1], light[2]))
        _cat_eye(canvas, x + side * 24, y - 4)
        for whisker in (-8, 0, 8):
            canvas.fill(stroke(x + side * 26, y + 20, x + side * 84, y + 14 + 1.6 * whisker, 1.4), (1, 1, 1), 0.8)
    canvas.fill(polygon((x - 7, y + 10), (x + 7, y + 10), (x, y + 18)), pink)


def _cat_eye(canvas: Canvas, x: float, y: float) -> None:
    canvas.fill(ellipse(x, y, 13, 14), (0.98, 0.86, 0.35))
    canvas.fill(ellipse(x, y, 4.5, 12), (0.05, 0.05, 0.08))
    canvas.fill(ellipse(x - 3, y - 5, 3, 3), (1, 1, 1))
