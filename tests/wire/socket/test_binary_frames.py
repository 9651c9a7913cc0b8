"""Binary frames of a live socket, in both directions."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adkwire.errors import RequestError, TooLarge, Unprocessable, UnsupportedType
from adkwire.wire.decode.decoder import InputLimits
from adkwire.wire.socket.binary_frames import encode_audio, is_older
from adkwire.wire.socket.frames_in import (
    FrameLimits,
)
from adkwire.wire.socket.live_frames_in import (
    AudioFrame,
    LiveLimits,
    VideoFrame,
    binary_frame_type,
    decode_binary,
)
from tests.wire.pictures import jpeg, png

LIMITS = LiveLimits(FrameLimits(1_000, 10_000, InputLimits(20, 5_000, 10_000)), 640, 5_000)


def binary(kind: int, payload: bytes, flags: int = 0) -> bytes:
    return struct.pack("<BBHI", kind, flags, 7, 1_000) + payload


def test_binary_frames_of_a_client() -> None:
    assert decode_binary(binary(1, b"\1\0\2\0", flags=255), LIMITS) == AudioFrame(b"\1\0\2\0", 16_000)
    assert decode_binary(binary(1, b""), LIMITS) == AudioFrame(b"", 16_000)
    assert decode_binary(binary(2, jpeg(4, 4)), LIMITS) == VideoFrame(jpeg(4, 4), "image/jpeg")
    assert decode_binary(binary(3, png(4, 4)), LIMITS) == VideoFrame(png(4, 4), "image/png")


def test_a_binary_frame_has_the_type_of_its_text_frame() -> None:
    types = [binary_frame_type(binary(kind, b"")) for kind in (1, 2, 3)]
    assert types == ["audio_chunk", "video_frame", "video_frame"]
    assert {binary_frame_type(b""), binary_frame_type(binary(0, b"")), binary_frame_type(binary(9, b""))} == {"binary"}


@pytest.mark.parametrize(
    ("raw", "error", "words"),
    [
        (b"", Unprocessable, "a head of 8 bytes"),
        (bytes(7), Unprocessable, "a head of 8 bytes"),
        (binary(0, b""), Unprocessable, "kind 0"),
        (binary(4, b"x"), Unprocessable, "kind 4"),
        (binary(1, b"x"), UnsupportedType, "1 bytes"),
        (binary(1, bytes(642)), TooLarge, "at most 640"),
        (binary(2, png(4, 4)), UnsupportedType, "JPEG or a PNG"),
        (binary(3, png(4, 4) + bytes(5_000)), TooLarge, "at most 5000"),
    ],
)
def test_wrong_binary_frames(raw: bytes, error: type[RequestError], words: str) -> None:
    with pytest.raises(error, match=words):
        decode_binary(raw, LIMITS)


def test_binary_frames_of_the_server() -> None:
    frame = encode_audio(b"\1\2", 65_535, 2**32 - 1, last=True)
    assert frame == b"\1\1\xff\xff\xff\xff\xff\xff\1\2"
    assert struct.unpack("<BBHI", encode_audio(b"", 65_536 + 3, 2**32 + 4, last=False)) == (1, 0, 3, 4)


@pytest.mark.parametrize(
    ("generation", "than", "older"),
    [(1, 2, True), (2, 2, False), (3, 2, False), (65_535, 0, True), (0, 65_535, False), (65_000, 40, True)],
)
def test_generations_begin_at_0_again(generation: int, than: int, older: bool) -> None:
    assert is_older(generation, than) is older


@given(st.binary(max_size=700))
def test_random_bytes_are_decoded_or_refused(raw: bytes) -> None:
    for kind in (b"", b"\1", b"\2", b"\3"):
        try:
            frame = decode_binary(kind + raw, LIMITS)
        except RequestError:
            continue
        assert isinstance(frame, AudioFrame | VideoFrame)
