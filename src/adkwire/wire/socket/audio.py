"""Audio of a client: which formats are accepted, and how other sample rates are converted to 16 kHz.

Audio is PCM with 16 bits per sample, little endian, in one channel. A rate from 8 to 48 kHz is converted by a windowed
sinc filter: each output sample is a weighted sum of the input samples around it. Frequencies above 8 kHz are cut off
first, because at 16 kHz they would come back as noise. The last samples of each piece are kept for the next one, so
that the result does not depend on how the audio is cut into pieces.
"""

import math
import struct
from functools import lru_cache
from operator import mul

from adkwire.errors import UnsupportedType

INPUT_RATE = 16_000
"""Samples per second of the audio that a live model takes."""
OUTPUT_RATE = 24_000
"""Samples per second of the audio that a live model produces."""
CHANNELS = 1
BIT_DEPTH = 16
ENCODING = "pcm_s16le"
MIN_RATE, MAX_RATE = 8_000, 48_000
"""Samples per second that a client may send."""

_ZERO_CROSSINGS = 8
"""Zero crossings of the sinc that the filter covers on each side."""
_PASSED_BAND = 0.92
"""The part of the frequency band that is kept; in the rest the filter falls from all to nothing."""
_MAX_PHASES = 640
"""Positions between two input samples that have weights of their own; enough for 22.05 kHz and all common rates."""
_CACHED_RATES = 16
_MAX_SAMPLE = 32_767


def check_format(rate: int, channels: int, bit_depth: int) -> None:
    """Refuse audio of a format that cannot be converted."""
    if channels != CHANNELS:
        raise UnsupportedType(f"Audio must have one channel, not {channels}.", hint="Mix the channels before sending.")
    if bit_depth != BIT_DEPTH:
        raise UnsupportedType(f"Audio must have {BIT_DEPTH} bits per sample, little endian, not {bit_depth}.")
    if not MIN_RATE <= rate <= MAX_RATE:
        raise UnsupportedType(f"Audio must have {MIN_RATE} to {MAX_RATE} samples per second, not {rate}.")


def check_samples(pcm: bytes) -> None:
    """Refuse an odd number of bytes: half a sample would turn all audio after it into noise."""
    if len(pcm) % 2:
        raise UnsupportedType(f"Audio must have 2 bytes per sample; {len(pcm)} bytes are an odd number.")


def milliseconds(pcm: bytes, rate: int) -> float:
    """Return how long a piece of audio plays."""
    return len(pcm) * 500 / rate


class Resampler:
    """A converter of one microphone's audio, piece by piece, to 16 kHz."""

    def __init__(self, rate: int) -> None:
        check_format(rate, CHANNELS, BIT_DEPTH)
        self.rate = rate
        self._reach = _reach(rate)
        self._kept: list[int] = [0] * (self._reach - 1)
        """The last input samples, which the next output samples need too; silence before the first piece."""
        self._at = 0
        """Where the next output sample lies after the first kept sample, in 1/16000 of a sample."""

    def feed(self, pcm: bytes) -> bytes:
        """Return the next piece at 16 kHz. Output that needs input which has not come yet follows with the next one."""
        check_samples(pcm)
        if self.rate == INPUT_RATE:
            return pcm
        samples = [*self._kept, *struct.unpack(f"<{len(pcm) // 2}h", pcm)]
        converted = self._convert(samples)
        done = self._at // INPUT_RATE
        self._kept = samples[done:]
        self._at -= done * INPUT_RATE
        return struct.pack(f"<{len(converted)}h", *converted)

    def _convert(self, samples: list[int]) -> list[int]:
        bank, width, converted = _filter_bank(self.rate), 2 * self._reach, list[int]()
        while (first := self._at // INPUT_RATE) + width <= len(samples):
            weights = bank[self._at % INPUT_RATE * len(bank) // INPUT_RATE]
            converted.append(_clipped(sum(map(mul, weights, samples[first : first + width]))))
            self._at += self.rate
        return converted


def _clipped(value: float) -> int:
    return max(-_MAX_SAMPLE - 1, min(_MAX_SAMPLE, round(value)))


def _reach(rate: int) -> int:
    """Return how many input samples on each side count for an output sample."""
    return math.ceil(_ZERO_CROSSINGS * max(rate, INPUT_RATE) / INPUT_RATE)


@lru_cache(_CACHED_RATES)
def _filter_bank(rate: int) -> tuple[tuple[float, ...], ...]:
    """Return the weights of the input samples for each position between two of them."""
    phases = min(INPUT_RATE // math.gcd(INPUT_RATE, rate), _MAX_PHASES)
    return tuple(_weights(rate, phase / phases) for phase in range(phases))


def _weights(rate: int, offset: float) -> tuple[float, ...]:
    reach, cutoff = _reach(rate), _PASSED_BAND * min(rate, INPUT_RATE) / rate
    raw = [_weight(distance - offset, reach, cutoff) for distance in range(1 - reach, reach + 1)]
    total = sum(raw)
    return tuple(weight / total for weight in raw)


def _weight(distance: float, reach: int, cutoff: float) -> float:
    """Return the sinc at a distance, under a Hann window that is 0 at the filter's end."""
    angle = math.pi * distance * cutoff
    sinc = math.sin(angle) / angle if angle else 1.0
    return sinc * (0.5 + 0.5 * math.cos(math.pi * distance / reach))
