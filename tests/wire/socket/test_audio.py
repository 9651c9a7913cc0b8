"""Sound of any rate as models hear it: the same tone, without clicks, however it was cut."""

import math
import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adkwire.errors import UnsupportedType
from adkwire.wire.socket.audio import INPUT_RATE, Resampler, check_format, check_samples, milliseconds

RATES = [8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 47_999, 48_000]
LOUD = 16_000


def tone(frequency: float, rate: int, seconds: float = 0.25, loud: float = LOUD) -> bytes:
    samples = [round(loud * math.sin(2 * math.pi * frequency * n / rate)) for n in range(round(rate * seconds))]
    return struct.pack(f"<{len(samples)}h", *samples)


def samples_of(pcm: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(pcm) // 2}h", pcm)


def loudness(samples: tuple[int, ...]) -> float:
    return math.sqrt(sum(sample * sample for sample in samples) / len(samples))


def part(samples: tuple[int, ...], frequency: float) -> float:
    """Return the loudness of one frequency."""
    turn = 2 * math.pi * frequency / INPUT_RATE
    real = sum(sample * math.cos(turn * n) for n, sample in enumerate(samples))
    imaginary = sum(sample * math.sin(turn * n) for n, sample in enumerate(samples))
    return 2 * math.hypot(real, imaginary) / len(samples)


@pytest.mark.parametrize("rate", RATES)
def test_a_tone_stays_the_tone_it_was(rate: int) -> None:
    made = samples_of(Resampler(rate).feed(tone(440, rate)))
    assert abs(len(made) - INPUT_RATE // 4) <= 16
    steady = made[400:3_600]  # whole waves, behind the silence that it begins with
    assert part(steady, 440) == pytest.approx(LOUD, rel=0.01)
    assert loudness(steady) == pytest.approx(LOUD / math.sqrt(2), rel=0.01)


@pytest.mark.parametrize("rate", [24_000, 44_100, 48_000])
@pytest.mark.parametrize("frequency", [9_500, 11_000])
def test_what_16_khz_cannot_carry_does_not_come_back_as_noise(rate: int, frequency: int) -> None:
    made = samples_of(Resampler(rate).feed(tone(frequency, rate)))
    assert loudness(made[200:]) < LOUD / 100


@pytest.mark.parametrize("rate", RATES)
def test_a_steady_level_stays_as_it_is(rate: int) -> None:
    made = samples_of(Resampler(rate).feed(struct.pack("<h", -12_345) * (rate // 4)))
    assert set(made[100:]) == {-12_345}


def test_the_loudest_sound_does_not_turn_over() -> None:
    """A square wave swings over its own top when it is cut to the band."""
    square = struct.pack("<100h", *[32_767] * 50, *[-32_768] * 50) * 40
    made = samples_of(Resampler(48_000).feed(square))
    assert max(made) == 32_767
    assert min(made) == -32_768
    turns = sum((one < 0) is not (other < 0) for one, other in pairwise(made[100:]))
    assert turns == pytest.approx(2 * (len(made) - 100) / (100 / 3), abs=2)


def test_16_khz_passes_as_it_is() -> None:
    sound = tone(440, INPUT_RATE)
    assert Resampler(INPUT_RATE).feed(sound) is sound


@pytest.mark.parametrize("rate", [8_000, 44_100, 47_999, 48_000])
@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 2_000), max_size=12))
def test_pieces_make_the_same_sound_as_the_whole(rate: int, cuts: list[int]) -> None:
    whole = tone(440, rate, 0.04)
    edges = [0, *sorted(2 * cut for cut in cuts if 2 * cut < len(whole)), len(whole)]
    microphone = Resampler(rate)
    pieces = [microphone.feed(whole[start:end]) for start, end in pairwise(edges)]
    assert b"".join(pieces) == Resampler(rate).feed(whole)


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
def test_a_long_recording_neither_grows_nor_drifts(rate: int) -> None:
    microphone = Resampler(rate)
    piece = tone(440, rate, 0.02)
    made = sum(len(microphone.feed(piece)) for _ in range(500))
    assert abs(made - 2 * INPUT_RATE * 10) <= 64
    assert len(microphone._kept) < 60  # pyright: ignore[reportPrivateUsage] - what it keeps is the question


@pytest.mark.parametrize(
    ("rate", "channels", "depth", "words"),
    [
        (7_999, 1, 16, "8000 to 48000 samples per second, not 7999"),
        (48_001, 1, 16, "not 48001"),
        (-16_000, 1, 16, "not -16000"),
        (16_000, 2, 16, "one channel, not 2"),
        (16_000, 0, 16, "one channel, not 0"),
        (16_000, 1, 24, "16 bits per sample, little endian, not 24"),
        (16_000, 1, 8, "not 8"),
    ],
)
def test_formats_that_are_refused(rate: int, channels: int, depth: int, words: str) -> None:
    with pytest.raises(UnsupportedType, match=words):
        check_format(rate, channels, depth)


def test_the_lowest_and_the_highest_rate_are_accepted() -> None:
    check_format(8_000, 1, 16)
    check_format(48_000, 1, 16)
    with pytest.raises(UnsupportedType, match="samples per second"):
        Resampler(96_000)


def test_half_a_sample_is_refused() -> None:
    check_samples(b"")
    with pytest.raises(UnsupportedType, match="3 bytes are an odd number"):
        check_samples(b"abc")
    with pytest.raises(UnsupportedType):
        Resampler(16_000).feed(b"x")


def test_milliseconds() -> None:
    assert milliseconds(bytes(640), 16_000) == 20
    assert milliseconds(bytes(1_920), 48_000) == 20
    assert milliseconds(b"", 8_000) == 0
