"""Sound of a client: what is taken, and how other rates become the one that models hear.

16 bit, little endian, one channel. A rate from 8 to 48 kHz is made 16 kHz by a windowed sinc: each sample of the result
weighs the samples around its place, and frequencies that 16 kHz cannot carry are cut off first, or they would come back
as noise. What is needed of the piece before is kept, so that pieces make the same sound as the whole.
"""

import math
import struct
from functools import lru_cache
from operator import mul

from adkwire.errors import UnsupportedType

RATE = 16_000
"""Samples a second, as models hear."""
SPEECH_RATE = 24_000
"""Samples a second, as models speak."""
CHANNELS = 1
BIT_DEPTH = 16
ENCODING = "pcm_s16le"
SLOWEST, FASTEST = 8_000, 48_000

_CROSSINGS = 8
"""How many waves of the sinc are taken on each side."""
_PASSED = 0.92
"""How much of the band is kept: the rest is where the filter goes from all to nothing."""
_MAX_PHASES = 640
"""Places between two samples for which weights are kept: 22.05 kHz and all common rates are exact with it."""
_BANKS = 16
_LOUDEST = 32_767


def check_format(rate: int, channels: int, bit_depth: int) -> None:
    """Refuse what cannot be heard as it is."""
    if channels != CHANNELS:
        raise UnsupportedType(f"Sound has one channel, not {channels}.", hint="Mix the channels before sending.")
    if bit_depth != BIT_DEPTH:
        raise UnsupportedType(f"Sound has {BIT_DEPTH} bits a sample, little endian, not {bit_depth}.")
    if not SLOWEST <= rate <= FASTEST:
        raise UnsupportedType(f"Sound has {SLOWEST} to {FASTEST} samples a second, not {rate}.")


def check_samples(pcm: bytes) -> None:
    """Refuse half a sample: everything behind it would be noise."""
    if len(pcm) % 2:
        raise UnsupportedType(f"Sound has 2 bytes a sample, and {len(pcm)} bytes are no number of them.")


def milliseconds(pcm: bytes, rate: int) -> float:
    """How long a piece of sound takes."""
    return len(pcm) * 500 / rate


class Resampler:
    """One microphone: pieces of sound in, the same at 16 kHz out."""

    def __init__(self, rate: int) -> None:
        check_format(rate, CHANNELS, BIT_DEPTH)
        self.rate = rate
        self._reach = _reach(rate)
        self._kept: list[int] = [0] * (self._reach - 1)
        """The last samples, of which more is needed; silence before the first."""
        self._at = 0
        """Where the next sample of the result lies behind the first of these, in parts of 1/16000 of a sample."""

    def feed(self, pcm: bytes) -> bytes:
        """The next piece at 16 kHz. What needs samples that have not come yet follows with the next one."""
        check_samples(pcm)
        if self.rate == RATE:
            return pcm
        samples = [*self._kept, *struct.unpack(f"<{len(pcm) // 2}h", pcm)]
        made = self._made(samples)
        done = self._at // RATE
        self._kept = samples[done:]
        self._at -= done * RATE
        return struct.pack(f"<{len(made)}h", *made)

    def _made(self, samples: list[int]) -> list[int]:
        bank, width, made = _bank(self.rate), 2 * self._reach, list[int]()
        while (first := self._at // RATE) + width <= len(samples):
            weights = bank[self._at % RATE * len(bank) // RATE]
            made.append(_clipped(sum(map(mul, weights, samples[first : first + width]))))
            self._at += self.rate
        return made


def _clipped(value: float) -> int:
    return max(-_LOUDEST - 1, min(_LOUDEST, round(value)))


def _reach(rate: int) -> int:
    """How many samples on each side have a say."""
    return math.ceil(_CROSSINGS * max(rate, RATE) / RATE)


@lru_cache(_BANKS)
def _bank(rate: int) -> tuple[tuple[float, ...], ...]:
    """The weights of the samples around each place between two of them."""
    phases = min(RATE // math.gcd(RATE, rate), _MAX_PHASES)
    return tuple(_weights(rate, phase / phases) for phase in range(phases))


def _weights(rate: int, offset: float) -> tuple[float, ...]:
    reach, cutoff = _reach(rate), _PASSED * min(rate, RATE) / rate
    raw = [_weight(distance - offset, reach, cutoff) for distance in range(1 - reach, reach + 1)]
    total = sum(raw)
    return tuple(weight / total for weight in raw)


def _weight(distance: float, reach: int, cutoff: float) -> float:
    """The sinc at a distance, under a Hann window that ends it."""
    turned = math.pi * distance * cutoff
    sinc = math.sin(turned) / turned if turned else 1.0
    return sinc * (0.5 + 0.5 * math.cos(math.pi * distance / reach))
