"""The audio of the offline model: a soft tone for each piece of text. Pure: text in, PCM out."""

import array
import functools
import math
import sys
import zlib

RATE = 24_000
"""Samples per second."""
_SCALE = (262, 294, 330, 392, 440)
"""Frequencies of the tones in hertz."""
_LOUDNESS = 1_600
_PAUSE_MS = 40
_FADE_MS = 20


def tone(text: str) -> bytes:
    """Return a tone and a pause, as s16le mono of 24 kHz. A longer text has a longer tone, equal texts the same."""
    if not text.strip():
        return b""
    pitch = _SCALE[zlib.crc32(text.strip().encode()) % len(_SCALE)]
    return _sine(pitch, min(80 + 40 * (len(text.strip()) // 2), 400)) + bytes(2 * RATE * _PAUSE_MS // 1000)


@functools.cache
def _sine(pitch: int, milliseconds: int) -> bytes:
    count = RATE * milliseconds // 1000
    fade = RATE * _FADE_MS // 1000
    samples = array.array(
        "h",
        (
            round(_LOUDNESS * min(1.0, at / fade, (count - 1 - at) / fade) * math.sin(2 * math.pi * pitch * at / RATE))
            for at in range(count)
        ),
    )
    if sys.byteorder == "big":
        samples.byteswap()
    return samples.tobytes()
